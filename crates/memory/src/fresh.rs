//! Memory for what is about to be written whole.
//!
//! A long vector comes from the system page by page as it is written, and each page costs more than its
//! bytes do. What is long enough asks for large pages, where the system has them to give.

use crate::sync::AtomicU64;
use std::alloc::Layout;
use std::ptr::NonNull;
use zerocopy::FromBytes;

#[cfg(not(miri))]
use rustix::mm::{Advice, madvise};

/// The shortest that asks. A vector of 64 MiB took 42 ms to be made and filled by small pages, and 16 by
/// large ones.
#[cfg(not(miri))]
const LONG: usize = 4 << 20;

/// Bytes of a large page.
#[cfg(not(miri))]
const LARGE_PAGE: usize = 2 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Makes an empty vector with room for `count` items, all of which will be written at once. None if
/// there is no memory for them.
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

/// Copies `count` items of plain data from the start of bytes that are ours: all at once, for one after
/// another takes many times as long. None if there is no memory for them.
///
/// # Panics
/// When there are not so many bytes.
#[must_use]
pub fn copied<T: FromBytes>(bytes: &[u8], count: usize) -> Option<Vec<T>> {
    let wanted = count.checked_mul(size_of::<T>());
    let wanted =
        wanted.filter(|wanted| *wanted <= bytes.len()).expect("as many bytes as items have");
    let mut items = vector::<T>(count)?;
    // SAFETY: source and destination have `wanted` bytes and do not overlap, the destination being new; T
    // accepts any bytes; all `count` items are written before they count.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), items.as_mut_ptr().cast(), wanted);
        items.set_len(count);
    }
    Some(items)
}

/// Zeroed words of the heap, from the beginning of a cache line, whose pages take memory only once they are
/// written.
pub(crate) struct Zeroed {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is a piece of memory that is looked at through atomics alone, and freed once.
unsafe impl Send for Zeroed {}

// SAFETY: as for Send.
unsafe impl Sync for Zeroed {}

impl Zeroed {
    /// So many words. None if there is no memory for them.
    pub(crate) fn new(words: usize) -> Option<Zeroed> {
        // A layout that is aligned to lines would be filled by hand.
        let bytes = words.checked_mul(size_of::<u64>())?.checked_add(LINE)?;
        let layout = Layout::from_size_align(bytes, align_of::<u64>()).ok()?;
        // SAFETY: the layout has bytes.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Zeroed { start, layout })
    }

    /// The first word.
    pub(crate) fn base(&self) -> NonNull<AtomicU64> {
        let skip = self.start.as_ptr().align_offset(LINE).min(LINE);
        // SAFETY: a line more than the words was allocated.
        unsafe { self.start.add(skip) }.cast()
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody else frees it.
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
    // SAFETY: the pages lie inside of the vector's memory, and the advice changes no byte of them.
    // A system that has no large pages gives small ones.
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
    fn vectors_have_the_room_that_was_asked_for() {
        for count in [0, 1, 100, 1030, 6000] {
            let mut items = vector::<[u64; 512]>(count).unwrap();
            assert!(items.is_empty() && items.capacity() >= count);
            items.extend((0..count as u64).map(|item| [item; 512]));
            let last = count.checked_sub(1).map(|last| [last as u64; 512]);
            assert_eq!(items.last(), last.as_ref());
        }
        assert_eq!(vector::<()>(usize::MAX), Some(Vec::new()), "nothing takes no room");
        // Miri ends where memory does.
        assert!(cfg!(miri) || vector::<u64>(1 << 58).is_none());
        assert_eq!(vector::<u64>(usize::MAX), None);
    }
}
