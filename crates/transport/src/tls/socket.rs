//! The transfer of ciphertext between a socket and memory of this side. Invariant: no function blocks.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::cell::Cell;
use std::io::{self, IoSlice, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

/// The bytes that one receive takes: the longest frame, with its head and the overhead of its records.
pub(super) const SCRATCH_BYTES: usize = 66 << 10;

/// A socket to which rustls writes.
pub(super) struct Raw<'a>(pub(super) BorrowedFd<'a>);

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = again(|| match parts {
            [one] => rustix::net::send(self.0, one, flags),
            parts => {
                let mut nothing = SendAncillaryBuffer::default();
                rustix::net::sendmsg(self.0, parts, &mut nothing, flags)
            }
        });
        Ok(sent?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the bytes that have come, and returns their number, or 0 at the end.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
    again(|| rustix::net::recv(socket, &mut *into, RecvFlags::DONTWAIT)).map(|(bytes, _)| bytes)
}

fn again<T>(mut act: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Memory for bytes in transit, one for each thread: a connection keeps none of its own.
pub(super) struct Scratch(Box<[u8]>);

thread_local! {
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Takes the thread's memory until the value is dropped.
    pub(super) fn take() -> Scratch {
        // A thread that ends has no memory left, so this call allocates its own.
        let kept = SCRATCH.try_with(Cell::take).ok().flatten();
        Scratch(kept.unwrap_or_else(|| vec![0; SCRATCH_BYTES].into()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let kept = Some(std::mem::take(&mut self.0));
        let _ = SCRATCH.try_with(|scratch| scratch.set(kept));
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
