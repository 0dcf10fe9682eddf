//! Handlers whose resource is in use, and handlers whose callers are gone. `upbeat_core` decides how
//! often a call is refused, how long its caller waits before it sends the call again, and until when a handler
//! continues; the world does what the runtime does then.

use upbeat_core::backoff::{again, is_refusable};
use upbeat_core::channel::call::Deadline;
use upbeat_core::frame::{FailCode, Head};
use upbeat_core::orphan::expires_at;

use super::send::Attempt;
use super::{Fault, Gone, Held, Node, Open, Pause, State, World};
use crate::check::{End as Fate, Id, violated};
use crate::plan::{Behaviour, Need};
use crate::wire::{Body, Use};

impl World {
    /// Returns the failure for the caller of a handler whose resource is in use; none if the handler waits for it.
    pub(super) fn refusal(&self, need: Need, refusals: Option<u64>) -> Option<FailCode> {
        match need {
            Need::Again if refusals.is_some_and(is_refusable) => Some(FailCode::Refused),
            Need::Never => Some(FailCode::WouldWait),
            _ => None,
        }
    }

    /// Sends a call back to its caller. Nothing of the handler has run.
    pub(super) fn send_back(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        (id, buffer): (Id, Option<(Use, usize)>),
        code: FailCode,
    ) -> Result<(), Fault> {
        let Some(call) = held.call else {
            self.give_back(node, peer, buffer);
            return Ok(());
        };
        self.note(|| format!("{node} does not run {id}: {code}"));
        self.owe(node, peer, Head::failed(call, 1), Body::Failure(code));
        if code == FailCode::WouldWait {
            self.counts.would_wait += 1;
            self.give_back(node, peer, buffer);
            return Ok(());
        }
        self.counts.refused += 1;
        self.check.refused(id)?;
        self.give_back(node, peer, buffer);
        Ok(())
    }

    /// A call of this node was sent back: the node sends it again after a while.
    pub(super) fn sent_back(&mut self, node: usize, id: Id, open: Open) -> Result<(), Fault> {
        let Open { peer, deadline, dropped, refusals, most, .. } = open;
        let session = self.nodes[node].ends[peer].as_ref().map(|end| end.session);
        let Some(session) = session.filter(|_| is_refusable(refusals)) else {
            return Ok(self.check.ended(id, Fate::Failed)?);
        };
        self.check.came_back(id);
        let (refusals, delay_ns) = again(refusals, self.random.next());
        let until = self.clock(node) + delay_ns / 1_000;
        let pause = Pause { id, peer, session, until, refusals, deadline, dropped, most };
        self.nodes[node].calls.pauses.push(pause);
        Ok(())
    }

    /// Sends calls again that were sent back, or gives them up.
    pub(super) fn come_again(&mut self, node: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        let mut at = 0;
        while let Some(pause) = self.nodes[node].calls.pauses.get(at).copied() {
            let Pause { id, peer, session, until, refusals, deadline, dropped, most } = pause;
            let over = match () {
                () if deadline.is_past(now) => Some(Fate::Deadline),
                () if dropped.is_past(now) => Some(Fate::Dropped),
                () => None,
            };
            if over.is_none() && until > now {
                at += 1;
                continue;
            }
            self.nodes[node].calls.pauses.remove(at);
            self.moved = true;
            let lasts = self.end(node, peer).is_some_and(|end| end.session == session);
            if let Some(fate) = over.or((!lasts).then_some(Fate::NotSent)) {
                self.check.ended(id, fate)?;
                continue;
            }
            self.counts.again += 1;
            let (task, above, travels) = (None, None, deadline);
            let attempt = Attempt { id, task, deadline, dropped, travels, most, above, refusals };
            self.attempt(node, attempt)?;
        }
        Ok(())
    }

    /// Frees the resource that a handler has had.
    pub(super) fn unlock(&mut self, node: usize, at: usize) {
        let lock = &mut self.nodes[node].lock.holder;
        *lock = lock.filter(|&holder| holder != at);
    }

    /// Begins the next handler that waits for the resource.
    pub(super) fn pass_lock(&mut self, node: usize) -> Result<(), Fault> {
        while self.nodes[node].lock.holder.is_none() && self.nodes[node].lock.lacking > 0 {
            let tasks = self.nodes[node].tasks.iter().enumerate();
            let lacking = tasks.filter_map(|(at, task)| match task.as_ref()?.state {
                State::Lacks(turn) => Some((turn, at)),
                _ => None,
            });
            let Some((_, at)) = lacking.min() else { return Ok(()) };
            self.counts.lacking += 1;
            self.moved = true;
            self.begin(node, at)?;
            let id = self.nodes[node].tasks[at].as_ref().map(|task| task.id);
            if id.is_some_and(|id| self.asks[id as usize].behaviour == Behaviour::Now) {
                self.finish(node, at)?;
            }
        }
        Ok(())
    }

    /// Drops handlers whose time is over.
    pub(super) fn expire(&mut self, node: usize) -> Result<(), Fault> {
        let now = self.clock(node);
        while let Some((at, id)) = self.nodes[node].expiries.pop_due(now) {
            // Handlers that were done before their time leave their entries behind.
            if self.nodes[node].tasks[at].as_ref().is_some_and(|task| task.id == id) {
                self.counts.expired += 1;
                self.check.expires(id, self.time)?;
                self.stop(node, at, Some(FailCode::Deadline))?;
            }
        }
        Ok(())
    }

    /// Ends a handler at `end`; `postponed` says that the handler had an earlier end.
    pub(super) fn expire_at(&mut self, node: usize, task: (usize, Id), end: u64, postponed: bool) {
        let Node { expiries, tasks, .. } = &mut self.nodes[node];
        let (many, tasks) = (tasks.iter().flatten().count(), &*tasks);
        let lives = |(at, id): (usize, Id)| tasks[at].as_ref().is_some_and(|task| task.id == id);
        match postponed {
            true => expiries.postpone(task, end, many, lives),
            false => expiries.expire(task, end, many, lives),
        }
    }

    /// The caller of a handler is gone. Returns whether the handler continues.
    pub(super) fn goes_on(&mut self, node: usize, at: usize, gone: Gone) -> Result<bool, Fault> {
        let now = self.clock(node);
        let Some(task) = self.nodes[node].tasks[at].clone() else {
            return violated("a task is orphaned that is no more")?;
        };
        let Some(call) = task.call else { return Ok(false) };
        let end = task.end.remaining(now).map(|left| now + left);
        let outlives = self.asks[task.id as usize].outlives;
        let Some(until) = expires_at(outlives, now, end) else { return Ok(false) };
        self.counts.left += 1;
        self.close_lease(node, at)?;
        self.note(|| format!("{node} goes on with {} until {until}: {gone:?}", task.id));
        if let Some(task) = &mut self.nodes[node].tasks[at] {
            task.end = Deadline::after(0, until);
        }
        self.expire_at(node, (at, task.id), until, true);
        if gone == Gone::Lost {
            self.leave_session(node, at);
            return Ok(true);
        }
        self.owe(node, task.peer, Head::failed(call, 1), Body::Failure(FailCode::Cancelled));
        let Node { ends, tasks, .. } = &mut self.nodes[node];
        if let (Some(end), Some(task)) = (&mut ends[task.peer], &mut tasks[at]) {
            end.core.serving().remove(call);
            task.gone = Gone::Told;
            task.call = None;
        }
        Ok(true)
    }

    /// Lets a handler continue without its session.
    pub(super) fn leave_session(&mut self, node: usize, at: usize) {
        if let Some(task) = &mut self.nodes[node].tasks[at] {
            (task.gone, task.buffer, task.call) = (Gone::Lost, None, None);
        }
    }
}
