//! Decides which lanes each turn looks at, and finds messages in the others.

use super::{Dispatcher, sessions::Place, table::Whose};
use crate::session::Session;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::sync::fence_full;

impl Dispatcher {
    /// Looks at this session each turn from now on.
    #[cold]
    pub(crate) fn heat(&self, session: &Rc<Session>) {
        let enters = session.noted.key.get().is_some() && !session.noted.hot.replace(true);
        if enters {
            session.carrier.set_attention(true);
            if !session.noted.listed.replace(true) {
                self.peers.hot.enter(Rc::clone(session));
            }
            self.note_stale();
        }
        // A session that is hot already may resume after it was suspended.
        if enters || !mutated(Mutant::ResumedUnread) {
            self.pumps_also(session);
        }
    }

    /// Stops looking each turn at sessions in which nothing has arrived since the last time, if something has in others.
    pub(super) fn cool(&self) {
        let hot = self.peers.hot.hold();
        let mut used = false;
        for session in hot.iter() {
            session.tidy();
            if session.is_unflushed() {
                self.unflushed.sent();
            }
            let taken = session.carrier.reader().consumed();
            let rests = session.noted.taken.replace(taken) == taken;
            session.noted.rests.set(rests);
            if rests {
                session.carrier.free_buffers();
            }
            used |= !rests;
        }
        drop(hot);
        if used {
            self.cool_where(|session| {
                session.noted.rests.get()
                    && session.calls_open() == 0
                    && session.has_nothing_to_do()
            });
        }
    }

    /// Stops looking each turn at the sessions that rest, as `rests` says.
    pub(super) fn cool_where(&self, rests: impl Fn(&Rc<Session>) -> bool) {
        let hot = self.peers.hot.hold();
        let mut cooled = false;
        for session in hot.iter().filter(|session| rests(session)) {
            session.carrier.cool();
            session.carrier.set_attention(false);
            let carrier = &session.carrier;
            let is_late = session.has_frame() || carrier.has_input() || carrier.has_output();
            if is_late && !mutated(Mutant::CooledUnlooked) {
                session.carrier.set_attention(true);
                continue;
            }
            session.noted.hot.set(false);
            cooled = true;
        }
        drop(hot);
        if cooled {
            self.peers.hot.left();
            self.update_hot();
            self.note_stale();
        }
    }

    /// Brings the list of hot sessions up to date, if it is not held.
    pub(super) fn update_hot(&self) {
        self.peers.hot.update(|session| {
            let is_hot = session.noted.hot.get();
            session.noted.listed.set(is_hot);
            is_hot
        });
        self.find_streams();
    }

    /// Takes the notes off the board. Returns whether there were any.
    #[cold]
    pub(super) fn sweep(&self) -> bool {
        let mut noted = false;
        let places = self.peers.places.borrow();
        self.home.board().sweep(Whose::Here.most(), |index| {
            if let Some(Place::Open(session)) = places.on_board(index) {
                self.heat(session);
                noted = true;
            }
        });
        noted
    }

    /// Looks at every lane of peers of this host, in case a note was lost. Messages of other peers come through
    /// their sockets.
    pub(super) fn sweep_all(&self) {
        self.count(Counter::Sweeps);
        let mut found = false;
        for place in self.peers.places.borrow().here() {
            if let Place::Open(session) = place
                && !session.noted.hot.get()
                && session.has_frame()
            {
                self.heat(session);
                found = true;
            }
        }
        if found {
            self.count(Counter::SweepsFound);
        }
    }

    /// Tells a peer that waits for room how much was made since the last time, and wakes it if it sleeps. If
    /// there is none, the peer is not rung: two waiting sides would ring each other for ever.
    #[cold]
    pub(super) fn relieve(&self, session: &Session) {
        session.show_waiting();
        if session.has_made_room() {
            self.flush_one(session, fence_full());
        }
    }

    /// Writes the messages that are owed, and wakes their waiters, wherever there is room now. `part` asks for a
    /// good part of the room; without it, any room counts.
    #[cold]
    pub(super) fn settle_all(self: &Rc<Self>, part: bool) {
        let waits = self.send_halves();
        self.accept_waiting();
        let (mut pressed, mut replied) = (false, false);
        for session in self.peers.hot.hold().iter().filter(|session| session.is_pressed()) {
            replied |= session.settle(part);
            pressed |= session.is_pressed();
            self.unflushed.sent();
        }
        self.flow.budgets.set_replied(replied);
        self.pressed.set(pressed | replied | waits);
    }

    /// Publishes to every peer how many of its requests were accepted. A sender that does not wait learns it only
    /// from this, up to a few requests late.
    pub(super) fn show_all(&self) {
        self.peers.hot.hold().iter().for_each(|session| session.publish_accepted());
    }

    /// Wakes each peer that waits for room, in case the room was made before the peer announced its wait.
    pub(super) fn relieve_all(&self) {
        for session in self.peers.hot.hold().iter().filter(|session| session.peer_wants_room()) {
            self.relieve(session);
        }
    }
}
