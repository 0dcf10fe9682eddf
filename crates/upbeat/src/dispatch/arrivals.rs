//! Accepts connections of callers: from this process, from other processes of this host, from other hosts.
//!
//! `core::admission` decides which callers may be accepted, which handshake gives way to the next caller, and when a
//! first message is answered. Whatever pauses here is among the door's pauses, which have an end each: the node does
//! not sleep beyond it. Invariant: the handshakes of others under way never exceed their limit, but for the one that is
//! about to give way.

use super::Dispatcher;
use super::door::{Door, Listeners, Outside};
use super::pending::{Pending, Purpose};
use super::sessions::Place;
use super::table::Whose;
use crate::reactor::Source;
use crate::warning::warn;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::rc::Rc;
use upbeat_core::admission::{Cause, Handshake, Next, Pause, Paused, Prefix};
use upbeat_core::bill::Counter;
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_memory::pool::Key;
use upbeat_memory::thread_clock::thread_time_ns;
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, OpeningTimes};

/// Milliseconds for which a listener pauses that has no memory to accept a caller, or no descriptor to turn one away.
const LACKING_MS: u64 = 10;

impl Dispatcher {
    /// Opens the listeners under the node's name.
    pub(crate) fn open_door(&self, listeners: Listeners) -> std::io::Result<()> {
        let reactor = &self.events.reactor;
        for from in Outside::ALL {
            listeners.outside(from).map_or(Ok(()), |socket| reactor.add(socket, from.source()))?;
        }
        if let Some(listener) = &listeners.local {
            reactor.add(listener.as_fd(), Source::LocalArrivals)?;
        }
        self.peers.door.borrow_mut().listeners = listeners;
        Ok(())
    }

    /// Closes the listeners: no caller is accepted any more, and the name is free.
    pub(crate) fn shut_door(&self) {
        let listeners = std::mem::take(&mut self.peers.door.borrow_mut().listeners);
        for from in Outside::ALL {
            self.peers.door.borrow_mut().pauses.end(from.paused());
            listeners
                .outside(from)
                .into_iter()
                .for_each(|socket| self.events.reactor.remove(socket));
        }
        if let Some(listener) = &listeners.local {
            self.events.reactor.remove(listener.as_fd());
        }
    }

    /// Returns the address at which the node listens for other hosts.
    pub(crate) fn listens_at(&self) -> Option<SocketAddr> {
        self.peers.door.borrow().listeners.remote_address()
    }

    /// Leaves callers in the queue of their socket, until the end of the pause.
    fn pause(&self, from: Outside, pause: Pause) {
        let Door { listeners, pauses, .. } = &mut *self.peers.door.borrow_mut();
        if let Some(socket) = listeners.outside(from)
            && pauses.begin(from.paused(), pause)
        {
            self.events.reactor.pause(socket, from.source());
        }
    }

    /// Polls a socket again whose callers have waited.
    fn resume_door(&self, from: Outside) {
        let Door { listeners, pauses, .. } = &mut *self.peers.door.borrow_mut();
        if let Some(socket) = listeners.outside(from)
            && pauses.end(from.paused())
        {
            self.events.reactor.change(socket, from.source(), false);
            if let Some(listener) = &listeners.local {
                // The next turn also looks at callers that other nodes of this name have left here.
                listener.wake();
            }
        }
    }

    /// Returns the pause of a source of callers.
    fn pause_of(&self, what: Paused) -> Option<Pause> {
        self.peers.door.borrow().pauses.of(what)
    }

    /// Accepts callers of this process, and callers that other nodes of the same name have left for this node.
    pub(super) fn arrivals_here(self: &Rc<Self>) {
        for _ in 0..PENDING_HANDSHAKES_MAX {
            let accepted = self.accept_next(Whose::Here, |door, home, place, now| {
                door.local.as_ref()?.accept(home, place, now).transpose()
            });
            if accepted.is_break() {
                break;
            }
        }
        for from in Outside::ALL {
            if self.has_caller(from) {
                self.arrivals_outside(from);
            }
        }
        let door = self.peers.door.borrow();
        let is_left = |from: &Outside| {
            door.listeners.has_caller(*from) && door.pauses.of(from.paused()).is_none()
        };
        if let Some(listener) = &door.listeners.local
            && (listener.has_caller() || Outside::ALL.iter().any(is_left))
        {
            // The remaining callers have their turn in the next turn.
            listener.wake();
        }
        drop(door);
        self.look_after();
    }

    fn has_caller(&self, from: Outside) -> bool {
        self.peers.door.borrow().listeners.has_caller(from)
    }

    /// Takes callers back from nodes of the same name that do not accept them.
    fn look_after(&self) {
        let mut door = self.peers.door.borrow_mut();
        door.looks_after_at_ms = door.listeners.look_after(self.now_ms());
    }

    /// Accepts callers from outside, as long as handshakes end or give way.
    pub(super) fn arrivals_outside(self: &Rc<Self>, from: Outside) {
        if from == Outside::Hosts {
            self.settings.remote.refresh();
        }
        if let Some(pause) = self.accept_outside(from) {
            self.pause(from, pause);
        }
        self.look_after();
    }

    /// Accepts callers from outside. Returns the pause after which the next are accepted, if there must be one.
    fn accept_outside(self: &Rc<Self>, from: Outside) -> Option<Pause> {
        let whose = if from == Outside::Hosts { Whose::Remote } else { Whose::Here };
        for _ in 0..PENDING_HANDSHAKES_MAX {
            if from == Outside::Hosts
                && let Err(pause) = self.peers.gate.borrow().accept(self.now_ns())
            {
                return Some(pause);
            }
            let gives_way = match self.next_caller(from) {
                Next::Accept => None,
                Next::Instead(key) => Some(key),
                Next::Wait(pause) => return Some(pause),
            };
            let accepted = self.charged(from == Outside::Hosts, || {
                let accepted = self.accept_next(whose, |door, home, place, now| match from {
                    Outside::Processes => {
                        door.shared.as_ref()?.accept(home, place, now).transpose()
                    }
                    Outside::Hosts => door.remote.as_ref()?.accept(home, place, now).transpose(),
                });
                if let Some(key) = gives_way
                    && self.pending(from) > from.crowd().handshakes_max()
                {
                    self.give_way(key, from);
                }
                accepted
            });
            if let ControlFlow::Break(lacking) = accepted {
                let has_spare = self.peers.door.borrow().listeners.has_spare(from);
                let lacking = lacking.or((!has_spare).then_some(Cause::Descriptors));
                let until_ns = self.now_ns() + LACKING_MS * 1_000_000;
                return lacking.map(|cause| Pause::new(cause, until_ns));
            }
        }
        // The epoll still has the socket: the others are accepted in the next turn.
        None
    }

    /// Works for a caller. Callers of other hosts are charged with the processor time.
    pub(super) fn charged<R>(&self, is_remote: bool, work: impl FnOnce() -> R) -> R {
        if !is_remote {
            return work();
        }
        let began = self.peers.gate.borrow().work(thread_time_ns());
        let done = work();
        self.peers.gate.borrow_mut().charge(began, thread_time_ns(), self.now_ns());
        done
    }

    /// Returns the number of handshakes of callers from there that are under way.
    fn pending(&self, from: Outside) -> usize {
        self.peers.door.borrow().listeners.pending(from)
    }

    /// Decides about the next caller from there.
    fn next_caller(&self, from: Outside) -> Next<Key> {
        let pending = self.pending(from);
        let (places, openings) = (self.peers.places.borrow(), self.peers.openings.borrow());
        let under_way = openings.iter().filter_map(|key| match places.get(*key) {
            Some(Place::Opening(pending)) if comes_from(pending, from) => {
                let OpeningTimes { began_ms, heard_ms } = pending.opening.under_way();
                Some(Handshake { key: *key, from: caller(&pending.opening), began_ms, heard_ms })
            }
            _ => None,
        });
        from.crowd().next(pending, under_way, self.now_ns())
    }

    /// Ends pauses that are over: accepts callers again, and answers first messages.
    pub(super) fn make_way(self: &Rc<Self>) {
        self.peers.gate.borrow_mut().look(self.messages());
        let looks_after_at_ms = self.peers.door.borrow().looks_after_at_ms;
        if looks_after_at_ms.is_some_and(|at_ms| self.now_ms() >= at_ms) {
            self.look_after();
        }
        for from in Outside::ALL {
            if self.is_due(from.paused()) {
                match self.next_caller(from) {
                    Next::Wait(pause) => self.pause(from, pause),
                    Next::Accept | Next::Instead(_) => self.resume_door(from),
                }
            }
        }
        if self.is_due(Paused::Answers) {
            self.answer_held();
        }
    }

    fn is_due(&self, what: Paused) -> bool {
        self.pause_of(what).is_some_and(|pause| pause.is_due(self.now_ns()))
    }

    /// Ends a handshake in favour of another caller.
    fn give_way(&self, key: Key, from: Outside) {
        let place = self.peers.places.borrow_mut().remove(key);
        let Some(Place::Opening(pending)) = place else { return };
        self.opening_ended(key);
        self.tell_sessions();
        let text = format!(
            "{} connections are being opened here, and this one was not ready after {} ms",
            from.crowd().handshakes_max(),
            self.now_ms().saturating_sub(pending.opening.under_way().began_ms)
        );
        pending.opening.refuse(RefusalCode::TooSlow, &text);
        if from == Outside::Hosts {
            self.count(Counter::CallersTurnedAway);
        }
    }

    /// Answers a caller's first message, or leaves the handshake where it is until the rate permits the answer.
    pub(super) fn answer_or_hold(self: &Rc<Self>, key: Key) {
        // The first messages of others may wait already.
        if self.pause_of(Paused::Answers).is_none() && self.is_answer_permitted() {
            self.go_on(key);
            self.step(key);
        } else if let Some(Place::Opening(pending)) = self.peers.places.borrow().get(key) {
            self.events.reactor.pause(&pending.opening, Source::Place(key));
        }
    }

    /// Lets a handshake be answered. Sessions have been opened since its caller was accepted, so its address may have
    /// too many by now.
    fn go_on(&self, key: Key) {
        let crowd = self.crowded(key);
        if let Some(Place::Opening(pending)) = self.peers.places.borrow_mut().get_mut(key) {
            if let Some(from) = crowd {
                let text = self.too_many_of(from);
                pending.opening.only_resume(RefusalCode::TooManyOfAddress, text);
            }
            pending.opening.go_on();
        }
    }

    /// Returns the address of a handshake's caller if its sessions, and its handshakes that were answered, are as many as
    /// it may have sessions.
    fn crowded(&self, key: Key) -> Option<Prefix> {
        let (places, openings) = (self.peers.places.borrow(), self.peers.openings.borrow());
        let caller_of = |key: Key| match places.get(key) {
            Some(Place::Opening(pending)) if comes_from(pending, Outside::Hosts) => {
                caller(&pending.opening).map(|from| (from, &pending.opening))
            }
            _ => None,
        };
        let (from, _) = caller_of(key)?;
        let gate = self.peers.gate.borrow();
        if gate.admits(from, openings.len()) {
            return None;
        }
        let is_coming = |other: &Key| {
            *other != key
                && caller_of(*other).is_some_and(|(one, opening)| {
                    one == from && opening.under_way().heard_ms.is_some() && !opening.is_held()
                })
        };
        let coming = openings.iter().filter(|other| is_coming(other)).count();
        (!gate.admits(from, coming)).then_some(from)
    }

    /// Asks the gate for one more answer. Begins the pause of answers if there is none now.
    fn is_answer_permitted(&self) -> bool {
        let answer = self.peers.gate.borrow_mut().answer(self.now_ns());
        if let Err(pause) = answer {
            self.peers.door.borrow_mut().pauses.begin(Paused::Answers, pause);
        }
        answer.is_ok()
    }

    /// Answers the first messages that wait, as the rate permits it.
    fn answer_held(self: &Rc<Self>) {
        while let Some(key) = self.next_held() {
            if !self.is_answer_permitted() {
                return;
            }
            self.go_on(key);
            self.step(key);
        }
        self.peers.door.borrow_mut().pauses.end(Paused::Answers);
    }

    /// Returns the handshake whose first message has waited longest.
    fn next_held(&self) -> Option<Key> {
        let (places, openings) = (self.peers.places.borrow(), self.peers.openings.borrow());
        let held = openings.iter().filter_map(|key| match places.get(*key)? {
            Place::Opening(pending) if pending.opening.is_held() => {
                Some((pending.opening.under_way().heard_ms, *key))
            }
            _ => None,
        });
        held.min().map(|(_, key)| key)
    }

    /// Returns when a pause is over at the latest, or when to look after callers that wait for other nodes.
    pub(super) fn makes_way_at_ns(&self) -> Option<u64> {
        let door = self.peers.door.borrow();
        let looks_after_at_ns = door.looks_after_at_ms.map(|at_ms| at_ms.saturating_mul(1_000_000));
        door.pauses.next_ns().into_iter().chain(looks_after_at_ns).min()
    }

    /// Accepts the next caller. Breaks if there is none, if there is no descriptor for one, or if something else is lacking.
    fn accept_next(
        self: &Rc<Self>,
        whose: Whose,
        accept: impl Fn(&Listeners, &LocalNode, usize, u64) -> Option<Result<Opening, OpenError>>,
    ) -> ControlFlow<Option<Cause>> {
        let place = self.next_place(whose);
        // Without a free place a caller is accepted only to resume a session, or to be refused with a reason.
        let number = *place.as_ref().unwrap_or(&0);
        let door = self.peers.door.borrow();
        let accepted = accept(&door.listeners, &self.home, number, self.now_ms());
        drop(door);
        match accepted {
            Some(Ok(opening)) => self.let_in(opening, whose, place.is_ok()),
            Some(Err(OpenError::Descriptors { .. })) | None => return ControlFlow::Break(None),
            // The caller still waits, and waiting for its socket would return at once.
            Some(Err(OpenError::System { error: Errno::NOMEM | Errno::NOBUFS, .. })) => {
                return ControlFlow::Break(Some(Cause::Memory));
            }
            Some(Err(_)) => {}
        }
        // A caller that was refused has no place any more.
        self.tell_sessions();
        ControlFlow::Continue(())
    }

    /// Begins the handshake of a caller whose connection was accepted, if it may have a session.
    fn let_in(self: &Rc<Self>, opening: Opening, whose: Whose, has_place: bool) {
        let from = caller(&opening);
        // The rate bounds the answers, so that callers that say nothing take no part of it.
        let mut opening = opening.held();
        let crowd = from.filter(|from| !self.peers.gate.borrow().admits(*from, 0));
        let (code, text) = match crowd {
            Some(from) => (RefusalCode::TooManyOfAddress, self.too_many_of(from)),
            None if !has_place => {
                let most = self.peers.places.borrow().most(whose);
                let text = format!("{most} sessions are the most of this node");
                (RefusalCode::TooManySessions, text)
            }
            // An opening that fails tells its peer, and affects nothing else.
            None => return drop(self.begin(opening, whose, Purpose::Caller)),
        };
        match whose {
            // The caller's first message tells whether it has a session to resume.
            Whose::Remote => {
                opening.only_resume(code, text);
                drop(self.begin(opening, Whose::Resuming, Purpose::Caller));
            }
            _ => opening.refuse(code, &text),
        }
    }

    /// Returns the reason for refusing another session to callers of an address.
    fn too_many_of(&self, from: Prefix) -> String {
        let most = self.peers.gate.borrow().terms().sessions_per_address;
        format!("{most} sessions are open with callers of {from}, the most of an address")
    }

    /// Counts a caller that was refused because its address has too many sessions, and warns the owner the
    /// first time.
    #[cold]
    pub(super) fn note_refused(&self, error: &OpenError) {
        let OpenError::Refused { code: RefusalCode::TooManyOfAddress, text, .. } = error else {
            return;
        };
        self.count(Counter::CallersTurnedAway);
        if !self.peers.warned.replace(true) {
            let name = self.home.name().map(ToString::to_string).unwrap_or_default();
            warn(format_args!(
                "node `{name}` turns callers away: {text}; `Builder::sessions_per_address` allows more. \
                 This is said once; the counter `callers turned away` goes on"
            ));
        }
    }
}

/// Returns the address of a handshake's caller, if the caller is on another host.
fn caller(opening: &Opening) -> Option<Prefix> {
    opening.peer_at().map(|at| Prefix::of(at.ip()))
}

/// Returns whether a handshake's caller comes from there.
fn comes_from(pending: &Pending, from: Outside) -> bool {
    let comes = if pending.opening.is_remote() { Outside::Hosts } else { Outside::Processes };
    matches!(pending.purpose, Purpose::Caller) && comes == from
}
