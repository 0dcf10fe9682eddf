//! Atomics before whose accesses the turn of a simulated thread may end, and stores that others see late.
//!
//! Invariant: the stores to regions alone are late, since a region [settles](settle_memory) before its memory is freed.
//! Others see them before each other store, each exchange and each full fence that the thread makes through this module.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{self, Ordering};
use upbeat_environment::turns::{
    self, LINE, LateStore, access, fence_release, is_late, settle, settle_memory, settle_read,
};

macro_rules! atomics {
    ($($sight:vis $name:ident of $value:ty;)*) => { $(
        /// An atomic as that of std, through which it is accessed.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        $sight struct $name(atomic::$name);

        #[allow(dead_code)]
        impl $name {
            /// Makes one that has a value.
            $sight const fn new(value: $value) -> $name {
                $name(atomic::$name::new(value))
            }

            /// Returns the one that stands at a place.
            ///
            /// # Safety
            /// As with that of std.
            $sight const unsafe fn from_ptr<'a>(at: *mut $value) -> &'a $name {
                // SAFETY: the caller has ensured what std asks for, and this has the layout of that of std.
                unsafe { &*at.cast::<$name>() }
            }

            /// Loads the value.
            $sight fn load(&self, order: Ordering) -> $value {
                access();
                settle_read(self.0.as_ptr().addr(), size_of::<$value>());
                self.0.load(order)
            }
        }

        impl Deref for $name {
            type Target = atomic::$name;

            #[inline]
            fn deref(&self) -> &Self::Target {
                access();
                settle();
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    )* };
}

atomics! {
    pub AtomicU64 of u64;
    pub(crate) AtomicU8 of u8;
    pub(crate) AtomicBool of bool;
}

/// The longest copy that is late.
const COPY_MAX: usize = 8 * LINE;

/// Stores a word of a region.
pub(crate) fn store(word: &AtomicU64, value: u64, order: Ordering) {
    access();
    if is_late() {
        let is_release = order == Ordering::Release;
        return store_late(word.0.as_ptr().expose_provenance(), &value.to_ne_bytes(), is_release);
    }
    settle();
    word.0.store(value, order);
}

/// Stores a byte of a region with relaxed ordering.
pub(crate) fn store_byte(byte: &AtomicU8, value: u8) {
    access();
    if is_late() {
        return store_late(byte.0.as_ptr().expose_provenance(), &[value], false);
    }
    settle();
    byte.0.store(value, Ordering::Relaxed);
}

/// Copies private bytes to a region, if stores are late and the copy is short. Otherwise the caller copies them, and
/// others see all earlier stores.
///
/// # Safety
/// As many bytes are readable at `from`, and writable at `to` in a region.
pub(crate) unsafe fn copy_late(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    if !is_late() || bytes > COPY_MAX {
        settle();
        return false;
    }
    let mut at = 0;
    while at < bytes {
        let start = to.expose_provenance() + at;
        let length = (LINE - start % LINE).min(bytes - at);
        access();
        // SAFETY: the caller guarantees the bytes.
        let part = unsafe { std::slice::from_raw_parts(from.add(at), length) };
        store_late(start, part, false);
        at += length;
    }
    true
}

/// Stores bytes of one line of a region some time later.
fn store_late(at: usize, bytes: &[u8], is_release: bool) {
    let perform = |at: usize, bytes: &[u8]| {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(at);
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) if at.is_multiple_of(8) => {
                // SAFETY: the store was made through a region that is writable, and that settles before its memory is freed.
                unsafe { atomic::AtomicU64::from_ptr(to.cast()) }
                    .store(u64::from_ne_bytes(word), Ordering::Release);
            }
            _ => bytes.iter().enumerate().for_each(|(i, byte)| {
                // SAFETY: as above.
                unsafe { atomic::AtomicU8::from_ptr(to.add(i)) }.store(*byte, Ordering::Release);
            }),
        }
    };
    turns::store(LateStore { at, bytes: bytes.to_vec(), is_release, perform });
}

/// Has others see what the thread has stored into a region, if it reads some of that now: these bytes.
pub(crate) fn reads(from: *const u8, bytes: usize) {
    settle_read(from.addr(), bytes);
}

/// Has others see all that was stored into a region whose memory is about to be freed.
pub(crate) fn frees(base: NonNull<u8>, bytes: usize) {
    settle_memory(base.addr().get()..base.addr().get() + bytes);
}

/// Orders earlier accesses before later ones.
pub fn fence(order: Ordering) {
    match order {
        Ordering::SeqCst => settle(),
        Ordering::Release | Ordering::AcqRel => fence_release(),
        _ => {}
    }
    atomic::fence(order);
}
