//! Sessions that begin and end, and nodes that die and return with another incarnation.

use std::rc::Rc;

use upbeat_core::channel::call::Ending;

use super::{End, Fault, Gone, Node, World};
use crate::check::{End as Fate, violated};
use crate::wire::Wire;

impl World {
    /// Begins a session between two nodes that have none. A node that still has a session with an older
    /// incarnation ends that first.
    pub(super) fn connect(&mut self, one: usize, other: usize) -> Result<(), Fault> {
        for (node, peer) in [(one, other), (other, one)] {
            if self.nodes[node].ends[peer].is_some() {
                self.counts.stale += 1;
                self.lose(node, peer)?;
            }
        }
        self.sessions += 1;
        let session = self.sessions;
        let stream = !self.shares_memory(one, other);
        for (node, peer) in [(one, other), (other, one)] {
            let wire = Wire::new(
                session,
                stream,
                self.plan.weather.late,
                self.plan.ring_slots,
                self.plan.buffers,
            );
            self.wires[node * self.plan.nodes + peer] = Some(wire);
            let replies = self.nodes[node].replies.clone();
            let end = End::new(&self.plan, session, self.plan.liar == Some(node), replies);
            self.nodes[node].ends[peer] = Some(end);
            self.nodes[node].hints.noted[peer] = true;
            self.nodes[node].hints.looked[peer] = self.now();
        }
        let incarnations = (self.nodes[one].incarnation, self.nodes[other].incarnation);
        self.note(|| format!("{one} and {other} begin session {session}: {incarnations:?}"));
        self.moved = true;
        Ok(())
    }

    /// Returns whether two nodes may begin a session: both are up, and have none.
    pub(super) fn may_connect(&self, one: usize, other: usize) -> bool {
        let (first, second) = (&self.nodes[one], &self.nodes[other]);
        first.up && second.up && (first.ends[other].is_none() || second.ends[one].is_none())
    }

    /// Ends a node with all its state. The frames that it has written remain.
    pub(super) fn crash(&mut self, node: usize) {
        self.counts.crashes += 1;
        self.note(|| format!("{node} dies"));
        self.check.died(node);
        self.flows_died(node);
        self.exports_died(node);
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
        let fresh = Node::new(&self.plan, self.now());
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

    /// Returns whether a node has a session with a peer that has died.
    pub(super) fn bereft(&self, node: usize, peer: usize) -> bool {
        self.nodes[node].ends[peer].is_some() && self.nodes[peer].ends[node].is_none()
    }

    /// A node notices that its peer has died: it reads what the peer has written, then ends everything that
    /// depends on the peer.
    pub(super) fn lose(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        if let Err(fault) = self.read(node, peer, usize::MAX) {
            match fault {
                Fault::Rule(_) if self.lies(node, peer) => {}
                fault => return Err(fault),
            }
        }
        self.bury(node, peer)
    }

    /// Ends a session on both sides at once, because one has broken a rule.
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
        let Some(end) = &self.nodes[node].ends[peer] else { return Ok(()) };
        let core = Rc::clone(&end.core);
        for held in core.forget_requests(&self.nodes[node].shared_budget) {
            if held.bytes == 0 {
                return violated("a request of no bytes waits")?;
            }
        }
        let unsent: Vec<_> = end.senders.iter().filter_map(|out| out.call).collect();
        let fate = |call| match Ending::of(!unsent.contains(&call)) {
            Ending::NotSent => Fate::NotSent,
            Ending::Unknown => Fate::Unknown,
        };
        let calls =
            core.end().into_iter().map(|(call, waiter)| (call, waiter, fate(call))).collect();
        let held = core.inbound().with_share(|share| share.held());
        let tasks = self.nodes[node].tasks.iter().flatten();
        let goes_on = tasks.filter(|task| Rc::ptr_eq(&task.session, &core));
        let holds: u64 = goes_on.map(|task| task.charge.held()).sum();
        let left = core.calls().len() + core.serving().len();
        if held != holds || left != 0 {
            return violated(format!("a lost session holds {held} bytes and {left} calls"))?;
        }
        self.lose_flows(node, peer, session)?;
        self.nodes[node].ends[peer] = None;
        self.nodes[node].pressed = true;
        self.end_calls(node, peer, calls)
    }

    /// Stops the tasks that run for a lost peer, except those that continue without it.
    fn stop_served(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        let Some(core) = self.core(node, peer) else { return Ok(()) };
        for (_, at) in core.take_served() {
            if !self.goes_on(node, at, Gone::Lost)? {
                self.counts.bereaved += 1;
                if let Some(task) = &mut self.nodes[node].tasks[at] {
                    task.gone = Gone::Lost;
                }
                self.stop(node, at, None)?;
            }
        }
        // Tasks of one-way messages stop; tasks whose callers had given up before go on without the session.
        for at in 0..self.nodes[node].tasks.len() {
            let task = self.nodes[node].tasks[at].as_ref();
            match task.filter(|task| task.peer == peer).map(|task| (task.gone, task.call)) {
                Some((Gone::Told, _)) => self.leave_session(node, at),
                Some((Gone::No, None)) => {
                    self.counts.bereaved += 1;
                    self.stop(node, at, None)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
