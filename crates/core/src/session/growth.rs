//! When a lane goes on in a bigger segment.

use core::cell::Cell;

/// Refusals after which a lane grows although every message would fit.
const REFUSALS_BEFORE_GROWTH: u32 = 4;

/// Attempts without a question after the peer has declined a bigger segment.
const UNASKED: u32 = 64;

/// The refusals of slots in the lane of one side.
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
    /// Attempts to grow that are still to be left out.
    unasked: Cell<u32>,
}

impl Growth {
    /// A lane that has refused nothing.
    pub const fn new() -> Growth {
        Growth { refusals: Cell::new(0), unasked: Cell::new(0) }
    }

    /// The lane was full for a message that fits it. Returns whether it is to grow: it is full too often.
    pub fn refused(&self) -> bool {
        self.refusals.set(self.refusals.get().saturating_add(1));
        self.refusals.get() >= REFUSALS_BEFORE_GROWTH
    }

    /// Whether the peer is asked for room for a bigger segment now: for a while not, where it had none.
    pub fn asks(&self) -> bool {
        let unasked = self.unasked.get();
        self.unasked.set(unasked.saturating_sub(1));
        unasked == 0
    }

    /// The peer has no room for a bigger segment.
    pub fn declined(&self) {
        self.unasked.set(UNASKED);
    }

    /// The lane has grown.
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
