//! Extensions of deadlines that callees ask for. `upbeat_core::lease` decides who is asked, how far a deadline is
//! extended, and who is told; the world finds leases and loans by their calls, and reports.

use upbeat_core::channel::call::Deadline;
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_core::lease::{self, CallingHandler, LeaseAnswer, Next};
use upbeat_core::term::{Step, Term};

use super::{Fault, Open, State, Waiter, World};
use crate::check::Id;
use crate::plan::Ask;
use crate::wire::{Body, Frame};

/// A call that was made and whose callee may ask for more time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loan {
    loan: lease::Loan,
    /// The handler that made the call, if that handler has a deadline.
    above: Option<(usize, Id)>,
}

impl Loan {
    /// Returns the deadlines of a call.
    pub(super) fn new(end: Deadline, most: u64, above: Option<(usize, Id)>) -> Loan {
        Loan { loan: lease::Loan::new(Term::new(when(end), most)), above }
    }
}

/// The asker of a question for more time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Handler { at: usize, id: Id },
    Loan { peer: usize, call: CallNumber },
}

/// Returns the time at which a deadline passes.
pub(super) fn when(end: Deadline) -> u64 {
    end.remaining(0).unwrap_or(u64::MAX)
}

impl World {
    /// Returns the latest time to which a call may be extended, if every deadline that bounds it may be
    /// extended. The caller gives the call up at `deadline`.
    pub(super) fn most(&self, node: usize, ask: &Ask, task: Option<usize>) -> Option<u64> {
        let above = task.and_then(|at| Some((at, self.nodes[node].tasks[at].as_ref()?)));
        let above = above.filter(|(_, task)| when(task.end) != u64::MAX);
        if let Some((at, _)) = above
            && !self.nodes[node].leases.contains_key(&at)
        {
            return None;
        }
        match (ask.deadline, ask.total) {
            (None, _) => above.map(|_| u64::MAX),
            (Some(_), total) => total.map(|total| self.clock(node) + total),
        }
    }

    /// Returns the call of that number, if it is open and its callee may ask.
    fn loan(&mut self, node: usize, peer: usize, call: CallNumber) -> Option<&mut Open> {
        let is_it = |open: &&mut Open| open.peer == peer && open.call == call;
        self.nodes[node].calls.open.iter_mut().find(is_it).filter(|open| open.loan.is_some())
    }

    /// Has handlers ask for more time at random.
    pub(super) fn ask_for_more(&mut self, node: usize) -> Result<(), Fault> {
        if self.healing {
            return Ok(());
        }
        let askers: Vec<usize> = self.nodes[node].leases.keys().copied().collect();
        for at in askers {
            let begun = |state| !matches!(state, State::Lacks(_));
            if self.random.permille(100)
                && self.nodes[node].tasks[at].as_ref().is_some_and(|task| begun(task.state))
            {
                let wanted = self.clock(node) + self.random.within(1, 800);
                let id = self.nodes[node].tasks[at].as_ref().map_or(0, |task| task.id);
                self.enter(node, at, wanted, Whose::Handler { at, id })?;
            }
        }
        Ok(())
    }

    /// Enters a question in the name of a handler.
    fn enter(&mut self, node: usize, at: usize, wanted: u64, whose: Whose) -> Result<(), Fault> {
        let Some(lease) = self.nodes[node].leases.get_mut(&at) else { return Ok(()) };
        if matches!(whose, Whose::Handler { .. }) && wanted <= lease.end() {
            return Ok(());
        }
        lease.ask(wanted, whose);
        if let Whose::Handler { at, .. } = whose
            && let Some(task) = &mut self.nodes[node].tasks[at]
        {
            task.asking += 1;
        }
        self.go_on_asking(node, at)
    }

    /// Makes the next steps of the questions in the name of a handler.
    fn go_on_asking(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        while let Some(next) =
            self.nodes[node].leases.get_mut(&at).and_then(lease::Lease::poll_next)
        {
            match next {
                Next::Tell(told) => self.say(node, told)?,
                Next::Send(wanted) => self.put_question(node, at, wanted),
            }
        }
        Ok(())
    }

    fn put_question(&mut self, node: usize, at: usize, wanted: u64) {
        let Some(task) = &self.nodes[node].tasks[at] else { return };
        let (peer, id) = (task.peer, task.id);
        let Some(call) = task.call else { return };
        self.counts.questions += 1;
        self.check.asks(id);
        self.note(|| format!("{node} asks for time until {wanted} for {}", id));
        let left = wanted.saturating_sub(self.clock(node));
        self.tell_time(node, peer, Head::extend(call), left, Body::Extend(id));
    }

    fn tell_time(&mut self, node: usize, peer: usize, head: Head, left: u64, body: Body) {
        let extensions = [left, 0, 0, 0, 0];
        let frame = Frame { words: head.words(), extensions, body, written: 0 };
        self.owe_frame(node, peer, frame);
    }

    /// A question for more time comes, or the answer to one.
    pub(super) fn time_came(
        &mut self,
        node: usize,
        peer: usize,
        head: &Head,
        frame: &Frame,
    ) -> Result<(), Fault> {
        let (of, left) = ((peer, head.call), frame.extensions[0]);
        match (head.kind, frame.body) {
            (Kind::Extend, Body::Extend(id)) => self.extension_asked(node, of, id, left),
            (Kind::Extended, Body::Extended(id, said)) => {
                self.extension_answered(node, of, (id, said), left)
            }
            (kind, _) => self.wrong(node, peer, kind, "a word of time about nothing"),
        }
    }

    /// A callee asks for an extension.
    fn extension_asked(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        left: u64,
    ) -> Result<(), Fault> {
        let wanted = self.clock(node).saturating_add(left);
        let open = self.loan(node, peer, call).and_then(|open| open.loan);
        let above = open.and_then(|loan| loan.above);
        let ends = match above.map(|above| self.end_above(node, above)) {
            None => CallingHandler::Nobody,
            Some(None) => CallingHandler::Gone,
            Some(Some(end)) => CallingHandler::Ends(end),
        };
        let loan = self.loan(node, peer, call).and_then(|open| open.loan.as_mut());
        match (lease::Loan::asked(loan.map(|loan| &mut loan.loan), wanted, ends), above) {
            (Step::Above(wanted), Some((at, _))) => {
                self.counts.questions_above += 1;
                self.enter(node, at, wanted, Whose::Loan { peer, call })
            }
            (step, _) => self.settled_with(node, (peer, call), id, step),
        }
    }

    /// Returns when the handler ends that has made a call, if that handler may still ask for more.
    fn end_above(&self, node: usize, (at, id): (usize, Id)) -> Option<u64> {
        self.nodes[node].tasks[at].as_ref().filter(|task| task.id == id)?;
        Some(self.nodes[node].leases.get(&at)?.end())
    }

    /// The deadline of a call is settled: its caller waits as long, and its callee is told.
    fn settled_with(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        step: Step,
    ) -> Result<(), Fault> {
        if let Some(open) = self.loan(node, peer, call)
            && let Some(loan) = open.loan
        {
            open.deadline = Deadline::after(0, loan.loan.end().max(when(open.deadline)));
        }
        self.say_extended(node, (peer, call), id, step)
    }

    fn say_extended(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        step: Step,
    ) -> Result<(), Fault> {
        let left = step.left(self.clock(node)).unwrap_or(0);
        match left {
            0 => self.counts.not_extended += 1,
            _ => self.counts.extended += 1,
        }
        self.note(|| format!("{node} lets {id} have {left}"));
        self.check.answers(id)?;
        if left > 0 {
            self.check.lent(id, self.time + left)?;
        }
        let body = Body::Extended(id, self.time);
        self.tell_time(node, peer, Head::extended(call), left, body);
        Ok(())
    }

    /// A caller has answered a question. The asker may be gone.
    fn extension_answered(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        (id, said): (Id, u64),
        left: u64,
    ) -> Result<(), Fault> {
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        let Some(&mut at) = end.core.serving().task_mut(call) else { return Ok(()) };
        let end = self.clock(node).saturating_add(left);
        let Some(lease) = self.nodes[node].leases.get_mut(&at) else { return Ok(()) };
        let Some(told) = lease.answered((left != 0).then_some(end)) else { return Ok(()) };
        let end = lease.end();
        if left != 0
            && let Some(task) = &mut self.nodes[node].tasks[at]
        {
            task.end = Deadline::after(0, end);
            let task = task.id;
            self.check.extended(id, self.time - said);
            self.expire_at(node, (at, task), end, true);
        }
        self.say(node, told)?;
        self.go_on_asking(node, at)
    }

    /// Tells the asker of a question that was asked in the name of a handler.
    fn say(&mut self, node: usize, told: LeaseAnswer<Whose>) -> Result<(), Fault> {
        let LeaseAnswer { whose, wanted, end, .. } = told;
        let (peer, call) = match whose {
            Whose::Loan { peer, call } => (peer, call),
            Whose::Handler { at, id } => {
                let task = self.nodes[node].tasks[at].as_mut().filter(|task| task.id == id);
                task.into_iter().for_each(|task| task.asking -= 1);
                return Ok(());
            }
        };
        let Some(loan) = self.loan(node, peer, call).and_then(|open| open.loan.as_mut()) else {
            return Ok(());
        };
        let step = loan.loan.told(wanted, end);
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        let Some(Waiter { id, .. }) = end.core.calls().waiter(call) else { return Ok(()) };
        self.settled_with(node, (peer, call), id, step)
    }

    /// A handler is gone, or no caller answers it any more: all its questions are refused.
    pub(super) fn close_lease(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(mut lease) = self.nodes[node].leases.remove(&at) else { return Ok(()) };
        lease.close().try_for_each(|told| self.say(node, told))
    }
}
