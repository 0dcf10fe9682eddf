//! Accepts connections of callers: from this process, from other processes of this host, from other hosts.
//!
//! `core::gate` decides which callers may be accepted, and which handshake gives way to the next caller.
//! Invariant: the handshakes of others under way never exceed their limit.

use super::Dispatcher;
use super::door::{Listeners, Outside};
use super::sessions::{Pending, Place};
use super::table::Whose;
use crate::reactor::Source;
use crate::warning::warn;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use upbeat_core::admission::{Handshake, Prefix};
use upbeat_core::bill::Counter;
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_memory::pool::Key;
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, OpeningTimes};

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

    /// Leaves callers in the queue of their socket, or polls that socket again.
    fn crowd(&self, from: Outside, crowded: bool) {
        let mut door = self.peers.door.borrow_mut();
        if let Some(socket) = door.listeners.outside(from)
            && door.crowded[from as usize] != crowded
        {
            match crowded {
                true => self.events.reactor.remove(socket),
                // The socket was registered before, so the reactor has room for it.
                false => drop(self.events.reactor.add(socket, from.source())),
            }
            if !crowded && let Some(listener) = &door.listeners.local {
                // The next turn also looks at callers that other nodes of this name have left here.
                listener.wake();
            }
            door.crowded[from as usize] = crowded;
        }
    }

    fn is_full(&self, from: Outside) -> bool {
        self.peers.door.borrow().listeners.is_full(from)
    }

    /// Accepts callers of this process, and callers that other nodes of the same name have left for this node.
    pub(super) fn arrivals_here(self: &Rc<Self>) {
        self.arrivals(Whose::Here, |door, home, place, now| {
            door.local.as_ref()?.accept(home, place, now).transpose()
        });
        for from in Outside::ALL {
            if !self.has_caller(from) {
                continue;
            }
            self.arrivals_outside(from);
            let door = self.peers.door.borrow();
            if door.listeners.has_caller(from)
                && !door.crowded[from as usize]
                && let Some(listener) = &door.listeners.local
            {
                // The remaining callers have their turn in the next turn.
                listener.wake();
            }
        }
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
        let whose = if from == Outside::Hosts { Whose::Remote } else { Whose::Here };
        self.arrivals(whose, |door, home, place, now| match from {
            Outside::Processes => door.shared.as_ref()?.accept(home, place, now).transpose(),
            Outside::Hosts if self.opens_at_ns().is_some() || door.is_full(from) => None,
            Outside::Hosts => door.remote.as_ref()?.accept(home, place, now).transpose(),
        });
        if self.is_full(from) || self.is_shut(from) {
            self.crowd(from, true);
            self.make_way_from(from);
        }
        self.look_after();
    }

    /// Returns the time at which the gate opens for callers of other hosts, if that is later than now.
    fn opens_at_ns(&self) -> Option<u64> {
        self.peers.gate.borrow_mut().opens_at(self.now_ns())
    }

    /// Returns whether callers wait until the gate opens.
    fn is_shut(&self, from: Outside) -> bool {
        from == Outside::Hosts && self.opens_at_ns().is_some()
    }

    /// Accepts callers who wait outside, where handshakes have ended or give way.
    pub(super) fn make_way(self: &Rc<Self>) {
        let looks_after_at_ms = self.peers.door.borrow().looks_after_at_ms;
        if looks_after_at_ms.is_some_and(|at_ms| self.now_ms() >= at_ms) {
            self.look_after();
        }
        for from in self.crowds() {
            self.make_way_from(from);
        }
    }

    /// Returns the sources of callers that wait.
    fn crowds(&self) -> impl Iterator<Item = Outside> + use<> {
        let crowded = self.peers.door.borrow().crowded;
        Outside::ALL.into_iter().filter(move |from| crowded[*from as usize])
    }

    /// Ends handshakes whose peers are silent for too long, so that callers who wait can be accepted. The handshakes
    /// that have never received anything end first, the oldest of them before the others.
    fn make_way_from(self: &Rc<Self>, from: Outside) {
        let now = self.now_ms();
        let mut gives_way = self.is_full(from);
        while gives_way
            && let Some((at, key)) = self.next_to_give_way(from)
            && at <= now
        {
            // Each caller of this host is ready to connect, so only one handshake gives way at a time.
            gives_way = from == Outside::Hosts;
            let place = self.peers.places.borrow_mut().remove(key);
            if let Some(Place::Opening(pending)) = place {
                self.peers.openings.borrow_mut().remove(&key);
                self.tell_sessions();
                let text = format!(
                    "{} connections are being opened here, and this one was not ready after {} ms",
                    from.crowd().handshakes_max(),
                    now.saturating_sub(pending.opening.under_way().began_ms)
                );
                pending.opening.refuse(RefusalCode::TooSlow, &text);
                if from == Outside::Hosts {
                    self.count(Counter::CallersTurnedAway);
                }
            }
        }
        if !self.is_full(from) && !self.is_shut(from) {
            self.crowd(from, false);
        }
    }

    /// Returns the handshake of a caller that gives way next, and when.
    fn next_to_give_way(&self, from: Outside) -> Option<(u64, Key)> {
        let (places, openings) = (self.peers.places.borrow(), self.peers.openings.borrow());
        let under_way = openings.iter().filter_map(|key| match places.get(*key) {
            Some(Place::Opening(pending)) if comes_from(pending, from) => {
                let OpeningTimes { began_ms, heard_ms } = pending.opening.under_way();
                Some(Handshake { key: *key, from: caller(&pending.opening), began_ms, heard_ms })
            }
            _ => None,
        });
        from.crowd().gives_way(under_way)
    }

    /// Returns when callers who wait outside can be accepted next, if any wait: when the gate opens, or when a
    /// handshake gives way.
    pub(super) fn makes_way_at_ns(&self) -> Option<u64> {
        let next = self.crowds().filter_map(|from| match self.is_full(from) {
            true => self.next_to_give_way(from).map(|(at, _)| at.saturating_mul(1_000_000)),
            false => self.opens_at_ns().filter(|_| from == Outside::Hosts),
        });
        let looks_after_at_ms = self.peers.door.borrow().looks_after_at_ms;
        next.chain(looks_after_at_ms.map(|at_ms| at_ms.saturating_mul(1_000_000))).min()
    }

    /// Accepts callers that have connected.
    pub(super) fn arrivals(
        self: &Rc<Self>,
        whose: Whose,
        accept: impl Fn(&Listeners, &LocalNode, usize, u64) -> Option<Result<Opening, OpenError>>,
    ) {
        for _ in 0..PENDING_HANDSHAKES_MAX {
            let place = self.next_place(whose);
            // Without a free place a caller is accepted only to resume a session, or to be refused with a reason.
            let number = *place.as_ref().unwrap_or(&0);
            let door = self.peers.door.borrow();
            let accepted = accept(&door.listeners, &self.home, number, self.now_ms());
            drop(door);
            match accepted {
                Some(Ok(opening)) => self.let_in(opening, whose, place.is_ok()),
                Some(Err(OpenError::Descriptors { .. })) | None => return,
                Some(Err(_)) => {}
            }
            // A caller that was refused has no place any more.
            self.tell_sessions();
        }
    }

    /// Begins the handshake of a caller whose connection was accepted, if it may have a session.
    fn let_in(self: &Rc<Self>, opening: Opening, whose: Whose, has_place: bool) {
        let from = caller(&opening);
        if from.is_some() {
            // The gate was asked before whether one more caller may be accepted.
            let _ = self.peers.gate.borrow_mut().accept(self.now_ns());
        }
        let crowd = from.filter(|from| !self.peers.gate.borrow().admits(*from));
        let (code, text) = match crowd {
            Some(from) => (RefusalCode::TooManyOfAddress, self.too_many_of(from)),
            None if !has_place => {
                let most = self.peers.places.borrow().most(whose);
                let text = format!("{most} sessions are the most of this node");
                (RefusalCode::TooManySessions, text)
            }
            // An opening that fails tells its peer, and affects nothing else.
            None => return drop(self.begin(opening, whose, None)),
        };
        match whose {
            // The caller's first message tells whether it has a session to resume.
            Whose::Remote => {
                let opening = opening.only_resume(code, text);
                drop(self.begin(opening, Whose::Resuming, None));
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
    pending.connecting.is_none() && comes == from
}
