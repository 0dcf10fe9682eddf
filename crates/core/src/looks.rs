//! How often a node looks at what costs a system call to look at: the sockets of its sessions over byte streams.
//!
//! A look at a lane in memory costs next to nothing, and a node makes it again and again. A look at a socket has to pay for
//! itself: the longer a socket has been silent since another session was used, the fewer rounds of looks contain it. One
//! that stays silent is left to the epoll, where one look serves all sockets. The looks into the epoll begin once a round
//! passes over a socket, and are as far apart as their cost demands; those of a busy node move further apart as no socket
//! is used.
//! Invariant: each round looks at a socket until another session has been used more recently.

/// A socket that has been silent for so many rounds, times a number, is passed over for this number of rounds.
const SILENCE_PARTS: u64 = 32;

/// The rounds after which a silent socket is left to the epoll.
const SILENT_ROUNDS: u64 = 4_096;

/// Two looks into the epoll are at least so many times their usual cost apart.
const EPOLL_PARTS: u64 = 20;

/// Two looks of a busy node are at least the time since a socket began to rest apart, divided by this.
const EPOLL_SILENCE_PARTS: u64 = 2_048;

/// The looks at the socket of one session. Times are counted in the node's rounds of looks.
///
/// ```
/// use upbeat_core::looks::Looks;
///
/// let mut looks = Looks::new(100);
/// assert!(looks.take_due(200, 100), "no other session was used since");
/// let others_used = 10_000;
/// assert!(looks.take_due(10_000, others_used));
/// assert!(!looks.take_due(10_001, others_used) && looks.take_due(10_400, others_used));
/// assert!(looks.begins_to_rest() && !looks.begins_to_rest());
/// assert!(looks.is_silent(10_401, others_used));
/// looks.used(10_500);
/// assert!(!looks.is_silent(10_501, 10_501));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    used: u64,
    due: u64,
    /// Whether a round has passed over the socket since.
    rests: bool,
}

impl Looks {
    /// Returns the looks at a socket that is used now.
    #[must_use]
    pub const fn new(now: u64) -> Looks {
        Looks { used: now, due: now, rests: false }
    }

    /// Notes that the session is used: frames come or go, or output waits.
    pub const fn used(&mut self, now: u64) {
        *self = Looks::new(now);
    }

    /// Returns whether this round looks at the socket. `others` is the round in which any session was last used.
    pub const fn take_due(&mut self, now: u64, others: u64) -> bool {
        if others <= self.used {
            return true;
        }
        let is_due = now >= self.due;
        if is_due {
            self.due = now + now.saturating_sub(self.used) / SILENCE_PARTS;
        }
        is_due
    }

    /// Notes that a round passes over the socket. Returns whether it is the first one since the socket was used.
    pub const fn begins_to_rest(&mut self) -> bool {
        !core::mem::replace(&mut self.rests, true)
    }

    /// Returns whether the socket has been silent for so long, since another session was used, that the epoll may look at it.
    #[must_use]
    pub const fn is_silent(&self, now: u64, others: u64) -> bool {
        others > self.used && now.saturating_sub(self.used) >= SILENT_ROUNDS
    }
}

/// Whether a node that is awake has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Messages come, or tasks run.
    Busy,
    /// A turn has found nothing.
    Idle,
}

/// The looks of a node that is awake into its epoll. Times are nanoseconds, or any other unit.
///
/// A node asks at the end of some turns whether a look is due. It is told after how many turns to ask again, because
/// nobody reads the clock in each turn.
///
/// ```
/// use upbeat_core::looks::{Activity::{Busy, Idle}, EpollLooks};
///
/// let mut looks = EpollLooks::new(1_000_000);
/// assert_eq!(looks.interval(5_000_000_000, Idle), 1_000_000, "no socket rests");
/// looks.rests(5_000_000_000);
/// looks.looked(5_000_000_000, 250);
/// assert_eq!(looks.interval(5_000_000_000, Busy), 5_000);
/// assert!(!looks.is_due(5_000_004_999, Busy) && looks.is_due(5_000_005_000, Busy));
/// assert_eq!(looks.interval(5_100_000_000, Busy), 48_828, "a part of the silence");
/// assert_eq!(looks.interval(5_100_000_000, Idle), 5_000);
/// looks.turns_to_next(5_000_000_000, 1, Busy);
/// assert_eq!(looks.turns_to_next(5_000_001_000, 4, Busy), 16, "a turn takes 250");
/// assert_eq!(looks.turns_to_next(5_000_005_000, 1, Busy), 0, "a look is due");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollLooks {
    longest: u64,
    /// When rounds last began to pass over a socket, if they did.
    rests: Option<u64>,
    looked: u64,
    /// The cost of a look that nothing interrupts.
    cost: u64,
    /// When the node was last told after how many turns to ask again.
    asked: u64,
}

impl EpollLooks {
    /// Returns the looks of a node that makes at least one in each `longest` interval.
    #[must_use]
    pub const fn new(longest: u64) -> EpollLooks {
        EpollLooks { longest, rests: None, looked: 0, cost: 0, asked: 0 }
    }

    /// Notes that rounds begin to pass over a socket.
    pub const fn rests(&mut self, now: u64) {
        self.rests = Some(now);
    }

    /// Notes a look that has just ended, and what it cost. An interruption may have made it long: the cost that counts
    /// rises slowly, and falls at once.
    pub const fn looked(&mut self, now: u64, cost: u64) {
        self.looked = now;
        let most = self.cost + self.cost / 16 + 1;
        self.cost = if self.cost == 0 || cost < most { cost } else { most };
    }

    /// Returns the time between two looks. An idle node delays nobody by a look.
    #[must_use]
    pub const fn interval(&self, now: u64, activity: Activity) -> u64 {
        let Some(rests) = self.rests else { return self.longest };
        let silence = match activity {
            Activity::Busy => now.saturating_sub(rests) / EPOLL_SILENCE_PARTS,
            Activity::Idle => 0,
        };
        let pays = self.cost * EPOLL_PARTS;
        let interval = if silence > pays { silence } else { pays };
        if interval < self.longest { interval } else { self.longest }
    }

    /// Returns whether rounds have ever passed over a socket.
    #[must_use]
    pub const fn has_rested(&self) -> bool {
        self.rests.is_some()
    }

    /// Returns whether a look is due.
    #[must_use]
    pub const fn is_due(&self, now: u64, activity: Activity) -> bool {
        now.saturating_sub(self.looked) >= self.interval(now, activity)
    }

    /// Returns after how many turns to ask again, if they take as long as the last ones: `turns` since the last call.
    pub const fn turns_to_next(&mut self, now: u64, turns: u32, activity: Activity) -> u32 {
        let took = now.saturating_sub(self.asked) / if turns == 0 { 1 } else { turns as u64 };
        self.asked = now;
        let left = self.interval(now, activity).saturating_sub(now.saturating_sub(self.looked));
        let turns = left / if took == 0 { 1 } else { took };
        if turns < u32::MAX as u64 { turns as u32 } else { u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks that a socket costs which is used once and then silent beside busy sessions, and the part of its
    /// silence for which its next message waits.
    #[test]
    fn a_silent_socket_costs_few_looks_and_its_next_message_waits_for_a_part_of_the_silence() {
        let (mut looks, mut made, mut last) = (Looks::new(0), 0, 0);
        for now in 1..SILENT_ROUNDS {
            assert!(!looks.is_silent(now, now));
            if looks.take_due(now, now) {
                assert!(now - last <= last / SILENCE_PARTS + 1, "{now} follows {last}");
                (made, last) = (made + 1, now);
            }
        }
        assert!(made < 300, "{made} looks");
        assert!(looks.is_silent(SILENT_ROUNDS, 1) && !looks.is_silent(SILENT_ROUNDS, 0));
    }

    #[test]
    fn an_interrupted_look_hardly_makes_the_next_ones_rarer() {
        let mut looks = EpollLooks::new(1_000_000);
        looks.rests(0);
        looks.looked(0, 200);
        looks.looked(0, 80_000);
        assert!(looks.interval(0, Activity::Busy) < 4_500);
        looks.looked(0, 150);
        assert_eq!(looks.interval(0, Activity::Busy), 3_000);
        (0..1_000).for_each(|_| looks.looked(0, 80_000));
        assert_eq!(
            looks.interval(0, Activity::Idle),
            1_000_000,
            "looks that always cost as much are rare"
        );
    }
}
