//! The reasons why tasks wait.

use upbeat_core::bill::Counter;
use upbeat_sync::Awaited;

/// The reason why a task waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A lock.
    Lock,
    /// A condition, or a signal.
    Condition,
    /// Room at a peer.
    Full,
    /// No event: the task has used up its time.
    Budget,
    /// A call.
    Call,
    /// A timer.
    Timer,
    /// An event outside of Upbeat.
    #[default]
    Other,
}

impl From<Awaited> for Reason {
    fn from(what: Awaited) -> Reason {
        match what {
            Awaited::Condition | Awaited::Signal | Awaited::Value => Reason::Condition,
            _ => Reason::Lock,
        }
    }
}

impl Reason {
    /// Returns the counter of handlers that this reason made tasks.
    #[inline(always)]
    pub(crate) const fn counter(self) -> Counter {
        const COUNTERS: [Counter; 7] = [
            Counter::PromotedByLock,
            Counter::PromotedByCondition,
            Counter::PromotedByFull,
            Counter::PromotedByBudget,
            Counter::PromotedByCall,
            Counter::PromotedByTimer,
            Counter::PromotedByOther,
        ];
        COUNTERS[self as usize]
    }

    /// Returns the reason in words, with the name of the lock or condition if it has one.
    pub(crate) fn text(self, name: Option<&str>) -> String {
        let what = match self {
            Reason::Lock => "a lock",
            Reason::Condition => "a condition",
            Reason::Full => "room at a peer",
            Reason::Budget => "its turn, after it had used up its time",
            Reason::Call => "a call",
            Reason::Timer => "a timer",
            Reason::Other => "something else",
        };
        match name {
            Some(name) => format!("{what}, `{name}`"),
            None => what.to_owned(),
        }
    }
}
