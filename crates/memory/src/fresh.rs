//! Memory that is about to be written whole.
//!
//! The system provides the pages of a long vector one by one as they are written, and a page fault costs more than
//! the bytes of the page. Long vectors therefore ask for large pages.

use crate::sync::{AtomicU64, frees};
use std::alloc::Layout;
use std::ptr::NonNull;
use zerocopy::FromBytes;

#[cfg(not(miri))]
use rustix::mm::{Advice, madvise};

/// The length from which a vector asks for large pages. A vector of 64 MiB took 42 ms to be allocated and filled
/// with small pages, and 16 ms with large ones.
#[cfg(not(miri))]
const LONG: usize = 4 << 20;

/// The size of a large page in bytes.
#[cfg(not(miri))]
const LARGE_PAGE: usize = 2 << 20;

/// The alignment of zeroed words: a pair of lines of 64 bytes, or the longest line of a processor.
pub(crate) const LINE: usize = 128;

/// Creates an empty vector with room for `count` items, all of which the caller will write at once. Returns none
/// if there is no memory for them.
#[inline]
pub(crate) fn vector<T>(count: usize) -> Option<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(count).ok()?;
    #[cfg(not(miri))]
    if size_of::<T>() * count >= LONG {
        ask_for_large_pages(&items);
    }
    Some(items)
}

/// Copies `count` items of plain data from the start of private bytes in one pass, since a copy item by item takes
/// many times as long. Returns none if there is no memory for them.
///
/// # Panics
/// Panics when there are fewer bytes.
#[must_use]
pub fn copied<T: FromBytes>(bytes: &[u8], count: usize) -> Option<Vec<T>> {
    let wanted = count.checked_mul(size_of::<T>());
    let wanted =
        wanted.filter(|wanted| *wanted <= bytes.len()).expect("the bytes must hold all items");
    let mut items = vector::<T>(count)?;
    // SAFETY: source and destination have `wanted` bytes and do not overlap, since the destination is new. `T`
    // accepts any bytes, and all `count` items are written before the length is set.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), items.as_mut_ptr().cast(), wanted);
        items.set_len(count);
    }
    Some(items)
}

/// Zeroed words on the heap, from the beginning of a cache line, whose pages take memory only once they are
/// written.
pub(crate) struct Zeroed {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is accessed only through atomics, and freed once.
unsafe impl Send for Zeroed {}

// SAFETY: as for Send.
unsafe impl Sync for Zeroed {}

impl Zeroed {
    /// Allocates this many words. Returns none if there is no memory for them.
    pub(crate) fn new(words: usize) -> Option<Zeroed> {
        // The allocator would zero a layout with the alignment of a line by hand.
        let bytes = words.checked_mul(size_of::<u64>())?.checked_add(LINE)?;
        let layout = Layout::from_size_align(bytes, align_of::<u64>()).ok()?;
        // SAFETY: the layout has a size above 0.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Zeroed { start, layout })
    }

    /// Returns the address of the first word.
    pub(crate) fn base(&self) -> NonNull<AtomicU64> {
        let skip = self.start.as_ptr().align_offset(LINE).min(LINE);
        // SAFETY: the allocation is one line longer than the words.
        unsafe { self.start.add(skip) }.cast()
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        frees(self.start, self.layout.size());
        // SAFETY: the memory was allocated with this layout, and only this drop frees it.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(not(miri))]
#[cold]
fn ask_for_large_pages<T>(items: &Vec<T>) {
    let begin = items.as_ptr().cast::<u8>();
    let bytes = items.capacity() * size_of::<T>();
    let skip = begin.align_offset(LARGE_PAGE);
    let whole = bytes.saturating_sub(skip) / LARGE_PAGE * LARGE_PAGE;
    if whole == 0 {
        return;
    }
    // SAFETY: the pages lie inside the vector's memory, and the advice changes no byte of them. A system without
    // large pages ignores the advice.
    let _ = unsafe { madvise(begin.add(skip).cast_mut().cast(), whole, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::{copied, vector};

    #[test]
    fn items_are_copied_from_wherever_they_begin() {
        let bytes: Vec<u8> = (0..100).collect();
        for start in 0..9 {
            let items: Vec<u32> = copied(&bytes[start..], 20).unwrap();
            let whole = bytes[start..].chunks_exact(4).take(20);
            let expected = whole.map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap()));
            assert_eq!(items, expected.collect::<Vec<_>>());
        }
        assert!(copied::<u64>(&[], 0).unwrap().is_empty());
        assert_eq!(copied::<()>(&[], 7).unwrap().len(), 7);
        assert!(std::panic::catch_unwind(|| copied::<u64>(&[0; 15], 2)).is_err());
    }

    #[test]
    fn a_vector_has_the_requested_room() {
        for count in [0, 1, 100, 1030, 6000] {
            let mut items = vector::<[u64; 512]>(count).unwrap();
            assert!(items.is_empty() && items.capacity() >= count);
            items.extend((0..count as u64).map(|item| [item; 512]));
            let last = count.checked_sub(1).map(|last| [last as u64; 512]);
            assert_eq!(items.last(), last.as_ref());
        }
        assert_eq!(vector::<()>(usize::MAX), Some(Vec::new()), "items of size 0 take no memory");
        // Miri aborts where memory ends.
        assert!(cfg!(miri) || vector::<u64>(1 << 58).is_none());
        assert_eq!(vector::<u64>(usize::MAX), None);
    }
}
