//! Copies between private and shared bytes.
//!
//! The other side of a shared byte may be a thread of ours or a process that writes whenever it
//! likes, so no copy here is a plain one: each is made of relaxed atomics, or of inline assembly,
//! which loads and stores each byte once and which the compiler can neither repeat nor look into.
//! Small copies are words, so that what is known of their length unrolls them. Long ones are as
//! wide as the processor can: lines that another core has written come one by one, and the wider
//! the loads, the more lines are on their way at once.

use crate::probe;
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
    probe::copied_out(from.addr().get(), bytes);
    // SAFETY: the caller's bytes; what is copied wide is a multiple of words.
    let (from, to, bytes) = unsafe {
        let done = wide::begin(from.as_ptr().cast::<u8>(), to, bytes);
        (from.byte_add(done), to.add(done), bytes - done)
    };
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
    probe::copied_into(to.addr(), bytes);
    // SAFETY: the caller's bytes; what is copied wide is a multiple of words.
    unsafe {
        let done = wide::begin(from, to, bytes);
        let (from, to, bytes) = (from.add(done), to.add(done), bytes - done);
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

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::WORD;
    use std::arch::asm;

    /// From here on wide copies are no slower than words. At 4 KiB from lines that another core
    /// has just written, they take 140 ns for 200 within one L3 cache.
    const LEAST: usize = 256;

    /// What one round copies.
    const ROUND: usize = 128;

    /// Where stores go best: one that lies in two lines takes two. With messages that begin behind a head
    /// 1 KiB passed at 84 GB/s within one core, and passes at 118.
    const STORE: usize = 32;

    /// Copies the front of a long copy and says how much that was: whole rounds behind what brings the
    /// stores to their place, or nothing.
    ///
    /// # Safety
    /// `bytes` can be read at `from` and written at `to`, and they do not overlap.
    #[inline(always)]
    pub(super) unsafe fn begin(from: *const u8, to: *mut u8, bytes: usize) -> usize {
        if bytes < LEAST {
            return 0;
        }
        // No bytes that are less than a word are stored here.
        let lead = Some(to.addr().wrapping_neg() % STORE).filter(|lead| lead.is_multiple_of(WORD));
        let lead = lead.unwrap_or(0);
        let whole = (bytes - lead) / ROUND * ROUND;
        // SAFETY: the caller's bytes, at least one round of them behind less than a store.
        unsafe {
            words(from, to, lead);
            rounds(from.add(lead), to.add(lead), whole);
        }
        lead + whole
    }

    /// # Safety
    /// As for [`begin`]; `bytes` is a multiple of a word.
    #[inline(always)]
    unsafe fn words(from: *const u8, to: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(WORD) {
            // SAFETY: a word of the caller's bytes. No instruction wants its address aligned.
            unsafe {
                asm!(
                    "mov {word}, qword ptr [{from}]",
                    "mov qword ptr [{to}], {word}",
                    word = out(reg) _,
                    from = in(reg) from.add(at),
                    to = in(reg) to.add(at),
                    options(nostack, preserves_flags),
                );
            }
        }
    }

    /// # Safety
    /// As for [`begin`]; `bytes` is a multiple of a round, and not 0.
    #[inline(never)]
    unsafe fn rounds(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's bytes; the processor has the instructions of the one that is used.
        unsafe {
            if is_x86_feature_detected!("avx") {
                by_32(from, to, bytes);
            } else {
                by_16(from, to, bytes);
            }
        }
    }

    /// # Safety
    /// As for [`rounds`], and the processor has AVX.
    unsafe fn by_32(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's bytes. No instruction wants its address aligned.
        unsafe {
            asm!(
                "2:",
                "vmovups ymm0, [{from}]",
                "vmovups ymm1, [{from} + 32]",
                "vmovups ymm2, [{from} + 64]",
                "vmovups ymm3, [{from} + 96]",
                "vmovups [{to}], ymm0",
                "vmovups [{to} + 32], ymm1",
                "vmovups [{to} + 64], ymm2",
                "vmovups [{to} + 96], ymm3",
                "add {from}, 128",
                "add {to}, 128",
                "sub {bytes}, 128",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                bytes = inout(reg) bytes => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                // vzeroupper clears the upper halves of these too.
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As for [`rounds`]; every x86-64 processor has what this needs.
    unsafe fn by_16(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's bytes. No instruction wants its address aligned.
        unsafe {
            asm!(
                "2:",
                "movups xmm0, [{from}]",
                "movups xmm1, [{from} + 16]",
                "movups xmm2, [{from} + 32]",
                "movups xmm3, [{from} + 48]",
                "movups [{to}], xmm0",
                "movups [{to} + 16], xmm1",
                "movups [{to} + 32], xmm2",
                "movups [{to} + 48], xmm3",
                "add {from}, 64",
                "add {to}, 64",
                "sub {bytes}, 64",
                "jnz 2b",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                bytes = inout(reg) bytes => _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                options(nostack),
            );
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{LEAST, ROUND, STORE, WORD, begin, by_16, by_32};

        #[test]
        fn the_front_ends_where_stores_lie_well_and_is_whole() {
            let from: Vec<u8> = (0..8 * ROUND).map(|i| (i * 7) as u8).collect();
            for (skip, bytes) in
                (0..2 * STORE).flat_map(|skip| [(skip, LEAST), (skip, 5 * ROUND + 9)])
            {
                let mut to = vec![0xee; 8 * ROUND];
                let place = to.as_ptr().align_offset(STORE) + skip;
                // SAFETY: both have `bytes` bytes from there on.
                let done = unsafe { begin(from.as_ptr(), to[place..].as_mut_ptr(), bytes) };
                assert!(done <= bytes && bytes - done < ROUND + STORE && done.is_multiple_of(WORD));
                if skip.is_multiple_of(WORD) {
                    assert!((skip + done).is_multiple_of(STORE));
                }
                assert!(to[place..place + done] == from[..done]);
                assert!(to[..place].iter().chain(&to[place + done..]).all(|byte| *byte == 0xee));
            }
        }

        #[test]
        fn rounds_copy_all_of_their_bytes_and_no_others() {
            let from: Vec<u8> = (0..5 * ROUND).map(|i| (i * 7) as u8).collect();
            for (skip, bytes) in [(0, ROUND), (1, ROUND), (9, 3 * ROUND), (16, 4 * ROUND)] {
                let all: [unsafe fn(*const u8, *mut u8, usize); 2] = [by_16, by_32];
                let able = if is_x86_feature_detected!("avx") { 2 } else { 1 };
                for wide in &all[..able] {
                    let mut to = vec![0xee; skip + bytes + 1];
                    // SAFETY: both have `bytes` bytes behind `skip`; AVX was asked for.
                    unsafe { wide(from[skip..].as_ptr(), to[skip..].as_mut_ptr(), bytes) };
                    assert!(to[..skip].iter().all(|byte| *byte == 0xee));
                    assert!(to[skip..skip + bytes] == from[skip..skip + bytes]);
                    assert_eq!(to[skip + bytes], 0xee);
                }
            }
        }
    }
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
mod wide {
    /// Nothing is copied wide here.
    ///
    /// # Safety
    /// None is needed.
    #[inline(always)]
    pub(super) unsafe fn begin(_from: *const u8, _to: *mut u8, _bytes: usize) -> usize {
        0
    }
}
