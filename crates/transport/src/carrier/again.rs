//! A carrier whose session outlives its connection: a broken connection is replaced by another.
//!
//! The sender keeps every frame of a byte stream until the peer has read it, so no frame is lost with a connection.
//! No frame comes twice either: each side says [how much it has received](Carrier::position), and the other side
//! [resumes](Carrier::resume) behind that position. Who makes the new connection, and how long the session waits for
//! it, is decided above. Invariant: a session that the peer ended, or whose rules it broke, is never resumed.

use super::{Carrier, Leaving, Medium};
use crate::stream::{Connection, Pipe};
use std::cell::Ref;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::fault::Rule;

impl Carrier {
    /// Says whether the session outlives a broken connection. If so, an end of the stream without the peer's word,
    /// and an error of the socket or of TLS, [suspend](Carrier::is_suspended) the session. The default is no.
    pub fn set_resumable(&self, resumable: bool) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.set_resumable(resumable);
        }
    }

    /// Returns whether the connection is broken and the session waits for another. Messages written meanwhile stay in
    /// the lane, which may get full; nothing is received, and there is no [socket](Carrier::socket).
    pub fn is_suspended(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.is_suspended())
    }

    /// Takes the connection that has broken, once. Its socket leaves an epoll only by the owner's word where another
    /// process holds a duplicate of the descriptor, and is reported for ever before that.
    pub fn take_broken(&self) -> Option<Connection> {
        match &self.medium {
            Medium::Lanes { .. } => None,
            Medium::Stream { stream, .. } => stream.take_broken().map(Connection),
        }
    }

    /// Drops a connection that seems to be intact, because the peer has come over another. Data of the old
    /// connection is received first. If that data ends the session, the session is not suspended, and
    /// [`Carrier::drain`] says how it ended.
    pub fn suspend(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.suspend();
        }
    }

    /// Returns the number of slots of the peer's lane that have come. The number does not change while the session is
    /// suspended: the peer is told the number, and continues behind it.
    pub fn position(&self) -> u64 {
        match &self.medium {
            Medium::Lanes { .. } => 0,
            Medium::Stream { stream, .. } => stream.position(),
        }
    }

    /// Resumes over another connection, with a peer that says to be at this [position](Carrier::position). Frames
    /// that the peer has not received are sent again, as far as the connection takes them at once.
    ///
    /// # Errors
    /// If the peer cannot be at this position. The owner then ends the session.
    ///
    /// # Panics
    /// If the session is not suspended.
    pub fn resume(&self, connection: Connection, theirs: u64) -> Result<(), Rule> {
        match &self.medium {
            Medium::Lanes { .. } => panic!("lanes in memory have no connection that breaks"),
            Medium::Stream { stream, .. } => stream.resume(&self.lanes, connection.0, theirs),
        }
    }

    /// Returns whether messages wait until the system takes them or, while the session is suspended, are not known to
    /// have come. Messages in shared memory outlive their sender.
    pub fn has_unsent(&self) -> bool {
        match &self.medium {
            Medium::Lanes { .. } => false,
            Medium::Stream { stream, .. } => stream.has_unsent(&self.lanes),
        }
    }

    /// Returns whether the peer's host has every byte that the system has taken. After a reset nobody knows.
    pub fn is_acknowledged(&self) -> bool {
        match &self.medium {
            Medium::Lanes { .. } => true,
            Medium::Stream { stream, .. } => stream.is_acknowledged(),
        }
    }

    /// Ends a session over a stream in order, before [`Carrier::close`]: sends everything that waits, then says that
    /// nothing follows. Until the peer's host has all of it, or the connection is gone, the owner calls again: when the
    /// socket is ready, and after a short while. Lanes in shared memory need nothing of this.
    pub fn leave(&self) -> Leaving {
        match &self.medium {
            Medium::Lanes { .. } => Leaving::Done,
            Medium::Stream { stream, .. } => stream.leave(&self.lanes),
        }
    }

    /// Returns the session's socket, which becomes readable when data has come or the peer is gone, or None while the
    /// session is suspended. The socket must be dropped before the carrier is used again.
    pub fn socket(&self) -> Option<Socket<'_>> {
        match &self.medium {
            Medium::Lanes { bell, .. } => Some(Socket(SocketRef::Bell(bell.as_fd()))),
            Medium::Stream { stream, .. } => {
                stream.pipe().map(|pipe| Socket(SocketRef::Pipe(pipe)))
            }
        }
    }
}

/// The socket of a session, to wait on.
pub struct Socket<'a>(SocketRef<'a>);

enum SocketRef<'a> {
    Bell(BorrowedFd<'a>),
    Pipe(Ref<'a, Pipe>),
}

impl AsFd for Socket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            SocketRef::Bell(bell) => bell.as_fd(),
            SocketRef::Pipe(pipe) => pipe.as_fd(),
        }
    }
}
