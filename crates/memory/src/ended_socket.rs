//! The end of a socket that its owner never closes: a thread of a simulated process that was killed.

use rustix::fs::fstat;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// A socket, as long as its owner keeps it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedElsewhere {
    descriptor: RawFd,
    /// No other open socket has this number.
    number: u64,
}

impl OwnedElsewhere {
    /// Takes note of a socket.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn of(socket: BorrowedFd<'_>) -> rustix::io::Result<OwnedElsewhere> {
        let number = fstat(socket)?.st_ino;
        Ok(OwnedElsewhere { descriptor: socket.as_raw_fd(), number })
    }

    /// Returns whether this and another socket had one descriptor, so that the earlier one was closed.
    #[must_use]
    pub fn shares_descriptor(self, other: OwnedElsewhere) -> bool {
        self.descriptor == other.descriptor
    }

    /// Ends the socket for its peers, if it is still open: they read all that was written, and then its end. The callers
    /// that wait at a listening socket are turned away. No thread may close the socket meanwhile.
    pub fn end(self) {
        let Some(socket) = self.socket() else { return };
        // A socket without a peer has nobody to tell.
        let _ = shutdown(socket, Shutdown::Both);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while accept_with(socket, flags).is_ok() {}
    }

    /// Returns the socket, if it is still open.
    fn socket<'s>(self) -> Option<BorrowedFd<'s>> {
        // SAFETY: the descriptor is only looked at unless it is the socket of this number. Its owner does not close it
        // meanwhile, as the documentation of the callers demands, which do not keep what this returns.
        let socket = unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        (OwnedElsewhere::of(socket) == Ok(self)).then_some(socket)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, socket_with, socketpair};
    use std::os::fd::AsFd;

    const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

    #[test]
    fn a_peer_sees_the_end_of_a_socket_that_stays_open() {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None).unwrap();
        let noted = OwnedElsewhere::of(near.as_fd()).unwrap();
        assert_eq!(rustix::io::read(&far, &mut [0; 8]), Err(Errno::AGAIN));
        noted.end();
        assert_eq!(rustix::io::read(&far, &mut [0; 8]), Ok(0));
    }

    #[test]
    fn callers_of_a_listening_socket_are_turned_away() {
        let make = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None).unwrap();
        let (listening, waits) = (make(), make());
        let name = format!("upbeat-ended-{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&listening, &address).unwrap();
        rustix::net::listen(&listening, 8).unwrap();
        rustix::net::connect(&waits, &address).unwrap();
        OwnedElsewhere::of(listening.as_fd()).unwrap().end();
        assert!(matches!(rustix::io::read(&waits, &mut [0; 8]), Ok(0) | Err(Errno::CONNRESET)));
        assert_eq!(rustix::net::connect(make(), &address), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn another_socket_with_the_descriptor_of_a_closed_one_is_left_alone() {
        let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None).unwrap();
        let (near, far) = pair();
        let closed = OwnedElsewhere::of(near.as_fd()).unwrap();
        let other = OwnedElsewhere { number: closed.number + 1, ..closed };
        other.end();
        assert_eq!(rustix::io::read(&far, &mut [0; 8]), Err(Errno::AGAIN));
    }
}
