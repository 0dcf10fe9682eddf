//! Deadlines that callees ask their callers to have extended. How far that goes is decided in
//! `upbeat_core::term`; whom a node asks, what it answers, and what that moves is the runtime's, which
//! the world does in its stead.

use upbeat_core::call::Deadline;
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_core::term::{Step, Term};

use super::{Fault, Node, Open, State, Waiter, World};
use crate::check::Id;
use crate::mutant::{Own, mutated};
use crate::plan::Ask;
use crate::wire::{Body, Frame};

/// A call that was made and whose callee may ask for more time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loan {
    term: Term,
    /// The handler that made it, if that one's time is bounded.
    above: Option<(usize, Id)>,
    /// Whether it was asked above, and there is no answer yet.
    asks: bool,
}

impl Loan {
    /// Until when it may last.
    pub(super) fn new(end: Deadline, most: u64, above: Option<(usize, Id)>) -> Loan {
        Loan { term: Term::new(when(end), most), above, asks: false }
    }
}

/// What a handler is asked for more time by, or for: until when, and whose question it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    wanted: u64,
    whose: Whose,
}

#[derive(Clone, Copy, Debug)]
enum Whose {
    Handler,
    Loan { peer: usize, call: CallNumber },
}

/// The time at which something is over.
fn when(end: Deadline) -> u64 {
    end.remaining(0).unwrap_or(u64::MAX)
}

impl World {
    /// Until when a call may last, if its callee may ask for that: all who bound it let it be
    /// extended. Its caller gives it up at `deadline`.
    pub(super) fn most(&self, node: usize, ask: &Ask, task: Option<usize>) -> Option<u64> {
        let above = task.and_then(|at| Some((at, self.nodes[node].tasks[at]?)));
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

    /// The call of that number, if it is open and its callee may ask.
    fn loan(&mut self, node: usize, peer: usize, call: CallNumber) -> Option<&mut Open> {
        let is_it = |open: &&mut Open| open.peer == peer && open.call == call;
        self.nodes[node].open.iter_mut().find(is_it).filter(|open| open.loan.is_some())
    }

    /// Handlers ask for more time, as it comes to their minds.
    pub(super) fn ask_for_more(&mut self, node: usize) {
        if self.healing {
            return;
        }
        let askers: Vec<usize> = self.nodes[node].leases.keys().copied().collect();
        for at in askers {
            let begun = |state| !matches!(state, State::Lacks(_));
            if self.random.permille(100)
                && self.nodes[node].tasks[at].is_some_and(|task| begun(task.state))
            {
                let wanted = self.clock(node) + self.random.within(1, 800);
                self.enter(node, at, Question { wanted, whose: Whose::Handler });
            }
        }
    }

    /// A question is asked in the name of a handler: one of them at a time.
    fn enter(&mut self, node: usize, at: usize, question: Question) {
        let Node { tasks, leases, .. } = &mut self.nodes[node];
        if tasks[at].is_none_or(|task| question.wanted <= when(task.end)) {
            return;
        }
        let Some(questions) = leases.get_mut(&at) else { return };
        questions.push_back(question);
        if questions.len() == 1 {
            self.put_question(node, at, question.wanted);
        }
    }

    fn put_question(&mut self, node: usize, at: usize, wanted: u64) {
        let Some(task) = self.nodes[node].tasks[at] else { return };
        let Some(call) = task.call else { return };
        self.counts.questions += 1;
        self.check.asks(task.id);
        self.note(|| format!("{node} asks for time until {wanted} for {}", task.id));
        let left = wanted.saturating_sub(self.clock(node));
        self.tell_time(node, task.peer, Head::extend(call), left, Body::Extend(task.id));
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

    /// A callee asks for so much time.
    fn extension_asked(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        left: u64,
    ) -> Result<(), Fault> {
        let wanted = self.clock(node).saturating_add(left);
        let Some(open) = self.loan(node, peer, call).map(|open| *open) else {
            let step = match mutated(Own::EndedExtended) {
                true => Step::Granted(wanted),
                false => Step::Refused,
            };
            return self.say_extended(node, (peer, call), id, step);
        };
        let Some(mut loan) = open.loan else { return Ok(()) };
        // One question of a call at a time: who asks twice says things twice.
        if loan.asks {
            return self.say_extended(node, (peer, call), id, Step::Refused);
        }
        let Some(above) = loan.above else {
            let step = match mutated(Own::LentBeyond) {
                true => Step::Granted(wanted),
                false => loan.term.extend(wanted, None),
            };
            return self.settled_with(node, (peer, call), id, loan, step);
        };
        let Some(end) = self.end_above(node, above) else {
            return self.say_extended(node, (peer, call), id, Step::Refused);
        };
        match loan.term.extend(wanted, Some(end)) {
            Step::Above(wanted) => {
                self.counts.questions_above += 1;
                loan.asks = true;
                if let Some(open) = self.loan(node, peer, call) {
                    open.loan = Some(loan);
                }
                let whose = Whose::Loan { peer, call };
                if !mutated(Own::QuestionForgotten) {
                    self.enter(node, above.0, Question { wanted, whose });
                }
                Ok(())
            }
            step => self.settled_with(node, (peer, call), id, loan, step),
        }
    }

    /// When the handler ends that has made a call, if it still may ask for more.
    fn end_above(&self, node: usize, (at, id): (usize, Id)) -> Option<u64> {
        let task = self.nodes[node].tasks[at].filter(|task| task.id == id)?;
        self.nodes[node].leases.get(&at)?;
        Some(when(task.end))
    }

    /// It is known how long a call lasts: its caller waits as long, and its callee is told.
    fn settled_with(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        loan: Loan,
        step: Step,
    ) -> Result<(), Fault> {
        if let Some(open) = self.loan(node, peer, call) {
            open.loan = Some(Loan { asks: false, ..loan });
            if !mutated(Own::CallerLeaves) {
                open.deadline = Deadline::after(0, loan.term.end().max(when(open.deadline)));
            }
        }
        if mutated(Own::ToldTwice) {
            self.say_extended(node, (peer, call), id, step)?;
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

    /// A caller has answered, and when. Who has asked may be gone.
    fn extension_answered(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        (id, said): (Id, u64),
        left: u64,
    ) -> Result<(), Fault> {
        let Some((end, _)) = self.end(node, peer) else { return Ok(()) };
        let Some(&mut at) = end.serving.task_mut(call) else { return Ok(()) };
        let Some(question) = self.nodes[node].leases.get_mut(&at).and_then(|all| all.pop_front())
        else {
            return Ok(());
        };
        let end = self.clock(node).saturating_add(left);
        if left != 0
            && let Some(task) = &mut self.nodes[node].tasks[at]
        {
            if !mutated(Own::ExtensionUnheard) {
                task.end = Deadline::after(0, end.max(when(task.end)));
            }
            self.check.extended(id, self.time - said);
        }
        self.say(node, at, question, true)?;
        self.go_on_asking(node, at)
    }

    /// What the next has asked for is there now, or is asked for.
    fn go_on_asking(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        while let Some(&next) = self.nodes[node].leases.get(&at).and_then(|all| all.front()) {
            let Some(task) = self.nodes[node].tasks[at] else { break };
            if next.wanted <= when(task.end) {
                if let Some(questions) = self.nodes[node].leases.get_mut(&at) {
                    questions.pop_front();
                }
                self.say(node, at, next, true)?;
                continue;
            }
            self.put_question(node, at, next.wanted);
            break;
        }
        Ok(())
    }

    /// Who has asked in the name of a handler is told.
    fn say(
        &mut self,
        node: usize,
        at: usize,
        question: Question,
        settles: bool,
    ) -> Result<(), Fault> {
        let Question { wanted, whose: Whose::Loan { peer, call } } = question else {
            return Ok(());
        };
        let end = self.nodes[node].tasks[at].map_or(0, |task| when(task.end));
        let Some(open) = self.loan(node, peer, call) else { return Ok(()) };
        let Some(mut loan) = open.loan else { return Ok(()) };
        let step = if settles { loan.term.settle(wanted, end) } else { Step::Refused };
        let Some((end, _)) = self.end(node, peer) else { return Ok(()) };
        let Some(&mut Waiter { id, .. }) = end.calls.waiter_mut(call) else { return Ok(()) };
        self.settled_with(node, (peer, call), id, loan, step)
    }

    /// A handler is gone, or nobody answers it any more: all who ask in its name are refused, for it may
    /// end sooner now than its call would have.
    pub(super) fn close_lease(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let questions = self.nodes[node].leases.remove(&at).unwrap_or_default();
        for question in questions {
            self.say(node, at, question, mutated(Own::OrphanLends))?;
        }
        Ok(())
    }
}
