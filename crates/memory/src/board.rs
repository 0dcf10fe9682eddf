//! The board: one byte per session, in which peers note that the node must poll a lane.
//!
//! The board belongs to the node that reads it, and is the only segment that every peer writes. It
//! therefore holds only hints: a wrong hint costs one poll, and the slow sweep finds a message
//! whose hint was lost. A peer writes a note only if the reader has published that it does not poll
//! the lane each turn.

use crate::region::{Region, WORD, Word};
use crate::sync::{Ordering, fence, fence_full};

/// The offset of the sessions' bytes. The line before them has a flag that something was noted.
const FIRST: usize = 64;
const SUMMARY: usize = 0;

/// Returns the number of sessions for which a board of `bytes` bytes has room.
#[must_use]
pub const fn sessions_in(bytes: usize) -> usize {
    bytes.saturating_sub(FIRST)
}

/// The reading side of a board.
pub struct Board {
    region: Region,
    summary: Word,
}

impl Board {
    /// Creates a board over a zeroed region.
    #[must_use]
    pub fn new(region: Region) -> Board {
        let summary = region.word_at(SUMMARY);
        Board { region, summary }
    }

    /// Returns whether something may have been noted since the last sweep.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.summary.load() != 0
    }

    /// Clears every note of the first `sessions` sessions and calls `noted` for each.
    pub fn sweep(&self, sessions: usize, mut noted: impl FnMut(usize)) {
        // The flag is taken by an exchange. A plain store could overtake a note that a peer makes
        // meanwhile: the sweep would not see the peer's byte, and would erase its flag.
        self.region.take(SUMMARY);
        let first = FIRST / WORD;
        let sessions = sessions.min(sessions_in(self.region.words() * WORD));
        for word in 0..sessions.div_ceil(WORD) {
            let bytes = self.region.load_bytes(first + word);
            if bytes == [0; WORD] {
                continue;
            }
            for session in word * WORD..sessions.min((word + 1) * WORD) {
                // The byte is taken by an exchange before the caller polls the lane, for the same
                // reason.
                if bytes[session % WORD] != 0 && self.region.take_byte(FIRST + session) != 0 {
                    noted(session);
                }
            }
        }
    }
}

/// The writing side of a board: one session's byte on a peer's board.
pub struct Note {
    region: Region,
    session: usize,
}

impl Note {
    /// Creates the note for `session` on this board.
    ///
    /// # Panics
    /// Panics when the board has no such byte.
    #[must_use]
    pub fn new(region: Region, session: usize) -> Note {
        assert!(session < sessions_in(region.words() * WORD), "session {session}");
        Note { region, session }
    }

    /// Notes that the owner must poll the lane. The caller has written to the lane before, and may
    /// read the owner's polling flag directly afterwards, since this method executes the fence
    /// between them.
    pub fn mark(&self) {
        self.set();
        fence_full();
    }

    fn set(&self) {
        // The release fence orders the note behind the message, also where the caller executed no
        // fence. The flag is set by an operation that keeps the order of other peers' notes.
        fence(Ordering::Release);
        self.region.store_byte(FIRST + self.session, 1);
        self.region.set_bits(SUMMARY, 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
