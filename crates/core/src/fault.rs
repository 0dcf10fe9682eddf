//! Every rule that a peer can break, with the numbers that were seen.
//!
//! A broken rule ends the session with that peer and nothing else. Naming the peer, ending the
//! session and telling the user are the transport's and the runtime's; faults of our own (a full
//! table, a name that cannot be) are the errors of their modules. The invariant: a `Rule` is
//! [`Copy`], small and allocates nothing, so that finding one costs the good path a branch.

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
    /// A payload that does not end within the slots its frame takes.
    LengthBeyondSpan {
        /// The payload length seen.
        len: u32,
        /// The slots the frame says it takes.
        span: u32,
    },
    /// A frame that takes no slot, or more than the ring has left.
    SpanBeyondRing {
        /// The slots the frame says it takes.
        span: u32,
        /// The slots it may take there.
        slots: u32,
    },
    /// Bits that must be zero are not.
    ReservedBits {
        /// The bits seen, as they stand in their field.
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
    /// Stamps whose length is not that of the points they are said to be of.
    StampsLength {
        /// The points, a bit each.
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
    /// A method number that was never given out in this session.
    UnknownMethod {
        /// The number seen.
        method: u16,
        /// How many numbers were given out; valid ones are below it.
        known: u16,
    },
    /// Control of a channel that does not exist, or that no channel has.
    UnknownControl {
        /// The code seen.
        code: u16,
    },
    /// An answer to a call that is not open.
    NotOpen {
        /// The index of the answered call.
        index: u32,
        /// Its generation.
        generation: u32,
    },
    /// An answer to an earlier user of a call number.
    StaleGeneration {
        /// The index of the answered call.
        index: u32,
        /// The generation the answer names.
        seen: u32,
        /// The generation that is open.
        open: u32,
    },
    /// A second answer to a call.
    AnsweredTwice {
        /// The index of the answered call.
        index: u32,
        /// Its generation.
        generation: u32,
    },
    /// A call under a number that is still being served.
    DuplicateCall {
        /// The index of the new call.
        index: u32,
        /// Its generation.
        generation: u32,
    },
    /// A call whose index is beyond the biggest call table: too many unfinished calls.
    TooManyCalls {
        /// The index seen.
        index: u32,
        /// Indexes must be below it.
        max: u32,
    },
    /// The receiver's progress went backwards.
    CreditBackwards {
        /// The `in` seen.
        seen: u64,
        /// The `in` seen before it.
        before: u64,
    },
    /// The receiver's progress is ahead of what was sent.
    CreditAhead {
        /// The `in` seen.
        seen: u64,
        /// How much was sent.
        out: u64,
    },
    /// A frame for which the receiver's ring has no room: its sender was not told of any.
    BeyondCredit {
        /// The slots that it takes.
        span: u32,
    },
    /// A peer that goes on over another connection says to have received more than was sent.
    ResumeAhead {
        /// The slots that it says to have received.
        seen: u64,
        /// How many were sent.
        shipped: u64,
    },
    /// A peer that goes on over another connection says to have received less than it has read.
    ResumeBehind {
        /// The slots that it says to have received.
        seen: u64,
        /// How many it has said to have read.
        acknowledged: u64,
    },
    /// A peer that goes on over another connection says to have received a part of a frame.
    ResumeWithin {
        /// The slots that it says to have received.
        seen: u64,
    },
    /// More segments than lanes and slabs have use for, or one that no frame can name.
    StraySegment {
        /// Its generation.
        generation: u32,
    },
    /// A ring in which the peer's lane goes on, for which the receiver has no room and of which it was not asked.
    UngrantedRing {
        /// Its bytes.
        bytes: u32,
    },
    /// Bytes of a buffer that was not announced, or beyond its end.
    StrayBuffer {
        /// The slab.
        slab: u16,
        /// The buffer in it.
        index: u32,
    },
    /// A frame about a place that has nothing to do with it: a refusal or a grant of a request that
    /// is not on its way, a request that was not granted, a withdrawal of none.
    StrayPlace {
        /// The kind of the frame.
        kind: u8,
        /// The number of the request.
        number: u64,
    },
    /// More requests than a receiver keeps places for.
    TooManyPlaces {
        /// How many places there are.
        max: u32,
    },
    /// More bytes of refused requests in the ring than a receiver copies.
    TooManyCopies {
        /// The bytes that would be copied.
        seen: u64,
        /// How many may be.
        max: u64,
    },
    /// A request longer than the room that was asked for.
    BeyondReserved {
        /// The bytes that it is charged with.
        len: u64,
        /// The bytes that were asked for.
        reserved: u64,
    },
    /// A payload that does not decode to the types of its method.
    Undecodable {
        /// The method whose arguments or result these were.
        method: u16,
        /// The payload length.
        len: u32,
    },
    /// A failed call whose code does not exist.
    UnknownFailCode {
        /// The code seen.
        code: u8,
    },
    /// A switch to a segment that was never handed over.
    SwitchWithoutSegment {
        /// The generation the switch names.
        generation: u32,
    },
    /// A segment whose size is not one a lane may have.
    SegmentSize {
        /// The bytes it has, or says it has.
        bytes: u64,
        /// The fewest allowed.
        min: u32,
        /// The most allowed.
        max: u32,
    },
    /// A frame in a state in which its kind may not come.
    OutOfPlace {
        /// Its kind.
        kind: u8,
        /// The state, in words: `after goodbye`.
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
    /// A record in a state in which its kind may not come.
    RecordOutOfPlace {
        /// Its kind, in words.
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
        /// The field.
        field: &'static str,
    },
    /// A field of a record whose value is not allowed.
    RecordField {
        /// The field.
        field: &'static str,
    },
    /// A record that goes on behind its last field.
    RecordTrailing {
        /// The bytes left over.
        bytes: u32,
    },
    /// A record without its descriptors, or with too many.
    Descriptors {
        /// How many came beside the record.
        seen: u32,
        /// How many its kind has.
        expected: u32,
    },
}

// A rule travels in the `Err` of the hottest functions.
const _: () = assert!(size_of::<Rule>() <= 24);

impl core::error::Error for Rule {}

impl Rule {
    /// Whether the rule is about records on the socket and not about frames in a lane.
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
