//! Sampled messages of a session of which one half is there.
//!
//! Of whole stories each side has a half. A call's other half comes behind its answer, and waits
//! here if that was copied and nobody has polled for it yet; a one-way message's comes behind
//! it, and waits here if its handler is a task. A half whose other
//! never comes, because there was no room for it or the peer takes no stamps, is forgotten when
//! newer ones need the place. Pairs need none of this: their stamps travel in heads. Between hosts
//! this side's half of a message is sent once that was written to its socket.

use super::Session;
use crate::sample::{Half, Heard, Message, Sample, Wants};
use std::collections::VecDeque;
use std::sync::Arc;
use upbeat_core::bill::taken::{Taken, Written};
use upbeat_core::bill::way::{CALL, CALL_TCP, CALL_TLS, ONEWAY, ONEWAY_TCP, ONEWAY_TLS, Way};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::limits::{CONTROL_SLOTS, STAMPS_BYTES_MAX};
use upbeat_memory::ring::span_of;
use upbeat_transport::carrier::Kind;

/// The most halves that wait for their other ones; samples are rare.
const HALVES_MAX: usize = 16;

/// What is known of sampled messages.
#[derive(Default)]
pub(super) struct Samples {
    /// Of calls that have no answer yet.
    open: VecDeque<Half>,
    /// Ours, which wait for the peer's.
    ours: VecDeque<Half>,
    /// The peer's, which wait for ours.
    peers: VecDeque<Half>,
    /// Ours of one-way messages that were not written to the socket yet.
    unsent: VecDeque<Half>,
    /// Of the sampled answer that came last.
    heard: Heard,
}

fn keep(halves: &mut VecDeque<Half>, half: Half) {
    halves.reserve_exact(HALVES_MAX - halves.len());
    if halves.len() == HALVES_MAX {
        halves.pop_front();
    }
    halves.push_back(half);
}

fn take(halves: &mut VecDeque<Half>, message: Message) -> Option<Half> {
    let at = halves.iter().position(|half| half.message == message)?;
    halves.remove(at)
}

impl Session {
    /// A sampled call is open.
    pub(crate) fn open_sample(&self, half: Half) {
        keep(&mut self.samples.borrow_mut().open, half);
    }

    /// Whether any open call is sampled.
    #[inline(always)]
    pub(crate) fn has_open_samples(&self) -> bool {
        !self.samples.borrow().open.is_empty()
    }

    /// Where stamps of an open call are wanted, if it is sampled.
    pub(crate) fn wants_of(&self, call: CallNumber) -> Option<Wants> {
        let samples = self.samples.borrow();
        let half = samples.open.iter().find(|half| half.message == Message::Call(call))?;
        Some(half.sample.wants())
    }

    /// The sample of an open call, unless there were too many.
    pub(crate) fn take_open_sample(&self, call: CallNumber) -> Option<Half> {
        take(&mut self.samples.borrow_mut().open, Message::Call(call))
    }

    /// A sampled answer has come.
    pub(crate) fn set_heard(&self, heard: Heard) {
        self.samples.borrow_mut().heard = heard;
    }

    /// It is known who waits for it.
    pub(crate) fn set_found(&self, ticks: u64) {
        self.samples.borrow_mut().heard.found = ticks;
    }

    /// The answer of this call was copied.
    pub(super) fn set_stashed(&self, call: CallNumber) {
        let heard = &mut self.samples.borrow_mut().heard;
        heard.stashed |= heard.call == call;
    }

    /// What was stamped of the answer of this call.
    pub(crate) fn heard(&self, call: CallNumber) -> Option<Heard> {
        Some(self.samples.borrow().heard).filter(|heard| heard.call == call)
    }

    /// Our half of a message is whole. Gives the sample if the peer's is there: an answer that was
    /// copied is overtaken by it, and so is a handler that is a task. `free` takes the peer's, which is done with.
    pub(crate) fn end_sample(
        &self,
        mut half: Half,
        free: impl FnOnce(Box<Sample>),
    ) -> Option<Half> {
        let mut samples = self.samples.borrow_mut();
        let Some(mut peers) = take(&mut samples.peers, half.message) else {
            keep(&mut samples.ours, half);
            return None;
        };
        half.join(&peers.sample.taken);
        half.sample.lock = peers.sample.lock.take().or(half.sample.lock.take());
        drop(samples);
        free(peers.sample);
        Some(half)
    }

    /// The ways of calls and of one-way messages over this session.
    pub(crate) fn ways(&self) -> (&'static Way, &'static Way) {
        match (self.is_remote(), self.carrier.kind) {
            (true, Kind::Tls) => (CALL_TLS, ONEWAY_TLS),
            (true, _) => (CALL_TCP, ONEWAY_TCP),
            (false, _) => (CALL, ONEWAY),
        }
    }

    /// Translates the peer's stamps into our ticks, where it is of another host. False if its clock is not known.
    pub(crate) fn translate(&self, taken: &mut Taken) -> bool {
        let Ok(offset) = self.carrier.offset() else { return false };
        offset.iter().for_each(|offset| taken.translate(offset));
        true
    }

    /// The peer's half has come. Gives the sample if ours
    /// is there. If not, it is kept in a sample that `spare` gives.
    pub(crate) fn join_sample(
        &self,
        message: Message,
        (taken, lock): (&Taken, &str),
        spare: impl FnOnce() -> Box<Sample>,
    ) -> Option<Half> {
        let mut samples = self.samples.borrow_mut();
        let lock = (!lock.is_empty()).then(|| Arc::from(lock));
        let Some(mut half) = take(&mut samples.ours, message) else {
            let mut sample = spare();
            (sample.taken, sample.lock) = (taken.clone(), lock);
            keep(&mut samples.peers, Half { message, names: ("", ""), sample });
            return None;
        };
        half.join(taken);
        half.sample.lock = lock.or(half.sample.lock.take());
        Some(half)
    }

    /// Sends this side's half of an answered call or of a one-way message, once what this side wrote of it has gone to
    /// the socket. Returns whether the half is done with.
    pub(crate) fn send_half(&self, half: &mut Half) -> bool {
        if self.ended().is_some() {
            return true;
        }
        let (written, taken) = (half.sample.writing(&self.carrier), &mut half.sample.taken);
        match (written, half.message) {
            (Written::NotYet, _) => return false,
            (Written::All(writing), Message::Call(_)) => taken.reply_written(writing),
            (Written::All(writing), Message::Oneway(_)) => taken.request_written(writing),
            (Written::Unknown, _) => {}
        }
        self.send_stamps(half.message, &half.sample);
        true
    }

    /// Sends this side's halves of one-way messages: of this one, and of those before it that wait. Those that were not
    /// written to the socket yet go behind a later one. `free` takes what is done with.
    pub(crate) fn send_halves(&self, half: Half, free: impl Fn(Box<Sample>)) {
        let mut unsent = std::mem::take(&mut self.samples.borrow_mut().unsent);
        keep(&mut unsent, half);
        for _ in 0..unsent.len() {
            let Some(mut half) = unsent.pop_front() else { break };
            match self.send_half(&mut half) {
                true => free(half.sample),
                false => unsent.push_back(half),
            }
        }
        self.samples.borrow_mut().unsent = unsent;
    }

    /// Sends the stamps that were taken here, if there is room for them. They ring nobody.
    pub(crate) fn send_stamps(&self, message: Message, sample: &Sample) {
        let call = match message {
            Message::Call(call) => call,
            Message::Oneway(_) => CallNumber::NONE,
        };
        if self.core.outbound().is_barred() {
            return;
        }
        let mut payload = [0; STAMPS_BYTES_MAX];
        let len = sample.taken.encode(sample.lock.as_deref().unwrap_or(""), &mut payload);
        if let Ok(mut claim) = self.carrier.lanes.claim(span_of(len), CONTROL_SLOTS as u32) {
            claim.write(0, &payload[..len]);
            claim.commit(Head::stamps(call, len as u32).words(), len);
        }
    }
}
