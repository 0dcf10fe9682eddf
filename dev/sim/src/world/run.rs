//! Handlers: begun where their request is accepted, kept as tasks if they are not done, charged
//! while they do not wait for another node.

use upbeat_core::call::Abandon;
use upbeat_core::fault::Rule;
use upbeat_core::flow::{Budget, Share};
use upbeat_core::frame::{CallNumber, FailCode, Head, Kind};
use upbeat_core::lease::Lease;

use super::lend::when;
use super::{End, Fault, Gone, Held, Node, Payload, State, Task, Waiter, World};
use crate::check::{End as Fate, Id, violated};
use crate::mutant::{Own, mutated};
use crate::plan::{Ask, Behaviour, Need};
use crate::wire::{Body, Use};

impl Task {
    /// Whether it is charged to the budget.
    pub(super) fn counts(&self) -> bool {
        !matches!(self.state, State::Calls { .. }) || mutated(Own::WaitingCounted)
    }
}

impl World {
    /// Polls the handler of a request that was accepted.
    pub(super) fn start(&mut self, node: usize, peer: usize, held: Held) -> Result<(), Fault> {
        let session = self.wire(peer, node).session;
        let (id, buffer) = match held.what {
            Payload::Here(id) => (id, None),
            Payload::Buffer(usage, buffer) => {
                let Some(there) = self.wire(peer, node).buffer(usage, buffer).copied() else {
                    return violated("a payload in a buffer that does not exist")?;
                };
                if there.is_back() && self.plan.liar == Some(peer) {
                    let (kind, number) = (Kind::Call.byte(), buffer as u64);
                    return Err(Rule::StrayPlace { kind, number }.into());
                }
                if there.is_back() && !self.lies(node, peer) {
                    return violated("a payload is read in a buffer that was taken back")?;
                }
                (there.content, Some((usage, buffer)))
            }
        };
        if let Some(call) = held.call {
            self.nodes[node].ends[peer].as_ref().map_or(Ok(()), |end| end.serving.admits(call))?;
        }
        if held.deadline.is_past(self.clock(node))
            && let Some(call) = held.call
            && !mutated(Own::DeadlineUnchecked)
        {
            self.note(|| format!("{node} comes too late to run {id}"));
            self.give_back(node, peer, buffer);
            self.owe(node, peer, Head::failed(call, 1), Body::Failure(FailCode::Deadline));
            return Ok(());
        }
        if held.deadline.is_past(self.clock(node)) && !self.lies(node, peer) {
            return violated(format!("{id} runs, and its deadline is past"))?;
        }
        self.note(|| format!("{node} runs {id} for {peer}"));
        self.check.accepted(id, node, session, held.on_way)?;
        let ask = self.asks[id as usize];
        let lacks = ask.need != Need::Nothing && self.nodes[node].lock.is_some();
        if lacks && let Some(code) = self.refusal(ask.need, held.refusals) {
            return self.send_back(node, peer, held, (id, buffer), code);
        }
        let lacks = lacks && !(ask.need == Need::Never && mutated(Own::LackIgnored));
        if ask.behaviour == Behaviour::Now && !lacks {
            self.check.started(id, self.time)?;
            self.give_back(node, peer, buffer);
            self.check.finished(id, self.time)?;
            if let Some(call) = held.call {
                self.reply(node, peer, call, id);
            }
            return Ok(());
        }
        let at = self.keep(node, peer, held, id, buffer)?;
        if lacks { Ok(()) } else { self.begin(node, at) }
    }

    /// A handler was not done when it was first polled: it is a task. Gives which.
    pub(super) fn keep(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        id: Id,
        buffer: Option<(Use, usize)>,
    ) -> Result<usize, Fault> {
        let ask = self.asks[id as usize];
        let calls = matches!(ask.behaviour, Behaviour::Back { .. });
        // Who waits for another node lets go of what is lent to it: its caller may need it for what
        // is asked on its behalf.
        let in_place = self.plan.in_place && (!calls || mutated(Own::LentWhileCalling));
        if !in_place {
            self.give_back(node, peer, buffer);
        }
        self.nodes[node].lacked += 1;
        let state = State::Lacks(self.nodes[node].lacked);
        let buffer = buffer.filter(|_| in_place);
        let Held { call, bytes, deadline: end, .. } = held;
        let (gone, answer) = (Gone::No, None);
        let task = Task { id, peer, call, bytes, end, gone, asking: 0, buffer, answer, state };
        let tasks = &mut self.nodes[node].tasks;
        let at = tasks.iter().position(Option::is_none).unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        tasks[at] = Some(task);
        if held.extendable && held.call.is_some() {
            let lease = Lease::new(when(end));
            self.nodes[node].leases.insert(at, lease);
        }
        let Some((end, budget)) = self.end(node, peer) else {
            return violated("a session is gone in which a request is accepted")?;
        };
        match held.call {
            Some(call) => end.serving.insert(call, at)?,
            None => end.serving.begin_oneway(),
        }
        budget_of(budget, end, |budget, share| budget.charge(share, held.bytes));
        self.close_if_full(node, peer);
        Ok(at)
    }

    /// The body of a handler begins, which is a task.
    pub(super) fn begin(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        let Some(task) = &mut self.nodes[node].tasks[at] else {
            return violated("a task begins that is no more")?;
        };
        let (id, ask) = (task.id, self.asks[task.id as usize]);
        task.state = match ask.behaviour {
            Behaviour::Wait(time) => State::Until(now + time),
            Behaviour::Never => State::Never,
            _ => State::Until(now),
        };
        self.check.started(id, self.time)?;
        if ask.need != Need::Nothing {
            self.nodes[node].lock = Some(at);
        }
        if let Behaviour::Back { to, depth } = ask.behaviour {
            self.call_back(node, at, to, depth)?;
        }
        Ok(())
    }

    /// A handler calls a node and waits for the answer.
    fn call_back(&mut self, node: usize, at: usize, to: usize, depth: u32) -> Result<(), Fault> {
        self.counts.nested += 1;
        let ask = Ask::nested(&mut self.random, &self.plan, node, to, depth);
        if let Some(call) = self.issue(node, ask, Some(at))? {
            let task = self.nodes[node].tasks[at].as_mut().expect("it was just kept");
            task.state = State::Calls { peer: to, call };
            let task = *task;
            if !mutated(Own::WaitingCounted) {
                self.release(node, task);
            }
        }
        Ok(())
    }

    fn release(&mut self, node: usize, task: Task) {
        let Node { budget, ends, left, room, .. } = &mut self.nodes[node];
        match &mut ends[task.peer] {
            _ if task.gone == Gone::Lost => budget.release(left, task.bytes),
            Some(end) => budget_of(budget, end, |budget, share| budget.release(share, task.bytes)),
            None => return,
        }
        *room = true;
    }

    /// Something was charged: sessions whose requests may not be accepted at once any more are closed.
    fn close_if_full(&mut self, node: usize, peer: usize) {
        let full = !self.nodes[node].budget.has_room();
        for of in self.peers(node) {
            let Node { ends, budget, replies, .. } = &mut self.nodes[node];
            if (full || of == peer)
                && let Some(end) = &mut ends[of]
            {
                end.receives.look_clear(budget, end.owed.takes_requests(replies));
            }
        }
    }

    /// What a handler waited for has come, or never will.
    pub(super) fn resume(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks[at].as_mut() else {
            return violated("an answer comes to a task that is no more")?;
        };
        let counted = task.counts();
        task.state = State::Until(0);
        let Task { peer, bytes, gone, .. } = *task;
        let Node { budget, ends, left, .. } = &mut self.nodes[node];
        match &mut ends[peer] {
            _ if counted => {}
            _ if gone == Gone::Lost => budget.charge(left, bytes),
            Some(end) => budget_of(budget, end, |budget, share| budget.charge(share, bytes)),
            None => {}
        }
        self.close_if_full(node, peer);
        Ok(())
    }

    /// A handler is done.
    pub(super) fn finish(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks[at] else { return Ok(()) };
        self.check.finished(task.id, self.time)?;
        self.note(|| format!("{node} is done with {}", task.id));
        self.unlock(node, at);
        self.leave(node, at)?;
        if let Some(call) = task.call {
            self.reply(node, task.peer, call, task.id);
        }
        Ok(())
    }

    /// A handler is stopped, because nobody wants it or its session is lost.
    pub(super) fn stop(
        &mut self,
        node: usize,
        at: usize,
        answer: Option<FailCode>,
    ) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks.get(at).copied().flatten() else {
            return violated("a task is stopped that is no more")?;
        };
        self.check.stopped(task.id);
        self.note(|| format!("{node} stops {}", task.id));
        if !mutated(Own::LockKept) {
            self.unlock(node, at);
        }
        self.leave(node, at)?;
        if let (Some(call), Some(code)) = (task.call, answer) {
            self.owe(node, task.peer, Head::failed(call, 1), Body::Failure(code));
        }
        if let State::Calls { peer, call } = task.state
            && !mutated(Own::CancelStops)
        {
            self.give_up(node, peer, call, Fate::Dropped)?;
        }
        Ok(())
    }

    /// A task is no more: what it held goes back.
    fn leave(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        self.moved = true;
        self.close_lease(node, at)?;
        let tasks = &mut self.nodes[node].tasks;
        let Some(task) = tasks[at].take() else { return Ok(()) };
        if task.counts() {
            self.release(node, task);
        }
        self.give_back(node, task.peer, task.buffer);
        if let Some((peer, buffer, session)) = task.answer
            && self.wire(peer, node).session == session
        {
            self.give_back(node, peer, Some((Use::Answers, buffer)));
        }
        if task.gone != Gone::No {
            return Ok(());
        }
        let Some((end, _)) = self.end(node, task.peer) else { return Ok(()) };
        match task.call {
            Some(call) if end.serving.remove(call) != Some(at) => {
                violated(format!("{call} ends and is not the one that is served"))?
            }
            Some(_) => {}
            None => end.serving.end_oneway(),
        }
        Ok(())
    }

    /// Timers: handlers that are done, callers that wait no longer.
    pub(super) fn timers(&mut self, node: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        self.expire(node)?;
        self.withdraw_unused(node);
        for at in 0..self.nodes[node].tasks.len() {
            let task = self.nodes[node].tasks[at].as_ref();
            if task.is_some_and(|task| matches!(task.state, State::Until(time) if time <= now)) {
                self.finish(node, at)?;
            }
        }
        self.pass_lock(node)?;
        self.come_again(node)?;
        self.collect(node, None)?;
        let mut at = 0;
        while let Some(open) = self.nodes[node].open.get(at) {
            if !open.deadline.is_past(now) && !open.dropped.is_past(now) {
                at += 1;
                continue;
            }
            let open = *open;
            let fate = if open.deadline.is_past(now) { Fate::Deadline } else { Fate::Dropped };
            if fate == Fate::Deadline
                && let Some((end, _)) = self.end(node, open.peer)
                && let Some(&mut Waiter { id, .. }) = end.calls.waiter_mut(open.call)
            {
                self.check.is_late(id, self.time)?;
            }
            if let Some(task) = self.give_up(node, open.peer, open.call, fate)? {
                self.resume(node, task)?;
            }
            at = 0;
        }
        Ok(())
    }

    /// Futures of the program come for their answers, or are dropped; of one session or of all.
    pub(super) fn collect(&mut self, node: usize, of: Option<usize>) -> Result<(), Fault> {
        let mut answered = std::mem::take(&mut self.nodes[node].answered);
        let others = answered.extract_if(.., |(peer, _)| of.is_some_and(|of| of != *peer));
        self.nodes[node].answered = others.collect();
        for (peer, call) in answered {
            let polled = self.random.permille(700);
            let Some((end, _)) = self.end(node, peer) else { continue };
            let was_there = match polled {
                true => end.calls.close(call).is_some(),
                false => matches!(end.calls.abandon(call), Abandon::Answered(_)),
            };
            if !was_there {
                return violated(format!("{call} was answered, and its answer is not there"))?;
            }
        }
        Ok(())
    }

    /// When the next timer of a node goes off, in the world's time.
    pub(super) fn next_timer(&self, node: usize) -> Option<u64> {
        let now = self.clock(node);
        let node = &self.nodes[node];
        let tasks = node.tasks.iter().flatten().filter_map(|task| match task.state {
            State::Until(time) => Some(time),
            _ => None,
        });
        let open = node.open.iter().map(|open| open.deadline.min(open.dropped));
        let pauses = node.pauses.iter();
        let paused = pauses.clone().map(|pause| pause.deadline.min(pause.dropped));
        let ends = node.tasks.iter().flatten().map(|task| task.end);
        let bounds = open.chain(paused).chain(ends);
        let bounds = bounds.filter_map(|first| Some(now + first.remaining(now)?));
        let next = tasks.chain(bounds).chain(pauses.map(|pause| pause.until)).min();
        let next = next.map(|next| next.saturating_sub(node.ahead));
        let ends = node.ends.iter().flatten();
        let grants = ends.filter_map(|end| end.out.grants_kept(self.now()));
        let grants = grants.map(|kept| self.time + kept.div_ceil(1_000));
        next.into_iter().chain(grants).min()
    }

    /// Ends the calls of this node in a session that is lost.
    pub(super) fn end_calls(
        &mut self,
        node: usize,
        peer: usize,
        calls: Vec<(CallNumber, super::Waiter, Fate)>,
    ) -> Result<(), Fault> {
        for (call, waiter, fate) in calls {
            self.nodes[node].open.retain(|open| !(open.peer == peer && open.call == call));
            self.check.ended(waiter.id, fate)?;
            if let Some(task) = waiter.task {
                self.resume(node, task)?;
            }
        }
        Ok(())
    }
}

/// Charges or releases, in a session's share too.
pub(super) fn budget_of(
    budget: &mut Budget,
    end: &mut End,
    with: impl FnOnce(&mut Budget, &mut Share),
) {
    end.receives.with_share(|share| with(budget, share));
}
