//! The bell of a session whose lanes are shared: one end of its socket.
//!
//! A byte wakes the peer, a record hands over a segment or says why the session is given up. Invariant: no
//! call waits, and every packet is checked against the rules of an open session.

use crate::error::descriptor_limit;
use crate::heard::{BellFault, Drained, Memory, Segment};
use crate::packet::{self, Buffer, Received};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{self, Record, RecordKind, Refusal};
use upbeat_core::signal::{BELL, Signal, Signals};
use upbeat_memory::region::WORD;
use upbeat_memory::segment;

/// Packets that one [`Carrier::drain`](crate::carrier::Carrier::drain) takes: more than an honest peer's socket
/// ever holds, so that only a peer that keeps sending meanwhile comes to it.
pub const PACKETS_PER_DRAIN_MAX: usize = 1024;

/// The whole of a bell's packet.
pub(crate) const RING: [u8; 1] = [BELL];

/// One end of a session's socket.
pub(crate) struct Bell {
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

impl Bell {
    pub(crate) fn new(socket: OwnedFd) -> Bell {
        Bell { socket }
    }

    /// Wakes the peer.
    pub(crate) fn ring(&self) -> Rang {
        match packet::send(self.socket.as_fd(), &RING, &[]) {
            Ok(()) => Rang::Rung,
            // Out of memory for one byte: the peer's slow sweep has to do.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Rang::Unheard,
            Err(_) => Rang::Gone,
        }
    }

    /// Takes all that has come, up to [`PACKETS_PER_DRAIN_MAX`] packets.
    pub(crate) fn drain(&self) -> Result<Drained, BellFault> {
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

    /// Hands a segment over.
    pub(crate) fn send_segment(
        &self,
        generation: u32,
        segment: &segment::Segment,
    ) -> Result<(), BellFault> {
        let bytes = (segment.region().words() * WORD) as u32;
        let record = Record::Segment(hello::Segment { generation, bytes }).encode();
        let descriptors = [segment.descriptor()];
        packet::send(self.socket.as_fd(), &record, &descriptors).map_err(|error| match error {
            Errno::TOOMANYREFS => BellFault::Descriptors { limit: descriptor_limit() },
            error => BellFault::System { act: "sendmsg", error },
        })
    }

    /// Tells the peer why the session is given up, if the socket takes it.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        let record = Record::Refusal(refusal).encode();
        let _ = packet::send(self.socket.as_fd(), &record, &[]);
    }

    /// Ends the session for both sides, whoever else holds the socket.
    pub(crate) fn close(&self) {
        // A socket that is not connected any more is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
            let memory = Memory::Descriptor(descriptor);
            Ok(Said::Segment(Segment { generation, bytes, memory }))
        }
    }
}
