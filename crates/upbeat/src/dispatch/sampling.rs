//! Sampled messages of a node: the requests that it serves, and its halves of their bills.

use super::frames::OfNode;
use super::places::take_context;
use super::requests::called;
use super::{Dispatcher, Main, Request, Running};
use crate::sample::{Half, Message, Names, Sample, Stamps};
use crate::sampling::{Sampling, take_sampled};
use crate::session::{Fault, Session, misbehaved};
use crate::wire::Input;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::{MessageEvents, Point, StampMode};
use upbeat_core::frame::{CallNumber, Flags, Head};

/// The most halves that are kept back at once.
const OUTGOING_MAX: usize = 256;

/// The room that the first half makes.
const OUTGOING_FIRST: usize = 32;

impl Dispatcher {
    /// Returns the sampler, which decides which messages of the node are sampled.
    #[inline(always)]
    pub(crate) fn sampling(&self) -> &Sampling {
        &self.account.sampling
    }

    /// Counts a sample that was written down or lost.
    pub(crate) fn count_sample(&self, counter: Option<Counter>) {
        counter.into_iter().for_each(|counter| self.count(counter));
    }

    /// Takes over a frame whose head says that it is stamped.
    #[inline(never)]
    pub(super) fn sampled(
        self: &Rc<Self>,
        session: &Rc<Session>,
        words: &[u64; 3],
        manner: StampMode,
        main: Main<'_>,
    ) -> Result<(), Fault> {
        let request =
            |plain: &[u64; 3], stamp| self.sampled_request(session, plain, (manner, stamp));
        let driver = OfNode { node: self, session };
        take_sampled(driver, &self.account.sampling, words, manner, main, request)
    }

    #[inline(always)]
    fn sampled_request(
        self: &Rc<Self>,
        session: &Rc<Session>,
        plain: &[u64; 3],
        (manner, stamp): (StampMode, u64),
    ) -> Result<(), Fault> {
        let mut sample = self.account.sampling.of_request(manner);
        let head = Head::parse(*plain).map_err(misbehaved)?;
        if self.account.sampling.was_busy() {
            sample.note(MessageEvents::BUSY_THERE);
        }
        sample.at(Point::CheckedThere);
        sample.read(&session.carrier);
        let methods = self.entries();
        let method = called(&methods, session, &head);
        let (Some((number, entry)), true) = (method, self.may_accept(session, &head)) else {
            // A request that is refused, or has to wait, is no longer sampled.
            drop(methods);
            self.account.sampling.free(sample);
            return self.request_came(session, &head);
        };
        session.accept();
        if head.call == CallNumber::NONE {
            sample.oneway = Some(stamp);
            if !session.is_remote() {
                // The stamps of another host come all together, behind the message.
                sample.known(Point::Begun, stamp);
            }
        }
        sample.at(Point::FoundThere);
        self.run.running.set(Running::Handler(head.call));
        self.run.method.set(number);
        let hold = session.hold(&head)?;
        let mut payload = hold.as_ref().map_or_else(|| session.payload(&head), Input::lent);
        let context = take_context(session.context_bytes(&head), &mut payload)?;
        let payload = if number == head.method { payload } else { payload.tolerating() };
        let deadline_us = session.deadline_us(&head);
        let (Head { kind, call, .. }, refusals) = (head, session.refusals(&head));
        let extendable = head.flags.has(Flags::EXTENDABLE);
        let request = Request { kind, call, deadline_us, refusals, extendable, context, payload };
        let run = || entry.method.sampled(self, session, request, &mut sample);
        match self.watch.is_on() {
            true => self.timed(entry, run),
            false => run(),
        }
        self.ran();
        self.account.sampling.free(sample);
        Ok(())
    }

    /// Ends the sample of a completed handler: its half goes to the caller; that of a one-way message stays here.
    pub(crate) fn served(
        self: &Rc<Self>,
        session: &Rc<Session>,
        call: CallNumber,
        names: Names,
        sample: &mut Sample,
    ) {
        match (sample.oneway, sample.manner) {
            (None, StampMode::Whole) => {
                self.account.sampling.bill_served(session, names, sample);
                self.keep_back(session, Message::Call(call), sample);
            }
            (None, _) => {}
            (Some(begun), _) => {
                let message = Message::Oneway(begun);
                let half = Half { message, names, sample: Box::new(sample.clone()) };
                if !sample.needs_frame() {
                    return self.count_sample(self.account.sampling.bill_oneway(session, half));
                }
                if let Some(half) =
                    session.end_sample(half, |peers| self.account.sampling.free(peers))
                {
                    self.count_sample(self.account.sampling.bill_oneway(session, half));
                }
            }
        }
    }

    /// Handles a sampled one-way message that stands in the lane. Its head cannot carry all stamps, so this side sends
    /// them behind the message: at once, or between hosts when the socket has taken the message.
    pub(crate) fn oneway_written(&self, session: &Rc<Session>, sample: &Sample) {
        let message = sample.as_oneway();
        match sample.is_watched() {
            true => self.keep_back(session, message, sample),
            false => session.send_stamps(message, sample),
        }
    }

    /// Keeps a half back until its message is on its way.
    fn keep_back(&self, session: &Rc<Session>, message: Message, sample: &Sample) {
        let mut own = self.account.sampling.sample(sample.manner);
        *own = sample.clone();
        let half = Half { message, names: ("", ""), sample: own };
        let mut outgoing = self.account.outgoing.borrow_mut();
        if outgoing.capacity() == 0 {
            outgoing.reserve_exact(OUTGOING_FIRST);
        }
        match outgoing.len() < OUTGOING_MAX {
            true => outgoing.push((Rc::clone(session), half)),
            false => {
                self.count(Counter::SamplesLost);
                self.account.sampling.free(half.sample);
            }
        }
        self.pressed.set(true);
    }

    /// Handles stamps of the peer, whose frame lies open.
    pub(super) fn stamps_arrived(&self, session: &Session, head: &Head) -> Result<(), Fault> {
        self.count_sample(self.account.sampling.stamps_arrived(session, head)?);
        Ok(())
    }

    /// Sends the halves that were kept back, except those whose messages were not written to their sockets yet, and
    /// those for which a lane has no room.
    /// No peer is woken for them. Returns whether any are left.
    pub(super) fn send_halves(&self) -> bool {
        let mut outgoing = self.account.outgoing.borrow_mut();
        for (_, half) in outgoing.extract_if(.., |(session, half)| session.send_half(half)) {
            self.unflushed.sent();
            self.account.sampling.free(half.sample);
        }
        !outgoing.is_empty()
    }
}
