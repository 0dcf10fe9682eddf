//! Packets on a session's socket, with the descriptors that they carry.
//!
//! The socket is a `SOCK_SEQPACKET`: a record is one packet, which comes whole or not at all with its own
//! descriptors, and there is no out-of-band byte with which a peer could keep this side awake. The meaning of a
//! packet is decided elsewhere. Invariant: every call returns at once, whatever the peer does to the socket (each has
//! `MSG_DONTWAIT`), and no descriptor is leaked.

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use upbeat_core::limits::{DESCRIPTORS_PER_RECORD_MAX, HELLO_BYTES_MAX};
use upbeat_environment::process::{Resource, obtain, with_socket};
use upbeat_environment::turns::settle;

/// Space for a record and one byte more, which shows that a packet is longer than a record.
pub(crate) type Buffer = [u8; HELLO_BYTES_MAX + 1];

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_RECORD_MAX + 1));

/// The result of one receive.
pub(crate) enum Received {
    /// A packet.
    Packet {
        /// The number of its bytes in the buffer.
        bytes: usize,
        /// The descriptors that the packet carried.
        descriptors: Vec<OwnedFd>,
        /// Descriptors were lost because this process's table is full.
        table_full: bool,
    },
    /// No packet has come.
    Nothing,
    /// The peer has closed its end, or is gone.
    Closed,
}

/// Makes a socket of packets.
pub(crate) fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    obtain(Resource::Descriptors)?;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map(with_socket)
}

/// Takes the next packet.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<Received, Errno> {
    // A peer that closes with unread packets causes a reset, and its last packets can be read after the reset.
    match receive_once(socket, buffer) {
        Err(Errno::CONNRESET) => match receive_once(socket, buffer) {
            Err(Errno::CONNRESET) | Ok(Received::Nothing) => Ok(Received::Closed),
            other => other,
        },
        other => other,
    }
}

fn receive_once(socket: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        let mut parts = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    // An honest peer never sends an empty packet, so it counts as the end as well.
    if message.bytes == 0 {
        return Ok(Received::Closed);
    }
    let is_full = !descriptors.is_empty() && obtain(Resource::Descriptors).is_err();
    if is_full {
        descriptors.clear();
    }
    let cut = is_full || message.flags.contains(ReturnFlags::CTRUNC);
    // The space was larger than any record needs, so descriptors are missing because the process's table is full.
    let table_full = cut && descriptors.len() <= DESCRIPTORS_PER_RECORD_MAX;
    Ok(Received::Packet { bytes: message.bytes, descriptors, table_full })
}

/// Sends a packet, whole or not at all.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    settle();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if descriptors.is_empty() {
        return retry(|| rustix::net::send(socket, bytes, flags).map(drop));
    }
    retry(|| {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::MSGSIZE);
        }
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
    })
}

fn retry(mut act: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
