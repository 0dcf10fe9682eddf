//! Copies between private and shared bytes.
//!
//! The other side of a shared byte may be a thread of this process, or a process that writes at any
//! time. No copy here is therefore a plain one: each is made of relaxed atomics, or of inline
//! assembly, which the compiler can neither repeat nor analyse. Small copies use words, so that the
//! compiler unrolls copies of known length. Long copies use the widest registers of the processor:
//! lines that another core has written arrive one by one, and wider loads have more lines under way
//! at once. A long copy may copy some bytes twice; the other side sees the bytes that the copy
//! stores last.

use crate::probe;
use crate::sync::{AtomicU8, AtomicU64, Ordering::Relaxed};
#[cfg(not(miri))]
use crate::sync::{AtomicU16, AtomicU32};
use std::ptr::NonNull;

const WORD: usize = size_of::<u64>();

/// Copies shared bytes, from the beginning of a word, to private ones.
///
/// # Safety
/// The words that contain the bytes are readable, `to` has room for `bytes` bytes, and the two
/// ranges do not overlap.
#[inline]
pub(crate) unsafe fn out_of_shared(from: NonNull<AtomicU64>, to: *mut u8, bytes: usize) {
    probe::copied_out(from.addr().get(), bytes);
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
        if bytes >= wide::LEAST {
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

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use std::arch::asm;

    /// The length from which wide copies are faster than copies of words.
    pub(super) const LEAST: usize = 128;

    /// The smallest length that [`by_64`] can copy.
    const LEAST_BY_64: usize = 256;

    /// Copies at least [`LEAST`] bytes.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `from` and writable at `to`, and the two ranges do not
    /// overlap.
    #[inline(never)]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller guarantees the ranges, and the processor has the instructions of the
        // chosen function.
        unsafe {
            // Processors with AVX-512 but without VBMI2 run slower for a while after AVX-512
            // instructions.
            if bytes >= LEAST_BY_64 && is_x86_feature_detected!("avx512vbmi2") {
                by_64(from, to, bytes);
            } else if is_x86_feature_detected!("avx") {
                by_32(from, to, bytes);
            } else {
                by_16(from, to, bytes);
            }
        }
    }

    /// Copies the first 64 and the last 256 bytes unaligned. The rounds between them store to
    /// aligned lines, one line per store.
    ///
    /// # Safety
    /// The conditions of [`copy`] hold, `bytes` is at least 256, and the processor has AVX-512.
    unsafe fn by_64(from: *const u8, to: *mut u8, bytes: usize) {
        let skip = 64 - to.addr() % 64;
        // SAFETY: the caller guarantees the ranges, and no instruction needs an aligned address.
        // The first 64 bytes cover the `skip` bytes before the first round, and the last 256 bytes
        // cover the bytes behind the last round. Registers from 16 on leave no state that slows
        // down later code.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, [{from}]",
                "vmovdqu64 zmm17, [{end} - 256]",
                "vmovdqu64 zmm18, [{end} - 192]",
                "vmovdqu64 zmm19, [{end} - 128]",
                "vmovdqu64 zmm20, [{end} - 64]",
                "vmovdqu64 [{to}], zmm16",
                "add {from}, {skip}",
                "add {to}, {skip}",
                "jmp 3f",
                "2:",
                "vmovdqu64 zmm16, [{from}]",
                "vmovdqu64 zmm21, [{from} + 64]",
                "vmovdqu64 zmm22, [{from} + 128]",
                "vmovdqu64 zmm23, [{from} + 192]",
                "vmovdqu64 [{to}], zmm16",
                "vmovdqu64 [{to} + 64], zmm21",
                "vmovdqu64 [{to} + 128], zmm22",
                "vmovdqu64 [{to} + 192], zmm23",
                "add {from}, 256",
                "add {to}, 256",
                "3:",
                "cmp {to}, {last}",
                "jb 2b",
                "vmovdqu64 [{last}], zmm17",
                "vmovdqu64 [{last} + 64], zmm18",
                "vmovdqu64 [{last} + 128], zmm19",
                "vmovdqu64 [{last} + 192], zmm20",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                end = in(reg) from.add(bytes),
                last = in(reg) to.add(bytes - 256),
                skip = in(reg) skip,
                out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                options(nostack),
            );
        }
    }

    /// Copies as [`by_64`] does, with registers of 32 bytes and rounds of 128, since a store across
    /// two lines costs two stores.
    ///
    /// # Safety
    /// The conditions of [`copy`] hold, and the processor has AVX.
    unsafe fn by_32(from: *const u8, to: *mut u8, bytes: usize) {
        let skip = 32 - to.addr() % 32;
        // SAFETY: as in `by_64`, with 128 bytes behind the last round.
        unsafe {
            asm!(
                "vmovups ymm0, [{from}]",
                "vmovups ymm4, [{end} - 128]",
                "vmovups ymm5, [{end} - 96]",
                "vmovups ymm6, [{end} - 64]",
                "vmovups ymm7, [{end} - 32]",
                "vmovups [{to}], ymm0",
                "add {from}, {skip}",
                "add {to}, {skip}",
                "jmp 3f",
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
                "3:",
                "cmp {to}, {last}",
                "jb 2b",
                "vmovups [{last}], ymm4",
                "vmovups [{last} + 32], ymm5",
                "vmovups [{last} + 64], ymm6",
                "vmovups [{last} + 96], ymm7",
                "vzeroupper",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                end = in(reg) from.add(bytes),
                last = in(reg) to.add(bytes - 128),
                skip = in(reg) skip,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                // `vzeroupper` clears the upper halves of these registers too.
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }

    /// Copies as [`by_64`] does, with registers of 16 bytes and rounds of 64.
    ///
    /// # Safety
    /// The conditions of [`copy`] hold. Every x86-64 processor has these instructions.
    unsafe fn by_16(from: *const u8, to: *mut u8, bytes: usize) {
        let skip = 16 - to.addr() % 16;
        // SAFETY: as in `by_64`, with 64 bytes behind the last round.
        unsafe {
            asm!(
                "movups xmm0, [{from}]",
                "movups xmm4, [{end} - 64]",
                "movups xmm5, [{end} - 48]",
                "movups xmm6, [{end} - 32]",
                "movups xmm7, [{end} - 16]",
                "movups [{to}], xmm0",
                "add {from}, {skip}",
                "add {to}, {skip}",
                "jmp 3f",
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
                "3:",
                "cmp {to}, {last}",
                "jb 2b",
                "movups [{last}], xmm4",
                "movups [{last} + 16], xmm5",
                "movups [{last} + 32], xmm6",
                "movups [{last} + 48], xmm7",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                end = in(reg) from.add(bytes),
                last = in(reg) to.add(bytes - 64),
                skip = in(reg) skip,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                options(nostack),
            );
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{LEAST, LEAST_BY_64, by_16, by_32, by_64, copy};

        type Copy = unsafe fn(*const u8, *mut u8, usize);

        /// Returns the copy functions that this processor can run, each with its smallest length.
        fn ways() -> Vec<(Copy, usize)> {
            let mut ways: Vec<(Copy, usize)> = vec![(copy, LEAST), (by_16, LEAST)];
            if is_x86_feature_detected!("avx") {
                ways.push((by_32, LEAST));
            }
            if is_x86_feature_detected!("avx512f") {
                ways.push((by_64, LEAST_BY_64));
            }
            ways
        }

        #[test]
        fn all_bytes_are_copied_and_no_others() {
            let from: Vec<u8> = (0..2000).map(|i| (i * 7 + i / 256) as u8).collect();
            let places = (0..65).flat_map(|at| [(at, 3 * at % 64), (at, 0)]);
            for ((way, least), (at, skip)) in
                ways().into_iter().flat_map(|way| places.clone().map(move |place| (way, place)))
            {
                for bytes in (least..least + 65).chain([511, 512, 513, 1000, 1024, 1500]) {
                    let mut to = vec![0xee; 1700];
                    let place = to.as_ptr().align_offset(64) + at;
                    // SAFETY: both ranges have `bytes` bytes from there on, and the processor has
                    // the instructions.
                    unsafe { way(from[skip..].as_ptr(), to[place..].as_mut_ptr(), bytes) };
                    assert!(to[place..place + bytes] == from[skip..skip + bytes]);
                    let others = to[..place].iter().chain(&to[place + bytes..]);
                    assert!(others.into_iter().all(|byte| *byte == 0xee), "{bytes} bytes at {at}");
                }
            }
        }
    }
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
mod wide {
    /// The length from which copies are wide: never.
    pub(super) const LEAST: usize = usize::MAX;

    /// Copies nothing, and is never called.
    ///
    /// # Safety
    /// No condition.
    pub(super) unsafe fn copy(_from: *const u8, _to: *mut u8, _bytes: usize) {}
}
