//! Long copies with the registers of x86-64.

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

/// Returns the copy functions that this processor can run, each with its smallest length.
#[cfg(test)]
pub(super) fn ways() -> Vec<(super::tests::Copy, usize)> {
    let mut ways: Vec<(super::tests::Copy, usize)> = vec![(copy, LEAST), (by_16, LEAST)];
    if is_x86_feature_detected!("avx") {
        ways.push((by_32, LEAST));
    }
    if is_x86_feature_detected!("avx512f") {
        ways.push((by_64, LEAST_BY_64));
    }
    ways
}
