//! Streams at the callers: programs that read the streams of results and write the streams of arguments.
//! `upbeat_core::channel::stream` decides when they ask and bring, and what they send when they are dropped.

use std::collections::VecDeque;

use upbeat_core::channel;
use upbeat_core::channel::stream::{
    ArgumentReader, ArgumentWriter, BatchTail, CallerEnd, Control, ResultReader, ResultWriter,
    Wanted,
};
use upbeat_core::frame::{CallNumber, FailCode, Head};

use super::{Fault, World};
use crate::check::{Batch, End as Fate, Id, Over, violated};
use crate::plan::{Ask, Carries};
use crate::wire::Body;

/// All streams of a history.
#[derive(Default)]
pub(super) struct Flows {
    pub(super) all: Vec<Flow>,
    /// The streams that have an end somewhere.
    live: Vec<usize>,
}

/// A stream with both of its ends.
pub(super) struct Flow {
    pub(super) caller: usize,
    pub(super) callee: usize,
    /// The session of the call that carries the stream, once the call was given to one.
    pub(super) session: u64,
    pub(super) number: u32,
    pub(super) items: Items,
    /// Batches that have arrived and that the reader has not taken, and the end behind them.
    pub(super) here: VecDeque<Batch>,
    pub(super) last: Option<BatchTail>,
    near: Near,
    /// The operation of the caller that is under way.
    under_way: Option<(Id, CallNumber)>,
    pub(super) far: Far,
    /// The handler that reads the stream.
    pub(super) task: Option<usize>,
    /// The handler of an operation that waits.
    pub(super) waits: Option<usize>,
    /// Whether the reader at the callee was told that no more items come.
    pub(super) cut: bool,
    /// Batches that operations bring, with the answers to their writers.
    pub(super) batches: Vec<(Id, Batch)>,
    pub(super) wanted: Wanted,
}

/// The items that a writer has still to send.
#[derive(Clone, Copy)]
pub(super) struct Items {
    given: u64,
    left: u64,
    end: BatchTail,
}

/// The end of a stream at the caller.
#[derive(Clone, Copy, Debug)]
enum Near {
    Nothing,
    Reads(ResultReader),
    Writes(ArgumentWriter),
}

/// The end of a stream at the callee.
#[derive(Clone, Copy, Debug)]
pub(super) enum Far {
    Nothing,
    Writes(ResultWriter),
    Reads(ArgumentReader),
}

impl Flows {
    /// Notes the handler that reads this stream.
    pub(super) fn reads_in(&mut self, flow: usize, task: usize) {
        self.all[flow].task = Some(task);
    }

    /// Returns the number of streams that were opened in a session.
    pub(super) fn of(&self, session: u64) -> usize {
        self.all.iter().filter(|flow| flow.session == session).count()
    }
}

impl Flow {
    /// Returns whether the caller's end exists.
    pub(super) fn is_near(&self) -> bool {
        !matches!(self.near, Near::Nothing)
    }

    /// Returns the batch that an operation brings.
    pub(super) fn batch(&self, id: Id) -> Option<Batch> {
        self.batches.iter().rev().find(|(of, _)| *of == id).map(|(_, batch)| *batch)
    }

    fn is_over(&self) -> bool {
        !self.is_near() && matches!(self.far, Far::Nothing) && self.waits.is_none()
    }
}

impl World {
    /// Opens a stream if the request carries one.
    pub(super) fn open_flow(&mut self, node: usize, id: Id) {
        let ask = &mut self.asks[id as usize];
        let is_result = match ask.carries {
            Carries::Result => true,
            Carries::Argument => false,
            _ => return,
        };
        let (caller, callee) = (node, ask.to);
        ask.flow = self.flows.all.len();
        let lies = self.plan.liar.is_some_and(|liar| liar == caller || liar == callee);
        self.check.streams.open(is_result, lies);
        let items = Items {
            given: 0,
            left: self.random.below(9),
            end: if self.random.permille(200) { BatchTail::Broken } else { BatchTail::Done },
        };
        self.flows.all.push(Flow {
            caller,
            callee,
            session: self.nodes[node].ends[callee].as_ref().map_or(0, |end| end.session),
            number: id,
            items,
            here: VecDeque::new(),
            last: None,
            near: Near::Nothing,
            under_way: None,
            far: Far::Nothing,
            task: None,
            waits: None,
            cut: false,
            batches: Vec::new(),
            wanted: Wanted::More,
        });
    }

    /// Notes that a stream has an end from now on.
    pub(super) fn lives(&mut self, flow: usize) {
        if !self.flows.live.contains(&flow) {
            self.counts.streams += 1;
            self.flows.live.push(flow);
        }
    }

    /// Returns the session of an operation; none of any other request.
    pub(super) fn session_of(&self, node: usize, id: Id) -> Option<u64> {
        let ask = self.asks[id as usize];
        ask.carries.operation()?;
        let flow = &self.flows.all[ask.flow];
        debug_assert_eq!(flow.caller, node);
        Some(flow.session)
    }

    /// Makes the next batch of the writer, if there is one now.
    pub(super) fn give(&mut self, flow: usize) -> Result<Option<Batch>, Fault> {
        if !self.healing && self.random.permille(400) {
            return Ok(None);
        }
        let many = 1 + self.random.below(3);
        let ends_here = self.random.permille(500);
        let items = &mut self.flows.all[flow].items;
        let many = many.min(items.left);
        let from = items.given;
        items.given += many;
        items.left -= many;
        // The end comes with the last items, or after them.
        let is_last = items.left == 0 && (many == 0 || ends_here);
        let batch =
            Batch { from, items: many, tail: if is_last { items.end } else { BatchTail::More } };
        self.check.streams.gives(flow, batch)?;
        self.moved = true;
        Ok(Some(batch))
    }

    /// Polls the streams that have an end here.
    pub(super) fn poll_flows(&mut self, node: usize) -> Result<(), Fault> {
        let mut at = 0;
        while let Some(&flow) = self.flows.live.get(at) {
            if self.flows.all[flow].is_over() {
                self.flows.live.remove(at);
                continue;
            }
            at += 1;
            let Flow { caller, callee, .. } = self.flows.all[flow];
            if ![caller, callee].contains(&node) || !self.healing && self.random.permille(400) {
                continue;
            }
            match node == caller {
                true => self.poll_near(node, flow)?,
                false => self.poll_far(node, flow)?,
            }
        }
        Ok(())
    }

    /// Polls the caller's end.
    fn poll_near(&mut self, node: usize, flow: usize) -> Result<(), Fault> {
        let is_bored = !self.healing && self.random.permille(30);
        match self.flows.all[flow].near {
            Near::Nothing => Ok(()),
            Near::Reads(_) if is_bored => {
                self.counts.streams_left += 1;
                self.check.streams.over(flow, Over::Left)?;
                self.drop_near(node, flow)
            }
            Near::Reads(ahead) => self.read_near(node, flow, ahead),
            Near::Writes(_) if self.flows.all[flow].under_way.is_some() => Ok(()),
            Near::Writes(mut feed) => {
                let Some(batch) = self.give(flow)? else { return Ok(()) };
                feed.begin_push(batch.tail != BatchTail::More);
                self.flows.all[flow].near = Near::Writes(feed);
                self.operate(node, flow, Carries::Push, Some(batch))
            }
        }
    }

    /// Takes the batch that is here, and asks for more when that is due.
    fn read_near(
        &mut self,
        node: usize,
        flow: usize,
        mut ahead: ResultReader,
    ) -> Result<(), Fault> {
        let reads = self.healing || self.random.permille(700);
        if let Some(batch) = self.flows.all[flow].here.pop_front_if(|_| reads) {
            self.moved = true;
            self.counts.batches += 1;
            self.check.streams.takes(flow, batch)?;
            ahead.read_batch();
            self.flows.all[flow].near = Near::Reads(ahead);
            if batch.tail != BatchTail::More {
                self.check.streams.over(flow, Over::Ended(batch.tail))?;
                if ahead.leave().is_some() {
                    return violated(format!("stream {flow} is stopped, and has ended"))?;
                }
                return self.drop_near(node, flow);
            }
        }
        let asks = ahead.begin_pull();
        if asks && self.flows.all[flow].under_way.is_some() {
            return violated(format!("stream {flow} is asked before it has answered"))?;
        }
        self.flows.all[flow].near = Near::Reads(ahead);
        if asks { self.operate(node, flow, Carries::Pull, None) } else { Ok(()) }
    }

    /// Asks for an operation at the other end.
    fn operate(
        &mut self,
        node: usize,
        flow: usize,
        carries: Carries,
        batch: Option<Batch>,
    ) -> Result<(), Fault> {
        self.moved = true;
        let to = self.flows.all[flow].callee;
        let ask = Ask::operation(&mut self.random, to, carries, flow);
        let id = self.asks.len() as Id;
        self.flows.all[flow].batches.extend(batch.map(|batch| (id, batch)));
        // The operation counts as under way before it is sent: sending may end it at once.
        let call = self.issue(node, ask, None)?;
        if self.flows.all[flow].is_near() {
            self.flows.all[flow].under_way = call.map(|call| (id, call));
        }
        Ok(())
    }

    /// A request was written.
    pub(super) fn went(&mut self, node: usize, id: Id) {
        self.check.written(id);
        let Ask { carries, flow, to, .. } = self.asks[id as usize];
        if carries == Carries::Argument {
            self.flows.all[flow].session =
                self.nodes[node].ends[to].as_ref().map_or(0, |end| end.session);
            self.flows.all[flow].near = Near::Writes(ArgumentWriter::default());
            self.check.streams.writes(flow);
            self.lives(flow);
        }
    }

    /// A request has ended without an answer.
    pub(super) fn ended(&mut self, node: usize, id: Id, fate: Fate) -> Result<(), Fault> {
        self.check.ended(id, fate)?;
        let Ask { carries, flow, .. } = self.asks[id as usize];
        match carries {
            Carries::Argument => self.drop_near(node, flow),
            Carries::Pull | Carries::Push => {
                if fate != Fate::Dropped {
                    self.check.streams.excuse(flow);
                }
                self.operation_failed(node, flow)
            }
            Carries::Nothing | Carries::Result => Ok(()),
            Carries::Query => self.query_ended(id, false),
        }
    }

    /// A request is answered with a failure, which its future will report.
    pub(super) fn failed(&mut self, id: Id, body: Body) -> Result<(), Fault> {
        if body == Body::Failure(FailCode::Cancelled) {
            self.check.cancelled(id)?;
        }
        self.check.ended(id, Fate::Failed)?;
        let Ask { carries, flow, .. } = self.asks[id as usize];
        // A reply may be dropped on either side, but no operation fails for another reason.
        let is_dropped = matches!(body, Body::Result(_) | Body::None);
        if carries.operation().is_some()
            && (is_dropped || body == Body::Failure(FailCode::Overloaded))
        {
            self.check.streams.excuse(flow);
        }
        if carries.operation().is_some() {
            self.flows.all[flow].batches.retain(|it| it.0 != id);
        }
        Ok(())
    }

    fn operation_failed(&mut self, node: usize, flow: usize) -> Result<(), Fault> {
        self.flows.all[flow].under_way = None;
        match &mut self.flows.all[flow].near {
            Near::Nothing => return Ok(()),
            Near::Reads(ahead) => {
                ahead.handle_failed();
                self.counts.streams_cut += 1;
                self.check.streams.over(flow, Over::Cut)?;
            }
            Near::Writes(_) => {}
        }
        self.drop_near(node, flow)
    }

    /// A program's future takes its reply, or is dropped.
    pub(super) fn collected(
        &mut self,
        node: usize,
        (peer, call): (usize, CallNumber),
        id: Id,
        polled: bool,
    ) -> Result<(), Fault> {
        let Ask { carries, flow, .. } = self.asks[id as usize];
        let has_result = self.check.has_result(id);
        match carries {
            Carries::Nothing => Ok(()),
            Carries::Query => self.query_ended(id, polled && has_result),
            Carries::Result if polled && has_result => {
                let mut ahead = ResultReader::default();
                ahead.received();
                self.flows.all[flow].near = Near::Reads(ahead);
                self.check.streams.reads(flow);
                self.lives(flow);
                Ok(())
            }
            Carries::Result => {
                self.owe(node, peer, Head::cancel(call), Body::None);
                Ok(())
            }
            Carries::Argument => self.drop_near(node, flow),
            Carries::Pull | Carries::Push if !polled => {
                self.flows.all[flow].under_way = None;
                if carries == Carries::Pull {
                    self.counts.streams_left += 1;
                    self.check.streams.over(flow, Over::Left)?;
                }
                self.drop_near(node, flow)
            }
            Carries::Pull | Carries::Push => {
                self.flows.all[flow].under_way = None;
                self.answered(node, flow, id)
            }
        }
    }

    /// Reads the answer to an operation.
    fn answered(&mut self, node: usize, flow: usize, id: Id) -> Result<(), Fault> {
        let it = &mut self.flows.all[flow];
        let batch = it.batch(id);
        match (&mut it.near, batch) {
            (Near::Nothing, _) => Ok(()),
            (_, None) => self.operation_failed(node, flow),
            (Near::Reads(ahead), Some(batch)) => {
                ahead.handle_batch(batch.tail != BatchTail::More);
                it.here.push_back(batch);
                let (lies, many) =
                    (self.lies(node, self.flows.all[flow].callee), &self.flows.all[flow]);
                match many.here.len() > 1 && !lies {
                    true => {
                        violated(format!("stream {flow} has {} batches wait", many.here.len()))?
                    }
                    false => Ok(()),
                }
            }
            (Near::Writes(feed), Some(_)) => {
                let goes_on = feed.handle_answer(it.wanted);
                if goes_on && it.wanted == Wanted::Nothing {
                    return violated(format!("stream {flow} goes on, and nobody wants more"))?;
                }
                if goes_on { Ok(()) } else { self.drop_near(node, flow) }
            }
        }
    }

    /// Drops the caller's end.
    fn drop_near(&mut self, node: usize, flow: usize) -> Result<(), Fault> {
        let it = &mut self.flows.all[flow];
        let near = std::mem::replace(&mut it.near, Near::Nothing);
        let (peer, session, number) = (it.callee, it.session, it.number);
        let under_way = it.under_way.take();
        let control = match near {
            Near::Nothing => return Ok(()),
            Near::Reads(mut ahead) => ahead.leave(),
            Near::Writes(mut feed) => {
                self.check.streams.dropped(flow);
                let control = feed.leave();
                if control.is_some() {
                    self.check.streams.excuse(flow);
                }
                control
            }
        };
        self.moved = true;
        if let Some((id, call)) = under_way {
            self.drop_operation(node, peer, (id, call))?;
        }
        if let Some(control) = control
            && self.end(node, peer).is_some_and(|end| end.session == session)
        {
            self.tell(node, peer, control, number);
        }
        Ok(())
    }

    fn tell(&mut self, node: usize, peer: usize, control: Control, number: u32) {
        let code = channel::Control::Stream(control).code();
        self.owe(node, peer, Head::control(code, number), Body::None);
    }

    /// Drops the operation of an end that is dropped.
    fn drop_operation(
        &mut self,
        node: usize,
        peer: usize,
        (_, call): (Id, CallNumber),
    ) -> Result<(), Fault> {
        let is_it =
            |answered: &mut (usize, CallNumber, usize)| (answered.0, answered.1) == (peer, call);
        let answered = self.nodes[node].calls.answered.extract_if(.., is_it).next();
        let Some((_, _, copied)) = answered else {
            self.give_up(node, peer, call, Fate::Dropped)?;
            return Ok(());
        };
        if let Some(end) = self.end(node, peer) {
            end.core.was_read(copied);
            end.core.calls().abandon(call);
        }
        Ok(())
    }

    /// Ends the streams of an ended session at the callee. Readers and writers at callers find out by themselves.
    pub(super) fn lose_flows(
        &mut self,
        node: usize,
        peer: usize,
        session: u64,
    ) -> Result<(), Fault> {
        for at in 0..self.flows.live.len() {
            let flow = self.flows.live[at];
            if self.flows.all[flow].session == session {
                self.check.streams.excuse(flow);
            }
        }
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        let ended = std::mem::take(&mut end.streams).handle_lost();
        self.end_streams(ended)
    }

    /// A node dies, with its ends of streams.
    pub(super) fn flows_died(&mut self, node: usize) {
        for &flow in &self.flows.live {
            let it = &mut self.flows.all[flow];
            let is_caller = it.caller == node;
            if !is_caller && it.callee != node {
                continue;
            }
            self.check.streams.died(flow, is_caller);
            if is_caller {
                (it.near, it.under_way) = (Near::Nothing, None);
            } else {
                (it.far, it.task, it.waits) = (Far::Nothing, None, None);
            }
        }
    }
}
