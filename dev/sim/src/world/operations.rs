//! Streams at their callees: the operations that arrive there, and the handlers that read.

use upbeat_core::channel;
use upbeat_core::channel::stream::{ArgumentReader, BatchTail, Ended, ResultWriter, Wanted};
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Head};
use upbeat_core::session::Awaits;

use super::flows::{Far, Flow};
use super::{Fault, Held, State, World};
use crate::check::{Id, Over, violated};
use crate::plan::{Ask, Carries};
use crate::wire::{Body, Use};

/// Batches that may wait for their reader.
const WAITING_MAX: usize = 2;

impl World {
    /// The callee opens a stream in the result of a call. Returns whether it could.
    pub(super) fn open_result(&mut self, node: usize, call: CallNumber, id: Id) -> bool {
        let flow = self.asks[id as usize].flow;
        let it = &self.flows.all[flow];
        let (caller, session) = (it.caller, it.session);
        let Some(end) = self.end(node, caller).filter(|end| end.session == session) else {
            return true;
        };
        let Ok(number) = end.streams.open_result(call, flow) else { return false };
        let it = &mut self.flows.all[flow];
        (it.number, it.far) = (number, Far::Writes(ResultWriter::default()));
        // A request that a liar repeats makes its stream anew: nobody answers a pull of the former one.
        it.waits = None;
        self.check.streams.writes(flow);
        self.lives(flow);
        true
    }

    /// The callee opens a stream in the arguments of a call. Returns whether it could.
    pub(super) fn open_argument(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        id: Id,
    ) -> Result<bool, Fault> {
        let flow = self.asks[id as usize].flow;
        let number = self.flows.all[flow].number;
        let (Some(call), Some(end)) = (held.call, self.end(node, peer)) else { return Ok(false) };
        if let Err(refusal) = end.streams.open_argument(call, number, flow) {
            if !self.lies(node, peer) {
                return violated(format!("stream {flow} is not opened: {refusal}"))?;
            }
            self.refuse(node, peer, call);
            return Ok(false);
        }
        self.flows.all[flow].far = Far::Reads(ArgumentReader::default());
        self.check.streams.reads(flow);
        self.lives(flow);
        Ok(true)
    }

    fn refuse(&mut self, node: usize, peer: usize, call: CallNumber) {
        let body = Body::Failure(FailCode::BadArguments);
        self.owe(node, peer, Head::failed(call, 1), body);
    }

    /// An operation of a stream, or a question about an export, is accepted.
    pub(super) fn start_operation(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        (id, buffer): (Id, Option<(Use, usize)>),
    ) -> Result<(), Fault> {
        let Ask { carries, flow, .. } = self.asks[id as usize];
        if carries == Carries::Query {
            return self.start_query(node, peer, held, (id, buffer));
        }
        self.give_back(node, peer, buffer);
        let Some(call) = held.call else { return Ok(()) };
        let taken = match carries {
            Carries::Pull => self.pull_came(node, peer, flow),
            _ => self.push_came(node, peer, flow, id),
        };
        if let Some(why) = taken? {
            let it = &self.flows.all[flow];
            // The reader of arguments may be dropped; its writer learns of that by this operation.
            let is_left = carries == Carries::Push && it.task.is_none();
            if it.is_near() && !is_left && !self.lies(node, peer) {
                return violated(format!("{carries:?} of stream {flow} is refused: {why}"))?;
            }
            self.refuse(node, peer, call);
            return Ok(());
        }
        self.check.started(id, self.time)?;
        if self.is_answered(flow, id)? {
            self.check.finished(id, self.time)?;
            self.reply(node, peer, call, id);
            self.was_answered(flow);
            return Ok(());
        }
        let at = self.keep(node, peer, held, id, None)?;
        if let Some(task) = &mut self.nodes[node].tasks[at] {
            task.state = State::Streams;
            self.nodes[node].lock.lacking -= 1;
        }
        self.charge(node, at, Awaits::Reply);
        self.flows.all[flow].waits = Some(at);
        Ok(())
    }

    /// A reader asks for a batch. Returns the reason if it gets none.
    fn pull_came(
        &mut self,
        node: usize,
        peer: usize,
        flow: usize,
    ) -> Result<Option<&'static str>, Fault> {
        let number = self.flows.all[flow].number;
        let found = self.end(node, peer).and_then(|end| end.streams.result(number).copied());
        let Flow { far: Far::Writes(demand), waits, .. } = &mut self.flows.all[flow] else {
            return Ok(Some("nobody writes it"));
        };
        if found != Some(flow) {
            return Ok(Some("it is not open"));
        }
        if demand.handle_pull().is_err() {
            return Ok(Some("it is asked already"));
        }
        match waits {
            Some(_) => violated(format!("stream {flow} is asked twice at a time"))?,
            None => Ok(None),
        }
    }

    /// A writer brings a batch. Returns the reason if the batch is not taken.
    fn push_came(
        &mut self,
        node: usize,
        peer: usize,
        flow: usize,
        id: Id,
    ) -> Result<Option<&'static str>, Fault> {
        let number = self.flows.all[flow].number;
        let Some(end) = self.end(node, peer) else { return Ok(Some("its session is gone")) };
        let found = end.streams.argument(number).copied() == Some(flow);
        let it = &mut self.flows.all[flow];
        let batch = it.batch(id);
        let (Far::Reads(intake), Some(batch), true) = (&mut it.far, batch, found) else {
            return Ok(Some("nobody reads it"));
        };
        let is_last = batch.tail != BatchTail::More;
        let Ok(is_kept) = intake.handle_push(batch.items as usize, is_last) else {
            return Ok(Some("there is no room"));
        };
        if is_kept {
            it.here.push_back(batch);
        }
        if is_last {
            it.last = Some(batch.tail);
        }
        if it.here.len() > WAITING_MAX {
            return violated(format!("{} batches wait of stream {flow}", it.here.len()))?;
        }
        if is_last && let Some(end) = self.end(node, peer) {
            end.streams.close_argument(number);
        }
        Ok(None)
    }

    /// Returns whether an operation is answered now. The batch of a pull is collected then.
    fn is_answered(&mut self, flow: usize, id: Id) -> Result<bool, Fault> {
        match self.flows.all[flow].far {
            Far::Nothing => Ok(true),
            Far::Reads(intake) => {
                let answer = intake.answer();
                let Flow { task, last, wanted, .. } = &mut self.flows.all[flow];
                *wanted = answer.unwrap_or(Wanted::More);
                if task.is_none() && last.is_none() && answer == Some(Wanted::More) {
                    return violated(format!("stream {flow} is to go on, and nobody reads it"))?;
                }
                Ok(answer.is_some())
            }
            Far::Writes(mut demand) => {
                let Some(batch) = self.give(flow)? else { return Ok(false) };
                let ends = demand.batch_collected(batch.tail != BatchTail::More);
                // The handler is done, and dropped before its reply is sent.
                let ends = demand.pull_dropped() || ends;
                let it = &mut self.flows.all[flow];
                it.batches.retain(|(of, _)| *of != id);
                it.batches.push((id, batch));
                it.far = Far::Writes(demand);
                if ends {
                    self.close_result(flow);
                }
                Ok(true)
            }
        }
    }

    fn was_answered(&mut self, flow: usize) {
        if let Far::Writes(demand) = &mut self.flows.all[flow].far {
            demand.answered();
        }
    }

    /// The writer of the stream ends.
    fn close_result(&mut self, flow: usize) {
        let Flow { callee, caller, session, number, .. } = self.flows.all[flow];
        if let Some(end) = self.end(callee, caller).filter(|end| end.session == session) {
            end.streams.close_result(number);
        }
        self.drop_writer(flow);
    }

    fn drop_writer(&mut self, flow: usize) {
        self.check.streams.dropped(flow);
        self.flows.all[flow].far = Far::Nothing;
        self.moved = true;
    }

    /// Ends streams before their last items.
    pub(super) fn end_streams(&mut self, ended: Ended<usize, usize>) -> Result<(), Fault> {
        ended.results.into_iter().for_each(|flow| self.drop_writer(flow));
        for flow in ended.arguments {
            self.break_off(flow)?;
        }
        Ok(())
    }

    /// Tells the reader of an argument that no more items come, unless the reader knows.
    fn break_off(&mut self, flow: usize) -> Result<(), Fault> {
        let it = &mut self.flows.all[flow];
        if let Far::Reads(intake) = &mut it.far {
            self.moved = true;
            it.cut |= intake.break_off();
            // A request that a liar repeats is run again, and reads its stream anew here.
            if it.cut && it.last.is_some() && !self.check.streams.lies(flow) {
                return violated(format!("stream {flow} breaks off behind its end"))?;
            }
        }
        Ok(())
    }

    /// A peer sends a control frame of a stream, which is not answered.
    pub(super) fn control_came(
        &mut self,
        node: usize,
        peer: usize,
        head: &Head,
    ) -> Result<(), Fault> {
        let Some(channel::Control::Stream(control)) = channel::Control::from_code(head.method)
        else {
            return Err(Rule::UnknownControl { code: head.method }.into());
        };
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        let ended = end.streams.handle_control(control, head.call.index());
        self.end_streams(ended)
    }

    /// Polls the callee's end.
    pub(super) fn poll_far(&mut self, node: usize, flow: usize) -> Result<(), Fault> {
        if let Some(at) = self.flows.all[flow].task {
            self.read_far(node, flow, at)?;
        }
        let Some(at) = self.flows.all[flow].waits else { return Ok(()) };
        let Some(id) = self.nodes[node].tasks[at].as_ref().map(|task| task.id) else {
            return violated(format!("an operation of stream {flow} is no more"))?;
        };
        if self.is_answered(flow, id)? {
            self.flows.all[flow].waits = None;
            self.finish(node, at)?;
            self.was_answered(flow);
            self.forget_far(flow);
        }
        Ok(())
    }

    /// A handler reads the stream in its arguments.
    fn read_far(&mut self, node: usize, flow: usize, at: usize) -> Result<(), Fault> {
        let reads = self.healing || self.random.permille(600);
        let is_bored = !self.healing && self.random.permille(30);
        let it = &mut self.flows.all[flow];
        let over = match (it.here.pop_front_if(|_| reads && !is_bored), it.last) {
            _ if is_bored => Over::Left,
            (Some(batch), _) => {
                if let Far::Reads(intake) = &mut it.far {
                    intake.read_batch();
                }
                self.moved = true;
                self.counts.batches += 1;
                return Ok(self.check.streams.takes(flow, batch)?);
            }
            _ if !it.here.is_empty() => return Ok(()),
            _ if it.cut => Over::Cut,
            (None, Some(tail)) => Over::Ended(tail),
            (None, None) => return Ok(()),
        };
        match over {
            Over::Left => self.counts.streams_left += 1,
            Over::Cut => self.counts.streams_cut += 1,
            Over::Ended(_) => {}
        }
        self.check.streams.over(flow, over)?;
        self.drop_reader(flow);
        self.resume(node, at)
    }

    /// The reader of an argument is dropped.
    fn drop_reader(&mut self, flow: usize) {
        let it = &mut self.flows.all[flow];
        it.task = None;
        it.here.clear();
        if let Far::Reads(intake) = &mut it.far {
            intake.leave();
        }
        self.moved = true;
        self.close_argument(flow);
        self.forget_far(flow);
    }

    fn close_argument(&mut self, flow: usize) {
        let Flow { callee, caller, session, number, .. } = self.flows.all[flow];
        if let Some(end) = self.end(callee, caller).filter(|end| end.session == session) {
            end.streams.close_argument(number);
        }
    }

    fn forget_far(&mut self, flow: usize) {
        let it = &mut self.flows.all[flow];
        if it.task.is_none() && it.waits.is_none() && matches!(it.far, Far::Reads(_)) {
            it.far = Far::Nothing;
        }
    }

    /// A handler ends, and with it the stream that it read, or the operation that it served.
    pub(super) fn leave_flow(&mut self, node: usize, at: usize) -> Result<(), Fault> {
        let Some(task) = &self.nodes[node].tasks[at] else { return Ok(()) };
        let Ask { carries, flow, .. } = self.asks[task.id as usize];
        match carries {
            Carries::Argument if self.flows.all[flow].task == Some(at) => {
                self.check.streams.over(flow, Over::Left)?;
                self.drop_reader(flow);
            }
            Carries::Query => self.leave_query(node, at),
            Carries::Pull | Carries::Push if self.flows.all[flow].waits == Some(at) => {
                self.flows.all[flow].waits = None;
                match &mut self.flows.all[flow].far {
                    Far::Writes(demand) => {
                        // A request that a liar repeats is run again, and makes its stream anew here.
                        if !demand.pull_dropped() && !self.check.streams.lies(flow) {
                            return violated(format!("stream {flow} goes on without its reader"))?;
                        }
                        self.close_result(flow);
                    }
                    Far::Reads(_) => {
                        self.break_off(flow)?;
                        self.close_argument(flow);
                        self.forget_far(flow);
                    }
                    Far::Nothing => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}
