//! A session whose one side the test writes by hand: its lane, its node page, the peer's board,
//! the socket.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::frame::{Head, Kind};
use upbeat_core::hello::{Hello, Passed, Record, Segments, VERSION_MAX};
use upbeat_core::limits::{BOARD_BYTES, SLAB_GENERATION};
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::lane::{LANE_BYTES, Lanes};
use upbeat_memory::region::Region;
use upbeat_memory::segment::{self, PAGE, Segment, Writers};
use upbeat_transport::socket_directory::SocketDirectory;

/// The session.
pub(crate) struct Raw {
    pub(crate) socket: OwnedFd,
    /// Our lane, all of it.
    pub(crate) lane: Region,
    /// Our node page.
    pub(crate) page: Region,
    /// The peer's board.
    pub(crate) board: Region,
    /// The lanes of the session, for frames in their right places.
    pub(crate) lanes: Lanes,
    /// Segments in which the peer's lane goes on, by their generations.
    grown: RefCell<BTreeMap<u32, Region>>,
}

const POLLING_FLAG: usize = 8;

impl Raw {
    /// Connects as an honest caller does. None if the peer is busy or full.
    pub(crate) fn connect(place: &SocketDirectory, to: &str) -> Option<Raw> {
        let program = ProgramId::named(crate::common::PROGRAM.parse().unwrap());
        let wanted: NodeName = to.parse().unwrap();
        let path = place.socket_path(program.name(), &wanted);
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok()?;
        let (version_min, version_max) = (VERSION_MAX, VERSION_MAX);
        let (caller, incarnation, pid) = (None, 77, 1);
        let memory = true;
        let hello =
            Hello { version_min, version_max, program, caller, wanted, incarnation, pid, memory };
        send(&socket, &Record::Hello(hello).encode(), &[]).ok()?;
        let (Some(Record::Welcome(_)), _) = receive(&socket, WAITING).ok()?? else { return None };
        let (Some(Record::Segments(theirs)), descriptors) = receive(&socket, WAITING).ok()?? else {
            return None;
        };
        let open = |what: Passed, bytes, writers| {
            segment::open(descriptors[what as usize].as_fd(), bytes, writers).unwrap()
        };
        let their_lane = open(Passed::Lane, LANE_BYTES, Writers::Owner);
        let board = open(Passed::Board, BOARD_BYTES, Writers::Everybody);
        let make = |bytes, writers| {
            Segment::create("hostile", bytes, writers).and_then(Segment::reserve).unwrap()
        };
        let lane = make(LANE_BYTES, Writers::Owner);
        let page = make(PAGE, Writers::Owner);
        let own_board = make(BOARD_BYTES, Writers::Everybody);
        page.region().store(0, incarnation);
        page.region().store(1, 1);
        page.region().store(POLLING_FLAG, 1);
        let ours =
            Segments { lane_bytes: LANE_BYTES as u32, board_slot: 0, session: 0, listening: None };
        let passed = [lane.descriptor(), page.descriptor(), own_board.descriptor()];
        send(&socket, &Record::Segments(ours).encode(), &passed).ok()?;
        let (Some(Record::Ready), _) = receive(&socket, WAITING).ok()?? else { return None };
        let (lane, page) = (lane.into_region(), page.into_region());
        let lanes = Lanes::new(lane.clone(), 0, their_lane, theirs.session);
        Some(Raw { socket, lane, page, board, lanes, grown: RefCell::default() })
    }

    /// Whether the peer has ended the session. Keeps the segments that it hands over for its lane.
    pub(crate) fn is_over(&self) -> bool {
        for _ in 0..64 {
            match receive(&self.socket, RecvFlags::DONTWAIT) {
                Ok(Some((Some(Record::Segment(segment)), descriptors)))
                    if segment.generation < SLAB_GENERATION =>
                {
                    let (fd, bytes) = (descriptors[0].as_fd(), segment.bytes as usize);
                    let region = segment::open(fd, bytes, Writers::Owner).unwrap();
                    self.grown.borrow_mut().insert(segment.generation, region);
                }
                Ok(Some(_)) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Ok(None) | Err(_) => return true,
            }
        }
        false
    }

    /// Passes the frame that lies open, and goes on in the next segment if it says so. False if that
    /// has gone with the session.
    pub(crate) fn advance(&self, head: &Head) -> bool {
        self.lanes.reader().advance();
        if head.kind != Kind::Switch {
            return true;
        }
        loop {
            // The segment was handed over before the frame was written.
            let is_over = self.is_over();
            if let Some(region) = self.grown.borrow_mut().remove(&head.call.generation()) {
                self.lanes.grow_reader(region);
                return true;
            }
            if is_over {
                return false;
            }
        }
    }

    /// Passes what the peer has written, unread.
    pub(crate) fn pass(&self) {
        while let Ok(Some(words)) = self.lanes.look() {
            if !self.advance(&Head::parse(words).unwrap()) {
                break;
            }
        }
        self.lanes.publish_progress();
    }

    /// Rings the peer.
    pub(crate) fn ring(&self) -> bool {
        send(&self.socket, &[0], &[]).is_ok()
    }
}

/// Sends a packet; never waits.
pub(crate) fn send(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// Waits for a packet.
const WAITING: RecvFlags = RecvFlags::empty();

/// The next record, if it is one, and its descriptors; None at the end.
fn receive(
    socket: &OwnedFd,
    flags: RecvFlags,
) -> rustix::io::Result<Option<(Option<Record>, Vec<OwnedFd>)>> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(socket, &mut parts, &mut control, flags)?;
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    Ok(match message.bytes {
        0 => None,
        length => Some((Record::decode(&bytes[..length]).ok(), descriptors)),
    })
}
