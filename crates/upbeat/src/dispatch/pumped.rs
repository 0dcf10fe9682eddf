//! Sessions over byte streams: a node polls their sockets as it polls the lanes of other sessions.
//!
//! A turn looks into the lanes, and then pumps the hot streams that are due: the pump sends bytes that are due, and
//! writes bytes that arrive into the replica of the peer's lane. The turn takes frames from there, as from any lane.
//! [`upbeat_core::looks`] decides which are due: a stream that is silent since another session was used is pumped ever
//! more seldom, and then leaves the hot list. Invariant: a node without streams does nothing of this, and a sleeping node
//! is woken by the sockets that it waits for: readable ones, and writable ones where bytes are still to be sent.

use super::{Dispatcher, Main};
use crate::reactor::Source;
use crate::session::Session;
use std::cell::Cell;
use std::rc::Rc;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_transport::carrier::Carrier;
use upbeat_transport::error::OpenError;

/// Looks at the sockets in one turn where nothing arrives. One look takes the time of some forty looks at a lane.
const LOOKS: u32 = 8;

const WAITS: u8 = 1;
const PUMPS: u8 = 2;

/// Rare work that a turn may have.
#[derive(Default)]
pub(super) struct Pressed {
    /// All of it in one word, so that one load tells whether there is any.
    work: Cell<u8>,
    /// The rounds of looks at streams.
    looks: Cell<u64>,
    /// The last round before which a session had been used.
    used: Cell<u64>,
}

impl Pressed {
    /// Returns whether there is any such work.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.work.get() != 0
    }

    /// Returns whether a sender or a request may be waiting for room.
    #[inline]
    pub(super) fn get(&self) -> bool {
        self.work.get() & WAITS != 0
    }

    #[inline]
    pub(super) fn set(&self, waits: bool) {
        self.work.set(self.work.get() & !WAITS | u8::from(waits));
    }

    /// Returns whether there are streams to pump.
    pub(super) fn pumps(&self) -> bool {
        self.work.get() & PUMPS != 0
    }

    fn set_pumps(&self, pumps: bool) {
        self.work.set(self.work.get() & !PUMPS | if pumps { PUMPS } else { 0 });
    }
}

/// The streams that a pump looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// All hot ones, for a node that has not looked for a while.
    All,
    /// Hot ones that are due.
    Due,
}

/// The outcome of a pump.
struct Round {
    /// Whether anything has arrived, or a stream has ended.
    came: bool,
    /// Whether a socket was looked at.
    looked: bool,
}

impl Dispatcher {
    /// Does the rare work of a turn: pumps streams, and serves waiters for room. Returns whether anything arrived.
    #[cold]
    #[inline(never)]
    pub(super) fn see_to_pressed(self: &Rc<Self>, busy: bool, main: Main<'_>) -> bool {
        let came = self.pressed.pumps() && self.pump_by_turns(busy, main);
        if self.pressed.get() {
            self.settle_all(true);
        }
        came
    }

    /// Pumps the streams that are due. If nothing arrives, looks into the lanes and pumps alternately, as often as a turn
    /// looks that finds nothing. Returns whether anything arrived.
    fn pump_by_turns(self: &Rc<Self>, busy: bool, main: Main<'_>) -> bool {
        let mut lanes = if busy { 1 } else { self.waits.pump_looks.get() };
        let mut sockets = LOOKS;
        loop {
            let Round { came, looked } = self.pump(Whom::Due);
            if came {
                self.drain_streams(main);
                self.relieve_all();
                self.check_behind_turn();
                return true;
            }
            (lanes, sockets) = (lanes - 1, sockets - u32::from(looked));
            let is_over = lanes == 0 || sockets == 0;
            if is_over || self.work.roster.any() || self.home.board().is_marked() {
                return false;
            }
            self.account.sampling.looked_in_vain();
            std::hint::spin_loop();
            if self.look(&self.peers.hot.hold(), 1, main) {
                return true;
            }
        }
    }

    /// Takes over the frames that the pump has brought.
    fn drain_streams(self: &Rc<Self>, main: Main<'_>) {
        for session in self.peers.hot.hold().iter().filter(|session| session.is_pumped()) {
            self.drain(session, main);
            session.carrier.was_read();
        }
    }

    /// Pumps hot streams: a round of looks.
    fn pump(self: &Rc<Self>, whom: Whom) -> Round {
        let hot = self.peers.hot.hold();
        let now = self.pressed.looks.get() + 1;
        self.pressed.looks.set(now);
        for session in hot.iter().filter(|session| session.take_used()) {
            self.note_use(session);
        }
        let (mut came, mut looked, mut silent, mut ended) = (false, false, false, Vec::new());
        for session in hot.iter().filter(|session| session.is_pumped()) {
            let mut looks = session.noted.looks.get();
            let is_due = looks.take_due(now, self.pressed.used.get())
                || whom == Whom::All
                || session.is_pressed();
            if !is_due && looks.begins_to_rest() {
                self.look_out_soon();
            }
            session.noted.looks.set(looks);
            if is_due {
                looked = true;
                let pumped = session.carrier.pump();
                if session.noted.awaits_output.get() {
                    self.await_output(session);
                }
                if pumped.came {
                    came = true;
                    self.note_use(session);
                }
                // A stream whose bytes the peer's host has not acknowledged stays: the next looks try again.
                silent |= !session.is_pressed() && looks.is_silent(now, self.pressed.used.get());
                if pumped.ended {
                    ended.push(Rc::clone(session));
                    continue;
                }
            }
            if session.carrier.is_suspended() {
                ended.push(Rc::clone(session));
            }
        }
        drop(hot);
        if !ended.is_empty() {
            self.apart(|| ended.iter().for_each(|session| self.hear(session)));
        }
        if silent {
            self.cool_silent();
        }
        Round { came: came || !ended.is_empty(), looked }
    }

    /// Pumps all hot streams once, for a node that has slept or was kept from looking.
    pub(super) fn pump_all(self: &Rc<Self>) {
        if self.pressed.pumps() {
            self.pump(Whom::All);
        }
    }

    /// Notes that a session is used: frames come or go, its output waits, or it becomes hot.
    fn note_use(&self, session: &Session) {
        let now = self.pressed.looks.get();
        self.pressed.used.set(now);
        if session.carrier.caps().is_pumped {
            let mut looks = session.noted.looks.get();
            looks.used(now);
            session.noted.looks.set(looks);
        }
    }

    /// Leaves the streams to the epoll that have been silent for long since another session was used.
    #[cold]
    fn cool_silent(&self) {
        let (now, used) = (self.pressed.looks.get(), self.pressed.used.get());
        self.cool_where(|session| {
            session.is_pumped()
                && session.noted.looks.get().is_silent(now, used)
                && session.has_nothing_to_do()
        });
    }

    /// Sets how often a turn looks. If there are streams to pump, the pump makes all looks behind the first.
    pub(super) fn set_looks(&self, looks: u32) {
        self.waits.pump_looks.set(looks);
        self.waits.looks.set(if self.pressed.pumps() { 1 } else { looks });
    }

    /// Finds out whether there are streams to pump, after hot sessions have gone.
    pub(super) fn find_streams(&self) {
        self.set_pumps(self.peers.hot.any(|session| session.is_pumped()));
    }

    /// Pumps a session from now on, if it is hot and over a stream.
    pub(super) fn pumps_also(&self, session: &Rc<Session>) {
        if session.is_pumped() {
            self.note_use(session);
            self.set_pumps(true);
        }
    }

    fn set_pumps(&self, pumps: bool) {
        self.pressed.set_pumps(pumps);
        self.set_looks(self.waits.pump_looks.get());
    }

    /// Sends the bytes that peers might wait for before a sleep, and has the epoll wait for sockets that are full.
    pub(super) fn rest_streams(&self) {
        if !self.pressed.pumps() {
            return;
        }
        for session in self.peers.hot.hold().iter().filter(|session| session.is_pumped()) {
            session.carrier.rest();
            // The stream may have written a deferred frame into the lane again: a turn flushes it before the sleep.
            if session.is_unflushed() {
                self.unflushed.sent();
            }
            self.await_output(session);
        }
    }

    fn await_output(&self, session: &Session) {
        let Some(key) = session.noted.key.get() else { return };
        let waits = session.carrier.has_output();
        if waits != session.noted.awaits_output.replace(waits)
            && !mutated(Mutant::OutputUnawaited)
            && let Some(socket) = session.carrier.socket()
        {
            self.events.reactor.change(socket, Source::Place(key), waits);
        }
    }

    /// Polls the own socket of a session whose handshake went over another socket.
    pub(super) fn poll_new_socket(
        &self,
        source: Source,
        carrier: &Carrier,
    ) -> Result<(), OpenError> {
        let Some(old) = carrier.take_old_socket() else { return Ok(()) };
        self.events.reactor.remove(&old);
        let failed = |error| OpenError::System { act: "epoll_ctl", error };
        let Some(socket) = carrier.socket() else { return Ok(()) };
        self.events.reactor.add(socket, source).map_err(failed)
    }
}
