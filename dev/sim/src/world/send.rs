//! Sending: requests in their order, as flow control decides, and the frames that a node owes.

use upbeat_core::channel::Operation;
use upbeat_core::channel::call::{Abandon, Deadline};
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Flags, Head, Placed};
use upbeat_core::limits::SHORT_BYTES;
use upbeat_core::orphan::inherited;
use upbeat_core::session::SendOutcome;

use std::rc::Rc;

use super::lend::{Loan, when};
use super::{Fault, Open, Out, Waiter, World};
use crate::check::{End as Fate, Id, Terms, violated};
use crate::plan::{Ask, Carries, Need};
use crate::wire::{Body, Frame, Use};

/// The number of the only method that the programs of the world have.
const METHOD: u16 = 1;

/// A call that is about to be sent.
pub(super) struct Attempt {
    pub(super) id: Id,
    pub(super) task: Option<usize>,
    /// The time at which its caller gives it up, and the time at which its caller drops it.
    pub(super) deadline: Deadline,
    pub(super) dropped: Deadline,
    /// The deadline that travels with the call.
    pub(super) travels: Deadline,
    /// The latest time to which the deadline may be extended, if it may, and the handler in whose name.
    pub(super) most: Option<u64>,
    pub(super) above: Option<(usize, Id)>,
    pub(super) refusals: u64,
}

impl World {
    /// A program or a handler makes a request to a node.
    pub(super) fn issue(
        &mut self,
        node: usize,
        ask: Ask,
        task: Option<usize>,
    ) -> Result<Option<CallNumber>, Fault> {
        let after = |left: u64| self.time + left;
        let parent = task.and_then(|at| Some((at, self.nodes[node].tasks[at].as_ref()?.id)));
        let last = |left: u64| after(left.max(ask.total.unwrap_or(0)));
        let terms = Terms {
            parent: parent.map(|(_, id)| id),
            until: ask.deadline.map(after),
            most: ask.deadline.map(last),
            outlives: ask.outlives,
            needs: ask.need != Need::Nothing,
            refusals: ask.refusals,
        };
        let id = self.check.ask((node, ask.to), ask.oneway, self.plan.liar, terms);
        self.asks.push(ask);
        self.open_flow(node, id);
        self.counts.requests += 1;
        self.note(|| format!("{node} asks {id} of {}: {ask:?}", ask.to));
        let now = self.clock(node);
        let never = Deadline::NEVER;
        let at = |left: Option<u64>| left.map_or(never, |left| Deadline::after(now, left));
        let (deadline, dropped) = (at(ask.deadline), at(ask.dropped));
        let left = task.and_then(|at| self.nodes[node].tasks[at].as_ref()?.end.remaining(now));
        let travels = at(inherited(ask.deadline, left));
        let (refusals, most) = (ask.refusals, self.most(node, &ask, task));
        let above = parent.filter(|(at, _)| self.nodes[node].leases.contains_key(at));
        let attempt = Attempt { id, task, deadline, dropped, travels, most, above, refusals };
        self.attempt(node, attempt)
    }

    /// Sends a request for the first time, or again.
    pub(super) fn attempt(
        &mut self,
        node: usize,
        attempt: Attempt,
    ) -> Result<Option<CallNumber>, Fault> {
        let Attempt { id, task, deadline, dropped, travels, most, above, refusals } = attempt;
        let ask = self.asks[id as usize];
        let session = self.session_of(node, id);
        let Some(end) =
            self.end(node, ask.to).filter(|end| session.is_none_or(|it| it == end.session))
        else {
            if ask.oneway {
                self.check.excuse(id);
            } else {
                self.ended(node, id, Fate::NotSent)?;
            }
            return Ok(None);
        };
        let call = match ask.oneway {
            true => None,
            false => {
                Some(end.core.calls().open(Waiter { id, task }).expect("tables are not full here"))
            }
        };
        let says = (ask.need == Need::Again).then_some(refusals);
        end.senders.insert(Out {
            id,
            call,
            deadline: travels,
            most,
            refusals: says,
            ticket: None,
            number: None,
            woken: None,
            is_free: task.is_none(),
            forgotten: false,
        });
        let session = end.session;
        self.check.queued(id, session)?;
        if let Some(call) = call {
            let loan = most.map(|most| Loan::new(travels, most, above));
            let peer = ask.to;
            let open = Open { peer, call, deadline, dropped, refusals, most, loan };
            self.nodes[node].calls.open.push(open);
            self.nodes[node].calls.due_at(when(deadline.min(dropped)));
        }
        let result = self.poll_sender(node, ask.to, id);
        match result {
            // A handler may be running: the session ends after its turn.
            Err(Fault::Rule(rule)) => self.nodes[node].found.push((ask.to, session, rule)),
            result => result?,
        }
        Ok(call)
    }

    /// Writes waiting frames, as far as there is room: longer replies, then frames in their order.
    pub(super) fn pay(&mut self, node: usize, peer: usize) {
        let Some(core) = self.core(node, peer) else { return };
        let replies = core.write_replies(|frame| match self.write_answer(node, peer, *frame) {
            true => SendOutcome::Sent,
            false => SendOutcome::NoRoom,
        });
        let frames = core.write_frames(|frame| self.write_answer(node, peer, *frame));
        // Requests may have waited for these frames.
        self.nodes[node].pressed |= (replies || frames) && core.may_step();
    }

    /// Writes a frame, with its payload in a buffer if it is a long reply. Returns whether there was room.
    fn write_answer(&mut self, node: usize, peer: usize, frame: Frame) -> bool {
        let Some((frame, buffer)) = self.place_answer(node, peer, frame) else {
            self.counts.no_answer_buffer += 1;
            return false;
        };
        let went = self.write(node, peer, frame);
        if let Some(buffer) = buffer.filter(|_| !went) {
            self.wire(node, peer).unlend(Use::Answers, buffer);
        }
        went
    }

    /// Answers a call of a peer.
    pub(super) fn reply(&mut self, node: usize, peer: usize, call: CallNumber, id: Id) {
        if self.asks[id as usize].carries == Carries::Result && !self.open_result(node, call, id) {
            return self.owe(node, peer, Head::failed(call, 1), Body::Failure(FailCode::BadResult));
        }
        let len = self.asks[id as usize].answer;
        let words = Head::reply(call, len).words();
        let frame = Frame { words, extensions: [0; 5], body: Body::Result(id), written: 0 };
        let Some(end) = self.end(node, peer) else { return };
        let core = Rc::clone(&end.core);
        let waits = core.outbound().is_barred() || core.goes_behind(len as usize);
        if !waits && self.write_answer(node, peer, frame) {
            return;
        }
        let (held, all) = (core.owed().1, self.plan.budget.max(self.plan.ahead));
        let replies = self.nodes[node].replies.budget().held();
        let is_full = held >= self.plan.share.max(self.plan.ahead) || replies >= all;
        let admits = core.admits_reply(len as usize);
        if admits == (len as usize > SHORT_BYTES && held > 0 && is_full) {
            let says = if admits { "has a reply wait" } else { "refuses to have a reply wait" };
            self.record.wrong = Some(format!("{node} {says} for {peer} behind {held} bytes"));
        }
        if !admits {
            self.counts.overloaded += 1;
            let body = Body::Failure(FailCode::Overloaded);
            return self.owe(node, peer, Head::failed(call, 1), body);
        }
        let queued = core.queue_reply(frame, len as usize);
        self.queued(node, peer, queued);
    }

    /// Handles the queueing of a frame: a peer for which too many frames wait has broken a rule.
    fn queued(&mut self, node: usize, peer: usize, queued: Result<bool, Rule>) {
        let session = self.nodes[node].ends[peer].as_ref().map(|end| end.session);
        if let (Err(rule), Some(session)) = (queued, session) {
            self.nodes[node].found.push((peer, session, rule));
        }
    }

    /// Returns an owed frame, with its payload in a buffer if it is a long reply: none if there is no
    /// buffer.
    fn place_answer(
        &mut self,
        node: usize,
        peer: usize,
        frame: Frame,
    ) -> Option<(Frame, Option<usize>)> {
        let Frame { words, body: Body::Result(id), .. } = frame else {
            return Some((frame, None));
        };
        let len = Head::len_in(&words);
        if len as usize <= SHORT_BYTES {
            return Some((frame, None));
        }
        let buffer = self.wire(node, peer).borrow(Use::Answers, id)?;
        let placed = Placed { slab: Use::Answers as u16, index: buffer as u16, len };
        let call = CallNumber::from_u64(words[1]);
        let head = Head::reply(call, Flags::PLACED.extension_bytes()).with_flags(Flags::PLACED);
        let extensions = [placed.as_u64(), 0, 0, 0, 0];
        let frame = Frame { words: head.words(), extensions, body: Body::None, written: 0 };
        Some((frame, Some(buffer)))
    }

    /// Writes a frame if there is room, and sends a hint of it.
    pub(super) fn write(&mut self, node: usize, peer: usize, mut frame: Frame) -> bool {
        frame.written = self.time;
        if !self.wire(node, peer).fits(&frame) {
            self.counts.full += 1;
            return false;
        }
        let Some(end) = self.end(node, peer) else { return false };
        let session = end.session;
        self.wire(node, peer).write(frame);
        self.moved = true;
        self.note(|| format!("{node} > {peer}  {}", say(&frame)));
        if self.plan.liar == Some(node) {
            self.said.push_back((peer, session, frame));
            if self.said.len() > 24 {
                self.said.pop_front();
            }
        }
        self.hint(node, peer);
        true
    }

    /// Hints to a peer that this session has a message. The hint may be lost or doubled.
    pub(super) fn hint(&mut self, node: usize, peer: usize) {
        if !self.healing && self.random.permille(self.plan.weather.hints_lost) {
            self.counts.hints_lost += 1;
            return;
        }
        self.nodes[peer].hints.noted[node] = true;
        if !self.healing && self.random.permille(self.plan.weather.hints_doubled) {
            self.counts.hints_doubled += 1;
            let other = self.random.index(self.plan.nodes);
            self.nodes[peer].hints.noted[other] = true;
        }
    }

    /// Sends a frame that must arrive: it waits if there is no room.
    pub(super) fn owe(&mut self, node: usize, peer: usize, head: Head, body: Body) {
        let frame = Frame { words: head.words(), extensions: [0; 5], body, written: 0 };
        self.owe_frame(node, peer, frame);
    }

    pub(super) fn owe_frame(&mut self, node: usize, peer: usize, frame: Frame) {
        let Some(end) = self.end(node, peer) else { return };
        if !end.core.outbound().is_barred() && self.write(node, peer, frame) {
            return;
        }
        if let Some(core) = self.core(node, peer) {
            self.queued(node, peer, core.queue_frame(frame));
        }
    }

    /// Returns the frame of a request.
    pub(super) fn request(
        &self,
        node: usize,
        out: &Out,
        buffer: Option<(Use, usize)>,
        granted: Option<u64>,
    ) -> Frame {
        let bytes = self.asks[out.id as usize].bytes;
        let mut flags = Flags::NONE;
        let mut extensions = [0; 5];
        let mut put = |flag: Flags, value: u64| {
            extensions[flags.extension_bytes() as usize / 8] = value;
            flags = flags.with(flag);
        };
        if let Some(left) = out.deadline.remaining(self.clock(node)) {
            put(Flags::DEADLINE, left);
        }
        if let Some((usage, at)) = buffer {
            let placed = Placed { slab: usage as u16, index: at as u16, len: bytes };
            put(Flags::PLACED, placed.as_u64());
        }
        if let Some(number) = granted {
            put(Flags::GRANTED, number);
        }
        if let Some(refusals) = out.refusals {
            put(Flags::REFUSABLE, refusals);
        }
        if let Some(most) = out.most {
            put(Flags::EXTENDABLE, most.saturating_sub(self.clock(node)));
        }
        let inline = if buffer.is_some() { 0 } else { bytes };
        let len = flags.extension_bytes() + inline;
        let operation = self.asks[out.id as usize].carries.operation();
        let head = match (out.call, operation) {
            (Some(call), Some(operation)) => {
                Head::operation(Operation::Stream(operation).code(), call, len)
            }
            (Some(call), None) => Head::call(METHOD, call, len),
            (None, _) => Head::oneway(METHOD, len),
        };
        let body = if buffer.is_some() { Body::None } else { Body::Request(out.id) };
        Frame { words: head.with_flags(flags).words(), extensions, body, written: 0 }
    }

    /// The caller gives a call up. Returns the task that waited for it.
    pub(super) fn give_up(
        &mut self,
        node: usize,
        peer: usize,
        call: CallNumber,
        fate: Fate,
    ) -> Result<Option<usize>, Fault> {
        self.nodes[node].calls.open.retain(|open| !(open.peer == peer && open.call == call));
        self.moved = true;
        let Some(end) = self.end(node, peer) else { return Ok(None) };
        let unsent = end.senders.iter().find(|out| out.call == Some(call)).copied();
        let waiter = if let Some(out) = unsent {
            end.senders.remove(out.id);
            let waiter = end.core.calls().close(call);
            let mut next = Vec::new();
            if let Some(ticket) = out.ticket {
                end.core.outbound().leave(ticket, |id| next.push(id));
            }
            self.wake(node, peer, next);
            out.number.map(|number| self.withdraw(node, peer, number));
            waiter
        } else {
            let waiter = match end.core.calls().abandon(call) {
                Abandon::Cancel(waiter) => waiter,
                other => return violated(format!("{call} is given up and was {other:?}"))?,
            };
            self.check.given_up(waiter.id);
            self.owe(node, peer, Head::cancel(call), Body::Cancel(waiter.id));
            self.note(|| format!("{node} gives up {call}, which was sent to {peer}: {fate:?}"));
            self.ended(node, waiter.id, fate)?;
            return Ok(waiter.task);
        };
        let Some(waiter) = waiter else {
            return violated(format!("{call} is given up and not open"))?;
        };
        self.note(|| format!("{node} gives up {call}, which was not sent to {peer}: {fate:?}"));
        self.ended(node, waiter.id, fate)?;
        self.check.never(waiter.id)?;
        Ok(waiter.task)
    }

    pub(super) fn withdrawn(&mut self, node: usize, peer: usize, number: u64) {
        self.counts.withdrawals += 1;
        self.owe(node, peer, Head::withdraw(number), Body::None);
    }
}

/// Describes a frame.
pub(super) fn say(frame: &Frame) -> String {
    match Head::parse(frame.words) {
        Ok(head) => format!(
            "{} {} len {} flags {} {:?} {:?}",
            head.kind.name(),
            head.call,
            head.len,
            head.flags.bits(),
            frame.extensions,
            frame.body
        ),
        Err(rule) => format!("{rule}"),
    }
}
