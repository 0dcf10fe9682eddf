//! Copies between private and shared bytes.
//!
//! The other side of a shared byte may be a thread of this process, or a process that writes at any
//! time. No copy here is therefore a plain one: each is made of relaxed atomics, or of inline
//! assembly, which the compiler can neither repeat nor analyse. Small copies use words, so that the
//! compiler unrolls copies of known length. Long copies use the widest registers of the processor:
//! lines that another core has written arrive one by one, and wider loads have more lines under way
//! at once. A long copy may copy some bytes twice; the other side sees the bytes that the copy
//! stores last.

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64;
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod narrow;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

use crate::probe;
use crate::sync::{AtomicU8, AtomicU64, Ordering::Relaxed, copy_late, reads};
#[cfg(not(miri))]
use crate::sync::{AtomicU16, AtomicU32};
use std::ptr::NonNull;

#[cfg(all(target_arch = "aarch64", not(miri)))]
use aarch64 as wide;
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
use narrow as wide;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as wide;

const WORD: usize = size_of::<u64>();

/// Copies shared bytes, from the beginning of a word, to private ones.
///
/// # Safety
/// The words that contain the bytes are readable, `to` has room for `bytes` bytes, and the two
/// ranges do not overlap.
#[inline]
pub(crate) unsafe fn out_of_shared(from: NonNull<AtomicU64>, to: *mut u8, bytes: usize) {
    probe::copied_out(from.addr().get(), bytes);
    reads(from.as_ptr().cast(), bytes);
    if bytes >= wide::LEAST {
        // SAFETY: the caller guarantees both ranges.
        return unsafe { wide::copy(from.as_ptr().cast::<u8>(), to, bytes) };
    }
    let whole = bytes / WORD;
    for i in 0..whole {
        // SAFETY: word `i` is inside the caller's range, and so are its bytes in `to`.
        unsafe {
            let word = from.add(i).as_ref().load(Relaxed);
            to.add(i * WORD).cast::<u64>().write_unaligned(word);
        }
    }
    let rest = bytes % WORD;
    if rest != 0 {
        // SAFETY: the caller guarantees that the last word is readable whole, and `rest` bytes of
        // it fit into `to`.
        unsafe {
            let word = from.add(whole).as_ref().load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(word.as_ptr(), to.add(whole * WORD), rest);
        }
    }
}

/// Copies private bytes to shared ones. `aligned` says that `to` is the beginning of a word.
///
/// # Safety
/// `bytes` bytes are readable at `from` and writable at `to`, and the two ranges do not overlap. If
/// `aligned` is true, `to` is aligned to a word.
#[inline]
pub(crate) unsafe fn into_shared(from: *const u8, to: *mut u8, bytes: usize, aligned: bool) {
    probe::copied_into(to.addr(), bytes);
    // SAFETY: the caller guarantees both ranges, and the alignment if `aligned` is true.
    unsafe {
        if copy_late(from, to, bytes) {
            // Others see the bytes later.
        } else if bytes >= wide::LEAST {
            wide::copy(from, to, bytes);
        } else if aligned {
            into_words(from, to, bytes);
        } else if bytes == 1 && !cfg!(miri) {
            AtomicU8::from_ptr(to).store(from.read(), Relaxed);
        } else {
            into_unaligned(from, to, bytes);
        }
    }
}

/// # Safety
/// The conditions of [`into_shared`] with `aligned` hold.
#[inline]
unsafe fn into_words(from: *const u8, to: *mut u8, bytes: usize) {
    let whole = bytes / WORD;
    for i in 0..whole {
        // SAFETY: word `i` is inside the caller's ranges, and is aligned in `to`.
        unsafe {
            let word = from.add(i * WORD).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(to.add(i * WORD).cast()).store(word, Relaxed);
        }
    }
    // SAFETY: the rest is shorter than a word, and begins at the beginning of one.
    unsafe { into_part(from.add(whole * WORD), to.add(whole * WORD), bytes % WORD) }
}

/// Stores less than a word, from the beginning of a word.
///
/// # Safety
/// The conditions of [`into_shared`] with `aligned` hold.
#[inline]
unsafe fn into_part(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(miri)]
    // SAFETY: the caller guarantees the bytes, which are fewer than a word.
    unsafe {
        patch(from, to, bytes);
    }
    #[cfg(not(miri))]
    // SAFETY: each store is as wide as the tested bit of `bytes`, so the stores stay within `bytes`
    // bytes. Each is aligned, because the wider stores come first.
    unsafe {
        let mut at = 0;
        if bytes & 4 != 0 {
            AtomicU32::from_ptr(to.cast()).store(from.cast::<u32>().read_unaligned(), Relaxed);
            at = 4;
        }
        if bytes & 2 != 0 {
            let part = from.add(at).cast::<u16>().read_unaligned();
            AtomicU16::from_ptr(to.add(at).cast()).store(part, Relaxed);
            at += 2;
        }
        if bytes & 1 != 0 {
            AtomicU8::from_ptr(to.add(at)).store(from.add(at).read(), Relaxed);
        }
    }
}

/// Stores the bytes up to the next word one by one, and then words.
///
/// # Safety
/// The conditions of [`into_shared`] hold.
unsafe fn into_unaligned(from: *const u8, to: *mut u8, bytes: usize) {
    let first = bytes.min(to.addr().next_multiple_of(WORD) - to.addr());
    // SAFETY: the caller guarantees the bytes. Behind the first `first` bytes, `to` is aligned to a
    // word.
    unsafe {
        #[cfg(miri)]
        patch(from, to, first);
        #[cfg(not(miri))]
        for i in 0..first {
            AtomicU8::from_ptr(to.add(i)).store(from.add(i).read(), Relaxed);
        }
        into_words(from.add(first), to.add(first), bytes - first);
    }
}

/// Stores some bytes of one word by storing the whole word, since Miri does not support atomics
/// that overlap others.
///
/// # Safety
/// The conditions of [`into_shared`] hold, and the bytes lie in one word, which no other thread
/// writes.
#[cfg(miri)]
unsafe fn patch(from: *const u8, to: *mut u8, bytes: usize) {
    let skip = to.addr() % WORD;
    if bytes != 0 {
        // SAFETY: regions consist of whole words, so this word is inside; the caller guarantees its
        // other bytes.
        unsafe {
            let cell = AtomicU64::from_ptr(to.sub(skip).cast());
            let mut word = cell.load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(from, word[skip..skip + bytes].as_mut_ptr(), bytes);
            cell.store(u64::from_ne_bytes(word), Relaxed);
        }
    }
}

/// Loads eight bytes that others store one by one. To the language these are eight loads, which the
/// assembly executes as one.
///
/// # Safety
/// The eight bytes are readable.
#[inline]
pub(crate) unsafe fn load_bytes(from: *const u8) -> [u8; WORD] {
    reads(from, WORD);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let word: u64;
        // SAFETY: the instruction reads the caller's eight bytes and nothing else.
        unsafe {
            std::arch::asm!(
                "mov {word}, qword ptr [{from}]",
                word = out(reg) word,
                from = in(reg) from,
                options(nostack, preserves_flags, readonly)
            );
        }
        word.to_ne_bytes()
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let word: u64;
        // SAFETY: the instruction reads the caller's eight bytes and nothing else.
        unsafe {
            std::arch::asm!(
                "ldr {word}, [{from}]",
                word = out(reg) word,
                from = in(reg) from,
                options(nostack, preserves_flags, readonly)
            );
        }
        word.to_ne_bytes()
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        // SAFETY: the caller guarantees the eight bytes, and a byte atomic needs no alignment.
        std::array::from_fn(|i| unsafe { AtomicU8::from_ptr(from.add(i).cast_mut()).load(Relaxed) })
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests;
