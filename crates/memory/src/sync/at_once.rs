//! Accesses of a program, which others see as the processor shows them.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8};
pub use std::sync::atomic::{AtomicU64, fence};

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Stores a word of a region.
#[inline(always)]
pub(crate) fn store(word: &AtomicU64, value: u64, order: Ordering) {
    word.store(value, order);
}

/// Stores a byte of a region with relaxed ordering.
#[inline(always)]
pub(crate) fn store_byte(byte: &AtomicU8, value: u8) {
    byte.store(value, Ordering::Relaxed);
}

/// Returns false: the caller copies the bytes.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(crate) const unsafe fn copy_late(_: *const u8, _: *mut u8, _: usize) -> bool {
    false
}

/// Does nothing, since others see stores at once.
#[inline(always)]
pub(crate) const fn reads(_: *const u8, _: usize) {}

/// Does nothing, since others see stores at once.
#[inline(always)]
pub(crate) const fn frees(_: NonNull<u8>, _: usize) {}
