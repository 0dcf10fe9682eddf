//! The ways of messages: the points that they pass, and the phases between these points.
//!
//! A primitive has a [`Way`]: a name and its phases, in order. A phase ends at a point, happens at one place, and
//! is charged to one item. The rest of the bill works with any way, so a new primitive only declares its phases
//! here. Messages between hosts have more phases than those in shared memory: they are encrypted, written and
//! read.
//!
//! A sampled message is stamped in one of several manners ([`StampMode`]): at a pair of points, of which the first is
//! always the beginning of the message, or at all points, which is called a full sample. A stamp takes about 10
//! ns, so pairs measure a phase almost undisturbed, and full samples show what happened to one message. If code
//! other than the sender's future takes a stamp, the message's head is marked with the manner, and the dispatchers
//! handle the message on another path; a further manner measures the cost of that. Invariant: a manner fits in a
//! byte, 0 means "not sampled", and any byte gives a manner or none.

use super::Item;

/// The place where a phase happens. Between hosts, the time on the wire is only as certain as the offset between
/// the clocks; the sum of both directions is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At the node where the message begins.
    Here,
    /// Between the nodes.
    Wire,
    /// At the receiving node.
    There,
}

impl Place {
    /// Returns the name, in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Here => "here",
            Place::Wire => "wire",
            Place::There => "there",
        }
    }
}

/// The work between two points of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The item of the bill to which the phase is charged.
    pub item: Item,
    /// The place where the phase happens.
    pub place: Place,
    /// The point at which the phase ends. The phase begins where the previous one ends.
    pub ends: Point,
    /// Whether a pair can end at that point. Phases without such an end are separated by full samples.
    pub paired: bool,
}

/// The largest number of points of a way; each has a bit in a word.
pub const POINTS_MAX: usize = 32;

/// Pairs end at one of this many first points, since the manner of a pair is one byte.
pub const PAIR_POINTS_MAX: usize = 28;

/// The way of a primitive's messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    /// The name of the messages that go this way.
    pub name: &'static str,
    /// The phases between the points.
    pub phases: &'static [Phase],
}

/// A point that messages pass. Each way passes points in the order of its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Point {
    /// The future was polled for the first time.
    Begun,
    /// The message was tried when there was room.
    Roomed,
    /// The message may be sent, and has its number.
    Opened,
    /// The message has room in the lane.
    Claimed,
    /// The payload is written.
    Marshalled,
    /// The head is written; between hosts, the write of the message begins.
    Published,
    /// The receiving node was awake.
    WokeThere,
    /// The receiver saw the message, or could have; between hosts, the read that brought it began.
    SeenThere,
    /// The receiver's dispatcher had opened the message.
    NoticedThere,
    /// The receiver had checked the rules.
    CheckedThere,
    /// The method was known.
    FoundThere,
    /// The arguments were read.
    Decoded,
    /// The handler was polled once.
    Ran,
    /// The handler was a task, if it had to wait.
    Promoted,
    /// The task had its locks.
    Locked,
    /// The task had everything else that it waited for.
    Waited,
    /// The task had its turns.
    Queued,
    /// The handler had finished.
    Finished,
    /// The reply was written except for its head's first word; between hosts, the write of the reply begins.
    Replied,
    /// The caller's node was awake.
    WokeHere,
    /// The caller saw the reply, or could have; between hosts, the read that brought it began.
    SeenHere,
    /// The caller's dispatcher had opened the reply.
    NoticedHere,
    /// The caller had checked the rules.
    CheckedHere,
    /// The waiter of the reply was known.
    FoundHere,
    /// The waiting future was polled.
    Reached,
    /// The result was read.
    Done,
    /// Under TLS, the data of the request's write was encrypted.
    EncryptedHere,
    /// The write of the request had returned.
    WrittenHere,
    /// The read that brought the request was done.
    ReadThere,
    /// Under TLS, the data of the reply's write was encrypted.
    EncryptedThere,
    /// The write of the reply had returned.
    WrittenThere,
    /// The read that brought the reply was done.
    ReadHere,
}

impl Point {
    /// Returns the point's number, which names it in manners and in frames of stamps.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the point's bit among those of all points.
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const fn phase(item: Item, place: Place, ends: Point) -> Phase {
    Phase { item, place, ends, paired: true }
}

/// Creates a phase at whose end no pair ends: it is computed from sums, or only a full sample has a stamp there.
const fn unpaired_phase(item: Item, place: Place, ends: Point) -> Phase {
    Phase { item, place, ends, paired: false }
}

/// The phases of a call under TLS, from the first poll of its future until the future has its result. Other ways
/// omit some.
const PHASES: [Phase; 31] = [
    phase(Item::Room, Place::Here, Point::Roomed),
    phase(Item::FlowControl, Place::Here, Point::Opened),
    phase(Item::Claim, Place::Here, Point::Claimed),
    phase(Item::Marshal, Place::Here, Point::Marshalled),
    phase(Item::Publish, Place::Here, Point::Published),
    unpaired_phase(Item::Encrypt, Place::Here, Point::EncryptedHere),
    unpaired_phase(Item::Write, Place::Here, Point::WrittenHere),
    phase(Item::Wake, Place::Wire, Point::WokeThere),
    unpaired_phase(Item::Wire, Place::Wire, Point::SeenThere),
    unpaired_phase(Item::Read, Place::There, Point::ReadThere),
    phase(Item::Notice, Place::There, Point::NoticedThere),
    phase(Item::Check, Place::There, Point::CheckedThere),
    phase(Item::Dispatch, Place::There, Point::FoundThere),
    phase(Item::Decode, Place::There, Point::Decoded),
    phase(Item::Execute, Place::There, Point::Ran),
    unpaired_phase(Item::Promote, Place::There, Point::Promoted),
    unpaired_phase(Item::Lock, Place::There, Point::Locked),
    unpaired_phase(Item::Wait, Place::There, Point::Waited),
    unpaired_phase(Item::Queue, Place::There, Point::Queued),
    phase(Item::Execute, Place::There, Point::Finished),
    phase(Item::Reply, Place::There, Point::Replied),
    unpaired_phase(Item::Encrypt, Place::There, Point::EncryptedThere),
    unpaired_phase(Item::Write, Place::There, Point::WrittenThere),
    phase(Item::Wake, Place::Wire, Point::WokeHere),
    unpaired_phase(Item::Wire, Place::Wire, Point::SeenHere),
    unpaired_phase(Item::Read, Place::Here, Point::ReadHere),
    phase(Item::Notice, Place::Here, Point::NoticedHere),
    phase(Item::Check, Place::Here, Point::CheckedHere),
    phase(Item::Dispatch, Place::Here, Point::FoundHere),
    phase(Item::Deliver, Place::Here, Point::Reached),
    phase(Item::Decode, Place::Here, Point::Done),
];

/// Returns all phases except those of some items.
const fn without<const N: usize>(items: &[Item]) -> [Phase; N] {
    let mut phases = [PHASES[0]; N];
    let (mut from, mut to) = (0, 0);
    while from < PHASES.len() {
        let (mut at, mut is_in) = (0, true);
        while at < items.len() {
            is_in &= PHASES[from].item as usize != items[at] as usize;
            at += 1;
        }
        if is_in {
            phases[to] = PHASES[from];
            to += 1;
        }
        from += 1;
    }
    assert!(to == N);
    phases
}

/// Returns the phases of a one-way message, up to the end of its handler.
const fn oneway(phases: &'static [Phase]) -> &'static [Phase] {
    let mut count = 1;
    while phases[count - 1].ends as usize != Point::Finished as usize {
        count += 1;
    }
    phases.split_at(count).0
}

const IN_MEMORY: &[Phase] = &without::<25>(&[Item::Encrypt, Item::Write, Item::Read]);
const OVER_TCP: &[Phase] = &without::<29>(&[Item::Encrypt]);

/// The way of a call.
pub const CALL: &Way = &Way { name: "call", phases: IN_MEMORY };

/// The way of a one-way message.
pub const ONEWAY: &Way = &Way { name: "one-way", phases: oneway(IN_MEMORY) };

/// The way of a call between hosts that is not encrypted.
pub const CALL_TCP: &Way = &Way { name: "call over TCP", phases: OVER_TCP };

/// The way of a call between hosts that is encrypted.
pub const CALL_TLS: &Way = &Way { name: "call over TLS", phases: &PHASES };

/// The way of a one-way message between hosts that is not encrypted.
pub const ONEWAY_TCP: &Way = &Way { name: "one-way over TCP", phases: oneway(OVER_TCP) };

/// The way of a one-way message between hosts that is encrypted.
pub const ONEWAY_TLS: &Way = &Way { name: "one-way over TLS", phases: oneway(&PHASES) };

/// Returns the phases of a call at the node that serves it, from the opened request to the written reply.
const fn served(phases: &'static [Phase]) -> &'static [Phase] {
    let mut first = 0;
    while phases[first].item as usize != Item::Check as usize {
        first += 1;
    }
    let mut end = first;
    while phases[end].ends as usize != Point::Replied as usize {
        end += 1;
    }
    phases.split_at(end + 1).0.split_at(first).1
}

/// The way of a call as the node that serves it sees it, over any carrier. It begins where the node has opened the
/// request.
pub const SERVED: &Way = &Way { name: "served call", phases: served(IN_MEMORY) };

/// All ways. A record names its way by the index in this list.
pub const WAYS: &[&Way] = &[CALL, ONEWAY, CALL_TCP, CALL_TLS, ONEWAY_TCP, ONEWAY_TLS, SERVED];

const _: () = assert!(PHASES.len() < POINTS_MAX && POINTS_MAX == u32::BITS as usize);
const _: () = assert!(Point::ReadHere.index() < POINTS_MAX);
const _: () = assert!(Point::Done.index() < PAIR_POINTS_MAX);

impl Way {
    /// Returns the number of points.
    pub const fn points(&self) -> usize {
        self.phases.len() + 1
    }

    /// Iterates over the points, in order.
    pub fn order(&self) -> impl Iterator<Item = Point> + '_ {
        core::iter::once(Point::Begun).chain(self.phases.iter().map(|phase| phase.ends))
    }

    /// Returns the index of the point with this number among the way's points, which is the index of its stamp.
    pub fn place(&self, point: usize) -> Option<usize> {
        self.order().position(|one| one.index() == point)
    }

    /// Returns whether the way includes a reply.
    pub fn is_answered(&self) -> bool {
        self.phases.last().is_some_and(|phase| phase.ends == Point::Done)
    }

    /// Returns the index of the way in [`WAYS`].
    pub fn number(&self) -> u8 {
        WAYS.iter().position(|way| *way == self).unwrap_or(0) as u8
    }

    /// Iterates over all manners in which messages of this way are stamped, except full samples.
    pub fn pairs(&self) -> impl Iterator<Item = StampMode> + '_ {
        let ends_here = self.is_answered();
        let whole = [StampMode::Thrice, StampMode::Marked].into_iter().filter(move |_| ends_here);
        self.rungs().map(StampMode::Pair).chain([StampMode::Waiting]).chain(whole)
    }

    /// Iterates over the points at which pairs end, in order. The first is the beginning: the pair that ends there
    /// measures a stamp.
    pub fn rungs(&self) -> impl Iterator<Item = u8> + '_ {
        let paired = |phase: &Phase| phase.paired.then_some(phase.ends as u8);
        core::iter::once(0).chain(self.phases.iter().filter_map(paired))
    }
}

/// The manner in which a sampled message is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampMode {
    /// At the beginning, and at this point.
    Pair(u8),
    /// At every point.
    Whole,
    /// At the beginning and at the end, in a message that is marked although its pair needs no mark.
    Marked,
    /// Twice at the beginning, with serialising stamps: the time of such a stamp.
    Waiting,
    /// At the beginning, at the point where the message has its number, and at the end: the time of a stamp among
    /// other work, with which the processor overlaps it.
    Thrice,
}

impl StampMode {
    /// Returns the byte of the manner in a head, where 0 means "not sampled".
    #[inline]
    pub const fn byte(self) -> u8 {
        match self {
            StampMode::Pair(point) => point + 1,
            StampMode::Whole => u8::MAX,
            StampMode::Marked => u8::MAX - 1,
            StampMode::Waiting => u8::MAX - 2,
            StampMode::Thrice => u8::MAX - 3,
        }
    }

    /// Returns the manner of the byte in a head, or none if the byte names none.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<StampMode> {
        match byte {
            0 => None,
            u8::MAX => Some(StampMode::Whole),
            0xfe => Some(StampMode::Marked),
            0xfd => Some(StampMode::Waiting),
            0xfc => Some(StampMode::Thrice),
            byte if byte as usize <= PAIR_POINTS_MAX => Some(StampMode::Pair(byte - 1)),
            _ => None,
        }
    }

    /// Returns the points where stamps are taken, one bit each. The waking of a node is always stamped, and has no
    /// meaning without the point before it.
    #[inline]
    pub const fn points(self) -> u32 {
        const WAKINGS: u32 = 1 << Point::WokeThere as u32 | 1 << Point::WokeHere as u32;
        match self {
            StampMode::Whole => u32::MAX,
            StampMode::Marked => 1 | 1 << Point::Done as u32,
            StampMode::Waiting => 1,
            StampMode::Thrice => 1 | 1 << Point::Opened as u32 | 1 << Point::Done as u32,
            StampMode::Pair(point) => {
                let end = 1 << (point as u32 % u32::BITS);
                1 | end | (end & WAKINGS) >> 1
            }
        }
    }

    /// Returns whether a call must be marked, because code other than its future takes a stamp.
    #[inline]
    pub const fn marks(self) -> bool {
        const OTHERS: u32 = (1 << Point::Reached as u32) - (1 << Point::WokeThere as u32);
        matches!(self, StampMode::Marked) || self.points() & OTHERS != 0
    }

    /// Returns whether the stamps wait until all earlier instructions are done. A processor that waits for a line
    /// executes later instructions, and takes a stamp without that wait too early. Pairs of the sender itself do
    /// not wait, since both ends are too early by the same time.
    #[inline]
    pub const fn waits(self) -> bool {
        self.marks() || matches!(self, StampMode::Waiting)
    }

    /// Returns whether two stamps of different clocks are compared, in a message of this way with two stamped
    /// points. Between hosts such a comparison has little value.
    pub fn compares(self, way: &Way) -> bool {
        let is_whole = matches!(self, StampMode::Whole);
        let theirs = match way.is_answered() {
            true => StampMode::POINTS_THERE,
            false => u32::MAX << Point::WokeThere as u32,
        };
        !is_whole && self.points() & theirs != 0
    }

    /// The points that the receiving node stamps on every way, one bit each.
    pub const POINTS_THERE: u32 = (1 << Point::WokeHere as u32) - (1 << Point::WokeThere as u32);
}

/// Returns the latest ticks not after `now` whose lower 48 bits are `low`, since a node may have woken long ago.
/// If another processor's counter is a moment ahead, the result is `now`.
pub const fn whole_stamp(low: u64, now: u64) -> u64 {
    const SPAN: u64 = 1 << 48;
    const MOMENT: u64 = 1 << 30;
    let ahead = low.wrapping_sub(now) % SPAN;
    if ahead < MOMENT { now } else { now.saturating_sub(SPAN - ahead) }
}

/// Further events of a sampled message, one bit each; and the longest run of its handler, if that exceeded the budget
/// of its method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageEvents(pub u32);

impl MessageEvents {
    /// The handler had to wait, and became a task.
    pub const PROMOTED: MessageEvents = MessageEvents(1);
    /// The message lay in the lane when the receiver first polled: the dispatcher had been busy.
    pub const BUSY_THERE: MessageEvents = MessageEvents(2);
    /// The reply lay in the lane when the caller first polled: the dispatcher had been busy.
    pub const BUSY_HERE: MessageEvents = MessageEvents(4);
    /// The reply was copied, because its waiter was no task or polled something else first.
    pub const STASHED: MessageEvents = MessageEvents(8);
    /// The lane was full.
    pub const FULL: MessageEvents = MessageEvents(16);
    /// The name that the handler waited for is that of a condition, not of a lock.
    pub const CONDITION: MessageEvents = MessageEvents(32);
    /// The name that the handler waited for is that of a node from which it awaited a reply.
    pub const CALL: MessageEvents = MessageEvents(64);

    /// The first bit of the longest run, in microseconds.
    const RUN_AT: u32 = 8;
    /// The longest run that can be told.
    const RUN_US_MAX: u32 = u32::MAX >> Self::RUN_AT;

    /// The events that are shown, and their names.
    pub const ALL: [(MessageEvents, &str); 5] = [
        (MessageEvents::PROMOTED, "promoted"),
        (MessageEvents::BUSY_THERE, "callee busy"),
        (MessageEvents::BUSY_HERE, "caller busy"),
        (MessageEvents::STASHED, "reply copied"),
        (MessageEvents::FULL, "lane full"),
    ];

    /// Returns the union of both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: MessageEvents) -> MessageEvents {
        MessageEvents(self.0 | other.0)
    }

    /// Returns this set without the other.
    #[inline]
    #[must_use]
    pub const fn without(self, other: MessageEvents) -> MessageEvents {
        MessageEvents(self.0 & !other.0)
    }

    /// Returns this set with a run of the handler without a pause that exceeded the budget of its method. The longest
    /// run of a message is kept.
    #[must_use]
    pub const fn with_run_us(self, us: u64) -> MessageEvents {
        let us = if us > Self::RUN_US_MAX as u64 { Self::RUN_US_MAX } else { us as u32 };
        let is_longer = us > self.0 >> Self::RUN_AT;
        let others = self.0 & !(Self::RUN_US_MAX << Self::RUN_AT);
        if is_longer { MessageEvents(others | us << Self::RUN_AT) } else { self }
    }

    /// Returns the longest run of the handler in microseconds, if it exceeded the budget of its method.
    pub const fn run_us(self) -> Option<u32> {
        match self.0 >> Self::RUN_AT {
            0 => None,
            us => Some(us),
        }
    }

    /// Returns whether this set includes the other.
    #[inline]
    pub const fn has(self, other: MessageEvents) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests;
