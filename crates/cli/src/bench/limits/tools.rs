//! A limit, and the memory and sockets with which limits are measured.

use crate::bench::control::{Control, Offer};
use crate::bench::error::BenchError;
use crate::bench::ground::{self, Ground};
use crate::bench::pin::Cpus;
use crate::bench::rounds::{Floor, Rate};
use crate::bench::timing::{Round, Shape, Work};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use upbeat_memory::region::Region;
use upbeat_memory::ring::{Reader, Writer};
use upbeat_memory::segment::{Segment, Writers};

/// The first process's side of a round.
pub(super) type Client = fn(&mut Tools, &mut Ground, Work) -> Result<Round, BenchError>;
/// The second process's side of a round.
pub(super) type Answer = fn(&mut Tools, &mut Ground, Work) -> Result<(), BenchError>;

/// A cost of this machine.
pub(super) struct Limit {
    /// The path of the case.
    pub(super) case: &'static str,
    /// A description in one line.
    pub(super) about: &'static str,
    /// How the operation is timed.
    pub(super) shape: Shape,
    /// The floor that the cost is compared with.
    pub(super) floor: Floor,
    /// The throughput that is reported.
    pub(super) rate: Rate,
    /// The first process's side.
    pub(super) client: Client,
    /// The second process's side, if there is one.
    pub(super) server: Option<Answer>,
}

impl Limit {
    /// Returns the limit of a round trip between both processes.
    pub(super) const fn round_trip(
        case: &'static str,
        about: &'static str,
        client: Client,
        server: Answer,
    ) -> Limit {
        let (shape, floor, rate) = (Shape::Each, Floor::Lines, Rate::Nothing);
        Limit { case, about, shape, floor, rate, client, server: Some(server) }
    }

    /// Returns the limit of an operation of one process.
    pub(super) const fn alone(case: &'static str, about: &'static str, client: Client) -> Limit {
        let (shape, floor, rate) = (Shape::Each, Floor::Nothing, Rate::Nothing);
        Limit { case, about, shape, floor, rate, client, server: None }
    }
}

/// The size of the segment for large messages.
pub(super) const BULK_BYTES: usize = 4 << 20;
/// The size of the segment with the ring of small messages.
const RING_BYTES: usize = 64 << 10;

const BULK: &str = "upbeat-bench-bulk";
const RING: &str = "upbeat-bench-ring";

/// An end of the ring.
pub(super) enum RingEnd {
    /// The first process's end.
    Writer(Writer),
    /// The second process's end.
    Reader(Reader),
}

/// The resources of a process beside the shared ground.
pub(super) struct Tools {
    /// The CPUs of both processes, which only the first process knows.
    pub(super) cpus: Option<Cpus>,
    /// The segment of large messages, written by the first process.
    pub(super) bulk: Region,
    /// The ring of small messages, written by the first process.
    pub(super) ring: RingEnd,
    /// A stream socket of the unix domain.
    pub(super) stream: OwnedFd,
    /// A packet socket of the unix domain.
    pub(super) packets: OwnedFd,
    /// A TCP connection over the loopback interface.
    pub(super) tcp: OwnedFd,
    /// A non-blocking eventfd to which the other side writes to notify this one.
    pub(super) own_flag: OwnedFd,
    /// The eventfd to which this side writes.
    pub(super) peer_flag: OwnedFd,
    /// Private bytes to copy from.
    pub(super) from: Vec<u8>,
    /// Private bytes to copy to.
    pub(super) to: Vec<u8>,
}

impl Tools {
    /// Creates the tools, and sends the second process its ends.
    pub(super) fn make(control: &Control, cpus: Cpus) -> Result<Tools, BenchError> {
        let segment = |label, bytes| {
            Segment::create(label, bytes, Writers::Owner)
                .and_then(Segment::reserve)
                .map_err(BenchError::segment(label))
        };
        let (bulk, ring) = (segment(BULK, BULK_BYTES)?, segment(RING, RING_BYTES)?);
        let unix = |kind| {
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
                .map_err(BenchError::system("socketpair"))
        };
        let (stream, peer_stream) = unix(SocketType::STREAM)?;
        let (packets, peer_packets) = unix(SocketType::SEQPACKET)?;
        let (tcp, peer_tcp) = loopback().map_err(|error| BenchError::System {
            act: "a TCP connection over the loopback interface",
            error: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
        })?;
        let flag = || {
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(BenchError::system("eventfd"))
        };
        let (own_flag, peer_flag) = (flag()?, flag()?);
        let descriptors = [
            bulk.descriptor(),
            ring.descriptor(),
            peer_stream.as_fd(),
            peer_packets.as_fd(),
            peer_tcp.as_fd(),
            peer_flag.as_fd(),
            own_flag.as_fd(),
        ];
        control.send_with(&Offer { segments: vec![BULK_BYTES, RING_BYTES] }, &descriptors)?;
        let (from, to) = (vec![7; 1 << 20], vec![0; 1 << 20]);
        let ring = RingEnd::Writer(Writer::new(ring.into_region(), 0));
        let (bulk, cpus) = (bulk.into_region(), Some(cpus));
        Ok(Tools { cpus, bulk, ring, stream, packets, tcp, own_flag, peer_flag, from, to })
    }

    /// Receives the second process's ends.
    pub(super) fn join(control: &Control) -> Result<Tools, BenchError> {
        let [bulk, ring, stream, packets, tcp, own_flag, peer_flag] = ground::receive(control)?;
        let bulk = ground::open(BULK, bulk.as_fd(), BULK_BYTES)?;
        let ring = RingEnd::Reader(Reader::new(ground::open(RING, ring.as_fd(), RING_BYTES)?, 0));
        let (from, to) = (Vec::new(), vec![0; 1 << 20]);
        Ok(Tools { cpus: None, bulk, ring, stream, packets, tcp, own_flag, peer_flag, from, to })
    }
}

/// Creates both ends of a TCP connection that sends without delay.
fn loopback() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one.into(), other.into()))
}
