//! The bets: optimistic steps, and which counters say how they ended.
//!
//! A bet is won or lost, never both, so it was taken as often as both together.

use super::Counter;

/// A bet on the common case.
#[derive(Debug, PartialEq, Eq)]
pub struct Bet {
    /// Its name.
    pub name: &'static str,
    /// A sentence that says what the runtime bets.
    pub sentence: &'static str,
    /// The counters that count how often it was won.
    pub won: &'static [Counter],
    /// The counters that count how often it was lost, and why.
    pub lost: &'static [(Counter, &'static str)],
    /// Whether the counters of `won` include those of `lost`.
    pub won_includes_lost: bool,
}

/// The bet on handlers: lost, they become tasks.
pub const HANDLERS: Bet = Bet {
    name: "handlers",
    sentence: "A handler is done when it is polled where its message lies.",
    won: &[Counter::HandlersInline],
    lost: &[
        (Counter::PromotedByLock, "waited for a lock"),
        (Counter::PromotedByCondition, "waited for a condition"),
        (Counter::PromotedByFull, "a peer had no room"),
        (Counter::PromotedByBudget, "used up their time"),
        (Counter::PromotedByCall, "waited for a call"),
        (Counter::PromotedByTimer, "waited for a timer"),
        (Counter::PromotedByOther, "waited for something else"),
        (Counter::HandlersRefused, "were sent back to their callers"),
        (Counter::HandlersEnded, "would have waited, and may not"),
    ],
    won_includes_lost: false,
};

/// All bets.
pub const BETS: &[Bet] = &[
    HANDLERS,
    Bet {
        name: "answers",
        sentence: "Who waits for an answer takes it where it lies.",
        won: &[Counter::RepliesInPlace],
        lost: &[(Counter::RepliesStashed, "its waiter was elsewhere")],
        won_includes_lost: false,
    },
    Bet {
        name: "room",
        sentence: "There is room in the lane, so nobody asks before sending.",
        won: &[Counter::CallsSent, Counter::OnewaysSent],
        lost: &[
            (Counter::LaneFull, "the lane or the buffers were full"),
            (Counter::RoomAsked, "it was long, or too many were on their way"),
        ],
        won_includes_lost: false,
    },
    Bet {
        name: "optimism",
        sentence: "The receiver has room for a request, so it is sent before that is known.",
        won: &[Counter::CallsSent, Counter::OnewaysSent],
        lost: &[(Counter::Refused, "the receiver had none")],
        won_includes_lost: true,
    },
    Bet {
        name: "promises",
        sentence: "The peer looks by itself, so a message or an answer is only written.",
        won: &[Counter::CallsSent, Counter::OnewaysSent, Counter::HandlersInline],
        lost: &[(Counter::BellsSent, "the peer slept")],
        won_includes_lost: true,
    },
    Bet {
        name: "polls",
        sentence: "The node looks when a message comes, so it need not be woken.",
        won: &[Counter::MessagesPolled],
        lost: &[(Counter::MessagesWoken, "the node slept")],
        won_includes_lost: false,
    },
    Bet {
        name: "slots",
        sentence: "A task of the same type has ended, so a new one starts in its slot.",
        won: &[Counter::TasksInKeptSlots],
        lost: &[(Counter::TasksInNewSlots, "there was none")],
        won_includes_lost: false,
    },
];

impl Bet {
    /// How often it was won, given what every counter says.
    pub fn won(&self, count: impl Fn(Counter) -> u64) -> u64 {
        let won = self.won.iter().map(|counter| count(*counter)).sum::<u64>();
        if self.won_includes_lost { won.saturating_sub(self.lost(count)) } else { won }
    }

    /// How often it was lost.
    pub fn lost(&self, count: impl Fn(Counter) -> u64) -> u64 {
        self.lost.iter().map(|(counter, _)| count(*counter)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn won_and_lost_are_what_was_taken() {
        let count = |counter| match counter {
            Counter::CallsSent => 70,
            Counter::OnewaysSent => 30,
            Counter::BellsSent => 40,
            Counter::LaneFull => 7,
            _ => 0,
        };
        let of = |name| BETS.iter().find(|bet| bet.name == name).expect("it is listed");
        assert_eq!((of("promises").won(count), of("promises").lost(count)), (60, 40));
        assert_eq!((of("room").won(count), of("room").lost(count)), (100, 7));
        assert_eq!((of("handlers").won(count), of("handlers").lost(count)), (0, 0));
    }

    #[test]
    fn every_bet_can_be_lost_and_says_why() {
        for bet in BETS {
            assert!(bet.sentence.ends_with('.') && !bet.won.is_empty() && !bet.lost.is_empty());
        }
    }
}
