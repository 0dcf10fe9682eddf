//! Sessions over byte streams: a node polls their sockets as it polls the lanes of other sessions.
//!
//! A turn looks into the lanes, and then pumps the hot streams: the pump sends bytes that are due, and writes bytes
//! that arrive into the replica of the peer's lane. The turn takes frames from there, as from any lane. Invariant: a
//! node without streams does nothing of this, and a sleeping node is woken by the sockets that it waits for:
//! readable ones, and writable ones where bytes are still to be sent.

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

/// Rare work that a turn may have, in one word, so that one load tells whether there is any.
#[derive(Default)]
pub(super) struct Pressed(Cell<u8>);

impl Pressed {
    /// Returns whether there is any such work.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.get() != 0
    }

    /// Returns whether a sender or a request may be waiting for room.
    #[inline]
    pub(super) fn get(&self) -> bool {
        self.0.get() & WAITS != 0
    }

    #[inline]
    pub(super) fn set(&self, waits: bool) {
        self.0.set(self.0.get() & !WAITS | u8::from(waits));
    }

    /// Returns whether there are streams to pump.
    pub(super) fn pumps(&self) -> bool {
        self.0.get() & PUMPS != 0
    }

    fn set_pumps(&self, pumps: bool) {
        self.0.set(self.0.get() & !PUMPS | if pumps { PUMPS } else { 0 });
    }
}

/// Returns whether a hot session is over a byte stream that stands, as far as is known, and was not lost meanwhile.
fn is_pumped(session: &Rc<Session>) -> bool {
    session.carrier.is_stream() && session.noted.hot.get() && !session.is_down()
}

impl Dispatcher {
    /// Does the rare work of a turn: pumps streams, and serves waiters for room. Returns whether anything arrived.
    #[cold]
    #[inline(never)]
    pub(super) fn see_to_pressed(self: &Rc<Self>, busy: bool, main: Main<'_>) -> bool {
        let looks = if busy || self.waits.pump_looks.get() == 1 { 1 } else { LOOKS };
        let came = self.pressed.pumps() && self.pump(looks);
        if came {
            self.drain_streams(main);
            self.relieve_all();
            self.check_behind_turn();
        }
        if self.pressed.get() {
            self.settle_all(true);
        }
        came
    }

    /// Takes over the frames that the pump has brought.
    fn drain_streams(self: &Rc<Self>, main: Main<'_>) {
        for session in self.peers.hot.hold().iter().filter(|session| is_pumped(session)) {
            self.drain(session, main);
            session.carrier.was_read();
        }
    }

    /// Pumps the hot streams so many times, as long as nothing has arrived. Returns whether anything has.
    pub(super) fn pump(self: &Rc<Self>, looks: u32) -> bool {
        for _ in 0..looks {
            let (mut came, mut ended) = (false, Vec::new());
            for session in self.peers.hot.hold().iter().filter(|session| is_pumped(session)) {
                let pumped = session.carrier.pump();
                came |= pumped.came;
                if pumped.ended || session.carrier.is_suspended() {
                    ended.push(Rc::clone(session));
                }
            }
            if !ended.is_empty() {
                self.apart(|| ended.iter().for_each(|session| self.hear(session)));
            }
            if came || !ended.is_empty() {
                return true;
            }
            if self.work.roster.any() || self.home.board().is_marked() {
                break;
            }
        }
        false
    }

    /// Sets how often a turn looks: once into the lanes if there are streams to pump as well.
    pub(super) fn set_looks(&self, looks: u32) {
        self.waits.pump_looks.set(looks);
        self.waits.looks.set(if self.pressed.pumps() { 1 } else { looks });
    }

    /// Finds out whether there are streams to pump, after hot sessions have gone.
    pub(super) fn find_streams(&self) {
        self.set_pumps(self.peers.hot.any(is_pumped));
    }

    /// Pumps a session from now on, if it is hot and over a stream.
    pub(super) fn pumps_also(&self, session: &Rc<Session>) {
        if is_pumped(session) {
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
        for session in self.peers.hot.hold().iter().filter(|session| is_pumped(session)) {
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
