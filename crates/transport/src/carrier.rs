//! What carries an open session: lanes that are shared, or a byte stream that mirrors them.
//!
//! A carrier is the same whether the peer is a thread or a process, and whether it shares memory; what is
//! written into its lanes is decided above. Whoever uses a session reads and writes frames in
//! [`Carrier::lanes`], and asks the carrier for all else: to tell the peer, to hear the peer, to hand over a
//! segment, to end. Where memory is shared there are besides the peer's page, a byte on its board, and the
//! bell, one end of the session's socket: a byte wakes a sleeper, a record brings the segment that a lane
//! goes on in, end-of-file says that the peer is gone. Over a stream the lanes are on the heap, and have to
//! be [pumped](Carrier::pump). Invariant: nothing here blocks, whatever the peer has done to the socket,
//! and a segment is mapped only after it was checked.

mod again;
mod clock;
mod silence;

use crate::bell::Bell;
use crate::heard::no_memory;
use crate::host::reaches;
use crate::stream::{Pipe, Stream, Why};
use rustix::io::Errno;
use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use upbeat_core::bill::clock::Clock;
use upbeat_core::hello::{Listening, Refusal, RefusalCode};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_core::quota::Quota;
use upbeat_core::resume::Agreed;
use upbeat_core::stream::{Permission, Wish};
use upbeat_memory::board::Note;
use upbeat_memory::doorbell::announce;
use upbeat_memory::lane::Lanes;
use upbeat_memory::page::{NodePage, PAGE_WORDS, PeerPage};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, SegmentError, Writers};
use upbeat_memory::slab::Tell;
use upbeat_memory::sync::{Fenced, fence_full};

pub use crate::bell::{PACKETS_PER_DRAIN_MAX, Rang};
pub use crate::heard::{BellFault, Drained, OwnSegment, Segment};
pub use crate::stream::Connection;
pub use again::Socket;
pub use clock::NoOffset;

/// One side of an open session.
pub struct Carrier {
    /// Both lanes.
    pub lanes: Lanes,
    /// Who the peer is.
    pub peer: Peer,
    /// What the lanes are made of.
    pub kind: Kind,
    /// The peer's node page. Over a stream, one on which the peer never sleeps.
    page: PeerPage,
    /// The peer's sleep for which it was rung last.
    rung: Cell<u64>,
    way: Way,
    /// Why this side cannot share memory, which it would have.
    unshared: Option<Arc<str>>,
    /// What both sides have agreed upon, where the session outlives its connection.
    agreed: Option<Agreed>,
}

/// How the peer is reached.
enum Way {
    Lanes {
        /// Our byte on the peer's board.
        note: Note,
        /// Our end of the session's socket.
        bell: Arc<Bell>,
    },
    Stream {
        stream: Box<Stream>,
        /// The socket of the handshake, until it is [let go of](Carrier::take_old_socket).
        old: Cell<Option<OwnedFd>>,
    },
}

/// What a [pump](Carrier::pump) has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pumped {
    /// Something has come.
    pub came: bool,
    /// The peer is gone, has given the session up, or has broken a rule: [`Carrier::drain`] says what.
    pub ended: bool,
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
        let way = Way::Lanes { note, bell: Arc::new(Bell::new(socket)) };
        Carrier { lanes, peer, kind, page, rung: Cell::new(0), way, unshared: None, agreed: None }
    }

    /// A session over a byte stream: over a connected stream socket.
    /// The socket of the handshake is closed when nobody polls it any more.
    pub(crate) fn over_stream(
        socket: OwnedFd,
        peer: Peer,
        old: Option<OwnedFd>,
        unshared: Option<Arc<str>>,
    ) -> Carrier {
        Carrier { unshared, ..Carrier::over_pipe(Pipe::Plain(socket), peer, old, Kind::Stream) }
    }

    /// A session with a node of another host, over a connection.
    /// The clock is the peer's, as far as the handshake has told of it; a side that has opened the session tells the
    /// peer of its own at once.
    pub(crate) fn over_network(
        pipe: Pipe,
        peer: Peer,
        agreed: Option<Agreed>,
        clock: Option<(Clock, bool)>,
    ) -> Carrier {
        let kind = if pipe.is_plain() { Kind::Tcp } else { Kind::Tls };
        let carrier = Carrier::over_pipe(pipe, peer, None, kind);
        carrier.set_resumable(agreed.is_some());
        if let (Way::Stream { stream, .. }, Some((clock, opened))) = (&carrier.way, clock) {
            stream.set_clock(clock, opened);
        }
        Carrier { agreed, ..carrier }
    }

    /// What both sides have agreed upon, where the session outlives its connection.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    fn over_pipe(pipe: Pipe, peer: Peer, old: Option<OwnedFd>, kind: Kind) -> Carrier {
        let (stream, lanes) = Stream::new(pipe);
        let page = Region::heap(PAGE_WORDS);
        // Its peer is told by bytes on the socket, and so it never sleeps as far as this side knows.
        let _ = NodePage::new(page.clone(), peer.incarnation);
        let (page, rung) = (PeerPage::new(page), Cell::new(0));
        let way = Way::Stream { stream: Box::new(stream), old: Cell::new(old) };
        Carrier { lanes, peer, kind, page, rung, way, unshared: None, agreed: None }
    }

    /// Tells the peer of what was written, where the peer does not look by itself: notes it on its board,
    /// and rings it if it sleeps, once for each sleep. The fence stands behind the last message.
    /// Returns whether the peer was rung.
    #[inline(always)]
    pub fn flush(&self, fenced: Fenced) -> bool {
        match announce(&self.lanes, &self.page, fenced, || self.notify()) {
            Some(sleep) if sleep != self.rung.get() => self.ring_for(sleep),
            _ => false,
        }
    }

    /// The peer does not look by itself: has its board noted, or everything sent. No peer of a stream ever
    /// says that it looks.
    #[cold]
    #[inline(never)]
    fn notify(&self) {
        match &self.way {
            Way::Lanes { note, .. } => note.mark(),
            Way::Stream { stream, .. } => {
                // Where the peer is gone, the end of the socket says so.
                let _ = stream.push(&self.lanes, Why::Turn);
            }
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
        match &self.way {
            Way::Lanes { bell, .. } => bell.ring(),
            Way::Stream { stream, .. } => match stream.push(&self.lanes, Why::Rest) {
                true if stream.has_ended() => Rang::Gone,
                true if stream.has_output() => Rang::Unheard,
                true => Rang::Rung,
                false => Rang::Gone,
            },
        }
    }

    /// Whether the lanes are a stream's, and have to be [pumped](Carrier::pump).
    #[inline]
    pub fn is_stream(&self) -> bool {
        matches!(self.way, Way::Stream { .. })
    }

    /// Over a stream: sends what is due, and takes in what has come unless the last of it was read just now
    /// and may have an answer, which goes first. Lanes that are shared need none of this.
    pub fn pump(&self) -> Pumped {
        match &self.way {
            Way::Lanes { .. } => Pumped { came: false, ended: false },
            Way::Stream { stream, .. } => {
                let came = stream.pump(&self.lanes);
                Pumped { came, ended: stream.has_ended() }
            }
        }
    }

    /// Whether a pump has just taken in what has come, and it is not the end: then there is no need to
    /// [drain](Carrier::drain) for what the socket has told of.
    pub fn was_pumped(&self) -> bool {
        matches!(&self.way, Way::Stream { stream, .. } if stream.is_fresh() && !stream.has_ended())
    }

    /// Over a stream: what has come was read, and answered as far as it was: the next pump looks for more.
    pub fn was_read(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.was_read(&self.lanes);
        }
    }

    /// No room was found in our lane, or no buffer. Over a stream the peer is asked what room there is: it
    /// does not show that for every frame.
    pub fn found_no_room(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.ask();
        }
    }

    /// Over a stream, before a sleep: sends what a peer might wait for. Then the owner waits until
    /// the descriptor is readable or, if [something is still to be sent](Carrier::has_output), writable.
    pub fn rest(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.rest(&self.lanes);
        }
    }

    /// Over a stream to which nothing has happened for a while: the same, and gives back memory that lies idle.
    pub fn cool(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.cool(&self.lanes);
        }
    }

    /// Whether something waits until the socket takes it.
    pub fn has_output(&self) -> bool {
        matches!(&self.way, Way::Stream { stream, .. } if stream.has_output())
    }

    /// Over a stream: takes in all that has come of a peer that is gone.
    pub fn take_rest(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.take_rest();
        }
    }

    /// Bytes of the longest payload that is read of this session: over a stream, memory is taken for no more.
    pub fn read_at_most(&self, longest: usize) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.read_at_most(longest);
        }
    }

    /// Over a stream: has the memory of replicas whose size the peer chooses charged to a share of a quota.
    pub fn charge_to(&self, quota: &Quota) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.charge_to(quota);
        }
    }

    /// Whether a segment of ours may be handed over. A peer on another host is asked for each, for it is memory
    /// there; the others have it from us.
    pub fn permission(&self, wish: Wish) -> Permission {
        match &self.way {
            Way::Stream { stream, .. } if matches!(self.kind, Kind::Tcp | Kind::Tls) => {
                stream.permission(wish)
            }
            _ => Permission::Granted,
        }
    }

    /// Whether the peer has answered which segments may be handed over, since those who wait for that
    /// [were told](Carrier::was_heard).
    pub fn has_news(&self) -> bool {
        matches!(&self.way, Way::Stream { stream, .. } if stream.has_news())
    }

    /// Those who wait for an answer of the peer's were told.
    pub fn was_heard(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.was_heard();
        }
    }

    /// The socket of the handshake, where the session goes on over another. Whoever polls it takes it out
    /// of the poll and polls the carrier.
    pub fn take_old_socket(&self) -> Option<OwnedFd> {
        match &self.way {
            Way::Lanes { .. } => None,
            Way::Stream { old, .. } => old.take(),
        }
    }

    /// Why this side cannot share memory, where it would have: the session goes over a stream instead.
    pub fn unshared(&self) -> Option<&str> {
        self.unshared.as_deref()
    }

    /// Takes all that has come over the socket, up to [`PACKETS_PER_DRAIN_MAX`] packets. After a fault the
    /// session is to be ended; what else was there is lost with it.
    pub fn drain(&self) -> Result<Drained, BellFault> {
        match &self.way {
            Way::Lanes { bell, .. } => bell.drain(),
            Way::Stream { stream, .. } => stream.drain(),
        }
    }

    /// Says whether this side looks at the peer's lane each turn. Having said no, look once more. Over a
    /// stream nobody needs to know.
    pub fn set_attention(&self, attentive: bool) {
        if let Way::Lanes { .. } = &self.way {
            self.lanes.set_attention(attentive);
        }
    }

    /// Withdraws the promise of `page` and looks for the last time before a sleep: see
    /// [`Lanes::may_sleep`].
    pub fn may_sleep(&self, page: &NodePage, settle: impl FnOnce()) -> bool {
        let may = self.lanes.may_sleep(page, settle);
        self.rest();
        may
    }

    /// Makes a segment of ours in which our lane goes on, or whose buffers are lent to the peer.
    pub fn make_segment(&self, label: &str, bytes: usize) -> Result<OwnSegment, SegmentError> {
        if self.is_stream() {
            let bytes = bytes.next_multiple_of(segment::PAGE);
            return Ok(OwnSegment::Heap(heap(bytes)?));
        }
        let segment = segment::Segment::create(label, bytes, Writers::Owner)?.reserve()?;
        Ok(OwnSegment::Shared(segment))
    }

    /// Hands a segment over. The frame that names it comes after it.
    pub fn send_segment(&self, generation: u32, segment: &OwnSegment) -> Result<(), BellFault> {
        match (&self.way, segment) {
            (Way::Lanes { bell, .. }, OwnSegment::Shared(segment)) => {
                bell.send_segment(generation, segment)
            }
            (Way::Stream { stream, .. }, segment) => {
                stream.send_segment(generation, segment);
                Ok(())
            }
            (Way::Lanes { .. }, OwnSegment::Heap(_)) => {
                let (act, error) = ("handing over a segment of the heap", Errno::INVAL);
                Err(BellFault::System { act, error })
            }
        }
    }

    /// What tells a peer that waits for room of a buffer that goes back outside of what this side's
    /// owner does, on any thread: it is rung if it sleeps. Over a stream the owner is woken, by `wake`, and
    /// sends the word of it.
    #[must_use]
    pub fn relief(&self, wake: impl Fn() + Send + Sync + 'static) -> Tell {
        let (wish, page) = (self.lanes.peer_wish(), self.page.region());
        let Way::Lanes { bell, .. } = &self.way else {
            return Box::new(move || {
                if wish.load(0) != 0 {
                    wake();
                }
            });
        };
        let bell = Arc::downgrade(bell);
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
        let refusal = Refusal::new(code, text);
        match &self.way {
            // A peer that cannot be told sees the end of the socket.
            Way::Lanes { bell, .. } => bell.refuse(refusal),
            Way::Stream { stream, .. } => stream.refuse(refusal),
        }
    }

    /// Ends the session for both sides, whoever else holds the socket.
    pub fn close(&self) {
        match &self.way {
            Way::Lanes { bell, .. } => bell.close(),
            Way::Stream { stream, .. } => stream.close(&self.lanes),
        }
    }

    /// The peer's node page, as far as this side sees it.
    pub fn page(&self) -> &PeerPage {
        &self.page
    }

    /// Our byte on the peer's board, where memory is shared.
    pub fn note(&self) -> Option<&Note> {
        match &self.way {
            Way::Lanes { note, .. } => Some(note),
            Way::Stream { .. } => None,
        }
    }
}

/// A region of the heap in place of a segment.
fn heap(bytes: usize) -> Result<Region, SegmentError> {
    Region::try_heap(bytes / WORD).ok_or(no_memory(bytes))
}

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Lanes on the heap, between nodes of one process.
    Local,
    /// Lanes in shared memory, between processes of one host.
    Shared,
    /// A byte stream over a unix socket, between processes of one host that share no memory.
    Stream,
    /// A byte stream over TCP as it is, between hosts.
    Tcp,
    /// A byte stream under TLS, between hosts.
    Tls,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Local => "local",
            Kind::Shared => "shared",
            Kind::Stream => "stream",
            Kind::Tcp => "tcp",
            Kind::Tls => "tls",
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
    /// Its process as the kernel names it to us; None for one of another PID namespace, or host.
    pub pid: Option<u32>,
    /// Where it is, if it was reached over the network.
    pub at: Option<SocketAddr>,
    /// Where it listens for other hosts, as far as it is on this one and shares memory.
    pub listening: Option<Listening>,
    /// Its incarnation.
    pub incarnation: u64,
    /// Its own number for the session.
    pub session: u64,
}

impl Peer {
    /// Whether a connection to an address of this host would reach this node, with which we share memory.
    pub fn is_reached_at(&self, at: SocketAddr) -> bool {
        reaches(at, self.listening)
    }
}
