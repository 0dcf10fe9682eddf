//! A region in real memory. Each access is checked, or its caller guarantees that it lies inside.

use super::{Arc, AtomicU64, Backing, Ordering, WORD};
use crate::sync::{AtomicU8, store, store_byte};
use crate::{copy, fresh, mapping};
use std::ptr::NonNull;
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::turns::settle;
use zerocopy::FromBytes;

/// A range of shared words with checked access.
#[derive(Clone)]
pub struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    writable: bool,
    _keep: Arc<Backing>,
}

/// Three consecutive words of a region, whose bounds were checked.
#[derive(Clone, Copy)]
pub(crate) struct WordTriple<'r>([&'r AtomicU64; 3]);

impl WordTriple<'_> {
    /// Loads the first word with relaxed ordering.
    #[inline(always)]
    pub(crate) fn first(self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Loads the other two words with relaxed ordering.
    #[inline(always)]
    pub(crate) fn rest(self) -> (u64, u64) {
        (self.0[1].load(Ordering::Relaxed), self.0[2].load(Ordering::Relaxed))
    }
}

/// One word of a region, whose bounds were checked when it was created.
pub struct Word {
    at: NonNull<AtomicU64>,
    _keep: Arc<Backing>,
}

impl Word {
    /// Loads the word with relaxed ordering.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        // SAFETY: `Region::word_at` checked the bounds, and `_keep` keeps the memory alive.
        unsafe { self.at.as_ref() }.load(Ordering::Relaxed)
    }
}

/// One word of a region that this side writes.
pub struct OwnWord(Word);

impl OwnWord {
    /// Stores the word with release ordering, after every earlier write.
    #[inline(always)]
    pub fn publish(&self, value: u64) {
        // SAFETY: as in `Word::load`; `Region::own_word_at` checked that the region is writable.
        store(unsafe { self.0.at.as_ref() }, value, Ordering::Release);
    }
}

// SAFETY: as for `Region`.
unsafe impl Send for Word {}

// SAFETY: as for `Region`.
unsafe impl Sync for Word {}

// SAFETY: the words are atomics that any thread may access, and the backing that `_keep` holds may
// be shared between threads. `base` points into that backing for as long as the region lives.
unsafe impl Send for Region {}

// SAFETY: as for Send. Every access of every method is atomic, or is assembly that the compiler
// treats alike (`copy`).
unsafe impl Sync for Region {}

impl Region {
    /// Creates a zeroed region of `words` words on the heap.
    ///
    /// # Panics
    /// Panics when there is no memory for them.
    pub fn heap(words: usize) -> Region {
        let words = fresh::Zeroed::new(words).map(|zeroed| Region::zeroed(words, zeroed));
        words.expect("there is no memory for a region")
    }

    /// Creates a zeroed region of `words` words on the heap, whose pages take memory only once they
    /// are written. Returns none if there is no memory for it.
    #[must_use]
    pub fn try_heap(words: usize) -> Option<Region> {
        obtain(Resource::Memory).ok()?;
        fresh::Zeroed::new(words).map(|zeroed| Region::zeroed(words, zeroed))
    }

    fn zeroed(words: usize, zeroed: fresh::Zeroed) -> Region {
        let base = zeroed.base();
        Region { base, words, writable: true, _keep: Arc::new(Backing::Heap(zeroed)) }
    }

    /// Creates a zeroed region of `words` words in pages of its own, each of which takes memory
    /// once it is touched. The region is on the heap where the system maps no more pages.
    #[must_use]
    pub fn pages(words: usize) -> Region {
        let Ok(mapping) = mapping::Mapping::anonymous(words * WORD) else {
            return Region::heap(words);
        };
        let base = mapping.base().cast();
        Region { base, words, writable: true, _keep: Arc::new(Backing::Mapped(mapping)) }
    }

    /// Adds a value that is dropped once this region, its parts and its later clones are dropped,
    /// such as the charge for its memory. Clones that were made before do not keep the value.
    #[must_use]
    pub fn keeping(self, kept: impl Send + Sync + 'static) -> Region {
        let backing = Backing::Kept(Arc::clone(&self._keep), Box::new(kept));
        Region { _keep: Arc::new(backing), ..self }
    }

    /// Returns the address of `bytes` bytes from byte `at` on, for the kernel to read.
    ///
    /// # Panics
    /// Panics when the bytes are outside the region.
    pub(crate) fn bytes_at(&self, at: usize, bytes: usize) -> *const u8 {
        let end = self.words * WORD;
        assert!(at <= end && bytes <= end - at);
        settle();
        // SAFETY: the bounds were checked just above.
        unsafe { self.base.as_ptr().cast::<u8>().add(at) }
    }

    /// Returns the address of `bytes` bytes from byte `at` on, for the kernel to write.
    ///
    /// # Panics
    /// Panics when the bytes are outside the region, or the region is read-only.
    pub(crate) fn bytes_at_mut(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(self.writable);
        self.bytes_at(at, bytes).cast_mut()
    }

    pub(crate) fn mapped(mapping: crate::mapping::Mapping) -> Region {
        let (base, words, writable) =
            (mapping.base().cast(), mapping.bytes() / WORD, mapping.is_writable());
        Region { base, words, writable, _keep: Arc::new(Backing::Mapped(mapping)) }
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns whether this side may store.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the region without the right to store.
    #[must_use]
    pub fn read_only(&self) -> Region {
        Region { writable: false, ..self.clone() }
    }

    /// Returns the part of `words` words that starts at word `first`.
    ///
    /// # Panics
    /// Panics when the part is not inside the region.
    #[must_use]
    pub fn part(&self, first: usize, words: usize) -> Region {
        assert!(
            first <= self.words && words <= self.words - first,
            "words {first}..+{words} of a region of {}",
            self.words
        );
        // SAFETY: the bounds were checked just above.
        let base = unsafe { self.base.add(first) };
        Region { base, words, writable: self.writable, _keep: Arc::clone(&self._keep) }
    }

    /// Returns whether these words begin at word `first` of `whole`.
    pub(crate) fn is_part_of(&self, whole: &Region, first: usize) -> bool {
        self.base.as_ptr() == whole.base.as_ptr().wrapping_add(first)
    }

    /// Returns one word, which is then loaded without a check of bounds.
    ///
    /// # Panics
    /// Panics when `at` is outside.
    #[must_use]
    pub fn word_at(&self, at: usize) -> Word {
        Word { at: NonNull::from(self.word(at)), _keep: Arc::clone(&self._keep) }
    }

    /// Returns one word that this side writes, which is then stored without a check of bounds.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[must_use]
    pub fn own_word_at(&self, at: usize) -> OwnWord {
        assert!(self.writable, "a store into a region that is mapped read-only");
        OwnWord(self.word_at(at))
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words);
        // SAFETY: the word is in bounds, aligned, and alive as long as `_keep`; only atomics access
        // it.
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
    unsafe fn word_unchecked(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < self.words);
        // SAFETY: the caller guarantees the bounds; the word is aligned and alive as long as
        // `_keep`.
        unsafe { self.base.add(at).as_ref() }
    }

    /// Loads a word as [`Region::load`] does, without a check of bounds.
    ///
    /// # Safety
    /// `at` is below [`Region::words`].
    #[inline(always)]
    pub(crate) unsafe fn load_unchecked(&self, at: usize) -> u64 {
        // SAFETY: the caller guarantees the bounds.
        unsafe { self.word_unchecked(at) }.load(Ordering::Relaxed)
    }

    /// Stores a word as [`Region::store`] does, without a check of bounds.
    ///
    /// # Safety
    /// `at` is below [`Region::words`], and the region is writable.
    #[inline(always)]
    pub(crate) unsafe fn store_unchecked(&self, at: usize, value: u64) {
        // SAFETY: the caller guarantees the bounds, and that the region is writable.
        store(unsafe { self.word_unchecked(at) }, value, Ordering::Relaxed);
    }

    /// Returns three consecutive words without a check of bounds, to be loaded. The base of the
    /// region is read once for all three, although other threads may change the words.
    ///
    /// # Safety
    /// `at` and the two words behind it are below [`Region::words`].
    #[inline(always)]
    pub(crate) unsafe fn triple_unchecked(&self, at: usize) -> WordTriple<'_> {
        debug_assert!(at + 2 < self.words);
        // SAFETY: the caller guarantees the bounds; the words are aligned and alive as in
        // `word_unchecked`.
        WordTriple(unsafe {
            let first = self.base.add(at);
            [first.as_ref(), first.add(1).as_ref(), first.add(2).as_ref()]
        })
    }

    /// Stores three consecutive words of a writable region without a check of bounds: the first
    /// word last, with release ordering.
    ///
    /// # Safety
    /// `at` and the two words behind it are below [`Region::words`], and the region is writable.
    #[inline(always)]
    pub(crate) unsafe fn publish_triple_unchecked(&self, at: usize, words: [u64; 3]) {
        debug_assert!(at + 2 < self.words);
        // SAFETY: the caller guarantees the bounds.
        let WordTriple([first, second, third]) = unsafe { self.triple_unchecked(at) };
        store(second, words[1], Ordering::Relaxed);
        store(third, words[2], Ordering::Relaxed);
        store(first, words[0], Ordering::Release);
    }

    /// Prefetches the line of a word that will be stored soon, so that it arrives from another
    /// processor meanwhile. The prefetch is a hint: the word may lie outside the region.
    #[inline(always)]
    pub(crate) fn prefetch_for_store(&self, at: usize) {
        let _word = self.base.as_ptr().wrapping_add(at);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch reads and writes nothing, and accepts any address. The intrinsic would
        // prefetch for loads, unless the whole program is compiled for processors with this
        // instruction.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) _word, options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) _word, options(nostack, preserves_flags));
        }
    }

    /// Loads a word with relaxed ordering.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Stores a word with relaxed ordering.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn store(&self, at: usize, value: u64) {
        store(self.word_mut(at), value, Ordering::Relaxed);
    }

    /// Stores a word with release ordering, after every earlier write.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn publish(&self, at: usize, value: u64) {
        store(self.word_mut(at), value, Ordering::Release);
    }

    /// Sets the bits of `mask` in a word in one step, with release ordering. The other side uses [`Region::take`], and
    /// then sees what each side has written that has set bits before: a plain store would hide the stores of others.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn set_bits(&self, at: usize, mask: u64) {
        self.word_mut(at).fetch_or(mask, Ordering::Release);
    }

    /// Stores one byte with relaxed ordering.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn store_byte(&self, at: usize, value: u8) {
        assert!(self.writable && at < self.words * WORD);
        // SAFETY: the byte is in bounds, and a byte atomic needs no alignment.
        let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().cast::<u8>().add(at)) };
        store_byte(byte, value);
    }

    /// Exchanges a byte with 0 in one step, with acquire and release ordering, and returns the old
    /// byte.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    pub fn take_byte(&self, at: usize) -> u8 {
        assert!(self.writable && at < self.words * WORD);
        // SAFETY: as in `store_byte`.
        let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().cast::<u8>().add(at)) };
        byte.swap(0, Ordering::AcqRel)
    }

    /// Exchanges a word with 0 in one step, with acquire and release ordering, and returns the old
    /// word.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    pub fn take(&self, at: usize) -> u64 {
        self.word_mut(at).swap(0, Ordering::AcqRel)
    }

    /// Flips the bits of `mask` in a word in one step, with release ordering.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn toggle(&self, at: usize, mask: u64) {
        self.word_mut(at).fetch_xor(mask, Ordering::Release);
    }

    /// Loads the eight bytes of a word that others store byte by byte.
    ///
    /// # Panics
    /// Panics when `at` is outside.
    #[inline]
    pub fn load_bytes(&self, at: usize) -> [u8; WORD] {
        assert!(at < self.words);
        // SAFETY: the word is in bounds, and alive as long as `_keep`.
        unsafe { copy::load_bytes(self.base.as_ptr().cast::<u8>().add(at * WORD)) }
    }

    /// Copies `bytes` to byte `at`. The caller has claimed that range: no reader reads it before a
    /// later [`Region::publish`].
    ///
    /// # Panics
    /// Panics when the region is read-only, or the bytes would lie outside.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let end = self.words * WORD;
        assert!(self.writable && at <= end && bytes.len() <= end - at);
        // SAFETY: the bounds and the right to write were checked just above.
        unsafe { self.write_unchecked(at, bytes) }
    }

    /// Copies `bytes` to byte `at` without a check of bounds.
    ///
    /// # Safety
    /// The region is writable, and the bytes lie inside.
    #[inline(always)]
    pub(crate) unsafe fn write_unchecked(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller guarantees the bounds; `bytes` is private to this side and cannot
        // overlap a region.
        unsafe {
            let to = self.base.as_ptr().cast::<u8>().add(at);
            copy::into_shared(bytes.as_ptr(), to, bytes.len(), at.is_multiple_of(WORD));
        }
    }

    /// Copies bytes out of the region, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the bytes are outside, or `at` does not begin a word.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let end = self.words * WORD;
        assert!(at.is_multiple_of(WORD) && at <= end && to.len() <= end - at);
        // SAFETY: the bounds were checked; `to` is private to this side and cannot overlap a
        // region.
        unsafe { copy::out_of_shared(self.base.add(at / WORD), to.as_mut_ptr(), to.len()) }
    }

    /// Copies `count` items of plain data out of the region, from byte `at`, which must begin a
    /// word, into newly allocated memory. Returns none if there is no memory for them.
    ///
    /// # Panics
    /// Panics when the items would lie outside, or `at` does not begin a word.
    #[inline]
    pub fn read_items<T: FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let end = self.words * WORD;
        let bytes = count.checked_mul(size_of::<T>());
        let bytes = bytes.filter(|bytes| at <= end && *bytes <= end - at);
        let bytes = bytes.expect("the items must lie in the region");
        assert!(at.is_multiple_of(WORD));
        let mut items = fresh::vector::<T>(count)?;
        // SAFETY: source and destination have `bytes` bytes, and `T` accepts any bytes. All `count`
        // items are written before the length is set.
        unsafe {
            copy::out_of_shared(self.base.add(at / WORD), items.as_mut_ptr().cast(), bytes);
            items.set_len(count);
        }
        Some(items)
    }

    /// Loads a value of plain data from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the value would lie outside, or `at` does not begin a word.
    #[inline]
    pub fn read_value<T: FromBytes>(&self, at: usize) -> T {
        let (end, bytes) = (self.words * WORD, size_of::<T>());
        assert!(at.is_multiple_of(WORD) && at <= end && bytes <= end - at);
        // SAFETY: the bounds and the alignment were checked just above.
        unsafe { self.read_value_unchecked(at) }
    }

    /// Loads a value of plain data from byte `at` without a check of bounds.
    ///
    /// # Safety
    /// `at` begins a word, and the value lies inside the region.
    #[inline(always)]
    pub(crate) unsafe fn read_value_unchecked<T: FromBytes>(&self, at: usize) -> T {
        let bytes = size_of::<T>();
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        // SAFETY: source and destination have `bytes` bytes, and `T` accepts any bytes.
        unsafe {
            copy::out_of_shared(self.base.add(at / WORD), value.as_mut_ptr().cast(), bytes);
            value.assume_init()
        }
    }
}
