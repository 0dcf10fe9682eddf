//! The process and the user at the other end of a unix socket, as the kernel reports them.
//!
//! `rustix` reads the same option into a type whose process number is never 0, but the kernel reports 0 for a
//! process of another PID namespace. This module therefore reads the option itself. Another module decides whether
//! a peer is admitted.

use rustix::io::Errno;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The number of the process in this PID namespace, or none if it has no number there.
    pub pid: Option<u32>,
    /// The effective user of the process when it connected or listened.
    pub uid: u32,
}

/// Asks the kernel for the process at the other end of a connected unix socket (`SO_PEERCRED`).
///
/// # Errors
/// Fails if the socket is no unix socket, or is not connected.
pub fn of_peer(socket: BorrowedFd<'_>) -> Result<Credentials, Errno> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed. `found` is valid for writes of `bytes` bytes,
    // and the kernel writes no more than that. Any bytes are a valid `ucred`, which consists of integers. `bytes`
    // is a valid length to read and to write.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // The kernel reports a socket without a peer as one of no process and no user.
    if bytes as usize != size_of::<libc::ucred>() || found.uid == u32::MAX {
        return Err(Errno::NOTCONN);
    }
    let pid = u32::try_from(found.pid).ok().filter(|pid| *pid != 0);
    Ok(Credentials { pid, uid: found.uid })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::os::fd::AsFd;

    #[test]
    fn the_peer_of_a_socket_pair_is_this_process() {
        let (near, _far) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let ours = Credentials { pid: Some(std::process::id()), uid };
        assert_eq!(of_peer(near.as_fd()), Ok(ours));
    }

    #[test]
    fn a_socket_without_a_peer_has_no_credentials() {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        assert_eq!(of_peer(socket.unwrap().as_fd()), Err(Errno::NOTCONN));
        let file = std::fs::File::open("/").unwrap();
        assert_eq!(of_peer(file.as_fd()), Err(Errno::NOTSOCK));
    }
}
