//! The time of a call whose callee may ask its caller for more.
//!
//! Other modules have the frames, the sessions, and the calls whose time is over; times are arguments. Invariant:
//! an end never moves back, never beyond the most that the caller gave, and never beyond the end of the call for
//! which this one is made.

use crate::mutant::{Mutant, mutated};

/// The answer to a question, or the next question to ask.
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
    /// The call ends then.
    Granted(u64),
    /// The call may last until then if the call for which it is made does, so that call's caller must be asked.
    Above(u64),
    /// The call is not extended.
    Refused,
}

impl Step {
    /// Returns the time that the call now has, for the callee, or none if the call was not extended.
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

/// The end of a call, and how far it may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    end: u64,
    most: u64,
}

impl Term {
    /// Creates the term of a call that ends at `end`, and may last until `most`.
    ///
    /// ```
    /// use upbeat_core::term::Term;
    ///
    /// assert_eq!(Term::new(100, 300).end(), 100);
    /// ```
    pub const fn new(end: u64, most: u64) -> Term {
        Term { end, most: if most < end { end } else { most } }
    }

    /// Returns the end of the call.
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

    /// Handles the callee's request for time until `wanted`. `above` is the end of the call for which this one is
    /// made, if that end may be moved too.
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

    /// Handles the callee's request after the question above was answered: that call ends at `above`.
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
    fn time_within_the_term_is_granted_and_more_is_asked_above() {
        let mut term = Term::new(100, 300);
        assert_eq!(term.extend(50, Some(100)), Step::Granted(100));
        assert_eq!(term.extend(200, Some(100)), Step::Above(200));
        assert_eq!(term.end(), 100);
        // A time beyond the most is not asked for above either.
        assert_eq!(term.extend(900, Some(100)), Step::Above(300));
        assert_eq!(term.extend(900, Some(300)), Step::Granted(300));
        assert_eq!(Term::new(100, 0).extend(101, None), Step::Refused);
    }

    proptest! {
        /// For any questions in any order: no end is beyond the most, moves back, or is later than requested.
        #[test]
        fn an_end_never_moves_back_or_too_far(
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
