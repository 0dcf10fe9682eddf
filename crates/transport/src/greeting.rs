//! One handshake over a connection to another host, in either role, as a state machine that readiness drives.
//!
//! The caller says who it is, whom it wants and its number of the session, the listener the same: one way
//! there and one back, then frames follow. A caller may show a ticket instead of opening a session: then a session
//! that stands on both sides goes on over the connection. Records are those of `upbeat_core::hello`. Invariant: nothing
//! behind the handshake is read here, a peer keeps no more than one record of memory busy, and what is
//! no node of Upbeat is found out by its first bytes.

mod resuming;

use crate::carrier::{Carrier, Connection, Peer};
use crate::error::{OpenError, Unreached, Whom};
use crate::handshake::{Side, check_welcome, refusal_code, refused};
use crate::identity::Untrusted;
use crate::stream::Pipe;
use crate::tls::{PLAINTEXT_ALERT, Shake, TlsError, plaintext_meets};
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
use upbeat_memory::ticks::{ticks, ticks_per_second};

pub use resuming::{ResumeError, Resuming};

/// A handshake under way.
pub(crate) struct Greeting {
    us: Side,
    role: Role,
    state: State,
    pipe: Pipe,
    peer: Whom,
    at: SocketAddr,
    /// The bytes of a record that have come.
    read: Vec<u8>,
    /// Bytes to be sent, as far as they were not.
    write: Vec<u8>,
    started_ms: u64,
    /// When the connection stood, or something came.
    heard_ms: Option<u64>,
    /// Milliseconds for which this side keeps the session when its connection is gone.
    resume_ms: u32,
    /// The peer's counter, as far as it is known.
    clock: Option<Clock>,
    /// The reason for which a listener refuses this caller a new session; none if it accepts one.
    full: Option<(RefusalCode, String)>,
}

/// What has become of a handshake.
#[expect(clippy::large_enum_variant, reason = "made once a session, and taken apart at once")]
pub(crate) enum Greeted {
    Waiting(Box<Greeting>),
    /// A session has begun.
    Begun(Carrier),
    /// The caller asks to go on with a session.
    Asked(Resuming),
    /// The listener goes on with the session that was asked for; so many slots of our lane have come to it.
    Resumed(Connection, u64),
}

/// What a side shows of a session that is to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// What the listener gave for it.
    pub(crate) ticket: Ticket,
    /// Slots of the sender's lane that have come.
    pub(crate) position: u64,
}

enum Role {
    Caller {
        wanted: NodeName,
        again: Option<Shown>,
    },
    Listener {
        name: NodeName,
        /// Counted by the listener for as long as this handshake is under way.
        _pending: Arc<()>,
    },
}

/// What is waited for.
#[derive(Clone, Copy)]
enum State {
    /// The connection, which has to stand at this time.
    Connection {
        until_ms: u64,
    },
    /// Agreement on TLS, if there is to be any.
    Agreement,
    Hello,
    Welcome,
    /// The peer's number of the session.
    Number {
        incarnation: u64,
    },
    /// That our last record is sent.
    Sent {
        incarnation: u64,
        session: u64,
        agreed: Option<Agreed>,
    },
    /// Nothing: the listener goes on with a session.
    Resumed {
        position: u64,
    },
    /// Nothing: the caller asks for that.
    Asked {
        incarnation: u64,
        said: Networked,
    },
}

impl Greeting {
    /// Calls a node over a connection that is being made, and has to stand at `until_ms`: for a new session,
    /// or to go on with one.
    pub(crate) fn call(
        us: Side,
        pipe: Pipe,
        (wanted, again): (&NodeName, Option<Shown>),
        at: SocketAddr,
        [now_ms, until_ms]: [u64; 2],
    ) -> Greeting {
        let role = Role::Caller { wanted: wanted.clone(), again };
        Greeting::new(us, role, State::Connection { until_ms }, pipe, at, now_ms)
    }

    /// Answers a caller whose connection was accepted.
    pub(crate) fn answer(
        us: Side,
        pipe: Pipe,
        name: &NodeName,
        pending: Arc<()>,
        at: SocketAddr,
        now_ms: u64,
    ) -> Greeting {
        let role = Role::Listener { name: name.clone(), _pending: pending };
        Greeting::new(us, role, State::Agreement, pipe, at, now_ms)
    }

    fn new(
        us: Side,
        role: Role,
        state: State,
        pipe: Pipe,
        at: SocketAddr,
        now_ms: u64,
    ) -> Greeting {
        let name = match &role {
            Role::Caller { wanted, .. } => Some(wanted.clone()),
            Role::Listener { .. } => None,
        };
        let peer = Whom { name, pid: None, at: Some(at) };
        Greeting {
            us,
            role,
            state,
            pipe,
            peer,
            at,
            read: Vec::new(),
            write: Vec::new(),
            started_ms: now_ms,
            heard_ms: None,
            resume_ms: 0,
            clock: None,
            full: None,
        }
    }

    /// Keeps the session for so many milliseconds when its connection is gone, if the peer does too.
    pub(crate) fn keeping(self, resume_ms: u32) -> Greeting {
        Greeting { resume_ms, ..self }
    }

    /// Lets the caller go on with a session that stands, and refuses it a new one for this reason.
    pub(crate) fn only_resume(&mut self, code: RefusalCode, text: String) {
        self.full = Some((code, text));
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    pub(crate) fn peer(&self) -> &Whom {
        &self.peer
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(crate) fn heard_ms(&self) -> Option<u64> {
        self.heard_ms
    }

    /// When it is given up.
    pub(crate) fn deadline_ms(&self) -> u64 {
        match self.state {
            State::Connection { until_ms } => until_ms,
            _ => self.since_ms().saturating_add(REMOTE_HANDSHAKE_MS_MAX),
        }
    }

    /// Since when the time of the handshake runs: a listener's peer may not gain time by sending in pieces.
    fn since_ms(&self) -> u64 {
        match self.role {
            Role::Caller { .. } => self.heard_ms.unwrap_or(self.started_ms),
            Role::Listener { .. } => self.started_ms,
        }
    }

    /// Whether it goes on when the socket takes bytes.
    pub(crate) fn wants_output(&self) -> bool {
        let connects = matches!(self.state, State::Connection { .. });
        connects || !self.write.is_empty() || self.pipe.has_output()
    }

    /// Goes on as far as the connection allows. Ends with the session, or with an error, of which the peer
    /// was told.
    pub(crate) fn step(mut self: Box<Self>, now_ms: u64) -> Result<Greeted, OpenError> {
        loop {
            match self.advance(now_ms) {
                Ok(Some(State::Sent { incarnation, session, agreed })) if self.write.is_empty() => {
                    return Ok(Greeted::Begun(self.join(incarnation, session, agreed)));
                }
                Ok(Some(State::Resumed { position })) => {
                    return Ok(Greeted::Resumed(Connection(self.pipe), position));
                }
                Ok(Some(State::Asked { incarnation, said })) => {
                    return Ok(Greeted::Asked(Resuming::new(self, incarnation, said)));
                }
                Ok(Some(state)) => self.state = state,
                Ok(None) if now_ms < self.deadline_ms() => return Ok(Greeted::Waiting(self)),
                outcome => {
                    let error = outcome.err().unwrap_or_else(|| self.too_slow(now_ms));
                    self.tell(&error);
                    return Err(error);
                }
            }
        }
    }

    fn too_slow(&self, now_ms: u64) -> OpenError {
        match self.state {
            State::Connection { .. } => {
                let waited_ms = now_ms.saturating_sub(self.started_ms);
                self.unreached(Unreached::TimedOut { waited_ms })
            }
            _ => {
                let waited_ms = now_ms.saturating_sub(self.since_ms());
                OpenError::TooSlow { peer: self.peer.clone(), waited_ms }
            }
        }
    }

    fn unreached(&self, why: Unreached) -> OpenError {
        OpenError::Unreached { at: self.at.to_string(), why }
    }

    /// Does what can be done: gives the next state, or None where that has to wait.
    fn advance(&mut self, now_ms: u64) -> Result<Option<State>, OpenError> {
        if let State::Connection { .. } = self.state {
            if !self.is_connected()? {
                return Ok(None);
            }
            self.heard_ms = Some(now_ms);
            return Ok(Some(State::Agreement));
        }
        if let State::Agreement = self.state {
            return self.agree();
        }
        if !self.send()? {
            return Ok(None);
        }
        if let State::Sent { .. } = self.state {
            return Ok(Some(self.state));
        }
        let Some(record) = self.receive(now_ms)? else { return Ok(None) };
        self.take(record).map(Some)
    }

    /// Goes on with the handshake of TLS. What the peer's certificate is for is compared before anything is said.
    fn agree(&mut self) -> Result<Option<State>, OpenError> {
        let shaken = self.pipe.shake().map_err(|why| self.no_agreement(why))?;
        if shaken != Shake::Done {
            return Ok(None);
        }
        let Role::Caller { wanted, again } = &self.role else { return Ok(Some(State::Hello)) };
        self.check(Some(wanted))?;
        Record::Hello(self.us.hello(wanted, false)).write(&mut self.write);
        Record::Network(self.said(*again)).write(&mut self.write);
        Ok(Some(State::Welcome))
    }

    /// Compares what the peer says to be with its certificate, if it had to show one.
    fn check(&self, name: Option<&NodeName>) -> Result<(), OpenError> {
        let checked = self.pipe.check(self.us.card.program.name(), name);
        checked.map_err(|why: Untrusted| self.no_agreement(TlsError::Untrusted(why)))
    }

    fn no_agreement(&self, why: TlsError) -> OpenError {
        OpenError::Tls { peer: self.peer.clone(), why: Box::new(why) }
    }

    /// What came is no record: says what it is.
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

    /// Whether the connection stands.
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

    /// What this side says of the session.
    fn said(&self, again: Option<Shown>) -> Networked {
        Networked {
            session: self.us.session as u64,
            position: again.map_or(0, |again| again.position),
            resume_ms: self.resume_ms,
            pace: ticks_per_second(),
            stamps: match &self.clock {
                None => Timestamps { sent: ticks(), ..Timestamps::default() },
                Some(clock) => clock.stamps(ticks()),
            },
            ticket: again.map(|again| again.ticket),
        }
    }

    /// Sends what is to be sent. Returns whether all of it went.
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
                Ok(_) => self.heard_ms = Some(now_ms),
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(self.broke(error)),
            }
        }
    }

    /// Does what a record asks for, where it may come.
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
        // It goes with the number of the session, once the caller's has come.
        Record::Welcome(welcome).write(&mut self.write);
        Ok(State::Number { incarnation: hello.incarnation })
    }

    /// The session stands.
    fn join(self, incarnation: u64, session: u64, agreed: Option<Agreed>) -> Carrier {
        let peer = Peer {
            name: self.peer.name,
            program: self.us.card.program.name().clone(),
            pid: None,
            at: Some(self.at),
            listening: None,
            incarnation,
            session,
        };
        let opened = matches!(self.role, Role::Caller { .. });
        Carrier::over_network(self.pipe, peer, agreed, self.clock.map(|clock| (clock, opened)))
    }

    /// The connection cannot go on: says why, as far as that is known.
    #[cold]
    fn broke(&self, error: Errno) -> OpenError {
        match (self.pipe.fault(), error) {
            (Some(TlsError::Cut), _) | (None, Errno::PIPE | Errno::CONNRESET) => self.closed(),
            (Some(why), _) => self.no_agreement(why),
            (None, error) => self.unreached(Unreached::Network(error)),
        }
    }

    fn closed(&self) -> OpenError {
        OpenError::Closed { peer: self.peer.clone() }
    }

    fn broken(&self, rule: Rule) -> OpenError {
        OpenError::Protocol { peer: self.peer.clone(), rule }
    }

    /// Tells the peer why there is no session, where it can still be told.
    fn tell(&self, error: &OpenError) {
        if let Some(code) = refusal_code(error) {
            self.refuse(code, &error.to_string());
        }
    }

    /// Sends a refusal, if the connection takes it.
    pub(crate) fn refuse(&self, code: RefusalCode, text: &str) {
        if let (State::Agreement, RefusalCode::TooSlow) = (self.state, code) {
            self.pipe.give_way();
        }
        if !self.wants_output() {
            let _ = self.pipe.send(&Record::Refusal(Refusal::new(code, text)).encode());
        }
    }
}

/// What an attempt to connect has said.
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
