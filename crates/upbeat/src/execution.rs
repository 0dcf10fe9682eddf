//! Executions of handlers: as active messages, optimistically, as tasks, or adaptively.
//!
//! A handler is written once and can be run in four ways, so that one program can compare them.
//! `service` runs handlers; this module defines the choice. Invariant: with any choice,
//! a call is run at most once and gets one reply.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// How a node runs the handlers of its methods. `#[method(execution = "…")]` sets it for one
/// method.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{Execution, Node};
///
/// // To measure what optimism gains: a task for each request.
/// let builder = Node::builder("doc/execution").execution(Execution::Trpc);
/// let node = builder.local_only().build()?;
/// assert_eq!("trpc".parse(), Ok(Execution::Trpc));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Execution {
    /// Active messages: a handler runs where its message lies, and must not wait. A handler that would wait is
    /// ended, and its caller gets
    /// [`FailCode::WouldWait`](crate::error::FailCode::WouldWait).
    Am,
    /// Optimistically: a handler runs where its message lies, and continues as a task if it has to
    /// wait.
    #[default]
    Orpc,
    /// A task for each request, in front of the tasks that are ready to run.
    Trpc,
    /// A task for each request, behind the tasks that are ready to run.
    TrpcBack,
    /// Optimistically while that pays: a method whose handlers mostly have to wait is run as
    /// [`Execution::Trpc`], and tried again now and then. Requests of such a method begin behind
    /// other requests that arrived in the same turn, so there is no order between methods.
    Adaptive,
}

impl Execution {
    /// All executions, with their names.
    const ALL: [(Execution, &str); 5] = [
        (Execution::Am, "am"),
        (Execution::Orpc, "orpc"),
        (Execution::Trpc, "trpc"),
        (Execution::TrpcBack, "trpc-back"),
        (Execution::Adaptive, "adaptive"),
    ];
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Execution::ALL.iter().find(|(execution, _)| execution == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Execution {
    type Err = UnknownExecution;

    fn from_str(text: &str) -> Result<Execution, UnknownExecution> {
        let named = Execution::ALL.iter().find(|(_, name)| *name == text);
        named.map(|(execution, _)| *execution).ok_or_else(|| UnknownExecution(text.to_owned()))
    }
}

/// A text that names no [`Execution`].
///
/// ```
/// use upbeat::Execution;
///
/// let error = "rpc".parse::<Execution>().unwrap_err();
/// assert!(error.to_string().starts_with("`rpc` is no execution"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownExecution(String);

impl fmt::Display for UnknownExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Execution::ALL.map(|(_, name)| name).join(", ");
        write!(f, "`{}` is no execution: write one of {names}", self.0)
    }
}

impl std::error::Error for UnknownExecution {}

/// A share of 1.
const WHOLE: u32 = 1 << 16;
/// The share of lost bets from which on a task for each request is cheaper: a lost bet costs little
/// more than such a task, and a won bet half of it.
const HOPELESS: u32 = WHOLE / 8 * 7;
/// The number of recent bets that the share covers, as a power of two.
const MEMORY: u32 = 5;
/// One of so many requests of a hopeless method is a bet.
const TRIAL: u32 = 32;

/// The recent bets of a method.
#[derive(Debug, Default)]
pub(crate) struct Luck {
    /// The share of lost bets, of [`WHOLE`].
    lost: Cell<u32>,
    /// The requests until the next bet of a hopeless method.
    until_trial: Cell<u32>,
}

impl Luck {
    /// Decides whether the next request is a bet.
    #[inline]
    pub(crate) fn bets(&self) -> bool {
        if self.lost.get() < HOPELESS {
            return true;
        }
        let left = self.until_trial.get();
        self.until_trial.set(left.checked_sub(1).unwrap_or(TRIAL));
        left == 0
    }

    /// Counts a bet that was won.
    #[inline]
    pub(crate) fn won(&self) {
        self.lost.set(self.lost.get() - (self.lost.get() >> MEMORY));
        // The next request is a bet as well, since it may be won too.
        self.until_trial.set(0);
    }

    /// Counts a bet that was lost.
    #[inline]
    pub(crate) fn lost(&self) {
        self.lost.set(self.lost.get() + ((WHOLE - self.lost.get()) >> MEMORY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of so many requests are bets, where `loses` tells which bets are lost.
    fn bets(luck: &Luck, requests: u32, loses: impl Fn(u32) -> bool) -> u32 {
        let mut bets = 0;
        for request in 0..requests {
            if luck.bets() {
                bets += 1;
                if loses(request) { luck.lost() } else { luck.won() }
            }
        }
        bets
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (execution, _) in Execution::ALL {
            assert_eq!(execution.to_string().parse(), Ok(execution));
        }
        assert!("TRPC".parse::<Execution>().is_err());
    }

    #[test]
    fn what_mostly_loses_is_hardly_bet_on_and_what_wins_again_is() {
        let luck = Luck::default();
        bets(&luck, 200, |_| true);
        let tried = bets(&luck, 3_300, |_| true);
        assert!((90..=110).contains(&tried), "{tried}");
        // From here on, bets are won: after a trial, each request is a bet again.
        let tried = bets(&luck, 1_000, |_| false);
        assert!(tried > 950, "{tried}");
    }

    #[test]
    fn what_loses_half_of_its_bets_is_bet_on() {
        for one_in in [2, 3, 10] {
            let luck = Luck::default();
            assert_eq!(bets(&luck, 10_000, |request| request % one_in == 0), 10_000);
        }
    }
}
