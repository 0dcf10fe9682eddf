//! Kinds of frames, and the shape of each: what it carries, and within which bounds.

use super::flags::Flags;
use crate::fault;
use crate::limits::{ERROR_TEXT_BYTES_MAX, EXTENSION_BYTES, MESSAGE_BYTES_MAX, STAMPS_BYTES_MAX};

/// The longest payload.
pub(super) const LEN_MAX: u32 = MESSAGE_BYTES_MAX as u32;

/// What may stand before the payload of a request.
const REQUEST: Flags = Flags::DEADLINE.with(Flags::PLACED).with(Flags::GRANTED);

/// What may stand before the arguments of a call.
const CALL: Flags = REQUEST.with(Flags::REFUSABLE).with(Flags::EXTENDABLE).with(Flags::MADE);

/// What a frame is. Byte 0 is padding of the ring and never a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A call; it is answered by one [`Kind::Reply`] or [`Kind::Failed`] of the same number.
    Call = 1,
    /// A one-way message; never answered.
    Oneway = 2,
    /// The result of a call.
    Reply = 4,
    /// A call that has no result; its payload is a [`Failure`](super::Failure).
    Failed = 5,
    /// The caller no longer wants the answer, which must come all the same.
    Cancel = 6,
    /// The lane goes on in the next segment; the number's generation says which.
    Switch = 7,
    /// The sender will send no more requests and closes when its answers are sent.
    Goodbye = 8,
    /// The stamps that its sender took of a call of this number, or of the one-way message before.
    Stamps = 9,
    /// There is no room for the request of this number, which keeps its place.
    Nack = 10,
    /// Asks for room for a request, which takes its place by this; the payload says how many bytes.
    Reserve = 11,
    /// There is room for the request of this number.
    Grant = 12,
    /// Room is no longer wanted for the request of this number.
    Withdraw = 13,
    /// A segment with buffers stands ready; the number's index is the slab's, the payload says how
    /// many bytes a buffer has and how many buffers there are.
    Slab = 14,
    /// The slab of this index is not used any more; all of its buffers are back.
    Retire = 15,
    /// The callee asks for more time for the call of this number; the payload says how much.
    Extend = 16,
    /// The caller's answer to that; the payload says how much time there is, or 0.
    Extended = 17,
    /// An operation of a channel other than calls, answered as a call is; the method is its code.
    Operation = 18,
    /// Control of a channel other than calls, which is not answered; the method is its code, and the
    /// number's index says of what.
    Control = 19,
}

impl Kind {
    /// Every kind.
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

    /// The kind of a byte, if there is one.
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

    /// The byte of the kind.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The kind in words.
    pub const fn name(self) -> &'static str {
        fault::kind_name(self as u8)
    }

    /// Whether the frame is of the ordered domain of requests. The others are replies and control,
    /// which may take the last slots of a ring and are not ordered against requests.
    #[inline]
    pub const fn is_request(self) -> bool {
        use Kind::{Call, Oneway, Operation, Reserve};
        matches!(self, Call | Oneway | Reserve | Operation)
    }

    /// Whether the frame is answered by one [`Kind::Reply`] or [`Kind::Failed`] of its number.
    #[inline]
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Call | Kind::Operation)
    }

    /// Whether the frame carries no message but says what may be sent, and where it lies.
    #[inline]
    pub const fn is_protocol(self) -> bool {
        use Kind::{Grant, Nack, Reserve, Retire, Slab, Switch, Withdraw};
        matches!(self, Switch | Nack | Reserve | Grant | Withdraw | Slab | Retire)
    }

    pub(super) const fn shape(self) -> Shape {
        match self {
            Kind::Call => Shape { number: true, method: true, flags: CALL, ..Shape::SAMPLED },
            Kind::Oneway => Shape { method: true, flags: REQUEST, ..Shape::SAMPLED },
            Kind::Reply => Shape { number: true, flags: Flags::PLACED, ..Shape::SAMPLED },
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
            Kind::Operation => Shape { number: true, method: true, flags: CALL, ..Shape::BARE },
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

/// What a frame of a kind may carry. `len` is without extensions.
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
