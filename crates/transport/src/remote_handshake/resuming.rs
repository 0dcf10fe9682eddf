//! The agreement of the two sides of a handshake on resuming: whether the session outlives its connection, and how an
//! existing session is resumed.
//!
//! The runtime finds the session of a ticket. Invariant: a session is resumed only after its listener has agreed, and
//! the listener has dropped the old connection before it says how much has come.

use super::{OpenError, PeerIdentity, RemoteHandshake, ResumeProof, Role, State};
use crate::carrier::{Carrier, Connection};
use crate::handshake::refused;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use upbeat_core::bill::clock::Clock;
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Networked, Record, Refusal, RefusalCode, Ticket};
use upbeat_core::name::NodeName;
use upbeat_core::resume::{self, Agreed};
use upbeat_environment::chance::random;
use upbeat_memory::ticks::{ticks, ticks_per_second};

impl RemoteHandshake {
    /// Has a caller ask for a session: a new one, or the one that it resumes.
    pub(crate) fn ask(&mut self) {
        let Role::Caller { wanted, again } = &self.role else { return };
        Record::Hello(self.us.hello(wanted, false)).write(&mut self.write);
        Record::Network(self.said(*again)).write(&mut self.write);
        self.state = State::Welcome;
    }

    /// Takes the peer's description of the session.
    pub(super) fn meet(&mut self, incarnation: u64, said: Networked) -> Result<State, OpenError> {
        let (session, said_ms) = (said.session, [self.resume_ms, said.resume_ms]);
        self.clock = Clock::new(ticks_per_second(), said.pace);
        if let Some(clock) = &mut self.clock {
            clock.heard(said.stamps, ticks());
        }
        match (&self.role, said.ticket) {
            (Role::Listener { .. }, Some(_)) => Ok(State::Asked { incarnation, said }),
            (Role::Listener { .. }, None) => {
                if let Some((code, text)) = &self.full {
                    self.refuse(*code, text);
                    return Err(refused(&self.peer, &Refusal::new(*code, text)));
                }
                let agreed = match said_ms.contains(&0) {
                    true => None,
                    false => Agreed::new(resume::Role::Listener, self.ticket()?, said_ms),
                };
                let ticket = agreed.map(|agreed| agreed.ticket);
                let answer = Networked { ticket, ..self.said(None) };
                Record::Network(answer).write(&mut self.write);
                Ok(State::Sent { incarnation, session, agreed })
            }
            (Role::Caller { again: Some(ResumeProof { ticket, .. }), .. }, answer) => {
                match answer {
                    Some(answer) if answer == *ticket => {
                        Ok(State::Resumed { position: said.position })
                    }
                    _ => Err(self.broken(Rule::RecordField { field: "ticket" })),
                }
            }
            (Role::Caller { again: None, .. }, ticket) => {
                let agreed =
                    ticket.and_then(|ticket| Agreed::new(resume::Role::Caller, ticket, said_ms));
                if agreed.is_some() == said_ms.contains(&0) || ticket.is_some() != agreed.is_some()
                {
                    return Err(self.broken(Rule::RecordField { field: "ticket" }));
                }
                Ok(State::Sent { incarnation, session, agreed })
            }
        }
    }

    /// Returns a ticket for a session that begins here.
    fn ticket(&self) -> Result<Ticket, OpenError> {
        let failed = |_| OpenError::system("asking for random numbers")(Errno::AGAIN);
        let (session, incarnation) = (self.us.session as u64, self.us.info.incarnation);
        Ok(Ticket { session, incarnation, key: random().map_err(failed)? })
    }
}

/// A caller that asks to resume a session over this connection.
pub struct Resuming {
    handshake: Box<RemoteHandshake>,
    incarnation: u64,
    said: Networked,
}

impl Resuming {
    pub(super) fn new(
        handshake: Box<RemoteHandshake>,
        incarnation: u64,
        said: Networked,
    ) -> Resuming {
        Resuming { handshake, incarnation, said }
    }

    /// Returns the listener's number of the session that the caller asks for.
    pub fn number(&self) -> Option<u64> {
        self.said.ticket.map(|ticket| ticket.session)
    }

    /// Returns the incarnation of the node that has the session.
    pub fn listener(&self) -> Option<u64> {
        self.said.ticket.map(|ticket| ticket.incarnation)
    }

    /// Returns the number of the caller's attempt.
    pub fn attempt(&self) -> u64 {
        self.said.attempt
    }

    pub(crate) fn peer(&self) -> &PeerIdentity {
        self.handshake.peer()
    }

    /// Returns the ticket that the caller shows, if the session may be one with this peer.
    pub fn ticket_of(&self, carrier: &Carrier) -> Option<Ticket> {
        let peer = &carrier.peer;
        let is_peer = peer.name.as_ref() == self.name()
            && peer.incarnation == self.incarnation
            && peer.session == self.said.session;
        self.said.ticket.filter(|_| is_peer)
    }

    /// Returns whether the caller shows the ticket of the other, in a later attempt.
    pub(crate) fn follows(&self, earlier: &Resuming) -> bool {
        let tickets = self.said.ticket.zip(earlier.said.ticket);
        tickets.is_some_and(|(ours, theirs)| ours.fits(&theirs))
            && self.attempt() > earlier.attempt()
    }

    /// Returns the caller's name, which its certificate confirms under TLS. A handle has none.
    fn name(&self) -> Option<&NodeName> {
        self.handshake.peer.name.as_ref()
    }

    /// Resumes the session that the ticket belongs to, after its old connection was dropped, and tells the caller.
    pub fn with(mut self, carrier: &Carrier) -> Result<(), ResumeError> {
        let Some(ticket) = self.said.ticket else { return Ok(()) };
        let handshake = &mut self.handshake;
        let (position, attempt) = (carrier.position(), self.said.attempt);
        let again = ResumeProof { ticket, position, attempt };
        let answer = Networked { session: ticket.session, ..handshake.said(Some(again)) };
        Record::Network(answer).write(&mut handshake.write);
        handshake.send().map_err(ResumeError::Open)?;
        if !handshake.write.is_empty() {
            // A connection that does not take this few bytes is unusable.
            return Err(ResumeError::Open(handshake.closed()));
        }
        let connection = Connection(self.handshake.pipe);
        carrier.resume(connection, self.said.position).map_err(ResumeError::Rule)
    }

    /// Takes the caller off the count of the handshakes of the listener that has accepted it.
    pub(crate) fn leaves_listener(&mut self) {
        if let Role::Listener { pending, .. } = &mut self.handshake.role {
            *pending = Arc::default();
        }
    }

    /// Tells the caller that the node of its session is busy, and closes the connection. The caller connects again.
    pub(crate) fn turn_away(self) {
        let text = "too many callers wait for the node of the session";
        self.handshake.refuse(RefusalCode::NoResources, text);
    }

    /// Tells the caller that there is no such session, and closes the connection.
    pub fn refuse(self) {
        self.handshake.refuse(RefusalCode::NoSuchSession, "");
    }
}

/// The reason why a session is not resumed over a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumeError {
    /// The connection is unusable. The session waits for another.
    Open(OpenError),
    /// The peer broke a rule, which ends the session.
    Rule(Rule),
}

impl AsFd for Resuming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handshake.as_fd()
    }
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResumeError::Open(error) => error.fmt(f),
            ResumeError::Rule(rule) => write!(f, "the peer broke a rule: {rule}"),
        }
    }
}

impl std::error::Error for ResumeError {}
