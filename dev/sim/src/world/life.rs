//! Sessions that begin and end, nodes that die and come back as another incarnation.

use super::{End, Fault, Gone, Node, World};
use crate::check::{End as Fate, violated};
use crate::mutant::{Own, mutated};
use crate::wire::Wire;

impl World {
    /// Begins a session between two nodes that have none. One that still has an older session, with
    /// another incarnation, ends that first.
    pub(super) fn connect(&mut self, one: usize, other: usize) -> Result<(), Fault> {
        let mut resumed = [false; 2];
        for (at, (node, peer)) in [(one, other), (other, one)].into_iter().enumerate() {
            if self.nodes[node].ends[peer].is_some() {
                self.counts.stale += 1;
                if mutated(Own::IncarnationUnchecked) {
                    resumed[at] = true;
                } else {
                    self.lose(node, peer)?;
                }
            }
        }
        self.sessions += 1;
        let session = self.sessions;
        let pair = one.min(other) * self.plan.nodes + one.max(other);
        let stream = self.plan.streams >> pair & 1 == 1;
        for (at, (node, peer)) in [(one, other), (other, one)].into_iter().enumerate() {
            let wire =
                Wire::new(session, stream, self.plan.late, self.plan.ring_slots, self.plan.buffers);
            self.wires[node * self.plan.nodes + peer] = Some(wire);
            match &mut self.nodes[node].ends[peer] {
                Some(end) if resumed[at] => end.session = session,
                end => *end = Some(End::new(&self.plan, session, self.plan.liar == Some(node))),
            }
            self.nodes[node].noted[peer] = true;
        }
        let incarnations = (self.nodes[one].incarnation, self.nodes[other].incarnation);
        self.note(|| format!("{one} and {other} begin session {session}: {incarnations:?}"));
        self.moved = true;
        Ok(())
    }

    /// Two nodes that are up and have no session begin one, if it may be.
    pub(super) fn may_connect(&self, one: usize, other: usize) -> bool {
        let (first, second) = (&self.nodes[one], &self.nodes[other]);
        first.up && second.up && (first.ends[other].is_none() || second.ends[one].is_none())
    }

    /// A node is no more, with all that it knew. What it has written is still there.
    pub(super) fn crash(&mut self, node: usize) {
        self.counts.crashes += 1;
        self.note(|| format!("{node} dies"));
        self.check.died(node);
        for peer in self.peers(node) {
            let Some(end) = &self.nodes[node].ends[peer] else { continue };
            let session = end.session;
            self.check.lost(session);
            let random = &mut self.random;
            let wire = self.wires[node * self.plan.nodes + peer].as_mut();
            if let Some(wire) = wire.filter(|wire| wire.stream) {
                wire.break_off(random.index(wire.under_way() + 1));
            }
        }
        let (incarnation, ahead) = (self.nodes[node].incarnation, self.nodes[node].ahead);
        let fresh = Node::new(&self.plan);
        self.nodes[node] = Node { up: false, incarnation, ahead, ..fresh };
        if self.plan.liar == Some(node) {
            self.said.clear();
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        self.note(|| format!("{node} is back"));
        self.nodes[node].up = true;
        self.nodes[node].incarnation += 1;
    }

    /// Whether a node has a session with one that has died since.
    pub(super) fn bereft(&self, node: usize, peer: usize) -> bool {
        self.nodes[node].ends[peer].is_some() && self.nodes[peer].ends[node].is_none()
    }

    /// A node finds that its peer has died: what that has written is taken over, then all that
    /// involves it ends.
    pub(super) fn lose(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        if let Err(fault) = self.read(node, peer, usize::MAX) {
            match fault {
                Fault::Rule(_) if self.lies(node, peer) => {}
                fault => return Err(fault),
            }
        }
        self.bury(node, peer)
    }

    /// Ends a session on both sides, at once, because one has broken a rule.
    pub(super) fn part(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        self.bury(node, peer)?;
        self.bury(peer, node)
    }

    fn bury(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        let Some(end) = &self.nodes[node].ends[peer] else { return Ok(()) };
        let session = end.session;
        self.note(|| format!("{node} ends session {session} with {peer}"));
        self.check.lost(session);
        self.check.orphaned(session, node, self.time);
        self.stop_served(node, peer)?;
        self.collect(node, Some(peer))?;
        let Some((end, budget)) = self.end(node, peer) else { return Ok(()) };
        for held in end.receives.clear(budget) {
            if held.bytes == 0 {
                return violated("a request of no bytes waits")?;
            }
        }
        let mut calls = Vec::new();
        let unsent: Vec<_> = end.senders.values().filter_map(|out| out.call).collect();
        for call in unsent {
            match end.calls.close(call) {
                Some(waiter) => calls.push((call, waiter, Fate::NotSent)),
                None => return violated(format!("{call} was not sent and is not open"))?,
            }
        }
        let fate = if mutated(Own::NotSentForSent) { Fate::NotSent } else { Fate::Unknown };
        if !mutated(Own::LostKeepsCalls) {
            calls.extend(end.calls.drain().map(|(call, waiter)| (call, waiter, fate)));
        }
        let held = end.receives.with_share(|share| share.held());
        let left = end.calls.len() + end.serving.len();
        if held != 0 || left != 0 && !mutated(Own::LostKeepsCalls) {
            return violated(format!("a lost session holds {held} bytes and {left} calls"))?;
        }
        let Node { ends, replies, .. } = &mut self.nodes[node];
        if let Some(end) = &mut ends[peer] {
            end.owed.clear(replies);
        }
        ends[peer] = None;
        self.nodes[node].room = true;
        self.end_calls(node, peer, calls)
    }

    /// Stops the tasks on a lost peer's behalf, but for those that go on without it.
    fn stop_served(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        if mutated(Own::LostKeepsTasks) {
            return Ok(());
        }
        for at in 0..self.nodes[node].tasks.len() {
            let task = self.nodes[node].tasks[at];
            match task.filter(|task| task.peer == peer).map(|task| task.gone) {
                None | Some(Gone::Lost) => {}
                Some(Gone::Told) => self.leave_session(node, at),
                Some(Gone::No) if self.goes_on(node, at, Gone::Lost)? => {}
                Some(Gone::No) => {
                    self.counts.bereaved += 1;
                    self.stop(node, at, None)?;
                }
            }
        }
        Ok(())
    }
}
