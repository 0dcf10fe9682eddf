//! The kinds of frames, and the shape of each: its fields, and their bounds.

use super::flags::Flags;
use crate::fault;
use crate::limits::{ERROR_TEXT_BYTES_MAX, EXTENSION_BYTES, MESSAGE_BYTES_MAX, STAMPS_BYTES_MAX};

/// The longest payload.
pub(super) const LEN_MAX: u32 = MESSAGE_BYTES_MAX as u32;

/// The extensions that a request may have.
const REQUEST: Flags = Flags::DEADLINE.with(Flags::PLACED).with(Flags::GRANTED);

/// The extensions that an operation of a channel may have.
const OPERATION: Flags = REQUEST.with(Flags::REFUSABLE).with(Flags::EXTENDABLE).with(Flags::MADE);

/// The extensions that a one-way message may have.
const ONEWAY: Flags = REQUEST.with(Flags::CONTEXT);

/// The extensions that a call may have.
const CALL: Flags = OPERATION.with(Flags::CONTEXT);

/// The extensions and the mark that a reply may have.
const REPLY: Flags = Flags::PLACED.with(Flags::TOLERANT);

/// The kind of a frame. Byte 0 is padding of the ring and never a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A call, which is answered by one [`Kind::Reply`] or [`Kind::Failed`] of the same number.
    Call = 1,
    /// A one-way message, which is never answered.
    Oneway = 2,
    /// The result of a call.
    Reply = 4,
    /// A failure: a call has no result. The payload is a [`Failure`](super::Failure).
    Failed = 5,
    /// A cancel: the caller no longer wants the reply, which must be sent nevertheless.
    Cancel = 6,
    /// A switch: the lane continues in the segment of the generation in the number.
    Switch = 7,
    /// A goodbye: the sender will send no more requests, and closes when its replies are sent.
    Goodbye = 8,
    /// Stamps that the sender took of the call of this number, or of the one-way message before.
    Stamps = 9,
    /// A refusal: there is no room for the request of this number, which keeps its place.
    Nack = 10,
    /// A question for room for a request, which gets its place by this frame. The payload has the number of bytes.
    Reserve = 11,
    /// A grant: there is room for the request of this number.
    Grant = 12,
    /// A withdrawal: the request of this number no longer needs room.
    Withdraw = 13,
    /// An announcement: the slab of the index in the number is ready. The payload has the bytes of a buffer and
    /// the number of buffers.
    Slab = 14,
    /// An announcement: the slab of the index in the number is no longer used, and all of its buffers were
    /// returned.
    Retire = 15,
    /// A question of the callee for more time for the call of this number. The payload has the time.
    Extend = 16,
    /// The caller's answer to a question for more time. The payload has the time that is left, or 0.
    Extended = 17,
    /// An operation of a channel, which is answered as a call is. The method is its code.
    Operation = 18,
    /// A control message of a channel, which is not answered. The method is its code, and the index in the number
    /// names its object.
    Control = 19,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 18] = [
        Kind::Call,
        Kind::Oneway,
        Kind::Reply,
        Kind::Failed,
        Kind::Cancel,
        Kind::Switch,
        Kind::Goodbye,
        Kind::Stamps,
        Kind::Nack,
        Kind::Reserve,
        Kind::Grant,
        Kind::Withdraw,
        Kind::Slab,
        Kind::Retire,
        Kind::Extend,
        Kind::Extended,
        Kind::Operation,
        Kind::Control,
    ];

    /// Returns the kind of a byte, if there is one.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Call),
            2 => Some(Kind::Oneway),
            4 => Some(Kind::Reply),
            5 => Some(Kind::Failed),
            6 => Some(Kind::Cancel),
            7 => Some(Kind::Switch),
            8 => Some(Kind::Goodbye),
            9 => Some(Kind::Stamps),
            10 => Some(Kind::Nack),
            11 => Some(Kind::Reserve),
            12 => Some(Kind::Grant),
            13 => Some(Kind::Withdraw),
            14 => Some(Kind::Slab),
            15 => Some(Kind::Retire),
            16 => Some(Kind::Extend),
            17 => Some(Kind::Extended),
            18 => Some(Kind::Operation),
            19 => Some(Kind::Control),
            _ => None,
        }
    }

    /// Returns the byte of the kind.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the kind in words.
    pub const fn name(self) -> &'static str {
        fault::kind_name(self as u8)
    }

    /// Returns whether the frame belongs to the ordered domain of requests. The other frames are replies and
    /// control, which may use the reserved slots of a ring and are not ordered against requests.
    #[inline]
    pub const fn is_request(self) -> bool {
        use Kind::{Call, Oneway, Operation, Reserve};
        matches!(self, Call | Oneway | Reserve | Operation)
    }

    /// Returns whether the frame is answered by one [`Kind::Reply`] or [`Kind::Failed`] of its number.
    #[inline]
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Call | Kind::Operation)
    }

    /// Returns whether the frame carries no message, but credit or the place of payloads.
    #[inline]
    pub const fn is_protocol(self) -> bool {
        use Kind::{Grant, Nack, Reserve, Retire, Slab, Switch, Withdraw};
        matches!(self, Switch | Nack | Reserve | Grant | Withdraw | Slab | Retire)
    }

    pub(super) const fn shape(self) -> Shape {
        match self {
            Kind::Call => Shape { number: true, method: true, flags: CALL, ..Shape::SAMPLED },
            Kind::Oneway => Shape { method: true, flags: ONEWAY, ..Shape::SAMPLED },
            Kind::Reply => Shape { number: true, flags: REPLY, ..Shape::SAMPLED },
            Kind::Failed => Shape {
                number: true,
                len_min: 1,
                len_max: 1 + ERROR_TEXT_BYTES_MAX as u32,
                ..Shape::SAMPLED
            },
            Kind::Cancel
            | Kind::Switch
            | Kind::Nack
            | Kind::Grant
            | Kind::Withdraw
            | Kind::Retire => Shape { number: true, len_max: 0, ..Shape::BARE },
            Kind::Reserve => Shape { len_min: 8, len_max: 8, ..Shape::BARE },
            Kind::Slab | Kind::Extend | Kind::Extended => {
                Shape { number: true, len_min: 8, len_max: 8, ..Shape::BARE }
            }
            Kind::Operation => {
                Shape { number: true, method: true, flags: OPERATION, ..Shape::BARE }
            }
            Kind::Control => Shape { number: true, method: true, len_max: 0, ..Shape::BARE },
            Kind::Goodbye => Shape { len_max: 0, ..Shape::BARE },
            Kind::Stamps => Shape {
                number: true,
                len_min: EXTENSION_BYTES as u32,
                len_max: STAMPS_BYTES_MAX as u32,
                ..Shape::BARE
            },
        }
    }
}

/// The fields that a frame of a kind may have. The lengths are without extensions.
pub(super) struct Shape {
    pub(super) number: bool,
    pub(super) method: bool,
    pub(super) flags: Flags,
    pub(super) sampled: bool,
    pub(super) len_min: u32,
    pub(super) len_max: u32,
}

impl Shape {
    const BARE: Shape = Shape {
        number: false,
        method: false,
        flags: Flags::NONE,
        sampled: false,
        len_min: 0,
        len_max: LEN_MAX,
    };
    const SAMPLED: Shape = Shape { sampled: true, ..Shape::BARE };
}
