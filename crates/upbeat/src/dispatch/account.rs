//! The account of a node: its counters, and the samples that it takes.

use super::Dispatcher;
use super::lost_reads::LostReads;
use crate::sample::Half;
use crate::sampling::Sampling;
use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_memory::counters::Counters;

/// The account of a node: what it counts, and the samples that it takes.
pub(super) struct Account {
    pub(super) sampling: Sampling,
    /// Halves of sampled messages, which are sent after the messages themselves.
    pub(super) outgoing: RefCell<Vec<(Rc<Session>, Half)>>,
    pub(super) tallies: [Cell<u64>; Counter::COUNT],
    counters: Counters,
    lost_reads: LostReads,
}

impl Account {
    /// Makes the account of a node that has counted nothing. Observers see it in `counters`.
    pub(super) fn new(sampling: Sampling, counters: Counters) -> Account {
        let (outgoing, tallies) = (RefCell::default(), [const { Cell::new(0) }; Counter::COUNT]);
        Account { sampling, outgoing, tallies, counters, lost_reads: LostReads::default() }
    }
}

impl Dispatcher {
    /// Publishes the counters to observers.
    pub(super) fn show_counters(&self) {
        self.tally();
        for (index, tally) in self.account.tallies.iter().enumerate() {
            self.account.counters.set(index, tally.get());
        }
    }

    /// Counts one event. Observers see it at the next tick.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        let tally = &self.account.tallies[counter as usize];
        tally.set(tally.get() + 1);
    }

    /// Counts several events of one kind.
    pub(crate) fn count_more(&self, counter: Counter, more: u64) {
        let tally = &self.account.tallies[counter as usize];
        tally.set(tally.get().saturating_add(more));
    }

    /// Adds the counts that other modules have collected.
    fn tally(&self) {
        self.tally_polled();
        self.tally_contained();
        self.tally_samples();
        self.tally_reads();
        self.count_more(Counter::RemoteBytesDeclined, self.peers.quota.take_declined());
    }

    /// Returns the value of a counter.
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.tally();
        self.account.tallies[counter as usize].get()
    }

    /// Returns a number that grows with the messages that this node sends and handles.
    pub(super) fn messages(&self) -> u64 {
        const LAST: usize = Counter::StartedAsTasks as usize;
        self.account.tallies[..=LAST].iter().map(Cell::get).sum()
    }

    /// Returns how many handlers have completed at their first poll.
    #[inline]
    pub(crate) fn inline_so_far(&self) -> u64 {
        self.account.tallies[Counter::HandlersInline as usize].get()
    }

    /// Counts the samples that sessions have dropped.
    fn tally_samples(&self) {
        let lost = self.peers.hot.hold().iter().map(|session| session.take_lost_samples()).sum();
        self.count_more(Counter::SamplesLost, lost);
    }

    /// Returns the counts to which the imports of this node add theirs.
    pub(crate) fn lost_reads(&self) -> LostReads {
        self.account.lost_reads.clone()
    }

    /// Takes these counts over into the counters of the node.
    fn tally_reads(&self) {
        let (attempts, calls) = self.account.lost_reads.take();
        self.count_more(Counter::ReadsMeetingUpdates, attempts);
        self.count_more(Counter::ReadsByCall, calls);
    }
}
