//! The order of events: at first anything may happen; then all faults end, and everything
//! must finish.

use upbeat_core::frame::{CallNumber, Head, Kind};

use super::{Fault, World};
use crate::check::{End as Fate, Violation, violated};
use crate::plan::Ask;
use crate::wire::{Frame, Wire, Word};

/// Rounds after the end of the faults, beyond which a history is a livelock.
const ROUNDS_MAX: u32 = 20_000;

/// Microseconds by which time advances where nothing happens before the next timer.
const LEAP: u64 = 60;

impl World {
    /// Runs the history.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let result = self.weather().and_then(|()| self.heal()).and_then(|()| self.settled());
        for (count, fate) in [
            (&mut self.counts.replies, Fate::Replied),
            (&mut self.counts.failures, Fate::Failed),
            (&mut self.counts.deadlines, Fate::Deadline),
            (&mut self.counts.drops, Fate::Dropped),
            (&mut self.counts.unknown, Fate::Unknown),
            (&mut self.counts.unsent, Fate::NotSent),
        ] {
            *count = self.check.ends(fate);
        }
        match result {
            Ok(()) => Ok(()),
            Err(Fault::Violation(violation)) => Err(violation),
            Err(Fault::Rule(rule)) => violated(format!("a rule broken by nobody: {rule}")),
        }
    }

    fn weather(&mut self) -> Result<(), Fault> {
        for one in 0..self.plan.nodes {
            for other in 0..one {
                self.connect(other, one)?;
            }
        }
        for _ in 0..self.plan.steps {
            self.happen()?;
        }
        Ok(())
    }

    /// Takes one random step.
    fn happen(&mut self) -> Result<(), Fault> {
        let node = self.random.index(self.plan.nodes);
        let peer = (node + 1 + self.random.index(self.plan.nodes - 1)) % self.plan.nodes;
        match self.random.below(1000) {
            at if at < self.plan.turns && self.plan.weather.slow == Some(node) && at % 8 > 0 => {}
            at if at < self.plan.turns => {
                self.turn(node)?;
            }
            at if at < self.plan.turns + 120 && self.nodes[node].up => {
                for _ in 0..self.random.pick(&[1, 1, 1, 2, 8]) {
                    let ask = Ask::new(&mut self.random, &self.plan, node);
                    self.issue(node, ask, None)?;
                }
                self.pump_all(node);
            }
            at if at < self.plan.turns + 190 => self.time += self.random.within(1, 40),
            990.. if self.plan.weather.crashes => match self.nodes[node].up {
                true if self.random.permille(300) => self.crash(node),
                true => {}
                false => self.restart(node),
            },
            985.. if self.plan.weather.jumps => {
                self.counts.jumps += 1;
                let far = self.random.within(1, 2_000);
                let ahead = &mut self.nodes[node].ahead;
                *ahead =
                    if far.is_multiple_of(3) { ahead.saturating_sub(far) } else { *ahead + far };
            }
            960.. if self.plan.liar.is_some() => self.lie(),
            940.. if self.nodes[node].up && self.bereft(node, peer) => self.lose(node, peer)?,
            930.. if self.may_connect(node, peer) => self.connect(node, peer)?,
            920.. => self.break_or_resume(node, peer)?,
            _ => self.arrive(node, peer, false),
        }
        Ok(())
    }

    /// The liar repeats a frame, or sends a false one.
    fn lie(&mut self) {
        let Some(liar) = self.plan.liar else { return };
        if self.said.is_empty() {
            return;
        }
        let at = self.random.index(self.said.len());
        let (peer, session, mut frame) = self.said[at];
        let its = self.nodes[liar].ends[peer].as_ref().map(|end| end.session);
        if its != Some(session) || !self.wire(liar, peer).fits(&frame) {
            return;
        }
        self.counts.lies += 1;
        if self.random.permille(400) {
            self.counts.flips += 1;
            self.check.flipped();
            for _ in 0..1 + self.random.index(2) {
                let mut words = frame.words.iter_mut().chain(&mut frame.extensions);
                let word = words.nth(self.random.index(8));
                *word.expect("there are eight") ^= 1 << self.random.below(64);
            }
        }
        ask_again(&mut frame);
        if !self.wire(liar, peer).fits(&frame) {
            return;
        }
        let accepted = self.accepted(liar, peer);
        match self.random.below(1000) {
            0..50 => {
                let bit = 1 << self.random.below(64);
                self.say_word(liar, peer, Word::Accepted(accepted ^ bit));
            }
            50..150 => {
                let ahead = 1 + self.random.below(4);
                self.say_word(liar, peer, Word::Accepted(accepted + ahead));
            }
            _ => {}
        }
        self.note(|| format!("{liar} lies to {peer}: {}", super::send::say(&frame)));
        self.wire(liar, peer).write(frame);
        self.hint(liar, peer);
    }

    fn accepted(&mut self, node: usize, peer: usize) -> u64 {
        self.end(node, peer).map_or(0, |end| end.core.inbound().accepted())
    }

    /// Runs a turn of a node's dispatcher: over the sessions with hints, or over all of them when a sweep is due.
    pub(super) fn turn(&mut self, node: usize) -> Result<(), Fault> {
        if !self.nodes[node].up {
            return Ok(());
        }
        let before = std::mem::take(&mut self.moved);
        let now = self.now();
        let sweep = self.nodes[node].hints.sweeps.take_due(now);
        for peer in self.peers(node) {
            if !std::mem::take(&mut self.nodes[node].hints.noted[peer]) && !sweep {
                self.unseen(node, peer)?;
                continue;
            }
            self.nodes[node].hints.looked[peer] = now;
            let most = if self.healing { usize::MAX } else { 1 + self.random.index(8) };
            let result = self.read(node, peer, most);
            self.or_broken(node, peer, result)?;
        }
        self.timers(node)?;
        self.ask_for_more(node)?;
        self.offer(node)?;
        self.poll_woken(node)?;
        self.poll_flows(node)?;
        self.poll_exports(node)?;
        self.pump_all(node);
        // If nothing happened, the last check still holds.
        let moved = self.moved;
        self.moved |= before;
        if moved { self.conserved(node) } else { Ok(()) }
    }

    /// Checks a session whose records the node has not looked at, which is right as long as a hint may still come.
    fn unseen(&self, node: usize, peer: usize) -> Result<(), Fault> {
        let unseen_ns = self.now() - self.nodes[node].hints.looked[peer];
        let wire = self.wires[peer * self.plan.nodes + node].as_ref();
        if unseen_ns >= self.plan.weather.sweep_ns && wire.is_some_and(Wire::has_next) {
            let ns = self.plan.weather.sweep_ns;
            return violated(format!(
                "{node} has not looked at what {peer} sent for {unseen_ns} ns, and looks at all \
                 every {ns}"
            ))?;
        }
        Ok(())
    }

    /// Ends the session for a broken rule of the peer's, and the history for a violation.
    pub(super) fn or_broken(
        &mut self,
        node: usize,
        peer: usize,
        result: Result<(), Fault>,
    ) -> Result<(), Fault> {
        match result {
            Err(Fault::Rule(rule)) => self.broken(node, peer, rule),
            result => result,
        }
    }

    /// Offers the room that was given back to all who wait for it.
    fn offer(&mut self, node: usize) -> Result<(), Fault> {
        while self.nodes[node].shared_budget.take_freed()
            | std::mem::take(&mut self.nodes[node].pressed)
        {
            for peer in self.peers(node) {
                let result = self.step(node, peer);
                self.or_broken(node, peer, result)?;
            }
        }
        Ok(())
    }

    fn pump_all(&mut self, node: usize) {
        for peer in self.peers(node) {
            self.say_progress(node, peer);
            if self.nodes[node].ends[peer].is_some() {
                let part = !self.healing && self.random.permille(500);
                self.settle(node, peer, part);
                self.ship(node, peer);
            }
        }
    }

    /// Ends all faults: dead nodes return, the liar becomes honest, and nothing is lost any more.
    fn heal(&mut self) -> Result<(), Fault> {
        self.note(|| "all heals".into());
        self.healing = true;
        for node in 0..self.plan.nodes {
            if !self.nodes[node].up {
                self.restart(node);
            }
        }
        if let Some(liar) = self.plan.liar {
            for peer in self.peers(liar) {
                self.part(liar, peer)?;
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.moved = false;
            self.round()?;
            if self.moved {
                // A sender may try again and again until its node sees a message for which no hint came.
                if self.next_look().is_some() {
                    self.time += self.random.within(1, LEAP);
                }
                continue;
            }
            let look = self.next_look();
            let next = (0..self.plan.nodes).filter_map(|node| self.next_timer(node)).min();
            if let Some(look) = look
                && next.is_none_or(|next| look <= next)
            {
                self.time = look.max(self.time + 1);
                continue;
            }
            let mut tasks = self.nodes.iter().flat_map(|node| node.tasks.iter().flatten());
            let asking = tasks.find(|task| task.asking > 0).map(|task| task.id);
            if look.is_none()
                && let Some(id) = self.check.unanswered().or(asking)
            {
                return violated(format!("nothing moves, and {id} waits to be told of its time"))?;
            }
            if let Some(next) = next {
                // Several timers go off together, as they do on a late node.
                self.time = self.time.max(next) + self.random.within(1, LEAP);
                continue;
            }
            for node in 0..self.plan.nodes {
                self.remember(node)?;
            }
            if self.moved {
                continue;
            }
            return Ok(());
        }
        violated("what happens goes round in a circle")?
    }

    /// Returns when the next node sweeps that has not seen a message, in the world's time.
    fn next_look(&self) -> Option<u64> {
        let pairs =
            (0..self.plan.nodes).flat_map(|node| self.peers(node).map(move |peer| (node, peer)));
        let waits = pairs.filter(|(node, peer)| {
            let wire = self.wires[peer * self.plan.nodes + node].as_ref();
            self.nodes[*node].ends[*peer].is_some() && wire.is_some_and(Wire::has_next)
        });
        waits.map(|(node, _)| self.nodes[node].hints.sweeps.next().div_ceil(1_000)).min()
    }

    fn round(&mut self) -> Result<(), Fault> {
        for node in 0..self.plan.nodes {
            for peer in self.peers(node) {
                if self.bereft(node, peer) {
                    self.lose(node, peer)?;
                }
                if self.may_connect(node, peer) {
                    self.connect(node, peer)?;
                }
                self.break_or_resume(node, peer)?;
                self.arrive(node, peer, true);
            }
            self.turn(node)?;
        }
        Ok(())
    }

    /// Checks, once nothing moves any more, that everything is done and everything was returned.
    fn settled(&mut self) -> Result<(), Fault> {
        for node in 0..self.plan.nodes {
            self.conserved(node)?;
        }
        if let Some(what) = self.check.unfinished() {
            return violated(format!("nothing moves, and {what}"))?;
        }
        self.exports_settled()?;
        for node in 0..self.plan.nodes {
            let held = self.nodes[node].shared_budget.budget().held();
            let tasks = self.nodes[node].tasks.iter().flatten().count();
            if held != 0 || tasks != 0 {
                return violated(format!("node {node} is left with {held} bytes, {tasks} tasks"))?;
            }
            for peer in self.peers(node) {
                self.settled_session(node, peer)?;
            }
        }
        Ok(())
    }

    fn settled_session(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        let accepted = self.accepted(peer, node);
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        let served = end.core.serving().len();
        let oneways = end.core.serving().oneways();
        let left = [
            ("bytes", end.core.inbound().with_share(|share| share.held()) as usize),
            ("bytes copied", end.core.inbound().copied()),
            ("places", end.core.inbound().waiting()),
            ("open calls", end.core.calls().len()),
            ("served calls", served),
            ("one-way messages", oneways),
            ("requests unsent", end.senders.len()),
            ("senders in line", end.core.outbound().line().len()),
            ("frames owed", end.core.owed().0),
            ("bytes unread", end.core.unread()),
            ("room asked for", end.core.outbound().asking()),
            ("places away", end.away.len()),
            ("streams", end.streams.len()),
        ];
        if let Some((what, many)) = left.iter().find(|(_, many)| *many > 0) {
            return violated(format!("node {node} is left with {many} {what} for {peer}"))?;
        }
        let (out, _) = end.core.outbound().numbers();
        if out != accepted {
            return violated(format!("{node} has sent {out}, and {peer} has accepted {accepted}"))?;
        }
        let lent = self.wire(node, peer).lent();
        if lent > 0 {
            return violated(format!("{lent} buffers of {node} were not returned by {peer}"))?;
        }
        Ok(())
    }
}

/// Gives a repeated operation of a stream a call number of its own: under the number of an open call, the receiver would
/// refuse it before it looked at the stream.
fn ask_again(frame: &mut Frame) {
    if let Ok(head) = Head::parse(frame.words)
        && head.kind == Kind::Operation
    {
        let call = CallNumber::new(head.call.index() ^ 8, head.call.generation());
        frame.words = Head { call, ..head }.words();
    }
}
