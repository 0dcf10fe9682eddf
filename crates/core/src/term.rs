//! How long a call may last, where its callee may ask its caller to have that extended.
//!
//! Frames, sessions, and what becomes of a call whose time is over are left to others; times are an
//! argument. Invariant: an end never moves back, never beyond the most that the caller gave,
//! and never beyond the end of the call for which this one is made.

use crate::mutant::{Mutant, mutated};

/// The answer to a question, or the next one to ask.
///
/// ```
/// use upbeat_core::term::{Step, Term};
///
/// let mut term = Term::new(100, 300);
/// assert_eq!(term.extend(250, None), Step::Granted(250));
/// assert_eq!(term.extend(900, None), Step::Granted(300));
/// assert_eq!(term.extend(900, None), Step::Refused);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call ends then, or later than was asked for.
    Granted(u64),
    /// It may last until then if the call for which it is made does: its caller is to be asked.
    Above(u64),
    /// It lasts no longer than it would have.
    Refused,
}

impl Step {
    /// Returns the time that the callee is told: that which the call has now. None if it has no more than
    /// it had.
    ///
    /// ```
    /// use upbeat_core::term::Step;
    ///
    /// assert_eq!(Step::Granted(250).left(100), Some(150));
    /// assert_eq!(Step::Refused.left(100), None);
    /// ```
    pub const fn left(self, now: u64) -> Option<u64> {
        match self {
            Step::Granted(end) => Some(end.saturating_sub(now)),
            Step::Above(_) | Step::Refused => None,
        }
    }
}

/// When a call ends, and how far that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    end: u64,
    most: u64,
}

impl Term {
    /// A call that ends then, and may last until `most`.
    ///
    /// ```
    /// use upbeat_core::term::Term;
    ///
    /// assert_eq!(Term::new(100, 300).end(), 100);
    /// ```
    pub const fn new(end: u64, most: u64) -> Term {
        Term { end, most: if most < end { end } else { most } }
    }

    /// When it ends.
    ///
    /// ```
    /// use upbeat_core::term::{Step, Term};
    ///
    /// let mut term = Term::new(100, 300);
    /// assert_eq!((term.extend(200, None), term.end()), (Step::Granted(200), 200));
    /// ```
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The callee wants it to last until `wanted`. `above` is the end of the call for which it is
    /// made, if that one's may be moved too.
    ///
    /// ```
    /// use upbeat_core::term::{Step, Term};
    ///
    /// let mut term = Term::new(100, 300);
    /// assert_eq!(term.extend(250, Some(120)), Step::Above(250));
    /// assert_eq!(term.settle(250, 200), Step::Granted(200));
    /// ```
    pub fn extend(&mut self, wanted: u64, above: Option<u64>) -> Step {
        let most = wanted.min(self.most());
        match above {
            Some(above) if above < most && !mutated(Mutant::TermAboveUnasked) => Step::Above(most),
            _ => self.settle(wanted, u64::MAX),
        }
    }

    /// The same when the caller's own caller has been asked, and that call ends at `above`.
    ///
    /// ```
    /// use upbeat_core::term::{Step, Term};
    ///
    /// assert_eq!(Term::new(100, 300).settle(250, 100), Step::Refused);
    /// ```
    pub fn settle(&mut self, wanted: u64, above: u64) -> Step {
        let above = if mutated(Mutant::TermAboveUnheard) { u64::MAX } else { above };
        let next = wanted.min(self.most()).min(above);
        if next <= self.end {
            return if wanted <= self.end { Step::Granted(self.end) } else { Step::Refused };
        }
        if !mutated(Mutant::CallerLeaves) {
            self.end = next;
        }
        Step::Granted(next)
    }

    fn most(&self) -> u64 {
        if mutated(Mutant::TermBeyondMost) { u64::MAX } else { self.most }
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, Term};
    use proptest::prelude::*;

    #[test]
    fn what_it_has_is_granted_and_more_is_asked_above() {
        let mut term = Term::new(100, 300);
        assert_eq!(term.extend(50, Some(100)), Step::Granted(100));
        assert_eq!(term.extend(200, Some(100)), Step::Above(200));
        assert_eq!(term.end(), 100);
        // What lies beyond the most is not asked for above either.
        assert_eq!(term.extend(900, Some(100)), Step::Above(300));
        assert_eq!(term.extend(900, Some(300)), Step::Granted(300));
        assert_eq!(Term::new(100, 0).extend(101, None), Step::Refused);
    }

    proptest! {
        /// Whatever is asked, in any order: no end beyond the most, none back, and none that was not
        /// asked for.
        #[test]
        fn no_end_goes_back_or_too_far(
            end in 0..1000_u64,
            more in 0..1000_u64,
            asked in proptest::collection::vec((0..3000_u64, proptest::option::of(0..3000_u64)), 0..20),
        ) {
            let mut term = Term::new(end, end + more);
            for (wanted, above) in asked {
                let before = term.end();
                let step = match term.extend(wanted, above) {
                    Step::Above(want) => {
                        prop_assert!(above.is_some_and(|above| above < want && want <= wanted));
                        term.settle(wanted, above.unwrap_or(0))
                    }
                    step => step,
                };
                prop_assert!(term.end() >= before && term.end() <= end + more);
                prop_assert!(term.end() == before || term.end() <= wanted);
                prop_assert!(term.end() == before || above.is_none_or(|above| term.end() <= above));
                match step {
                    Step::Granted(at) => prop_assert_eq!(at, term.end()),
                    Step::Refused => prop_assert_eq!(before, term.end()),
                    Step::Above(_) => prop_assert!(false, "asked twice"),
                }
            }
        }
    }
}
