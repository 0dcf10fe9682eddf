//! The reading end of a result: when its reader asks for the next batch, and how far ahead.

use super::{CallerEnd, Control};
use crate::mutant::{Mutant, mutated};

/// The number of batches that may wait while the reader reads an earlier one.
pub const BATCHES_AHEAD: usize = 1;

/// The state of a result's reading end.
///
/// ```
/// use upbeat_core::channel::stream::ResultReader;
///
/// let mut ahead = ResultReader::default();
/// assert!(ahead.begin_pull());
/// assert!(!ahead.begin_pull(), "one pull is under way at a time");
/// assert!(ahead.handle_batch(false));
/// assert!(!ahead.begin_pull(), "a batch waits to be read");
/// ahead.read_batch();
/// assert!(ahead.begin_pull(), "the next is collected while this one is read");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultReader {
    /// The number of batches that came and that the reader has not begun to read.
    waiting: usize,
    /// Whether a pull is under way.
    is_asked: bool,
    /// Whether no more batches will come.
    ended: bool,
    /// Whether the writer must be told when this end is dropped.
    tells: bool,
}

impl ResultReader {
    /// Returns whether the next pull must be sent now. The pull is under way from then on.
    pub fn begin_pull(&mut self) -> bool {
        let may = !self.is_asked || mutated(Mutant::PullTwice);
        let has_room = self.waiting < BATCHES_AHEAD || mutated(Mutant::PullAhead);
        let asks = !self.ended && may && has_room;
        self.is_asked |= asks;
        asks
    }

    /// Returns whether a pull is under way.
    pub const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Handles the reply to the pull: a batch, which may be the last. Returns whether more batches will come.
    pub fn handle_batch(&mut self, is_last: bool) -> bool {
        self.is_asked = mutated(Mutant::PullStays);
        self.waiting += 1;
        if is_last {
            self.ended = true;
            self.tells &= mutated(Mutant::EndTold);
        }
        !self.ended
    }

    /// Handles a failed pull: no more batches will come.
    pub const fn handle_failed(&mut self) {
        self.is_asked = false;
        self.ended = true;
    }

    /// Records that the reader begins to read the next batch.
    pub fn read_batch(&mut self) {
        if mutated(Mutant::ReadUncounted) {
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Records that the result with the stream was read to its end. Before that, the reader tells the callee about
    /// the whole result, and this end sends nothing.
    pub const fn received(&mut self) {
        self.tells = !self.ended;
    }
}

impl CallerEnd for ResultReader {
    fn leave(&mut self) -> Option<Control> {
        let tells = core::mem::take(&mut self.tells) && !mutated(Mutant::StopUntold);
        tells.then_some(Control::Stop)
    }
}
