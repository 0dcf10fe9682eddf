//! Copies between private and shared bytes.
//!
//! The other side of a shared byte may be a thread of ours or a process that writes whenever it
//! likes, so no copy here is a plain one: each is made of relaxed atomics, or of inline assembly,
//! which loads and stores each byte once and which the compiler can neither repeat nor look into.
//! Small copies are words, so that what is known of their length unrolls them.

use crate::sync::{AtomicU8, AtomicU64, Ordering::Relaxed};
#[cfg(not(miri))]
use crate::sync::{AtomicU16, AtomicU32};
use std::ptr::NonNull;

const WORD: usize = size_of::<u64>();

/// Copies shared bytes, from the beginning of a word, to private ones.
///
/// # Safety
/// The words in which the bytes lie can be read, `to` has room for them, and they do not overlap.
#[inline]
pub(crate) unsafe fn out_of_shared(from: NonNull<AtomicU64>, to: *mut u8, bytes: usize) {
    let whole = bytes / WORD;
    for i in 0..whole {
        // SAFETY: the caller's word, and its place in `to`.
        unsafe {
            let word = from.add(i).as_ref().load(Relaxed);
            to.add(i * WORD).cast::<u64>().write_unaligned(word);
        }
    }
    let rest = bytes % WORD;
    if rest != 0 {
        // SAFETY: the caller lets us read the last word whole; `rest` bytes of it fit.
        unsafe {
            let word = from.add(whole).as_ref().load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(word.as_ptr(), to.add(whole * WORD), rest);
        }
    }
}

/// Copies private bytes to shared ones; `aligned` says that those begin a word.
///
/// # Safety
/// `bytes` can be read at `from` and written at `to`, which is a multiple of a word where
/// `aligned` says so; they do not overlap.
#[inline]
pub(crate) unsafe fn into_shared(from: *const u8, to: *mut u8, bytes: usize, aligned: bool) {
    // SAFETY: the caller's bytes.
    unsafe {
        if aligned {
            into_words(from, to, bytes);
        } else if bytes == 1 && !cfg!(miri) {
            AtomicU8::from_ptr(to).store(from.read(), Relaxed);
        } else {
            into_odd(from, to, bytes);
        }
    }
}

/// # Safety
/// As for [`into_shared`] with `aligned`.
#[inline]
unsafe fn into_words(from: *const u8, to: *mut u8, bytes: usize) {
    let whole = bytes / WORD;
    for i in 0..whole {
        // SAFETY: a whole word of the caller's bytes, aligned in `to`.
        unsafe {
            let word = from.add(i * WORD).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(to.add(i * WORD).cast()).store(word, Relaxed);
        }
    }
    // SAFETY: what is left is less than a word and begins one.
    unsafe { into_part(from.add(whole * WORD), to.add(whole * WORD), bytes % WORD) }
}

/// Stores less than a word, at the beginning of one.
///
/// # Safety
/// As for [`into_shared`] with `aligned`.
#[inline]
unsafe fn into_part(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(miri)]
    // SAFETY: the caller's bytes, less than a word.
    unsafe {
        patch(from, to, bytes);
    }
    #[cfg(not(miri))]
    // SAFETY: each store is as wide as the bit of `bytes` that is looked at, and aligned because
    // the wider ones come first.
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

/// Bytes up to the next word, then words.
///
/// # Safety
/// As for [`into_shared`].
unsafe fn into_odd(from: *const u8, to: *mut u8, bytes: usize) {
    let first = bytes.min(to.addr().next_multiple_of(WORD) - to.addr());
    // SAFETY: the caller's bytes; behind the first ones `to` is a multiple of a word.
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

/// Stores bytes of one word by storing all of it: Miri knows no atomics that are parts of others.
///
/// # Safety
/// As for [`into_shared`]; the bytes lie in one word, which nobody else writes.
#[cfg(miri)]
unsafe fn patch(from: *const u8, to: *mut u8, bytes: usize) {
    let skip = to.addr() % WORD;
    if bytes != 0 {
        // SAFETY: regions are whole words, so this one is inside; the rest is the caller's word.
        unsafe {
            let cell = AtomicU64::from_ptr(to.sub(skip).cast());
            let mut word = cell.load(Relaxed).to_ne_bytes();
            std::ptr::copy_nonoverlapping(from, word[skip..skip + bytes].as_mut_ptr(), bytes);
            cell.store(u64::from_ne_bytes(word), Relaxed);
        }
    }
}

/// Loads eight bytes that others store one by one. To the language these are eight loads, which
/// the assembly makes at once.
///
/// # Safety
/// The eight bytes can be read.
#[inline]
pub(crate) unsafe fn load_bytes(from: *const u8) -> [u8; WORD] {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let word: u64;
        // SAFETY: reads the caller's bytes and nothing else.
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
        // SAFETY: reads the caller's bytes and nothing else.
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
        // SAFETY: the caller's bytes; a byte atomic may lie anywhere.
        std::array::from_fn(|i| unsafe { AtomicU8::from_ptr(from.add(i).cast_mut()).load(Relaxed) })
    }
}
