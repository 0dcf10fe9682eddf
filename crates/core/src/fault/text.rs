//! The text of each rule: its name, and the observed numbers.

use core::fmt;

use super::Rule;
use crate::limits;

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_record() { self.fmt_record(f) } else { self.fmt_frame(f) }
    }
}

impl Rule {
    fn fmt_frame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::UnknownKind { kind } => write!(f, "unknown kind: no frame has kind {kind}"),
            Rule::LengthBeyondMax { len, max } => {
                write!(f, "length beyond bound: a payload of {len} bytes, at most {max} are sent")
            }
            Rule::LengthBelowMin { kind, len, min } => {
                let name = kind_name(kind);
                write!(f, "length below need: a {name} of {len} bytes needs at least {min}")
            }
            Rule::StrayPayload { kind, len } => {
                let name = kind_name(kind);
                write!(f, "stray payload: {len} bytes in a {name}, which carries none")
            }
            Rule::LengthBeyondSpan { len, span } => write!(
                f,
                "length beyond span: a payload of {len} bytes in {span} slots of {} bytes",
                limits::SLOT_BYTES
            ),
            Rule::SpanBeyondRing { span, slots } => {
                write!(f, "span beyond ring: a frame of {span} slots where 1 to {slots} are left")
            }
            Rule::ReservedBits { bits } => {
                write!(f, "reserved bits: {bits:#x} that must be zero")
            }
            Rule::UnknownFlags { kind, flags } => {
                let name = kind_name(kind);
                write!(f, "unknown flags: {flags:#x} in a {name}")
            }
            Rule::StrayManner { kind, manner } => {
                let name = kind_name(kind);
                write!(f, "stray manner: a {name} cannot be sampled in manner {manner}")
            }
            Rule::StampsLength { points, len } => {
                write!(f, "stamps length: {len} bytes of stamps for the points {points:#x}")
            }
            Rule::StrayNumber { kind, index, generation } => {
                let name = kind_name(kind);
                write!(f, "stray number: call {index}.{generation} in a {name}, which has none")
            }
            Rule::StrayMethod { kind, method } => {
                let name = kind_name(kind);
                write!(f, "stray method: number {method} in a {name}, which names none")
            }
            Rule::UnknownControl { code } => {
                write!(f, "unknown control: no channel has code {code:#x}")
            }
            Rule::UnknownFailCode { code } => {
                write!(f, "unknown failure: no call fails with code {code}")
            }
            _ => self.fmt_state(f),
        }
    }

    fn fmt_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::NotOpen { index, generation } => {
                write!(f, "call not open: a reply to call {index}.{generation}")
            }
            Rule::StaleGeneration { index, seen, open } => {
                write!(f, "stale generation: a reply to call {index}.{seen}, open is .{open}")
            }
            Rule::AnsweredTwice { index, generation } => {
                write!(f, "answered twice: call {index}.{generation}")
            }
            Rule::DuplicateCall { index, generation } => write!(
                f,
                "duplicate call: {index}.{generation} comes while call {index} is being served"
            ),
            Rule::TooManyCalls { index, max } => {
                write!(f, "too many calls: index {index}, at most {max} may be unfinished")
            }
            Rule::CreditBackwards { seen, before } => {
                write!(f, "progress went backwards: from {before} to {seen}")
            }
            Rule::CreditAhead { seen, out } => {
                write!(f, "progress ahead of sender: {seen} read of {out} sent")
            }
            Rule::BeyondCredit { span } => {
                write!(f, "beyond credit: a frame of {span} slots where the ring has no room")
            }
            Rule::StraySegment { generation } => {
                write!(f, "stray segment: generation {generation} was not expected")
            }
            Rule::UngrantedRing { bytes } => write!(
                f,
                "ring that was not granted: {bytes} bytes, for which this node has no room \
                 (`remote_bytes`) and of which it was not asked"
            ),
            Rule::StrayBuffer { slab, index } => {
                write!(
                    f,
                    "stray buffer: bytes for buffer {index} of slab {slab}, which does not exist or is too short"
                )
            }
            Rule::StrayPlace { kind, number } => {
                let name = kind_name(kind);
                write!(f, "stray place: a {name} for request {number}, which does not expect one")
            }
            Rule::TooManyPlaces { max } => {
                write!(f, "too many places: more than {max} requests wait to be accepted")
            }
            Rule::TooManyCopies { seen, max } => {
                write!(f, "too many copies: {seen} bytes of refused requests in the ring of {max}")
            }
            Rule::BeyondReserved { len, reserved } => {
                write!(f, "beyond reserved: {len} bytes where room for {reserved} was asked for")
            }
            Rule::SwitchWithoutSegment { generation } => {
                write!(f, "switch without segment: generation {generation} was never passed")
            }
            Rule::SegmentSize { bytes, min, max } => {
                write!(
                    f,
                    "segment size: {bytes} bytes where {min} to {max} in whole pages are allowed"
                )
            }
            Rule::OutOfPlace { kind, state } => {
                let name = kind_name(kind);
                write!(f, "out of place: a {name} (kind {kind}) {state}")
            }
            _ => self.fmt_resumed(f),
        }
    }

    fn fmt_resumed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::ResumeAhead { seen, shipped } => {
                write!(f, "resumed ahead: {seen} slots received of {shipped} sent")
            }
            Rule::ResumeBehind { seen, acknowledged } => {
                write!(f, "resumed behind: {seen} slots received, {acknowledged} of them read")
            }
            Rule::ResumeWithin { seen } => {
                write!(f, "resumed within a frame: no frame begins behind slot {seen}")
            }
            _ => unreachable!("the rules on records have their own text"),
        }
    }

    fn fmt_record(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::RecordMagic { seen } => {
                write!(f, "record magic: {seen:#018x} does not start an Upbeat record")
            }
            Rule::RecordVersion { seen, known } => {
                write!(f, "record version: {seen}, this side speaks {known}")
            }
            Rule::RecordKind { kind } => write!(f, "record kind: no record has kind {kind}"),
            Rule::RecordOutOfPlace { kind } => {
                write!(f, "record out of place: a {kind} may not come now")
            }
            Rule::RecordTooLong { len, max } => {
                write!(f, "record too long: {len} bytes, at most {max} are sent")
            }
            Rule::RecordTruncated { field } => {
                write!(f, "record truncated: it ends within `{field}`")
            }
            Rule::RecordField { field } => {
                write!(f, "record field: the value of `{field}` is not allowed")
            }
            Rule::RecordTrailing { bytes } => {
                write!(f, "record trailing: {bytes} bytes behind its last field")
            }
            Rule::Descriptors { seen, expected } => {
                write!(f, "descriptors: {seen} beside a record that has {expected}")
            }
            _ => unreachable!("the rules on frames have their own text"),
        }
    }
}

/// Returns the name of a frame's kind, from its byte.
pub(crate) const fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "pad",
        1 => "call",
        2 => "one-way",
        4 => "reply",
        5 => "failure",
        6 => "cancel",
        7 => "switch",
        8 => "goodbye",
        9 => "stamps",
        10 => "nack",
        11 => "reserve",
        12 => "grant",
        13 => "withdraw",
        14 => "slab",
        15 => "retire",
        16 => "extend",
        17 => "extended",
        18 => "operation",
        19 => "control",
        _ => "frame of unknown kind",
    }
}
