//! Handlers: begun where their request is accepted, kept as tasks if they are not done, charged
//! while they do not wait for another node.

use upbeat_core::channel::call::Abandon;
use upbeat_core::fault::Rule;
use upbeat_core::flow::Budget;
use upbeat_core::frame::{CallNumber, FailCode, Head, Kind};
use upbeat_core::lease::Lease;
use upbeat_core::orphan::is_too_late;
use upbeat_core::session::{Awaits, Charge};

use super::lend::when;
use super::{Calls, Fault, Gone, Held, Node, Open, Payload, State, Task, Waiter, World};
use crate::check::{End as Fate, Id, violated};
use crate::plan::{Ask, Behaviour, Carries, Need};
use crate::wire::{Body, Use};

/// Returns when a handler continues by itself.
fn until(state: State) -> u64 {
    match state {
        State::Until(time) => time,
        _ => u64::MAX,
    }
}

impl Calls {
    /// Notes the time of a timer.
    pub(super) fn due_at(&mut self, time: u64) {
        self.due = self.due.min(time);
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
            self.nodes[node].ends[peer]
                .as_ref()
                .map_or(Ok(()), |end| end.core.serving().admits(call))?;
        }
        let left = held.deadline.remaining(self.clock(node));
        if is_too_late(left)
            && let Some(call) = held.call
        {
            self.note(|| format!("{node} comes too late to run {id}"));
            self.check.too_late(id, held.on_way, self.time)?;
            self.give_back(node, peer, buffer);
            self.owe(node, peer, Head::failed(call, 1), Body::Failure(FailCode::Deadline));
            return Ok(());
        }
        if held.deadline.is_past(self.clock(node)) && !self.lies(node, peer) {
            return violated(format!("{id} runs, and its deadline is past"))?;
        }
        let bytes = Budget::price(self.asks[id as usize].bytes as usize);
        if buffer.is_some() && held.bytes != bytes && !self.lies(node, peer) {
            return violated(format!("{id} runs on {} bytes and has {bytes}", held.bytes))?;
        }
        self.note(|| format!("{node} runs {id} for {peer}"));
        self.check.accepted(id, node, session, held.on_way)?;
        let ask = self.asks[id as usize];
        if ask.carries.is_answered_elsewhere() {
            return self.start_operation(node, peer, held, (id, buffer));
        }
        if ask.carries == Carries::Argument && !self.open_argument(node, peer, held, id)? {
            self.give_back(node, peer, buffer);
            return Ok(());
        }
        let lacks = ask.need != Need::Nothing && self.nodes[node].lock.holder.is_some();
        if lacks && let Some(code) = self.refusal(ask.need, held.refusals) {
            return self.send_back(node, peer, held, (id, buffer), code);
        }
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
        if ask.carries == Carries::Argument {
            self.flows.reads_in(ask.flow, at);
        }
        if lacks { Ok(()) } else { self.begin(node, at) }
    }

    /// A handler was not done at its first poll, and becomes a task. Returns its index.
    pub(super) fn keep(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        id: Id,
        buffer: Option<(Use, usize)>,
    ) -> Result<usize, Fault> {
        let ask = self.asks[id as usize];
        let calls = matches!(ask.behaviour, Behaviour::Back { .. } | Behaviour::Streams);
        // A handler that waits for another node returns the buffers that it reads: its caller may need them for
        // that node's requests.
        let in_place = self.plan.programs.in_place && !calls;
        if !in_place {
            self.give_back(node, peer, buffer);
        }
        self.nodes[node].lock.lacked += 1;
        self.nodes[node].lock.lacking += 1;
        let state = State::Lacks(self.nodes[node].lock.lacked);
        let buffer = buffer.filter(|_| in_place);
        let Held { call, bytes, deadline: end, .. } = held;
        let (gone, answer) = (Gone::No, None);
        let Some(session) = self.core(node, peer) else {
            return violated("a session is gone in which a request is accepted")?;
        };
        match call {
            Some(_) => {}
            None => session.serving().begin_oneway(),
        }
        let asking = 0;
        let charge = Charge::new(bytes);
        let task = Task {
            id,
            peer,
            session,
            call,
            bytes,
            charge,
            end,
            gone,
            asking,
            buffer,
            answer,
            state,
        };
        let tasks = &mut self.nodes[node].tasks;
        let at = tasks.iter().position(Option::is_none).unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        tasks[at] = Some(task);
        if held.extendable && call.is_some() {
            let lease = Lease::new(when(end));
            self.nodes[node].leases.insert(at, lease);
        }
        if let Some(end) = end.remaining(0) {
            self.expire_at(node, (at, id), end, false);
        }
        if let (Some(call), Some(end)) = (held.call, self.end(node, peer)) {
            end.core.serving().insert(call, at)?;
        }
        let awaits = if ask.need == Need::Nothing { Awaits::Other } else { Awaits::Handler };
        self.charge(node, at, awaits);
        Ok(at)
    }

    /// Begins the body of a handler that is a task.
    pub(super) fn begin(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        let Some(task) = &mut self.nodes[node].tasks[at] else {
            return violated("a task begins that is no more")?;
        };
        let (id, ask) = (task.id, self.asks[task.id as usize]);
        let lacked = matches!(task.state, State::Lacks(_));
        task.state = match ask.behaviour {
            Behaviour::Wait(time) => State::Until(now + time),
            Behaviour::Never => State::Never,
            Behaviour::Streams => State::Streams,
            _ => State::Until(now),
        };
        let due = until(task.state);
        self.nodes[node].lock.lacking -= usize::from(lacked);
        self.nodes[node].calls.due_at(due);
        self.check.started(id, self.time)?;
        if ask.need != Need::Nothing {
            self.nodes[node].lock.holder = Some(at);
        }
        match ask.behaviour {
            Behaviour::Back { to, depth } => self.call_back(node, at, to, depth)?,
            Behaviour::Streams => self.charge(node, at, Awaits::Reply),
            _ => self.charge(node, at, Awaits::Other),
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
            self.charge(node, at, Awaits::Reply);
        }
        Ok(())
    }

    /// A handler was polled, and waits.
    pub(super) fn charge(&mut self, node: usize, at: usize, awaits: Awaits) {
        let Node { shared_budget, tasks, .. } = &mut self.nodes[node];
        if let Some(task) = &mut tasks[at] {
            task.charge.polled(awaits, &task.session, shared_budget);
            self.close_if_full(node);
        }
    }

    /// Has no session accept requests at once any more if the budget is used up.
    pub(super) fn close_if_full(&mut self, node: usize) {
        let Node { ends, shared_budget, .. } = &self.nodes[node];
        if shared_budget.take_filled() {
            for end in ends.iter().flatten() {
                end.core.look_clear(shared_budget);
            }
        }
    }

    /// A handler continues: its reply has come, or never will.
    pub(super) fn resume(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks[at].as_mut() else {
            return violated("an answer comes to a task that is no more")?;
        };
        task.state = State::Until(0);
        self.nodes[node].calls.due_at(0);
        self.charge(node, at, Awaits::Other);
        Ok(())
    }

    /// A handler is done.
    pub(super) fn finish(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks[at].clone() else { return Ok(()) };
        self.check.finished(task.id, self.time)?;
        self.note(|| format!("{node} is done with {}", task.id));
        self.unlock(node, at);
        self.leave(node, at)?;
        if let Some(call) = task.call {
            self.reply(node, task.peer, call, task.id);
        }
        Ok(())
    }

    /// Stops a handler, because its request was given up or its session is lost.
    pub(super) fn stop(
        &mut self,
        node: usize,
        at: usize,
        answer: Option<FailCode>,
    ) -> Result<(), Fault> {
        let Some(task) = self.nodes[node].tasks.get(at).cloned().flatten() else {
            return violated("a task is stopped that is no more")?;
        };
        self.check.stopped(task.id);
        self.note(|| format!("{node} stops {}", task.id));
        self.unlock(node, at);
        self.leave(node, at)?;
        if let (Some(call), Some(code)) = (task.call, answer) {
            self.owe(node, task.peer, Head::failed(call, 1), Body::Failure(code));
        }
        if let State::Calls { peer, call } = task.state {
            self.give_up(node, peer, call, Fate::Dropped)?;
        }
        Ok(())
    }

    /// A task ends, and returns everything that it held.
    fn leave(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        self.moved = true;
        self.close_lease(node, at)?;
        self.leave_flow(node, at)?;
        let tasks = &mut self.nodes[node].tasks;
        let Some(mut task) = tasks[at].take() else { return Ok(()) };
        self.nodes[node].lock.lacking -= usize::from(matches!(task.state, State::Lacks(_)));
        task.charge.release(&task.session, &self.nodes[node].shared_budget);
        self.give_back(node, task.peer, task.buffer);
        if let Some((peer, buffer, session)) = task.answer
            && self.wire(peer, node).session == session
        {
            self.give_back(node, peer, Some((Use::Answers, buffer)));
        }
        if task.gone != Gone::No {
            return Ok(());
        }
        let Some(end) = self.end(node, task.peer) else { return Ok(()) };
        match task.call {
            Some(call) if end.core.serving().remove(call) != Some(at) => {
                violated(format!("{call} ends and is not the one that is served"))?
            }
            Some(_) => {}
            None => end.core.serving().end_oneway(),
        }
        Ok(())
    }

    /// Runs the timers: handlers that are done, and callers whose time is over.
    pub(super) fn timers(&mut self, node: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        self.expire(node)?;
        self.withdraw_unused(node);
        let is_done = |task: &Option<Task>| {
            task.as_ref().is_some_and(|it| matches!(it.state, State::Until(time) if time <= now))
        };
        if self.nodes[node].calls.due <= now {
            while let Some(at) = self.nodes[node].tasks.iter().position(is_done) {
                self.finish(node, at)?;
            }
        }
        self.pass_lock(node)?;
        self.come_again(node)?;
        self.collect(node, None)?;
        if self.nodes[node].calls.due > now {
            return Ok(());
        }
        let is_due = |open: &&Open| open.deadline.is_past(now) || open.dropped.is_past(now);
        while let Some(open) = self.nodes[node].calls.open.iter().find(is_due).copied() {
            let fate = if open.deadline.is_past(now) { Fate::Deadline } else { Fate::Dropped };
            if fate == Fate::Deadline
                && let Some(Waiter { id, .. }) = self.waiter(node, open.peer, open.call)
            {
                self.check.is_late(id, self.time)?;
            }
            if let Some(task) = self.give_up(node, open.peer, open.call, fate)? {
                self.resume(node, task)?;
            }
        }
        let Node { tasks, calls, .. } = &mut self.nodes[node];
        let tasks = tasks.iter().flatten().map(|task| until(task.state));
        let open = calls.open.iter().map(|open| when(open.deadline.min(open.dropped)));
        calls.due = tasks.chain(open).min().unwrap_or(u64::MAX);
        Ok(())
    }

    /// Polls or drops futures of the program whose replies have come; of one session or of all.
    pub(super) fn collect(&mut self, node: usize, of: Option<usize>) -> Result<(), Fault> {
        let is_it = |answered: &(usize, CallNumber, usize)| of.is_none_or(|of| of == answered.0);
        while let Some(at) = self.nodes[node].calls.answered.iter().position(is_it) {
            let (peer, call, copied) = self.nodes[node].calls.answered.remove(at);
            let polled = self.random.permille(700);
            let Some(end) = self.end(node, peer) else { continue };
            end.core.was_read(copied);
            let was_there = match polled {
                true => end.core.calls().close(call),
                false => match end.core.calls().abandon(call) {
                    Abandon::Answered(waiter) => Some(waiter),
                    _ => None,
                },
            };
            let Some(Waiter { id, .. }) = was_there else {
                return violated(format!("{call} was answered, and its answer is not there"))?;
            };
            self.collected(node, (peer, call), id, polled)?;
        }
        Ok(())
    }

    /// Returns when the next timer of a node goes off, in the world's time.
    pub(super) fn next_timer(&self, node: usize) -> Option<u64> {
        let now = self.clock(node);
        let node = &self.nodes[node];
        let tasks = node.tasks.iter().flatten().filter_map(|task| match task.state {
            State::Until(time) => Some(time),
            _ => None,
        });
        let open = node.calls.open.iter().map(|open| open.deadline.min(open.dropped));
        let pauses = node.calls.pauses.iter();
        let paused = pauses.clone().map(|pause| pause.deadline.min(pause.dropped));
        let bounds = open.chain(paused);
        let bounds = bounds.filter_map(|first| Some(now + first.remaining(now)?));
        let ends = node.expiries.next().into_iter();
        let next = tasks.chain(bounds).chain(ends).chain(pauses.map(|pause| pause.until)).min();
        let next = next.map(|next| next.saturating_sub(node.ahead));
        let ends = node.ends.iter().flatten();
        let grants = ends.filter_map(|end| end.core.outbound().grants_kept(self.now()));
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
            self.nodes[node].calls.open.retain(|open| !(open.peer == peer && open.call == call));
            self.ended(node, waiter.id, fate)?;
            if let Some(task) = waiter.task {
                self.resume(node, task)?;
            }
        }
        Ok(())
    }
}
