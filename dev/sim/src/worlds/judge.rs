//! Judges the record of a world by what Upbeat promises. Each judgement names its promise.
//!
//! | promise | page | judged |
//! |---|---|---|
//! | a call ends while its caller lives, soon after its handler or its server | failures.md | [`Judge::ends`] |
//! | a call runs at most once, at its server alone, and one that has returned has run | failures.md | [`Judge::runs`] |
//! | what `may_have_run` says is true | failures.md | [`Judge::runs`] |
//! | a call fails for a cause alone, with the error of that cause | failures.md | [`Judge::has_cause`] |
//! | a deadline ends a call, not before its time and not much later | backpressure.md | [`Judge::is_in_time`] |
//! | a handler ends with its deadline, its caller and its session, soon after it and never before | failures.md | [`Judge::handler`] |
//! | requests run behind the one-way messages that their task has sent before | flow.md | [`Judge::order`] |
//! | a one-way message that was sent runs once, unless its session is lost | hosts.md | [`Judge::order`] |
//! | the items of a stream come once and in order, and all before its end | streams.md | [`Judge::stream`], `Scene::read` |
//! | a writer is ahead of its reader by three parts at most | streams.md | [`Judge::stream`] |
//! | no stream outlives its reader, and its writer is dropped in time | streams.md | [`Judge::stream`] |
//! | a session outlives outages that are shorter than `peer_timeout` and `resume_within` | hosts.md | [`Judge::lost`] |
//! | a node is told that a peer has died | failures.md | [`Judge::tells_of_deaths`] |
//! | a client reaches a server that serves | hosts.md | [`judge`] |
//! | a read finds a whole value, none that is older than one that was set before | remote-memory.md | `Record::sees`, `exports` |
//! | a watch tells that its value has changed, and a read fails for a cause alone | remote-memory.md | [`Judge::seen`] |
//! | a read ends soon | remote-memory.md | [`Judge::is_seen_in_time`] |
//! | no panic but those of the plan is contained | failures.md | [`run`](super::run) |
//! | nothing is left of callers that are gone, and idle nodes rest | failures.md | [`run`](super::run) |
//!
//! Promises without a judgement: the order of the requests of several tasks, and behind calls that were dropped; one-way
//! messages with deadlines; the bounds of memory, and the budgets of
//! flow.md; the bill; streams that are passed on or stand in other types, and the places for streams (streams.md);
//! identities, name look-up and the limits on strangers (hosts.md); exports that are raw or for named nodes, pointers,
//! expressions, the process that `owner()` names, and the memory that exports take (remote-memory.md).

mod causes;
mod sessions;
mod sights;

use super::history::{
    Did, Disturbance, Failure, History, Id, Process, Run, RunEnd, Span, Streamed, Told, Unconnected,
};
use super::plan::{Act, End, Items, ONEWAY_OUTLIVES_MS, OUTLIVES_MS, Operation, Plan, Step};
use causes::{Causes, MS, SOON};
use std::cell::RefCell;

/// The most items in one of the three parts of a stream that are not read, and their bytes.
const PART_ITEMS: u64 = 256;
const PART_BYTES: u64 = 32 << 10;
/// The time after which an attempt to connect is given up.
const HANDSHAKE_MS: u64 = 5_000;
/// The time for which a process that leaves waits until its messages have arrived.
const LEAVING_MS: u64 = 5_000;
/// The longest time for which a message waits for the room that others take at its server.
const QUEUED: u64 = 30_000 * MS;

struct Judge<'w> {
    plan: &'w Plan,
    history: &'w History,
    causes: Causes<'w>,
    violations: RefCell<Vec<String>>,
}

/// Returns the violations of promises in a record.
pub(crate) fn judge(plan: &Plan, history: &History) -> Vec<String> {
    let causes = Causes { plan, history };
    let judge = Judge { plan, history, causes, violations: RefCell::new(history.wrong.clone()) };
    for (id, (operation, did)) in plan.operations.iter().zip(&history.operations).enumerate() {
        judge.ends(id, operation, did);
        judge.runs(id, operation, did);
        if let (Some(asked), Some((at, told))) = (did.asked, &did.told) {
            judge.has_cause(id, operation, (asked, *at), told);
            judge.is_in_time(id, operation, *at, told);
        }
        for run in &did.runs {
            judge.handler(id, operation, did, run);
        }
        judge.stream(id, operation, did);
        let calls = operation.body.iter().filter_map(|step| match step {
            Step::Call(id) => Some(*id),
            _ => None,
        });
        judge.order(&calls.collect::<Vec<_>>());
    }
    for client in &plan.clients {
        client.tasks.iter().for_each(|task| judge.order(task));
    }
    history.losses.iter().for_each(|loss| judge.lost(loss));
    judge.tells_of_deaths();
    for seen in &history.seen {
        judge.seen(seen);
        judge.is_seen_in_time(seen);
    }
    for Unconnected { process, server, at, text } in &history.unconnected {
        let from = at.saturating_sub(plan.wait_ms * MS);
        if !causes.is_unreachable(*process, *server, (from, *at)) {
            judge.violated(format!("{process} could not connect with {server} at {at}: {text}"));
        }
    }
    judge.violations.into_inner()
}

impl Judge<'_> {
    fn violated(&self, what: String) {
        self.violations.borrow_mut().push(what);
    }

    /// A call ends while its caller lives, soon after its handler has returned or its server has died.
    fn ends(&self, id: Id, operation: &Operation, did: &Did) {
        let Some(asked) = did.asked else { return };
        let Operation { from, to, act, .. } = *operation;
        let Some((at, told)) = &did.told else {
            if self.causes.down(from, asked).is_none() {
                self.violated(format!("{id} has not ended: {}", self.shown(id)));
            }
            return;
        };
        let latest = match (did.runs.first(), told) {
            (
                Some(run),
                Told::Done | Told::Failed { why: Failure::Method | Failure::Panicked, .. },
            ) if matches!(act, Act::Call | Act::Outlives) => self.causes.comes(to, from, run.last),
            (Some(run), Told::Failed { .. }) if self.dies(to, run) => {
                let down = self.causes.down(to, run.from).unwrap_or(run.last);
                self.causes.comes(to, from, down + self.causes.lag(from, to))
            }
            // A call that was not sent may wait for a server that comes.
            (_, Told::Failed { why: Failure::Unknown | Failure::Unreached, .. }) => {
                let waits = (self.plan.wait_ms + 2 * HANDSHAKE_MS) * MS;
                let known = self.causes.last(from, to, (asked, *at)) + self.causes.lag(from, to);
                self.causes.comes(to, from, known + if did.runs.is_empty() { waits } else { 0 })
            }
            // A layer refuses a call as soon as it comes, and a server that closes does.
            (None, Told::Failed { why: Failure::Refused | Failure::Closing, .. }) => {
                let comes = self.causes.comes(from, to, asked + self.queues(to));
                self.causes.comes(
                    to,
                    from,
                    comes
                        + if self.causes.is_lossy(from, to, (asked, *at)) {
                            self.causes.lag(from, to) + self.plan.wait_ms * MS
                        } else {
                            0
                        },
                )
            }
            _ => return,
        };
        if *at > latest {
            self.violated(format!("{id} ends too late, behind {latest}: {}", self.shown(id)));
        }
    }

    /// Returns whether a server goes down while it runs an operation.
    fn dies(&self, server: Process, run: &Run) -> bool {
        let down = self.causes.down(server, run.from);
        run.end.is_none() && down.is_some_and(|down| down <= run.last)
    }

    /// The longest time for which a message waits at a server until it runs.
    fn queues(&self, server: Process) -> u64 {
        let server = &self.plan.servers[server];
        let is_limited = server.concurrent.is_some() || server.budget.is_some();
        if is_limited { QUEUED } else { 0 }
    }

    /// A call runs at most once, at its server. Its end says whether it has.
    fn runs(&self, id: Id, operation: &Operation, did: &Did) {
        let runs = did.runs.len();
        if runs > 1 {
            self.violated(format!("{id} has run {runs} times: {}", self.shown(id)));
        }
        if runs > 0 && did.asked.is_none() {
            self.violated(format!("{id} runs, and nobody has asked for it: {}", self.shown(id)));
        }
        let is_allowed = |run: &Run| run.server == operation.to && operation.end != End::Refuse;
        if !did.runs.iter().all(is_allowed) {
            self.violated(format!("{id} runs where it may not: {}", self.shown(id)));
        }
        let Some((at, told)) = &did.told else { return };
        let has_ended =
            |end: RunEnd| did.runs.iter().any(|run| run.end == Some(end) && run.last <= *at);
        let is_right = match told {
            Told::Done if operation.act == Act::Note => true,
            Told::Done => has_ended(RunEnd::Returned),
            Told::Failed { why: Failure::Method, .. } => has_ended(RunEnd::Failed),
            Told::Failed { why: Failure::Panicked, .. } => has_ended(RunEnd::Panicked),
            Told::Failed { why, may_have_run: false, .. } => runs == 0 && *why != Failure::Unknown,
            Told::Failed { why: Failure::Unreached | Failure::Refused, .. } => false,
            Told::Broken { .. } => has_ended(RunEnd::Returned),
            Told::Failed { .. } | Told::Dropped => true,
        };
        if !is_right {
            self.violated(format!("the end of {id} is not true: {}", self.shown(id)));
        }
    }

    /// A call fails for a cause alone.
    fn has_cause(&self, id: Id, operation: &Operation, within: (u64, u64), told: &Told) {
        let (Told::Failed { why, .. } | Told::Broken { why, .. }) = told else { return };
        let Operation { from, to, end, .. } = *operation;
        let has_cause = match why {
            Failure::Method => end == End::Fail,
            Failure::Panicked => end == End::Panic,
            Failure::Refused => end == End::Refuse,
            Failure::Deadline => self.deadline(id).is_some(),
            Failure::Unknown => self.causes.is_lossy(from, to, within),
            Failure::Unreached => {
                self.causes.is_lossy(from, to, within)
                    || self.causes.is_unreachable(from, to, within)
            }
            Failure::Closing => self.causes.overlaps(Disturbance::Closes(to), within),
            Failure::Overloaded => {
                let is_tiny = self.plan.servers[to].budget.is_some();
                is_tiny && operation.reply_bytes > 65_536
                    || self.causes.is_starved(from, to, within)
            }
            Failure::Other => self.causes.is_starved(from, to, within),
            Failure::Stream | Failure::Ended | Failure::Absent | Failure::Replaced => false,
        };
        if !has_cause {
            self.violated(format!("{id} fails without a cause: {}", self.shown(id)));
        }
    }

    /// Returns the first time at which its deadline ends a call.
    fn deadline(&self, id: Id) -> Option<u64> {
        self.deadlines(id).map(|(first, _)| first)
    }

    /// Returns the first and the last time at which its deadline ends a call: a handler's call has no more time than its
    /// handler, which does not know how long its message was on its way.
    fn deadlines(&self, id: Id) -> Option<(u64, u64)> {
        let operation = &self.plan.operations[id];
        let own = self.history.operations[id].asked.zip(operation.deadline_ms);
        let own = own.map(|(asked, ms)| (asked + ms * MS, asked + ms * MS));
        // The deadline of a one-way message is over once it is sent.
        let calls = |parent: &Id| self.plan.operations[*parent].act != Act::Note;
        let inherited = operation.parent.filter(calls).and_then(|parent| {
            let (first, last) = self.deadlines(parent)?;
            let Did { asked, runs, .. } = &self.history.operations[parent];
            let on_way = runs.iter().map(|run| run.from.saturating_sub(asked.unwrap_or(run.from)));
            Some((first, last + on_way.max().unwrap_or(0)))
        });
        match (own, inherited) {
            (Some(own), Some(inherited)) => Some((own.0.min(inherited.0), own.1.min(inherited.1))),
            (own, inherited) => own.or(inherited),
        }
    }

    /// A deadline ends a call, not before its time and not much later.
    fn is_in_time(&self, id: Id, operation: &Operation, at: u64, told: &Told) {
        let Some((deadline, last)) = self.deadlines(id) else { return };
        // The deadline of a call holds until it returns its stream.
        if operation.act == Act::Read && !matches!(told, Told::Failed { .. }) {
            return;
        }
        if matches!(told, Told::Failed { why: Failure::Deadline, .. }) && at < deadline {
            self.violated(format!("{id} ends before its deadline {deadline}: {}", self.shown(id)));
        }
        let within = (last.saturating_sub(SOON), at);
        if at > last + SOON + self.causes.stopped(operation.from, within) {
            self.violated(format!("{id} ends behind its deadline {last}: {}", self.shown(id)));
        }
    }

    /// A handler ends soon after its deadline, its caller and its session, and is not dropped before.
    fn handler(&self, id: Id, operation: &Operation, did: &Did, run: &Run) {
        let Some(asked) = did.asked else { return };
        let (from, to) = (operation.from, run.server);
        let down = self.causes.down(to, run.from);
        if run.end.is_none() && down.is_none() {
            self.violated(format!("the handler of {id} has not ended: {}", self.shown(id)));
        }
        let goes_on = match operation.act {
            Act::Call | Act::Read => 0,
            Act::Outlives | Act::Write => OUTLIVES_MS * MS,
            Act::Note => ONEWAY_OUTLIVES_MS * MS,
        };
        // A server that learns of a cause lets the handler go on for its time.
        let comes = |at| self.causes.comes(from, to, at);
        let ends = |cause| if goes_on > 0 { comes(comes(cause) + goes_on) } else { comes(cause) };
        // The first and the last time at which each cause ends the handler.
        let mut causes = Vec::new();
        if let Some(deadline) = self.deadline(id).filter(|_| operation.act != Act::Note) {
            // The callee does not know how long the message was on its way.
            let on_way = run.from.saturating_sub(asked);
            causes.push(("its deadline", deadline, comes(deadline + on_way)));
        }
        let told = did.told.as_ref().filter(|(_, told)| *told != Told::Done).map(|(at, _)| *at);
        if let Some(told) = told {
            // The server learns of the loss of a session by itself.
            let is_lost = self.causes.is_lossy(from, to, (asked, run.last));
            let lag = if is_lost { self.causes.lag(from, to) } else { 0 };
            let latest = ends(told + lag);
            causes.push(("the end of its call", told + goes_on, latest));
        }
        if let Some(dead) = self.causes.down(from, asked) {
            let latest =
                ends(dead.max(asked) + self.causes.grace(from) + self.causes.lag(from, to));
            causes.push(("the death of its caller", dead.max(asked) + goes_on, latest));
        }
        for (what, _, latest) in &causes {
            if run.last > *latest {
                self.violated(format!(
                    "the handler of {id} goes on behind {what}, and {latest}: {}",
                    self.shown(id)
                ));
            }
        }
        if run.end == Some(RunEnd::Dropped) {
            let is_due = causes.iter().any(|(_, first, _)| *first <= run.last);
            let until = run.last.saturating_sub(goes_on);
            let is_lost = self.causes.is_cut_off(from, to, (run.from.min(until), until));
            // A server that shuts down lets its handlers go on for its grace.
            let ends = down.map(|down| match self.causes.closes(to, down) {
                true => down + self.causes.grace(to),
                false => down,
            });
            if !is_due && !is_lost && ends.is_none_or(|ends| ends > run.last) {
                self.violated(format!(
                    "the handler of {id} is dropped without a cause: {}",
                    self.shown(id)
                ));
            }
        }
    }

    /// The items of a stream come once and in order, all of them before its end. Its writer does not outlive its reader.
    fn stream(&self, id: Id, operation: &Operation, did: &Did) {
        let Operation { from, to, act, items: Items { written: all, wanted, bytes, .. }, .. } =
            *operation;
        let Streamed { written, read, is_made, writer, is_over, broken, ahead } = &did.stream;
        let has_returned = matches!(writer, Some((_, RunEnd::Returned)));
        if *read > *written
            || *is_over && (*read < all || !has_returned)
            || has_returned && *written < all
        {
            self.violated(format!(
                "the items of {id} are not those that were written: {}",
                self.shown(id)
            ));
        }
        let part = PART_ITEMS.min(PART_BYTES / (bytes as u64 + 8) + 1);
        if *ahead > 3 * part + 1 {
            self.violated(format!("the writer of {id} is too far ahead: {}", self.shown(id)));
        }
        let of = if act == Act::Read { to } else { from };
        let Some(asked) = did.asked else { return };
        let told = did.told.as_ref().map(|(at, _)| *at);
        match (writer, told) {
            (None, _) if *is_made && self.causes.down(of, asked).is_none() => {
                self.violated(format!("the writer of {id} goes on: {}", self.shown(id)));
            }
            (Some((at, end)), told) => {
                let lag = match self.causes.is_lossy(from, to, (asked, *at)) {
                    true => self.causes.lag(from, to),
                    false => 0,
                };
                let dies = self.causes.down(from, asked).map(|down| down + self.causes.grace(from));
                let gone = told.into_iter().chain(dies).min();
                let dead = self.causes.down(of, asked).filter(|down| down <= at);
                let latest = gone.map(|gone| match of == from {
                    true => gone + SOON + self.causes.stopped(from, (gone, *at)),
                    false => self.causes.comes(from, to, gone + lag),
                });
                if latest.is_some_and(|latest| *at > latest) {
                    self.violated(format!("the writer of {id} goes on: {}", self.shown(id)));
                }
                let is_left = gone.is_some_and(|gone| gone <= *at + SOON);
                if *end == RunEnd::Dropped && !is_left && dead.is_none() && lag == 0 {
                    self.violated(format!(
                        "the writer of {id} is dropped without a cause: {}",
                        self.shown(id)
                    ));
                }
            }
            _ => {}
        }
        let is_done = matches!(did.told, Some((_, Told::Done))) && !did.runs.is_empty();
        let is_stream = matches!(act, Act::Read | Act::Write);
        if is_stream && is_done && broken.is_none() && *read != wanted.min(all) {
            self.violated(format!("the reader of {id} misses items: {}", self.shown(id)));
        }
        if let Some((at, why, _)) = broken {
            let is_left =
                did.told.as_ref().is_some_and(|(told, how)| told <= at && *how != Told::Done);
            let is_late = *why == Failure::Deadline
                && self.deadline(id).is_some_and(|deadline| deadline <= *at);
            if !is_left && !is_late && !self.causes.is_lossy(from, to, (asked, *at)) {
                self.violated(format!(
                    "the stream of {id} breaks without a cause: {}",
                    self.shown(id)
                ));
            }
        }
    }

    /// Returns whether what a process has sent may be lost on its way to another one.
    fn is_lost(&self, from: Process, to: Process, within: (u64, u64)) -> bool {
        // A process that leaves does not wait for ever until its messages have arrived.
        let leaves = |span: &&Span| span.from <= within.1;
        let left = self.causes.spans(|what| what == Disturbance::Left(from)).find(leaves);
        self.causes.is_lossy(from, to, within)
            || left.is_some_and(|left| {
                self.causes.is_unreachable(from, to, (left.from, left.from + LEAVING_MS * MS))
            })
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
            // Its memory may be missing.
            let is_due = is_due && !self.causes.is_starved(from, to, (0, sent));
            let comes = self.causes.comes(from, to, sent).saturating_add(self.queues(to));
            if runs.is_none() && is_due && !self.is_lost(from, to, (sent, comes)) {
                self.violated(format!("{first} was sent and has not run: {}", self.shown(first)));
            }
            for &next in &task[at + 1..] {
                let Operation { is_anew, referred_by, .. } = self.plan.operations[next];
                if is_anew || referred_by.is_some() {
                    // Another session has an order of its own.
                    break;
                }
                let run = self.history.operations[next].runs.first().filter(|run| run.server == to);
                let Some(run) = run else { continue };
                if self.causes.is_lossy(from, to, (sent, run.from)) {
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
