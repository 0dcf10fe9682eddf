//! What a thread has moved through lanes, counted for tests that hold quotes against it.
//!
//! The rings and the copies call the hooks here where they store and load. Without the feature
//! `testing` a hook is empty and gone when compiled. Lines are told by where the stores and loads
//! really went, not by what a message is said to take. Invariant: counting changes nothing that is
//! counted; it allocates nothing and touches this thread's memory alone.

#[cfg(feature = "testing")]
use std::cell::Cell;
// No part of a model: what is counted is this crate's own.
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What is counted, by its place in a `tally` (feature `testing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Lines of frames that were stored and then published.
    LinesStored,
    /// Lines of frames that were loaded, each once a frame.
    LinesLoaded,
    /// Lines that were loaded and said that the rest of the ring is empty.
    PaddingLines,
    /// Lines with a reader's progress or returns that had changed since they were last loaded.
    ProgressLines,
    /// Lines with a promise that had changed since they were last loaded.
    PromiseLines,
    /// Words that were wiped because a head will stand there.
    Wiped,
    /// Bytes of payload that were published.
    Bytes,
    /// Passes over a payload, into a lane, out of one, or into memory of our own.
    Copies,
    /// Claims for which there was no room.
    Refused,
}

impl Count {
    /// How many there are.
    pub const COUNT: usize = Count::Refused as usize + 1;
}

/// What this thread has counted so far.
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
    /// The last line stored of the frame that is being written, and how many.
    written: Cell<(usize, u64)>,
    /// The last line loaded of the frame that lies open.
    loaded: Cell<usize>,
    /// Where a pass into a lane, and one out of it, would go on.
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

/// The line of byte `end - 1`, and how many lines behind `last` that makes.
#[cfg(feature = "testing")]
fn lines_behind(last: usize, at: usize, bytes: usize) -> (usize, u64) {
    if bytes == 0 {
        return (last, 0);
    }
    let (first, end) = (at / LINE, (at + bytes - 1) / LINE);
    let new = (end + 1).saturating_sub(first.max(last + 1));
    (end.max(last), new as u64)
}

/// A claim was made whose head stands at byte `at` of the ring.
#[inline(always)]
pub(crate) fn claimed(at: usize) {
    let _ = at;
    #[cfg(feature = "testing")]
    PROBE.with(|probe| {
        probe.written.set((at / LINE, 1));
        probe.into.set(0);
    });
}

/// Payload was stored at byte `at` of the ring.
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

/// What was claimed is published, with so many bytes of payload.
#[inline(always)]
pub(crate) fn committed(payload: usize) {
    let _ = payload;
    #[cfg(feature = "testing")]
    {
        add(Count::LinesStored, PROBE.with(|probe| probe.written.get().1));
        add(Count::Bytes, payload as u64);
    }
}

/// The word in which the next head will stand was wiped.
#[inline(always)]
pub(crate) fn wiped() {
    #[cfg(feature = "testing")]
    add(Count::Wiped, 1);
}

/// There was no room for a claim.
#[inline(always)]
pub(crate) fn refused() {
    #[cfg(feature = "testing")]
    add(Count::Refused, 1);
}

/// The head at byte `at` of the ring was seen for the first time.
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

/// Padding was seen.
#[inline(always)]
pub(crate) fn padding_loaded() {
    #[cfg(feature = "testing")]
    add(Count::PaddingLines, 1);
}

/// Payload of the open frame was loaded, at byte `at` of the ring.
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

/// Bytes were copied into shared memory, to this address.
#[inline(always)]
pub(crate) fn copied_into(address: usize, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| copied(&probe.into, address, bytes));
}

/// Bytes were copied out of shared memory, from this address.
#[inline(always)]
pub(crate) fn copied_out(address: usize, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(feature = "testing")]
    PROBE.with(|probe| copied(&probe.out, address, bytes));
}

/// What goes on where the last copy ended, but for a gap up to a whole word, is the same pass.
#[cfg(feature = "testing")]
fn copied(expected: &Cell<usize>, address: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let gap = address.wrapping_sub(expected.replace(address + bytes));
    add(Count::Copies, u64::from(gap >= 8));
}

/// Payload bytes from `at` on were copied between two places of our own.
#[inline(always)]
pub fn copied_apart(at: usize, bytes: usize) {
    let _ = (at, bytes);
    #[cfg(feature = "testing")]
    if bytes != 0 {
        add(Count::Copies, u64::from(at == 0));
    }
}

/// A word of a peer's that is loaded now and then, and comes with its line if it has changed.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    #[cfg(feature = "testing")]
    seen: Cell<u64>,
}

impl Watched {
    /// It was loaded, and this was found.
    #[inline(always)]
    pub(crate) fn loaded(&self, count: Count, value: u64) {
        let _ = (count, value);
        #[cfg(feature = "testing")]
        if self.seen.replace(value) != value {
            add(count, 1);
        }
    }
}

/// The lines of one buffer of a slab, each counted once. Others may be written, read and counted
/// between two pieces of this one.
#[derive(Default)]
pub(crate) struct Lines {
    /// The line behind the last that was touched, and the byte behind the last.
    #[cfg(feature = "testing")]
    next: AtomicUsize,
    #[cfg(feature = "testing")]
    end: AtomicUsize,
    #[cfg(feature = "testing")]
    lines: AtomicU64,
}

impl Lines {
    /// Payload was stored at byte `at` of the buffer; it is about to be copied.
    #[inline(always)]
    pub(crate) fn stored(&self, at: usize, bytes: usize) {
        let _ = (at, bytes);
        #[cfg(feature = "testing")]
        {
            self.touched(at, bytes, |probe| &probe.into);
        }
    }

    /// The buffer is lent with what was stored.
    #[inline(always)]
    pub(crate) fn lent(&self) {
        #[cfg(feature = "testing")]
        {
            add(Count::LinesStored, self.lines.load(Relaxed));
            add(Count::Bytes, self.end.load(Relaxed) as u64);
        }
    }

    /// Payload was loaded at byte `at` of the buffer; it is about to be copied.
    #[inline(always)]
    pub(crate) fn loaded(&self, at: usize, bytes: usize) {
        let _ = (at, bytes);
        #[cfg(feature = "testing")]
        add(Count::LinesLoaded, self.touched(at, bytes, |probe| &probe.out));
    }

    /// Counts lines, and begins a pass where these are the first.
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
    fn lines_are_counted_once_a_frame() {
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
    fn lines_of_a_buffer_are_counted_apart_and_once() {
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
    fn a_pass_goes_on_over_a_gap_within_a_word() {
        let before = tally()[Count::Copies as usize];
        copied_out(4096, 5);
        copied_out(4104, 8);
        copied_out(4096, 5);
        assert_eq!(tally()[Count::Copies as usize] - before, 2);
    }
}
