//! What bytes of a stream go through: they arrive in order, in pieces of any size, or not at all.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_memory::socket::{self, Span};

/// A connected stream socket.
pub(crate) struct Pipe {
    socket: OwnedFd,
}

impl Pipe {
    pub(crate) fn new(socket: OwnedFd) -> Pipe {
        Pipe { socket }
    }

    /// Sends bytes, and bytes of a region behind them: how many went. Never waits.
    pub(crate) fn send(&self, first: &[u8], then: Option<Span<'_>>) -> Result<usize, Errno> {
        if let Some(then) = then {
            return socket::send(self.as_fd(), first, then);
        }
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, first, flags) {
                Err(Errno::INTR) => {}
                sent => return sent,
            }
        }
    }

    /// Receives bytes into a region, and what does not fit there into `rest`: how many came, 0 at the end.
    /// Never waits.
    pub(crate) fn receive(&self, into: Option<Span<'_>>, rest: &mut [u8]) -> Result<usize, Errno> {
        if let Some(into) = into {
            return socket::receive(self.as_fd(), into, rest);
        }
        loop {
            match rustix::net::recv(&self.socket, &mut *rest, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                received => return received.map(|(bytes, _)| bytes),
            }
        }
    }

    /// Ends it for both sides, whoever else holds the socket.
    pub(crate) fn close(&self) {
        // A socket that is not connected any more is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
