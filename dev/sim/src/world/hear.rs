//! Receiving: a node reads every frame by its head, and flow control and
//! the tables of calls make every decision.

use upbeat_core::channel::call::{Answered, Deadline};
use upbeat_core::fault::Rule;
use upbeat_core::flow::{Budget, ReceiverAction};
use upbeat_core::frame::{FailCode, Flags, Head, Kind, Placed};
use upbeat_core::limits::SHORT_BYTES;
use upbeat_core::session::{Cancelled, UnreadReply};

use std::rc::Rc;

use super::{Fault, Gone, Held, Node, Open, Payload, State, Task, Waiter, World, send};
use crate::check::violated;
use crate::plan::ANSWER_BYTES_MAX;
use crate::wire::{Body, Came, Frame, Use};

impl World {
    /// Reads at most `most` packets that have come from a peer.
    pub(super) fn read(&mut self, node: usize, peer: usize, most: usize) -> Result<(), Fault> {
        let mut heard = false;
        for _ in 0..most {
            if self.nodes[node].ends[peer].is_none() {
                return Ok(());
            }
            let Some(came) = self.wire(peer, node).next() else { break };
            self.moved = true;
            match came {
                Came::Word(word) => self.see_word(node, peer, word),
                Came::Torn(frame) if !self.lies(node, peer) => {
                    let frame = send::say(&frame);
                    return violated(format!("{frame} comes to {node} before its payload"))?;
                }
                Came::Frame(frame) | Came::Torn(frame) => {
                    self.note(|| format!("{node} < {peer}  {}", send::say(&frame)));
                    self.hear(node, peer, frame)?;
                    heard = true;
                }
            }
        }
        if heard { self.step(node, peer) } else { Ok(()) }
    }

    fn hear(&mut self, node: usize, peer: usize, frame: Frame) -> Result<(), Fault> {
        if let Body::Cancel(id) = frame.body
            && !self.lies(node, peer)
        {
            self.check.told(id, self.time);
        }
        let head = Head::parse(frame.words)?;
        let number = head.call.as_u64();
        match head.kind {
            Kind::Call | Kind::Oneway | Kind::Operation => {
                self.request_came(node, peer, head, &frame)
            }
            Kind::Reserve => {
                let Some(end) = self.end(node, peer) else { return Ok(()) };
                let bytes = frame.extensions[0];
                end.core.inbound().reserve(bytes)?;
                let number =
                    end.core.inbound().accepted() + end.core.inbound().waiting() as u64 - 1;
                end.away.insert(number, (bytes, false));
                Ok(())
            }
            Kind::Withdraw => self.void(node, peer, number),
            Kind::Nack => {
                self.counts.nacks += 1;
                let Some(end) = self.end(node, peer) else { return Ok(()) };
                Ok(end.core.outbound().refused(number)?)
            }
            Kind::Grant => self.grant_came(node, peer, number),
            Kind::Reply | Kind::Failed => self.answer_came(node, peer, head, &frame),
            Kind::Cancel => self.cancel_came(node, peer, head),
            Kind::Control => self.control_came(node, peer, &head),
            Kind::Extend | Kind::Extended => self.time_came(node, peer, &head, &frame),
            kind => self.wrong(node, peer, kind, "a frame that nobody sends"),
        }
    }

    fn request_came(
        &mut self,
        node: usize,
        peer: usize,
        head: Head,
        frame: &Frame,
    ) -> Result<(), Fault> {
        let extension = |flag: Flags| {
            let offset = head.flags.offset_of(flag)?;
            Some(frame.extensions[offset as usize / 8])
        };
        let placed = extension(Flags::PLACED).map(Placed::from_u64);
        let usage =
            |slab: u16| if slab == Use::Granted as u16 { Use::Granted } else { Use::Requests };
        let (what, len) = match (placed, frame.body) {
            (Some(Placed { slab, index, len }), _) => {
                (Payload::Buffer(usage(slab), index as usize), len)
            }
            (None, Body::Request(id)) => (Payload::Here(id), head.body_bytes()),
            (None, _) => return self.wrong(node, peer, head.kind, "a request without arguments"),
        };
        if let Payload::Buffer(usage, buffer) = what
            && self.wire(peer, node).buffer(usage, buffer).is_none()
        {
            return self.wrong(node, peer, head.kind, "a payload in a buffer that does not exist");
        }
        let now = self.clock(node);
        let deadline = extension(Flags::DEADLINE);
        let extendable = deadline.and(extension(Flags::EXTENDABLE)).is_some();
        let deadline = deadline.map_or(Deadline::NEVER, |left| Deadline::after(now, left));
        let bytes = Budget::price(len as usize);
        let call = head.kind.is_answered().then_some(head.call);
        let on_way = self.time.saturating_sub(frame.written);
        let refusals = None;
        let in_ring = matches!(what, Payload::Here(_)) && len as usize > SHORT_BYTES;
        let copied = if in_ring { len as usize } else { 0 };
        let granted = extension(Flags::GRANTED);
        let held =
            Held { what, copied, granted, call, deadline, extendable, refusals, on_way, bytes };
        if let Some(number) = granted {
            let Some(end) = self.end(node, peer) else { return Ok(()) };
            end.core.inbound().fill(number, held, len as usize)?;
            return Ok(());
        }
        let may = self.may(node, peer, bytes);
        let (owes, others_owe) = (self.owes(node, peer), self.others_owe(node));
        let Some(core) = self.core(node, peer) else { return Ok(()) };
        let receives = core.inbound();
        let may = may && receives.waiting() == 0 && !owes;
        // A node sees the replies that others owe only when it looks at those sessions.
        let is_vague = may && others_owe && core.owed().1 > 0;
        let placed = matches!(what, Payload::Buffer(..)).then_some(len as usize);
        let admits = core.may_accept(false, placed, &self.nodes[node].shared_budget);
        if admits != may && !is_vague {
            return violated(format!("a request of {bytes}: admitted is {admits}, not {may}"))?;
        }
        if admits {
            receives.accept();
            // A request that has waited for room is not sent back.
            let refusals = extension(Flags::REFUSABLE);
            return self.start(node, peer, Held { refusals, ..held });
        }
        let placed = receives.keep(held, len as usize)?;
        self.counts.kept += 1;
        if let Some(number) = placed.nack {
            self.owe(node, peer, Head::nack(number), Body::None);
        }
        Ok(())
    }

    /// Accepts and grants as much as possible.
    pub(super) fn step(&mut self, node: usize, peer: usize) -> Result<(), Fault> {
        loop {
            let owes = self.owes(node, peer);
            let Node { ends, shared_budget, .. } = &mut self.nodes[node];
            let Some(end) = &mut ends[peer] else { return Ok(()) };
            if end.core.inbound().waiting() == 0 {
                end.core.look_clear(shared_budget);
                return Ok(());
            }
            let step = end.core.step(shared_budget);
            self.close_if_full(node);
            let Some(end) = self.end(node, peer) else { return Ok(()) };
            match step {
                None => return Ok(()),
                Some(ReceiverAction::Grant(number)) => {
                    let Some(&(bytes, before)) = end.away.get(&number) else {
                        return violated(format!("{number} is granted, which is not away"))?;
                    };
                    if before || !self.may(node, peer, bytes) {
                        return violated(format!("{number} is granted without room, or twice"))?;
                    }
                    if let Some(end) = self.end(node, peer) {
                        end.away.insert(number, (bytes, true));
                    }
                    self.owe(node, peer, Head::grant(number), Body::None);
                }
                Some(ReceiverAction::Accept { request, bytes }) => {
                    let number = end.core.inbound().accepted() - 1;
                    let granted = end.away.remove(&number).is_some_and(|(_, granted)| granted);
                    if !granted && !self.may(node, peer, bytes) {
                        return violated(format!("{number} is accepted without room"))?;
                    }
                    if owes {
                        return violated(format!("{number} is accepted, and many replies wait"))?;
                    }
                    if request.bytes > bytes {
                        let len = request.bytes;
                        return violated(format!("{number} has {len} bytes, in room for {bytes}"))?;
                    }
                    self.start(node, peer, request)?;
                }
            }
            self.moved = true;
        }
    }

    /// The peer takes back the room that it has asked for.
    fn void(&mut self, node: usize, peer: usize, number: u64) -> Result<(), Fault> {
        let Node { ends, shared_budget, .. } = &mut self.nodes[node];
        let Some(end) = &mut ends[peer] else { return Ok(()) };
        let held = end.core.withdrawn(number, shared_budget)?;
        end.away.remove(&number);
        self.nodes[node].pressed = true;
        held.into_iter().for_each(|held| self.return_held(node, peer, held));
        Ok(())
    }

    fn return_held(&mut self, node: usize, peer: usize, held: Held) {
        if let Payload::Buffer(usage, buffer) = held.what {
            self.give_back(node, peer, Some((usage, buffer)));
        }
    }

    fn grant_came(&mut self, node: usize, peer: usize, number: u64) -> Result<(), Fault> {
        self.counts.grants += 1;
        let now = self.now();
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        if let Some(id) = end.core.outbound().granted(number, now)? {
            self.wake(node, peer, vec![id]);
        }
        Ok(())
    }

    fn answer_came(
        &mut self,
        node: usize,
        peer: usize,
        head: Head,
        frame: &Frame,
    ) -> Result<(), Fault> {
        let call = head.call;
        let placed = head.flags.offset_of(Flags::PLACED);
        let placed = placed.map(|at| Placed::from_u64(frame.extensions[at as usize / 8]));
        let buffer = placed.map(|placed| placed.index as usize);
        let lies = self.lies(node, peer);
        let Some(end) = self.end(node, peer) else { return Ok(()) };
        if lies && end.senders.iter().any(|out| out.call == Some(call)) {
            let (index, generation) = (call.index(), call.generation());
            return Err(Rule::NotOpen { index, generation }.into());
        }
        // A task reads its reply in place, and so does a caller that was sent back. A program's future comes for it
        // later.
        let refused = frame.body == Body::Failure(FailCode::Refused);
        let core = Rc::clone(&end.core);
        let waiter = core.calls().waiter(call);
        let answered = match waiter {
            Some(Waiter { task: None, .. }) if !refused => match core.calls().answer(call)? {
                Answered::Waiting(waiter) => Some(waiter),
                Answered::Abandoned => None,
            },
            _ => core.calls().take(call)?,
        };
        let Some(waiter) = answered else {
            self.came_late(node, peer, buffer);
            return Ok(());
        };
        let its = |open: &mut Open| open.peer == peer && open.call == call;
        let open = self.nodes[node].calls.open.extract_if(.., its).next();
        if let Some(open) = open.filter(|_| refused && waiter.task.is_none()) {
            return self.sent_back(node, waiter.id, open);
        }
        let there = buffer.map(|at| self.wire(peer, node).buffer(Use::Answers, at).copied());
        if there.is_some_and(|there| there.is_none_or(|there| there.is_back())) {
            self.failed(waiter.id, frame.body)?;
            let answered = waiter.task.is_none().then_some((peer, call, 0));
            self.nodes[node].calls.answered.extend(answered);
            if let Some(task) = waiter.task {
                self.resume(node, task)?;
            }
            return self.wrong(node, peer, head.kind, "an answer in a buffer that is not lent");
        }
        let result = match (there.flatten(), frame.body) {
            (Some(there), _) => Some(there.content),
            (None, Body::Result(id)) => Some(id),
            _ => None,
        };
        let bytes = placed.map_or(head.body_bytes(), |placed| placed.len) as usize;
        let unread = match waiter.task {
            None => core.keep_unread(bytes, || false),
            Some(_) => UnreadReply::InPlace,
        };
        if core.unread() >= self.plan.unread + ANSWER_BYTES_MAX && !lies {
            let unread = core.unread();
            return violated(format!("{node} keeps {unread} bytes that nobody reads"))?;
        }
        if unread == UnreadReply::Dropped && core.unread() < self.plan.unread {
            let unread = core.unread();
            return violated(format!(
                "{node} drops a reply, and keeps only {unread} unread bytes"
            ))?;
        }
        self.counts.unread += u64::from(unread == UnreadReply::Dropped);
        match result.filter(|_| unread != UnreadReply::Dropped) {
            Some(id) => self.check.replied(waiter.id, id)?,
            None => self.failed(waiter.id, frame.body)?,
        }
        let Some(task) = waiter.task else {
            let copied = if unread == UnreadReply::Copied { bytes } else { 0 };
            self.nodes[node].calls.answered.push((peer, call, copied));
            self.give_back(node, peer, buffer.map(|at| (Use::Answers, at)));
            return Ok(());
        };
        // A handler may read a reply in place for a while.
        self.resume(node, task)?;
        let until = self.clock(node) + self.random.pick(&[0, 0, 50]);
        let session = self.wire(peer, node).session;
        if let Some(task) = &mut self.nodes[node].tasks[task] {
            task.state = State::Until(until);
            task.answer = buffer.map(|buffer| (peer, buffer, session));
        }
        self.nodes[node].calls.due_at(until);
        Ok(())
    }

    /// A reply comes to a call that was abandoned: nobody takes it.
    fn came_late(&mut self, node: usize, peer: usize, buffer: Option<usize>) {
        self.counts.late += 1;
        self.give_back(node, peer, buffer.map(|at| (Use::Answers, at)));
    }

    fn cancel_came(&mut self, node: usize, peer: usize, head: Head) -> Result<(), Fault> {
        let Node { ends, shared_budget, .. } = &mut self.nodes[node];
        let Some(end) = &mut ends[peer] else { return Ok(()) };
        let call = head.call;
        let held = match end.core.cancel(call, |held| held.call == Some(call), shared_budget) {
            Cancelled::Task(task) => {
                if self.goes_on(node, task, Gone::Told)? {
                    return Ok(());
                }
                self.counts.cancelled += 1;
                return self.stop(node, task, Some(FailCode::Cancelled));
            }
            Cancelled::Kept(held) => held,
            Cancelled::Gone => {
                let ended = end.streams.handle_cancel(call);
                return self.end_streams(ended);
            }
        };
        if let Some(number) = held.granted {
            end.away.remove(&number);
        }
        self.nodes[node].pressed = true;
        self.return_held(node, peer, held);
        self.owe(node, peer, Head::failed(call, 1), Body::Failure(FailCode::Cancelled));
        Ok(())
    }

    /// Returns whether a request may be accepted now, by the bytes that the node really holds.
    fn may(&self, node: usize, peer: usize, bytes: u64) -> bool {
        let (all, own) = self.holds(node, peer);
        let tasks = self.nodes[node].tasks.iter().flatten();
        let lacks = |task: &&Task| matches!(task.state, State::Lacks(_)) && task.gone != Gone::Lost;
        let lacking = tasks.filter(|task| task.peer == peer).filter(lacks).map(|task| task.bytes);
        let lacking = lacking.sum::<u64>();
        let spare = own == lacking
            && lacking < upbeat_core::limits::WAITERS_AHEAD_BYTES
            && bytes <= Budget::price(upbeat_core::limits::MEDIUM_BYTES_MAX);
        own < self.plan.share && (all < self.plan.budget || spare)
    }

    /// Returns whether too many replies wait in a session for its requests to be accepted.
    fn owes(&self, node: usize, peer: usize) -> bool {
        self.nodes[node].ends[peer].as_ref().is_some_and(|end| end.core.owed().1 >= self.plan.ahead)
    }

    /// Returns whether too many replies wait in all sessions of a node.
    fn others_owe(&self, node: usize) -> bool {
        self.nodes[node].replies.budget().held() >= self.plan.budget.max(self.plan.ahead)
    }

    /// Returns the bytes that a node holds while it does not wait for others: of all sessions, and of one.
    pub(super) fn holds(&self, node: usize, peer: usize) -> (u64, u64) {
        let mut held = (0, 0);
        let mut add = |of: usize, bytes: u64| {
            held.0 += bytes;
            held.1 += if of == peer { bytes } else { 0 };
        };
        for task in self.nodes[node].tasks.iter().flatten() {
            let awaits = matches!(task.state, State::Calls { .. } | State::Streams);
            let bytes = if awaits { 0 } else { task.bytes };
            add(if task.gone == Gone::Lost { usize::MAX } else { task.peer }, bytes);
        }
        for (of, end) in self.nodes[node].ends.iter().enumerate() {
            for (bytes, granted) in end.iter().flat_map(|end| end.away.values()) {
                add(of, if *granted { *bytes } else { 0 });
            }
        }
        held
    }

    /// A frame has come that only the liar sends.
    pub(super) fn wrong(
        &self,
        node: usize,
        peer: usize,
        kind: Kind,
        what: &str,
    ) -> Result<(), Fault> {
        match self.lies(node, peer) {
            true => Err(Rule::OutOfPlace { kind: kind.byte(), state: "open" }.into()),
            false => violated(what)?,
        }
    }

    /// A peer has broken a rule, which honest nodes must not do to each other.
    pub(super) fn broken(&mut self, node: usize, peer: usize, rule: Rule) -> Result<(), Fault> {
        if !self.lies(node, peer) {
            return violated(format!("node {node} finds a rule broken by {peer}: {rule}"))?;
        }
        self.counts.rules += 1;
        self.note(|| format!("{node} finds a rule broken by {peer}: {rule}"));
        self.part(node, peer)
    }
}
