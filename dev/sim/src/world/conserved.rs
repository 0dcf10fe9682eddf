//! Checks of the bytes that a node holds, after each of its turns that may have changed them.

use upbeat_core::flow::Budget;

use super::{End, Fault, World};
use crate::check::violated;
use crate::wire::{Frame, Wire};

impl World {
    /// Checks that a node holds the bytes that its budget says, and that they fit its rings.
    pub(super) fn conserved(&self, node: usize) -> Result<(), Fault> {
        if let Some(what) = &self.record.wrong {
            return violated(what.clone())?;
        }
        let (held, _) = self.holds(node, node);
        let says = self.nodes[node].shared_budget.budget().held();
        if held != says {
            return violated(format!("node {node} holds {held} bytes, its budget says {says}"))?;
        }
        let (mut waits, mut owed) = (0, 0);
        for end in self.nodes[node].ends.iter().flatten() {
            owed += end.core.owed().1;
            waits += owed_by(end).1;
        }
        let says = self.nodes[node].replies.budget().held();
        if owed != says || owed != waits {
            return violated(format!(
                "{node} owes {waits} bytes, its sessions {owed}, in all {says}"
            ))?;
        }
        self.peers(node).try_for_each(|peer| self.conserved_in(node, peer))
    }

    /// Checks the same of one session.
    fn conserved_in(&self, node: usize, peer: usize) -> Result<(), Fault> {
        let wire = self.wires[node * self.plan.nodes + peer].as_ref();
        if wire.is_some_and(Wire::overfull) {
            return violated(format!("the ring from {node} to {peer} holds more than it can"))?;
        }
        let Some(end) = &self.nodes[node].ends[peer] else { return Ok(()) };
        let (bounds, inbound, outbound) =
            (self.plan.bounds, end.core.inbound(), end.core.outbound());
        let (open, special) = outbound.open();
        if inbound.waiting() > bounds.places() || open > bounds.places() as u64 {
            return violated(format!("node {node} has too many places for {peer}"))?;
        }
        if inbound.copied() > bounds.copied {
            let copied = inbound.copied();
            return violated(format!("node {node} has copied {copied} bytes of {peer}"))?;
        }
        if special as u64 > open {
            return violated(format!("{node} knows of {special} requests for {peer}"))?;
        }
        if let Some(number) = passed_over(end) {
            return violated(format!("{node} takes {number} for accepted, which has not gone"))?;
        }
        if outbound.asking().max(outbound.line().len()) > end.senders.len() {
            return violated(format!("{node} has more senders for {peer} than there are"))?;
        }
        // The frames that a node owes: replies to the peer's calls, cancels of its own calls, at most a nack and
        // a grant for each place, and a withdrawal for each reservation.
        let Some(other) = &self.nodes[peer].ends[node] else { return Ok(()) };
        // At most one question for time for each open reply, too; answers to questions are as
        // many as calls were open when the first was owed.
        let calls = 2 * other.core.calls().len() + end.core.calls().len();
        let most = calls + 3 * bounds.places() + 2;
        let owed = owed_by(end).0;
        if owed > most
            && owed > most + self.flows.of(end.session)
            && other.session == end.session
            && !self.lies(node, peer)
        {
            return violated(format!("{node} owes {peer} {owed} frames, more than {most}"))?;
        }
        Ok(())
    }
}

/// Returns the waiting frames except answers about time, and the bytes that the replies among them are charged
/// with.
fn owed_by(end: &End) -> (usize, u64) {
    let (mut frames, mut bytes) = (0, 0);
    if end.core.owed().0 > 0 {
        end.core.each_owed(|frame: &Frame| {
            frames += usize::from(!frame.is_extended());
            bytes += if frame.is_answer() { Budget::price(frame.answer_bytes()) } else { 0 };
        });
    }
    (frames, bytes)
}

/// Returns a request that counts as accepted although it has asked for room and was not sent.
fn passed_over(end: &End) -> Option<u64> {
    let outbound = end.core.outbound();
    if outbound.asking() == 0 {
        return None;
    }
    let (_, safe) = outbound.numbers();
    let asked = end.senders.iter().filter_map(|out| out.number);
    asked.filter(|number| *number < safe && outbound.has_asked(*number)).min()
}
