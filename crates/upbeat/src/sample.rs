//! Stamps on the way of a message: taken if it is sampled, compiled away if it is not.
//!
//! The path of a message is written once, generic over who takes stamps: [`Unsampled`] does nothing
//! and leaves nothing in the code; a [`Sample`] takes those that the message's manner wants. So a
//! message that is not sampled pays nothing for the bill but the question whether it is.

use std::sync::Arc;
use upbeat_core::bill::Counter;
use upbeat_core::bill::taken::{Billed, Reading, Taken, Written};
use upbeat_core::bill::way::{Happened, Manner, Point, whole_stamp};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_memory::ticks::{ticks, ticks_after};
use upbeat_sync::Awaited;
use upbeat_transport::carrier::Carrier;

/// Who takes the stamps.
pub(crate) trait Stamps {
    /// The message passes a point.
    fn at(&mut self, point: Point);

    /// In which manner its head says that it is stamped.
    fn manner(&self) -> Option<Manner>;

    /// The message was written into a carrier's lane: between hosts its way through the socket is stamped too.
    #[inline(always)]
    fn published(&mut self, _: &Carrier) {}

    /// The words of the head that is about to be written.
    #[inline(always)]
    fn on_head(&mut self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// The words of a one-way message's head, with the stamp that they carry.
    #[inline(always)]
    fn on_oneway(&self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// The words of a reply's head, with the stamp that they carry.
    #[inline(always)]
    fn on_reply(&mut self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// The sample itself, to go on with as a task.
    #[inline(always)]
    fn sample(&mut self) -> Option<&mut Sample> {
        None
    }
}

/// Nobody.
pub(crate) struct Unsampled;

impl Stamps for Unsampled {
    #[inline(always)]
    fn at(&mut self, _: Point) {}

    #[inline(always)]
    fn manner(&self) -> Option<Manner> {
        None
    }
}

/// Who takes the stamps of a reply, which has a point of its own and is else no message with a
/// bill.
pub(crate) struct Answering<'a, S: ?Sized>(pub(crate) &'a mut S);

impl<S: Stamps + ?Sized> Stamps for Answering<'_, S> {
    #[inline(always)]
    fn at(&mut self, _: Point) {}

    #[inline(always)]
    fn manner(&self) -> Option<Manner> {
        self.0.manner()
    }

    #[inline(always)]
    fn published(&mut self, carrier: &Carrier) {
        self.0.published(carrier);
    }

    #[inline(always)]
    fn on_head(&mut self, words: [u64; 3]) -> [u64; 3] {
        self.0.on_reply(words)
    }
}

/// What one side knows of a sampled message. It is large and lives on the heap: nodes keep one that
/// is free, so that to begin with it takes next to nothing.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) manner: Manner,
    wants: Wants,
    pub(crate) taken: Taken,
    /// The lock that was waited for, or the condition.
    pub(crate) lock: Option<Arc<str>>,
    /// By what both sides know a one-way message that has come: see [`Message::Oneway`].
    pub(crate) oneway: Option<u64>,
    /// Whether it only warms up those behind it, and is not written down.
    pub(crate) warms: bool,
    /// By what the carrier knows the message of this side, whose writing it watches.
    watched: Option<u64>,
}

impl Sample {
    /// Of a message of this manner.
    pub(crate) fn new(manner: Manner) -> Box<Sample> {
        let (wants, taken) = (Wants::of(manner), Taken::new());
        let (lock, oneway, warms, watched) = (None, None, false, None);
        Box::new(Sample { manner, wants, taken, lock, oneway, warms, watched })
    }

    /// One that is free serves again.
    #[inline]
    pub(crate) fn again(mut self: Box<Sample>, manner: Manner) -> Box<Sample> {
        self.manner = manner;
        self.wants = Wants::of(manner);
        self.taken.clear();
        self.lock = None;
        self.oneway = None;
        self.warms = false;
        self.watched = None;
        self
    }

    /// The message begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.at(Point::Begun);
        self.at(Point::Roomed);
        if self.wants.points == 1 {
            // What a stamp takes: this one is right behind the first.
            self.stamp(Point::Roomed);
        }
    }

    #[inline(always)]
    fn stamp(&mut self, point: Point) {
        self.taken.set(point, self.wants.now());
    }

    /// By what both sides know it, if it is a one-way message of this side.
    pub(crate) fn as_oneway(&self) -> Message {
        Message::Oneway(self.taken.at(Point::Begun).unwrap_or(0))
    }

    /// Whether its way through the socket is stamped, so that this side's half waits for that.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some()
    }

    /// When its message was written to the socket, as far as the carrier knows.
    pub(crate) fn writing(&self, carrier: &Carrier) -> Written {
        self.watched.map_or(Written::Unknown, |watched| carrier.writing(watched))
    }

    /// When the message was read from its socket that lies open.
    pub(crate) fn read(&mut self, carrier: &Carrier) {
        if self.manner == Manner::Whole {
            carrier.reading().into_iter().for_each(|reading| self.taken.request_read(reading));
        }
    }

    /// Whether the head cannot carry all that the sender of a one-way message has stamped.
    pub(crate) fn needs_frame(&self) -> bool {
        match self.manner {
            Manner::Whole => true,
            Manner::Pair(point) => usize::from(point) <= Point::WokeThere.index(),
            Manner::Marked | Manner::Thrice => false,
            Manner::Waiting => true,
        }
    }

    /// Where stamps are wanted, for who has not got the sample at hand.
    #[inline]
    pub(crate) fn wants(&self) -> Wants {
        self.wants
    }

    /// Notes when a point was passed, if that is wanted.
    #[inline]
    pub(crate) fn known(&mut self, point: Point, ticks: u64) {
        if self.wants.has(point) {
            self.taken.set(point, ticks);
        }
    }

    /// Names what is waited for, if it has a name.
    fn names(&mut self, reason: Reason, name: Option<Arc<str>>) {
        let Some(name) = name else { return };
        self.lock = Some(name);
        let happened = self.taken.happened.without(Happened::CONDITION);
        let is_condition = reason == Reason::Condition;
        self.taken.happened =
            if is_condition { happened.with(Happened::CONDITION) } else { happened };
    }

    /// Something happened besides.
    #[inline]
    pub(crate) fn note(&mut self, happened: Happened) {
        self.taken.happened = self.taken.happened.with(happened);
    }
}

impl Stamps for Sample {
    #[inline(always)]
    fn at(&mut self, point: Point) {
        if self.wants.has(point) {
            self.stamp(point);
        }
    }

    #[inline]
    fn manner(&self) -> Option<Manner> {
        self.manner.marks().then_some(self.manner)
    }

    fn published(&mut self, carrier: &Carrier) {
        if self.manner == Manner::Whole {
            self.watched = carrier.watch();
        }
    }

    #[inline]
    fn on_oneway(&self, words: [u64; 3]) -> [u64; 3] {
        Head::stamped_oneway(words, self.taken.at(Point::Begun).unwrap_or(0))
    }

    #[inline]
    fn on_reply(&mut self, words: [u64; 3]) -> [u64; 3] {
        self.at(Point::Replied);
        let last = self.wants.points & ((1 << Point::WokeHere as u32) - 2);
        let stamp = match self.manner {
            Manner::Pair(_) if last != 0 => self.taken.at_index(last.ilog2() as usize),
            _ => None,
        };
        Head::stamped_reply(words, stamp.unwrap_or(0))
    }

    fn sample(&mut self) -> Option<&mut Sample> {
        Some(self)
    }
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A lock.
    Lock,
    /// A condition, or a signal.
    Condition,
    /// Room at a peer.
    Full,
    /// Nothing: its time was used up.
    Budget,
    /// A call.
    Call,
    /// A timer.
    Timer,
    /// Something that is not ours.
    #[default]
    Other,
}

impl From<Awaited> for Reason {
    fn from(what: Awaited) -> Reason {
        match what {
            Awaited::Condition | Awaited::Signal | Awaited::Value => Reason::Condition,
            _ => Reason::Lock,
        }
    }
}

impl Reason {
    /// What counts the handlers that it made tasks.
    #[inline(always)]
    pub(crate) const fn counter(self) -> Counter {
        const COUNTERS: [Counter; 7] = [
            Counter::PromotedByLock,
            Counter::PromotedByCondition,
            Counter::PromotedByFull,
            Counter::PromotedByBudget,
            Counter::PromotedByCall,
            Counter::PromotedByTimer,
            Counter::PromotedByOther,
        ];
        COUNTERS[self as usize]
    }

    /// What a handler would have waited for, in words; the lock by its name, if it has one.
    pub(crate) fn text(self, name: Option<&str>) -> String {
        let what = match self {
            Reason::Lock => "a lock",
            Reason::Condition => "a condition",
            Reason::Full => "room at a peer",
            Reason::Budget => "its turn, for its time was used up",
            Reason::Call => "a call",
            Reason::Timer => "a timer",
            Reason::Other => "something else",
        };
        match name {
            Some(name) => format!("{what}, `{name}`"),
            None => what.to_owned(),
        }
    }
}

/// The time of a handler that has become a task, told apart by what it did.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) sample: Box<Sample>,
    /// When it became a task.
    promoted: u64,
    /// When it was last polled to no end.
    paused: u64,
    /// What it has waited for since.
    reason: Reason,
    lock: u64,
    wait: u64,
    queue: u64,
}

impl Timed {
    /// A handler has become a task, and waits for this.
    pub(crate) fn new(
        mut sample: Box<Sample>,
        (reason, lock): (Reason, Option<Arc<str>>),
    ) -> Timed {
        sample.note(Happened::PROMOTED);
        sample.names(reason, lock);
        let (promoted, paused) = (ticks(), sample.taken.at(Point::Ran));
        let paused = paused.unwrap_or(promoted).max(promoted);
        Timed { sample, promoted, paused, reason, lock: 0, wait: 0, queue: 0 }
    }

    /// It is polled again, having been woken then.
    pub(crate) fn resumed(&mut self, woken: u64) {
        let now = ticks();
        let woken = woken.clamp(self.paused, now.max(self.paused));
        self.queue += now.saturating_sub(woken);
        let waited = woken - self.paused;
        match self.reason {
            Reason::Lock => self.lock += waited,
            _ => self.wait += waited,
        }
    }

    /// It waits again, for this; for a lock or a condition of this name, if it has one.
    pub(crate) fn paused(&mut self, (reason, lock): (Reason, Option<Arc<str>>)) {
        self.paused = ticks();
        self.reason = reason;
        self.sample.names(reason, lock);
    }

    /// It is done: the sums become stamps, one behind the other.
    pub(crate) fn finished(mut self) -> Box<Sample> {
        let locked = self.promoted + self.lock;
        let waited = locked + self.wait;
        let points = [
            (Point::Promoted, self.promoted),
            (Point::Locked, locked),
            (Point::Waited, waited),
            (Point::Queued, waited + self.queue),
        ];
        points.into_iter().for_each(|(point, ticks)| self.sample.known(point, ticks));
        self.sample.at(Point::Finished);
        self.sample
    }
}

/// Where stamps of a message are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// The points where stamps are taken, a bit each.
    points: u32,
    /// Whether they wait until what comes before them is done.
    waits: bool,
}

impl Wants {
    #[inline]
    fn of(manner: Manner) -> Wants {
        Wants { points: manner.points(), waits: manner.waits() }
    }

    #[inline(always)]
    fn has(self, point: Point) -> bool {
        self.points & 1 << point as u32 != 0
    }

    /// A stamp.
    #[inline(always)]
    fn now(self) -> u64 {
        if self.waits { ticks_after() } else { ticks() }
    }

    /// A stamp, if one is wanted at this point.
    #[inline(always)]
    pub(crate) fn at(self, point: Point) -> u64 {
        if self.has(point) { self.now() } else { 0 }
    }
}

/// A service and a method.
pub(crate) type Names = (&'static str, &'static str);

/// By what both sides know a sampled message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A call, by its number.
    Call(CallNumber),
    /// A one-way message, by its first stamp in ticks of its sender, which its head carries.
    Oneway(u64),
}

/// A sampled message of which one half is there.
pub(crate) struct Half {
    pub(crate) message: Message,
    pub(crate) names: Names,
    pub(crate) sample: Box<Sample>,
}

impl Half {
    /// Takes over the peer's stamps: a call is billed by its caller, a one-way message by its receiver.
    pub(crate) fn join(&mut self, peers: &Taken) {
        let billed = match self.message {
            Message::Call(_) => Billed::Here,
            Message::Oneway(_) => Billed::There,
        };
        self.sample.taken.join(peers, billed);
    }
}

/// What the dispatcher stamps of a sampled answer before its future is polled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) call: CallNumber,
    /// As it stands in the answer's head.
    pub(crate) manner: u8,
    /// When the node last woke.
    pub(crate) woke: u64,
    pub(crate) noticed: u64,
    pub(crate) checked: u64,
    pub(crate) found: u64,
    /// The stamp that its head carries.
    pub(crate) there: u64,
    /// Whether that is of another host's counter.
    pub(crate) elsewhere: bool,
    /// When it was read from its socket.
    pub(crate) reading: Option<Reading>,
    /// Whether the dispatcher had been busy.
    pub(crate) busy: bool,
    /// Whether the answer was copied before its future was polled.
    pub(crate) stashed: bool,
}

impl Sample {
    /// Takes over what the dispatcher stamped of the answer.
    pub(crate) fn hear(&mut self, heard: &Heard) {
        let points = [
            (Point::WokeHere, heard.woke),
            (Point::NoticedHere, heard.noticed),
            (Point::CheckedHere, heard.checked),
            (Point::FoundHere, heard.found),
        ];
        points.into_iter().for_each(|(point, ticks)| self.known(point, ticks));
        let there = self.wants.points & Manner::POINTS_THERE;
        if matches!(self.manner, Manner::Pair(_)) && there != 0 && !heard.elsewhere {
            let stamp = whole_stamp(heard.there, heard.noticed.max(ticks()));
            self.taken.set_index(there.ilog2() as usize, stamp);
        }
        heard.reading.into_iter().for_each(|reading| self.taken.reply_read(reading));
        if heard.busy {
            self.note(Happened::BUSY_HERE);
        }
        if heard.stashed {
            self.note(Happened::STASHED);
        }
    }
}

#[cfg(test)]
mod tests;
