//! When this thread last moved a long message.
//!
//! A node that finds that something has taken long asks whether it was that. Invariant: short messages cost a
//! comparison, and nobody reads the clock for them.

use std::cell::Cell;
use upbeat_memory::ticks::ticks;

/// The bytes that take longer than messages usually do.
const LONG_BYTES: usize = 16 << 10;

thread_local! {
    static LAST_LONG: Cell<u64> = const { Cell::new(0) };
}

/// Notes that so many bytes were moved at once.
#[inline]
pub fn moved(bytes: usize) {
    if bytes >= LONG_BYTES {
        LAST_LONG.set(ticks());
    }
}

/// Returns the ticks at which this thread had last moved many bytes; 0 if it never has.
pub fn last_long() -> u64 {
    LAST_LONG.get()
}
