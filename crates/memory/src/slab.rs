//! Slabs: buffers that a sender lends and its peer returns.
//!
//! A slab is a segment of the sender, divided into buffers of one size, which the peer maps read-only. The owner
//! claims, writes and lends a buffer; the peer reads it through a [`Loan`]. A dropped loan flips the buffer's bit in
//! a word of the peer, as the owner flipped it in its notes when it lent the buffer: while both bits are equal, the
//! buffer is free. The owner loads the peer's word only when it knows of no free buffer: a return sends no message.
//!
//! Other modules decide where that word lies, and how the peer learns of a slab and of a lent buffer. That message
//! is published after the buffer's bytes, and the peer fences (acquire) between the message and the first read. A
//! word serves another slab only when the old slab [is idle](Slab::is_idle).
//!
//! Invariant: between two correct sides, nothing is written into a buffer under a loan. A side that breaks the
//! rules damages only its own messages or its own reads: whatever a peer writes into its word, the owner at worst
//! reuses a buffer too early or never; whatever an owner lends, the peer reads inside the slab.

mod fault;
mod reservation;

pub use fault::SlabFault;
pub use reservation::Reservation;

use crate::probe::Lines;
use crate::region::{Region, WORD};
use crate::sync::{AtomicU64, Ordering, fence};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

/// The largest number of buffers of a slab, since one word records their returns.
pub const BUFFERS_PER_SLAB_MAX: u32 = 64;

/// Returns whether a region of `bytes` bytes can be a slab of `count` buffers of `each` bytes.
#[must_use]
pub const fn is_slab(bytes: usize, each: usize, count: u32) -> bool {
    each != 0
        && each.is_multiple_of(WORD)
        && count != 0
        && count <= BUFFERS_PER_SLAB_MAX
        && each <= bytes / count as usize
}

/// Returns a mask with one bit for each of `count` buffers.
const fn every(count: u32) -> u64 {
    u64::MAX >> (u64::BITS - count)
}

/// The owner's side of a slab, which claims, writes and lends buffers.
pub struct Slab {
    region: Region,
    each: usize,
    count: u32,
    /// The buffers that are known to be free.
    free: Cell<u64>,
    /// The buffers that are being written.
    claimed: Cell<u64>,
    /// The index from which the next claim looks for a free buffer.
    next: Cell<u32>,
    /// One bit for each buffer, flipped when the buffer is lent.
    lends: Cell<u64>,
}

impl Slab {
    /// Creates a slab of `count` free buffers of `each` bytes. `returned` is the present value of the peer's word,
    /// which may have bits of an earlier slab.
    ///
    /// # Panics
    /// Panics when the region is read-only, or the sizes make no slab (see [`is_slab`]).
    #[must_use]
    pub fn new(region: Region, each: usize, count: u32, returned: u64) -> Slab {
        assert!(region.is_writable(), "the region of a slab's owner must be writable");
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

    /// Returns the size of a buffer in bytes.
    #[inline]
    pub fn buffer_bytes(&self) -> usize {
        self.each
    }

    /// Returns the number of buffers.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether a buffer is free. The method calls `returned` for the peer's word only if no buffer is
    /// known to be free.
    #[inline]
    pub fn has_free(&self, returned: impl FnOnce() -> u64) -> bool {
        if self.free.get() == 0 {
            self.update_free(returned());
        }
        self.free.get() != 0
    }

    /// Claims the next buffer that is known to be free. The method calls `returned` for the peer's word only if
    /// there is none.
    #[inline]
    pub fn claim(&self, returned: impl FnOnce() -> u64) -> Option<Buffer<'_>> {
        if !self.has_free(returned) {
            return None;
        }
        // Buffers are claimed in turn, since the buffer that its reader has just read is the slowest to write.
        let free = self.free.get();
        let behind = free & u64::MAX << self.next.get();
        let from = if behind == 0 { free } else { behind };
        let bit = from & from.wrapping_neg();
        self.next.set((bit.trailing_zeros() + 1) % u64::BITS);
        self.free.set(free ^ bit);
        self.claimed.set(self.claimed.get() | bit);
        Some(Buffer { slab: self, index: bit.trailing_zeros(), lines: Lines::default() })
    }

    /// Updates the free buffers from the peer's word.
    #[cold]
    #[inline(never)]
    fn update_free(&self, returned: u64) {
        // The fence keeps later writes into those buffers behind the reads under their loans.
        fence(Ordering::Acquire);
        self.free.set(self.back(returned) & !self.claimed.get());
    }

    /// Returns the buffers that the peer does not hold, according to its word.
    fn back(&self, returned: u64) -> u64 {
        !(returned ^ self.lends.get()) & every(self.count)
    }

    /// Returns the number of lent buffers as far as it is known: some of them may have been returned.
    pub fn lent(&self) -> u32 {
        self.count - (self.free.get() | self.claimed.get()).count_ones()
    }

    /// Returns whether every buffer is returned according to the peer's word, and none is being written.
    pub fn is_idle(&self, returned: u64) -> bool {
        // The fence keeps any later use of the memory behind the reads under the loans.
        fence(Ordering::Acquire);
        self.back(returned) == every(self.count) && self.claimed.get() == 0
    }
}

/// A claimed buffer that is being written. A dropped buffer is free again, and the peer never sees it.
pub struct Buffer<'a> {
    slab: &'a Slab,
    index: u32,
    lines: Lines,
}

impl Buffer<'_> {
    /// Returns the size of the buffer in bytes.
    #[inline]
    pub fn room(&self) -> usize {
        self.slab.each
    }

    /// Writes bytes at offset `at` of the buffer.
    ///
    /// # Panics
    /// Panics when the bytes do not fit.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.room() && bytes.len() <= self.room() - at);
        let start = self.index as usize * self.slab.each;
        self.lines.stored(at, bytes.len());
        self.slab.region.write(start + at, bytes);
    }

    /// Lends the buffer and returns its index, which the caller publishes. The peer holds the buffer until its bit
    /// flips.
    #[inline]
    pub fn lend(self) -> u32 {
        let (slab, index) = (self.slab, self.index);
        slab.lends.set(slab.lends.get() ^ 1 << index);
        self.lines.lent();
        // A lent buffer must not run the drop of a claim.
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

/// The peer's side of a slab: the readable buffers, and the word of this side that records returns. Both stay
/// mapped while a loan lives.
pub struct Borrowed {
    /// The slab's region, once there is memory to map it.
    region: OnceLock<Region>,
    each: usize,
    count: u32,
    returns: Region,
    /// The buffers under a loan.
    held: AtomicU64,
    tell: Option<ReturnCallback>,
    /// The allowance for kept buffers, and the amount that one buffer takes of it.
    allowance: Arc<Allowance>,
    weight: u64,
}

/// A limit on what may be [kept](Loan::keep) of one slab, or of several together.
#[derive(Debug)]
pub struct Allowance {
    most: u64,
    left: AtomicU64,
    /// Another allowance, and the amount taken of it while anything is taken of this one.
    within: Option<(Arc<Allowance>, u64)>,
}

impl Allowance {
    /// Creates an allowance of `most`.
    #[must_use]
    pub fn new(most: u64) -> Allowance {
        Allowance { most, left: AtomicU64::new(most), within: None }
    }

    /// Makes an allowance of `most` that also takes `weight` of another one while anything is taken of it.
    #[must_use]
    pub fn within(most: u64, other: Arc<Allowance>, weight: u64) -> Allowance {
        Allowance { within: Some((other, weight)), ..Allowance::new(most) }
    }

    /// Takes `weight` of the allowance. Returns false if less is left.
    fn take(&self, weight: u64) -> bool {
        // The count protects no other data, so it needs no ordering.
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

/// A callback that a returned buffer triggers if its loan was given back explicitly. It runs on any thread.
pub type ReturnCallback = Box<dyn Fn() + Send + Sync>;

impl Borrowed {
    /// Creates the peer's side of a slab of `count` buffers of `each` bytes. `returns` is one word of this side.
    ///
    /// # Panics
    /// Panics when the sizes make no slab (see [`is_slab`]), or `returns` is not one writable word.
    #[must_use]
    pub fn new(region: Region, each: usize, count: u32, returns: Region) -> Borrowed {
        checked(&region, each, count);
        Borrowed { region: OnceLock::from(region), ..Borrowed::unmapped(each, count, returns) }
    }

    /// Creates the peer's side of a slab that there is no memory to map: its buffers are taken and returned, and cannot
    /// be read before it is [mapped](Borrowed::map).
    ///
    /// # Panics
    /// Panics when `returns` is not one writable word.
    #[must_use]
    pub fn unmapped(each: usize, count: u32, returns: Region) -> Borrowed {
        assert!(returns.is_writable() && returns.words() == 1, "returns need one writable word");
        let (held, allowance) = (AtomicU64::new(0), Arc::new(Allowance::new(u64::MAX)));
        let region = OnceLock::new();
        Borrowed { region, each, count, returns, held, tell: None, allowance, weight: 1 }
    }

    /// Maps a slab that there was no memory to map before.
    ///
    /// # Panics
    /// Panics when the sizes make no slab, or the slab is mapped already.
    pub fn map(&self, region: Region) {
        checked(&region, self.each, self.count);
        assert!(self.region.set(region).is_ok(), "a slab is mapped once");
    }

    /// Returns whether the slab is mapped. A buffer of an unmapped slab cannot be read.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.region.get().is_some()
    }

    /// Sets the allowance for kept buffers, of which each kept buffer takes `weight`.
    #[must_use]
    pub fn with_allowance(self, allowance: Arc<Allowance>, weight: u64) -> Borrowed {
        Borrowed { allowance, weight, ..self }
    }

    /// Sets the callback of loans that are [given back](Loan::give_back).
    #[must_use]
    pub fn with_callback(self, tell: ReturnCallback) -> Borrowed {
        Borrowed { tell: Some(tell), ..self }
    }

    /// Takes a buffer that the peer has lent with `len` valid bytes. The caller has executed an acquire fence
    /// after it received the message about the buffer.
    #[inline]
    pub fn take(self: &Arc<Self>, index: u32, len: usize) -> Result<Loan, SlabFault> {
        if index >= self.count {
            return Err(SlabFault::Index { index, count: self.count });
        }
        if len > self.each {
            return Err(SlabFault::Length { len, each: self.each });
        }
        let bit = 1 << index;
        // A correct owner lends a buffer again only after its return, and the return follows the end of the last
        // loan in program order. No ordering is therefore needed to see that end here.
        if self.held.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return Err(SlabFault::Held { index });
        }
        Ok(Loan { slab: Arc::clone(self), index, len, kept: false, lines: Lines::default() })
    }

    /// Returns the number of buffers under a loan.
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

/// A buffer of the peer that this side holds and reads in place. Dropping the loan, on any thread, returns the
/// buffer.
pub struct Loan {
    slab: Arc<Borrowed>,
    index: u32,
    len: usize,
    kept: bool,
    lines: Lines,
}

impl Loan {
    /// Returns the number of valid bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no byte is valid.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn region(&self) -> &Region {
        self.slab.region.get().expect("a buffer of an unmapped slab cannot be read")
    }

    /// Copies bytes out of the buffer, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when not all bytes are valid, `at` does not begin a word, or the slab is not mapped.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let start = self.start(at, to.len());
        self.region().read(start, to);
    }

    /// Loads a value of plain data from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when not all its bytes are valid, `at` does not begin a word, or the slab is not mapped.
    #[cfg(not(loom))]
    #[inline]
    pub fn read_value<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        let start = self.start(at, size_of::<T>());
        self.region().read_value(start)
    }

    /// Copies items of plain data out of the buffer, from byte `at`, which must begin a word. Returns none if
    /// there is no memory for them.
    ///
    /// # Panics
    /// Panics when not all their bytes are valid, `at` does not begin a word, or the slab is not mapped.
    #[cfg(not(loom))]
    pub fn read_items<T: zerocopy::FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let start = self.start(at, count.saturating_mul(size_of::<T>()));
        self.region().read_items(start, count)
    }

    /// Loads word `word`. The bytes of the last word behind the valid ones may have any value.
    ///
    /// # Panics
    /// Panics when the word has no valid byte, or the slab is not mapped.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        assert!(word < self.len.div_ceil(WORD));
        self.lines.loaded(word * WORD, WORD);
        self.region().load(self.index as usize * self.slab.each / WORD + word)
    }

    /// Keeps the buffer for longer than its message is handled. Returns false if the allowance is used up.
    pub fn keep(&mut self) -> bool {
        self.kept = self.kept || self.slab.allowance.take(self.slab.weight);
        self.kept
    }

    /// Returns the buffer and calls the callback, so that a waiting owner learns of the return. A dropped loan
    /// returns the buffer without the callback.
    pub fn give_back(self) {
        let slab = Arc::clone(&self.slab);
        drop(self);
        slab.tell.iter().for_each(|tell| tell());
    }

    /// Returns the offset in the slab of `bytes` valid bytes at `at`.
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
        // The loan ends before the return is visible, since the owner may lend the buffer again at once.
        self.slab.held.fetch_and(!bit, Ordering::Relaxed);
        // Release ordering suffices. The flip is ordered after every read under this loan, on whichever thread,
        // and the owner's acquire fence orders its writes after the flip. The flips of other loans continue the
        // release sequence, since they are read-modify-write operations too. Nothing that follows here has to
        // wait.
        self.slab.returns.toggle(0, bit);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
