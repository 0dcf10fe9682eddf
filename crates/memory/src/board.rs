//! The board: a byte per session in which peers note that a lane wants a look.
//!
//! It belongs to the node that reads it and is the one segment that everybody writes, so it holds
//! hints and nothing else (LYNX's notices): a wrong one costs a look, a lost one is found by the
//! slow sweep. A peer notes only when the reader has said that it does not look at the lane each
//! turn.

use crate::region::{Region, WORD};
use crate::sync::fence_full;

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
}

impl Board {
    /// A board over a zeroed region.
    #[must_use]
    pub fn new(region: Region) -> Board {
        Board { region }
    }

    /// Whether something may have been noted since the last sweep.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.region.load(SUMMARY) != 0
    }

    /// Takes every note down and calls `noted` for each, among the first `sessions` sessions.
    pub fn sweep(&self, sessions: usize, mut noted: impl FnMut(usize)) {
        self.region.store(SUMMARY, 0);
        fence_full();
        let first = FIRST / WORD;
        let sessions = sessions.min(sessions_in(self.region.words() * WORD));
        for word in 0..sessions.div_ceil(WORD) {
            let bytes = self.region.load(first + word).to_le_bytes();
            for (i, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
                let session = word * WORD + i;
                self.region.store_byte(FIRST + session, 0);
                if session < sessions {
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

    /// Notes that the lane wants a look.
    pub fn mark(&self) {
        self.region.store_byte(FIRST + self.session, 1);
        self.region.publish(SUMMARY, 1);
    }
}
