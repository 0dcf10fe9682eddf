//! A carrier whose session outlives its connection: the connection breaks, and another takes its place.
//!
//! Every frame of a byte stream stays with its sender until its peer has read it, so nothing is lost with a
//! connection, and nothing comes twice: each side says [how much it has received](Carrier::position), and
//! [goes on](Carrier::resume) behind what the other one says. Who makes the new connection, and how long the session
//! waits for it, is decided above. Invariant: a session that a peer has ended, or has broken a rule of,
//! never goes on.

use super::{Carrier, Way};
use crate::stream::{Connection, Pipe};
use std::cell::Ref;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::fault::Rule;

impl Carrier {
    /// Says whether the session outlives a connection that breaks: over a stream, an end without the peer's word
    /// and an error of the socket or of TLS then [suspend](Carrier::is_suspended) it. It does not at first.
    pub fn set_resumable(&self, resumable: bool) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.set_resumable(resumable);
        }
    }

    /// Whether the connection is broken, and the session waits for another. What is written meanwhile stays in the
    /// lane, which may get full; nothing comes, and there is no [socket](Carrier::socket).
    pub fn is_suspended(&self) -> bool {
        matches!(&self.way, Way::Stream { stream, .. } if stream.is_suspended())
    }

    /// Lets go of a connection that is still thought to stand, for the peer has come over another. What has come over
    /// the old one is taken in first; if that ends the session, it is not suspended, and
    /// [`Carrier::drain`] says how it ended.
    pub fn suspend(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.suspend();
        }
    }

    /// Slots of the peer's lane that have come. While the session is suspended they stay as they are: the peer is
    /// told, and goes on behind them.
    pub fn position(&self) -> u64 {
        match &self.way {
            Way::Lanes { .. } => 0,
            Way::Stream { stream, .. } => stream.position(),
        }
    }

    /// Goes on over another connection, with a peer that says to be at this [position](Carrier::position). What it
    /// has not received is sent again, as far as the connection takes it at once.
    ///
    /// # Errors
    /// If the peer cannot be there. The session is to be ended then.
    ///
    /// # Panics
    /// If the session is not suspended.
    pub fn resume(&self, connection: Connection, theirs: u64) -> Result<(), Rule> {
        match &self.way {
            Way::Lanes { .. } => panic!("lanes in memory have no connection that breaks"),
            Way::Stream { stream, .. } => stream.resume(&self.lanes, connection.0, theirs),
        }
    }

    /// The session's socket, which becomes readable when something has come, or when the peer is gone. None while
    /// the session is suspended. Drop it before the carrier is used again.
    pub fn socket(&self) -> Option<Socket<'_>> {
        match &self.way {
            Way::Lanes { bell, .. } => Some(Socket(Held::Bell(bell.as_fd()))),
            Way::Stream { stream, .. } => stream.pipe().map(|pipe| Socket(Held::Pipe(pipe))),
        }
    }
}

/// The socket of a session, to wait on.
pub struct Socket<'a>(Held<'a>);

enum Held<'a> {
    Bell(BorrowedFd<'a>),
    Pipe(Ref<'a, Pipe>),
}

impl AsFd for Socket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Held::Bell(bell) => bell.as_fd(),
            Held::Pipe(pipe) => pipe.as_fd(),
        }
    }
}
