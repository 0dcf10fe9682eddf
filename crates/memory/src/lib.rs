//! Shared memory: segments, rings of slots, slabs of buffers, lanes, node pages, boards, counters,
//! samples, units, copies and pools, the signal that wakes a thread, and the memory of a task's future.
//!
//! All `unsafe` code is in this crate. The crate moves words and bytes and checks their bounds;
//! other crates decide what a frame means. Invariant: nothing that another process writes into
//! shared memory can make a function of this crate read or write outside a mapping, or return a
//! reference into memory that another thread or process may change.

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!(
    "Upbeat needs a little-endian processor with words of 64 bits: lanes and exports are shared as such words"
);

pub mod sync;

pub mod ticks;

#[cfg(not(loom))]
pub mod thread_clock;

pub mod probe;

pub mod pool;

pub mod stage;

pub mod held;

pub mod future_slot;

pub mod local;

#[cfg(not(loom))]
pub mod waker;

#[cfg(not(loom))]
pub mod fork;

#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
pub mod fresh;
#[cfg(not(loom))]
mod mapping;
pub mod region;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
mod text;

#[cfg(not(loom))]
pub mod credentials;

#[cfg(not(loom))]
pub mod socket;

#[cfg(not(loom))]
pub mod ended_socket;

pub mod recent;

pub mod unit;

pub mod copies;

#[cfg(not(loom))]
pub mod observe;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod samples;

pub mod ring;

pub mod page;

pub mod board;

pub mod slab;

pub mod lane;

pub mod doorbell;

pub mod wake_signal;

#[cfg(feature = "testing")]
pub mod allocator;
