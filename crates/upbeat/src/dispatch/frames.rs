//! Handles the frames that a turn finds in the hot lanes.
//!
//! [`driver`](crate::driver) has the match of frames; this file has a node's actions for them.

use super::{Cause, Dispatcher, Main, Request, Running};
use crate::driver::{Driver, take_frames};
use crate::session::{Fault, Served, Session};
use crate::wake::TaskId;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::StampMode;
use upbeat_core::channel::Control;
use upbeat_core::frame::{CallNumber, Head};

impl Dispatcher {
    /// Looks at the hot lanes and takes over the frames that have arrived. Looks up to so many times, while there is
    /// nothing to take over and nothing else to do. Returns whether a frame has arrived. The loop is short, because
    /// its duration adds to the latency of a message.
    #[inline(always)]
    pub(super) fn look(self: &Rc<Self>, hot: &[Rc<Session>], looks: u32, main: Main<'_>) -> bool {
        let mut left = looks;
        loop {
            let mut came = false;
            for session in hot {
                came |= self.drain(session, main);
            }
            left -= 1;
            if came || left == 0 || self.work.roster.any() || self.home.board().is_marked() {
                return came;
            }
            // A single look is not noted, because the duration of its loop elsewhere is not known.
            self.account.sampling.looked_in_vain();
            std::hint::spin_loop();
        }
    }

    /// Takes over the frames of a lane. Returns whether there were any. A session whose peer breaks a rule
    /// ends.
    #[inline(always)]
    pub(super) fn drain(self: &Rc<Self>, session: &Rc<Session>, main: Main<'_>) -> bool {
        match take_frames(OfNode { node: self, session }, main) {
            Ok(0) => false,
            Ok(frames) => {
                self.contract.taken(frames);
                self.account.sampling.drained();
                session.publish_progress();
                if session.peer_wants_room() {
                    self.relieve(session);
                }
                true
            }
            Err(why) => {
                self.lose(session, *why);
                true
            }
        }
    }

    /// Runs a plain call, or a plain one-way message, whose number is none, where it lies.
    #[inline(always)]
    pub(super) fn call(self: &Rc<Self>, session: &Rc<Session>, words: &[u64; 3]) {
        let (call, len) = (CallNumber::from_u64(words[1]), Head::len_in(words));
        let number = words[2] as u16;
        let methods = self.served.methods.hold();
        let Some(entry) = methods.get(usize::from(number).wrapping_sub(1)) else {
            drop(methods);
            let oneway = call == CallNumber::NONE;
            let head =
                if oneway { Head::oneway(number, len) } else { Head::call(number, call, len) };
            let payload = session.plain_payload(len);
            let (kind, deadline_us, refusals) = (head.kind, None, None);
            let (extendable, context) = (false, None);
            let request =
                Request { kind, call, deadline_us, refusals, extendable, context, payload };
            let running = Running::Handler(call);
            return self.request_slowly(session, &head, request, running);
        };
        self.run.running.set(Running::Handler(call));
        self.run.method.set(number);
        entry.method.call(self, session, call, len);
        self.ran();
    }

    #[inline(always)]
    pub(super) fn ran(&self) {
        self.run.running.set(Running::Nothing);
        self.unflushed.sent();
    }
}

/// A node as the driver of one of its sessions.
#[derive(Clone, Copy)]
pub(super) struct OfNode<'s> {
    pub(super) node: &'s Rc<Dispatcher>,
    pub(super) session: &'s Rc<Session>,
}

impl<'s> Driver<'s> for OfNode<'s> {
    fn took_most(self) {
        self.node.check_behind_turn();
    }

    #[inline(always)]
    fn session(self) -> &'s Session {
        self.session
    }

    #[inline(always)]
    fn count(self, counter: Counter) {
        self.node.count(counter);
    }

    #[inline(always)]
    fn run(self, words: &[u64; 3]) {
        self.node.call(self.session, words);
    }

    fn request(self, head: &Head) -> Result<(), Fault> {
        self.node.request_came(self.session, head)
    }

    #[inline(always)]
    fn poll_task(self, task: TaskId) {
        self.node.run(task, Cause::Answered);
    }

    /// Returns whether a handler of the session has used up its time.
    fn must_pause(self) -> bool {
        self.node.run.polled.is_late() && !self.session.is_clear()
    }

    fn sampled(self, words: &[u64; 3], manner: StampMode, main: Main<'_>) -> Result<(), Fault> {
        self.node.sampled(self.session, words, manner, main)
    }

    fn stamps(self, head: &Head) -> Result<(), Fault> {
        self.node.stamps_arrived(self.session, head)
    }

    fn cancel(self, call: CallNumber) {
        self.node.cancel_call(self.session, call);
    }

    fn channel_control(self, control: Control, number: u32) {
        let Control::Stream(control) = control;
        let ended = self.node.stream_control(self.session, control, number);
        self.node.count_more(Counter::OrphansEnded, ended);
    }

    fn withdraw(self, head: &Head) -> Result<(), Fault> {
        self.session.withdrawn(head, self.node.flow.budgets.requests())?;
        self.node.pressed.set(true);
        Ok(())
    }

    fn now_ns(self) -> u64 {
        self.node.now_ns()
    }

    fn end_of_lease(self, served: Served) -> Option<u64> {
        Some(self.node.lease(served)?.end())
    }

    fn ask_above(self, served: Served, wanted: u64, call: CallNumber) {
        self.node.ask_above(served, wanted, (self.session, call));
    }

    fn sent(self) {
        self.node.sent(self.session);
    }

    fn extension_answered(self, head: &Head) {
        self.node.extension_answered(self.session, head);
    }
}
