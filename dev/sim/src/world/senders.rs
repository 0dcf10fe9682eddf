//! Senders: requests that were not sent yet, as futures that are polled when they are woken. Some are polled
//! late, and some never, as futures that a program keeps without polling them.

use upbeat_core::flow::Budget;
use upbeat_core::frame::{Flags, Head, slots};
use upbeat_core::limits::{CONTROL_SLOTS, EXTENSION_BYTES, SHORT_BYTES};
use upbeat_core::session::{Grant, RequestPlacement};

use super::{End, Fault, Out, World};
use crate::check::{Id, violated};
use crate::wire::{Body, Frame, Use, Word};
use upbeat_core::session::MissingResource;

/// The result of an attempt to send.
enum Tried {
    Sent,
    /// The sender waits in the queue, or for its turn among those that have asked for room.
    Full,
    /// The sender has asked for room under this number, which is its place.
    Asked(u64),
}

/// The requests of a session that were not sent yet, by their numbers.
#[derive(Default)]
pub(super) struct Senders {
    /// The numbers in order, apart from the rest, so that one is found quickly.
    ids: Vec<Id>,
    outs: Vec<Out>,
}

impl Senders {
    pub(super) fn get(&self, id: Id) -> Option<&Out> {
        self.ids.binary_search(&id).ok().map(|at| &self.outs[at])
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Out> {
        self.ids.binary_search(&id).ok().map(|at| &mut self.outs[at])
    }

    pub(super) fn insert(&mut self, out: Out) {
        match self.ids.binary_search(&out.id) {
            Ok(at) => self.outs[at] = out,
            Err(at) => {
                self.ids.insert(at, out.id);
                self.outs.insert(at, out);
            }
        }
    }

    pub(super) fn remove(&mut self, id: Id) {
        if let Ok(at) = self.ids.binary_search(&id) {
            self.ids.remove(at);
            self.outs.remove(at);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Out> {
        self.outs.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

impl World {
    /// Returns the world's time in nanoseconds, which never jumps.
    pub(super) fn now(&self) -> u64 {
        self.time * 1_000
    }

    /// Wakes these senders, which are polled later.
    pub(super) fn wake(&mut self, node: usize, peer: usize, woken: Vec<Id>) {
        let Some(end) = &mut self.nodes[node].ends[peer] else { return };
        let round = end.rounds;
        for id in &woken {
            if let Some(out) = end.senders.get_mut(*id) {
                out.woken.get_or_insert(round);
            }
        }
        self.moved |= !woken.is_empty();
        self.nodes[node].woken.extend(woken.into_iter().map(|id| (peer, id)));
    }

    /// Polls the senders that were woken.
    pub(super) fn poll_woken(&mut self, node: usize) -> Result<(), Fault> {
        for (peer, session, rule) in std::mem::take(&mut self.nodes[node].found) {
            if self.end(node, peer).is_some_and(|end| end.session == session) {
                self.broken(node, peer, rule)?;
            }
        }
        for _ in 0..self.nodes[node].woken.len() {
            let Some((peer, id)) = self.nodes[node].woken.pop_front() else { break };
            let Some(end) = &self.nodes[node].ends[peer] else { continue };
            let Some(out) = end.senders.get(id) else { continue };
            if out.forgotten {
                continue;
            }
            if !self.healing && self.random.permille(200) {
                self.nodes[node].woken.push_back((peer, id));
                continue;
            }
            let result = self.poll_sender(node, peer, id);
            self.or_broken(node, peer, result)?;
        }
        Ok(())
    }

    /// Polls a sender, which sends, asks for room, or waits.
    pub(super) fn poll_sender(&mut self, node: usize, peer: usize, id: Id) -> Result<(), Fault> {
        let Some(end) = &mut self.nodes[node].ends[peer] else { return Ok(()) };
        let Some(out) = end.senders.get_mut(id) else { return Ok(()) };
        let woken = out.woken.take();
        let mut out = *out;
        if out.ticket.is_some_and(|ticket| !end.core.outbound().line().has(ticket)) {
            if woken.is_none_or(|woken| woken + 2 > end.rounds) {
                return violated(format!("{id} has lost its turn, and has responded"))?;
            }
            self.counts.passed += 1;
            self.check.passed(id);
        }
        let is_barred = end.core.outbound().is_barred();
        let tried =
            match out.number.map(|number| (number, end.core.outbound().poll_grant(number, &id))) {
                Some((_, Grant::Awaited)) => return Ok(()),
                Some((number, Grant::Here)) => self.transfer(node, peer, &out, number),
                lost => {
                    if lost.is_some() {
                        out.number = None;
                        self.check.passed(id);
                    }
                    end.core.outbound().line().take_turn(out.ticket);
                    let tried = self.try_send(node, peer, &out);
                    if let Some(end) = &self.nodes[node].ends[peer] {
                        end.core.outbound().line().take_turn(None);
                    }
                    tried?
                }
            };
        if is_barred && !matches!(tried, Tried::Full) {
            return violated(format!("{id} goes before frames that wait"))?;
        }
        let forgotten = self.forgets(&out);
        let Some(end) = &mut self.nodes[node].ends[peer] else { return Ok(()) };
        let left = out.ticket.filter(|_| !matches!(tried, Tried::Full));
        match tried {
            Tried::Sent => end.senders.remove(id),
            Tried::Asked(number) => (out.number, out.ticket) = (Some(number), None),
            Tried::Full if out.number.is_some() => {
                end.core.outbound().wait_for_room(&id, |other| *other == id)
            }
            Tried::Full => out.ticket = Some(end.core.outbound().stand(out.ticket, &id)),
        }
        if let Some(there) = end.senders.get_mut(id) {
            *there = Out { forgotten, ..out };
        }
        let mut next = Vec::new();
        if let Some(ticket) = left {
            end.core.outbound().leave(ticket, |id| next.push(id));
        }
        self.wake(node, peer, next);
        Ok(())
    }

    /// Returns whether a future is kept and not polled any more. A future that a handler awaits never is: it would keep
    /// the bytes that the handler is charged with.
    fn forgets(&mut self, out: &Out) -> bool {
        let may = !self.healing && out.is_free && self.random.permille(self.plan.weather.forgotten);
        out.forgotten || may
    }

    /// Tries to send a request that has not asked for room.
    fn try_send(&mut self, node: usize, peer: usize, out: &Out) -> Result<Tried, Fault> {
        let bytes = self.asks[out.id as usize].bytes as usize;
        let accepted = self.wire(node, peer).accepted;
        let Some(end) = self.end(node, peer) else { return Ok(Tried::Full) };
        let carefully = !end.core.outbound().has_credit();
        if carefully && !end.core.outbound().admits(|| accepted)? {
            self.counts.waits += 1;
            return Ok(Tried::Full);
        }
        let words = [out.deadline.remaining(0), out.refusals, out.most];
        let front = words.iter().flatten().count() * EXTENSION_BYTES;
        let room = match front + bytes > SHORT_BYTES {
            true => Some(end.core.outbound().placement(bytes, || accepted)?),
            false => None,
        };
        if room == Some(RequestPlacement::Ask) {
            return self.ask_room(node, peer, out);
        }
        let in_ring = room == Some(RequestPlacement::Ring) && self.fits_ring(bytes);
        let buffer = match room.is_some() && !in_ring {
            true => match self.wire(node, peer).borrow(Use::Requests, out.id) {
                Some(buffer) => Some(buffer),
                None => return Ok(self.lacks_buffer(node, peer, Use::Requests)),
            },
            false => None,
        };
        let frame = self.request(node, out, buffer.map(|at| (Use::Requests, at)), None);
        if !self.write(node, peer, frame) {
            buffer.into_iter().for_each(|at| self.wire(node, peer).unlend(Use::Requests, at));
            return Ok(self.lacks_slots(node, peer, &frame));
        }
        self.went(node, out.id);
        let Some(end) = self.end(node, peer) else { return Ok(Tried::Sent) };
        if in_ring {
            end.core.outbound().record_in_ring(bytes);
        }
        match carefully {
            true => end.core.outbound().record_sent_slowly(),
            false => end.core.outbound().went(),
        }
        Ok(Tried::Sent)
    }

    /// Returns whether a request fits the ring when the ring is empty: rings do not grow in the world.
    fn fits_ring(&self, bytes: usize) -> bool {
        let front = Flags::DEADLINE.with(Flags::REFUSABLE).with(Flags::EXTENDABLE);
        let slots = slots(bytes as u32 + front.extension_bytes()) as usize;
        slots + CONTROL_SLOTS <= self.plan.ring_slots
    }

    fn lacks_buffer(&mut self, node: usize, peer: usize, usage: Use) -> Tried {
        self.counts.no_buffer += 1;
        if let Some(end) = self.end(node, peer) {
            end.core.outbound().record_missing(MissingResource::Buffer);
            end.lacked[usage as usize] = true;
        }
        Tried::Full
    }

    fn lacks_slots(&mut self, node: usize, peer: usize, frame: &Frame) -> Tried {
        if let Some(end) = self.end(node, peer) {
            end.core.outbound().record_missing_slots(frame.slots() as u32);
        }
        Tried::Full
    }

    fn ask_room(&mut self, node: usize, peer: usize, out: &Out) -> Result<Tried, Fault> {
        let accepted = self.wire(node, peer).accepted;
        let Some(end) = self.end(node, peer) else { return Ok(Tried::Full) };
        if !end.core.outbound().admits(|| accepted)? {
            return Ok(Tried::Full);
        }
        let bytes = self.asks[out.id as usize].bytes as usize;
        // The liar asks for less than it sends.
        let less = if self.plan.liar == Some(node) { self.random.below(400) } else { 0 };
        let extensions = [Budget::price(bytes).saturating_sub(less), 0, 0, 0, 0];
        let words = Head::reserve().words();
        let frame = Frame { words, extensions, body: Body::None, written: 0 };
        if !self.write(node, peer, frame) {
            return Ok(self.lacks_slots(node, peer, &frame));
        }
        self.counts.reserves += 1;
        let Some(end) = self.end(node, peer) else { return Ok(Tried::Full) };
        Ok(Tried::Asked(end.core.outbound().ask(bytes, out.id)))
    }

    /// Tries to send a request for which room was granted.
    fn transfer(&mut self, node: usize, peer: usize, out: &Out, number: u64) -> Tried {
        let Some(end) = self.end(node, peer) else { return Tried::Full };
        if !end.core.outbound().admits_granted() {
            return Tried::Full;
        }
        let Some(buffer) = self.wire(node, peer).borrow(Use::Granted, out.id) else {
            return self.lacks_buffer(node, peer, Use::Granted);
        };
        let frame = self.request(node, out, Some((Use::Granted, buffer)), Some(number));
        if !self.write(node, peer, frame) {
            self.wire(node, peer).unlend(Use::Granted, buffer);
            return self.lacks_slots(node, peer, &frame);
        }
        self.went(node, out.id);
        let now = self.now();
        let Some(end) = self.end(node, peer) else { return Tried::Sent };
        let next = end.core.outbound().transferred(number, now);
        self.wake(node, peer, next.into_iter().collect());
        Tried::Sent
    }

    /// Writes waiting frames and wakes senders, if the peer has made room: a good part, or any, for a node that
    /// has no other work. Then senders that do not respond lose their turns as well.
    pub(super) fn settle(&mut self, node: usize, peer: usize, part: bool) {
        let mut woken = Vec::new();
        if let Some(End { core, rounds, .. }) = &mut self.nodes[node].ends[peer]
            && !part
        {
            *rounds += 1;
            let out = core.outbound();
            self.moved |= out.line().has_woken();
            if out.skip_unresponsive() {
                out.line().wake_first(usize::MAX, |id| woken.push(*id));
            }
        }
        self.pay(node, peer);
        let now = self.now();
        let at = node * self.plan.nodes + peer;
        let (Some(end), Some(wire)) = (&mut self.nodes[node].ends[peer], &self.wires[at]) else {
            return;
        };
        let lacked = end.lacked;
        let uses = [Use::Requests, Use::Granted];
        let has_buffers = || uses.iter().any(|&it| lacked[it as usize] && wire.has_free(it));
        let out = end.core.outbound();
        let has_slots = || wire.has_slots(|slots, longest| out.wanted_slots(slots, longest));
        if out.has_room(part, || wire.accepted, has_slots, has_buffers) {
            end.lacked = [false; 2];
            end.core.outbound().room_came(now, |id| woken.push(*id));
        }
        let waits = end.core.outbound().line().has_waiters()
            || end.core.outbound().asking() > 0
            || end.core.owed().0 > 0;
        self.wake(node, peer, woken);
        if self.wire(node, peer).wish(waits) {
            self.say_word(node, peer, Word::Wants(waits));
        }
    }

    /// Returns the room that was granted to senders that do not respond.
    pub(super) fn withdraw_unused(&mut self, node: usize) {
        let now = self.now();
        for peer in self.peers(node) {
            let Some(end) = self.end(node, peer) else { continue };
            for number in end.core.outbound().unused_grants(now) {
                self.counts.unused += 1;
                self.withdraw(node, peer, number);
            }
        }
    }

    /// Gives up the room that was asked for. Returns whether the peer is told.
    pub(super) fn withdraw(&mut self, node: usize, peer: usize, number: u64) -> bool {
        let now = self.now();
        let Some(end) = self.end(node, peer) else { return false };
        let (tell, next) = end.core.outbound().withdraw(number, now);
        self.wake(node, peer, next.into_iter().collect());
        if tell {
            self.withdrawn(node, peer, number);
        }
        tell
    }

    /// Polls forgotten senders once nothing moves any more: no sender may wait behind them.
    pub(super) fn remember(&mut self, node: usize) -> Result<(), Fault> {
        for peer in self.peers(node) {
            let Some(end) = &mut self.nodes[node].ends[peer] else { continue };
            if let Some(out) = end.senders.iter().find(|out| !out.forgotten) {
                return violated(format!("nothing moves, and {out:?} waits to be sent to {peer}"))?;
            }
            let forgotten: Vec<Id> = end.senders.iter().map(|out| out.id).collect();
            for id in forgotten {
                if let Some(end) = self.end(node, peer)
                    && let Some(out) = end.senders.get_mut(id)
                {
                    out.forgotten = false;
                    self.moved = true;
                    let result = self.poll_sender(node, peer, id);
                    self.or_broken(node, peer, result)?;
                }
            }
        }
        Ok(())
    }
}
