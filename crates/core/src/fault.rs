//! The rules that a peer can break, each with the observed numbers.
//!
//! A broken rule ends the session with that peer and nothing else. The transport and the runtime name the peer,
//! end the session and tell the user. Faults of this side, such as a full table or an invalid name, are the errors
//! of their modules. Invariant: a `Rule` is [`Copy`], small and allocates nothing, so that checking a rule costs
//! the common path one branch.

mod text;

pub(crate) use self::text::kind_name;

/// A rule of the protocol that a peer has broken.
///
/// Variants carry the numbers seen and, where one exists, the bound or the number expected.
///
/// ```
/// use upbeat_core::fault::Rule;
///
/// let rule = Rule::CreditAhead { seen: 9, out: 7 };
/// assert!(rule.to_string().contains("9"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// A frame whose kind does not exist (0 is padding and never a frame).
    UnknownKind {
        /// The kind byte seen.
        kind: u8,
    },
    /// A frame longer than the longest message.
    LengthBeyondMax {
        /// The payload length seen.
        len: u32,
        /// The longest allowed.
        max: u32,
    },
    /// A frame shorter than its kind and flags need.
    LengthBelowMin {
        /// The kind of the frame.
        kind: u8,
        /// The payload length seen.
        len: u32,
        /// The shortest allowed.
        min: u32,
    },
    /// A payload in a frame of a kind that has none.
    StrayPayload {
        /// The kind of the frame.
        kind: u8,
        /// The payload length seen.
        len: u32,
    },
    /// A payload that does not end within the slots of its frame.
    LengthBeyondSpan {
        /// The payload length seen.
        len: u32,
        /// The number of slots in the frame's head.
        span: u32,
    },
    /// A frame that takes no slot, or more than the ring has left.
    SpanBeyondRing {
        /// The number of slots in the frame's head.
        span: u32,
        /// The number of slots that are left in the ring.
        slots: u32,
    },
    /// Bits that must be zero and are not.
    ReservedBits {
        /// The bits seen, at their positions in the field.
        bits: u32,
    },
    /// Flags that do not exist, or that a frame of this kind does not carry.
    UnknownFlags {
        /// The kind of the frame.
        kind: u8,
        /// The flags seen.
        flags: u16,
    },
    /// A manner of stamping that does not exist, or in a frame of a kind that is never stamped.
    StrayManner {
        /// The kind of the frame.
        kind: u8,
        /// The manner seen.
        manner: u8,
    },
    /// Stamps whose length does not fit the announced points.
    StampsLength {
        /// The points, one bit each.
        points: u32,
        /// The length of the payload.
        len: u32,
    },
    /// A call number in a frame of a kind that has none.
    StrayNumber {
        /// The kind of the frame.
        kind: u8,
        /// The index seen.
        index: u32,
        /// The generation seen.
        generation: u32,
    },
    /// A method number in a frame of a kind that has none.
    StrayMethod {
        /// The kind of the frame.
        kind: u8,
        /// The method number seen.
        method: u16,
    },
    /// Control of a channel that does not exist, or of a code that no channel has.
    UnknownControl {
        /// The code seen.
        code: u16,
    },
    /// A reply to a call that is not open.
    NotOpen {
        /// The index of the answered call.
        index: u32,
        /// The generation of the answered call.
        generation: u32,
    },
    /// A reply to an earlier use of a call number.
    StaleGeneration {
        /// The index of the answered call.
        index: u32,
        /// The generation that the reply names.
        seen: u32,
        /// The generation that is open.
        open: u32,
    },
    /// A second reply to a call.
    AnsweredTwice {
        /// The index of the answered call.
        index: u32,
        /// The generation of the answered call.
        generation: u32,
    },
    /// A call with a number that is still being served.
    DuplicateCall {
        /// The index of the new call.
        index: u32,
        /// The generation of the new call.
        generation: u32,
    },
    /// A call whose index is beyond the largest call table: too many calls are unfinished.
    TooManyCalls {
        /// The index seen.
        index: u32,
        /// The number below which indexes must be.
        max: u32,
    },
    /// The receiver's progress went backwards.
    CreditBackwards {
        /// The progress seen.
        seen: u64,
        /// The progress before.
        before: u64,
    },
    /// The receiver's progress is ahead of what was sent.
    CreditAhead {
        /// The progress seen.
        seen: u64,
        /// The number of slots or requests sent.
        out: u64,
    },
    /// A frame for which the receiver's ring has no room, so its sender had no credit.
    BeyondCredit {
        /// The number of slots of the frame.
        span: u32,
    },
    /// A peer that continues over another connection claims to have received more than was sent.
    ResumeAhead {
        /// The number of slots that it claims to have received.
        seen: u64,
        /// The number of slots that were sent.
        shipped: u64,
    },
    /// A peer that continues over another connection claims to have received less than it has read.
    ResumeBehind {
        /// The number of slots that it claims to have received.
        seen: u64,
        /// The number of slots that it has reported as read.
        acknowledged: u64,
    },
    /// A peer that continues over another connection claims to have received a part of a frame.
    ResumeWithin {
        /// The number of slots that it claims to have received.
        seen: u64,
    },
    /// More segments than rings and slabs can use, or a segment that no frame can name.
    StraySegment {
        /// The generation of the segment.
        generation: u32,
    },
    /// A larger ring for the peer's lane, for which the receiver has no room and gave no grant.
    UngrantedRing {
        /// The bytes of the ring.
        bytes: u32,
    },
    /// Bytes of a buffer that was not announced, or beyond its end.
    StrayBuffer {
        /// The slab.
        slab: u16,
        /// The buffer in it.
        index: u32,
    },
    /// A frame about a place in another state: a refusal or a grant of a request that is not on its way, a request
    /// that was not granted, or a withdrawal without a reservation.
    StrayPlace {
        /// The kind of the frame.
        kind: u8,
        /// The number of the request.
        number: u64,
    },
    /// More requests than the receiver keeps places for.
    TooManyPlaces {
        /// The number of places.
        max: u32,
    },
    /// More bytes of refused requests in the ring than the receiver copies.
    TooManyCopies {
        /// The bytes that would be copied.
        seen: u64,
        /// The number of bytes that may be copied.
        max: u64,
    },
    /// A request that is longer than the reserved room.
    BeyondReserved {
        /// The bytes that the request is charged.
        len: u64,
        /// The bytes of the reservation.
        reserved: u64,
    },
    /// A failed call whose code does not exist.
    UnknownFailCode {
        /// The code seen.
        code: u8,
    },
    /// A switch to a segment that was never passed.
    SwitchWithoutSegment {
        /// The generation the switch names.
        generation: u32,
    },
    /// A segment whose size is not one a lane may have.
    SegmentSize {
        /// The bytes of the file, or the announced bytes.
        bytes: u64,
        /// The fewest allowed.
        min: u32,
        /// The most allowed.
        max: u32,
    },
    /// A frame that may not come in this state.
    OutOfPlace {
        /// The kind of the frame.
        kind: u8,
        /// The state in words, such as `after goodbye`.
        state: &'static str,
    },
    /// A record on the socket that does not start with the protocol's magic bytes.
    RecordMagic {
        /// The first eight bytes, little-endian.
        seen: u64,
    },
    /// A record of a version that was not agreed on.
    RecordVersion {
        /// The version seen.
        seen: u16,
        /// The version this side speaks.
        known: u16,
    },
    /// A record on the socket whose kind does not exist.
    RecordKind {
        /// The kind seen.
        kind: u8,
    },
    /// A record that may not come in this state.
    RecordOutOfPlace {
        /// The kind of the record, in words.
        kind: &'static str,
    },
    /// A record whose length is beyond its bound.
    RecordTooLong {
        /// The length seen.
        len: u32,
        /// The longest allowed.
        max: u32,
    },
    /// A record that ends within one of its fields.
    RecordTruncated {
        /// The name of the field.
        field: &'static str,
    },
    /// A field of a record whose value is not allowed.
    RecordField {
        /// The name of the field.
        field: &'static str,
    },
    /// A record that continues behind its last field.
    RecordTrailing {
        /// The bytes left over.
        bytes: u32,
    },
    /// A record without its descriptors, or with too many.
    Descriptors {
        /// The number of descriptors beside the record.
        seen: u32,
        /// The number that the record's kind requires.
        expected: u32,
    },
}

// Functions on the hottest path return a rule in their `Err`.
const _: () = assert!(size_of::<Rule>() <= 24);

impl core::error::Error for Rule {}

impl Rule {
    /// Returns whether the rule is about records on the socket and not about frames in a lane.
    pub const fn is_record(&self) -> bool {
        matches!(
            self,
            Rule::RecordMagic { .. }
                | Rule::RecordVersion { .. }
                | Rule::RecordKind { .. }
                | Rule::RecordOutOfPlace { .. }
                | Rule::RecordTooLong { .. }
                | Rule::RecordTruncated { .. }
                | Rule::RecordField { .. }
                | Rule::RecordTrailing { .. }
                | Rule::Descriptors { .. }
        )
    }
}
