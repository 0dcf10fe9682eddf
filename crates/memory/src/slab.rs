//! Buffers that a sender lends and its peer returns.
//!
//! A slab is a segment of the sender's, cut into buffers of one size, which the peer maps to read
//! alone. The owner claims a buffer, writes in place and lends it; the peer reads it under a
//! [`Loan`]. A loan that is dropped flips the buffer's bit in a word of the peer's own, as the
//! owner did in its notes when it lent: while the two bits are equal the buffer is free. The owner
//! looks at that word only when it knows of no free buffer, so nothing is sent on return.
//!
//! What a slab leaves to others: where the word stands, and how the peer learns of the slab and of
//! a lent buffer. That message is published behind the buffer's bytes, and an acquire fence stands
//! between its arrival and the first read, as with [`crate::ring`]. A place is given to another
//! slab only when the one before [is idle](Slab::is_idle).
//!
//! Invariant: between two sides that keep the rules, nothing is written into a buffer under a
//! loan. A side that breaks them spoils what it says or what it reads, nothing else: whatever
//! stands in a peer's word, its owner uses a buffer again too early or never; whatever an owner
//! lends, its peer reads inside of the slab.

use crate::probe::Lines;
use crate::region::{Region, WORD};
use crate::sync::{AtomicU64, Ordering, fence};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// The most buffers of a slab: their returns are noted in one word.
pub const BUFFERS_PER_SLAB_MAX: u32 = 64;

/// Whether a region of `bytes` bytes can be a slab of `count` buffers of `each` bytes.
#[must_use]
pub const fn is_slab(bytes: usize, each: usize, count: u32) -> bool {
    each != 0
        && each.is_multiple_of(WORD)
        && count != 0
        && count <= BUFFERS_PER_SLAB_MAX
        && each <= bytes / count as usize
}

/// A bit for each of so many buffers.
const fn every(count: u32) -> u64 {
    u64::MAX >> (u64::BITS - count)
}

/// The owner's side: it claims, writes and lends.
pub struct Slab {
    region: Region,
    each: usize,
    count: u32,
    /// Buffers that are known to be free.
    free: Cell<u64>,
    /// Buffers that are being written.
    claimed: Cell<u64>,
    /// Where to look for a free one first.
    next: Cell<u32>,
    /// A bit for each buffer, flipped when it is lent.
    lends: Cell<u64>,
}

impl Slab {
    /// A slab of `count` buffers of `each` bytes, all of them free. `returned` is the peer's word
    /// as it stands: bits of an earlier slab's may be left there.
    ///
    /// # Panics
    /// When the region is read-only, or they are no slab (see [`is_slab`]).
    #[must_use]
    pub fn new(region: Region, each: usize, count: u32, returned: u64) -> Slab {
        assert!(region.is_writable(), "a slab is written in a region of one's own");
        checked(&region, each, count);
        Slab {
            region,
            each,
            count,
            free: Cell::new(every(count)),
            claimed: Cell::new(0),
            next: Cell::new(0),
            lends: Cell::new(returned),
        }
    }

    /// Bytes of a buffer.
    #[inline]
    pub fn each(&self) -> usize {
        self.each
    }

    /// The number of buffers.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a buffer is free. `returned` is asked for the peer's word, and only when none is
    /// known to be.
    #[inline]
    pub fn has_free(&self, returned: impl FnOnce() -> u64) -> bool {
        if self.free.get() == 0 {
            self.learn(returned());
        }
        self.free.get() != 0
    }

    /// Claims a free buffer: the next of those that are known to be free. `returned` is asked
    /// for the peer's word, and only when none is.
    #[inline]
    pub fn claim(&self, returned: impl FnOnce() -> u64) -> Option<Buffer<'_>> {
        if !self.has_free(returned) {
            return None;
        }
        // Each in turn: what its reader has just read is the slowest to write.
        let free = self.free.get();
        let behind = free & u64::MAX << self.next.get();
        let from = if behind == 0 { free } else { behind };
        let bit = from & from.wrapping_neg();
        self.next.set((bit.trailing_zeros() + 1) % u64::BITS);
        self.free.set(free ^ bit);
        self.claimed.set(self.claimed.get() | bit);
        Some(Buffer { slab: self, index: bit.trailing_zeros(), lines: Lines::default() })
    }

    /// Takes note of what has come back.
    #[cold]
    #[inline(never)]
    fn learn(&self, returned: u64) {
        // What is written into those buffers must stay behind the reads under their loans.
        fence(Ordering::Acquire);
        self.free.set(self.back(returned) & !self.claimed.get());
    }

    /// The buffers that the peer does not have, by its word.
    fn back(&self, returned: u64) -> u64 {
        !(returned ^ self.lends.get()) & every(self.count)
    }

    /// How many buffers are lent, as far as is known: some of them may be back.
    pub fn lent(&self) -> u32 {
        self.count - (self.free.get() | self.claimed.get()).count_ones()
    }

    /// Whether every buffer is back and none is being written, by the peer's word as it stands.
    pub fn is_idle(&self, returned: u64) -> bool {
        // Whatever becomes of the memory comes behind the reads under the loans.
        fence(Ordering::Acquire);
        self.back(returned) == every(self.count) && self.claimed.get() == 0
    }
}

/// A buffer that is being written. Dropped, it is free again, and the peer never saw it.
pub struct Buffer<'a> {
    slab: &'a Slab,
    index: u32,
    lines: Lines,
}

impl Buffer<'_> {
    /// Bytes that fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.slab.each
    }

    /// Writes bytes at `at`, counted from the buffer's start.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at);
        let start = self.index as usize * self.slab.each;
        self.lines.stored(at, bytes.len());
        self.slab.region.write(start + at, bytes);
    }

    /// Lends it: its index, which is published next. The buffer is the peer's until its bit flips.
    #[inline]
    pub fn lend(self) -> u32 {
        let (slab, index) = (self.slab, self.index);
        slab.lends.set(slab.lends.get() ^ 1 << index);
        self.lines.lent();
        // What is lent is not given back.
        std::mem::forget(self);
        slab.claimed.set(slab.claimed.get() & !(1 << index));
        index
    }
}

impl Drop for Buffer<'_> {
    #[inline]
    fn drop(&mut self) {
        let bit = 1 << self.index;
        self.slab.claimed.set(self.slab.claimed.get() & !bit);
        self.slab.free.set(self.slab.free.get() | bit);
    }
}

/// The peer's side of a slab: the buffers, to read, and the word of ours in which returns are
/// noted. Both stay mapped for as long as a loan lives.
pub struct Borrowed {
    /// None of a slab that could not be mapped.
    region: Option<Region>,
    each: usize,
    count: u32,
    returns: Region,
    /// Buffers under a loan.
    held: AtomicU64,
    tell: Option<Tell>,
    /// What may be kept, and how much of that a buffer takes.
    allowance: Arc<Allowance>,
    weight: u64,
}

/// How much may be [kept](Loan::keep), of one slab or of several together.
#[derive(Debug)]
pub struct Allowance {
    most: u64,
    left: AtomicU64,
    /// The part of another allowance that is taken while anything is taken of this one.
    within: Option<(Arc<Allowance>, u64)>,
}

impl Allowance {
    /// So much.
    #[must_use]
    pub fn new(most: u64) -> Allowance {
        Allowance { most, left: AtomicU64::new(most), within: None }
    }

    /// Makes an allowance of `most` that also takes `weight` of another one while anything is taken of it.
    #[must_use]
    pub fn within(most: u64, other: Arc<Allowance>, weight: u64) -> Allowance {
        Allowance { within: Some((other, weight)), ..Allowance::new(most) }
    }

    /// Takes so much of it, if so much is left.
    fn take(&self, weight: u64) -> bool {
        // Nothing is read under a count: no order is needed.
        let (all, none) = (Ordering::Relaxed, Ordering::Relaxed);
        loop {
            let left = self.left.load(none);
            let Some(rest) = left.checked_sub(weight) else { return false };
            let first = self.within.as_ref().filter(|_| left == self.most);
            if first.is_some_and(|(other, whole)| !other.take(*whole)) {
                return false;
            }
            if self.left.compare_exchange(left, rest, all, none).is_ok() {
                return true;
            }
            first.into_iter().for_each(|(other, whole)| other.give(*whole));
        }
    }

    fn give(&self, weight: u64) {
        let left = self.left.fetch_add(weight, Ordering::Relaxed) + weight;
        if let Some((other, whole)) = &self.within
            && left == self.most
        {
            other.give(*whole);
        }
    }
}

/// Is called when a buffer went back with a word of it, on any thread.
pub type Tell = Box<dyn Fn() + Send + Sync>;

impl Borrowed {
    /// The peer's slab of `count` buffers of `each` bytes. `returns` is one word of ours.
    ///
    /// # Panics
    /// When they are no slab (see [`is_slab`]), or `returns` is not one writable word.
    #[must_use]
    pub fn new(region: Region, each: usize, count: u32, returns: Region) -> Borrowed {
        checked(&region, each, count);
        Borrowed::of(Some(region), each, count, returns)
    }

    /// The peer's slab of `count` buffers of `each` bytes where there is no memory to map it: its
    /// buffers are taken and go back, and none of them [can be read](Loan::is_mapped).
    ///
    /// # Panics
    /// When `returns` is not one writable word.
    #[must_use]
    pub fn unmapped(each: usize, count: u32, returns: Region) -> Borrowed {
        Borrowed::of(None, each, count, returns)
    }

    fn of(region: Option<Region>, each: usize, count: u32, returns: Region) -> Borrowed {
        assert!(
            returns.is_writable() && returns.words() == 1,
            "returns are noted in a word of ours"
        );
        let (held, allowance) = (AtomicU64::new(0), Arc::new(Allowance::new(u64::MAX)));
        Borrowed { region, each, count, returns, held, tell: None, allowance, weight: 1 }
    }

    /// The same, of which a buffer that is kept takes so much of what may be kept.
    #[must_use]
    pub fn keeping(self, allowance: Arc<Allowance>, weight: u64) -> Borrowed {
        Borrowed { allowance, weight, ..self }
    }

    /// The same, with what is called where a loan is [given back](Loan::give_back).
    #[must_use]
    pub fn telling(self, tell: Tell) -> Borrowed {
        Borrowed { tell: Some(tell), ..self }
    }

    /// Takes a buffer that the peer has lent, of whose bytes `len` count. An acquire fence stands
    /// between the message that said so and this.
    #[inline]
    pub fn take(self: &Arc<Self>, index: u32, len: usize) -> Result<Loan, SlabFault> {
        if index >= self.count {
            return Err(SlabFault::Index { index, count: self.count });
        }
        if len > self.each {
            return Err(SlabFault::Length { len, each: self.each });
        }
        let bit = 1 << index;
        // An owner that keeps the rules lends it again behind its return, which stands behind the
        // end of the last loan: no order is needed to see that end here.
        if self.held.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return Err(SlabFault::Held { index });
        }
        Ok(Loan { slab: Arc::clone(self), index, len, kept: false, lines: Lines::default() })
    }

    /// How many buffers are under a loan.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed).count_ones()
    }
}

fn checked(region: &Region, each: usize, count: u32) {
    assert!(
        is_slab(region.words() * WORD, each, count),
        "{count} buffers of {each} bytes in a region of {} words",
        region.words()
    );
}

/// A buffer of the peer's that we hold, to read in place. Dropped, on any thread, it goes back.
pub struct Loan {
    slab: Arc<Borrowed>,
    index: u32,
    len: usize,
    kept: bool,
    lines: Lines,
}

impl Loan {
    /// Bytes that count.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its slab could be mapped. What was not cannot be read.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.slab.region.is_some()
    }

    #[inline]
    fn region(&self) -> &Region {
        self.slab.region.as_ref().expect("a buffer of a slab that is mapped")
    }

    /// Copies bytes out, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When they do not all count, `at` does not begin a word, or they are not mapped.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let start = self.start(at, to.len());
        self.region().read(start, to);
    }

    /// Loads a value of plain data from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When its bytes do not all count, `at` does not begin a word, or they are not mapped.
    #[cfg(not(loom))]
    #[inline]
    pub fn read_value<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        let start = self.start(at, size_of::<T>());
        self.region().read_value(start)
    }

    /// Copies items of plain data out, from byte `at`, which must begin a word. None if there is no
    /// memory for them.
    ///
    /// # Panics
    /// When their bytes do not all count, `at` does not begin a word, or they are not mapped.
    #[cfg(not(loom))]
    pub fn read_items<T: zerocopy::FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let start = self.start(at, count.saturating_mul(size_of::<T>()));
        self.region().read_items(start, count)
    }

    /// Loads word `word`. Of a last word that counts in part, the rest may be anything.
    ///
    /// # Panics
    /// When no byte of it counts, or it is not mapped.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        assert!(word < self.len.div_ceil(WORD));
        self.lines.loaded(word * WORD, WORD);
        self.region().load(self.index as usize * self.slab.each / WORD + word)
    }

    /// Keeps it, for longer than its message is handled. False if as much is kept as may be.
    pub fn keep(&mut self) -> bool {
        self.kept = self.kept || self.slab.allowance.take(self.slab.weight);
        self.kept
    }

    /// Gives it back with a word of it: an owner that waits does not learn of it by itself. A loan
    /// that is dropped goes back in silence.
    pub fn give_back(self) {
        let slab = Arc::clone(&self.slab);
        drop(self);
        slab.tell.iter().for_each(|tell| tell());
    }

    /// Where bytes that count begin in the slab.
    #[inline]
    fn start(&self, at: usize, bytes: usize) -> usize {
        assert!(at <= self.len && bytes <= self.len - at);
        self.lines.loaded(at, bytes);
        self.index as usize * self.slab.each + at
    }
}

impl Drop for Loan {
    #[inline]
    fn drop(&mut self) {
        let bit = 1 << self.index;
        if self.kept {
            self.slab.allowance.give(self.slab.weight);
        }
        // The loan ends before the return is seen: the owner may lend the buffer again at once.
        self.slab.held.fetch_and(!bit, Ordering::Relaxed);
        // Release is enough. It keeps every read under this loan, on whichever thread, before the
        // flip; the owner's fence keeps its writes behind. The flips of other loans do not cut
        // that thread, being exchanges as well. Nothing of ours that follows needs to wait.
        self.slab.returns.toggle(0, bit);
    }
}

/// A peer broke a slab's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabFault {
    /// There is no such buffer.
    Index {
        /// The buffer that was lent.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// A buffer has fewer bytes.
    Length {
        /// The bytes that it was said to hold.
        len: usize,
        /// The bytes of a buffer.
        each: usize,
    },
    /// It was lent while it was not back.
    Held {
        /// The buffer that was lent.
        index: u32,
    },
}

impl fmt::Display for SlabFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlabFault::Index { index, count } => {
                write!(f, "buffer {index} was lent of a slab of {count}")
            }
            SlabFault::Length { len, each } => {
                write!(f, "{len} bytes were lent in a buffer of {each}")
            }
            SlabFault::Held { index } => {
                write!(f, "buffer {index} was lent again before it was back")
            }
        }
    }
}

impl std::error::Error for SlabFault {}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
