//! The ways of messages: the points that they pass, and what lies between.
//!
//! A primitive has a [`Way`]: a name and its phases, in order. Phase `n` lies between points `n` and
//! `n + 1`, happens at one place, and is charged to one item. Everything else about bills works
//! on any way, so a new primitive only names its phases here.
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
    /// Whether a pair can end where it ends. What has no such end is told apart by whole stories.
    pub paired: bool,
}

/// The most points that a way has.
pub const POINTS_MAX: usize = 28;

/// The way of a primitive's messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    /// The name of the messages that go this way.
    pub name: &'static str,
    /// The work between its points.
    pub phases: &'static [Phase],
}

/// A point that messages pass. All ways have the first ones in common.
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
    /// Its head is written.
    Published,
    /// Its node was awake, there.
    WokeThere,
    /// It was seen there, or could have been.
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
    /// The answer was written but for its head's first word.
    Replied,
    /// The caller's node was awake.
    WokeHere,
    /// The answer was seen here, or could have been.
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
}

impl Point {
    /// Its place in a way.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }
}

const fn phase(item: Item, place: Place) -> Phase {
    Phase { item, place, paired: true }
}

/// One whose end is reckoned from sums, so that no stamp stands there.
const fn reckoned(item: Item, place: Place) -> Phase {
    Phase { item, place, paired: false }
}

/// Of a call: from the first poll of its future until that has its result.
const CALL_PHASES: &[Phase] = &[
    phase(Item::Room, Place::Here),
    phase(Item::FlowControl, Place::Here),
    phase(Item::Claim, Place::Here),
    phase(Item::Marshal, Place::Here),
    phase(Item::Publish, Place::Here),
    phase(Item::Wake, Place::Wire),
    reckoned(Item::Wire, Place::Wire),
    phase(Item::Notice, Place::There),
    phase(Item::Check, Place::There),
    phase(Item::Dispatch, Place::There),
    phase(Item::Decode, Place::There),
    phase(Item::Execute, Place::There),
    reckoned(Item::Promote, Place::There),
    reckoned(Item::Lock, Place::There),
    reckoned(Item::Wait, Place::There),
    reckoned(Item::Queue, Place::There),
    phase(Item::Execute, Place::There),
    phase(Item::Reply, Place::There),
    phase(Item::Wake, Place::Wire),
    reckoned(Item::Wire, Place::Wire),
    phase(Item::Notice, Place::Here),
    phase(Item::Check, Place::Here),
    phase(Item::Dispatch, Place::Here),
    phase(Item::Deliver, Place::Here),
    phase(Item::Decode, Place::Here),
];

/// Of a one-way message: from the first poll of its future until its handler is done. The same
/// points as of a call, as far as they go.
const ONEWAY_PHASES: &[Phase] = CALL_PHASES.split_at(Point::Finished.index()).0;

/// The way of a call.
pub const CALL: &Way = &Way { name: "call", phases: CALL_PHASES };

/// The way of a one-way message.
pub const ONEWAY: &Way = &Way { name: "one-way", phases: ONEWAY_PHASES };

/// All ways. A record names its way by its place here.
pub const WAYS: &[&Way] = &[CALL, ONEWAY];

const _: () = assert!(CALL_PHASES.len() == Point::Done.index());
const _: () = assert!(CALL_PHASES.len() < POINTS_MAX && POINTS_MAX <= u32::BITS as usize);

impl Way {
    /// Points that it has.
    pub const fn points(&self) -> usize {
        self.phases.len() + 1
    }

    /// Its place among all.
    pub fn number(&self) -> u8 {
        WAYS.iter().position(|way| *way == self).unwrap_or(0) as u8
    }

    /// All manners in which messages of this way are stamped, but for whole stories.
    pub fn pairs(&self) -> impl Iterator<Item = Manner> + '_ {
        let ends_here = self.points() > Point::Done.index();
        let whole = [Manner::Thrice, Manner::Marked].into_iter().filter(move |_| ends_here);
        self.rungs().map(Manner::Pair).chain([Manner::Waiting]).chain(whole)
    }

    /// The points at which pairs end, in order. The first is the beginning: such a pair is what a
    /// stamp takes.
    pub fn rungs(&self) -> impl Iterator<Item = u8> + '_ {
        let paired = |(at, phase): (usize, &Phase)| phase.paired.then_some(at as u8 + 1);
        core::iter::once(0).chain(self.phases.iter().enumerate().filter_map(paired))
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
            byte if byte as usize <= POINTS_MAX => Some(Manner::Pair(byte - 1)),
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
    pub const fn compares(self, way: &Way) -> bool {
        let is_whole = matches!(self, Manner::Whole);
        let ends_there = way.points() <= Point::Done.index();
        let theirs =
            if ends_there { u32::MAX << Point::WokeThere as u32 } else { Manner::POINTS_THERE };
        !is_whole && self.points() & theirs != 0
    }

    /// The points that are stamped there, a bit each.
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
mod tests {
    use super::*;

    #[test]
    fn any_byte_gives_a_manner_or_none() {
        assert_eq!(Manner::from_byte(0), None);
        assert_eq!(Manner::from_byte(255), Some(Manner::Whole));
        for byte in 1..=254 {
            if let Some(manner) = Manner::from_byte(byte) {
                assert_eq!(manner.byte(), byte);
            } else {
                assert!(byte as usize > POINTS_MAX);
            }
        }
    }

    #[test]
    fn a_pair_is_two_points_and_three_where_a_node_wakes() {
        for way in WAYS {
            for rung in way.rungs() {
                let points = Manner::Pair(rung).points();
                assert_eq!(points & 1, 1);
                assert_ne!(points & 1 << rung, 0);
                let wakes =
                    [Point::WokeThere, Point::WokeHere].iter().any(|at| at.index() as u8 == rung);
                let count = if rung == 0 { 1 } else { 2 + u32::from(wakes) };
                assert_eq!(points.count_ones(), count, "{rung}");
            }
        }
    }

    #[test]
    fn what_only_the_callers_future_stamps_is_not_marked() {
        for rung in CALL.rungs() {
            let own = rung <= Point::Published as u8 || rung >= Point::Reached as u8;
            assert_eq!(Manner::Pair(rung).marks(), !own, "{rung}");
        }
        assert!(Manner::Whole.marks() && Manner::Marked.marks());
        assert_eq!(Manner::Marked.points(), Manner::Pair(Point::Done as u8).points());
        let manners: Vec<Manner> = CALL.pairs().collect();
        assert_eq!((manners.len(), manners.last()), (23, Some(&Manner::Marked)));
        assert!(Manner::Waiting.waits() && !Manner::Waiting.marks() && !Manner::Pair(25).waits());
        assert!(!ONEWAY.pairs().any(|manner| manner == Manner::Marked));
    }

    #[test]
    fn what_is_stamped_there_is_known_from_the_manner() {
        let there = |manner: Manner| manner.points() & Manner::POINTS_THERE != 0;
        assert!(!there(Manner::Pair(5)) && !there(Manner::Pair(20)));
        assert!(there(Manner::Pair(6)), "the node there wakes");
        assert!(there(Manner::Pair(18)) && there(Manner::Pair(19)) && there(Manner::Whole));
    }

    #[test]
    fn a_stamp_is_whole_again_and_never_after_now() {
        let span = 1_u64 << 48;
        for now in [span * 5 + 3, span * 5 - 3, span - 1, span / 2 + 9, span / 2, 7] {
            for ago in [0, 1, 5, span / 4, span / 2 + 1, span - (1 << 31)] {
                let Some(stamp) = now.checked_sub(ago) else { continue };
                assert_eq!(whole_stamp(stamp % span, now), stamp, "{ago} before {now}");
            }
            assert_eq!(whole_stamp((now + 1000) % span, now), now, "a moment ahead of {now}");
            // Whatever a peer may write.
            for low in [0, 1, span / 4, span / 2, span - 1, now.wrapping_add(span / 2), u64::MAX] {
                assert!(whole_stamp(low, now) <= now, "{low} at {now}");
            }
        }
        assert_eq!(whole_stamp(0, span / 2 + 9), 0, "never, however long ago");
        assert_eq!(whole_stamp(9, 7 << 20), 9);
    }

    #[test]
    fn a_way_begins_here_and_a_call_ends_here() {
        assert_eq!(ONEWAY.points(), Point::Finished.index() + 1);
        assert!(ONEWAY.phases.iter().zip(CALL.phases).all(|(one, other)| one == other));
        assert_eq!(CALL.phases[CALL.phases.len() - 1].place, Place::Here);
        assert_eq!((CALL.number(), ONEWAY.number()), (0, 1));
        assert_eq!(CALL.rungs().count(), 20);
    }
}
