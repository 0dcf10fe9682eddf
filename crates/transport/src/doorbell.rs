//! The doorbell of a session whose lanes are in shared memory: one end of the session's socket.
//!
//! A packet of one byte wakes the peer; a record hands over a segment or says why the peer ends the session.
//! Invariant: no call blocks, and every packet is checked against the rules of an open session.

use crate::error::descriptor_limit;
use crate::events::{Memory, Segment, SocketError, SocketEvents};
use crate::packet::{self, Buffer, Received};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{self, Record, RecordKind, Refusal};
use upbeat_core::signal::{BELL, Signal, Signals};
use upbeat_environment::turns::settle;
use upbeat_memory::segment;

/// The most packets that one [`Carrier::drain`](crate::carrier::Carrier::drain) takes. An honest peer's socket never
/// holds as many: only a peer that keeps sending during the call reaches this limit.
pub const PACKETS_PER_DRAIN_MAX: usize = 1024;

/// The most segments that one drain takes.
const SEGMENTS_PER_DRAIN_MAX: usize = 64;

/// The bytes of the packet that wakes the peer.
pub(crate) const WAKE_UP: [u8; 1] = [BELL];

/// One end of a session's socket.
pub(crate) struct Doorbell {
    socket: OwnedFd,
}

/// The result of waking the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeResult {
    /// The packet was sent.
    Sent,
    /// The socket is full: the peer has not yet taken earlier packets, which wake it as well.
    Full,
    /// The peer is gone.
    Gone,
}

impl Doorbell {
    pub(crate) fn new(socket: OwnedFd) -> Doorbell {
        Doorbell { socket }
    }

    /// Wakes the peer.
    pub(crate) fn ring(&self) -> WakeResult {
        match packet::send(self.socket.as_fd(), &WAKE_UP, &[]) {
            Ok(()) => WakeResult::Sent,
            // The system has no memory for one byte: the peer's next periodic check finds the message.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => WakeResult::Full,
            Err(_) => WakeResult::Gone,
        }
    }

    /// Takes all packets that have come, up to [`PACKETS_PER_DRAIN_MAX`].
    pub(crate) fn drain(&self) -> Result<SocketEvents, SocketError> {
        let mut buffer: Buffer = [0; _];
        let mut drained = SocketEvents::default();
        for _ in 0..PACKETS_PER_DRAIN_MAX {
            match packet::receive(self.socket.as_fd(), &mut buffer) {
                Ok(Received::Nothing) => return Ok(drained),
                Ok(Received::Closed) => {
                    drained.closed = true;
                    return Ok(drained);
                }
                Ok(Received::Packet { table_full: true, .. }) => {
                    return Err(SocketError::Descriptors { limit: descriptor_limit() });
                }
                Ok(Received::Packet { bytes, descriptors, .. }) => {
                    match parse(&buffer[..bytes], descriptors).map_err(SocketError::Rule)? {
                        Event::Bell => drained.bells += 1,
                        Event::Segment(segment) => {
                            drained.segments.push(segment);
                            // Each holds a descriptor of this process.
                            if drained.segments.len() == SEGMENTS_PER_DRAIN_MAX {
                                break;
                            }
                        }
                        Event::Refusal(refusal) => drained.refusal = Some(refusal),
                    }
                }
                Err(error) => return Err(SocketError::System { act: "recvmsg", error }),
            }
        }
        drained.more = true;
        Ok(drained)
    }

    /// Hands a segment over to the peer.
    pub(crate) fn send_segment(
        &self,
        announced: hello::Segment,
        segment: &segment::Segment,
    ) -> Result<(), SocketError> {
        let record = Record::Segment(announced).encode();
        let descriptors = [segment.descriptor()];
        packet::send(self.socket.as_fd(), &record, &descriptors).map_err(|error| match error {
            Errno::TOOMANYREFS => SocketError::Descriptors { limit: descriptor_limit() },
            error => SocketError::System { act: "sendmsg", error },
        })
    }

    /// Tells the peer why this side ends the session, if the socket takes the record.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        let record = Record::Refusal(refusal).encode();
        let _ = packet::send(self.socket.as_fd(), &record, &[]);
    }

    /// Ends the session for both sides, even if another process holds the socket too.
    pub(crate) fn close(&self) {
        settle();
        // An error means that the socket is no longer connected, so it is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The contents of a packet of an open session.
enum Event {
    Bell,
    Segment(Segment),
    Refusal(Refusal),
}

/// Reads a packet of an open session: a wake-up, a segment, or a refusal.
fn parse(packet: &[u8], mut descriptors: Vec<OwnedFd>) -> Result<Event, Rule> {
    let seen = descriptors.len();
    if packet == WAKE_UP && seen == 0 {
        return Ok(Event::Bell);
    }
    if seen == 0
        && let Ok(Record::Refusal(refusal)) = Record::decode(packet)
    {
        return Ok(Event::Refusal(refusal));
    }
    let mut rest = packet;
    match Signals::new().next(&mut rest)? {
        None => Err(Rule::RecordTruncated { field: "record" }),
        Some(_) if !rest.is_empty() => Err(Rule::RecordTrailing { bytes: rest.len() as u32 }),
        Some(Signal::Bell) if seen != 0 => {
            Err(Rule::Descriptors { seen: seen as u32, expected: 0 })
        }
        Some(Signal::Bell) => Ok(Event::Bell),
        Some(Signal::Segment(hello::Segment { generation, bytes })) => {
            RecordKind::Segment.check_descriptors(seen)?;
            let descriptor = descriptors.pop().ok_or(Rule::Descriptors { seen: 0, expected: 1 })?;
            let memory = Memory::Descriptor(descriptor);
            Ok(Event::Segment(Segment { generation, bytes, memory }))
        }
    }
}
