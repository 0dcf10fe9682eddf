//! Refusals of a handshake: those that this side sends, and the refusal with which the peer has closed.

use super::checks::refused;
use super::{Handshake, RECORDS_MAX};
use crate::error::OpenError;
use crate::packet::{self, Buffer, Received};
use crate::tls::TlsError;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::hello::{Record, Refusal, RefusalCode};
use upbeat_memory::segment::SegmentError;

impl Handshake {
    /// Returns the peer's refusal in place of an error that says only that the peer has closed: a side that writes
    /// may learn of the end before it has read the refusal.
    pub(super) fn told(&self, error: OpenError, buffer: &mut Buffer) -> OpenError {
        match error {
            OpenError::Closed { .. } => self.refusal(buffer).unwrap_or(error),
            other => other,
        }
    }

    /// Reads the refusal with which the peer has closed.
    fn refusal(&self, buffer: &mut Buffer) -> Option<OpenError> {
        for _ in 0..RECORDS_MAX {
            let received = packet::receive(self.socket.as_fd(), buffer).ok()?;
            let Received::Packet { bytes, .. } = received else { return None };
            if let Ok(Record::Refusal(refusal)) = Record::decode(&buffer[..bytes]) {
                return Some(refused(&self.peer, &refusal));
            }
        }
        None
    }

    /// Tells the peer why there is no session, if it can still be told.
    pub(super) fn tell(&self, error: &OpenError) {
        if let Some(code) = refusal_code(error) {
            self.refuse(code, &error.to_string());
        }
    }

    /// Sends a refusal, if the socket takes it.
    pub(crate) fn refuse(&self, code: RefusalCode, text: &str) {
        refuse(self.socket.as_fd(), code, text);
    }
}

/// Returns the code with which the peer is told of an error, or None if the peer knows it.
pub(crate) fn refusal_code(error: &OpenError) -> Option<RefusalCode> {
    Some(match error {
        OpenError::Tls { why, .. } if **why == TlsError::TlsPeer => return None,
        OpenError::Tls { .. } => RefusalCode::NotTrusted,
        OpenError::Refused { .. }
        | OpenError::Closed { .. }
        | OpenError::Unreached { .. }
        | OpenError::NoSuchNode { .. } => return None,
        OpenError::WrongUser { .. } => RefusalCode::WrongUser,
        OpenError::WrongProgram { .. } => RefusalCode::WrongProgram,
        OpenError::WrongVersion { .. } => RefusalCode::WrongVersion,
        OpenError::WrongNode { .. } => RefusalCode::NoSuchNode,
        OpenError::TooSlow { .. } => RefusalCode::TooSlow,
        OpenError::Descriptors { .. } => RefusalCode::TooManyDescriptors,
        OpenError::Protocol { .. }
        | OpenError::Incarnation { .. }
        | OpenError::Segment {
            peer: Some(_),
            error:
                SegmentError::Kind { .. }
                | SegmentError::Size { .. }
                | SegmentError::Holes { .. }
                | SegmentError::Seals { .. }
                | SegmentError::System { .. },
            ..
        } => RefusalCode::Malformed,
        // The remaining errors are this side's own.
        _ => RefusalCode::NoResources,
    })
}

/// Sends a refusal, if the socket takes it. A peer that cannot be told sees the end of the connection.
pub(crate) fn refuse(socket: BorrowedFd<'_>, code: RefusalCode, text: &str) {
    let record = Record::Refusal(Refusal::new(code, text));
    let _ = packet::send(socket, &record.encode(), &[]);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::handshake::Side;
    use crate::local_node::LocalNode;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use upbeat_core::name::ProgramId;

    /// A listener with many callers refuses a caller that gets no processor between connecting and its hello.
    #[test]
    fn a_caller_that_is_refused_before_its_hello_learns_why() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.unwrap();
        refuse(theirs.as_fd(), RefusalCode::TooSlow, "others wait");
        drop(theirs);
        let home =
            LocalNode::without_memory(ProgramId::named("test".parse().unwrap()), None).unwrap();
        let us = Side::new(home.info(), 0).unwrap();
        let refused = Handshake::call(us, ours, (&"server".parse().unwrap(), None), 0);
        let refused = refused.map(drop).unwrap_err();
        assert!(refused.is_busy(), "{refused}");
    }
}
