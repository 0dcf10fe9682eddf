//! Bytes between sockets and regions: the kernel reads and writes shared words in place.
//!
//! A byte stream carries the contents of lanes and slabs. A long payload is sent from its place and received into
//! its place, so that only the kernel copies it. Other modules decide what the bytes mean. Invariant: nothing in
//! this module blocks, and the kernel gets no address outside a region.

use crate::region::Region;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The largest number of parts of one call of [`send`].
pub const PARTS_MAX: usize = 4;

/// A range of bytes of a region.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    /// The region.
    pub region: &'a Region,
    /// The offset of the first byte.
    pub at: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// A part of a message of [`send`]: a slice, and a range of a region behind it.
#[derive(Clone, Copy, Default)]
pub struct Part<'a> {
    /// The slice, which may be empty.
    pub first: &'a [u8],
    /// The range of a region, if there is one.
    pub then: Option<Span<'a>>,
}

/// Sends these parts in order, as far as the socket accepts them. Returns the number of bytes that the socket has
/// accepted.
///
/// # Errors
/// Returns [`Errno::AGAIN`] if the socket accepts none now, and any other error of the system.
///
/// # Panics
/// Panics when the bytes are outside their region, or there are more parts than [`PARTS_MAX`].
pub fn send(socket: BorrowedFd<'_>, parts: &[Part<'_>]) -> Result<usize, Errno> {
    let mut pieces = [part(std::ptr::null(), 0); 2 * PARTS_MAX];
    let mut count = 0;
    for Part { first, then } in parts {
        pieces[count] = part(first.as_ptr(), first.len());
        count += 1;
        if let Some(Span { region, at, bytes }) = *then {
            pieces[count] = part(region.bytes_at(at, bytes), bytes);
            count += 1;
        }
    }
    let message = message(&mut pieces[..count]);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the descriptor is open for as long as it is borrowed. `message` has no address and no control data,
    // and its pieces live in `pieces`. Each piece is a slice, or was checked to lie in a region that is borrowed.
    // The kernel only reads the pieces; shared words may be written meanwhile, which the receiver expects.
    retry(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
}

/// Receives into a region, and into `rest` what does not fit there. Returns the number of received bytes, which is
/// 0 at the end of the stream.
///
/// # Errors
/// Returns [`Errno::AGAIN`] if nothing has come, and any other error of the system.
///
/// # Panics
/// Panics when the bytes are outside the region, or the region is read-only.
pub fn receive(socket: BorrowedFd<'_>, into: Span<'_>, rest: &mut [u8]) -> Result<usize, Errno> {
    let Span { region, at, bytes } = into;
    let first = region.bytes_at_mut(at, bytes);
    let mut parts = [part(first, bytes), part(rest.as_mut_ptr(), rest.len())];
    let mut message = message(&mut parts);
    // SAFETY: as for `send`. Both parts may be written: the region was checked to be writable, and any bytes are
    // valid words; `rest` is private. The kernel writes no more than their lengths.
    retry(|| unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })
}

/// Limits the unsent bytes of a TCP socket: it accepts no more while it has `bytes` bytes that it could not send
/// yet.
///
/// # Errors
/// Returns the error of the system.
pub fn hold_unsent(socket: BorrowedFd<'_>, bytes: u32) -> Result<(), Errno> {
    let (value, len) = (&raw const bytes, size_of::<u32>() as libc::socklen_t);
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    // SAFETY: the descriptor is open for as long as it is borrowed. The option's value is a `u32` that lives until
    // the call returns, and the kernel only reads it.
    let set = || unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), len) };
    retry(|| set() as isize).map(|_| ())
}

/// The kernel's number for a closed connection, which the libraries do not name.
const TCP_CLOSE: u8 = 7;

/// The progress of a TCP connection in sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Whether the connection is closed in both directions: it has ended, was reset, or has timed out.
    pub closed: bool,
    /// The packets under way that the peer has not acknowledged.
    pub unacked: u32,
    /// The bytes that were not sent yet.
    pub unsent: u32,
    /// The bytes that the peer has acknowledged since the connection began.
    pub acked: u64,
    /// The peer's receive window in bytes.
    pub window: u32,
    /// The milliseconds since the last packet of the peer.
    pub silent_ms: u32,
}

/// Returns the progress of a TCP connection in sending, or none if the system does not report it, as for other
/// sockets.
pub fn sending(socket: BorrowedFd<'_>) -> Option<Sending> {
    // SAFETY: the structure consists of integers, which may all be zero.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (into, level, name) = (&raw mut info, libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the descriptor is open for as long as it is borrowed. `into` and `len` live until the call returns,
    // and the kernel writes no more than `len` bytes of integers, which may have any value.
    let mut get =
        || unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, into.cast(), &raw mut len) };
    retry(|| get() as isize).ok()?;
    // An older kernel reports fewer fields.
    let is_told = len as usize >= std::mem::offset_of!(libc::tcp_info, tcpi_rcv_wnd);
    is_told.then_some(Sending {
        closed: info.tcpi_state == TCP_CLOSE,
        unacked: info.tcpi_unacked,
        unsent: info.tcpi_notsent_bytes,
        acked: info.tcpi_bytes_acked,
        window: info.tcpi_snd_wnd,
        silent_ms: info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv),
    })
}

fn part(base: *const u8, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast_mut().cast(), iov_len: bytes }
}

/// Returns a message header of these parts.
fn message(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: a message header consists of integers and pointers, which may all be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}

fn retry(mut act: impl FnMut() -> isize) -> Result<usize, Errno> {
    loop {
        if let Ok(bytes) = usize::try_from(act()) {
            return Ok(bytes);
        }
        let error = std::io::Error::last_os_error();
        match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
            Errno::INTR => {}
            error => return Err(error),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::os::fd::{AsFd, OwnedFd};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    #[test]
    fn bytes_are_sent_from_one_region_to_another() {
        let (near, far) = pair();
        let (from, to) = (Region::heap(4), Region::heap(4));
        from.write(3, b"from where it lies");
        let sent = Span { region: &from, at: 3, bytes: 18 };
        let parts = [Part { first: b"head", then: Some(sent) }, Part { first: b"ta", then: None }];
        assert_eq!(send(near.as_fd(), &parts), Ok(24));
        let none = Some(Span { bytes: 0, ..sent });
        assert_eq!(send(near.as_fd(), &[Part { first: b"il", then: none }]), Ok(2));

        let mut rest = [0; 8];
        let into = Span { region: &to, at: 8, bytes: 20 };
        assert_eq!(receive(far.as_fd(), into, &mut rest), Ok(26));
        let mut came = [0; 20];
        to.read(8, &mut came);
        assert_eq!((&came, &rest), (b"headfrom where it li", b"estail\0\0"));

        assert_eq!(receive(far.as_fd(), into, &mut rest), Err(Errno::AGAIN));
        drop(near);
        assert_eq!(receive(far.as_fd(), into, &mut rest), Ok(0));
    }

    #[test]
    fn a_peer_that_reads_nothing_closes_its_window() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let rests =
            Sending { closed: false, unacked: 0, unsent: 0, acked: 1, window: 0, silent_ms: 0 };
        let now = || sending(near.as_fd()).unwrap();
        let Sending { window, .. } = now();
        assert!(window > 0 && Sending { window: 0, silent_ms: 0, ..now() } == rests, "{:?}", now());

        let (region, mut sent) = (Region::heap(8 << 10), 0);
        let span = Span { region: &region, at: 0, bytes: 64 << 10 };
        while now().window != 0 || now().unacked != 0 {
            sent +=
                send(near.as_fd(), &[Part { first: &[], then: Some(span) }]).unwrap_or(0) as u64;
        }
        let Sending { unsent, acked, .. } = now();
        assert_eq!((u64::from(unsent) + acked, unsent > 0), (sent + 1, true));

        near.shutdown(std::net::Shutdown::Write).unwrap();
        let read = std::io::copy(&mut far, &mut std::io::sink()).unwrap();
        assert_eq!(read, sent);
        while now().acked <= sent {}
        assert_eq!(now().unsent, 0);
        assert_eq!(sending(pair().0.as_fd()), None);
    }

    #[test]
    #[should_panic(expected = "at <= end")]
    fn sending_bytes_outside_of_a_region_panics() {
        let (near, _far) = pair();
        let region = Region::heap(2);
        let then = Some(Span { region: &region, at: 9, bytes: 8 });
        let _ = send(near.as_fd(), &[Part { first: &[], then }]);
    }

    #[test]
    #[should_panic(expected = "self.writable")]
    fn receiving_into_a_read_only_region_panics() {
        let (_near, far) = pair();
        let region = Region::heap(2).read_only();
        let _ = receive(far.as_fd(), Span { region: &region, at: 0, bytes: 8 }, &mut []);
    }
}
