//! The checker: records the requests, the handlers that ran and the replies. It is separate from the world that it
//! checks, which only reports events. Invariant: the checker knows no frames, numbers or places.

mod asked;
mod streams;
mod folds;
mod exports;

use std::fmt;

use upbeat_core::backoff::REFUSALS_MAX;

use asked::{Asked, Lies, Run, Time, Way};
pub(crate) use asked::{End, Id, Terms};
use exports::Exports;
pub(crate) use exports::{Found, Hostile, Source};
pub(crate) use folds::FoldOf;
use streams::Streams;
pub(crate) use streams::{Batch, Over};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn violated<T>(what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(what.into()))
}

/// The record of all requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Check {
    asked: Vec<Asked>,
    /// For each session and direction: the next place in the order, and the last place that ran.
    orders: Vec<Order>,
    /// Whether the liar has sent a message that it never sent before, so that any reply of it is allowed.
    flipped: bool,
    /// Whether clocks jump, so that no time is exact.
    timeless: bool,
    /// Running handlers that use the exclusive resource of their node.
    holders: Vec<Id>,
    pub(crate) streams: Streams,
    pub(crate) exports: Exports,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    session: u64,
    from: usize,
    next: u64,
    ran: u64,
}

impl Check {
    /// Returns an empty record; `timeless` says that clocks jump.
    pub(crate) fn new(timeless: bool) -> Check {
        Check { timeless, ..Check::default() }
    }

    pub(crate) fn ask(
        &mut self,
        way: (usize, usize),
        oneway: bool,
        liar: Option<usize>,
        terms: Terms,
    ) -> Id {
        let (from, to) = way;
        let Terms { parent, until, most, outlives, needs, refusals } = terms;
        // The request of a handler has no more time than the handler itself.
        let inherited = self.bound_above(parent);
        let vague = |parent: Id| self.asked[parent as usize].lies.vague;
        let vague = [from, to].map(Some).contains(&liar) || parent.is_some_and(vague);
        let by = liar == Some(from);
        let until = [until, inherited].into_iter().flatten().min();
        self.asked.push(Asked {
            from,
            to,
            oneway,
            lies: Lies { of: by || liar == Some(to), by, vague },
            way: Way::default(),
            time: Time { until, most, outlives, ..Time::default() },
            end: None,
            run: Run::Not,
            parent,
            needs,
            refusals,
        });
        self.asked.len() as Id - 1
    }

    /// Returns the time by which the handler that makes the request must have stopped.
    fn bound_above(&self, parent: Option<Id>) -> Option<u64> {
        let parent = &self.asked[parent? as usize];
        parent.time.bound().filter(|_| !parent.lies.of)
    }

    /// The liar sends a message that it never sent before.
    pub(crate) fn flipped(&mut self) {
        self.flipped = true;
    }

    fn order(&mut self, session: u64, from: usize) -> &mut Order {
        let is_it = |order: &Order| order.session == session && order.from == from;
        if let Some(at) = self.orders.iter().rposition(is_it) {
            return &mut self.orders[at];
        }
        self.orders.push(Order { session, from, next: 1, ran: 0 });
        self.orders.last_mut().expect("it was just put there")
    }

    /// The request is given to a session, to be sent in its order; a refused request is given again.
    pub(crate) fn queued(&mut self, id: Id, session: u64) -> Result<(), Violation> {
        if let Some(end) = self.asked[id as usize].end {
            return violated(format!("{id} is sent and has ended as {end:?}"));
        }
        let from = self.asked[id as usize].from;
        let order = self.order(session, from);
        let place = order.next;
        order.next += 1;
        let asked = &mut self.asked[id as usize];
        (asked.way.sent, asked.way.passed) = (Some((session, place)), false);
        Ok(())
    }

    /// The request's frame is written.
    pub(crate) fn written(&mut self, id: Id) {
        self.asked[id as usize].way.written = true;
    }

    /// The caller learns that the request was refused and has not run.
    pub(crate) fn came_back(&mut self, id: Id) {
        self.asked[id as usize].way.written = false;
    }

    /// The sender did not respond in its turn, and other requests go before this one.
    pub(crate) fn passed(&mut self, id: Id) {
        self.asked[id as usize].way.passed = true;
    }

    /// The handler is polled for the first time, some time after the request was written. The resource that it needs
    /// may be in use.
    pub(crate) fn accepted(
        &mut self,
        id: Id,
        at: usize,
        session: u64,
        on_way: u64,
    ) -> Result<(), Violation> {
        let Some(asked) = self.asked.get_mut(id as usize) else {
            return violated(format!("something runs that nobody asked for: {id}"));
        };
        if asked.to != at {
            return violated(format!("{id} was asked of node {} and runs at {at}", asked.to));
        }
        if asked.lies.of {
            return Ok(());
        }
        asked.time.over = asked.time.until.map(|until| until + on_way);
        let (from, passed) = (asked.from, asked.way.passed);
        match asked.way.sent {
            Some((its, place)) if its == session => {
                let order = self.order(session, from);
                if passed {
                    return Ok(());
                }
                if place <= order.ran {
                    return violated(format!(
                        "{id} is number {place} of its session and runs after number {}",
                        order.ran
                    ));
                }
                order.ran = place;
                Ok(())
            }
            sent => violated(format!("{id} was sent in {sent:?} and runs in session {session}")),
        }
    }

    /// The body of the handler begins.
    pub(crate) fn started(&mut self, id: Id, now: u64) -> Result<(), Violation> {
        let asked = &mut self.asked[id as usize];
        if asked.run != Run::Not && !asked.lies.of {
            return violated(format!("{id} runs twice"));
        }
        if asked.way.never && !asked.lies.of {
            return violated(format!("{id} runs, and its caller was told that it was never sent"));
        }
        asked.run = Run::Running;
        let Asked { needs, to, .. } = *asked;
        if needs {
            if let Some(other) = self.holders.iter().find(|&&it| self.asked[it as usize].to == to) {
                return violated(format!("{id} begins with what {other} has"));
            }
            self.holders.push(id);
        }
        self.acts(id, now)
    }

    /// The handler is not run because its time is over, some time after the request was written.
    pub(crate) fn too_late(&self, id: Id, on_way: u64, now: u64) -> Result<(), Violation> {
        let Some(asked) = self.asked.get(id as usize) else {
            return violated(format!("something is too late that nobody asked for: {id}"));
        };
        // A deferred call that was given up travels without time, so that it does not run.
        let vague = asked.lies.of || asked.lies.vague || self.timeless;
        if vague || asked.way.given_up.is_some() {
            return Ok(());
        }
        match asked.time.until.map(|until| until + on_way) {
            Some(over) if over <= now => Ok(()),
            over => {
                violated(format!("{id} is too late to run at {now}, and has time until {over:?}"))
            }
        }
    }

    /// The caller is told that the handler was dropped because the request was given up.
    pub(crate) fn cancelled(&self, id: Id) -> Result<(), Violation> {
        match self.asked[id as usize].lies.of {
            true => Ok(()),
            false => violated(format!("{id} is cancelled, and its caller waits for it")),
        }
    }

    /// The handler makes a visible step.
    pub(crate) fn acts(&mut self, id: Id, now: u64) -> Result<(), Violation> {
        let asked = &self.asked[id as usize];
        if asked.lies.of {
            return Ok(());
        }
        if let Some(bound) = asked.time.bound()
            && bound <= now
            && !self.timeless
        {
            return violated(format!("{id} goes on, and its time was over at {bound}"));
        }
        if asked.time.outlives.is_some() {
            return Ok(());
        }
        if let Some(told) = asked.time.told {
            return violated(format!(
                "{id} goes on, and its node knows since {told} that it is orphaned"
            ));
        }
        let (from, given_up, sent) = (asked.from, asked.way.given_up, asked.way.sent);
        if let (Some(place), Some((session, _))) = (given_up, sent)
            && self.order(session, from).ran >= place
        {
            return violated(format!("{id} goes on, and what was asked behind its cancel has run"));
        }
        Ok(())
    }

    /// The handler asks for more time.
    pub(crate) fn asks(&mut self, id: Id) {
        self.asked[id as usize].time.question = true;
    }

    /// The caller answers the handler that asked for more time.
    pub(crate) fn answers(&mut self, id: Id) -> Result<(), Violation> {
        let asked = &mut self.asked[id as usize];
        if !std::mem::take(&mut asked.time.question) && !asked.lies.of {
            return violated(format!("{id} is told of its time, and has not asked"));
        }
        Ok(())
    }

    /// Returns a handler that waits for more time, and whose caller could grant it.
    pub(crate) fn unanswered(&self) -> Option<Id> {
        let waits = |asked: &Asked| {
            asked.time.question
                && asked.run == Run::Running
                && asked.time.told.is_none()
                && !asked.lies.of
        };
        Some(self.asked.iter().position(waits)? as Id)
    }

    /// The caller's node extends the deadline of the request to `until`.
    pub(crate) fn lent(&mut self, id: Id, until: u64) -> Result<(), Violation> {
        let asked = &self.asked[id as usize];
        if asked.lies.of {
            return Ok(());
        }
        if let Some(end) = asked.end {
            return violated(format!("{id} is extended, and has ended as {end:?}"));
        }
        if !self.timeless {
            if asked.time.most.is_some_and(|most| until > most) {
                let most = asked.time.most;
                return violated(format!("{id} is extended until {until}, beyond {most:?}"));
            }
            // A caller that had no deadline when it asked is unknown here: its request ends with it.
            let parent =
                asked.parent.filter(|&parent| self.asked[parent as usize].time.over.is_some());
            if let Some(bound) = self.bound_above(parent).filter(|bound| until > *bound) {
                return violated(format!("{id} is extended until {until}, its caller {bound}"));
            }
        }
        let asked = &mut self.asked[id as usize];
        asked.time.until = asked.time.until.max(Some(until));
        Ok(())
    }

    /// The handler learns of the extension, `on_way` after the caller granted it.
    pub(crate) fn extended(&mut self, id: Id, on_way: u64) {
        let asked = &mut self.asked[id as usize];
        asked.time.over = asked.time.over.max(asked.time.until.map(|until| until + on_way));
    }

    /// The handler is stopped because its time is over.
    pub(crate) fn expires(&self, id: Id, now: u64) -> Result<(), Violation> {
        let asked = &self.asked[id as usize];
        match asked.time.bound().filter(|_| !asked.lies.vague && !self.timeless) {
            Some(bound) if now < bound => {
                violated(format!("{id} is stopped, and has time until {bound}"))
            }
            _ => Ok(()),
        }
    }

    /// The caller gives the request up because its time is over.
    pub(crate) fn is_late(&self, id: Id, now: u64) -> Result<(), Violation> {
        let asked = &self.asked[id as usize];
        match asked.time.until.filter(|_| !asked.lies.vague && !self.timeless) {
            Some(until) if now < until => {
                violated(format!("{id} is given up, and has time until {until}"))
            }
            _ => Ok(()),
        }
    }

    /// The request is sent back because the resource that it needs is in use.
    pub(crate) fn refused(&mut self, id: Id) -> Result<(), Violation> {
        let asked = &mut self.asked[id as usize];
        asked.refusals += 1;
        if asked.lies.of {
            return Ok(());
        }
        if asked.run != Run::Not {
            return violated(format!("{id} is refused, and has run: {:?}", asked.run));
        }
        if asked.refusals > REFUSALS_MAX {
            return violated(format!("{id} is refused {} times", asked.refusals));
        }
        Ok(())
    }

    /// The caller gives the request up, and its session learns of that.
    pub(crate) fn given_up(&mut self, id: Id) {
        let Asked { way, from, .. } = self.asked[id as usize];
        if let Some((session, _)) = way.sent {
            let next = self.order(session, from).next;
            self.asked[id as usize].way.given_up.get_or_insert(next);
        }
    }

    /// The callee's node learns that the request was given up.
    pub(crate) fn told(&mut self, id: Id, now: u64) {
        self.asked[id as usize].time.told.get_or_insert(now);
    }

    pub(crate) fn finished(&mut self, id: Id, now: u64) -> Result<(), Violation> {
        self.acts(id, now)?;
        self.holders.retain(|&it| it != id);
        let asked = &mut self.asked[id as usize];
        if asked.run != Run::Running && !asked.lies.of {
            return violated(format!("{id} is finished and does not run: {:?}", asked.run));
        }
        asked.run = Run::Finished;
        Ok(())
    }

    /// The handler ends without a result.
    pub(crate) fn stopped(&mut self, id: Id) {
        self.holders.retain(|&it| it != id);
        self.asked[id as usize].run = Run::Ended;
    }

    /// The request is never sent, or was withdrawn before it was.
    pub(crate) fn never(&mut self, id: Id) -> Result<(), Violation> {
        let asked = &mut self.asked[id as usize];
        asked.way.never = true;
        if asked.way.written && !asked.lies.of {
            return violated(format!("{id} was sent, and its caller is told that it was not"));
        }
        if asked.run != Run::Not && !asked.lies.of {
            return violated(format!(
                "{id} has run, and its caller is told that it was never sent"
            ));
        }
        Ok(())
    }

    /// The caller gets a result, which names the request that produced it.
    pub(crate) fn replied(&mut self, id: Id, result: Id) -> Result<(), Violation> {
        let Lies { of, by, .. } = self.asked[id as usize].lies;
        if id != result && !by && !(of && self.flipped) {
            return violated(format!("{id} is answered with the result of {result}"));
        }
        let asked = &self.asked[id as usize];
        if asked.run != Run::Finished && !asked.lies.of {
            return violated(format!("{id} is answered and has not finished: {:?}", asked.run));
        }
        self.ended(id, End::Replied)
    }

    /// The caller's future completes.
    pub(crate) fn ended(&mut self, id: Id, end: End) -> Result<(), Violation> {
        let asked = &mut self.asked[id as usize];
        if let Some(before) = asked.end {
            return violated(format!("{id} has ended as {before:?} and ends again as {end:?}"));
        }
        asked.end = Some(end);
        match end {
            End::NotSent => self.never(id),
            End::Unknown if !asked.way.written && !asked.lies.of => {
                violated(format!("{id} was not sent, and its caller is told that it may have run"))
            }
            _ => Ok(()),
        }
    }

    /// A node dies, and its requests with it.
    pub(crate) fn died(&mut self, node: usize) {
        self.holders.retain(|&it| self.asked[it as usize].to != node);
        for asked in &mut self.asked {
            if asked.from == node && asked.end.is_none() {
                asked.end = Some(End::CallerDied);
            }
            if asked.to == node && asked.run == Run::Running {
                asked.run = Run::Ended;
            }
        }
    }

    /// A node finds that a session has ended.
    pub(crate) fn orphaned(&mut self, session: u64, at: usize, now: u64) {
        for asked in &mut self.asked {
            if asked.to == at && asked.way.is_in(session) {
                asked.time.told.get_or_insert(now);
            }
        }
    }

    /// A session ended other than by a goodbye.
    pub(crate) fn lost(&mut self, session: u64) {
        for asked in &mut self.asked {
            asked.way.lost |= asked.way.is_in(session);
        }
    }

    /// Allows a one-way message not to run, because its session was lost before.
    pub(crate) fn excuse(&mut self, id: Id) {
        self.asked[id as usize].way.lost = true;
    }

    /// Returns whether the caller has got its result.
    pub(crate) fn has_result(&self, id: Id) -> bool {
        self.asked[id as usize].end == Some(End::Replied)
    }

    /// Returns a description of the requests that are not done, if there are any.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let position = |asked: &Asked| {
            let ended = asked.end.is_some() || asked.oneway;
            let came = !asked.oneway || asked.run != Run::Not || asked.way.lost || asked.lies.of;
            !(ended && came && asked.run != Run::Running)
        };
        match self.asked.iter().position(position) {
            Some(at) => Some(format!("{at} is not done: {:?}", self.asked[at])),
            None => self.streams.unfinished(),
        }
    }

    /// Returns how many requests ended in this way.
    pub(crate) fn ends(&self, end: End) -> u64 {
        self.asked.iter().filter(|asked| asked.end == Some(end)).count() as u64
    }
}
