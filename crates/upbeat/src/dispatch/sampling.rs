//! Which messages are sampled, and where samples go.
//!
//! One message in so many is sampled, at random strides, so that no pattern of the application's
//! falls into step. Samples take turns: a whole story, a pair, a whole story, the next pair. What
//! they say is written into a page that observers map; the first sample makes it.

use super::frames::OfNode;
use super::{Dispatcher, Main, Request};
use crate::driver::answer;
use crate::sample::{Half, Heard, Names, Sample, Stamps};
use crate::session::{Fault, Session, misbehaved};
use crate::wire::Input;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::bill::taken::{Billed, Taken};
use upbeat_core::bill::way::{CALL, Happened, Manner, ONEWAY, Point, WAYS, Way};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind, Plain};
use upbeat_core::limits::STAMPS_BYTES_MAX;
use upbeat_memory::samples::{Record, SUBJECTS_MAX, Samples};
use upbeat_memory::ticks::{ticks, ticks_after};
use upbeat_transport::carrier::Peer;

/// Samples come in runs of so many messages, all of one manner, so that the processor has seen the
/// way that sampled messages go.
const RUN: u32 = 8;
/// The first ones of a run only warm that way up.
const WARMING: u32 = 2;

/// The most free samples that are kept.
const SPARES_MAX: usize = 64;
/// Those that there are from the first.
const SPARES_FIRST: usize = 12;
/// The most halves that are kept back at once.
const OUTGOING_MAX: usize = 32;

/// In the count of messages: whether each of them is to go the rare way meanwhile. Thus whoever sends
/// asks once for two things: the count is below zero where the message goes the rare way.
const EACH: u32 = 1 << 31;
/// The count behind the message that is sampled.
const DUE: u32 = u32::MAX;
/// A count that is never counted down.
const NEVER: u32 = EACH - 2;

/// What a node's bill is made of.
pub(super) struct Sampling {
    /// Messages before the next that is sampled; or, with [`EACH`], up to that one. See [`Sampling::left`].
    left: Cell<u32>,
    /// One in so many; 0 for none.
    every: Cell<u32>,
    random: Cell<u64>,
    /// Samples that are left of the run.
    run: Cell<u32>,
    /// Samples so far of each way.
    turns: [Cell<usize>; WAYS.len()],
    /// When the node last woke, in ticks.
    woke: Cell<u64>,
    /// Whether the last look that found a frame was not the first: the frame has not waited.
    fresh: Cell<bool>,
    /// Whether the last frame was stamps, for which no message has waited that is not sampled.
    after_stamps: Cell<bool>,
    page: OnceCell<Option<Page>>,
    /// Halves of calls that are to be sent when nothing else is to be done.
    outgoing: RefCell<Vec<(Rc<Session>, Half)>>,
    /// Those that are free.
    #[expect(clippy::vec_box, reason = "they go from hand to hand, and are large")]
    spares: RefCell<Vec<Box<Sample>>>,
}

/// Where samples are written.
struct Page {
    samples: Samples,
    /// The numbers of texts.
    subjects: RefCell<HashMap<String, u16>>,
    /// The same by what texts are made of: a peer's incarnation, a service, a method.
    known: RefCell<HashMap<Parts, u16>>,
}

type Parts = (u64, &'static str, &'static str);

impl Page {
    /// The number of the text that a message is written down under.
    fn subject(&self, peer: &Peer, service: &'static str, method: &'static str) -> u16 {
        let mut known = self.known.borrow_mut();
        if let Some(number) = known.get(&(peer.incarnation, service, method)) {
            return *number;
        }
        if known.len() >= 16 * SUBJECTS_MAX {
            // Peers that come and go.
            known.clear();
        }
        let name = peer.name.as_ref().map_or_else(|| "a handle".into(), ToString::to_string);
        let number = self.text(&format!("{name}\n{service}\n{method}"));
        known.insert((peer.incarnation, service, method), number);
        number
    }

    /// The number of a text; 0 where there is no room for more.
    fn text(&self, text: &str) -> u16 {
        let mut subjects = self.subjects.borrow_mut();
        if let Some(number) = subjects.get(text) {
            return *number;
        }
        if subjects.len() >= SUBJECTS_MAX {
            return 0;
        }
        let number = self.samples.subject(text).unwrap_or(0);
        subjects.insert(text.to_owned(), number);
        number
    }
}

impl Sampling {
    pub(super) fn new(every: u32, seed: u64) -> Sampling {
        let sampling = Sampling {
            left: Cell::new(0),
            every: Cell::new(0),
            random: Cell::new(seed | 1),
            run: Cell::new(0),
            turns: Default::default(),
            woke: Cell::new(0),
            fresh: Cell::new(true),
            after_stamps: Cell::new(false),
            page: OnceCell::new(),
            outgoing: RefCell::new(Vec::new()),
            spares: RefCell::new(Vec::new()),
        };
        sampling.set(every);
        sampling
    }

    fn set(&self, every: u32) {
        self.every.set(every);
        self.set_left(self.stride());
    }

    /// Messages up to the next run, so that one in `every` is sampled on average.
    fn stride(&self) -> u32 {
        match self.every.get() {
            0 => NEVER,
            every => {
                // An xorshift: what it draws need only be out of step.
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

    /// Counts a message, and says whether it goes the rare way: it may be the one, or each does.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        if !cfg!(feature = "bill") {
            return self.left.get() & EACH != 0;
        }
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left.cast_signed() < 0
    }

    /// Has each message go the rare way, or no more.
    pub(super) fn divert(&self, each: bool) {
        let left = self.left();
        self.left.set(if each { EACH | left } else { left.wrapping_sub(1) });
    }

    /// Messages up to the next that is sampled; 0 if it is the one that was just counted.
    fn left(&self) -> u32 {
        let count = self.left.get();
        if self.is_diverted() { count & !EACH } else { count.wrapping_add(1) }
    }

    fn set_left(&self, left: u32) {
        self.left.set(if self.is_diverted() { EACH | left } else { left.wrapping_sub(1) });
    }

    fn is_diverted(&self) -> bool {
        let count = self.left.get();
        count & EACH != 0 && count != DUE
    }

    /// The message that was just counted has a sample already: it is the next one's turn.
    fn put_off(&self) {
        if self.left() == 0 {
            self.set_left(1);
        }
    }

    /// In which manner the message is to be sampled that was just counted, if it is, and whether
    /// it only warms up those behind it.
    fn next(&self, way: &Way) -> Option<(Manner, bool)> {
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
        if turn.is_multiple_of(2) {
            return Some((Manner::Whole, warms));
        }
        way.pairs().nth(turn / 2 % way.pairs().count()).map(|pair| (pair, warms))
    }

    /// The node is awake again.
    pub(super) fn woke(&self) {
        if cfg!(feature = "bill") {
            self.woke.set(ticks());
            self.fresh.set(true);
        }
    }

    /// A look has found nothing: what comes next has not waited.
    #[inline(always)]
    pub(super) fn looked_in_vain(&self) {
        if cfg!(feature = "bill") {
            self.fresh.set(true);
        }
    }

    /// A lane has been emptied: what comes next may have waited meanwhile.
    #[inline(always)]
    pub(super) fn drained(&self) {
        if cfg!(feature = "bill") {
            self.fresh.set(false);
        }
    }

    /// Whether the frame that has just been looked at has lain before a busy node; the next one
    /// of the same turn has.
    fn was_busy(&self) -> bool {
        !self.fresh.replace(false) & !self.after_stamps.take()
    }
}

impl Dispatcher {
    /// Counts a message that goes the rare way whether it is sampled or not.
    pub(crate) fn count_for_samples(&self) {
        self.sampling.is_due();
    }

    /// Counts a message that begins. Whoever gets yes asks [`Dispatcher::next_sample`].
    #[inline(always)]
    pub(crate) fn sample_is_due(&self) -> bool {
        self.sampling.is_due()
    }

    /// The sample that begins with the message that was just counted.
    pub(crate) fn next_sample(&self, way: &Way) -> Option<Box<Sample>> {
        let (manner, warms) = self.sampling.next(way)?;
        let mut sample = self.sample(manner);
        sample.warms = warms;
        Some(sample)
    }

    /// The message that was just counted goes on with the sample that it has.
    pub(crate) fn put_off_sample(&self) {
        self.sampling.put_off();
    }

    /// A sample of this manner, with nothing in it.
    #[inline]
    fn sample(&self, manner: Manner) -> Box<Sample> {
        let spare = self.sampling.spares.borrow_mut().pop();
        spare.map_or_else(|| self.new_sample(manner), |spare| spare.again(manner))
    }

    /// One more sample. The first comes with some to spare: how many are under way at once depends
    /// on how threads are scheduled, and later ones are to ask for no memory.
    #[cold]
    fn new_sample(&self, manner: Manner) -> Box<Sample> {
        let mut spares = self.sampling.spares.borrow_mut();
        if spares.capacity() == 0 {
            spares.reserve_exact(SPARES_MAX);
            spares.extend((0..SPARES_FIRST).map(|_| Sample::new(manner)));
        }
        Sample::new(manner)
    }

    /// A sample is done with.
    pub(crate) fn free_sample(&self, sample: Box<Sample>) {
        let mut spares = self.sampling.spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(sample);
        }
    }

    /// One message in so many is sampled; 0 for none.
    pub(crate) fn set_sampling(&self, every: u32) {
        self.sampling.set(every);
    }

    /// One message in so many is sampled.
    pub(crate) fn sampling(&self) -> u32 {
        self.sampling.every.get()
    }

    /// Takes over a frame whose head says that it is stamped.
    #[inline(never)]
    pub(super) fn sampled(
        self: &Rc<Self>,
        session: &Rc<Session>,
        words: &[u64; 3],
        manner: Manner,
        main: Main<'_>,
    ) -> Result<(), Fault> {
        let (plain, stamp) = Head::unstamped(words);
        match Head::plain_in(&plain) {
            Plain::Reply => {
                let head = Head::reply(CallNumber::from_u64(plain[1]), Head::len_in(&plain));
                self.sampled_answer(session, &head, (manner, stamp), main)?;
            }
            Plain::Request => self.sampled_request(session, &plain, (manner, stamp))?,
            Plain::Not => {
                // What lies in a buffer, failures, calls with a deadline: they go the long way.
                let head = Head::parse(*words).map_err(misbehaved)?;
                match head.kind {
                    Kind::Reply => self.sampled_answer(session, &head, (manner, stamp), main)?,
                    Kind::Failed => answer(OfNode { node: self, session }, &head, main, || ())?,
                    _ => self.sampled_request(session, &plain, (manner, stamp))?,
                }
            }
        }
        session.advance();
        Ok(())
    }

    #[inline(always)]
    fn sampled_request(
        self: &Rc<Self>,
        session: &Rc<Session>,
        plain: &[u64; 3],
        (manner, stamp): (Manner, u64),
    ) -> Result<(), Fault> {
        let mut sample = self.sample(manner);
        sample.at(Point::NoticedThere);
        sample.known(Point::WokeThere, self.sampling.woke.get());
        let head = Head::parse(*plain).map_err(misbehaved)?;
        if self.sampling.was_busy() {
            sample.note(Happened::BUSY_THERE);
        }
        sample.at(Point::CheckedThere);
        let methods = self.methods.borrow();
        let entry = methods.get(usize::from(head.method).wrapping_sub(1));
        let (Some(entry), true) = (entry, self.may_accept(session, &head)) else {
            // What is refused, or waits for its turn, is no longer sampled.
            drop(methods);
            self.free_sample(sample);
            return self.request_came(session, &head);
        };
        session.accept();
        if head.call == CallNumber::NONE {
            sample.oneway = Some(session.oneway_sample_came());
            sample.known(Point::Begun, stamp);
        }
        sample.at(Point::FoundThere);
        self.running.set(super::Running::Handler(head.call, head.method));
        let hold = session.hold(&head)?;
        let payload = hold.as_ref().map_or_else(|| session.payload(&head), Input::lent);
        let deadline_us = session.deadline_us(&head);
        let (Head { kind, call, .. }, refusals) = (head, session.refusals(&head));
        let extendable = head.flags.has(Flags::EXTENDABLE);
        let request = Request { kind, call, deadline_us, refusals, extendable, payload };
        entry.method.sampled(self, session, request, &mut sample);
        self.ran();
        self.free_sample(sample);
        Ok(())
    }

    #[inline(always)]
    fn sampled_answer(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
        (manner, there): (Manner, u64),
        main: Main<'_>,
    ) -> Result<(), Fault> {
        let wanted = manner.points();
        let stamp = |point: Point| if wanted & 1 << point as u32 != 0 { ticks_after() } else { 0 };
        let noticed = stamp(Point::NoticedHere);
        let call = head.call;
        let (woke, busy) = (self.sampling.woke.get(), self.sampling.was_busy());
        let checked = stamp(Point::CheckedHere);
        let found = 0;
        session.set_heard(Heard {
            call,
            manner: manner.byte(),
            woke,
            noticed,
            checked,
            found,
            there,
            busy,
            stashed: false,
        });
        let found = || session.set_found(stamp(Point::FoundHere));
        answer(OfNode { node: self, session }, head, main, found)
    }

    /// A sampled call has its result. It is billed when its other half is there.
    pub(crate) fn call_done(&self, session: &Session, half: Option<Half>) {
        let Some(mut half) = half else { return self.count(Counter::SamplesLost) };
        if half.sample.manner().is_none() {
            // Its callee knows of no sample.
            return self.bill_call(session, half);
        }
        // A peer may answer in another manner than it was asked, or in none.
        let manner = half.sample.manner.byte();
        let Some(heard) = session.heard(half.call).filter(|heard| heard.manner == manner) else {
            return self.count(Counter::SamplesLost);
        };
        half.sample.hear(&heard);
        let half = match half.sample.manner {
            Manner::Whole => session.end_sample(half),
            _ => Some(half),
        };
        if let Some(half) = half {
            self.bill_call(session, half);
        }
    }

    /// A handler is done: its half goes to the caller; of a one-way message it stays.
    pub(crate) fn served(
        self: &Rc<Self>,
        session: &Rc<Session>,
        call: CallNumber,
        names: Names,
        sample: &mut Sample,
    ) {
        match (sample.oneway, sample.manner) {
            (None, Manner::Whole) => {
                let mut own = self.sample(sample.manner);
                *own = sample.clone();
                let half = Half { call, names, sample: own };
                let mut outgoing = self.sampling.outgoing.borrow_mut();
                let room = OUTGOING_MAX.saturating_sub(outgoing.len());
                if room > 0 {
                    outgoing.reserve_exact(room);
                    outgoing.push((Rc::clone(session), half));
                }
                // Seen to when the answer is on its way.
                self.pressed.set(true);
            }
            (None, _) => {}
            (Some(call), _) => {
                let half = Half { call, names, sample: Box::new(sample.clone()) };
                if !sample.needs_frame() {
                    return self.bill_oneway(session, half);
                }
                if let Some(half) = session.end_sample(half) {
                    self.bill_oneway(session, half);
                }
            }
        }
    }

    /// Stamps of the peer have come. They lie open.
    pub(super) fn stamps_arrived(&self, session: &Session, head: &Head) -> Result<(), Fault> {
        // What comes behind a one-way message and its stamps has waited for both.
        self.sampling.after_stamps.set(head.call != CallNumber::NONE);
        let mut payload = [0; STAMPS_BYTES_MAX];
        // A head is held against its kind's bounds when it is parsed.
        let payload = &mut payload[..head.len as usize];
        session.carrier.lanes.reader().read(0, payload);
        let (taken, lock) = Taken::decode(payload).map_err(misbehaved)?;
        if let Some(half) = session.join_sample(head.call, &taken, lock) {
            if head.call == CallNumber::NONE {
                self.bill_oneway(session, half);
            } else {
                self.bill_call(session, half);
            }
        }
        Ok(())
    }

    /// Sends the halves that were kept back. Nobody is rung for them.
    pub(super) fn send_halves(&self) {
        while let Some((session, half)) = self.next_outgoing() {
            if session.ended().is_none() {
                session.send_stamps(half.call, &half.sample);
            }
            self.free_sample(half.sample);
        }
    }

    fn next_outgoing(&self) -> Option<(Rc<Session>, Half)> {
        self.sampling.outgoing.borrow_mut().pop()
    }

    fn bill_call(&self, session: &Session, half: Half) {
        self.bill(CALL, Billed::Here, session, half);
    }

    fn bill_oneway(&self, session: &Session, half: Half) {
        self.bill(ONEWAY, Billed::There, session, half);
    }

    /// Writes a sample down.
    fn bill(&self, way: &Way, billed: Billed, session: &Session, half: Half) {
        let Half { sample, names: (service, method), .. } = half;
        if sample.warms {
            return self.free_sample(sample);
        }
        let stamps = sample.taken.finish(way, sample.manner, billed);
        let page = self.sampling.page.get_or_init(|| self.make_page());
        let (Some(stamps), Some(page)) = (stamps, page) else {
            return self.count(Counter::SamplesLost);
        };
        let peer = &session.carrier.peer;
        let lock = sample.lock.as_ref();
        page.samples.write(&Record {
            subject: page.subject(peer, service, method),
            kind: way.number(),
            rung: sample.manner.byte(),
            flags: sample.taken.happened.0,
            note: lock.map_or(0, |lock| page.text(lock)),
            peer: peer.incarnation,
            stamps,
        });
        self.count(Counter::SamplesTaken);
        self.free_sample(sample);
    }

    fn make_page(&self) -> Option<Page> {
        let home = &self.home;
        let name = home.name().map_or_else(String::new, ToString::to_string);
        let samples = if self.counters.is_shared() {
            Samples::create(&name, home.incarnation()).ok()?
        } else {
            Samples::heap(&name, home.incarnation())
        };
        Some(Page { samples, subjects: RefCell::default(), known: RefCell::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_sampled_and_none_if_none_is_wanted() {
        for every in [1, 2, 10, 1000] {
            let sampling = Sampling::new(every, 7);
            let messages = 2000 * every;
            let sampled =
                (0..messages).filter(|_| sampling.is_due() && sampling.next(CALL).is_some());
            let sampled = sampled.count() as u32;
            let about = if every == 1 { 2000..=2000 } else { 1600..=2400 };
            assert!(about.contains(&sampled), "{sampled} of {messages}, one in {every}");
        }
        let sampling = Sampling::new(0, 7);
        assert!(!(0..100_000).any(|_| sampling.is_due()));
        sampling.set(1);
        assert!(sampling.is_due() && sampling.next(CALL).is_some());
    }

    #[test]
    fn samples_come_in_runs_and_their_first_ones_warm_up() {
        let sampling = Sampling::new(1000, 7);
        let mut due = 0;
        while !sampling.is_due() {
            due += 1;
            assert!(due < 2 * 1000 * RUN, "a run must begin");
        }
        let run: Vec<_> = std::iter::from_fn(|| {
            let sample = sampling.next(CALL)?;
            sampling.is_due();
            Some(sample)
        })
        .collect();
        assert_eq!(run.len(), RUN as usize);
        assert!(run.iter().all(|(manner, _)| *manner == run[0].0));
        let warming = run.iter().take_while(|(_, warms)| *warms).count() as u32;
        assert_eq!(warming, WARMING);
    }

    #[test]
    fn samples_come_as_often_where_each_message_is_diverted() {
        let sampling = Sampling::new(10, 7);
        sampling.divert(true);
        let sampled = (0..20_000).filter(|_| {
            assert!(sampling.is_due());
            sampling.next(CALL).is_some()
        });
        let sampled = sampled.count();
        assert!((1600..=2400).contains(&sampled), "{sampled} of 20000, one in 10");
        sampling.divert(false);
        let due = (0..20_000).filter(|_| sampling.is_due() && sampling.next(CALL).is_some());
        let due = due.count();
        assert!((1600..=2400).contains(&due), "{due} of 20000, one in 10");
    }

    #[test]
    fn a_message_that_has_a_sample_takes_nobodys_turn() {
        let sampling = Sampling::new(1, 7);
        assert!(sampling.is_due());
        sampling.put_off();
        assert!(sampling.is_due() && sampling.next(CALL).is_some());
    }

    #[test]
    fn whole_stories_and_every_pair_have_their_turns() {
        let sampling = Sampling::new(1, 7);
        let mut manners = Vec::new();
        let pairs = CALL.pairs().count();
        for _ in 0..2 * RUN as usize * pairs {
            assert!(sampling.is_due());
            let (manner, warms) = sampling.next(CALL).unwrap();
            assert!(!warms, "where all are sampled all are warm");
            manners.push(manner);
        }
        let wholes = manners.iter().filter(|manner| **manner == Manner::Whole).count();
        assert_eq!(wholes, RUN as usize * pairs);
        assert!(CALL.pairs().all(|pair| manners.contains(&pair)));
    }
}
