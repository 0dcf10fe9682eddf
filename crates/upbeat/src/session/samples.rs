//! Sampled messages of which one side's half is present.
//!
//! Each side stamps a half of a fully sampled message. The other half of a call comes behind its reply, and waits
//! here if the reply was copied and its caller was not polled yet. The other half of a one-way message comes behind
//! the message, and waits here if its handler is a task. A half whose counterpart never comes, because there was no
//! room for it or the peer takes no stamps, is dropped when newer halves need the space. The sample of an open call
//! never gives way to a newer one: slow calls would have none. Whatever is dropped is counted as lost. Pairs do not need this
//! module: their stamps travel in heads. Between hosts this side sends its half of a message after the message was
//! written to the socket. A half for which the lane has no room waits as well.

use super::Session;
use crate::sample::{Half, Message, ReplyStamps, Sample, Wants};
use std::collections::VecDeque;
use std::sync::Arc;
use upbeat_core::bill::taken::{MessageStamps, Written};
use upbeat_core::bill::way::{CALL, CALL_TCP, CALL_TLS, ONEWAY, ONEWAY_TCP, ONEWAY_TLS, Way};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::limits::{CONTROL_SLOTS, STAMPS_BYTES_MAX};
use upbeat_memory::ring::span_of;

/// The most sampled calls of a session that are open at once; further ones have no sample.
const OPEN_MAX: usize = 1024;
/// The most halves that wait for their counterparts.
const HALVES_MAX: usize = 256;
/// The most sampled replies whose futures were not polled yet.
const HEARD_MAX: usize = 64;

/// The state of sampled messages.
#[derive(Default)]
pub(super) struct Samples {
    /// The halves of calls that have no reply yet.
    open: VecDeque<Half>,
    /// Our halves, which wait for the peer's.
    ours: VecDeque<Half>,
    /// The peer's halves, which wait for ours.
    peers: VecDeque<Half>,
    /// Our halves of one-way messages that were not written to the socket yet.
    unsent: VecDeque<Half>,
    /// The stamps of sampled replies whose futures were not polled yet, the last one last.
    heard: VecDeque<ReplyStamps>,
    /// The samples that were dropped and are not counted yet.
    lost: u64,
}

/// The room that the first half makes, so that samples allocate no memory as a rule.
const HALVES_FIRST: usize = 16;

/// Keeps a half. Returns the oldest one if there is no room for it.
fn keep(halves: &mut VecDeque<Half>, half: Half) -> Option<Half> {
    if halves.capacity() == 0 {
        halves.reserve_exact(HALVES_FIRST);
    }
    let oldest = if halves.len() == HALVES_MAX { halves.pop_front() } else { None };
    halves.push_back(half);
    oldest
}

fn take(halves: &mut VecDeque<Half>, message: Message) -> Option<Half> {
    let at = halves.iter().position(|half| half.message == message)?;
    halves.remove(at)
}

impl Session {
    /// Stores the half of a sampled call that is open. Returns the sample if too many calls are.
    pub(crate) fn open_sample(&self, half: Half) -> Option<Box<Sample>> {
        let mut samples = self.samples.borrow_mut();
        if samples.open.len() == OPEN_MAX {
            samples.lost += 1;
            return Some(half.sample);
        }
        if samples.open.capacity() == 0 {
            samples.open.reserve_exact(HALVES_FIRST);
        }
        samples.open.push_back(half);
        None
    }

    /// Counts a sample that was dropped.
    pub(crate) fn lost_sample(&self) {
        self.samples.borrow_mut().lost += 1;
    }

    /// Returns the number of samples that were dropped since the last time.
    pub(crate) fn take_lost_samples(&self) -> u64 {
        std::mem::take(&mut self.samples.borrow_mut().lost)
    }

    /// Returns whether any open call is sampled.
    #[inline(always)]
    pub(crate) fn has_open_samples(&self) -> bool {
        !self.samples.borrow().open.is_empty()
    }

    /// Returns which stamps of an open call are wanted, if it is sampled.
    pub(crate) fn wants_of(&self, call: CallNumber) -> Option<Wants> {
        let samples = self.samples.borrow();
        let half = samples.open.iter().find(|half| half.message == Message::Call(call))?;
        Some(half.sample.wants())
    }

    /// Takes the sample of an open call, unless it was dropped.
    pub(crate) fn take_open_sample(&self, call: CallNumber) -> Option<Half> {
        take(&mut self.samples.borrow_mut().open, Message::Call(call))
    }

    /// Stores the stamps of a sampled reply that has come.
    pub(crate) fn set_heard(&self, heard: ReplyStamps) {
        let all = &mut self.samples.borrow_mut().heard;
        if all.capacity() == 0 {
            all.reserve_exact(HEARD_MAX);
        }
        if all.len() == HEARD_MAX {
            all.pop_front();
        }
        all.push_back(heard);
    }

    /// Stamps the moment at which the reply's waiter is known.
    pub(crate) fn set_found(&self, ticks: u64) {
        if let Some(heard) = self.samples.borrow_mut().heard.back_mut() {
            heard.found = ticks;
        }
    }

    /// Notes that the reply of this call was copied.
    pub(super) fn set_stashed(&self, call: CallNumber) {
        if let Some(heard) = self.samples.borrow_mut().heard.back_mut() {
            heard.stashed |= heard.call == call;
        }
    }

    /// Takes the stamps of the reply of this call.
    pub(crate) fn heard(&self, call: CallNumber) -> Option<ReplyStamps> {
        let heard = &mut self.samples.borrow_mut().heard;
        let at = heard.iter().position(|heard| heard.call == call)?;
        heard.remove(at)
    }

    /// Completes our half of a message. Returns the sample if the peer's half is present, which overtakes a copied
    /// reply and a handler that is a task. `free` takes back the peer's sample.
    pub(crate) fn end_sample(
        &self,
        mut half: Half,
        free: impl FnOnce(Box<Sample>),
    ) -> Option<Half> {
        let mut samples = self.samples.borrow_mut();
        let Some(mut peers) = take(&mut samples.peers, half.message) else {
            samples.lost += u64::from(keep(&mut samples.ours, half).is_some());
            return None;
        };
        half.join(&peers.sample.taken);
        half.sample.lock = peers.sample.lock.take().or(half.sample.lock.take());
        drop(samples);
        free(peers.sample);
        Some(half)
    }

    /// Returns the stages of calls and of one-way messages over this session.
    pub(crate) fn ways(&self) -> (&'static Way, &'static Way) {
        match (self.is_remote(), self.carrier.caps().encrypts) {
            (true, true) => (CALL_TLS, ONEWAY_TLS),
            (true, false) => (CALL_TCP, ONEWAY_TCP),
            (false, _) => (CALL, ONEWAY),
        }
    }

    /// Translates the stamps of a peer on another host into our ticks. Returns false if its clock is not known.
    pub(crate) fn translate(&self, taken: &mut MessageStamps) -> bool {
        let Ok(offset) = self.carrier.offset() else { return false };
        offset.iter().for_each(|offset| taken.translate(offset));
        true
    }

    /// Takes the peer's half. Returns the sample if our half is present; if not, the peer's half is kept in a sample
    /// that `spare` gives.
    pub(crate) fn join_sample(
        &self,
        message: Message,
        (taken, lock): (&MessageStamps, &str),
        spare: impl FnOnce() -> Box<Sample>,
    ) -> Option<Half> {
        let mut samples = self.samples.borrow_mut();
        let lock = (!lock.is_empty()).then(|| Arc::from(lock));
        let Some(mut half) = take(&mut samples.ours, message) else {
            let mut sample = spare();
            (sample.taken, sample.lock) = (taken.clone(), lock);
            let half = Half { message, names: ("", ""), sample };
            samples.lost += u64::from(keep(&mut samples.peers, half).is_some());
            return None;
        };
        half.join(taken);
        half.sample.lock = lock.or(half.sample.lock.take());
        Some(half)
    }

    /// Sends this side's half of an answered call or of a one-way message, once this side's message has gone to the
    /// socket. Returns whether the half is done with.
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
        self.put_stamps(half.message, &half.sample)
    }

    /// Sends this side's halves of one-way messages: this one, and earlier ones that wait. A half whose message was
    /// not written to the socket yet goes behind a later one. `free` takes back the samples that are done with.
    pub(crate) fn send_halves(&self, half: Half, free: impl Fn(Box<Sample>)) {
        let mut unsent = std::mem::take(&mut self.samples.borrow_mut().unsent);
        if keep(&mut unsent, half).is_some() {
            self.lost_sample();
        }
        for _ in 0..unsent.len() {
            let Some(mut half) = unsent.pop_front() else { break };
            match self.send_half(&mut half) {
                true => free(half.sample),
                false => unsent.push_back(half),
            }
        }
        self.samples.borrow_mut().unsent = unsent;
    }

    /// Sends the stamps that were taken here, if there is room for them. Stamps wake no peer.
    pub(crate) fn send_stamps(&self, message: Message, sample: &Sample) {
        if !self.put_stamps(message, sample) {
            self.lost_sample();
        }
    }

    /// Sends stamps. Returns false if there is no room for them now.
    fn put_stamps(&self, message: Message, sample: &Sample) -> bool {
        let call = match message {
            Message::Call(call) => call,
            Message::Oneway(_) => CallNumber::NONE,
        };
        if self.core.outbound().is_barred() {
            return false;
        }
        let mut payload = [0; STAMPS_BYTES_MAX];
        let len = sample.taken.encode(sample.lock.as_deref().unwrap_or(""), &mut payload);
        let claim = self.carrier.writer().claim(span_of(len), CONTROL_SLOTS as u32);
        let Ok(mut claim) = claim else { return false };
        claim.write(0, &payload[..len]);
        claim.commit(Head::stamps(call, len as u32).words(), len);
        true
    }
}
