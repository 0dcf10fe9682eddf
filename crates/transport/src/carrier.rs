//! What carries an open session: lanes, the peer's page, a byte on its board, and the bell.
//!
//! A carrier is the same whether the peer is a thread or a process; what is written into its lanes
//! is decided above. Whoever uses a session reads and writes frames in [`Carrier::lanes`], and asks the
//! carrier for all else: to tell the peer, to hear the peer, to hand over a segment, to end. The bell is
//! one end of the session's socket: a byte wakes a sleeper, a record brings the segment that a lane goes
//! on in, end-of-file says that the peer is gone. Invariant: nothing here blocks, whatever the peer has
//! done to the socket, and a segment is mapped only after it was checked.

use crate::error::{descriptor_limit, descriptors_text};
use crate::packet::{self, Buffer, Received};
use rustix::io::Errno;
use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use upbeat_core::fault::Rule;
use upbeat_core::hello::{self, Record, RecordKind, Refusal, RefusalCode};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_core::signal::{BELL, Signal, Signals};
use upbeat_memory::board::Note;
use upbeat_memory::doorbell::announce;
use upbeat_memory::lane::Lanes;
use upbeat_memory::page::{NodePage, PeerPage};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, SegmentError, Writers};
use upbeat_memory::slab::Tell;
use upbeat_memory::sync::{Fenced, fence_full};

/// Packets that one [`Carrier::drain`] takes: more than an honest peer's socket ever holds, so that
/// only a peer that keeps sending meanwhile comes to it.
pub const PACKETS_PER_DRAIN_MAX: usize = 1024;

/// The whole of a bell's packet.
pub(crate) const RING: [u8; 1] = [BELL];

/// One side of an open session.
pub struct Carrier {
    /// Both lanes.
    pub lanes: Lanes,
    /// Who the peer is.
    pub peer: Peer,
    /// What the lanes are made of.
    pub kind: Kind,
    /// The peer's node page.
    page: PeerPage,
    /// The peer's sleep for which it was rung last.
    rung: Cell<u64>,
    /// Our byte on the peer's board.
    note: Note,
    /// Our end of the session's socket.
    bell: Arc<Bell>,
}

impl Carrier {
    pub(crate) fn new(
        lanes: Lanes,
        page: PeerPage,
        note: Note,
        socket: OwnedFd,
        peer: Peer,
        kind: Kind,
    ) -> Carrier {
        let bell = Arc::new(Bell { socket });
        Carrier { lanes, peer, kind, page, rung: Cell::new(0), note, bell }
    }

    /// Tells the peer of what was written, where the peer does not look by itself: notes it on its board,
    /// and rings it if it sleeps, once for each sleep. The fence stands behind the last message.
    /// Returns whether the peer was rung.
    #[inline(always)]
    pub fn flush(&self, fenced: Fenced) -> bool {
        match announce(&self.lanes, &self.note, &self.page, fenced) {
            Some(sleep) if sleep != self.rung.get() => self.ring_for(sleep),
            _ => false,
        }
    }

    #[cold]
    fn ring_for(&self, sleep: u64) -> bool {
        self.rung.set(sleep);
        // Where the peer is gone, end-of-file says so; where its socket is full, it has rings
        // that it has not heard.
        matches!(self.ring(), Rang::Rung)
    }

    /// Whether the peer sleeps and was not rung for that. Without a fence this may say no too early.
    #[inline(always)]
    pub fn must_ring(&self) -> bool {
        self.page.seems_asleep().is_some_and(|sleep| sleep != self.rung.get())
    }

    /// Wakes the peer. Never blocks.
    pub fn ring(&self) -> Rang {
        self.bell.ring()
    }

    /// Takes all that has come over the socket, up to [`PACKETS_PER_DRAIN_MAX`] packets. After a fault the
    /// session is to be ended; what else was there is lost with it.
    pub fn drain(&self) -> Result<Drained, BellFault> {
        self.bell.drain()
    }

    /// Says whether this side looks at the peer's lane each turn. Having said no, look once more.
    pub fn set_attention(&self, attentive: bool) {
        self.lanes.set_attention(attentive);
    }

    /// Withdraws the promise of `page` and looks for the last time before a sleep: see
    /// [`Lanes::may_sleep`].
    pub fn may_sleep(&self, page: &NodePage, settle: impl FnOnce()) -> bool {
        self.lanes.may_sleep(page, settle)
    }

    /// Makes a segment of ours in which our lane goes on, or whose buffers are lent to the peer.
    pub fn make_segment(&self, label: &str, bytes: usize) -> Result<OwnSegment, SegmentError> {
        let segment = segment::Segment::create(label, bytes, Writers::Owner)?.reserve()?;
        Ok(OwnSegment { segment })
    }

    /// Hands a segment over. The frame that names it comes after it.
    pub fn send_segment(&self, generation: u32, segment: &OwnSegment) -> Result<(), BellFault> {
        self.bell.send_segment(generation, &segment.segment)
    }

    /// What tells a peer that waits for room of a buffer that goes back outside of what this side's
    /// owner does, on any thread: it is rung if it sleeps.
    #[must_use]
    pub fn relief(&self) -> Tell {
        let (wish, page) = (self.lanes.peer_wish(), self.page.region());
        let bell = Arc::downgrade(&self.bell);
        Box::new(move || {
            let fenced = fence_full();
            if wish.load(0) != 0
                && PeerPage::new(page.clone()).asleep(fenced).is_some()
                && let Some(bell) = bell.upgrade()
            {
                bell.ring();
            }
        })
    }

    /// Tells the peer why this side gives the session up, if the socket takes it. Close it then.
    pub fn refuse(&self, code: RefusalCode, text: &str) {
        let record = Record::Refusal(Refusal::new(code, text)).encode();
        // A peer that cannot be told sees the end of the socket.
        let _ = packet::send(self.as_fd(), &record, &[]);
    }

    /// Ends the session for both sides, whoever else holds the socket.
    pub fn close(&self) {
        // A socket that is not connected any more is closed already.
        let _ = rustix::net::shutdown(&self.bell.socket, rustix::net::Shutdown::Both);
    }

    /// The peer's node page, as far as this side sees it.
    pub fn page(&self) -> &PeerPage {
        &self.page
    }

    /// Our byte on the peer's board.
    pub fn note(&self) -> &Note {
        &self.note
    }
}

/// The session's socket, which becomes readable when something has come, or when the peer is gone.
impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.socket.as_fd()
    }
}

/// A segment of ours, to be [handed over](Carrier::send_segment).
pub struct OwnSegment {
    segment: segment::Segment,
}

impl OwnSegment {
    /// Keeps the memory, and nothing else.
    #[must_use]
    pub fn into_region(self) -> Region {
        self.segment.into_region()
    }
}

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Lanes on the heap, between nodes of one process.
    Local,
    /// Lanes in shared memory, between processes of one host.
    Shared,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Local => "local",
            Kind::Shared => "shared",
        })
    }
}

/// Who is at the other end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node's name; a handle has none.
    pub name: Option<NodeName>,
    /// The program that it belongs to, which is ours.
    pub program: ProgramName,
    /// Its process as the kernel names it to us; None for one of another PID namespace.
    pub pid: Option<u32>,
    /// Its incarnation.
    pub incarnation: u64,
    /// Its own number for the session.
    pub session: u64,
}

/// One end of a session's socket.
struct Bell {
    socket: OwnedFd,
}

/// What became of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rang {
    /// It is on its way.
    Rung,
    /// The socket is full: the peer has rings that it has not heard.
    Unheard,
    /// The peer is gone.
    Gone,
}

/// What came over the socket.
#[derive(Debug, Default)]
pub struct Drained {
    /// Rings.
    pub bells: usize,
    /// Segments in which the peer's lane goes on.
    pub segments: Vec<Segment>,
    /// Why the peer gives the session up.
    pub refusal: Option<Refusal>,
    /// The peer has closed, or is gone.
    pub closed: bool,
    /// The bound was reached and there may be more.
    pub more: bool,
}

/// A segment that the peer has handed over, not yet looked at.
#[derive(Debug)]
pub struct Segment {
    /// Which of the peer's segments it is.
    pub generation: u32,
    /// The bytes that it is said to have.
    pub bytes: u32,
    /// Its descriptor.
    pub descriptor: OwnedFd,
}

impl Segment {
    /// Maps it, once its kind, its size and its seals were checked. The descriptor is closed.
    pub fn open(self) -> Result<Region, SegmentError> {
        segment::open(self.descriptor.as_fd(), self.bytes as usize, Writers::Owner)
    }
}

impl Bell {
    fn ring(&self) -> Rang {
        match packet::send(self.socket.as_fd(), &RING, &[]) {
            Ok(()) => Rang::Rung,
            // Out of memory for one byte: the peer's slow sweep has to do.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Rang::Unheard,
            Err(_) => Rang::Gone,
        }
    }

    fn drain(&self) -> Result<Drained, BellFault> {
        let mut buffer: Buffer = [0; _];
        let mut drained = Drained::default();
        for _ in 0..PACKETS_PER_DRAIN_MAX {
            match packet::receive(self.socket.as_fd(), &mut buffer) {
                Ok(Received::Nothing) => return Ok(drained),
                Ok(Received::Closed) => {
                    drained.closed = true;
                    return Ok(drained);
                }
                Ok(Received::Packet { table_full: true, .. }) => {
                    return Err(BellFault::Descriptors { limit: descriptor_limit() });
                }
                Ok(Received::Packet { bytes, descriptors, .. }) => {
                    match parse(&buffer[..bytes], descriptors).map_err(BellFault::Rule)? {
                        Said::Bell => drained.bells += 1,
                        Said::Segment(segment) => drained.segments.push(segment),
                        Said::Refusal(refusal) => drained.refusal = Some(refusal),
                    }
                }
                Err(error) => return Err(BellFault::System { act: "recvmsg", error }),
            }
        }
        drained.more = true;
        Ok(drained)
    }

    fn send_segment(&self, generation: u32, segment: &segment::Segment) -> Result<(), BellFault> {
        let bytes = (segment.region().words() * WORD) as u32;
        let record = Record::Segment(hello::Segment { generation, bytes }).encode();
        let descriptors = [segment.descriptor()];
        packet::send(self.socket.as_fd(), &record, &descriptors).map_err(|error| match error {
            Errno::TOOMANYREFS => BellFault::Descriptors { limit: descriptor_limit() },
            error => BellFault::System { act: "sendmsg", error },
        })
    }
}

/// The contents of a packet of an open session.
enum Said {
    Bell,
    Segment(Segment),
    Refusal(Refusal),
}

/// Reads a packet of an open session: a ring, a segment, or a refusal.
fn parse(packet: &[u8], mut descriptors: Vec<OwnedFd>) -> Result<Said, Rule> {
    let seen = descriptors.len();
    if packet == RING && seen == 0 {
        return Ok(Said::Bell);
    }
    if seen == 0
        && let Ok(Record::Refusal(refusal)) = Record::decode(packet)
    {
        return Ok(Said::Refusal(refusal));
    }
    let mut rest = packet;
    match Signals::new().next(&mut rest)? {
        None => Err(Rule::RecordTruncated { field: "record" }),
        Some(_) if !rest.is_empty() => Err(Rule::RecordTrailing { bytes: rest.len() as u32 }),
        Some(Signal::Bell) if seen != 0 => {
            Err(Rule::Descriptors { seen: seen as u32, expected: 0 })
        }
        Some(Signal::Bell) => Ok(Said::Bell),
        Some(Signal::Segment(hello::Segment { generation, bytes })) => {
            RecordKind::Segment.check_descriptors(seen)?;
            let descriptor = descriptors.pop().ok_or(Rule::Descriptors { seen: 0, expected: 1 })?;
            Ok(Said::Segment(Segment { generation, bytes, descriptor }))
        }
    }
}

/// What is wrong with a session's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BellFault {
    /// The peer broke a rule.
    Rule(Rule),
    /// The process has no descriptor left for a segment.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
}

impl fmt::Display for BellFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BellFault::Rule(rule) => write!(f, "the peer broke a rule: {rule}"),
            BellFault::Descriptors { limit } => descriptors_text(f, *limit),
            BellFault::System { act, error } => {
                write!(f, "{act} on the session's socket failed: {error}")
            }
        }
    }
}

impl std::error::Error for BellFault {}
