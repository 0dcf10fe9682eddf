//! The choice of sampled messages, and the recording of samples, for a node and for a handle's sessions.
//!
//! One message in a given number is sampled, at random strides, so that no pattern of the application falls into
//! step. Samples take turns: a full sample, a pair, a full sample, the next pair. Samples are written into a page
//! that observers map; the first sample makes the page.

mod pages;

use crate::driver::{Driver, Main, answer};
use crate::sample::{Half, Message, Names, ReplyStamps, Sample, Stamps, Wants};
use crate::session::{Answer, Fault, Session, Waiter, misbehaved};
use crate::wire::{Input, WireError};
use std::cell::{Cell, RefCell};
use upbeat_core::bill::Counter;
use upbeat_core::bill::event::{BadEnd, Event};
use upbeat_core::bill::taken::{BillingSide, MessageStamps, Written};
use upbeat_core::bill::way::{CALL, POINTS_MAX, Point, SERVED, StampMode, WAYS, Way};
use upbeat_core::frame::{CallNumber, Head, Kind, Plain};
use upbeat_core::limits::STAMPS_BYTES_MAX;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_environment::is_observed;
use upbeat_memory::ticks::{ticks, ticks_after};

pub(crate) use pages::{Pages, SampleSink};

/// Samples come in runs of this many messages, all of one manner, so that the processor's caches know the path of
/// sampled messages.
const RUN: u32 = 8;
/// The first samples of a run, which only warm up that path.
const WARMING: u32 = 2;

/// The most free samples that are kept.
const SPARES_MAX: usize = 64;
/// The number of free samples that are made with the first one.
const SPARES_FIRST: usize = 12;
/// A bit in the count of messages: whether each message takes the rare path at present. A sender thus asks once for
/// two things: as a signed number the count is negative if the message takes the rare path.
const EACH: u32 = 1 << 31;
/// The count after the message that is sampled.
const DUE: u32 = u32::MAX;
/// A count that is never counted down.
const NEVER: u32 = EACH - 2;

/// The sampling of a node, or of a handle's session.
pub(crate) struct Sampling {
    /// The messages before the next sampled one; or, with [`EACH`], up to that one. See [`Sampling::left`].
    left: Cell<u32>,
    /// One message in this many is sampled; 0 means none.
    every: Cell<u32>,
    random: Cell<u64>,
    /// The samples that are left of the run.
    run: Cell<u32>,
    /// The number of samples so far for each path.
    turns: [Cell<usize>; WAYS.len()],
    /// The time at which the owner last woke, in ticks.
    woke: Cell<u64>,
    /// Whether the last poll that found a frame came after an empty one, so that the frame has not waited.
    fresh: Cell<bool>,
    /// Whether the last frame was stamps, for which an unsampled message would not have waited.
    after_stamps: Cell<bool>,
    /// The incarnation of the owner.
    incarnation: u64,
    book: SampleSink,
    /// The free samples.
    #[expect(clippy::vec_box, reason = "samples are passed on often, and are large")]
    spares: RefCell<Vec<Box<Sample>>>,
}

impl Sampling {
    pub(crate) fn new(every: u32, incarnation: u64, book: SampleSink) -> Sampling {
        let sampling = Sampling {
            left: Cell::new(0),
            every: Cell::new(0),
            random: Cell::new(incarnation | 1),
            run: Cell::new(0),
            turns: Default::default(),
            woke: Cell::new(0),
            fresh: Cell::new(true),
            after_stamps: Cell::new(false),
            incarnation,
            book,
            spares: RefCell::new(Vec::new()),
        };
        sampling.set(every);
        sampling
    }

    /// Sets that one message in `every` is sampled, or none if it is 0. In an observed world each is, unless it is 0.
    pub(crate) fn set(&self, every: u32) {
        self.every.set(if is_observed() { every.min(1) } else { every });
        self.set_left(self.stride());
    }

    /// Returns the messages up to the next run, so that one in `every` is sampled on average.
    fn stride(&self) -> u32 {
        match self.every.get() {
            0 => NEVER,
            every => {
                // An xorshift generator is enough, because the numbers only have to be out of step.
                let mut random = self.random.get();
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                self.random.set(random);
                let unsampled = u64::from(every - 1) * u64::from(RUN);
                (1 + random % (2 * unsampled + 1)).min(u64::from(NEVER)) as u32
            }
        }
    }

    /// Counts a message, and returns whether it takes the rare path: it may be sampled, or each message takes that
    /// path.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        if !cfg!(feature = "bill") {
            return self.left.get() & EACH != 0;
        }
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left.cast_signed() < 0
    }

    /// Counts a message that takes the rare path whether it is sampled or not.
    pub(crate) fn count(&self) {
        self.is_due();
    }

    /// Sets whether each message takes the rare path.
    pub(crate) fn divert(&self, each: bool) {
        let left = self.left();
        self.left.set(if each { EACH | left } else { left.wrapping_sub(1) });
    }

    /// Returns the messages up to the next sampled one; 0 if the message that was just counted is sampled.
    fn left(&self) -> u32 {
        let count = self.left.get();
        if self.is_diverted() { count & !EACH } else { count.wrapping_add(1) }
    }

    fn set_left(&self, left: u32) {
        let goes_on = self.is_diverted() && !mutated(Mutant::DiversionEnds);
        self.left.set(if goes_on { EACH | left } else { left.wrapping_sub(1) });
    }

    fn is_diverted(&self) -> bool {
        let count = self.left.get();
        count & EACH != 0 && count != DUE
    }

    /// Leaves the turn to the next message, because the message that was just counted has a sample already.
    pub(crate) fn put_off(&self) {
        if self.left() == 0 && !mutated(Mutant::TurnTakenTwice) {
            self.set_left(1);
        }
    }

    /// Returns the manner in which the message that was just counted is sampled, if it is, and whether its sample
    /// only warms up the path.
    fn next(&self, way: &Way, is_remote: bool) -> Option<(StampMode, bool)> {
        if self.left() != 0 {
            return None;
        }
        if self.every.get() == 0 {
            self.set_left(NEVER);
            return None;
        }
        let run = if self.run.get() == 0 { RUN } else { self.run.get() } - 1;
        self.run.set(run);
        self.set_left(if run == 0 { self.stride() } else { 1 });
        let turns = &self.turns[usize::from(way.number())];
        let turn = turns.get() / RUN as usize;
        turns.set(turns.get().wrapping_add(1));
        let warms = self.every.get() > 1 && run >= RUN - WARMING;
        if turn.is_multiple_of(2) || is_observed() {
            return Some((StampMode::Whole, warms));
        }
        let pair = way.pairs().nth(turn / 2 % way.pairs().count())?;
        let compares = is_remote && pair.compares(way);
        Some((if compares { StampMode::Whole } else { pair }, warms))
    }

    /// Returns that one message in this many is sampled.
    pub(crate) fn every(&self) -> u32 {
        self.every.get()
    }

    /// Notes that the owner is awake again.
    pub(crate) fn woke(&self) {
        if cfg!(feature = "bill") {
            self.woke.set(ticks());
            self.fresh.set(true);
        }
    }

    /// Notes that a poll has found nothing: the next frame will not have waited.
    #[inline(always)]
    pub(crate) fn looked_in_vain(&self) {
        if cfg!(feature = "bill") {
            self.fresh.set(true);
        }
    }

    /// Notes that a lane was emptied: the next frame may have waited meanwhile.
    #[inline(always)]
    pub(crate) fn drained(&self) {
        if cfg!(feature = "bill") {
            self.fresh.set(false);
        }
    }

    /// Returns whether the open frame has waited for a busy node. The next frame of the same turn has waited in any
    /// case.
    pub(crate) fn was_busy(&self) -> bool {
        !self.fresh.replace(false) & !self.after_stamps.take()
    }

    /// Returns the sample of a message that was just counted: the sample with which the message has waited, or a new
    /// one if one is due.
    pub(crate) fn begin(
        &self,
        waited: Option<Box<Sample>>,
        way: &Way,
        session: &Session,
    ) -> Option<Box<Sample>> {
        if let Some(mut sample) = waited {
            self.put_off();
            sample.at(Point::Roomed);
            return Some(sample);
        }
        let (manner, warms) = self.next(way, session.is_remote())?;
        session.carrier.ask_clock();
        let mut sample = self.sample(manner);
        sample.warms = warms;
        sample.begin();
        Some(sample)
    }

    /// Returns an empty sample of this manner.
    #[inline]
    pub(crate) fn sample(&self, manner: StampMode) -> Box<Sample> {
        let spare = self.spares.borrow_mut().pop();
        spare.map_or_else(|| self.new_sample(manner), |spare| spare.again(manner))
    }

    /// Allocates a sample. The first comes with spare ones: the number of samples under way depends on the scheduling
    /// of threads, and later samples should allocate no memory.
    #[cold]
    fn new_sample(&self, manner: StampMode) -> Box<Sample> {
        let mut spares = self.spares.borrow_mut();
        if spares.capacity() == 0 {
            spares.reserve_exact(SPARES_MAX);
            spares.extend((0..SPARES_FIRST).map(|_| Sample::new(manner)));
        }
        Sample::new(manner)
    }

    /// Takes back a sample that is done with.
    pub(crate) fn free(&self, sample: Box<Sample>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(sample);
        }
    }

    /// Returns the sample of a received request, with the stamps known so far.
    #[inline(always)]
    pub(crate) fn of_request(&self, manner: StampMode) -> Box<Sample> {
        let mut sample = self.sample(manner);
        sample.at(Point::NoticedThere);
        sample.known(Point::WokeThere, self.woke.get());
        sample
    }

    /// Asks for the reply of a sampled call, and bills the call if the reply is present. Also returns the counter to
    /// be incremented.
    #[inline(always)]
    pub(crate) fn poll_answer<R>(
        &self,
        session: &Session,
        (call, wants): (CallNumber, Wants),
        waiter: impl FnOnce() -> Waiter,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> (Answer<R>, Option<Counter>) {
        let reached = wants.at(Point::Reached);
        let answer = session.poll_answer(call, waiter, take);
        let done = wants.at(Point::Done);
        if let Answer::Open = answer {
            return (answer, None);
        }
        let Some(mut half) = session.take_open_sample(call) else {
            return (answer, Some(Counter::SamplesLost));
        };
        half.sample.known(Point::Reached, reached);
        half.sample.known(Point::Done, done);
        let counted = match &answer {
            Answer::Failed(error) if error.is_refused() => {
                // The call is sent again, and only then has its result.
                self.free(half.sample);
                None
            }
            Answer::Failed(_) => {
                let how = if session.ended().is_some() { BadEnd::Lost } else { BadEnd::Failed };
                self.ended_badly(session, half, how)
            }
            _ => self.call_done(session, call, half),
        };
        (answer, counted)
    }

    /// Records that a call is given up, if it is sampled. Returns the counter to be incremented.
    pub(crate) fn gives_up(&self, session: &Session, call: CallNumber) -> Option<Counter> {
        let half = session.take_open_sample(call)?;
        self.ended_badly(session, half, BadEnd::GivenUp)
    }

    /// Records that a sampled call has ended without a result. Returns the counter to be incremented.
    #[cold]
    fn ended_badly(&self, session: &Session, half: Half, how: BadEnd) -> Option<Counter> {
        let mut counted = None;
        if let (Some(begun), false) = (half.sample.taken.at(Point::Begun), half.sample.warms) {
            let mut stamps = [0; POINTS_MAX];
            (stamps[0], stamps[1]) = (begun, ticks().max(begun));
            let event = (session.ways().0, Event::Ended(how).byte(), stamps);
            let is_written = self.book.write(self.incarnation, session, &half, event);
            counted = Some(if is_written { Counter::SamplesTaken } else { Counter::SamplesLost });
        }
        self.free(half.sample);
        counted
    }

    /// Records an over-run of a method, or of a task.
    pub(crate) fn over_ran(&self, names: Names, event: Event, stamps: [u64; POINTS_MAX]) {
        self.book.write_own(self.incarnation, names, (CALL, event.byte(), stamps));
    }

    /// Records a call that this node has served, for its own observers: the caller bills it.
    pub(crate) fn bill_served(&self, session: &Session, names: Names, sample: &Sample) {
        let Some(noticed) = sample.taken.at(Point::NoticedThere) else { return };
        let mut own = self.sample(sample.manner);
        *own = sample.clone();
        own.taken.set(Point::Begun, noticed);
        let half = Half { message: Message::Call(CallNumber::NONE), names, sample: own };
        let stamps = half.sample.taken.finish(SERVED, StampMode::Whole, BillingSide::There);
        if let Some(stamps) = stamps {
            let whole = (SERVED, StampMode::Whole.byte(), stamps);
            self.book.write(self.incarnation, session, &half, whole);
        }
        self.free(half.sample);
    }

    /// Bills a sampled call that has its result, if its other half is present. Returns the counter to be incremented.
    fn call_done(&self, session: &Session, call: CallNumber, mut half: Half) -> Option<Counter> {
        if half.sample.manner().is_none() {
            // The callee has taken no sample.
            return self.bill_call(session, half);
        }
        // A peer may reply in another manner than it was asked for, or in none.
        let manner = half.sample.manner.byte();
        let Some(heard) = session.heard(call).filter(|heard| heard.manner == manner) else {
            return Some(Counter::SamplesLost);
        };
        half.sample.hear(&heard);
        if let Written::All(writing) = half.sample.writing(&session.carrier) {
            half.sample.taken.request_written(writing);
        }
        let half = match half.sample.manner {
            StampMode::Whole => session.end_sample(half, |peers| self.free(peers)),
            _ => Some(half),
        };
        half.and_then(|half| self.bill_call(session, half))
    }

    /// Takes the open stamps of the peer. Returns the counter to be incremented.
    pub(crate) fn stamps_arrived(
        &self,
        session: &Session,
        head: &Head,
    ) -> Result<Option<Counter>, Fault> {
        // A frame behind a one-way message and its stamps has waited for both.
        self.after_stamps.set(head.call != CallNumber::NONE);
        let mut payload = [0; STAMPS_BYTES_MAX];
        // The length was checked against the bound of the kind when the head was parsed.
        let payload = &mut payload[..head.len as usize];
        session.carrier.payload().read(0, payload);
        let (mut taken, lock) = MessageStamps::decode(payload).map_err(misbehaved)?;
        let message = match head.call {
            CallNumber::NONE => Message::Oneway(taken.at(Point::Begun).unwrap_or(0)),
            call => Message::Call(call),
        };
        if !session.translate(&mut taken) {
            return Ok(Some(Counter::SamplesLost));
        }
        let spare = || self.sample(StampMode::Whole);
        let Some(half) = session.join_sample(message, (&taken, lock), spare) else {
            return Ok(None);
        };
        Ok(match message {
            Message::Call(_) => self.bill_call(session, half),
            Message::Oneway(_) => self.bill_oneway(session, half),
        })
    }

    fn bill_call(&self, session: &Session, half: Half) -> Option<Counter> {
        self.bill(session.ways().0, BillingSide::Here, session, half)
    }

    /// Records a one-way message. Returns the counter to be incremented.
    pub(crate) fn bill_oneway(&self, session: &Session, half: Half) -> Option<Counter> {
        self.bill(session.ways().1, BillingSide::There, session, half)
    }

    fn bill(
        &self,
        way: &Way,
        billed: BillingSide,
        session: &Session,
        mut half: Half,
    ) -> Option<Counter> {
        let mut counted = None;
        if !half.sample.warms {
            half.sample.taken.fit(billed);
            let stamps = half.sample.taken.finish(way, half.sample.manner, billed);
            let manner = half.sample.manner.byte();
            let write =
                |stamps| self.book.write(self.incarnation, session, &half, (way, manner, stamps));
            let is_written = stamps.is_some_and(write);
            counted = Some(if is_written { Counter::SamplesTaken } else { Counter::SamplesLost });
        }
        self.free(half.sample);
        counted
    }
}

/// Takes over the open frame, whose head says that it is stamped, and passes it. `request` runs a request, given the
/// words of its head without the stamp, and the stamp.
#[inline(always)]
pub(crate) fn take_sampled<'s, D: Driver<'s>>(
    driver: D,
    sampling: &Sampling,
    words: &[u64; 3],
    manner: StampMode,
    main: Main<'_>,
    request: impl FnOnce(&[u64; 3], u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (plain, stamp) = Head::unstamped(words);
    match Head::plain_in(&plain) {
        Plain::Reply => {
            let head = Head::reply(CallNumber::from_u64(plain[1]), Head::len_in(&plain));
            take_answer(driver, sampling, &head, (manner, stamp), main)?;
        }
        Plain::Request => request(&plain, stamp)?,
        Plain::Not => {
            // Payloads in buffers, failures, and calls with a deadline take the long path.
            let head = Head::parse(*words).map_err(misbehaved)?;
            match head.kind {
                Kind::Reply => take_answer(driver, sampling, &head, (manner, stamp), main)?,
                Kind::Failed => answer(driver, &head, main, || ())?,
                _ => request(&plain, stamp)?,
            }
        }
    }
    driver.session().advance();
    Ok(())
}

#[inline(always)]
fn take_answer<'s, D: Driver<'s>>(
    driver: D,
    sampling: &Sampling,
    head: &Head,
    (manner, there): (StampMode, u64),
    main: Main<'_>,
) -> Result<(), Fault> {
    let wanted = manner.points();
    let stamp = |point: Point| if wanted & 1 << point as u32 != 0 { ticks_after() } else { 0 };
    let noticed = stamp(Point::NoticedHere);
    let is_whole = manner == StampMode::Whole;
    let (call, manner) = (head.call, manner.byte());
    let (woke, busy) = (sampling.woke.get(), sampling.was_busy());
    let checked = stamp(Point::CheckedHere);
    let found = 0;
    let session = driver.session();
    let elsewhere = session.is_remote();
    let reading = if is_whole { session.carrier.reading() } else { None };
    let stamps = ReplyStamps {
        call,
        manner,
        woke,
        noticed,
        checked,
        found,
        there,
        ..ReplyStamps::default()
    };
    session.set_heard(ReplyStamps { elsewhere, reading, busy, ..stamps });
    answer(driver, head, main, || session.set_found(stamp(Point::FoundHere)))
}

#[cfg(test)]
mod tests;
