//! Stamps on the path of a message: taken if the message is sampled, compiled away if not.
//!
//! The path of a message is written once, generic over [`Stamps`]: [`Unsampled`] does nothing and leaves no code; a
//! [`Sample`] takes the stamps that the message's manner wants. A message that is not sampled therefore pays only for
//! the question whether it is.

mod reason;

pub(crate) use reason::Reason;
use std::sync::Arc;
use upbeat_core::bill::taken::{BillingSide, MessageStamps, Reading, Written};
use upbeat_core::bill::way::{MessageEvents, Point, StampMode, whole_stamp};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_memory::ticks::{Ticks, ticks, ticks_after};
use upbeat_transport::carrier::Carrier;

/// A taker of stamps.
pub(crate) trait Stamps {
    /// Stamps the message at a point of its path.
    fn at(&mut self, point: Point);

    /// Returns the manner in which the message's head says that it is stamped.
    fn manner(&self) -> Option<StampMode>;

    /// Notes that the message was written into a carrier's lane: between hosts its path through the socket is stamped
    /// too.
    #[inline(always)]
    fn published(&mut self, _: &Carrier) {}

    /// Returns the words of the head that is about to be written.
    #[inline(always)]
    fn on_head(&mut self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// Returns the words of a one-way message's head, with its stamp.
    #[inline(always)]
    fn on_oneway(&self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// Returns the words of a reply's head, with its stamp.
    #[inline(always)]
    fn on_reply(&mut self, words: [u64; 3]) -> [u64; 3] {
        words
    }

    /// Returns the sample, for a handler that becomes a task.
    #[inline(always)]
    fn sample(&mut self) -> Option<&mut Sample> {
        None
    }
}

/// Takes no stamps.
pub(crate) struct Unsampled;

impl Stamps for Unsampled {
    #[inline(always)]
    fn at(&mut self, _: Point) {}

    #[inline(always)]
    fn manner(&self) -> Option<StampMode> {
        None
    }
}

/// Takes the stamps of a reply, which has only one point of its own and no bill.
pub(crate) struct ReplyStamper<'a, S: ?Sized>(pub(crate) &'a mut S);

impl<S: Stamps + ?Sized> Stamps for ReplyStamper<'_, S> {
    #[inline(always)]
    fn at(&mut self, _: Point) {}

    #[inline(always)]
    fn manner(&self) -> Option<StampMode> {
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

/// One side's knowledge of a sampled message. A sample is large and lives on the heap: nodes keep free ones, so that
/// beginning one costs almost nothing.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) manner: StampMode,
    wants: Wants,
    pub(crate) taken: MessageStamps,
    /// The name of the lock or condition, or of the node that was called, for which the handler waited longest.
    pub(crate) lock: Option<Arc<str>>,
    /// The number by which both sides know a received one-way message: see [`Message::Oneway`].
    pub(crate) oneway: Option<u64>,
    /// Whether the sample only warms up the path for later ones, and is not recorded.
    pub(crate) warms: bool,
    /// The carrier's key of this side's message, whose writing it watches.
    watched: Option<u64>,
}

impl Sample {
    /// Returns a sample of this manner.
    pub(crate) fn new(manner: StampMode) -> Box<Sample> {
        let (wants, taken) = (Wants::of(manner), MessageStamps::new());
        let (lock, oneway, warms, watched) = (None, None, false, None);
        Box::new(Sample { manner, wants, taken, lock, oneway, warms, watched })
    }

    /// Reuses a free sample.
    #[inline]
    pub(crate) fn again(mut self: Box<Sample>, manner: StampMode) -> Box<Sample> {
        self.manner = manner;
        self.wants = Wants::of(manner);
        self.taken.clear();
        self.lock = None;
        self.oneway = None;
        self.warms = false;
        self.watched = None;
        self
    }

    /// Begins the message.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.at(Point::Begun);
        self.at(Point::Roomed);
        if self.wants.points == 1 {
            // This stamp right behind the first measures the cost of a stamp.
            self.stamp(Point::Roomed);
        }
    }

    #[inline(always)]
    fn stamp(&mut self, point: Point) {
        self.taken.set(point, self.wants.now());
    }

    /// Returns the identity of a one-way message of this side.
    pub(crate) fn as_oneway(&self) -> Message {
        Message::Oneway(self.taken.at(Point::Begun).unwrap_or(0))
    }

    /// Returns whether the message's path through the socket is stamped, so that this side's half waits for it.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some()
    }

    /// Returns when the message was written to the socket, as far as the carrier knows.
    pub(crate) fn writing(&self, carrier: &Carrier) -> Written {
        self.watched.map_or(Written::Unknown, |watched| carrier.writing(watched))
    }

    /// Stamps when the open message was read from its socket.
    pub(crate) fn read(&mut self, carrier: &Carrier) {
        if self.manner == StampMode::Whole {
            carrier.reading().into_iter().for_each(|reading| self.taken.request_read(reading));
        }
    }

    /// Returns whether the head cannot carry all stamps of the sender of a one-way message.
    pub(crate) fn needs_frame(&self) -> bool {
        match self.manner {
            StampMode::Whole => true,
            StampMode::Pair(point) => usize::from(point) <= Point::WokeThere.index(),
            StampMode::Marked | StampMode::Thrice => false,
            StampMode::Waiting => true,
        }
    }

    /// Returns which stamps are wanted, for code that does not have the sample.
    #[inline]
    pub(crate) fn wants(&self) -> Wants {
        self.wants
    }

    /// Records when a point was passed, if that stamp is wanted.
    #[inline]
    pub(crate) fn known(&mut self, point: Point, ticks: u64) {
        if self.wants.has(point) {
            self.taken.set(point, ticks);
        }
    }

    /// Records the name of the lock, the condition or the called node that was waited for longest, or that the longest
    /// wait was for something that has none.
    fn names(&mut self, reason: Reason, name: Option<Arc<str>>) {
        let kinds = MessageEvents::CONDITION.with(MessageEvents::CALL);
        let happened = self.taken.happened.without(kinds);
        self.taken.happened = match reason {
            Reason::Condition if name.is_some() => happened.with(MessageEvents::CONDITION),
            Reason::Call if name.is_some() => happened.with(MessageEvents::CALL),
            _ => happened,
        };
        self.lock = name;
    }

    /// Records a run of the handler of so many ticks without a pause, for which it is blamed.
    pub(crate) fn over_ran(&mut self, ran: u64) {
        let us = Ticks(ran).nanoseconds() / 1_000;
        self.taken.happened = self.taken.happened.with_run_us(us.max(1));
    }

    /// Records an event besides the stamps.
    #[inline]
    pub(crate) fn note(&mut self, happened: MessageEvents) {
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
    fn manner(&self) -> Option<StampMode> {
        self.manner.marks().then_some(self.manner)
    }

    fn published(&mut self, carrier: &Carrier) {
        if self.manner == StampMode::Whole {
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
            StampMode::Pair(_) if last != 0 => self.taken.at_index(last.ilog2() as usize),
            _ => None,
        };
        Head::stamped_reply(words, stamp.unwrap_or(0))
    }

    fn sample(&mut self) -> Option<&mut Sample> {
        Some(self)
    }
}

/// The time of a handler that has become a task, divided by its activities.
#[derive(Debug)]
pub(crate) struct TaskTime {
    pub(crate) sample: Box<Sample>,
    /// The time at which it became a task.
    promoted: u64,
    /// The end of its last poll.
    paused: u64,
    /// The reason why it has waited since, and the name of that for which it waits.
    reason: Reason,
    name: Option<Arc<str>>,
    /// Whether it was ready at once, so that it has waited for its turn alone.
    ready: bool,
    /// The longest wait so far.
    longest: u64,
    lock: u64,
    wait: u64,
    queue: u64,
}

impl TaskTime {
    /// Begins the time of a handler that has become a task and waits for this reason, or is ready at once.
    pub(crate) fn new(
        mut sample: Box<Sample>,
        (reason, name): (Reason, Option<Arc<str>>),
        ready: bool,
    ) -> TaskTime {
        sample.note(MessageEvents::PROMOTED);
        let (promoted, paused) = (ticks(), sample.taken.at(Point::Ran));
        let paused = paused.unwrap_or(promoted).max(promoted);
        let (longest, lock, wait, queue) = (0, 0, 0, 0);
        TaskTime { sample, promoted, paused, reason, name, ready, longest, lock, wait, queue }
    }

    /// Notes that the task is polled again, after a wake at `woken`. That is 0 if no wake was timed: the task was ready
    /// at once, or it is polled where the reply to its call lies, and has not been ready before.
    pub(crate) fn resumed(&mut self, woken: u64) {
        let now = ticks();
        let woken = match woken {
            _ if self.ready => self.paused,
            0 => now,
            woken => woken,
        };
        let woken = woken.clamp(self.paused, now.max(self.paused));
        self.queue += now.saturating_sub(woken);
        let (waited, name) = (woken - self.paused, self.name.take());
        if waited > self.longest || waited == self.longest && name.is_some() {
            self.longest = waited;
            self.sample.names(self.reason, name);
        }
        match self.reason {
            Reason::Lock => self.lock += waited,
            _ => self.wait += waited,
        }
    }

    /// Notes that the task waits again, for this reason and the lock or condition of this name, or that it is ready
    /// already.
    pub(crate) fn paused(&mut self, (reason, name): (Reason, Option<Arc<str>>), ready: bool) {
        self.paused = ticks();
        (self.reason, self.name, self.ready) = (reason, name, ready);
    }

    /// Turns the sums into stamps, one after another, because the task is done.
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

/// The wanted stamps of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// The points at which stamps are taken, a bit each.
    points: u32,
    /// Whether a stamp waits until the instructions before it are done.
    waits: bool,
}

impl Wants {
    #[inline]
    fn of(manner: StampMode) -> Wants {
        Wants { points: manner.points(), waits: manner.waits() }
    }

    #[inline(always)]
    fn has(self, point: Point) -> bool {
        self.points & 1 << point as u32 != 0
    }

    /// Takes a stamp.
    #[inline(always)]
    fn now(self) -> u64 {
        if self.waits { ticks_after() } else { ticks() }
    }

    /// Takes a stamp, if one is wanted at this point.
    #[inline(always)]
    pub(crate) fn at(self, point: Point) -> u64 {
        if self.has(point) { self.now() } else { 0 }
    }
}

/// The names of a service and a method.
pub(crate) type Names = (&'static str, &'static str);

/// The identity by which both sides know a sampled message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A call, by its number.
    Call(CallNumber),
    /// A one-way message, by its first stamp in ticks of its sender, which its head carries.
    Oneway(u64),
}

/// A sampled message of which one side's half is present.
pub(crate) struct Half {
    pub(crate) message: Message,
    pub(crate) names: Names,
    pub(crate) sample: Box<Sample>,
}

impl Half {
    /// Takes over the peer's stamps. The caller bills a call, and the receiver a one-way message.
    pub(crate) fn join(&mut self, peers: &MessageStamps) {
        let billed = match self.message {
            Message::Call(_) => BillingSide::Here,
            Message::Oneway(_) => BillingSide::There,
        };
        self.sample.taken.join(peers, billed);
    }
}

/// The dispatcher's stamps of a sampled reply, before the reply's future is polled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyStamps {
    pub(crate) call: CallNumber,
    /// The manner in the reply's head.
    pub(crate) manner: u8,
    /// The time at which the node last woke.
    pub(crate) woke: u64,
    pub(crate) noticed: u64,
    pub(crate) checked: u64,
    pub(crate) found: u64,
    /// The stamp in the reply's head.
    pub(crate) there: u64,
    /// Whether that stamp is of another host's counter.
    pub(crate) elsewhere: bool,
    /// The read of the reply from its socket.
    pub(crate) reading: Option<Reading>,
    /// Whether the dispatcher was busy before.
    pub(crate) busy: bool,
    /// Whether the reply was copied before its future was polled.
    pub(crate) stashed: bool,
}

impl Sample {
    /// Takes over the dispatcher's stamps of the reply.
    pub(crate) fn hear(&mut self, heard: &ReplyStamps) {
        let points = [
            (Point::WokeHere, heard.woke),
            (Point::NoticedHere, heard.noticed),
            (Point::CheckedHere, heard.checked),
            (Point::FoundHere, heard.found),
        ];
        points.into_iter().for_each(|(point, ticks)| self.known(point, ticks));
        let there = self.wants.points & StampMode::POINTS_THERE;
        if matches!(self.manner, StampMode::Pair(_)) && there != 0 && !heard.elsewhere {
            let stamp = whole_stamp(heard.there, heard.noticed.max(ticks()));
            self.taken.set_index(there.ilog2() as usize, stamp);
        }
        heard.reading.into_iter().for_each(|reading| self.taken.reply_read(reading));
        if heard.busy {
            self.note(MessageEvents::BUSY_HERE);
        }
        if heard.stashed {
            self.note(MessageEvents::STASHED);
        }
    }
}

#[cfg(test)]
mod tests;
