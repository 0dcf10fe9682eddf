//! The outcome of a call whose session is lost before its reply has come.

use crate::mutant::{Mutant, mutated};

/// The outcome of a call without a reply whose session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The call was never sent, so it has not run.
    NotSent,
    /// The call was sent, so it may have run.
    Unknown,
}

impl Ending {
    /// Returns the outcome of a call that was sent or not.
    ///
    /// ```
    /// use upbeat_core::channel::call::Ending;
    ///
    /// assert_eq!(Ending::of(true), Ending::Unknown);
    /// assert_eq!(Ending::of(false), Ending::NotSent);
    /// ```
    pub fn of(is_sent: bool) -> Ending {
        match is_sent {
            true if mutated(Mutant::SentToldUnsent) => Ending::NotSent,
            false if mutated(Mutant::UnsentToldUnknown) => Ending::Unknown,
            true => Ending::Unknown,
            false => Ending::NotSent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_have_run_if_it_was_sent() {
        assert_eq!([true, false].map(Ending::of), [Ending::Unknown, Ending::NotSent]);
    }
}
