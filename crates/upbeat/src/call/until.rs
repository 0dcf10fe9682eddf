//! Deadlines of calls.

use crate::session::Extensions;
use std::time::Duration;
use upbeat_core::term::Term;
use upbeat_memory::ticks::nanoseconds;

/// The deadline of a call, by the clock of its [`Route`](super::Route).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub(crate) end: u64,
    /// The latest time to which the callee may ask to extend the deadline, if it may ask.
    pub(crate) most: Option<u64>,
}

impl Until {
    /// Returns a deadline that cannot be extended.
    pub(crate) fn after(now: u64, time: Duration) -> Until {
        Until { end: now.saturating_add(nanoseconds(time)), most: None }
    }

    /// Returns the same deadline, which may be extended until `total` is over.
    pub(crate) fn extendable(self, now: u64, total: Duration) -> Until {
        Until { most: Some(now.saturating_add(nanoseconds(total))), ..self }
    }

    /// Moves the deadline to the end that its callee was granted, if it may ask.
    pub(crate) fn put_off(&mut self, end: impl FnOnce() -> Option<u64>) {
        if self.most.is_some() {
            self.end = end().unwrap_or(self.end);
        }
    }

    /// Returns whether the time is over.
    pub(crate) fn is_over(self, now: u64) -> bool {
        now >= self.end
    }

    /// Returns the nanoseconds that are left.
    pub(crate) fn left(self, now: u64) -> u64 {
        self.end.saturating_sub(now)
    }

    /// Returns the extensions of the call's request: the time that is left. A begun microsecond counts, so that the
    /// callee ends nothing before its time.
    pub(crate) fn extensions(self, now: u64) -> Extensions {
        let left = |end| Until { end, most: None }.left(now).div_ceil(1000);
        let (deadline, extendable) = (Some(left(self.end)), self.most.map(left));
        Extensions { deadline, extendable, ..Extensions::NONE }
    }

    /// Returns the term by which a handle answers a callee that asks for more time, if the callee may ask.
    pub(crate) fn term(self) -> Option<Term> {
        self.most.map(|most| Term::new(self.end, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_travels_as_no_less_time_than_is_left() {
        let until = Until::after(0, Duration::from_nanos(5_000_999));
        assert_eq!(until.extensions(0).deadline, Some(5_001));
        assert_eq!(until.extensions(5_000_999).deadline, Some(0));
    }
}
