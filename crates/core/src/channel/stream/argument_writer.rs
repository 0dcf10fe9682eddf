//! The writing end of an argument: whether the next batch is sent, and what its reader is told.

use super::{CallerEnd, Control, Wanted};
use crate::mutant::{Mutant, mutated};

/// The state of an argument's writing end. Each batch is sent after the reply to the one before.
///
/// ```
/// use upbeat_core::channel::stream::{CallerEnd, ArgumentWriter, Wanted};
///
/// let mut feed = ArgumentWriter::default();
/// feed.begin_push(false);
/// assert!(feed.handle_answer(Wanted::More));
/// feed.begin_push(true);
/// assert!(!feed.handle_answer(Wanted::More), "the batch was the last");
/// assert_eq!(feed.leave(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgumentWriter {
    /// Whether the last batch was sent.
    is_last: bool,
    /// Whether the reader knows that no more batches come, or wants none.
    is_over: bool,
}

impl ArgumentWriter {
    /// Records that a batch is sent, which may be the last.
    pub const fn begin_push(&mut self, is_last: bool) {
        self.is_last = is_last;
    }

    /// Handles the reply to the push. Returns whether the next batch must be sent.
    pub fn handle_answer(&mut self, wanted: Wanted) -> bool {
        let is_last = self.is_last && !mutated(Mutant::FeedBehindEnd);
        let is_unwanted = wanted == Wanted::Nothing && !mutated(Mutant::FeedUnwanted);
        self.is_over = is_last || is_unwanted || mutated(Mutant::FeedStops);
        !self.is_over
    }
}

impl CallerEnd for ArgumentWriter {
    fn leave(&mut self) -> Option<Control> {
        let is_over = core::mem::replace(&mut self.is_over, true);
        (!is_over && !mutated(Mutant::AbandonUntold)).then_some(Control::Abandon)
    }
}
