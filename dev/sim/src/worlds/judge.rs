//! Judges the record of a world by what Upbeat promises. Each judgement names its promise.
//!
//! | promise | page | judged |
//! |---|---|---|
//! | a call ends while its caller lives | failures.md | [`Judge::ends`] |
//! | a call runs at most once, and one that has returned has run | failures.md | [`Judge::runs`] |
//! | what `may_have_run` says is true | failures.md | [`Judge::runs`] |
//! | a call fails for a cause alone, with the error of that cause | failures.md | [`Judge::has_cause`] |
//! | a deadline ends a call, not before its time and not much later | backpressure.md | [`Judge::is_in_time`] |
//! | a handler ends with its deadline, its caller and its call | failures.md | [`Judge::handler`] |
//! | requests of a session run in their order | flow.md | [`Judge::order`] |
//! | a one-way message that was sent runs once, unless its session is lost | hosts.md | [`Judge::order`] |
//! | the items of a stream come once and in order, and all before its end | streams.md | [`Judge::stream`], `Scene::read` |
//! | no stream outlives its reader, and its writer is dropped | streams.md | [`Judge::stream`] |
//! | nothing is left of callers that are gone, and idle nodes rest | failures.md | [`run`](super::run) |
//!
//! Promises without a judgement: the order of the requests of several tasks; the bounds of memory; the bill.

use super::history::{
    Did, Disturbance, Failure, History, Id, Process, Run, RunEnd, Streamed, Told, Unconnected,
};
use super::plan::{Act, End, ONEWAY_OUTLIVES_MS, OUTLIVES_MS, Operation, PATIENCE_MS, Plan};
use std::cell::RefCell;

const MS: u64 = 1_000_000;
/// The time in which a process of the same host learns that another one has died, or acts if it is not stopped.
const SOON: u64 = 20 * MS;
/// The shortest time after which a handshake is given up.
const HANDSHAKE: u64 = 2_000 * MS;

struct Judge<'w> {
    plan: &'w Plan,
    history: &'w History,
    violations: RefCell<Vec<String>>,
}

/// Returns the violations of promises in a record.
pub(crate) fn judge(plan: &Plan, history: &History) -> Vec<String> {
    let judge = Judge { plan, history, violations: RefCell::new(history.wrong.clone()) };
    for (id, (operation, did)) in plan.operations.iter().zip(&history.operations).enumerate() {
        judge.ends(id, operation, did);
        judge.runs(id, operation, did);
        if let (Some(asked), Some((at, told))) = (did.asked, &did.told) {
            judge.has_cause(id, operation, (asked, *at), told);
            judge.is_in_time(id, operation, (asked, *at), told);
        }
        for run in &did.runs {
            judge.handler(id, operation, did, run);
        }
        judge.stream(id, operation, did);
    }
    for client in &plan.clients {
        client.tasks.iter().for_each(|task| judge.order(task));
    }
    for Unconnected { process, server, at, text } in &history.unconnected {
        let from = at.saturating_sub(plan.wait_ms * MS);
        if !judge.is_lossy(*process, *server, (from, *at)) {
            judge.violated(format!("{process} could not connect with {server} at {at}: {text}"));
        }
    }
    judge.violations.into_inner()
}

impl Judge<'_> {
    fn violated(&self, what: String) {
        self.violations.borrow_mut().push(what);
    }

    /// Returns whether something disturbed a process in a time.
    fn overlaps(&self, what: Disturbance, (from, to): (u64, u64)) -> bool {
        self.history
            .spans
            .iter()
            .any(|span| span.what == what && span.from <= to && from <= span.to)
    }

    /// Returns the start of a time, or of the stops of a process that reach into it: it learns nothing meanwhile.
    fn since(&self, process: Process, (from, to): (u64, u64)) -> u64 {
        let stops =
            self.history.spans.iter().filter(|span| span.what == Disturbance::Stopped(process));
        let reach = stops.filter(|span| span.from <= to && from <= span.to + SOON);
        reach.map(|span| span.from).min().unwrap_or(from).min(from)
    }

    /// Returns how long a process was stopped in a time.
    fn stopped(&self, process: Process, (from, to): (u64, u64)) -> u64 {
        let stops =
            self.history.spans.iter().filter(|span| span.what == Disturbance::Stopped(process));
        stops.map(|span| span.to.min(to).saturating_sub(span.from.max(from))).sum()
    }

    /// The longest time from an outage to the end of the sessions that it ends.
    fn lag(&self) -> u64 {
        (PATIENCE_MS + 1_000 + self.plan.resume_ms) * MS + SOON
    }

    /// Returns whether something explains that a session of two processes was lost in a time, or was not opened.
    fn is_lossy(&self, one: Process, other: Process, (from, to): (u64, u64)) -> bool {
        let from = self.since(one, (from, to)).min(self.since(other, (from, to)));
        let is_remote = self.is_remote(one, other);
        let lag = if is_remote { self.lag() } else { SOON };
        let within = (from.saturating_sub(lag), to);
        // A handshake waits for so long for a process that is stopped.
        let is_away = |process| {
            self.overlaps(Disturbance::Down(process), within)
                || self.stopped(process, within) >= HANDSHAKE
        };
        is_away(one) || is_away(other) || is_remote && self.is_parted(one, other, within)
    }

    /// Returns whether the network between two processes was disturbed in a time.
    fn is_parted(&self, one: Process, other: Process, within: (u64, u64)) -> bool {
        let [one, other] = [one, other].map(|process| self.host(process));
        [[one, other], [other, one]]
            .iter()
            .any(|of| self.overlaps(Disturbance::Network(*of), within))
    }

    fn is_remote(&self, one: Process, other: Process) -> bool {
        self.host(one) != self.host(other)
    }

    /// The auditor is on the first host.
    fn host(&self, process: Process) -> usize {
        if process < self.plan.processes() { self.plan.host(process) } else { 0 }
    }

    /// A call ends while its caller lives.
    fn ends(&self, id: Id, operation: &Operation, did: &Did) {
        let Some(asked) = did.asked.filter(|_| did.told.is_none()) else { return };
        if !self.overlaps(Disturbance::Down(operation.from), (asked, u64::MAX)) {
            self.violated(format!("{id} has not ended: {}", self.shown(id)));
        }
    }

    /// A call runs at most once. Its end says whether it has.
    fn runs(&self, id: Id, operation: &Operation, did: &Did) {
        let runs = did.runs.len();
        if runs > 1 {
            self.violated(format!("{id} has run {runs} times: {}", self.shown(id)));
        }
        if runs > 0 && did.asked.is_none() {
            self.violated(format!("{id} runs, and nobody has asked for it: {}", self.shown(id)));
        }
        let Some((at, told)) = &did.told else { return };
        let has_ended =
            |end: RunEnd| did.runs.iter().any(|run| run.end == Some(end) && run.last <= *at);
        let is_right = match told {
            Told::Done if operation.act == Act::Note => true,
            Told::Done => has_ended(RunEnd::Returned),
            Told::Failed { why: Failure::Method, .. } => has_ended(RunEnd::Failed),
            Told::Failed { why: Failure::Panicked, .. } => has_ended(RunEnd::Panicked),
            Told::Failed { may_have_run: false, .. } => runs == 0,
            Told::Broken { .. } => has_ended(RunEnd::Returned),
            Told::Failed { .. } | Told::Dropped => true,
        };
        if !is_right {
            self.violated(format!("the end of {id} is not true: {}", self.shown(id)));
        }
    }

    /// A call fails for a cause alone.
    fn has_cause(&self, id: Id, operation: &Operation, time: (u64, u64), told: &Told) {
        let (Told::Failed { why, .. } | Told::Broken { why, .. }) = told else { return };
        let end = operation.end;
        let is_lossy = self.is_lossy(operation.from, operation.to, time);
        let has_cause = match why {
            Failure::Method => end == End::Fail,
            Failure::Panicked => end == End::Panic,
            Failure::Refused => end == End::Refuse,
            Failure::Deadline => self.deadline(id).is_some(),
            Failure::Unknown | Failure::Unreached => is_lossy,
            Failure::Closing => {
                self.plan.servers[operation.to].leaves.is_some()
                    && self.overlaps(Disturbance::Down(operation.to), time)
            }
            Failure::Overloaded => {
                self.plan.servers[operation.to].budget.is_some() && operation.reply_bytes > 65_536
            }
            Failure::Stream | Failure::Other => false,
        };
        if !has_cause {
            self.violated(format!("{id} fails without a cause: {}", self.shown(id)));
        }
    }

    /// Returns the time at which a call ends, at the latest: a handler's call has no more time than its handler.
    fn deadline(&self, id: Id) -> Option<u64> {
        let operation = &self.plan.operations[id];
        let own = self.history.operations[id].asked.zip(operation.deadline_ms);
        let own = own.map(|(asked, ms)| asked + ms * MS);
        // The deadline of a one-way message is over once it is sent.
        let calls = |parent: &Id| self.plan.operations[*parent].act != Act::Note;
        let inherited = operation.parent.filter(calls).and_then(|parent| self.deadline(parent));
        own.into_iter().chain(inherited).min()
    }

    /// A deadline ends a call, not before its time and not much later.
    fn is_in_time(&self, id: Id, operation: &Operation, (_, at): (u64, u64), told: &Told) {
        let Some(deadline) = self.deadline(id) else { return };
        // The deadline of a call holds until it returns its stream.
        if operation.act == Act::Read && !matches!(told, Told::Failed { .. }) {
            return;
        }
        if matches!(told, Told::Failed { why: Failure::Deadline, .. }) && at < deadline {
            self.violated(format!("{id} ends before its deadline {deadline}: {}", self.shown(id)));
        }
        let stopped = self.stopped(operation.from, (deadline.saturating_sub(SOON), at));
        if at > deadline + SOON + stopped {
            self.violated(format!("{id} ends behind its deadline {deadline}: {}", self.shown(id)));
        }
    }

    /// A handler ends with its deadline, its caller and its call, and not without a cause.
    fn handler(&self, id: Id, operation: &Operation, did: &Did, run: &Run) {
        let Some(asked) = did.asked else { return };
        let until_down = self
            .history
            .spans
            .iter()
            .filter(|span| span.what == Disturbance::Down(run.server) && span.to > run.from);
        let down = until_down.map(|span| span.from).min();
        if run.end.is_none() && down.is_none() {
            self.violated(format!("the handler of {id} has not ended: {}", self.shown(id)));
        }
        let deadline = self.deadline(id).filter(|_| operation.act != Act::Note);
        let is_remote = self.is_remote(operation.from, operation.to);
        let stopped = |since| self.stopped(run.server, (since, run.last));
        // The callee does not know how long the message was on its way.
        let on_way = if is_remote { self.lag() } else { 0 };
        let latest = |deadline| deadline + SOON + on_way + stopped(deadline);
        if deadline.is_some_and(|deadline| run.last > latest(deadline)) {
            self.violated(format!(
                "the handler of {id} goes on behind its deadline: {}",
                self.shown(id)
            ));
        }
        let told_at = did.told.as_ref().map(|(at, _)| *at);
        let gone =
            self.history.spans.iter().filter(|span| {
                span.what == Disturbance::Down(operation.from) && span.from >= asked
            });
        let orphaned = gone.map(|span| span.from).chain(told_at).min();
        let goes_on = match operation.act {
            Act::Call | Act::Read | Act::Write => 0,
            Act::Outlives => OUTLIVES_MS * MS,
            Act::Note => ONEWAY_OUTLIVES_MS * MS,
        };
        // The handlers of a server that shuts down go on for its grace.
        let leaves = self.plan.servers.get(operation.from).and_then(|server| server.leaves);
        let goes_on = goes_on + leaves.map_or(0, |(_, grace)| grace * MS);
        let is_abandoned = !matches!(did.told, Some((_, Told::Done)));
        let lag = if is_remote { self.lag() } else { 0 };
        if let Some(orphaned) = orphaned.filter(|_| is_abandoned)
            && run.last > orphaned + goes_on + SOON + stopped(orphaned) + lag
        {
            self.violated(format!(
                "the handler of {id} goes on without its caller: {}",
                self.shown(id)
            ));
        }
        if run.end == Some(RunEnd::Dropped) {
            // A handler is dropped at some time behind its last step.
            let is_late = deadline.is_some();
            let is_left = orphaned.is_some() && is_abandoned;
            let is_lossy = self.is_lossy(operation.from, operation.to, (run.from, u64::MAX - 1));
            if !is_late && !is_left && !is_lossy {
                self.violated(format!(
                    "the handler of {id} is dropped without a cause: {}",
                    self.shown(id)
                ));
            }
        }
    }

    /// The items of a stream come once and in order, all of them before its end. Its writer does not outlive its reader.
    fn stream(&self, id: Id, operation: &Operation, did: &Did) {
        let Streamed { written, read, is_made, writer, is_over, broken } = &did.stream;
        if *read > *written || *is_over && (*read < operation.items.written || writer.is_none()) {
            self.violated(format!(
                "the items of {id} are not those that were written: {}",
                self.shown(id)
            ));
        }
        let of = if operation.act == Act::Read { operation.to } else { operation.from };
        if *is_made
            && writer.is_none()
            && !self.overlaps(Disturbance::Down(of), (did.asked.unwrap_or(0), u64::MAX))
        {
            self.violated(format!("the writer of {id} goes on: {}", self.shown(id)));
        }
        let is_served = matches!(did.told, Some((_, Told::Done))) && !did.runs.is_empty();
        let is_wanted = operation.items.wanted.min(operation.items.written);
        if operation.act == Act::Write && is_served && broken.is_none() && *read != is_wanted {
            self.violated(format!("the reader of {id} misses items: {}", self.shown(id)));
        }
        if let (Some((at, why, _)), Some(asked)) = (broken, did.asked) {
            let is_left =
                did.told.as_ref().is_some_and(|(told, how)| told <= at && *how != Told::Done);
            let is_late = *why == Failure::Deadline && self.deadline(id).is_some();
            if !is_left && !is_late && !self.is_lossy(operation.from, operation.to, (asked, *at)) {
                self.violated(format!(
                    "the stream of {id} breaks without a cause: {}",
                    self.shown(id)
                ));
            }
        }
    }

    /// Requests of a session run in their order, and messages that were sent do run.
    fn order(&self, task: &[Id]) {
        for (at, &first) in task.iter().enumerate() {
            let before = &self.history.operations[first];
            let Some((sent, Told::Done)) = before.told else { continue };
            let Operation { act, from, to, end, .. } = self.plan.operations[first];
            if act != Act::Note {
                continue;
            }
            let runs = before.runs.first().map(|run| run.from);
            let is_due = end != End::Refuse && self.deadline(first).is_none();
            if runs.is_none() && is_due && !self.is_lossy(from, to, (sent, u64::MAX - 1)) {
                self.violated(format!("{first} was sent and has not run: {}", self.shown(first)));
            }
            for &next in &task[at + 1..] {
                let run = self.history.operations[next].runs.first().filter(|run| run.server == to);
                let Some(run) = run else { continue };
                if self.is_lossy(from, to, (sent, run.from)) {
                    continue;
                }
                let is_in_order = runs.map_or(!is_due, |runs| runs < run.from);
                if !is_in_order {
                    self.violated(format!(
                        "{next} runs before {first}, which was sent before: {} and {}",
                        self.shown(next),
                        self.shown(first)
                    ));
                }
            }
        }
    }

    fn shown(&self, id: Id) -> String {
        format!("{:?}, {:?}", self.plan.operations[id], self.history.operations[id])
    }
}

#[cfg(test)]
mod tests;
