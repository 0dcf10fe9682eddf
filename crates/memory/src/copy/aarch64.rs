//! Long copies with the registers of aarch64.

use std::arch::asm;

/// The length from which wide copies are used: a copy of words needs eight loads for 64 bytes, and a wide copy two.
pub(super) const LEAST: usize = 128;

/// Copies at least [`LEAST`] bytes. The first 16 and the last 64 bytes are copied unaligned. The rounds between them
/// store 64 bytes each, to aligned addresses.
///
/// # Safety
/// `bytes` bytes are readable at `from` and writable at `to`, `bytes` is at least 64, and the two ranges do not overlap.
#[inline(never)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let skip = 16 - to.addr() % 16;
    // SAFETY: the caller guarantees the ranges, and no instruction needs an aligned address. The first 16 bytes cover
    // the `skip` bytes before the first round, and the last 64 bytes cover the bytes behind the last round. Every
    // processor of this target has the registers.
    unsafe {
        asm!(
            "ldr q0, [{from}]",
            "ldp q4, q5, [{end}, #-64]",
            "ldp q6, q7, [{end}, #-32]",
            "str q0, [{to}]",
            "add {from}, {from}, {skip}",
            "add {to}, {to}, {skip}",
            "b 3f",
            "2:",
            "ldp q0, q1, [{from}]",
            "ldp q2, q3, [{from}, #32]",
            "stp q0, q1, [{to}]",
            "stp q2, q3, [{to}, #32]",
            "add {from}, {from}, #64",
            "add {to}, {to}, #64",
            "3:",
            "cmp {to}, {last}",
            "b.lo 2b",
            "stp q4, q5, [{last}]",
            "stp q6, q7, [{last}, #32]",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            end = in(reg) from.add(bytes),
            last = in(reg) to.add(bytes - 64),
            skip = in(reg) skip,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            options(nostack),
        );
    }
}

/// Returns the copy functions of this processor, each with its smallest length.
#[cfg(test)]
pub(super) fn ways() -> Vec<(super::tests::Copy, usize)> {
    vec![(copy, LEAST)]
}
