//! Sampled messages of a session whose two halves are not together yet.
//!
//! A call's half from there comes behind its answer; a one-way message's half from its sender comes
//! right behind it. A half that never comes, because there was no room for it or the peer takes no
//! stamps, is forgotten when newer ones need the place.

use super::Session;
use crate::sample::{Halves, Sample, Stamps};
use std::collections::VecDeque;
use std::sync::Arc;
use upbeat_core::bill::taken::Taken;
use upbeat_core::bill::way::{Manner, Point};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::limits::{CONTROL_SLOTS, STAMPS_BYTES_MAX};
use upbeat_memory::ring::span_of;

/// The most that wait for their other half; samples are rare.
const OPEN_MAX: usize = 16;

/// What waits for its other half.
pub(super) type Open = VecDeque<Halves>;

impl Session {
    /// A sampled call was sent.
    pub(crate) fn begin_sample(&self, halves: Halves) {
        let mut open = self.samples.borrow_mut();
        if open.len() == OPEN_MAX {
            open.pop_front();
        }
        open.push_back(halves);
    }

    /// A sampled call passes a point.
    #[inline]
    pub(crate) fn stamp(&self, call: CallNumber, point: Point) {
        self.with_sample(call, |sample| sample.at(point));
    }

    /// Does something with the sample of a call, if there is one.
    #[inline]
    pub(crate) fn with_sample(&self, call: CallNumber, act: impl FnOnce(&mut Sample)) {
        let mut open = self.samples.borrow_mut();
        if let Some(halves) = open.iter_mut().find(|halves| halves.call == call) {
            act(&mut halves.sample);
        }
    }

    /// A sampled call is given up.
    pub(crate) fn drop_sample(&self, call: CallNumber) {
        self.samples.borrow_mut().retain(|halves| halves.call != call);
    }

    /// A sampled call has its result. Gives the sample if both halves are there.
    pub(crate) fn end_sample(&self, call: CallNumber) -> Option<Halves> {
        let mut open = self.samples.borrow_mut();
        let at = open.iter().position(|halves| halves.call == call && !halves.done)?;
        if open[at].joined {
            return open.remove(at);
        }
        open[at].done = true;
        None
    }

    /// A sampled one-way message has come, under a number of its own. The stamps of its sender
    /// come right behind it.
    pub(crate) fn oneway_sample_came(&self) -> CallNumber {
        self.oneway_samples.set(self.oneway_samples.get().wrapping_add(1));
        self.last_oneway_sample()
    }

    /// No call has such a number: their generations begin at 1.
    fn last_oneway_sample(&self) -> CallNumber {
        CallNumber { index: self.oneway_samples.get(), generation: 0 }
    }

    /// A sampled one-way message is handled. Gives the sample if its sender's half is there.
    pub(crate) fn end_oneway_sample(&self, mut halves: Halves) -> Option<Halves> {
        let mut open = self.samples.borrow_mut();
        if let Some(at) = open.iter().position(|other| other.call == halves.call) {
            let other = open.remove(at)?;
            halves.sample.taken.join(&other.sample.taken);
            return Some(halves);
        }
        drop(open);
        halves.done = true;
        self.begin_sample(halves);
        None
    }

    /// The peer's stamps have come: of a call, or of the last one-way message. Gives the sample if
    /// both halves are there.
    pub(crate) fn join_sample(
        &self,
        call: CallNumber,
        taken: &Taken,
        lock: &str,
    ) -> Option<Halves> {
        let oneway = call == CallNumber::NONE;
        let call = if oneway { self.last_oneway_sample() } else { call };
        let mut open = self.samples.borrow_mut();
        let Some(at) = open.iter().position(|halves| halves.call == call && !halves.joined) else {
            drop(open);
            if oneway {
                // Its handler is a task.
                let mut sample = Sample::of(Manner::Whole);
                sample.taken = taken.clone();
                self.begin_sample(Halves { joined: true, ..Halves::new(call, ("", ""), sample) });
            }
            return None;
        };
        let halves = &mut open[at];
        halves.sample.taken.join(taken);
        halves.joined = true;
        if !lock.is_empty() {
            halves.sample.lock = Some(Arc::from(lock));
        }
        if halves.done { open.remove(at) } else { None }
    }

    /// Sends the stamps that were taken here, if there is room for them.
    pub(crate) fn send_stamps(&self, call: CallNumber, sample: &Sample) {
        if self.barred.get() {
            return;
        }
        let mut payload = [0; STAMPS_BYTES_MAX];
        let len = sample.taken.encode(sample.lock.as_deref().unwrap_or(""), &mut payload);
        if let Ok(mut claim) = self.carrier.lanes.claim(span_of(len), CONTROL_SLOTS as u32) {
            claim.write(0, &payload[..len]);
            claim.commit(Head::stamps(call, len as u32).words(), len);
            self.unflushed.set(self.unflushed.get() + 1);
        }
    }
}
