//! The records of the handshake, exchanged on the unix socket before the lanes are up.
//!
//! ```text
//! caller                          listener
//! Hello             ->
//!                   <-            Welcome, or Refusal and the end
//!                   <-            Segments  + its lane, node page and board
//! Segments + its own ->
//!                   <-            Ready
//! ```
//!
//! Where one of the sides cannot share memory, or must not, a byte stream replaces the segments. The listener
//! sends [`Record::Stream`], at once or when it cannot map the caller's segments, and the caller answers with
//! [`Record::Joined`] and a socket beside it. A caller that cannot map the listener's segments sends that answer
//! unasked. Between hosts each side sends a [`Record::Network`] after its first record instead, and no more.
//!
//! Every record is a header of sixteen bytes (the magic, the version of the format, the kind, a zero, the length
//! of the body) and a body of fields, little-endian. The transport has the socket and the time limits, and checks
//! the descriptors. It also keeps the order above, which only a refusal may cut short. After the handshake the
//! socket carries [`signal`](crate::signal)s.
//!
//! Invariant: a parsed record has valid names, and numbers within their bounds, whatever the bytes were, and a
//! parser never asks for more than [`HELLO_BYTES_MAX`].

mod listening;

mod network;

mod refusal;

mod segments;

pub use self::listening::Listening;
pub use self::network::{Networked, Ticket};
pub use self::refusal::{Refusal, RefusalCode};
pub use self::segments::{Segment, Segments, Streamed, check_lane_bytes};
use crate::fault::Rule;
use crate::limits::{HELLO_BYTES_MAX, NAME_BYTES_MAX, PROGRAM_BYTES_MAX, RECORD_HEADER_BYTES};
use crate::name::{NodeName, ProgramId, ProgramName};
use crate::record::{Fields, push_text};
use alloc::vec::Vec;

/// The first bytes of every record. The first byte is not 0, which is a doorbell.
pub const MAGIC: [u8; 8] = *b"upbeat\x00\x01";

/// The version of the records' format. A refusal keeps it for ever, so that old and new sides can read why they do
/// not understand each other.
pub const FORMAT: u16 = 1;

/// The oldest version of the protocol that this build supports.
pub const VERSION_MIN: u16 = 2;

/// The newest version of the protocol that this build supports.
pub const VERSION_MAX: u16 = 2;

const BODY_BYTES_MAX: usize = HELLO_BYTES_MAX - RECORD_HEADER_BYTES;

/// The descriptors beside a [`Record::Segments`], in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Passed {
    /// The sender's lane of the session.
    Lane = 0,
    /// The sender's node page.
    NodePage = 1,
    /// The sender's board, in which the receiver has a byte.
    Board = 2,
}

impl Passed {
    /// All descriptors, in the order in which they are passed.
    pub const ALL: [Passed; 3] = [Passed::Lane, Passed::NodePage, Passed::Board];

    /// Returns the name of the object, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Passed::Lane => "lane",
            Passed::NodePage => "node page",
            Passed::Board => "board",
        }
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The caller and the node that it wants.
    Hello = 1,
    /// The listener and the version of the protocol.
    Welcome = 2,
    /// The sender's side of the session.
    Segments = 3,
    /// The listener has mapped the caller's side, and frames may be sent.
    Ready = 4,
    /// The side refuses the session.
    Refusal = 5,
    /// A larger segment for the sender's lane, only after the handshake.
    Segment = 6,
    /// The listener's side of a session over a byte stream.
    Stream = 7,
    /// The caller's side of a session over a byte stream. The listener's end of the stream's socket is passed
    /// beside it.
    Joined = 8,
    /// The sender's side of a session between hosts.
    Network = 9,
}

impl RecordKind {
    /// Returns the kind of a byte, if there is one.
    pub const fn from_byte(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::Hello,
            2 => RecordKind::Welcome,
            3 => RecordKind::Segments,
            4 => RecordKind::Ready,
            5 => RecordKind::Refusal,
            6 => RecordKind::Segment,
            7 => RecordKind::Stream,
            8 => RecordKind::Joined,
            9 => RecordKind::Network,
            _ => return None,
        })
    }

    /// Returns the kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            RecordKind::Hello => "hello",
            RecordKind::Welcome => "welcome",
            RecordKind::Segments => "segments",
            RecordKind::Ready => "ready",
            RecordKind::Refusal => "refusal",
            RecordKind::Segment => "segment",
            RecordKind::Stream => "stream",
            RecordKind::Joined => "joined",
            RecordKind::Network => "network",
        }
    }

    /// Returns the number of descriptors that are passed beside a record of this kind.
    pub const fn descriptors(self) -> usize {
        match self {
            RecordKind::Segments => Passed::ALL.len(),
            RecordKind::Segment | RecordKind::Joined => 1,
            _ => 0,
        }
    }

    /// Checks that as many descriptors came beside a record as its kind has.
    pub fn check_descriptors(self, seen: usize) -> Result<(), Rule> {
        if seen == self.descriptors() {
            return Ok(());
        }
        let seen = u32::try_from(seen).unwrap_or(u32::MAX);
        Err(Rule::Descriptors { seen, expected: self.descriptors() as u32 })
    }
}

/// The first record of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version of the protocol that the caller supports.
    pub version_min: u16,
    /// The newest version of the protocol that the caller supports.
    pub version_max: u16,
    /// The program that the caller belongs to.
    pub program: ProgramId,
    /// The name of the caller's node, or none for a bare handle.
    pub caller: Option<NodeName>,
    /// The name of the node that the caller wants.
    pub wanted: NodeName,
    /// The incarnation of the caller.
    pub incarnation: u64,
    /// The caller's process.
    pub pid: u32,
    /// Whether the caller can share memory.
    pub memory: bool,
}

impl Hello {
    /// Returns the newest version that both sides support, if there is one.
    pub fn version(&self) -> Option<u16> {
        let version = self.version_max.min(VERSION_MAX);
        (version >= self.version_min.max(VERSION_MIN)).then_some(version)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version_min.to_le_bytes());
        out.extend_from_slice(&self.version_max.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.program.identity().to_le_bytes());
        push_text(out, self.program.name().as_str());
        push_text(out, self.caller.as_ref().map_or("", NodeName::as_str));
        push_text(out, self.wanted.as_str());
        out.push(u8::from(self.memory));
    }

    fn parse(mut fields: Fields<'_>) -> Result<Hello, Rule> {
        let version_min = fields.u16("oldest version")?;
        let version_max = fields.u16("newest version")?;
        if version_min > version_max {
            return Err(Rule::RecordField { field: "newest version" });
        }
        let pid = fields.u32("process")?;
        let incarnation = fields.u64("incarnation")?;
        let identity = fields.u128("identity of the program")?;
        let field = "name of the program";
        let program = ProgramName::new(fields.text(field, PROGRAM_BYTES_MAX)?)
            .map_err(|_| Rule::RecordField { field })?;
        let program = ProgramId::new(program, identity);
        let field = "name of the caller";
        let caller = match fields.text(field, NAME_BYTES_MAX)? {
            "" => None,
            text => Some(NodeName::new(text).map_err(|_| Rule::RecordField { field })?),
        };
        let wanted = node_name(&mut fields, "name of the wanted node")?;
        let field = "memory";
        let memory = match fields.u8(field)? {
            0 => false,
            1 => true,
            _ => return Err(Rule::RecordField { field }),
        };
        fields.end()?;
        Ok(Hello { version_min, version_max, program, caller, wanted, incarnation, pid, memory })
    }
}

/// The first record of a listener that accepts the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The listener's name.
    pub node: NodeName,
    /// The incarnation of the listener.
    pub incarnation: u64,
    /// The version of the protocol that both sides use from now on.
    pub version: u16,
}

impl Welcome {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        push_text(out, self.node.as_str());
    }

    fn parse(mut fields: Fields<'_>) -> Result<Welcome, Rule> {
        let version = fields.u16("version")?;
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(Rule::RecordVersion { seen: version, known: VERSION_MAX });
        }
        let incarnation = fields.u64("incarnation")?;
        let node = node_name(&mut fields, "name of the node")?;
        fields.end()?;
        Ok(Welcome { node, incarnation, version })
    }
}

/// A record on the socket.
///
/// ```
/// use upbeat_core::hello::{Parsed, Record};
///
/// let mut bytes = Vec::new();
/// Record::Ready.write(&mut bytes);
/// assert_eq!(Record::parse(&bytes[..3]), Ok(Parsed::NeedMore(13)));
/// assert_eq!(Record::parse(&bytes), Ok(Parsed::Complete(Record::Ready, bytes.len())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The caller and the node that it wants.
    Hello(Hello),
    /// The listener and the version of the protocol.
    Welcome(Welcome),
    /// The sender's side of the session.
    Segments(Segments),
    /// The listener has mapped the caller's side, and frames may be sent.
    Ready,
    /// The side refuses the session.
    Refusal(Refusal),
    /// A larger segment for the sender's lane, only after the handshake.
    Segment(Segment),
    /// The listener's side of a session over a byte stream.
    Stream(Streamed),
    /// The caller's side of a session over a byte stream.
    Joined(Streamed),
    /// The sender's side of a session between hosts.
    Network(Networked),
}

/// The result of parsing a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The record, and the number of bytes that it took.
    Complete(T, usize),
    /// The record is not complete: at least this many bytes are missing.
    NeedMore(usize),
}

impl Record {
    /// Returns the kind of the record.
    pub const fn kind(&self) -> RecordKind {
        match self {
            Record::Hello(_) => RecordKind::Hello,
            Record::Welcome(_) => RecordKind::Welcome,
            Record::Segments(_) => RecordKind::Segments,
            Record::Ready => RecordKind::Ready,
            Record::Refusal(_) => RecordKind::Refusal,
            Record::Segment(_) => RecordKind::Segment,
            Record::Stream(_) => RecordKind::Stream,
            Record::Joined(_) => RecordKind::Joined,
            Record::Network(_) => RecordKind::Network,
        }
    }

    /// Appends the record to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[self.kind() as u8, 0, 0, 0, 0, 0]);
        match self {
            Record::Hello(hello) => hello.write(out),
            Record::Welcome(welcome) => welcome.write(out),
            Record::Segments(segments) => segments.write(out),
            Record::Ready => {}
            Record::Refusal(refusal) => refusal.write(out),
            Record::Segment(segment) => segment.write(out),
            Record::Stream(streamed) | Record::Joined(streamed) => streamed.write(out),
            Record::Network(networked) => networked.write(out),
        }
        let body = start + RECORD_HEADER_BYTES;
        let len = u32::try_from(out.len() - body).expect("the record is within its bound");
        out[body - 4..body].copy_from_slice(&len.to_le_bytes());
    }

    /// Returns the bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Parses the record that a packet consists of.
    pub fn decode(packet: &[u8]) -> Result<Record, Rule> {
        match Record::parse(packet)? {
            Parsed::Complete(record, len) if len == packet.len() => Ok(record),
            Parsed::Complete(_, len) => {
                let bytes = u32::try_from(packet.len() - len).unwrap_or(u32::MAX);
                Err(Rule::RecordTrailing { bytes })
            }
            Parsed::NeedMore(_) => Err(Rule::RecordTruncated { field: "record" }),
        }
    }

    /// Parses the record at the front of the received bytes, or returns the rule that they break.
    ///
    /// A wrong header is found as soon as its bytes are there, so no side waits for a body that would not be read.
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Record>, Rule> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.starts_with(magic) {
            let mut seen = [0; 8];
            seen[..magic.len()].copy_from_slice(magic);
            return Err(Rule::RecordMagic { seen: u64::from_le_bytes(seen) });
        }
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(Parsed::NeedMore(RECORD_HEADER_BYTES - bytes.len()));
        };
        let (kind, len) = parse_header(header)?;
        let Some((body, _)) = rest.split_at_checked(len) else {
            return Ok(Parsed::NeedMore(len - rest.len()));
        };
        let fields = Fields::new(body);
        let record = match kind {
            RecordKind::Hello => Record::Hello(Hello::parse(fields)?),
            RecordKind::Welcome => Record::Welcome(Welcome::parse(fields)?),
            RecordKind::Segments => Record::Segments(Segments::parse(fields)?),
            RecordKind::Ready => fields.end().map(|()| Record::Ready)?,
            RecordKind::Refusal => Record::Refusal(Refusal::parse(fields)?),
            RecordKind::Segment => Record::Segment(Segment::parse(fields)?),
            RecordKind::Stream => Record::Stream(Streamed::parse(fields)?),
            RecordKind::Joined => Record::Joined(Streamed::parse(fields)?),
            RecordKind::Network => Record::Network(Networked::parse(fields)?),
        };
        Ok(Parsed::Complete(record, RECORD_HEADER_BYTES + len))
    }
}

/// Parses the kind and the length of the body in a header whose magic was checked.
fn parse_header(header: &[u8; RECORD_HEADER_BYTES]) -> Result<(RecordKind, usize), Rule> {
    let mut fields = Fields::new(&header[MAGIC.len()..]);
    let seen = fields.u16("version of the format")?;
    if seen != FORMAT {
        return Err(Rule::RecordVersion { seen, known: FORMAT });
    }
    let kind = fields.u8("kind")?;
    let kind = RecordKind::from_byte(kind).ok_or(Rule::RecordKind { kind })?;
    let reserved = fields.u8("reserved")?;
    if reserved != 0 {
        return Err(Rule::ReservedBits { bits: u32::from(reserved) });
    }
    let len = fields.u32("length")?;
    if len as usize > BODY_BYTES_MAX {
        return Err(Rule::RecordTooLong { len, max: BODY_BYTES_MAX as u32 });
    }
    Ok((kind, len as usize))
}

fn node_name(fields: &mut Fields<'_>, field: &'static str) -> Result<NodeName, Rule> {
    NodeName::new(fields.text(field, NAME_BYTES_MAX)?).map_err(|_| Rule::RecordField { field })
}

#[cfg(test)]
mod tests;
