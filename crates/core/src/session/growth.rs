//! The rule by which a lane continues in a larger segment.

use core::cell::Cell;

/// The number of refusals after which a lane grows although every message would fit.
const REFUSALS_BEFORE_GROWTH: u32 = 4;

/// The number of attempts that are skipped after the peer has declined a larger segment.
const UNASKED: u32 = 64;

/// The refused claims of slots in the lane of one side.
///
/// ```
/// use upbeat_core::session::Growth;
///
/// let growth = Growth::new();
/// assert_eq!([(); 4].map(|()| growth.refused()), [false, false, false, true]);
/// growth.grew();
/// assert!(!growth.refused());
/// ```
#[derive(Debug)]
pub struct Growth {
    refusals: Cell<u32>,
    /// The number of attempts to grow that are still skipped.
    unasked: Cell<u32>,
}

impl Growth {
    /// Creates the state of a lane that has refused nothing.
    pub const fn new() -> Growth {
        Growth { refusals: Cell::new(0), unasked: Cell::new(0) }
    }

    /// Records that the lane was full for a message that fits it. Returns whether the lane must grow, because it
    /// is full too often.
    pub fn refused(&self) -> bool {
        self.refusals.set(self.refusals.get().saturating_add(1));
        self.refusals.get() >= REFUSALS_BEFORE_GROWTH
    }

    /// Returns whether the peer is asked for a larger segment now. Some attempts are skipped after the peer had no
    /// room.
    pub fn asks(&self) -> bool {
        let unasked = self.unasked.get();
        self.unasked.set(unasked.saturating_sub(1));
        unasked == 0
    }

    /// Records that the peer has no room for a larger segment.
    pub fn declined(&self) {
        self.unasked.set(UNASKED);
    }

    /// Records that the lane has grown.
    pub fn grew(&self) {
        self.refusals.set(0);
    }
}

impl Default for Growth {
    fn default() -> Growth {
        Growth::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_room_is_asked_again_later() {
        let growth = Growth::new();
        assert!(growth.asks() && growth.asks());
        growth.declined();
        assert_eq!((0..1000).take_while(|_| !growth.asks()).count(), UNASKED as usize);
        assert!(growth.asks());
    }
}
