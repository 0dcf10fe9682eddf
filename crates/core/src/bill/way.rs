//! The ways of messages: the points that they pass, and what lies between.
//!
//! A primitive has a [`Way`]: a name and its phases, in order. A phase ends at a point, happens at one place, and is
//! charged to one item. Everything else about bills works on any way, so a new primitive only names its phases here.
//! Between hosts messages go other ways than in shared memory: they are encrypted, written, and read besides.
//!
//! A sampled message is stamped in one of two manners ([`Manner`]): at a pair of points, of which
//! the first is always where the message begins, or at all of them. A stamp takes about 10 ns, so
//! pairs tell what a phase takes when nobody looks on, and whole stories what happened to one
//! message. Where others than its sender's future take a stamp, the message's head is marked with
//! the manner, and then goes another way through the dispatchers than most; what that costs, a
//! third manner tells. Invariant: a manner fits in a byte, 0 is "not sampled", and any byte gives a
//! manner or none.

use super::Item;

/// Where a phase happens. Between hosts what is on the wire is known as well as the offset of their clocks is; the sum
/// of both directions is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At the node where the message begins.
    Here,
    /// Between the nodes.
    Wire,
    /// At the node that it is for.
    There,
}

impl Place {
    /// Its name, in one word.
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
    /// The item of the bill to which it is charged.
    pub item: Item,
    /// Where it happens.
    pub place: Place,
    /// The point at which it ends; it begins where the phase before it ends.
    pub ends: Point,
    /// Whether a pair can end where it ends. What has no such end is told apart by whole stories.
    pub paired: bool,
}

/// The most points that a way has; each has a bit in a word.
pub const POINTS_MAX: usize = 32;

/// A pair ends at one of this many first points: the manner of a pair is one byte.
pub const PAIR_POINTS_MAX: usize = 28;

/// The way of a primitive's messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    /// The name of the messages that go this way.
    pub name: &'static str,
    /// The work between its points.
    pub phases: &'static [Phase],
}

/// A point that messages pass. Ways pass them in the order of their phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Point {
    /// Its future was polled first.
    Begun,
    /// It was tried when there was room.
    Roomed,
    /// It may go, and has its number.
    Opened,
    /// It has room in the lane.
    Claimed,
    /// Its payload is written.
    Marshalled,
    /// Its head is written; between hosts, the write that takes it along begins.
    Published,
    /// Its node was awake, there.
    WokeThere,
    /// It was seen there, or could have been; between hosts, the read that brought it began.
    SeenThere,
    /// The dispatcher had it open, there.
    NoticedThere,
    /// It kept the rules.
    CheckedThere,
    /// Its method was known.
    FoundThere,
    /// Its arguments were read.
    Decoded,
    /// Its handler was polled once.
    Ran,
    /// Its handler was a task, if it had to wait.
    Promoted,
    /// The task had its locks.
    Locked,
    /// The task had what else it waited for.
    Waited,
    /// The task had its turns.
    Queued,
    /// The handler was done.
    Finished,
    /// The answer was written but for its head's first word; between hosts, the write that takes it along begins.
    Replied,
    /// The caller's node was awake.
    WokeHere,
    /// The answer was seen here, or could have been; between hosts, the read that brought it began.
    SeenHere,
    /// The dispatcher had it open, here.
    NoticedHere,
    /// It kept the rules.
    CheckedHere,
    /// Who waits for it was known.
    FoundHere,
    /// Its future was polled.
    Reached,
    /// The result was read.
    Done,
    /// Under TLS, what was sent with it was encrypted.
    EncryptedHere,
    /// The write that took it along has returned.
    WrittenHere,
    /// The read that brought it was done, there.
    ReadThere,
    /// Under TLS, what was sent with the answer was encrypted, there.
    EncryptedThere,
    /// The write that took the answer along has returned, there.
    WrittenThere,
    /// The read that brought the answer was done, here.
    ReadHere,
}

impl Point {
    /// Its number, which names it in manners and in frames of stamps.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its bit among those of all points.
    #[inline(always)]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const fn phase(item: Item, place: Place, ends: Point) -> Phase {
    Phase { item, place, ends, paired: true }
}

/// One at whose end no pair ends: it is reckoned from sums, or only a whole story has a stamp there.
const fn reckoned(item: Item, place: Place, ends: Point) -> Phase {
    Phase { item, place, ends, paired: false }
}

/// Of a call under TLS: from the first poll of its future until that has its result. Other ways leave some out.
const PHASES: [Phase; 31] = [
    phase(Item::Room, Place::Here, Point::Roomed),
    phase(Item::FlowControl, Place::Here, Point::Opened),
    phase(Item::Claim, Place::Here, Point::Claimed),
    phase(Item::Marshal, Place::Here, Point::Marshalled),
    phase(Item::Publish, Place::Here, Point::Published),
    reckoned(Item::Encrypt, Place::Here, Point::EncryptedHere),
    reckoned(Item::Write, Place::Here, Point::WrittenHere),
    phase(Item::Wake, Place::Wire, Point::WokeThere),
    reckoned(Item::Wire, Place::Wire, Point::SeenThere),
    reckoned(Item::Read, Place::There, Point::ReadThere),
    phase(Item::Notice, Place::There, Point::NoticedThere),
    phase(Item::Check, Place::There, Point::CheckedThere),
    phase(Item::Dispatch, Place::There, Point::FoundThere),
    phase(Item::Decode, Place::There, Point::Decoded),
    phase(Item::Execute, Place::There, Point::Ran),
    reckoned(Item::Promote, Place::There, Point::Promoted),
    reckoned(Item::Lock, Place::There, Point::Locked),
    reckoned(Item::Wait, Place::There, Point::Waited),
    reckoned(Item::Queue, Place::There, Point::Queued),
    phase(Item::Execute, Place::There, Point::Finished),
    phase(Item::Reply, Place::There, Point::Replied),
    reckoned(Item::Encrypt, Place::There, Point::EncryptedThere),
    reckoned(Item::Write, Place::There, Point::WrittenThere),
    phase(Item::Wake, Place::Wire, Point::WokeHere),
    reckoned(Item::Wire, Place::Wire, Point::SeenHere),
    reckoned(Item::Read, Place::Here, Point::ReadHere),
    phase(Item::Notice, Place::Here, Point::NoticedHere),
    phase(Item::Check, Place::Here, Point::CheckedHere),
    phase(Item::Dispatch, Place::Here, Point::FoundHere),
    phase(Item::Deliver, Place::Here, Point::Reached),
    phase(Item::Decode, Place::Here, Point::Done),
];

/// All phases but those of some items.
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

/// Those of a one-way message: up to the end of its handler.
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

/// All ways. A record names its way by its place here.
pub const WAYS: &[&Way] = &[CALL, ONEWAY, CALL_TCP, CALL_TLS, ONEWAY_TCP, ONEWAY_TLS];

const _: () = assert!(PHASES.len() < POINTS_MAX && POINTS_MAX == u32::BITS as usize);
const _: () = assert!(Point::ReadHere.index() < POINTS_MAX);
const _: () = assert!(Point::Done.index() < PAIR_POINTS_MAX);

impl Way {
    /// Points that it has.
    pub const fn points(&self) -> usize {
        self.phases.len() + 1
    }

    /// The points that it passes, in its order.
    pub fn order(&self) -> impl Iterator<Item = Point> + '_ {
        core::iter::once(Point::Begun).chain(self.phases.iter().map(|phase| phase.ends))
    }

    /// Which of its points has this number, if it has one: the place of its stamp.
    pub fn place(&self, point: usize) -> Option<usize> {
        self.order().position(|one| one.index() == point)
    }

    /// Whether an answer is a part of it.
    pub fn is_answered(&self) -> bool {
        self.phases.last().is_some_and(|phase| phase.ends == Point::Done)
    }

    /// Its place among all.
    pub fn number(&self) -> u8 {
        WAYS.iter().position(|way| *way == self).unwrap_or(0) as u8
    }

    /// All manners in which messages of this way are stamped, but for whole stories.
    pub fn pairs(&self) -> impl Iterator<Item = Manner> + '_ {
        let ends_here = self.is_answered();
        let whole = [Manner::Thrice, Manner::Marked].into_iter().filter(move |_| ends_here);
        self.rungs().map(Manner::Pair).chain([Manner::Waiting]).chain(whole)
    }

    /// The points at which pairs end, in order. The first is the beginning: such a pair is what a
    /// stamp takes.
    pub fn rungs(&self) -> impl Iterator<Item = u8> + '_ {
        let paired = |phase: &Phase| phase.paired.then_some(phase.ends as u8);
        core::iter::once(0).chain(self.phases.iter().filter_map(paired))
    }
}

/// In which manner a sampled message is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// Where it begins, and at this point.
    Pair(u8),
    /// At every point.
    Whole,
    /// Where it begins and where it ends, as a pair that needs no mark, and marked nonetheless.
    Marked,
    /// Twice where it begins, by stamps that wait: what such a stamp takes.
    Waiting,
    /// Where it begins, where it has its number, and where it ends: what a stamp takes among other
    /// work, with which the processor overlaps it.
    Thrice,
}

impl Manner {
    /// As it stands in a head, where 0 is "not sampled".
    #[inline]
    pub const fn byte(self) -> u8 {
        match self {
            Manner::Pair(point) => point + 1,
            Manner::Whole => u8::MAX,
            Manner::Marked => u8::MAX - 1,
            Manner::Waiting => u8::MAX - 2,
            Manner::Thrice => u8::MAX - 3,
        }
    }

    /// Returns the manner that the byte of a head names. None if the byte names none.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Manner> {
        match byte {
            0 => None,
            u8::MAX => Some(Manner::Whole),
            0xfe => Some(Manner::Marked),
            0xfd => Some(Manner::Waiting),
            0xfc => Some(Manner::Thrice),
            byte if byte as usize <= PAIR_POINTS_MAX => Some(Manner::Pair(byte - 1)),
            _ => None,
        }
    }

    /// The points where stamps are taken, a bit each. A node's waking is stamped without being
    /// asked, and says nothing without the point before it.
    #[inline]
    pub const fn points(self) -> u32 {
        const WAKINGS: u32 = 1 << Point::WokeThere as u32 | 1 << Point::WokeHere as u32;
        match self {
            Manner::Whole => u32::MAX,
            Manner::Marked => 1 | 1 << Point::Done as u32,
            Manner::Waiting => 1,
            Manner::Thrice => 1 | 1 << Point::Opened as u32 | 1 << Point::Done as u32,
            Manner::Pair(point) => {
                let end = 1 << (point as u32 % u32::BITS);
                1 | end | (end & WAKINGS) >> 1
            }
        }
    }

    /// Whether a call has to be marked: somebody but its future takes a stamp.
    #[inline]
    pub const fn marks(self) -> bool {
        const OTHERS: u32 = (1 << Point::Reached as u32) - (1 << Point::WokeThere as u32);
        matches!(self, Manner::Marked) || self.points() & OTHERS != 0
    }

    /// Whether its stamps wait until all that comes before them is done. A processor runs ahead
    /// while it waits for a line, and takes a stamp that does not wait before what it is to
    /// follow. Pairs of the sender's own do not: they are ahead by as much at either end.
    #[inline]
    pub const fn waits(self) -> bool {
        self.marks() || matches!(self, Manner::Waiting)
    }

    /// Whether a stamp of one side's clock is compared with one of the other's, in a message of this way of which only
    /// two points are stamped. Between hosts that says little.
    pub fn compares(self, way: &Way) -> bool {
        let is_whole = matches!(self, Manner::Whole);
        let theirs = match way.is_answered() {
            true => Manner::POINTS_THERE,
            false => u32::MAX << Point::WokeThere as u32,
        };
        !is_whole && self.points() & theirs != 0
    }

    /// The points that are stamped there wherever the message goes, a bit each.
    pub const POINTS_THERE: u32 = (1 << Point::WokeHere as u32) - (1 << Point::WokeThere as u32);
}

/// The ticks whose lower 48 bits these are, the latest that are not after `now`: a node may have
/// woken long ago. Another processor's counter may be a moment ahead, and then they are `now`.
pub const fn whole_stamp(low: u64, now: u64) -> u64 {
    const SPAN: u64 = 1 << 48;
    const MOMENT: u64 = 1 << 30;
    let ahead = low.wrapping_sub(now) % SPAN;
    if ahead < MOMENT { now } else { now.saturating_sub(SPAN - ahead) }
}

/// The events that happen to a sampled message besides, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Happened(pub u32);

impl Happened {
    /// Its handler had to wait, and became a task.
    pub const PROMOTED: Happened = Happened(1);
    /// It lay in the lane at the first look there: the dispatcher had been busy.
    pub const BUSY_THERE: Happened = Happened(2);
    /// The same of the answer.
    pub const BUSY_HERE: Happened = Happened(4);
    /// The answer was copied, because its waiter was no task or polled something else first.
    pub const STASHED: Happened = Happened(8);
    /// The lane was full.
    pub const FULL: Happened = Happened(16);
    /// The name that it waited for is that of a condition, not of a lock.
    pub const CONDITION: Happened = Happened(32);

    /// The events that are told, and their names.
    pub const ALL: [(Happened, &str); 5] = [
        (Happened::PROMOTED, "promoted"),
        (Happened::BUSY_THERE, "callee busy"),
        (Happened::BUSY_HERE, "caller busy"),
        (Happened::STASHED, "answer copied"),
        (Happened::FULL, "lane full"),
    ];

    /// Both.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Happened) -> Happened {
        Happened(self.0 | other.0)
    }

    /// These without those.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Happened) -> Happened {
        Happened(self.0 & !other.0)
    }

    /// Whether all of those are among these.
    #[inline]
    pub const fn has(self, other: Happened) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests;
