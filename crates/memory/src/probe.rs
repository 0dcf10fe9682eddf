//! Counts of what a thread moves through lanes, for tests that compare quotes with them.
//!
//! The rings and the copies call these hooks where they store and load. Without the feature `testing` a hook is
//! empty and compiles to nothing. Lines are counted by the addresses of the real stores and loads, not by the
//! announced lengths. Invariant: counting changes nothing that is counted; it allocates nothing and touches only
//! this thread's memory.

#[cfg(feature = "testing")]
use std::cell::Cell;
// These atomics are no part of a model, since only this module uses them.
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The kinds of counts, by their index in a `tally` (feature `testing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Lines of frames that were stored and then published.
    LinesStored,
    /// Lines of frames that were loaded, each counted once per frame.
    LinesLoaded,
    /// Lines that were loaded and held padding up to the end of the ring.
    PaddingLines,
    /// Lines with a reader's progress or returns that had changed since their last load.
    ProgressLines,
    /// Lines with a polling flag that had changed since their last load.
    PollingFlagLines,
    /// Words that were wiped because a head will be stored there.
    Wiped,
    /// Bytes of payload that were published.
    Bytes,
    /// Passes over a payload: into a lane, out of a lane, or into private memory.
    Copies,
    /// Claims that were refused because there was no room.
    Refused,
}

impl Count {
    /// The number of kinds.
    pub const COUNT: usize = Count::Refused as usize + 1;
}

/// Returns the bytes of payload that this thread has copied so far.
#[cfg(feature = "testing")]
#[must_use]
pub fn copied_bytes() -> u64 {
    PROBE.with(|probe| probe.copied_bytes.get())
}

/// Returns the counts of this thread so far.
#[cfg(feature = "testing")]
#[must_use]
pub fn tally() -> [u64; Count::COUNT] {
    PROBE.with(|probe| std::array::from_fn(|at| probe.counts[at].get()))
}

#[cfg(feature = "testing")]
thread_local! {
    static PROBE: Probe = const {
        Probe {
            counts: [const { Cell::new(0) }; Count::COUNT],
            copied_bytes: Cell::new(0),
            written: Cell::new((0, 0)),
            loaded: Cell::new(0),
            into: Cell::new(0),
            out: Cell::new(0),
        }
    };
}

#[cfg(feature = "testing")]
struct Probe {
    counts: [Cell<u64>; Count::COUNT],
    /// The bytes in all passes over payloads.
    copied_bytes: Cell<u64>,
    /// The last stored line of the frame that is being written, and the number of its lines.
    written: Cell<(usize, u64)>,
    /// The last loaded line of the open frame.
    loaded: Cell<usize>,
    /// The addresses at which a pass into a lane, and a pass out of it, would continue.
    into: Cell<usize>,
    out: Cell<usize>,
}

#[cfg(feature = "testing")]
const LINE: usize = 64;

#[cfg(feature = "testing")]
fn add(count: Count, more: u64) {
    PROBE.with(|probe| {
        let cell = &probe.counts[count as usize];
        cell.set(cell.get() + more);
    });
}

/// Returns the line of byte `end - 1`, and the number of lines behind `last` up to it.
#[cfg(feature = "testing")]
fn lines_behind(last: usize, at: usize, bytes: usize) -> (usize, u64) {
    if bytes == 0 {
        return (last, 0);
    }
    let (first, end) = (at / LINE, (at + bytes - 1) / LINE);
    let new = (end + 1).saturating_sub(first.max(last + 1));
    (end.max(last), new as u64)
}

/// Records a claim whose head is at byte `at` of the ring.
#[inline(always)]
pub(crate) fn claimed(at: usize) {
    let _ = at;
    #[cfg(feature = "testing")]
    PROBE.with(|probe| {
        probe.written.set((at / LINE, 1));
        probe.into.set(0);
    });
}

/// Records payload that is stored at byte `at` of the ring.
#[inline(always)]
pub(crate) fn stored(at: usize, bytes: usize) {
    let _ = (at, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| {
        let (last, lines) = probe.written.get();
        let (last, more) = lines_behind(last, at, bytes);
        probe.written.set((last, lines + more));
    });
}

/// Records that the claim is published with `payload` bytes of payload.
#[inline(always)]
pub(crate) fn committed(payload: usize) {
    let _ = payload;
    #[cfg(feature = "testing")]
    {
        add(Count::LinesStored, PROBE.with(|probe| probe.written.get().1));
        add(Count::Bytes, payload as u64);
    }
}

/// Records that the word of the next head was wiped.
#[inline(always)]
pub(crate) fn wiped() {
    #[cfg(feature = "testing")]
    add(Count::Wiped, 1);
}

/// Records a claim for which there was no room.
#[inline(always)]
pub(crate) fn refused() {
    #[cfg(feature = "testing")]
    add(Count::Refused, 1);
}

/// Records the first load of the head at byte `at` of the ring.
#[inline(always)]
pub(crate) fn head_loaded(at: usize) {
    let _ = at;
    #[cfg(feature = "testing")]
    {
        add(Count::LinesLoaded, 1);
        PROBE.with(|probe| {
            probe.loaded.set(at / LINE);
            probe.out.set(0);
        });
    }
}

/// Records that padding was loaded.
#[inline(always)]
pub(crate) fn padding_loaded() {
    #[cfg(feature = "testing")]
    add(Count::PaddingLines, 1);
}

/// Records payload of the open frame that is loaded at byte `at` of the ring.
#[inline(always)]
pub(crate) fn loaded(at: usize, bytes: usize) {
    let _ = (at, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| {
        let (last, more) = lines_behind(probe.loaded.get(), at, bytes);
        probe.loaded.set(last);
        add(Count::LinesLoaded, more);
    });
}

/// Records a copy into shared memory at this address.
#[inline(always)]
pub(crate) fn copied_into(address: usize, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| copied(probe, &probe.into, address, bytes));
}

/// Records a copy out of shared memory at this address.
#[inline(always)]
pub(crate) fn copied_out(address: usize, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| copied(probe, &probe.out, address, bytes));
}

/// Counts a copy as a new pass unless it continues where the last copy ended, up to a gap within one word.
#[cfg(feature = "testing")]
fn copied(probe: &Probe, expected: &Cell<usize>, address: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let gap = address.wrapping_sub(expected.replace(address + bytes));
    add(Count::Copies, u64::from(gap >= 8));
    probe.copied_bytes.set(probe.copied_bytes.get() + bytes as u64);
}

/// Records payload bytes from `at` on that were copied between two private places.
#[inline(always)]
pub fn copied_apart(at: usize, bytes: usize) {
    let _ = (at, bytes);
    #[cfg(feature = "testing")]
    if bytes != 0 {
        add(Count::Copies, u64::from(at == 0));
        PROBE.with(|probe| probe.copied_bytes.set(probe.copied_bytes.get() + bytes as u64));
    }
}

/// A word of a peer that is loaded now and then. A changed value counts as one line.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    #[cfg(feature = "testing")]
    seen: Cell<u64>,
}

impl Watched {
    /// Records a load and the loaded value.
    #[inline(always)]
    pub(crate) fn loaded(&self, count: Count, value: u64) {
        let _ = (count, value);
        #[cfg(feature = "testing")]
        if self.seen.replace(value) != value {
            add(count, 1);
        }
    }
}

/// The lines of one buffer of a slab, each counted once. Other buffers may be used between two pieces of this one.
#[derive(Default)]
pub(crate) struct Lines {
    /// The line behind the last touched one, and the offset behind the last touched byte.
    #[cfg(feature = "testing")]
    next: AtomicUsize,
    #[cfg(feature = "testing")]
    end: AtomicUsize,
    #[cfg(feature = "testing")]
    lines: AtomicU64,
}

impl Lines {
    /// Records payload that is about to be copied to byte `at` of the buffer.
    #[inline(always)]
    pub(crate) fn stored(&self, at: usize, bytes: usize) {
        let _ = (at, bytes);
        #[cfg(feature = "testing")]
        {
            self.touched(at, bytes, |probe| &probe.into);
        }
    }

    /// Records that the buffer is lent with what was stored.
    #[inline(always)]
    pub(crate) fn lent(&self) {
        #[cfg(feature = "testing")]
        {
            add(Count::LinesStored, self.lines.load(Relaxed));
            add(Count::Bytes, self.end.load(Relaxed) as u64);
        }
    }

    /// Records payload that is about to be copied from byte `at` of the buffer.
    #[inline(always)]
    pub(crate) fn loaded(&self, at: usize, bytes: usize) {
        let _ = (at, bytes);
        #[cfg(feature = "testing")]
        add(Count::LinesLoaded, self.touched(at, bytes, |probe| &probe.out));
    }

    /// Counts lines, and begins a pass if these bytes are the first.
    #[cfg(feature = "testing")]
    fn touched(&self, at: usize, bytes: usize, pass: fn(&Probe) -> &Cell<usize>) -> u64 {
        if bytes == 0 {
            return 0;
        }
        if self.end.fetch_max(at + bytes, Relaxed) == 0 {
            PROBE.with(|probe| pass(probe).set(0));
        }
        let (first, behind) = (at / LINE, (at + bytes).div_ceil(LINE));
        let next = self.next.fetch_max(behind, Relaxed);
        let new = behind.saturating_sub(first.max(next)) as u64;
        self.lines.fetch_add(new, Relaxed);
        new
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_per_frame() {
        claimed(64);
        stored(64 + 24, 40);
        stored(128, 1);
        stored(129, 63);
        committed(104);
        head_loaded(64);
        loaded(64 + 24, 105);
        loaded(64 + 24 + 105, 8);
        let tally = tally();
        assert_eq!(
            (tally[Count::LinesStored as usize], tally[Count::LinesLoaded as usize]),
            (2, 3)
        );
    }

    #[test]
    fn a_line_of_a_buffer_counts_once() {
        let (written, read, before) = (Lines::default(), Lines::default(), tally());
        written.stored(0, 100);
        claimed(0);
        written.stored(100, 29);
        committed(0);
        read.loaded(0, 64);
        read.loaded(56, 8);
        read.loaded(128, 1);
        let count = |count: Count| tally()[count as usize] - before[count as usize];
        assert_eq!(count(Count::LinesStored), 1);
        written.lent();
        assert_eq!([Count::LinesStored, Count::Bytes, Count::LinesLoaded].map(count), [4, 129, 2]);
    }

    #[test]
    fn a_gap_within_a_word_does_not_begin_a_new_pass() {
        let before = tally()[Count::Copies as usize];
        copied_out(4096, 5);
        copied_out(4104, 8);
        copied_out(4096, 5);
        assert_eq!(tally()[Count::Copies as usize] - before, 2);
    }
}
