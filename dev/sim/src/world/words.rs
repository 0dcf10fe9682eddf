//! Words that one side of a session writes for the other: its progress, and whether it waits. Also the records
//! on their way: they arrive, and their connection breaks and is resumed.

use super::{Fault, World};
use crate::check::violated;
use crate::wire::{Shipped, Use, Word};

impl World {
    /// A node writes a word for a peer.
    pub(super) fn say_word(&mut self, node: usize, peer: usize, word: Word) {
        if self.wire(node, peer).say(word) {
            self.see_word(peer, node, word);
        }
        self.moved = true;
        self.hint(node, peer);
    }

    /// A node sees a word of a peer.
    pub(super) fn see_word(&mut self, node: usize, peer: usize, word: Word) {
        match word {
            Word::Wants(wants) => self.wire(peer, node).hear_wish(wants),
            word => self.wire(node, peer).hear(word),
        }
    }

    /// Writes the progress of this side: that of the ring at once, that of accepted requests when it is large,
    /// or when the peer waits for it.
    pub(super) fn say_progress(&mut self, node: usize, peer: usize) {
        let Some(end) = self.end(node, peer) else { return };
        let session = end.session;
        let wire = self.wire(peer, node);
        if wire.session != session {
            return;
        }
        let wanted = wire.is_wanted();
        if let Some(end) = self.end(node, peer)
            && let Some(accepted) = end.core.inbound().show_to(wanted)
        {
            self.wire(peer, node).say_accepted(accepted);
            self.say_word(node, peer, Word::Accepted(accepted));
        }
        if let Some(read) = self.wire(peer, node).read_unsaid() {
            self.say_word(node, peer, Word::Read(read));
        }
    }

    /// A node returns a buffer of a peer, if it has one.
    pub(super) fn give_back(&mut self, node: usize, peer: usize, lent: Option<(Use, usize)>) {
        if let Some((usage, at)) = lent
            && let Some(odd) = self.wire(peer, node).give_back(usage, at)
        {
            self.say_word(node, peer, Word::Returned(usage, at, odd));
        }
    }

    /// A node ships the frames that it has written for a peer, as far as the connection takes them.
    pub(super) fn ship(&mut self, node: usize, peer: usize) {
        let World { wires, random, plan, .. } = self;
        let Some(wire) = wires[node * plan.nodes + peer].as_mut().filter(|wire| wire.stream) else {
            return;
        };
        let most = if self.healing { usize::MAX } else { random.index(8) };
        for _ in 0..most {
            let busy = !self.healing && random.permille(plan.weather.busy);
            match wire.ship(busy, random) {
                Shipped::Nothing => return,
                Shipped::Something => {}
                Shipped::Deferred => self.counts.deferred += 1,
                Shipped::Passed => self.counts.passing += 1,
                Shipped::GivenUp => self.counts.given_up += 1,
            }
            self.moved = true;
        }
    }

    /// Has some of the records on their way from a node to another arrive, or all.
    pub(super) fn arrive(&mut self, from: usize, to: usize, all: bool) {
        let Some(wire) = &mut self.wires[from * self.plan.nodes + to] else { return };
        let under_way = wire.under_way();
        if under_way == 0 {
            return;
        }
        let many = if all { under_way } else { 1 + self.random.index(under_way) };
        for word in wire.arrive(many) {
            self.see_word(to, from, word);
        }
        self.moved = true;
        self.hint(from, to);
    }

    /// Breaks the connection between two nodes, or resumes it.
    pub(super) fn break_or_resume(&mut self, one: usize, other: usize) -> Result<(), Fault> {
        let ways = [(one, other), (other, one)];
        let at = |(from, to): (usize, usize)| from * self.plan.nodes + to;
        match ways.map(|way| self.wires[at(way)].as_ref()) {
            [Some(wire), Some(_)] if wire.stream && wire.is_broken() => self.reconnect(one, other),
            [Some(wire), Some(_)] if wire.stream && !self.healing => {
                self.counts.breaks += 1;
                self.note(|| format!("the connection between {one} and {other} breaks"));
                for (from, to) in ways {
                    let wire = self.wire(from, to);
                    let (under_way, defers) = (wire.under_way(), wire.defers());
                    self.counts.deferred_cut += u64::from(defers);
                    let many = self.random.index(under_way + 1);
                    self.wire(from, to).break_off(many);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reconnect(&mut self, one: usize, other: usize) -> Result<(), Fault> {
        self.note(|| format!("the connection between {one} and {other} is resumed"));
        self.moved = true;
        for (from, to) in [(one, other), (other, one)] {
            if self.wire(from, to).resume().is_none() {
                return violated(format!("{from} does not have the frames that {to} lacks"))?;
            }
            let wants_room = self.wire(from, to).says_wanted();
            let words = self.wire(to, from).words_of_reader(wants_room);
            words.into_iter().for_each(|word| self.say_word(from, to, word));
        }
        Ok(())
    }
}
