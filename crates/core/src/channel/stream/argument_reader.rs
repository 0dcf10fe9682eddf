//! The reading end of an argument: how many batches wait, and when its writer may send the next.

use crate::mutant::{Mutant, mutated};

/// The number of batches that may wait to be read: one is read while another comes.
const BATCHES_MAX: usize = 2;

/// The error of a batch that came before the reply to the previous one, and thus without credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCredit;

/// The reply to a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The next batch may come.
    More,
    /// The reader wants no more items of the stream.
    Nothing,
}

/// The state of an argument's reading end.
///
/// ```
/// use upbeat_core::channel::stream::{ArgumentReader, Wanted};
///
/// let mut intake = ArgumentReader::default();
/// intake.handle_push(3, false).unwrap();
/// assert_eq!(intake.answer(), Some(Wanted::More));
/// intake.handle_push(3, false).unwrap();
/// // One batch is read, one waits, and there is no room for a third.
/// assert_eq!(intake.answer(), None);
/// intake.read_batch();
/// assert_eq!(intake.answer(), Some(Wanted::More));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgumentReader {
    /// The number of batches that came and were not read to their ends.
    waiting: usize,
    /// Whether no more batches will come.
    ended: bool,
    /// Whether the reader is gone.
    left: bool,
}

impl ArgumentReader {
    /// Returns whether a batch may come.
    pub fn has_room(&self) -> bool {
        self.waiting < BATCHES_MAX || mutated(Mutant::IntakeUnbounded)
    }

    /// Handles a batch of `items` items, which may be the last. Returns whether the batch is kept for a reader.
    ///
    /// # Errors
    /// Fails when the writer had no credit for the batch.
    pub fn handle_push(&mut self, items: usize, is_last: bool) -> Result<bool, NoCredit> {
        if !self.has_room() {
            return Err(NoCredit);
        }
        self.ended |= is_last;
        let is_kept = items > 0 && !self.left;
        self.waiting += is_kept as usize;
        Ok(is_kept)
    }

    /// Records that a batch was read to its end.
    pub fn read_batch(&mut self) {
        if mutated(Mutant::IntakeUncounted) {
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Handles the loss of the writer or of the session: no more batches will come. Returns whether the reader
    /// must be told the reason, unless the end has come already.
    pub fn break_off(&mut self) -> bool {
        let is_news = !self.ended && !mutated(Mutant::BreakUntold);
        self.ended = true;
        is_news
    }

    /// Records that the reader is gone, and drops the waiting batches.
    pub const fn leave(&mut self) {
        self.left = true;
        self.waiting = 0;
    }

    /// Returns the reply to the last push, or none while the push waits for the reader.
    pub fn answer(&self) -> Option<Wanted> {
        match self {
            ArgumentReader { left: true, .. } if mutated(Mutant::IntakeLeft) => Some(Wanted::More),
            ArgumentReader { left: true, .. } => Some(Wanted::Nothing),
            ArgumentReader { ended: true, .. } => Some(Wanted::More),
            _ if self.has_room() || mutated(Mutant::IntakeEarly) => Some(Wanted::More),
            _ => None,
        }
    }
}
