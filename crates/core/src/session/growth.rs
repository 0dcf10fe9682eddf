//! When a lane goes on in a bigger segment.

use core::cell::Cell;

/// Refusals after which a lane grows although every message would fit.
const REFUSALS_BEFORE_GROWTH: u32 = 4;

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
}

impl Growth {
    /// A lane that has refused nothing.
    pub const fn new() -> Growth {
        Growth { refusals: Cell::new(0) }
    }

    /// The lane was full for a message that fits it. Returns whether it is to grow: it is full too often.
    pub fn refused(&self) -> bool {
        self.refusals.set(self.refusals.get().saturating_add(1));
        self.refusals.get() >= REFUSALS_BEFORE_GROWTH
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
