//! The bets: optimistic steps, and the counters of their outcomes.
//!
//! A bet is either won or lost, so the number of bets is the sum of both counts.

use super::Counter;

/// A bet on the common case.
#[derive(Debug, PartialEq, Eq)]
pub struct Bet {
    /// The name of the bet.
    pub name: &'static str,
    /// A sentence that describes what the runtime bets.
    pub sentence: &'static str,
    /// The counters of won bets. None if counting would take longer than what the bet saves.
    pub won: &'static [Counter],
    /// The counters of lost bets, each with the reason.
    pub lost: &'static [(Counter, &'static str)],
    /// Whether the counters in `won` also count the lost bets.
    pub won_includes_lost: bool,
}

/// The bet on handlers. A handler whose bet is lost becomes a task.
pub const HANDLERS: Bet = Bet {
    name: "handlers",
    sentence: "A handler finishes in its first poll, while its message is in the lane.",
    won: &[Counter::HandlersInline],
    lost: &[
        (Counter::PromotedByLock, "waited for a lock"),
        (Counter::PromotedByCondition, "waited for a condition"),
        (Counter::PromotedByFull, "a peer had no room"),
        (Counter::PromotedByBudget, "used up their time"),
        (Counter::PromotedByCall, "waited for a call"),
        (Counter::PromotedByTimer, "waited for a timer"),
        (Counter::PromotedByOther, "waited for something else"),
        (Counter::HandlersRefused, "were refused for a retry"),
        (Counter::HandlersEnded, "had to wait although their methods must not"),
    ],
    won_includes_lost: false,
};

/// All bets.
pub const BETS: &[Bet] = &[
    HANDLERS,
    Bet {
        name: "replies",
        sentence: "The waiter of a reply reads it in place.",
        won: &[Counter::RepliesInPlace],
        lost: &[(Counter::RepliesStashed, "the waiter was doing something else")],
        won_includes_lost: false,
    },
    Bet {
        name: "room",
        sentence: "The lane has room, so the sender does not ask first.",
        won: &[Counter::CallsSent, Counter::OnewaysSent],
        lost: &[
            (Counter::LaneFull, "the lane or the buffers were full"),
            (Counter::RoomAsked, "the request was long, or too many were on their way"),
        ],
        won_includes_lost: false,
    },
    Bet {
        name: "optimism",
        sentence: "The receiver has room for a request, so the sender does not ask first.",
        won: &[Counter::CallsSent, Counter::OnewaysSent],
        lost: &[(Counter::Refused, "the receiver had no room")],
        won_includes_lost: true,
    },
    Bet {
        name: "polling peers",
        sentence: "The peer polls, so the sender only writes the message or the reply.",
        won: &[Counter::CallsSent, Counter::OnewaysSent, Counter::HandlersInline],
        lost: &[(Counter::BellsSent, "the peer slept")],
        won_includes_lost: true,
    },
    Bet {
        name: "polls",
        sentence: "The node polls when a message comes, so the message need not wake it.",
        won: &[Counter::MessagesPolled],
        lost: &[(Counter::MessagesWoken, "the node slept")],
        won_includes_lost: false,
    },
    Bet {
        name: "slots",
        sentence: "A task of the same type has ended, so a new task starts in its slot.",
        won: &[Counter::TasksInKeptSlots],
        lost: &[(Counter::TasksInNewSlots, "there was no such slot")],
        won_includes_lost: false,
    },
    Bet {
        name: "reads",
        sentence: "The owner of an export does not change a value while it is read in memory.",
        won: &[],
        lost: &[
            (Counter::ReadsMeetingUpdates, "met an update"),
            (Counter::ReadsByCall, "became calls"),
        ],
        won_includes_lost: false,
    },
];

impl Bet {
    /// Returns how often the bet was won, given the value of every counter. `None` if nobody counts that.
    pub fn won(&self, count: impl Fn(Counter) -> u64) -> Option<u64> {
        if self.won.is_empty() {
            return None;
        }
        let won = self.won.iter().map(|counter| count(*counter)).sum::<u64>();
        Some(if self.won_includes_lost { won.saturating_sub(self.lost(count)) } else { won })
    }

    /// Returns how often the bet was lost.
    pub fn lost(&self, count: impl Fn(Counter) -> u64) -> u64 {
        self.lost.iter().map(|(counter, _)| count(*counter)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn won_and_lost_bets_add_up() {
        let count = |counter| match counter {
            Counter::CallsSent => 70,
            Counter::OnewaysSent => 30,
            Counter::BellsSent => 40,
            Counter::LaneFull => 7,
            Counter::ReadsByCall => 3,
            _ => 0,
        };
        let of = |name| BETS.iter().find(|bet| bet.name == name).expect("a bet of this name");
        assert_eq!(
            (of("polling peers").won(count), of("polling peers").lost(count)),
            (Some(60), 40)
        );
        assert_eq!((of("room").won(count), of("room").lost(count)), (Some(100), 7));
        assert_eq!((of("handlers").won(count), of("handlers").lost(count)), (Some(0), 0));
        assert_eq!((of("reads").won(count), of("reads").lost(count)), (None, 3));
    }

    #[test]
    fn every_bet_has_reasons_for_losing_it() {
        for bet in BETS {
            assert!(bet.sentence.ends_with('.') && !bet.lost.is_empty());
        }
    }
}
