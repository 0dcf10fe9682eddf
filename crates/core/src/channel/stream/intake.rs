//! The reading end of an argument: how many batches wait there, and when its writer may bring the next.

use crate::mutant::{Mutant, mutated};

/// Batches that wait to be read: one is read while another comes.
const BATCHES_MAX: usize = 2;

/// A batch came before the answer to the one before: its writer had no credit for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCredit;

/// The answer to a push.
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
/// use upbeat_core::channel::stream::{Intake, Wanted};
///
/// let mut intake = Intake::default();
/// intake.handle_push(3, false).unwrap();
/// assert_eq!(intake.answer(), Some(Wanted::More));
/// intake.handle_push(3, false).unwrap();
/// // One batch is read, one waits, and there is no room for a third.
/// assert_eq!(intake.answer(), None);
/// intake.read_batch();
/// assert_eq!(intake.answer(), Some(Wanted::More));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Batches that came and were not read to their ends.
    waiting: usize,
    /// No more will come.
    ended: bool,
    /// The reader is gone.
    left: bool,
}

impl Intake {
    /// Returns whether a batch may come.
    pub fn has_room(&self) -> bool {
        self.waiting < BATCHES_MAX || mutated(Mutant::IntakeUnbounded)
    }

    /// A batch of so many items came, which is the last or not. Returns whether it is kept for a reader.
    ///
    /// # Errors
    /// Where its writer had no credit for it.
    pub fn handle_push(&mut self, items: usize, is_last: bool) -> Result<bool, NoCredit> {
        if !self.has_room() {
            return Err(NoCredit);
        }
        self.ended |= is_last;
        let is_kept = items > 0 && !self.left;
        self.waiting += is_kept as usize;
        Ok(is_kept)
    }

    /// A batch was read to its end.
    pub fn read_batch(&mut self) {
        if mutated(Mutant::IntakeUncounted) {
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// The writer is gone, or the session: no more will come. Returns whether the reader has to be told why, which
    /// it has not if the end is here already.
    pub fn break_off(&mut self) -> bool {
        let is_news = !self.ended && !mutated(Mutant::BreakUntold);
        self.ended = true;
        is_news
    }

    /// The reader is gone, with the batches that waited.
    pub const fn leave(&mut self) {
        self.left = true;
        self.waiting = 0;
    }

    /// Returns the answer to the push that came last. None while it has to wait for the reader.
    pub fn answer(&self) -> Option<Wanted> {
        match self {
            Intake { left: true, .. } if mutated(Mutant::IntakeLeft) => Some(Wanted::More),
            Intake { left: true, .. } => Some(Wanted::Nothing),
            Intake { ended: true, .. } => Some(Wanted::More),
            _ if self.has_room() || mutated(Mutant::IntakeEarly) => Some(Wanted::More),
            _ => None,
        }
    }
}
