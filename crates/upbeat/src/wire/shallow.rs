//! Limits how deep into the stack serde reads a value.
//!
//! A value that contains values of its own type (a tree, a list) is read by a function that calls itself, as often
//! as the message tells it to. How much of the stack that takes depends on the type and on the compiler,
//! so it is measured: every level reads at least one byte, and checks its distance from the place where the
//! reading began.

use std::cell::Cell;
use std::hint::black_box;

/// The bytes of the stack that reading a value may take. Threads have 2 MiB and more.
pub(super) const STACK_BYTES_MAX: usize = 256 << 10;

/// The source of bytes for postcard.
pub(super) struct Shallow<'a> {
    bytes: &'a [u8],
    top: usize,
    too_deep: &'a Cell<bool>,
}

impl<'a> Shallow<'a> {
    /// Reads these bytes from here on the stack. `too_deep` tells whether the depth was the reason of a failure.
    pub(super) fn new(bytes: &'a [u8], too_deep: &'a Cell<bool>) -> Shallow<'a> {
        Shallow { bytes, top: here(), too_deep }
    }

    fn take(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        if self.top.abs_diff(here()) > STACK_BYTES_MAX {
            self.too_deep.set(true);
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        }
        let taken = self.bytes.split_off(..count);
        taken.ok_or(postcard::Error::DeserializeUnexpectedEnd)
    }
}

/// Returns the present place on the stack.
#[inline(always)]
pub(super) fn here() -> usize {
    let place = 0_u8;
    std::ptr::from_ref(black_box(&place)).addr()
}

impl<'a> postcard::de_flavors::Flavor<'a> for Shallow<'a> {
    type Remainder = &'a [u8];
    type Source = &'a [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.bytes.len())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        self.take(count)
    }

    fn finalize(self) -> postcard::Result<&'a [u8]> {
        Ok(self.bytes)
    }
}
