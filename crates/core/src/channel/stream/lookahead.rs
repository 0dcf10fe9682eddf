//! The reading end of a result: when its reader asks for the next batch, and how far ahead of what is read.

use super::{CallerEnd, Control};
use crate::mutant::{Mutant, mutated};

/// Batches that may wait while their reader reads the one before.
pub const BATCHES_AHEAD: usize = 1;

/// The state of a result's reading end.
///
/// ```
/// use upbeat_core::channel::stream::Lookahead;
///
/// let mut ahead = Lookahead::default();
/// assert!(ahead.begin_pull());
/// assert!(!ahead.begin_pull(), "one asks at a time");
/// assert!(ahead.handle_batch(false));
/// assert!(!ahead.begin_pull(), "a batch waits to be read");
/// ahead.read_batch();
/// assert!(ahead.begin_pull(), "the next is collected while this one is read");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookahead {
    /// Batches that came and that the reader has not begun to read.
    waiting: usize,
    /// A pull is under way.
    is_asked: bool,
    /// No more will come.
    ended: bool,
    /// Whether the writer is told when this end is dropped.
    tells: bool,
}

impl Lookahead {
    /// Returns whether the next pull goes now. It is under way from then on.
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

    /// The answer to the pull came: a batch, which is the last or not. Returns whether more will come.
    pub fn handle_batch(&mut self, is_last: bool) -> bool {
        self.is_asked = mutated(Mutant::PullStays);
        self.waiting += 1;
        if is_last {
            self.ended = true;
            self.tells &= mutated(Mutant::EndTold);
        }
        !self.ended
    }

    /// The pull failed: no more will come.
    pub const fn handle_failed(&mut self) {
        self.is_asked = false;
        self.ended = true;
    }

    /// The reader begins to read the next of the batches that came.
    pub fn read_batch(&mut self) {
        if mutated(Mutant::ReadUncounted) {
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// The result in which the stream stands was read to its end. Before that its reader tells the callee what
    /// becomes of the result as a whole, and this end tells nothing.
    pub const fn received(&mut self) {
        self.tells = !self.ended;
    }
}

impl CallerEnd for Lookahead {
    fn leave(&mut self) -> Option<Control> {
        let tells = core::mem::take(&mut self.tells) && !mutated(Mutant::StopUntold);
        tells.then_some(Control::Stop)
    }
}
