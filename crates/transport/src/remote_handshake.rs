//! One handshake over a connection to another host, in either role, as a state machine that readiness drives.
//!
//! The caller names itself, the node that it wants, and its number of the session. The listener answers likewise: one
//! message each way, then frames follow. Instead of opening a session, a caller may show a ticket: then an existing
//! session is resumed over the connection. The records are those of `upbeat_core::hello`. Invariant: nothing behind
//! the handshake is read here, a peer makes this side keep at most one record, and a peer that is no node of Upbeat
//! is recognized by its first bytes.

mod greeting;

mod resuming;

mod errors;

use crate::carrier::{Carrier, Connection, Peer};
use crate::error::{OpenError, PeerIdentity, Unreached};
use crate::handshake::{Side, check_welcome, refusal_code, refused};
use crate::identity::Untrusted;
use crate::pieces::Pieces;
use crate::stream::Pipe;
use crate::tls::{HandshakeState, PLAINTEXT_ALERT, TlsError, plaintext_meets};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use upbeat_core::bill::clock::{Clock, Timestamps};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Hello, Networked, Parsed, Record, Refusal, RefusalCode, Ticket};
use upbeat_core::limits::REMOTE_HANDSHAKE_MS_MAX;
use upbeat_core::name::NodeName;
use upbeat_core::resume::Agreed;
use upbeat_core::stream;
use upbeat_memory::ticks::{ticks, ticks_per_second};

use greeting::Greeted;
pub use resuming::{ResumeError, Resuming};

/// A handshake in progress.
pub(crate) struct RemoteHandshake {
    us: Side,
    role: Role,
    state: State,
    pipe: Pipe,
    peer: PeerIdentity,
    at: SocketAddr,
    /// The bytes of a record that have come.
    read: Vec<u8>,
    /// The pieces of the records that have come.
    pieces: Pieces,
    /// The bytes that are still to be sent.
    write: Vec<u8>,
    started_ms: u64,
    /// The time at which the connection was established, or a message of the peer was last whole.
    heard_ms: Option<u64>,
    /// The milliseconds for which this side keeps the session when its connection is lost.
    resume_ms: u32,
    /// The peer's clock, as far as it is known.
    clock: Option<Clock>,
    /// The reason for which a listener refuses this caller a new session; None if it accepts one.
    full: Option<(RefusalCode, String)>,
    greeting: Greeted,
}

/// The progress of a handshake.
#[expect(clippy::large_enum_variant, reason = "made once a session, and taken apart at once")]
pub(crate) enum RemoteProgress {
    Waiting(Box<RemoteHandshake>),
    /// A session is open.
    Begun(Carrier),
    /// The caller asks to resume a session.
    Asked(Resuming),
    /// The caller may [ask](RemoteHandshake::ask) to resume its session.
    Ready(Box<RemoteHandshake>),
    /// The listener resumes the session, of whose lane from us it has received this number of slots.
    Resumed(Connection, u64),
}

/// The proof of a session to be resumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumeProof {
    /// The ticket that the listener gave for the session.
    pub(crate) ticket: Ticket,
    /// The number of slots that have come of the lane in which the listener writes.
    pub(crate) position: u64,
    /// The number of the attempt.
    pub(crate) attempt: u64,
}

enum Role {
    Caller {
        wanted: NodeName,
        again: Option<ResumeProof>,
    },
    Listener {
        name: NodeName,
        /// The listener's counter of handshakes in progress.
        pending: Arc<()>,
    },
}

/// The event that the handshake waits for.
#[derive(Clone, Copy)]
enum State {
    /// The connection, which must be established by this time.
    Connection {
        until_ms: u64,
    },
    /// The caller's first message: a client's first message of TLS, or the hello.
    Greeting,
    /// The owner's permission to answer the first message.
    Greeted,
    /// The handshake of TLS, if there is one.
    Agreement,
    /// The word of the owner, who shows the ticket over one connection at a time.
    Ready,
    Hello,
    Welcome,
    /// The peer's number of the session.
    Number {
        incarnation: u64,
    },
    /// The transmission of our last record.
    Sent {
        incarnation: u64,
        session: u64,
        agreed: Option<Agreed>,
    },
    /// No event: the listener resumes a session.
    Resumed {
        position: u64,
    },
    /// No event: the caller asks to resume a session.
    Asked {
        incarnation: u64,
        said: Networked,
    },
}

impl RemoteHandshake {
    /// Calls a node over a connection that is being made and must be established by `until_ms`, for a new session or
    /// to resume one.
    pub(crate) fn call(
        us: Side,
        pipe: Pipe,
        (wanted, again): (&NodeName, Option<ResumeProof>),
        at: SocketAddr,
        [now_ms, until_ms]: [u64; 2],
    ) -> RemoteHandshake {
        let role = Role::Caller { wanted: wanted.clone(), again };
        RemoteHandshake::new(us, role, State::Connection { until_ms }, pipe, at, now_ms)
    }

    fn new(
        us: Side,
        role: Role,
        state: State,
        pipe: Pipe,
        at: SocketAddr,
        now_ms: u64,
    ) -> RemoteHandshake {
        let name = match &role {
            Role::Caller { wanted, .. } => Some(wanted.clone()),
            Role::Listener { .. } => None,
        };
        let peer = PeerIdentity { name, pid: None, at: Some(at) };
        RemoteHandshake {
            us,
            role,
            state,
            pipe,
            peer,
            at,
            read: Vec::new(),
            pieces: Pieces::default(),
            write: Vec::new(),
            started_ms: now_ms,
            heard_ms: None,
            resume_ms: 0,
            clock: None,
            full: None,
            greeting: Greeted::default(),
        }
    }

    /// Keeps the session for this many milliseconds when its connection is lost, if the peer does too.
    pub(crate) fn keeping(self, resume_ms: u32) -> RemoteHandshake {
        RemoteHandshake { resume_ms, ..self }
    }

    /// Lets the caller resume an open session, and refuses a new session for this reason.
    pub(crate) fn only_resume(&mut self, code: RefusalCode, text: String) {
        self.full = Some((code, text));
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    pub(crate) fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(crate) fn heard_ms(&self) -> Option<u64> {
        self.heard_ms
    }

    /// Returns the deadline.
    pub(crate) fn deadline_ms(&self) -> u64 {
        match self.state {
            State::Connection { until_ms } => until_ms,
            _ => self.since_ms().saturating_add(REMOTE_HANDSHAKE_MS_MAX),
        }
    }

    /// Returns the time from which the timeout runs. A listener's peer cannot gain time by sending in pieces.
    fn since_ms(&self) -> u64 {
        match self.role {
            Role::Caller { .. } => self.heard_ms.unwrap_or(self.started_ms),
            Role::Listener { .. } => self.started_ms,
        }
    }

    /// Returns whether the handshake continues when the socket is writable.
    pub(crate) fn wants_output(&self) -> bool {
        let connects = matches!(self.state, State::Connection { .. });
        connects || !self.write.is_empty() || self.pipe.has_output()
    }

    /// Advances the handshake as far as the connection allows. The handshake ends with the session, or with an error
    /// that the peer was told of.
    pub(crate) fn step(mut self: Box<Self>, now_ms: u64) -> Result<RemoteProgress, OpenError> {
        loop {
            match self.advance(now_ms) {
                Ok(Some(State::Sent { incarnation, session, agreed })) if self.write.is_empty() => {
                    return Ok(RemoteProgress::Begun(self.join(incarnation, session, agreed)));
                }
                Ok(Some(State::Ready)) => {
                    self.state = State::Ready;
                    return Ok(RemoteProgress::Ready(self));
                }
                Ok(Some(State::Resumed { position })) => {
                    return Ok(RemoteProgress::Resumed(Connection(self.pipe), position));
                }
                Ok(Some(State::Asked { incarnation, said })) => {
                    return Ok(RemoteProgress::Asked(Resuming::new(self, incarnation, said)));
                }
                Ok(Some(state)) => self.state = state,
                Ok(None) if now_ms < self.deadline_ms() => {
                    return Ok(RemoteProgress::Waiting(self));
                }
                outcome => {
                    let error = outcome.err().unwrap_or_else(|| self.too_slow(now_ms));
                    self.tell(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Does the next step, and returns the next state or None if the step has to wait.
    fn advance(&mut self, now_ms: u64) -> Result<Option<State>, OpenError> {
        if let State::Connection { .. } = self.state {
            if !self.is_connected()? {
                return Ok(None);
            }
            self.heard_ms = Some(now_ms);
            return Ok(Some(State::Agreement));
        }
        match self.state {
            State::Greeting => return self.greet(now_ms),
            State::Greeted if self.greeting.is_held => return Ok(None),
            State::Greeted => return self.answer_greeting().map(Some),
            State::Agreement => return self.agree(now_ms),
            _ => {}
        }
        if !self.send()? || matches!(self.state, State::Ready) {
            return Ok(None);
        }
        if let State::Sent { .. } = self.state {
            return Ok(Some(self.state));
        }
        let Some(record) = self.receive(now_ms)? else { return Ok(None) };
        self.take(record).map(Some)
    }

    /// Continues the handshake of TLS. The names in the peer's certificate are compared before anything else is sent.
    fn agree(&mut self, now_ms: u64) -> Result<Option<State>, OpenError> {
        let shaken = self.pipe.shake().map_err(|why| self.no_agreement(why))?;
        if shaken != HandshakeState::Done {
            return Ok(None);
        }
        self.heard_ms = Some(now_ms);
        let Role::Caller { wanted, again } = &self.role else { return Ok(Some(State::Hello)) };
        self.check(Some(wanted))?;
        if again.is_some() {
            return Ok(Some(State::Ready));
        }
        self.ask();
        Ok(Some(self.state))
    }

    /// Compares the peer's name with its certificate, if it had to show one.
    fn check(&self, name: Option<&NodeName>) -> Result<(), OpenError> {
        let checked = self.pipe.check(self.us.info.program.name(), name);
        checked.map_err(|why: Untrusted| self.no_agreement(TlsError::Untrusted(why)))
    }

    fn no_agreement(&self, why: TlsError) -> OpenError {
        OpenError::Tls { peer: self.peer.clone(), why: Box::new(why) }
    }

    /// Returns the error of a peer whose first bytes are no record.
    #[cold]
    fn strange(&self) -> OpenError {
        match plaintext_meets(&self.read) {
            Some(why) if self.pipe.is_plain() => {
                let _ = self.pipe.send(&PLAINTEXT_ALERT);
                self.no_agreement(why)
            }
            _ => self.unreached(Unreached::NotUpbeat),
        }
    }

    /// Returns whether the connection is established.
    fn is_connected(&self) -> Result<bool, OpenError> {
        let socket = self.pipe.as_fd();
        match rustix::net::sockopt::socket_error(socket) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => return Err(unreached(self.at)(error)),
        }
        match rustix::net::getpeername(socket) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(error) => Err(unreached(self.at)(error)),
        }
    }

    /// Returns this side's description of the session.
    fn said(&self, again: Option<ResumeProof>) -> Networked {
        Networked {
            session: self.us.session as u64,
            position: again.map_or(0, |again| again.position),
            attempt: again.map_or(0, |again| again.attempt),
            resume_ms: self.resume_ms,
            pace: ticks_per_second(),
            stamps: match &self.clock {
                None => Timestamps { sent: ticks(), ..Timestamps::default() },
                Some(clock) => clock.stamps(ticks()),
            },
            ticket: again.map(|again| again.ticket),
        }
    }

    /// Sends the bytes that wait. Returns whether all of them were sent.
    fn send(&mut self) -> Result<bool, OpenError> {
        while !self.write.is_empty() {
            match self.pipe.send(&self.write) {
                Ok(bytes) => drop(self.write.drain(..bytes)),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Ok(false),
                Err(error) => return Err(self.broke(error)),
            }
        }
        self.pipe.flush();
        Ok(!self.pipe.has_output())
    }

    /// Takes the next record, once it is whole. No byte behind it is read.
    fn receive(&mut self, now_ms: u64) -> Result<Option<Record>, OpenError> {
        loop {
            let missing = match Record::parse(&self.read) {
                Ok(Parsed::Complete(record, _)) => {
                    self.read.clear();
                    self.heard_ms = Some(now_ms);
                    return Ok(Some(record));
                }
                Ok(Parsed::NeedMore(missing)) => missing,
                Err(Rule::RecordMagic { .. }) => return Err(self.strange()),
                Err(Rule::RecordVersion { seen, known }) => {
                    let (peer, ours, theirs) = (self.peer.clone(), known, seen);
                    return Err(OpenError::WrongVersion { peer, ours, theirs });
                }
                Err(rule) => return Err(self.broken(rule)),
            };
            let from = self.read.len();
            self.read.resize(from + missing, 0);
            let received = self.pipe.receive(None, &mut self.read[from..]);
            self.read.truncate(from + *received.as_ref().unwrap_or(&0));
            match received {
                Ok(0) => return Err(self.closed()),
                Ok(bytes) if self.pieces.admit(bytes) => {}
                Ok(_) => return Err(self.unreached(Unreached::NotUpbeat)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(self.broke(error)),
            }
        }
    }

    /// Executes a record, if it may come in this state.
    fn take(&mut self, record: Record) -> Result<State, OpenError> {
        match (self.state, record) {
            (_, Record::Refusal(refusal)) => Err(refused(&self.peer, &refusal)),
            (State::Hello, Record::Hello(hello)) => self.take_hello(&hello),
            (State::Number { incarnation }, Record::Network(said)) => self.meet(incarnation, said),
            (State::Welcome, Record::Welcome(welcome)) => {
                check_welcome(&welcome, &self.peer)?;
                Ok(State::Number { incarnation: welcome.incarnation })
            }
            (_, record) => Err(self.broken(Rule::RecordOutOfPlace { kind: record.kind().name() })),
        }
    }

    fn take_hello(&mut self, hello: &Hello) -> Result<State, OpenError> {
        self.peer.name = hello.caller.clone();
        let Role::Listener { name, .. } = &self.role else {
            return Err(self.broken(Rule::RecordOutOfPlace { kind: "hello" }));
        };
        let welcome = self.us.welcome(name, hello, &self.peer)?;
        self.check(hello.caller.as_ref())?;
        // The session's number follows once the caller's number has come.
        Record::Welcome(welcome).write(&mut self.write);
        Ok(State::Number { incarnation: hello.incarnation })
    }

    /// Returns the carrier of the open session.
    fn join(self, incarnation: u64, session: u64, agreed: Option<Agreed>) -> Carrier {
        let peer = Peer {
            name: self.peer.name,
            program: self.us.info.program.name().clone(),
            pid: None,
            at: Some(self.at),
            listening: None,
            incarnation,
            session,
        };
        let opened = matches!(self.role, Role::Caller { .. });
        Carrier::over_network(self.pipe, peer, agreed, self.clock.map(|clock| (clock, opened)))
    }

    /// Tells the peer why there is no session, if it can still be told.
    fn tell(&self, error: &OpenError) {
        if let Some(code) = refusal_code(error) {
            self.refuse(code, &error.to_string());
        }
    }

    /// Sends a refusal, if the connection takes it. A listener reads what comes behind a caller's question as the
    /// session's own records. A caller that gives up an attempt to resume only closes the connection, because its
    /// session goes on over another.
    pub(crate) fn refuse(&self, code: RefusalCode, text: &str) {
        let is_early = matches!(self.state, State::Greeting | State::Greeted | State::Agreement);
        if is_early && code == RefusalCode::TooSlow {
            self.pipe.give_way();
        }
        let has_asked = matches!(self.state, State::Welcome | State::Number { .. });
        let refusal = Refusal::new(code, text);
        let mut bytes = Vec::new();
        match &self.role {
            Role::Caller { again: Some(_), .. } if has_asked => return,
            Role::Caller { .. } if has_asked => stream::write_refusal(refusal, &mut bytes),
            _ => Record::Refusal(refusal).write(&mut bytes),
        }
        if !self.wants_output() {
            let _ = self.pipe.send(&bytes);
        }
    }
}

/// Returns the error of a failed attempt to connect.
pub(crate) fn unreached(at: SocketAddr) -> impl Fn(Errno) -> OpenError {
    move |error| {
        let why = match error {
            Errno::CONNREFUSED => Unreached::Refused,
            Errno::MFILE | Errno::NFILE => return OpenError::system("connecting")(error),
            error => Unreached::Network(error),
        };
        OpenError::Unreached { at: at.to_string(), why }
    }
}
