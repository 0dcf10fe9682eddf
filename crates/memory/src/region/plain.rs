//! A region in real memory: every access is checked, or its caller has shown that it lies inside.

use super::{Arc, AtomicU64, Backing, Ordering, WORD};
use crate::sync::AtomicU8;
use crate::{copy, fresh, mapping};
use std::ptr::NonNull;
use zerocopy::FromBytes;

/// A checked view of shared words.
#[derive(Clone)]
pub struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    writable: bool,
    _keep: Arc<Backing>,
}

/// Three words in a row of a region, whose bounds are known.
#[derive(Clone, Copy)]
pub(crate) struct Three<'r>([&'r AtomicU64; 3]);

impl Three<'_> {
    /// Loads the first word, without order.
    #[inline(always)]
    pub(crate) fn first(self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Loads the others, without order.
    #[inline(always)]
    pub(crate) fn rest(self) -> (u64, u64) {
        (self.0[1].load(Ordering::Relaxed), self.0[2].load(Ordering::Relaxed))
    }
}

/// One word of a region, whose bounds were checked when it was taken.
pub struct Word {
    at: NonNull<AtomicU64>,
    _keep: Arc<Backing>,
}

impl Word {
    /// Loads the word, without order.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        // SAFETY: `Region::word_at` checked that it is in bounds; `_keep` keeps it alive.
        unsafe { self.at.as_ref() }.load(Ordering::Relaxed)
    }
}

/// One word of a region that this side writes.
pub struct OwnWord(Word);

impl OwnWord {
    /// Stores the word behind every earlier write.
    #[inline(always)]
    pub fn publish(&self, value: u64) {
        // SAFETY: as in `Word::load`; `Region::own_word_at` checked that it may be written.
        unsafe { self.0.at.as_ref() }.store(value, Ordering::Release);
    }
}

// SAFETY: as for `Region`.
unsafe impl Send for Word {}

// SAFETY: as for `Region`.
unsafe impl Sync for Word {}

// SAFETY: the words are atomics that any thread may touch, and the backing that `_keep` holds
// is itself shared between threads; `base` points into it for as long as the region lives.
unsafe impl Send for Region {}

// SAFETY: as for Send; every access of every method is atomic, or as good as that (`copy`).
unsafe impl Sync for Region {}

impl Region {
    /// Makes a zeroed region of `words` words on the heap.
    pub fn heap(words: usize) -> Region {
        // One line more than asked for, so that the first word can start a cache line.
        let cells: Arc<[AtomicU64]> = (0..words + 8).map(|_| AtomicU64::new(0)).collect();
        let start = Arc::as_ptr(&cells).cast::<AtomicU64>().cast_mut();
        let skip = start.align_offset(64).min(8);
        // SAFETY: `skip` is at most 8 and the allocation has `words + 8` words.
        let base = unsafe { NonNull::new_unchecked(start.add(skip)) };
        Region { base, words, writable: true, _keep: Arc::new(Backing::Heap(cells)) }
    }

    /// Makes a zeroed region of `words` words on the heap, whose pages take memory only once they are
    /// written. None if there is no memory for it.
    #[must_use]
    pub fn try_heap(words: usize) -> Option<Region> {
        let zeroed = fresh::Zeroed::new(words)?;
        let base = zeroed.base();
        Some(Region { base, words, writable: true, _keep: Arc::new(Backing::Zeroed(zeroed)) })
    }

    /// Makes a zeroed region of `words` words in pages of its own, of which each takes memory once it is touched.
    /// On the heap, where the system maps no more.
    #[must_use]
    pub fn pages(words: usize) -> Region {
        let Ok(mapping) = mapping::Mapping::own(words * WORD) else { return Region::heap(words) };
        let base = mapping.base().cast();
        Region { base, words, writable: true, _keep: Arc::new(Backing::Mapped(mapping)) }
    }

    /// The same words, and something that is dropped once nobody has this region, or a part of it, any more: what
    /// its memory is charged with. Clones that were made before do not keep it.
    #[must_use]
    pub fn keeping(self, kept: impl Send + Sync + 'static) -> Region {
        let backing = Backing::Kept(Arc::clone(&self._keep), Box::new(kept));
        Region { _keep: Arc::new(backing), ..self }
    }

    /// Where `bytes` bytes lie from byte `at` on, for the kernel to read.
    ///
    /// # Panics
    /// When they are outside.
    pub(crate) fn bytes_at(&self, at: usize, bytes: usize) -> *const u8 {
        let end = self.words * WORD;
        assert!(at <= end && bytes <= end - at);
        // SAFETY: in bounds, as was checked just above.
        unsafe { self.base.as_ptr().cast::<u8>().add(at) }
    }

    /// The same, for the kernel to write.
    ///
    /// # Panics
    /// When they are outside, or the region is read-only.
    pub(crate) fn bytes_at_mut(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(self.writable);
        self.bytes_at(at, bytes).cast_mut()
    }

    pub(crate) fn mapped(mapping: crate::mapping::Mapping) -> Region {
        let (base, words, writable) =
            (mapping.base().cast(), mapping.bytes() / WORD, mapping.is_writable());
        Region { base, words, writable, _keep: Arc::new(Backing::Mapped(mapping)) }
    }

    /// The number of words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Whether this side may store.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The same words, to read alone.
    #[must_use]
    pub fn read_only(&self) -> Region {
        Region { writable: false, ..self.clone() }
    }

    /// A view of `words` words that starts at word `first`.
    ///
    /// # Panics
    /// When that is not inside the region.
    #[must_use]
    pub fn part(&self, first: usize, words: usize) -> Region {
        assert!(
            first <= self.words && words <= self.words - first,
            "words {first}..+{words} of a region of {}",
            self.words
        );
        // SAFETY: checked just above.
        let base = unsafe { self.base.add(first) };
        Region { base, words, writable: self.writable, _keep: Arc::clone(&self._keep) }
    }

    /// Takes one word, to load it often without a check.
    ///
    /// # Panics
    /// When `at` is outside.
    #[must_use]
    pub fn word_at(&self, at: usize) -> Word {
        Word { at: NonNull::from(self.word(at)), _keep: Arc::clone(&self._keep) }
    }

    /// Takes one word that this side writes, to store it often without a check.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[must_use]
    pub fn own_word_at(&self, at: usize) -> OwnWord {
        assert!(self.writable, "a store into a region that is mapped read-only");
        OwnWord(self.word_at(at))
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words);
        // SAFETY: in bounds, aligned, and alive as long as `_keep`; only atomics are accessed.
        unsafe { self.base.add(at).as_ref() }
    }

    #[inline]
    fn word_mut(&self, at: usize) -> &AtomicU64 {
        assert!(self.writable, "a store into a region that is mapped read-only");
        self.word(at)
    }

    /// # Safety
    /// `at` is below [`Region::words`].
    #[inline(always)]
    unsafe fn word_in(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < self.words);
        // SAFETY: in bounds, as the caller says, aligned, and alive as long as `_keep`.
        unsafe { self.base.add(at).as_ref() }
    }

    /// [`Region::load`] of a word that is known to be inside.
    ///
    /// # Safety
    /// `at` is below [`Region::words`].
    #[inline(always)]
    pub(crate) unsafe fn load_in(&self, at: usize) -> u64 {
        // SAFETY: as the caller says.
        unsafe { self.word_in(at) }.load(Ordering::Relaxed)
    }

    /// [`Region::store`] to a word that is known to be inside, of a writable region.
    ///
    /// # Safety
    /// `at` is below [`Region::words`], and the region is writable.
    #[inline(always)]
    pub(crate) unsafe fn store_in(&self, at: usize, value: u64) {
        // SAFETY: as the caller says.
        unsafe { self.word_in(at) }.store(value, Ordering::Relaxed);
    }

    /// Three words in a row that are known to be inside, to be loaded. The base of the region is read once for
    /// them, although others may change the words.
    ///
    /// # Safety
    /// `at` and the two words behind it are below [`Region::words`].
    #[inline(always)]
    pub(crate) unsafe fn three_in(&self, at: usize) -> Three<'_> {
        debug_assert!(at + 2 < self.words);
        // SAFETY: in bounds, as the caller says; aligned and alive as in `word_in`.
        Three(unsafe {
            let first = self.base.add(at);
            [first.as_ref(), first.add(1).as_ref(), first.add(2).as_ref()]
        })
    }

    /// Stores three words that are known to be inside of a writable region: the first one last, behind
    /// every earlier write.
    ///
    /// # Safety
    /// `at` and the two words behind it are below [`Region::words`], and the region is writable.
    #[inline(always)]
    pub(crate) unsafe fn publish_three_in(&self, at: usize, words: [u64; 3]) {
        debug_assert!(at + 2 < self.words);
        // SAFETY: as the caller says.
        let Three([first, second, third]) = unsafe { self.three_in(at) };
        second.store(words[1], Ordering::Relaxed);
        third.store(words[2], Ordering::Relaxed);
        first.store(words[0], Ordering::Release);
    }

    /// Asks for the line of a word that will be stored to soon, so that it is on its way from another processor
    /// meanwhile. A hint: the word may lie outside of the region.
    #[inline(always)]
    pub(crate) fn prefetch_for_store(&self, at: usize) {
        let _word = self.base.as_ptr().wrapping_add(at);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch reads and writes nothing, and takes any address. The intrinsic for it is one for
        // loads, unless the whole program is compiled for processors that have this one.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) _word, options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) _word, options(nostack, preserves_flags));
        }
    }

    /// Loads a word, without order.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Stores a word, without order.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[inline]
    pub fn store(&self, at: usize, value: u64) {
        self.word_mut(at).store(value, Ordering::Relaxed);
    }

    /// Stores a word behind every earlier write.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[inline]
    pub fn publish(&self, at: usize, value: u64) {
        self.word_mut(at).store(value, Ordering::Release);
    }

    /// Stores a word behind every earlier write, where the other side uses [`Region::take`].
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[inline]
    pub fn give(&self, at: usize, value: u64) {
        self.publish(at, value);
    }

    /// Stores one byte, without order.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[inline]
    pub fn store_byte(&self, at: usize, value: u8) {
        assert!(self.writable && at < self.words * WORD);
        // SAFETY: in bounds; a byte atomic may lie anywhere.
        let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().cast::<u8>().add(at)) };
        byte.store(value, Ordering::Relaxed);
    }

    /// Takes a byte: loads it and leaves 0, in one step that is ordered like a lock.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    pub fn take_byte(&self, at: usize) -> u8 {
        assert!(self.writable && at < self.words * WORD);
        // SAFETY: as in `store_byte`.
        let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().cast::<u8>().add(at)) };
        byte.swap(0, Ordering::AcqRel)
    }

    /// Takes a word: loads it and leaves 0, in one step that is ordered like a lock.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    pub fn take(&self, at: usize) -> u64 {
        self.word_mut(at).swap(0, Ordering::AcqRel)
    }

    /// Flips the bits of `mask` in a word, in one step, behind every earlier read and write.
    ///
    /// # Panics
    /// When the region is read-only, or `at` is outside.
    #[inline]
    pub fn toggle(&self, at: usize, mask: u64) {
        self.word_mut(at).fetch_xor(mask, Ordering::Release);
    }

    /// Loads the eight bytes of a word that others store byte by byte.
    ///
    /// # Panics
    /// When `at` is outside.
    #[inline]
    pub fn load_bytes(&self, at: usize) -> [u8; WORD] {
        assert!(at < self.words);
        // SAFETY: in bounds, and alive as long as `_keep`.
        unsafe { copy::load_bytes(self.base.as_ptr().cast::<u8>().add(at * WORD)) }
    }

    /// Copies `bytes` to byte `at`. The caller has claimed that room: nobody reads it before
    /// a later [`Region::publish`].
    ///
    /// # Panics
    /// When the region is read-only, or the bytes would lie outside.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let end = self.words * WORD;
        assert!(self.writable && at <= end && bytes.len() <= end - at);
        // SAFETY: as was checked.
        unsafe { self.write_in(at, bytes) }
    }

    /// The same where it is known that the region has room for them there.
    ///
    /// # Safety
    /// The region is writable, and the bytes lie inside.
    #[inline(always)]
    pub(crate) unsafe fn write_in(&self, at: usize, bytes: &[u8]) {
        // SAFETY: in bounds; `bytes` is private to this side and cannot overlap a region.
        unsafe {
            let to = self.base.as_ptr().cast::<u8>().add(at);
            copy::into_shared(bytes.as_ptr(), to, bytes.len(), at.is_multiple_of(WORD));
        }
    }

    /// Copies bytes out, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When the bytes are outside, or `at` does not begin a word.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let end = self.words * WORD;
        assert!(at.is_multiple_of(WORD) && at <= end && to.len() <= end - at);
        // SAFETY: in bounds; `to` is private to this side and cannot overlap a region.
        unsafe { copy::out_of_shared(self.base.add(at / WORD), to.as_mut_ptr(), to.len()) }
    }

    /// Copies `count` items of plain data out, from byte `at`, which must begin a word, into
    /// memory that is not written before. None if there is no memory for them.
    ///
    /// # Panics
    /// When they would lie outside, or `at` does not begin a word.
    #[inline]
    pub fn read_items<T: FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let end = self.words * WORD;
        let bytes = count.checked_mul(size_of::<T>());
        let bytes = bytes.filter(|bytes| at <= end && *bytes <= end - at);
        let bytes = bytes.expect("items that lie in the region");
        assert!(at.is_multiple_of(WORD));
        let mut items = fresh::vector::<T>(count)?;
        // SAFETY: source and destination have `bytes` bytes, of which T accepts any; all
        // `count` items are written before they count.
        unsafe {
            copy::out_of_shared(self.base.add(at / WORD), items.as_mut_ptr().cast(), bytes);
            items.set_len(count);
        }
        Some(items)
    }

    /// Loads a value of plain data from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When it would lie outside, or `at` does not begin a word.
    #[inline]
    pub fn read_value<T: FromBytes>(&self, at: usize) -> T {
        let (end, bytes) = (self.words * WORD, size_of::<T>());
        assert!(at.is_multiple_of(WORD) && at <= end && bytes <= end - at);
        // SAFETY: as was checked.
        unsafe { self.read_value_in(at) }
    }

    /// The same where it is known that the value lies in the region.
    ///
    /// # Safety
    /// `at` begins a word, and the value lies inside.
    #[inline(always)]
    pub(crate) unsafe fn read_value_in<T: FromBytes>(&self, at: usize) -> T {
        let bytes = size_of::<T>();
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        // SAFETY: source and destination have `bytes` bytes; T accepts any bytes.
        unsafe {
            copy::out_of_shared(self.base.add(at / WORD), value.as_mut_ptr().cast(), bytes);
            value.assume_init()
        }
    }
}
