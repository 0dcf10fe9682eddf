//! The part of a handshake that makes a byte stream, for two sides that share no memory.

use super::{Handshake, Outcome, Role, State};
use crate::carrier::{Carrier, Peer};
use crate::error::OpenError;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, OwnedFd};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Record, Streamed};
use upbeat_environment::process::{Resource, obtain, with_socket};

impl Handshake {
    /// Asks the caller to make a byte stream.
    pub(super) fn ask_for_stream(&self, incarnation: u64) -> Result<Outcome, OpenError> {
        self.send(&Record::Stream(self.streamed()), &[])?;
        Ok(Outcome::Next(State::Joined { incarnation }))
    }

    fn streamed(&self) -> Streamed {
        Streamed { session: self.us.session as u64 }
    }

    /// Makes a byte stream as the caller, and hands its other end over.
    pub(super) fn make_stream(&self, incarnation: u64, session: u64) -> Result<Outcome, OpenError> {
        match &self.role {
            Role::Listener { .. } => {
                return Err(self.broken(Rule::RecordOutOfPlace { kind: "stream" }));
            }
            Role::Caller { dialled: Some(_) } => return Err(self.elsewhere()),
            Role::Caller { dialled: None } => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = || rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (socket, theirs) = obtain(Resource::Descriptors)
            .and_then(|()| pair())
            .map_err(OpenError::system("making a pair of sockets"))?;
        self.send(&Record::Joined(self.streamed()), &[theirs.as_fd()])?;
        let socket = with_socket(socket);
        Ok(Outcome::Next(State::ReadyStream { socket, incarnation, session }))
    }

    /// Takes the listener's end of a byte stream, and confirms it.
    pub(super) fn take_stream(
        &self,
        incarnation: u64,
        session: u64,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Outcome, OpenError> {
        let broken = || self.broken(Rule::RecordField { field: "socket" });
        let [socket] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| broken())?;
        // The socket's type is checked here, and every use of it is non-blocking.
        let is_stream = rustix::net::sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
            && rustix::net::sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX);
        if !is_stream || rustix::net::getpeername(&socket).is_err() {
            return Err(broken());
        }
        self.send(&Record::Ready, &[])?;
        Ok(Outcome::Streamed { socket: with_socket(socket), incarnation, session })
    }

    /// Returns the carrier of the open session, over a byte stream.
    pub(super) fn join_stream(self, socket: OwnedFd, incarnation: u64, session: u64) -> Carrier {
        let peer = Peer {
            name: self.peer.name,
            program: self.us.info.program.name().clone(),
            pid: self.peer.pid,
            at: None,
            listening: None,
            incarnation,
            session,
        };
        Carrier::over_stream(socket, peer, Some(self.socket), self.unshared)
    }
}
