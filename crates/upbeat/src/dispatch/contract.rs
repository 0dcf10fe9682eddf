//! The node's own part of the contract: counts of messages that it polled and of messages that woke it, and the
//! times at which a computing task makes way.
//!
//! Peers see only the polling flag on the node's page. Invariant: each message
//! that is taken counts once, as polled or as woken for.

use super::{Dispatcher, Main};
use std::cell::Cell;
use std::rc::Rc;
use upbeat_core::bill::Counter;

/// The number of poll points between two looks at timers and sockets.
const POINTS_PER_TICK: u32 = 1024;

/// The counts for the contract.
#[derive(Default)]
pub(super) struct Contract {
    /// The messages that were taken.
    taken: Cell<u64>,
    /// The value of `taken` when the node woke, until its first turn is over.
    woke_at: Cell<Option<u64>>,
    /// Whether tasks wait behind the one that is polled.
    others_wait: Cell<bool>,
    /// The poll points since the last look at timers and sockets.
    points: Cell<u32>,
}

/// Whether the end of a turn looks at the polling flags of peers.
#[derive(Default)]
pub(super) struct Unflushed(Cell<u8>);

const SENT: u8 = 1;
const STALE: u8 = 2;

impl Unflushed {
    /// Notes that something may have been sent.
    #[inline(always)]
    pub(super) fn sent(&self) {
        self.0.set(self.0.get() | SENT);
    }

    /// Notes that the list of hot sessions is not up to date.
    pub(super) fn stale(&self) {
        self.0.set(self.0.get() | STALE);
    }

    #[inline(always)]
    pub(super) fn clear(&self) {
        self.0.set(0);
    }

    /// Returns whether something may have been sent while the list of sessions is up to date.
    #[inline(always)]
    pub(super) fn is_sent_alone(&self) -> bool {
        self.0.get() == SENT
    }

    /// Returns whether the polling flags need a look, or the list an update.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.get() != 0
    }
}

impl Contract {
    /// Counts messages that were taken out of a lane.
    #[inline(always)]
    pub(super) fn taken(&self, messages: u32) {
        self.taken.set(self.taken.get() + u64::from(messages));
    }

    /// Returns the number of messages that were taken so far.
    #[inline(always)]
    pub(super) fn frames_taken(&self) -> u64 {
        self.taken.get()
    }

    /// Notes whether tasks wait behind the one that is polled next.
    #[inline]
    pub(super) fn others_wait(&self, others: bool) {
        self.others_wait.set(others);
    }
}

/// The first turn after a wake. Its drop counts the messages of the turn, even if that panics.
struct Upcall<'n>(&'n Dispatcher);

impl Drop for Upcall<'_> {
    fn drop(&mut self) {
        let (contract, woken) = (&self.0.contract, Counter::MessagesWoken as usize);
        if let Some(before) = contract.woke_at.take() {
            let tally = &self.0.account.tallies[woken];
            tally.set(tally.get() + (contract.taken.get() - before));
        }
    }
}

impl Dispatcher {
    /// Runs the first turn after a wake: the messages that it takes had to wake the node.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_woken(self: &Rc<Self>, main: Main<'_>) -> bool {
        self.contract.woke_at.set(Some(self.contract.taken.get()));
        self.has_checked();
        let _upcall = Upcall(self);
        self.pump_all();
        if self.home.board().is_marked() {
            self.sweep();
        }
        self.turn_once(1, main)
    }

    /// Updates the count of polled messages: all messages but those that had to wake the node.
    pub(super) fn tally_polled(&self) {
        let [polled, woken] = [Counter::MessagesPolled, Counter::MessagesWoken];
        let taken = self.contract.woke_at.get().unwrap_or(self.contract.taken.get());
        self.account.tallies[polled as usize]
            .set(taken - self.account.tallies[woken as usize].get());
    }

    /// Returns whether a computing task must let the dispatcher handle new messages.
    #[inline]
    pub(crate) fn must_make_way(&self) -> bool {
        let points = self.contract.points.get() + 1;
        self.contract.points.set(points);
        if points == POINTS_PER_TICK {
            self.contract.points.set(0);
            self.waits.ticker.hurry();
            return true;
        }
        let wants = |session: &Rc<crate::session::Session>| {
            session.carrier.reader().has_another() || session.is_unflushed()
        };
        self.work.roster.any()
            || self.contract.others_wait.get()
            || self.home.board().is_marked()
            || self.pressed.get()
            || self.peers.hot.hold().iter().any(wants)
    }
}
