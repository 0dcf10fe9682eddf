//! The cells of a sweep: the carriers, drivers, ways of waiting, primitives and sizes.

use crate::sizes::{KIB, MIB};
use upbeat::Waiting;
use upbeat_core::limits::{
    BUFFER_BYTES, BUFFERS, CONTROL_SLOTS, HEAD_BYTES, IN_RING_BYTES_MAX,
    IN_STREAMED_RING_BYTES_MAX, LONG_SLAB_BYTES, LONG_STEP_BYTES, PLACES_MAX, RING_SLOTS_FIRST,
    RING_SLOTS_MAX, SHORT_BYTES, SLABS_PER_SIZE_MAX, SLOT_BYTES, STREAM_BYTES_MAX,
    STREAM_OUT_BYTES, STREAM_WHOLE_BYTES,
};
use upbeat_memory::lane::GROWN_BYTES;

/// How often the messages of a cell fill every buffer on their way.
const FILLS: u64 = 10;
/// Bytes that the system's buffers of a connection take at most, on both sides together.
const SYSTEM_BYTES: u64 = 10 << 20;
/// Bytes of a cell for which a number of messages is given: of long messages there are fewer.
const GIVEN_BYTES: u64 = 16 << 20;
/// Bytes of the count in front of a vector of bytes.
pub(super) const COUNT_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Local,
    Shared,
    Stream,
    Tcp,
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Node,
    Blocking,
    Awaited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Call,
    Oneway,
    /// A stream as an argument.
    Up,
    /// A stream as a result.
    Down,
    Loan,
}

/// The cells that one server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(super) carrier: Carrier,
    pub(super) waiting: Waiting,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(super) driver: Driver,
    pub(super) primitive: Primitive,
    /// The bytes of the message's payload.
    pub(super) size: usize,
}

pub(super) const CARRIERS: [Carrier; 5] =
    [Carrier::Local, Carrier::Shared, Carrier::Stream, Carrier::Tcp, Carrier::Tls];
pub(super) const WAITINGS: [Waiting; 3] = [Waiting::Polling, Waiting::Adaptive, Waiting::Sleeping];
pub(super) const DRIVERS: [Driver; 3] = [Driver::Node, Driver::Blocking, Driver::Awaited];
pub(super) const PRIMITIVES: [Primitive; 5] =
    [Primitive::Call, Primitive::Oneway, Primitive::Up, Primitive::Down, Primitive::Loan];

/// Returns a value's word in the name of a cell.
pub(super) fn word(of: impl std::fmt::Debug) -> String {
    format!("{of:?}").to_lowercase()
}

/// Returns the payload of so many slots.
const fn payload(slots: usize) -> usize {
    slots * SLOT_BYTES - HEAD_BYTES
}

/// Returns the longest payloads of each class of messages, and of each way in which one is carried.
fn borders() -> Vec<usize> {
    let longest = |slots: usize| payload((slots - CONTROL_SLOTS).div_ceil(2));
    let grown = GROWN_BYTES[0] / SLOT_BYTES;
    let mut borders = vec![
        COUNT_BYTES + 1,
        SHORT_BYTES,
        payload(RING_SLOTS_FIRST / 4),
        longest(RING_SLOTS_FIRST),
        payload(grown / 4),
        longest(grown),
        STREAM_WHOLE_BYTES,
        IN_STREAMED_RING_BYTES_MAX,
        STREAM_BYTES_MAX,
        STREAM_OUT_BYTES,
        IN_RING_BYTES_MAX,
        LONG_STEP_BYTES,
        MIB,
    ];
    borders.extend(BUFFER_BYTES);
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// Returns the sizes of a sweep: both sides of each border, up to 1 MiB.
pub(super) fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> =
        borders().into_iter().flat_map(|border| [border, border + 1]).collect();
    sizes.push(3 * KIB);
    sizes.retain(|size| *size <= MIB);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the servers of a sweep.
pub(crate) fn stands() -> Vec<Stand> {
    let with = |carrier| WAITINGS.map(|waiting| Stand { carrier, waiting });
    CARRIERS.into_iter().flat_map(with).collect()
}

/// Returns the cells of each server. Only nodes loan buffers.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for driver in DRIVERS {
        for primitive in PRIMITIVES {
            if primitive == Primitive::Loan && driver != Driver::Node {
                continue;
            }
            cells.extend(sizes().into_iter().map(|size| Cell { driver, primitive, size }));
        }
    }
    cells
}

impl Cell {
    /// Returns the name of the cell.
    pub(crate) fn name(self, stand: Stand) -> String {
        let Cell { driver, primitive, size } = self;
        let (carrier, waiting) = (word(stand.carrier), word(stand.waiting));
        format!("{carrier}/{}/{waiting}/{}/{size}B", word(driver), word(primitive))
    }

    /// Returns the bytes of the vector that is the message.
    pub(super) fn len(self) -> usize {
        self.size - COUNT_BYTES
    }

    /// Returns the number of messages, if none or this number is given.
    pub(super) fn messages(self, given: Option<u64>) -> u64 {
        let size = self.size as u64;
        match given {
            Some(given) => given.min((GIVEN_BYTES / size).max(8)),
            None => FILLS * self.capacity(),
        }
    }

    /// Returns how many messages of this size all buffers on the way take together.
    fn capacity(self) -> u64 {
        let slots = (HEAD_BYTES + self.size).div_ceil(SLOT_BYTES);
        let in_ring = if self.size <= IN_RING_BYTES_MAX { RING_SLOTS_MAX / slots } else { 0 };
        let class = BUFFER_BYTES.iter().position(|bytes| self.size <= *bytes);
        let in_buffers = match class {
            Some(class) => SLABS_PER_SIZE_MAX * BUFFERS[class] as usize,
            None => LONG_SLAB_BYTES / self.size + 1,
        };
        // Requests that are sent and not accepted have places, as long as there are slots or buffers for them.
        let placed = in_ring.max(in_buffers).min(PLACES_MAX);
        let on_the_way = (in_ring + in_buffers + placed) as u64;
        on_the_way + SYSTEM_BYTES / self.size as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_on_both_sides_of_each_border() {
        let sizes = sizes();
        assert_eq!((sizes[0], *sizes.last().unwrap()), (COUNT_BYTES + 1, MIB));
        for bytes in [SHORT_BYTES, 3 * KIB, IN_RING_BYTES_MAX + 1, BUFFER_BYTES[1] + 1] {
            assert!(sizes.contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn a_cell_fills_the_longest_ring() {
        let cell = |size| Cell { driver: Driver::Node, primitive: Primitive::Oneway, size };
        assert!(cell(SHORT_BYTES).messages(None) >= 10 * RING_SLOTS_MAX as u64);
        assert!(cell(MIB).messages(None) * MIB as u64 >= 10 * LONG_SLAB_BYTES as u64);
        assert_eq!(cell(SHORT_BYTES).messages(Some(200)), 200);
        assert_eq!(cell(MIB).messages(Some(200)), 16);
    }
}
