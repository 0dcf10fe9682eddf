//! The contract as the node itself keeps it: what was taken by looking and what had to wake it, and
//! when a task that computes makes way.
//!
//! What the peers see of the contract is the promise on the node's page. Invariant: each message
//! that is taken counts once, as polled or as woken for.

use super::{Dispatcher, Main};
use std::cell::Cell;
use std::rc::Rc;
use upbeat_core::bill::Counter;

/// Poll points between two at which timers and sockets have their turn.
const POINTS_PER_TICK: u32 = 1024;

/// What is noted for it.
#[derive(Default)]
pub(super) struct Contract {
    /// Messages that were taken.
    taken: Cell<u64>,
    /// How many those were when the node woke, until its first turn is over.
    woke_at: Cell<Option<u64>>,
    /// Whether tasks wait behind the one that is polled.
    others_wait: Cell<bool>,
    /// Poll points since one was for timers and sockets.
    points: Cell<u32>,
}

/// Whether the end of a turn looks at the promises of peers.
#[derive(Default)]
pub(super) struct Unflushed(Cell<u8>);

const SENT: u8 = 1;
const STALE: u8 = 2;

impl Unflushed {
    /// Something may have been sent.
    #[inline(always)]
    pub(super) fn sent(&self) {
        self.0.set(self.0.get() | SENT);
    }

    /// The list of the sessions to which it was sent is not up to date.
    pub(super) fn stale(&self) {
        self.0.set(self.0.get() | STALE);
    }

    #[inline(always)]
    pub(super) fn clear(&self) {
        self.0.set(0);
    }

    /// Whether something may have been sent, to sessions of a list that is up to date.
    #[inline(always)]
    pub(super) fn is_sent_alone(&self) -> bool {
        self.0.get() == SENT
    }

    /// Whether the promises are to be looked at, or the list brought up to date.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.get() != 0
    }
}

impl Contract {
    /// So many messages were taken out of a lane.
    #[inline(always)]
    pub(super) fn taken(&self, messages: u32) {
        self.taken.set(self.taken.get() + u64::from(messages));
    }

    /// Whether tasks wait behind the one that is polled next.
    #[inline]
    pub(super) fn others_wait(&self, others: bool) {
        self.others_wait.set(others);
    }
}

/// The first turn after a wake, also where it panics.
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
    /// The first turn after a wake: what it takes had to wake the node.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_woken(self: &Rc<Self>, main: Main<'_>) -> bool {
        self.contract.woke_at.set(Some(self.contract.taken.get()));
        let _upcall = Upcall(self);
        if self.pressed.pumps() {
            self.pump(1);
        }
        if self.home.board().is_marked() {
            self.sweep();
        }
        self.turn_once(1, main)
    }

    /// Brings the count of polled messages up to date: all but those that had to wake the node.
    pub(super) fn tally_polled(&self) {
        let [polled, woken] = [Counter::MessagesPolled, Counter::MessagesWoken];
        let taken = self.contract.woke_at.get().unwrap_or(self.contract.taken.get());
        self.account.tallies[polled as usize]
            .set(taken - self.account.tallies[woken as usize].get());
    }

    /// Whether a task that computes lets the dispatcher take over what has come.
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
            session.carrier.lanes.reader().has_another() || session.is_unflushed()
        };
        self.work.roster.any()
            || self.contract.others_wait.get()
            || self.home.board().is_marked()
            || self.pressed.get()
            || self.peers.hot.hold().iter().any(wants)
    }
}
