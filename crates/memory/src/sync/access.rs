//! Atomics before whose accesses the turn of a simulated thread may end.

use std::ops::{Deref, DerefMut};
use std::sync::atomic;
use upbeat_environment::turns::access;

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
        }

        impl Deref for $name {
            type Target = atomic::$name;

            #[inline]
            fn deref(&self) -> &Self::Target {
                access();
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
