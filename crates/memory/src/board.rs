//! The board: a byte per session in which peers note that a lane wants a look.
//!
//! It belongs to the node that reads it and is the one segment that everybody writes, so it holds
//! hints and nothing else (LYNX's notices): a wrong one costs a look, a lost one is found by the
//! slow sweep. A peer notes only when the reader has said that it does not look at the lane each
//! turn.

use crate::region::{Region, WORD, Word};
use crate::sync::{Ordering, fence, fence_full};

/// Where the sessions' bytes begin; the line before them says that something was noted.
const FIRST: usize = 64;
const SUMMARY: usize = 0;

/// Sessions that a board of `bytes` bytes has room for.
#[must_use]
pub const fn sessions_in(bytes: usize) -> usize {
    bytes.saturating_sub(FIRST)
}

/// The side that looks.
pub struct Board {
    region: Region,
    summary: Word,
}

impl Board {
    /// A board over a zeroed region.
    #[must_use]
    pub fn new(region: Region) -> Board {
        let summary = region.word_at(SUMMARY);
        Board { region, summary }
    }

    /// Whether something may have been noted since the last sweep.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.summary.load() != 0
    }

    /// Takes every note down and calls `noted` for each, among the first `sessions` sessions.
    pub fn sweep(&self, sessions: usize, mut noted: impl FnMut(usize)) {
        // Taken, not overwritten: with a plain store this could pass a note that comes meanwhile,
        // see neither its byte nor leave its mark.
        self.region.take(SUMMARY);
        let first = FIRST / WORD;
        let sessions = sessions.min(sessions_in(self.region.words() * WORD));
        for word in 0..sessions.div_ceil(WORD) {
            let bytes = self.region.load_bytes(first + word);
            if bytes == [0; WORD] {
                continue;
            }
            for session in word * WORD..sessions.min((word + 1) * WORD) {
                // Taken before the lane is looked at, for the same reason.
                if bytes[session % WORD] != 0 && self.region.take_byte(FIRST + session) != 0 {
                    noted(session);
                }
            }
        }
    }
}

/// The side that notes: one session's byte on a peer's board.
pub struct Note {
    region: Region,
    session: usize,
}

impl Note {
    /// The byte of `session` on this board.
    ///
    /// # Panics
    /// When the board has no such byte.
    #[must_use]
    pub fn new(region: Region, session: usize) -> Note {
        assert!(session < sessions_in(region.words() * WORD), "session {session}");
        Note { region, session }
    }

    /// Notes that the lane wants a look. What was written to the lane stands before this, and a
    /// look at the reader's promise may follow at once: the fence between them is made here.
    pub fn mark(&self) {
        self.set();
        fence_full();
    }

    fn set(&self) {
        // Behind the message, also where no fence stood since it was written.
        fence(Ordering::Release);
        self.region.store_byte(FIRST + self.session, 1);
        self.region.give(SUMMARY, 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
