//! The carrier of an open session: lanes in shared memory, or a byte stream that mirrors lanes.
//!
//! A carrier has one interface, whether the peer is a thread or a process, and whether it shares memory. The owner of
//! a session reads the frames of a [`FrameReader`], writes those of a [`FrameWriter`], and asks the carrier for everything
//! else: to wake the peer, to take what its socket tells, to hand over a segment, to end the session. With shared memory
//! a carrier also has the peer's page, a byte on its board, and the doorbell, which is one end of the session's socket: a
//! byte wakes a sleeper, a record brings the segment in which a lane continues, and end-of-file means that the peer is
//! gone. The lanes of a stream are on the heap, and the owner has to [pump](Carrier::pump) them. Invariant: no call
//! blocks, whatever the peer does to the socket, and a segment is mapped only after it was checked.

mod again;
mod caps;
mod clock;
mod frames;
mod peer_check;

use crate::doorbell::Doorbell;
use crate::events::no_memory;
use crate::host::reaches;
use crate::stream::{Pipe, PushReason, Stream};
use rustix::io::Errno;
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use upbeat_core::bill::clock::Clock;
use upbeat_core::hello::{self, Listening, Refusal, RefusalCode};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_core::quota::Quota;
use upbeat_core::resume::Agreed;
use upbeat_core::stream::{Permission, SegmentRequest};
use upbeat_memory::board::Note;
use upbeat_memory::doorbell::announce;
use upbeat_memory::lane::Lanes;
use upbeat_memory::page::{NodePage, PAGE_WORDS, PeerPage};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, SegmentError, Writers};
use upbeat_memory::slab::ReturnCallback;
use upbeat_memory::sync::{FenceProof, fence_full};

pub use crate::doorbell::{PACKETS_PER_DRAIN_MAX, WakeResult};
pub use crate::events::{Leaving, OwnSegment, Segment, SocketError, SocketEvents};
pub use crate::stream::Connection;
pub use again::Socket;
pub use caps::{Caps, Kind, Reach};
pub use clock::NoOffset;
pub use frames::{FrameReader, FrameWriter};
pub use upbeat_memory::ring::{Claim, Payload, Refused};

/// One side of an open session.
pub struct Carrier {
    lanes: Lanes,
    /// The identity of the peer.
    pub peer: Peer,
    /// The kind of carrier.
    pub kind: Kind,
    /// The peer's node page. A stream has a page of its own, on which the peer never sleeps.
    page: PeerPage,
    /// The number of the peer's sleep from which it was last woken.
    rung: Cell<u64>,
    medium: Medium,
    /// The reason why this side cannot share memory, if it would have shared it.
    unshared: Option<Arc<str>>,
    /// The terms that both sides agreed on, if the session outlives its connection.
    agreed: Option<Agreed>,
}

/// The means of reaching the peer.
enum Medium {
    Lanes {
        /// Our byte on the peer's board.
        note: Note,
        /// Our end of the session's socket.
        bell: Arc<Doorbell>,
    },
    Stream {
        stream: Box<Stream>,
        /// The socket of the handshake, until [`Carrier::take_old_socket`] takes it.
        old: Cell<Option<OwnedFd>>,
    },
}

/// The result of a [pump](Carrier::pump).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pumped {
    /// Data has come.
    pub came: bool,
    /// The peer is gone, has ended the session, or has broken a rule: [`Carrier::drain`] tells which.
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
        let medium = Medium::Lanes { note, bell: Arc::new(Doorbell::new(socket)) };
        Carrier {
            lanes,
            peer,
            kind,
            page,
            rung: Cell::new(0),
            medium,
            unshared: None,
            agreed: None,
        }
    }

    /// Returns the carrier of a session over a connected stream socket. The socket of the handshake is closed once it
    /// is no longer polled.
    pub(crate) fn over_stream(
        socket: OwnedFd,
        peer: Peer,
        old: Option<OwnedFd>,
        unshared: Option<Arc<str>>,
    ) -> Carrier {
        Carrier { unshared, ..Carrier::over_pipe(Pipe::Plain(socket), peer, old, Kind::Stream) }
    }

    /// Returns the carrier of a session with a node of another host. `clock` holds what the handshake has told of the
    /// peer's clock, and whether this side opened the session: then it tells the peer of its own clock at once.
    pub(crate) fn over_network(
        pipe: Pipe,
        peer: Peer,
        agreed: Option<Agreed>,
        clock: Option<(Clock, bool)>,
    ) -> Carrier {
        let kind = if pipe.is_plain() { Kind::Tcp } else { Kind::Tls };
        let carrier = Carrier::over_pipe(pipe, peer, None, kind);
        carrier.set_resumable(agreed.is_some());
        if let (Medium::Stream { stream, .. }, Some((clock, opened))) = (&carrier.medium, clock) {
            stream.set_clock(clock, opened);
        }
        Carrier { agreed, ..carrier }
    }

    /// Returns the terms that both sides agreed on, if the session outlives its connection.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    fn over_pipe(pipe: Pipe, peer: Peer, old: Option<OwnedFd>, kind: Kind) -> Carrier {
        let (stream, lanes) = Stream::new(pipe);
        let page = Region::heap(PAGE_WORDS);
        // A stream wakes its peer by bytes on the socket, so this page always says that the peer is awake.
        let _ = NodePage::new(page.clone(), peer.incarnation);
        let (page, rung) = (PeerPage::new(page), Cell::new(0));
        let medium = Medium::Stream { stream: Box::new(stream), old: Cell::new(old) };
        Carrier { lanes, peer, kind, page, rung, medium, unshared: None, agreed: None }
    }

    /// Tells the peer of new messages if it does not poll: marks its board, and wakes it if it sleeps, once for each
    /// sleep. `fenced` proves a fence after the last message. Returns whether the peer was woken.
    #[inline(always)]
    pub fn flush(&self, fenced: FenceProof) -> bool {
        match announce(&self.lanes, &self.page, fenced, || self.notify()) {
            Some(sleep) if sleep != self.rung.get() => self.ring_for(sleep),
            _ => false,
        }
    }

    /// Tells a peer that does not poll: marks its board, or sends everything over the stream. A peer of a stream
    /// never sets its polling flag.
    #[cold]
    #[inline(never)]
    fn notify(&self) {
        match &self.medium {
            Medium::Lanes { note, .. } => note.mark(),
            Medium::Stream { stream, .. } => {
                // If the peer is gone, the end of the socket says so.
                let _ = stream.push(&self.lanes, PushReason::Turn);
            }
        }
    }

    #[cold]
    fn ring_for(&self, sleep: u64) -> bool {
        self.rung.set(sleep);
        // If the peer is gone, end-of-file says so. If its socket is full, it has wake-ups that it has not yet taken.
        matches!(self.ring(), WakeResult::Sent)
    }

    /// Returns whether the peer sleeps and was not yet woken. Without a fence the answer may be an outdated no.
    #[inline(always)]
    pub fn must_ring(&self) -> bool {
        self.page.asleep_unfenced().is_some_and(|sleep| sleep != self.rung.get())
    }

    /// Wakes the peer. Never blocks.
    pub fn ring(&self) -> WakeResult {
        match &self.medium {
            Medium::Lanes { bell, .. } => bell.ring(),
            Medium::Stream { stream, .. } => match stream.push(&self.lanes, PushReason::Rest) {
                true if stream.has_ended() => WakeResult::Gone,
                true if stream.has_output() => WakeResult::Full,
                true => WakeResult::Sent,
                false => WakeResult::Gone,
            },
        }
    }

    /// Sends what is due over a stream, and receives what has come. Data is not received directly after the last of
    /// it was read, because replies to it are sent first. Lanes in shared memory need no pumping.
    pub fn pump(&self) -> Pumped {
        match &self.medium {
            Medium::Lanes { .. } => Pumped { came: false, ended: false },
            Medium::Stream { stream, .. } => {
                let came = stream.pump(&self.lanes);
                Pumped { came, ended: stream.has_ended() }
            }
        }
    }

    /// Returns whether the last pump has received all data of a stream that has not ended. Then the socket's
    /// readiness needs no [drain](Carrier::drain).
    pub fn was_pumped(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.is_fresh() && !stream.has_ended())
    }

    /// Notes that the received data of a stream was read, and replied to as far as possible: the next pump receives
    /// more.
    pub fn was_read(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.was_read(&self.lanes);
        }
    }

    /// Notes that our lane had no room, or no buffer. Over a stream the peer is asked for its room, which it does not
    /// report for every frame.
    pub fn found_no_room(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.ask();
        }
    }

    /// Sends what a peer of a stream might wait for, before this side sleeps. The owner then waits until the
    /// descriptor is readable or, if [output is left](Carrier::has_output), writable.
    pub fn rest(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.rest(&self.lanes);
        }
    }

    /// Does what [`Carrier::rest`] does for a stream that has been idle for a while, and frees its idle memory.
    pub fn cool(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.cool(&self.lanes);
        }
    }

    /// Frees the buffers of a stream that are empty.
    pub fn free_buffers(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.free_buffers();
        }
    }

    /// Returns whether a stream has received something of which no socket tells any more: the next pump takes it.
    pub fn has_input(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.has_input())
    }

    /// Returns whether output waits until the socket takes it.
    pub fn has_output(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.has_output())
    }

    /// Receives all that is left from the stream of a peer that is gone.
    pub fn take_rest(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.take_rest();
        }
    }

    /// Limits the payloads of this session that will be read. A stream allocates no memory for longer ones.
    pub fn read_at_most(&self, longest: usize) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.read_at_most(longest);
        }
    }

    /// Charges the memory of a stream's replicas whose size the peer chooses to a share of a quota.
    pub fn charge_to(&self, quota: &Quota) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.charge_to(quota);
        }
    }

    /// Returns whether a segment of ours may be handed over. A peer on another host is asked for each one, because
    /// the segment takes memory there; other peers share our memory.
    pub fn permission(&self, wish: SegmentRequest) -> Permission {
        match &self.medium {
            Medium::Stream { stream, .. } if self.peer.at.is_some() => stream.permission(wish),
            _ => Permission::Granted,
        }
    }

    /// Returns whether the peer has said which segments may be handed over, since the last
    /// [`was_heard`](Carrier::was_heard).
    pub fn has_news(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.has_news())
    }

    /// Returns whether a message of this side that waits for an answer about segments has to try again, since the last
    /// call. No answer of the peer follows: the owner lets it try before it sleeps.
    #[must_use]
    pub fn was_put_off(&self) -> bool {
        matches!(&self.medium, Medium::Stream { stream, .. } if stream.was_put_off())
    }

    /// Notes that everyone who waits for an answer about segments was told.
    pub fn was_heard(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.was_heard();
        }
    }

    /// Takes the socket of the handshake, if the session continues over another. The owner removes it from its poll
    /// and polls the carrier.
    pub fn take_old_socket(&self) -> Option<OwnedFd> {
        match &self.medium {
            Medium::Lanes { .. } => None,
            Medium::Stream { old, .. } => old.take(),
        }
    }

    /// Returns why this side cannot share memory, if it would have shared it: the session uses a stream instead.
    pub fn unshared(&self) -> Option<&str> {
        self.unshared.as_deref()
    }

    /// Takes all events that have come over the socket, up to [`PACKETS_PER_DRAIN_MAX`] packets. After an error the
    /// owner ends the session; the other events of the call are lost.
    pub fn drain(&self) -> Result<SocketEvents, SocketError> {
        match &self.medium {
            Medium::Lanes { bell, .. } => bell.drain(),
            Medium::Stream { stream, .. } => stream.drain(),
        }
    }

    /// Says whether this side polls the peer's lane in each turn. After saying no, the owner polls once more. Over a
    /// stream this does nothing.
    pub fn set_attention(&self, attentive: bool) {
        if let Medium::Lanes { .. } = &self.medium {
            self.lanes.set_attention(attentive);
        }
    }

    /// Withdraws the polling flag of `page` and looks for messages for the last time before a sleep: see
    /// [`Lanes::may_sleep`].
    pub fn may_sleep(&self, page: &NodePage, settle: impl FnOnce()) -> bool {
        let may = self.lanes.may_sleep(page, settle);
        self.rest();
        may
    }

    /// Makes a segment of ours, in which our lane continues or whose buffers are lent to the peer.
    pub fn make_segment(&self, label: &str, bytes: usize) -> Result<OwnSegment, SegmentError> {
        if self.caps().is_pumped {
            let bytes = bytes.next_multiple_of(segment::PAGE);
            return Ok(OwnSegment::Heap(heap(bytes)?));
        }
        let segment = segment::Segment::create(label, bytes, Writers::Owner)?.reserve()?;
        Ok(OwnSegment::Shared(segment))
    }

    /// Hands a segment over to the peer. The frame that names the segment follows.
    pub fn send_segment(&self, generation: u32, segment: &OwnSegment) -> Result<(), SocketError> {
        let bytes = segment.region().words() as u64 * WORD as u64;
        let announced = hello::Segment::checked(generation, bytes).map_err(|_| {
            let (act, error) = ("handing over a segment of this length", Errno::FBIG);
            SocketError::System { act, error }
        })?;
        match (&self.medium, segment) {
            (Medium::Lanes { bell, .. }, OwnSegment::Shared(segment)) => {
                bell.send_segment(announced, segment)
            }
            (Medium::Stream { stream, .. }, segment) => {
                stream.send_segment(announced, segment);
                Ok(())
            }
            (Medium::Lanes { .. }, OwnSegment::Heap(_)) => {
                let (act, error) = ("handing over a segment on the heap", Errno::INVAL);
                Err(SocketError::System { act, error })
            }
        }
    }

    /// Returns the function that tells a peer waiting for room that a buffer was given back on another thread. With
    /// shared memory it wakes a sleeping peer. Over a stream it calls `wake`, and the owner then sends the news.
    #[must_use]
    pub fn relief(&self, wake: impl Fn() + Send + Sync + 'static) -> ReturnCallback {
        let (wish, page) = (self.lanes.peer_room_request(), self.page.region());
        let Medium::Lanes { bell, .. } = &self.medium else {
            return Box::new(move || {
                // The owner shows the wish, and then looks at what was given back, with a fence between them.
                if wish.is_set(fence_full()) {
                    wake();
                }
            });
        };
        let bell = Arc::downgrade(bell);
        Box::new(move || {
            let fenced = fence_full();
            if wish.is_set(fenced)
                && PeerPage::new(page.clone()).asleep(fenced).is_some()
                && let Some(bell) = bell.upgrade()
            {
                bell.ring();
            }
        })
    }

    /// Tells the peer why this side ends the session, if the socket takes it. The owner then closes the carrier.
    pub fn refuse(&self, code: RefusalCode, text: &str) {
        let refusal = Refusal::new(code, text);
        match &self.medium {
            // A peer that cannot be told sees the end of the socket.
            Medium::Lanes { bell, .. } => bell.refuse(refusal),
            Medium::Stream { stream, .. } => stream.refuse(refusal),
        }
    }

    /// Ends the session for both sides, even if another process holds the socket too.
    pub fn close(&self) {
        match &self.medium {
            Medium::Lanes { bell, .. } => bell.close(),
            Medium::Stream { stream, .. } => stream.close(&self.lanes),
        }
    }

    /// Returns the peer's node page, as this side sees it.
    pub fn page(&self) -> &PeerPage {
        &self.page
    }

    /// Returns our byte on the peer's board, if memory is shared.
    pub fn note(&self) -> Option<&Note> {
        match &self.medium {
            Medium::Lanes { note, .. } => Some(note),
            Medium::Stream { .. } => None,
        }
    }
}

/// Allocates a region of the heap in place of a segment.
fn heap(bytes: usize) -> Result<Region, SegmentError> {
    Region::try_heap(bytes / WORD).ok_or(no_memory(bytes))
}

/// The identity of the node or handle at the other end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node's name; a handle has none.
    pub name: Option<NodeName>,
    /// The program of the node, which is ours.
    pub program: ProgramName,
    /// The process ID as this process sees it; None for another PID namespace or host.
    pub pid: Option<u32>,
    /// The address, if the peer was reached over the network.
    pub at: Option<SocketAddr>,
    /// The address at which the peer listens for other hosts, if it is on this host and shares memory.
    pub listening: Option<Listening>,
    /// The incarnation of the node.
    pub incarnation: u64,
    /// The peer's own number for the session.
    pub session: u64,
}

impl Peer {
    /// Returns whether a connection to an address of this host would reach this node, which shares memory with us.
    pub fn is_reached_at(&self, at: SocketAddr) -> bool {
        reaches(at, self.listening)
    }
}
