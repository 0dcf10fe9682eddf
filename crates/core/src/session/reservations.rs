//! The senders that have asked for room, and the grants that are not used.
//!
//! Granted requests are sent in the order of their numbers: a later request could otherwise take the last buffer,
//! and would then wait at the receiver for the earlier one. A grant is kept for its sender, and the receiver
//! accepts no later request of the session before it. A future that is kept without being polled, or leaked, would
//! hold all of them up; its grant is therefore given back after a while.

use crate::mutant::{Mutant, mutated};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The state of a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// There is no room yet, or other requests come first.
    Awaited,
    /// The request may be sent.
    Here,
    /// The grant was not used in time and is given back, so the sender must ask again.
    Lost,
}

/// The senders that have asked for room, by the numbers of their requests.
#[derive(Debug)]
pub(super) struct Reservations<W> {
    asking: BTreeMap<u64, Reservation<W>>,
    /// The nanoseconds for which a grant is kept.
    kept: u64,
}

#[derive(Debug)]
struct Reservation<W> {
    /// The bytes for which room was asked.
    bytes: usize,
    waiter: W,
    granted: bool,
    /// Since when the sender has been woken and not been polled.
    woken_since: Option<u64>,
}

impl<W: Clone> Reservations<W> {
    pub(super) const fn new(kept: u64) -> Reservations<W> {
        Reservations { asking: BTreeMap::new(), kept }
    }

    pub(super) fn len(&self) -> usize {
        self.asking.len()
    }

    pub(super) fn ask(&mut self, number: u64, bytes: usize, waiter: W) {
        let reservation = Reservation { bytes, waiter, granted: false, woken_since: None };
        self.asking.insert(number, reservation);
    }

    /// Returns for how many bytes this request has asked for room.
    pub(super) fn bytes(&self, number: u64) -> usize {
        self.asking.get(&number).map_or(0, |asking| asking.bytes)
    }

    /// Handles a poll of the sender of this request.
    pub(super) fn poll(&mut self, number: u64, waiter: &W) -> Grant {
        let first = self.asking.first_key_value().map(|(first, _)| *first);
        let Some(asking) = self.asking.get_mut(&number) else { return Grant::Lost };
        asking.woken_since = None;
        if asking.granted && (first == Some(number) || mutated(Mutant::GrantOutOfTurn)) {
            return Grant::Here;
        }
        asking.waiter.clone_from(waiter);
        Grant::Awaited
    }

    /// Handles a grant. The sender is woken even if other requests come first, to find out whether it responds.
    pub(super) fn granted(&mut self, number: u64, now: u64) -> Option<W> {
        let asking = self.asking.get_mut(&number)?;
        asking.granted = true;
        Some(asking.wake(now))
    }

    /// Removes a request. Returns whether it was there, and the sender whose turn it is.
    pub(super) fn end(&mut self, number: u64, now: u64) -> (bool, Option<W>) {
        (self.asking.remove(&number).is_some(), self.wake_first(now))
    }

    /// Returns the first sender, to be woken, if room was granted to it.
    pub(super) fn wake_first(&mut self, now: u64) -> Option<W> {
        let first = self.asking.first_entry().filter(|first| first.get().granted)?;
        (!mutated(Mutant::GrantedAsleep)).then(|| first.into_mut().wake(now))
    }

    /// Records that the first sender is woken in another way, so that it is expected to respond.
    pub(super) fn note_woken(&mut self, now: u64) {
        if let Some(mut first) = self.asking.first_entry()
            && first.get().granted
        {
            first.get_mut().woken_since.get_or_insert(now);
        }
    }

    /// Returns the requests of senders that have not responded in time.
    pub(super) fn unused(&self, now: u64) -> Vec<u64> {
        let unused =
            self.asking.iter().filter(|(_, asking)| asking.kept(self.kept, now) == Some(0));
        unused.map(|(number, _)| *number).collect()
    }

    /// Returns for how long a grant is still kept for a sender that has not responded, if there is one.
    pub(super) fn kept(&self, now: u64) -> Option<u64> {
        self.asking.values().filter_map(|asking| asking.kept(self.kept, now)).min()
    }

    /// Removes and returns all senders, because the session has ended.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = W> + use<W> {
        core::mem::take(&mut self.asking).into_values().map(|asking| asking.waiter)
    }
}

impl<W: Clone> Reservation<W> {
    fn wake(&mut self, now: u64) -> W {
        self.woken_since.get_or_insert(now);
        self.waiter.clone()
    }

    fn kept(&self, most: u64, now: u64) -> Option<u64> {
        let since = self.woken_since?;
        if mutated(Mutant::GrantKept) {
            return None;
        }
        Some((since + most).saturating_sub(now))
    }
}
