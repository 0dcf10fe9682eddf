//! One handshake over a socket between processes, in either role, as a state machine that readiness drives.
//!
//! The peer's user is checked before the first record is read; then the records follow in the order that
//! `upbeat_core::hello` defines. Invariant: a peer's segment is mapped only after its kind, size and seals were
//! checked, one packet is kept at a time, and however a handshake ends, its descriptors are closed, except for the
//! socket of an open session.

mod checks;

mod refusal;

mod streamed;

use crate::carrier::{Carrier, Kind, Peer};
use crate::error::{OpenError, PeerIdentity};
use crate::local_node::{NodeInfo, PAGE_BYTES};
use crate::packet::{self, Buffer, Received};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Hello, Listening, Passed, Record, Segments, Welcome};
use upbeat_core::limits::{
    BOARD_BYTES, CONNECT_MS_MAX, HANDSHAKE_MS_MAX, LANE_BYTES_FIRST, REMOTE_SESSIONS_MAX,
    SESSIONS_PER_NODE_MAX,
};
use upbeat_core::name::NodeName;
use upbeat_memory::board::Note;
use upbeat_memory::credentials::{self, Credentials};
use upbeat_memory::lane::{LANE_BYTES, Lanes};
use upbeat_memory::page::PeerPage;
use upbeat_memory::region::Region;
use upbeat_memory::segment::{self, Segment, Writers};

pub(crate) use checks::{check_welcome, refused};
pub(crate) use refusal::{refusal_code, refuse};

const _: () = assert!(LANE_BYTES == LANE_BYTES_FIRST);

/// The most records that an honest side sends in a handshake.
const RECORDS_MAX: usize = 4;

/// This node's part of a handshake.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) info: Arc<NodeInfo>,
    /// The number of the session, and its byte on the board if the peer is on this host.
    pub(crate) session: usize,
}

impl Side {
    pub(crate) fn new(info: &Arc<NodeInfo>, session: usize) -> Result<Side, OpenError> {
        Side::below(SESSIONS_PER_NODE_MAX, info, session)
    }

    /// Returns this node's part of a session with a node of another host, which has no byte on the board.
    pub(crate) fn remote(info: &Arc<NodeInfo>, session: usize) -> Result<Side, OpenError> {
        Side::below(SESSIONS_PER_NODE_MAX + REMOTE_SESSIONS_MAX, info, session)
    }

    fn below(limit: usize, info: &Arc<NodeInfo>, session: usize) -> Result<Side, OpenError> {
        match session < limit {
            true => Ok(Side { info: Arc::clone(info), session }),
            false => Err(OpenError::Session { session, limit }),
        }
    }
}

/// A handshake in progress.
pub(crate) struct Handshake {
    us: Side,
    role: Role,
    state: State,
    socket: OwnedFd,
    peer: PeerIdentity,
    started_ms: u64,
    /// The time at which the last record came.
    heard_ms: Option<u64>,
    /// The reason why this side cannot share memory, if it would have shared it.
    unshared: Option<Arc<str>>,
}

/// An address of this host that a caller was given, and at which the node has to listen.
#[derive(Clone, Copy)]
pub(crate) struct Dialled {
    pub(crate) at: SocketAddr,
    /// The time by which the node must answer.
    pub(crate) until_ms: u64,
}

enum Role {
    Caller {
        dialled: Option<Dialled>,
    },
    Listener {
        name: NodeName,
        /// The listener's counter of handshakes in progress.
        _pending: Arc<()>,
    },
}

/// The record that the handshake waits for.
enum State {
    Hello,
    Welcome,
    /// The peer's segments; a listener has handed its own lane over before.
    Segments {
        incarnation: u64,
        ours: Option<Region>,
    },
    Ready {
        ours: Region,
        theirs: PeerMemory,
    },
    /// The caller's end of a byte stream; its incarnation is known.
    Joined {
        incarnation: u64,
    },
    /// The confirmation that a byte stream is ready.
    ReadyStream {
        socket: OwnedFd,
        incarnation: u64,
        session: u64,
    },
    /// No record: a record was taken, and its effect is not decided yet.
    Nothing,
}

/// The peer's part of the session, mapped.
struct PeerMemory {
    incarnation: u64,
    session: u64,
    board_slot: usize,
    listening: Option<Listening>,
    lane: Region,
    page: PeerPage,
    board: Region,
}

/// The result of a packet.
enum Outcome {
    Next(State),
    Done { ours: Region, theirs: PeerMemory },
    Streamed { socket: OwnedFd, incarnation: u64, session: u64 },
}

/// The progress of an opening.
#[expect(clippy::large_enum_variant, reason = "made once a session, and taken apart at once")]
pub(crate) enum Progress<T> {
    Waiting(T),
    Done(Carrier),
}

impl Handshake {
    /// Calls a node over a connected socket: checks its user, and sends the hello. With `dialled`, the session is
    /// opened only with a node that listens at that address and shares memory.
    pub(crate) fn call(
        us: Side,
        socket: OwnedFd,
        (wanted, dialled): (&NodeName, Option<Dialled>),
        now_ms: u64,
    ) -> Result<Handshake, OpenError> {
        let (role, state) = (Role::Caller { dialled }, State::Welcome);
        let peer = PeerIdentity { name: Some(wanted.clone()), ..PeerIdentity::default() };
        let handshake = Handshake::new(us, role, state, socket, peer, now_ms).checked()?;
        let hello = handshake.us.hello(wanted, handshake.us.info.shares());
        // A caller that had no processor for long may have been refused before it has sent anything.
        let said = handshake.send(&Record::Hello(hello), &[]);
        said.map_err(|error| handshake.told(error, &mut [0; _]))?;
        Ok(handshake)
    }

    /// Answers a caller whose socket was accepted, after checking that its user is ours.
    pub(crate) fn answer(
        us: Side,
        socket: OwnedFd,
        name: NodeName,
        pending: Arc<()>,
        now_ms: u64,
    ) -> Result<Handshake, OpenError> {
        let (role, state) = (Role::Listener { name, _pending: pending }, State::Hello);
        let peer = PeerIdentity::default();
        Handshake::new(us, role, state, socket, peer, now_ms).checked()
    }

    fn new(
        us: Side,
        role: Role,
        state: State,
        socket: OwnedFd,
        peer: PeerIdentity,
        started_ms: u64,
    ) -> Handshake {
        let unshared = us.info.unshared().cloned();
        Handshake { us, role, state, socket, peer, started_ms, heard_ms: None, unshared }
    }

    /// Looks up the peer's process, and checks that its user is ours.
    fn checked(mut self) -> Result<Handshake, OpenError> {
        let Credentials { pid, uid } = credentials::of_peer(self.socket.as_fd())
            .map_err(OpenError::system("asking for the peer's user"))?;
        self.peer.pid = pid;
        if uid != rustix::process::geteuid().as_raw() {
            let error = OpenError::WrongUser { peer: self.peer.clone(), uid };
            self.tell(&error);
            return Err(error);
        }
        Ok(self)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// Returns the deadline. A caller waits in the listener's queue for longer than for the listener's records.
    pub(crate) fn deadline_ms(&self) -> u64 {
        match (&self.role, self.heard_ms) {
            (Role::Caller { dialled: Some(dialled) }, None) => dialled.until_ms,
            (Role::Caller { .. }, None) => self.started_ms.saturating_add(CONNECT_MS_MAX),
            (Role::Caller { .. }, Some(heard_ms)) => heard_ms.saturating_add(HANDSHAKE_MS_MAX),
            (Role::Listener { .. }, _) => self.started_ms.saturating_add(HANDSHAKE_MS_MAX),
        }
    }

    pub(crate) fn heard_ms(&self) -> Option<u64> {
        self.heard_ms
    }

    /// Advances the handshake as far as the received data allows. The handshake ends with the session, or with an
    /// error that the peer was told of.
    pub(crate) fn step(mut self, now_ms: u64) -> Result<Progress<Handshake>, OpenError> {
        let mut buffer: Buffer = [0; _];
        loop {
            match self.advance(&mut buffer, now_ms) {
                Ok(None) => return Ok(Progress::Waiting(self)),
                Ok(Some(Outcome::Next(state))) => self.state = state,
                Ok(Some(Outcome::Done { ours, theirs })) => {
                    return Ok(Progress::Done(self.join(ours, theirs)));
                }
                Ok(Some(Outcome::Streamed { socket, incarnation, session })) => {
                    return Ok(Progress::Done(self.join_stream(socket, incarnation, session)));
                }
                Err(error) => {
                    let error = self.told(error, &mut buffer);
                    self.tell(&error);
                    return Err(error);
                }
            }
        }
    }

    fn advance(&mut self, buffer: &mut Buffer, now_ms: u64) -> Result<Option<Outcome>, OpenError> {
        let received = packet::receive(self.socket.as_fd(), buffer)
            .map_err(OpenError::system("reading from the peer"))?;
        let peer = self.peer.clone();
        let peer = || peer.clone();
        let (bytes, descriptors) = match received {
            Received::Nothing => {
                let since_ms = self.heard_ms.unwrap_or(self.started_ms);
                let waited_ms = now_ms.saturating_sub(since_ms);
                return match now_ms < self.deadline_ms() {
                    true => Ok(None),
                    false => Err(OpenError::TooSlow { peer: peer(), waited_ms }),
                };
            }
            Received::Closed => return Err(OpenError::Closed { peer: peer() }),
            Received::Packet { table_full: true, .. } => {
                return Err(OpenError::system("receiving descriptors")(rustix::io::Errno::MFILE));
            }
            Received::Packet { bytes, descriptors, .. } => (bytes, descriptors),
        };
        self.heard_ms = Some(now_ms);
        let record = parse(&buffer[..bytes], descriptors.len()).map_err(|rule| match rule {
            Rule::RecordVersion { seen, known } => {
                OpenError::WrongVersion { peer: peer(), ours: known, theirs: seen }
            }
            rule => OpenError::Protocol { peer: peer(), rule },
        })?;
        self.take(record, descriptors).map(Some)
    }

    /// Executes a record, if it may come in this state.
    fn take(&mut self, record: Record, descriptors: Vec<OwnedFd>) -> Result<Outcome, OpenError> {
        match (std::mem::replace(&mut self.state, State::Nothing), record) {
            (_, Record::Refusal(refusal)) => Err(refused(&self.peer, &refusal)),
            (State::Hello, Record::Hello(hello)) => self.take_hello(hello),
            (State::Welcome, Record::Welcome(welcome)) => self.take_welcome(welcome),
            (State::Segments { incarnation, ours }, Record::Segments(segments)) => {
                self.check_listens(&segments)?;
                let opened = self.open(incarnation, segments, &descriptors);
                // Closing the descriptors here saves three numbers.
                drop(descriptors);
                self.take_segments(incarnation, segments, ours, opened)
            }
            (State::Ready { ours, theirs }, Record::Ready) => Ok(Outcome::Done { ours, theirs }),
            (State::Segments { incarnation, ours: None }, Record::Stream(theirs)) => {
                self.make_stream(incarnation, theirs.session)
            }
            (State::Ready { theirs, .. }, Record::Stream(_)) => {
                self.make_stream(theirs.incarnation, theirs.session)
            }
            (
                State::Segments { incarnation, ours: Some(_) } | State::Joined { incarnation },
                Record::Joined(theirs),
            ) => self.take_stream(incarnation, theirs.session, descriptors),
            (State::ReadyStream { socket, incarnation, session }, Record::Ready) => {
                Ok(Outcome::Streamed { socket, incarnation, session })
            }
            (_, record) => Err(self.broken(Rule::RecordOutOfPlace { kind: record.kind().name() })),
        }
    }

    fn take_hello(&mut self, hello: Hello) -> Result<Outcome, OpenError> {
        self.peer.name = hello.caller.clone();
        let Role::Listener { name, .. } = &self.role else {
            return Err(self.broken(Rule::RecordOutOfPlace { kind: "hello" }));
        };
        let welcome = self.us.welcome(name, &hello, &self.peer)?;
        self.send(&Record::Welcome(welcome), &[])?;
        let incarnation = hello.incarnation;
        if hello.memory && self.us.info.shares() {
            match self.lane() {
                Err(error) => self.cannot_share(error)?,
                Ok(ours) => {
                    return Ok(Outcome::Next(State::Segments { incarnation, ours: Some(ours) }));
                }
            }
        }
        self.ask_for_stream(incarnation)
    }

    /// Returns an error, unless the system has refused shared memory and a byte stream can replace it.
    fn cannot_share(&mut self, error: OpenError) -> Result<(), OpenError> {
        match &error {
            OpenError::Segment { error: why, .. }
                if why.is_refused() && self.dialled().is_none() =>
            {
                self.unshared = Some(error.to_string().into());
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn take_welcome(&self, welcome: Welcome) -> Result<Outcome, OpenError> {
        check_welcome(&welcome, &self.peer)?;
        let (incarnation, ours) = (welcome.incarnation, None);
        Ok(Outcome::Next(State::Segments { incarnation, ours }))
    }

    /// Continues with the peer's segments: the caller answers with its own segments, and the listener, which has sent
    /// its segments before, says that frames may flow.
    fn take_segments(
        &mut self,
        incarnation: u64,
        segments: Segments,
        ours: Option<Region>,
        opened: Result<PeerMemory, OpenError>,
    ) -> Result<Outcome, OpenError> {
        let error = match (ours, opened) {
            (Some(ours), Ok(theirs)) => {
                self.send(&Record::Ready, &[])?;
                return Ok(Outcome::Done { ours, theirs });
            }
            (Some(_), Err(error)) => {
                self.cannot_share(error)?;
                return self.ask_for_stream(incarnation);
            }
            (None, Ok(theirs)) => match self.lane() {
                Ok(ours) => return Ok(Outcome::Next(State::Ready { ours, theirs })),
                Err(error) => error,
            },
            (None, Err(error)) => error,
        };
        self.cannot_share(error)?;
        self.make_stream(incarnation, segments.session)
    }

    /// Makes our lane and hands our segments over.
    fn lane(&self) -> Result<Region, OpenError> {
        let Some([page, board]) = self.us.info.descriptors() else {
            return Err(OpenError::LocalOnly);
        };
        let lane = Segment::create("upbeat-lane", LANE_BYTES, Writers::Owner)
            .and_then(Segment::reserve)
            .map_err(OpenError::segment(None, Passed::Lane.name()))?;
        let session = self.us.session;
        let segments = Segments {
            lane_bytes: LANE_BYTES as u32,
            board_slot: session as u32,
            session: session as u64,
            listening: self.us.info.listening(),
        };
        self.send(&Record::Segments(segments), &[lane.descriptor(), page, board])?;
        Ok(lane.into_region())
    }

    /// Checks and maps the peer's segments.
    fn open(
        &self,
        incarnation: u64,
        segments: Segments,
        descriptors: &[OwnedFd],
    ) -> Result<PeerMemory, OpenError> {
        if segments.lane_bytes as usize != LANE_BYTES {
            let (bytes, size) = (u64::from(segments.lane_bytes), LANE_BYTES as u32);
            return Err(self.broken(Rule::SegmentSize { bytes, min: size, max: size }));
        }
        let open = |what: Passed, bytes, writers| {
            segment::open(descriptors[what as usize].as_fd(), bytes, writers)
                .map_err(OpenError::segment(Some(self.peer.clone()), what.name()))
        };
        let lane = open(Passed::Lane, LANE_BYTES, Writers::Owner)?;
        let page = PeerPage::new(open(Passed::NodePage, PAGE_BYTES, Writers::Owner)?);
        let board = open(Passed::Board, BOARD_BYTES, Writers::Everybody)?;
        if page.incarnation() != incarnation {
            let (peer, said) = (self.peer.clone(), incarnation);
            return Err(OpenError::Incarnation { peer, said, page: page.incarnation() });
        }
        let Segments { session, board_slot, listening, .. } = segments;
        let board_slot = board_slot as usize;
        Ok(PeerMemory { incarnation, session, board_slot, listening, lane, page, board })
    }

    /// Returns the carrier of the open session.
    fn join(self, ours: Region, theirs: PeerMemory) -> Carrier {
        let lanes = Lanes::new(ours, self.us.session as u64, theirs.lane, theirs.session);
        let note = Note::new(theirs.board, theirs.board_slot);
        let peer = Peer {
            name: self.peer.name,
            program: self.us.info.program.name().clone(),
            pid: self.peer.pid,
            at: None,
            listening: theirs.listening,
            incarnation: theirs.incarnation,
            session: theirs.session,
        };
        Carrier::new(lanes, theirs.page, note, self.socket, peer, Kind::Shared)
    }

    fn broken(&self, rule: Rule) -> OpenError {
        OpenError::Protocol { peer: self.peer.clone(), rule }
    }

    fn send(&self, record: &Record, descriptors: &[BorrowedFd<'_>]) -> Result<(), OpenError> {
        packet::send(self.socket.as_fd(), &record.encode(), descriptors).map_err(
            |error| match error {
                rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET => {
                    OpenError::Closed { peer: self.peer.clone() }
                }
                error => OpenError::system("writing to the peer")(error),
            },
        )
    }
}

/// Reads the record of a packet, and checks the number of its descriptors.
fn parse(packet: &[u8], descriptors: usize) -> Result<Record, Rule> {
    let record = Record::decode(packet)?;
    record.kind().check_descriptors(descriptors)?;
    Ok(record)
}
