//! What a turn does with the frames that it finds in the hot lanes.
//!
//! The common path is here: a request is polled where it lies, and a reply lies open while whoever waits
//! for it is polled. Invariant: a frame is taken over and passed, or its session ends.

use super::{Cause, Dispatcher, Main, Request, Running};
use crate::session::{Fault, Session, Waiter, misbehaved};
use crate::wake::{MAIN, TaskId};
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, Head, Kind, Plain};
use upbeat_core::limits::FLUSH_MESSAGES;
use upbeat_memory::ring::{Look, SHORT};

impl Dispatcher {
    /// Looks at the hot lanes and takes over what has come; up to so many times, as long as there is
    /// nothing, nor anything else to do. Returns whether something has come. The loop is short, for what
    /// it takes is time that a message waits.
    #[inline(always)]
    pub(super) fn look(self: &Rc<Self>, hot: &[Rc<Session>], looks: u32, main: Main<'_>) -> bool {
        let mut left = looks;
        loop {
            let mut came = false;
            for session in hot {
                came |= self.drain(session, main);
            }
            left -= 1;
            if came || left == 0 || self.roster.any() || self.home.board().is_marked() {
                return came;
            }
            // Not where there is but one look: who knows how long its loop will be elsewhere.
            self.sampling.looked_in_vain();
            std::hint::spin_loop();
        }
    }

    /// Takes over the frames of a lane. Returns whether there were any. A session whose peer breaks a rule
    /// ends.
    #[inline(always)]
    pub(super) fn drain(self: &Rc<Self>, session: &Rc<Session>, main: Main<'_>) -> bool {
        match self.take_frames(session, main) {
            Ok(0) => false,
            Ok(frames) => {
                self.contract.taken(frames);
                self.sampling.drained();
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

    #[inline(always)]
    fn take_frames(self: &Rc<Self>, session: &Rc<Session>, main: Main<'_>) -> Result<u32, Fault> {
        let mut frames = 0;
        while frames < FLUSH_MESSAGES as u32 {
            match session.look_next() {
                Look::Nothing => break,
                Look::Short { head, .. } if Head::len_in(&head) as usize > SHORT => {
                    return Err(session.too_long(Head::len_in(&head)));
                }
                Look::Short { kind, head } => match Head::plain(kind, &head) {
                    Plain::Reply => {
                        self.reply(session, &head, main)?;
                        session.advance_short();
                    }
                    Plain::Request if session.is_clear() => {
                        session.accept();
                        self.call(session, &head);
                        session.advance_short();
                    }
                    _ if !self.other(session, head, main)? => break,
                    _ => {}
                },
                Look::Long if !self.long(session, main)? => break,
                Look::Long => {}
            }
            frames += 1;
        }
        Ok(frames)
    }

    /// Takes over a frame that is not of one slot, and passes it. False if there is none, or as for
    /// [`Dispatcher::other`].
    #[inline(never)]
    fn long(self: &Rc<Self>, session: &Rc<Session>, main: Main<'_>) -> Result<bool, Fault> {
        let Some(words) = session.look_long()? else { return Ok(false) };
        match Head::plain_in(&words) {
            Plain::Reply => self.reply(session, &words, main)?,
            Plain::Request if session.is_clear() => {
                session.accept();
                self.call(session, &words);
            }
            _ => return self.other(session, words, main),
        }
        session.advance();
        Ok(true)
    }

    /// Takes over a frame that is neither a plain call nor a plain reply, and passes it. False if the
    /// session has had its turn: a handler of its has used up its time.
    #[inline(never)]
    fn other(
        self: &Rc<Self>,
        session: &Rc<Session>,
        words: [u64; 3],
        main: Main<'_>,
    ) -> Result<bool, Fault> {
        if self.polled.is_late() && !session.is_clear() {
            session.carrier.lanes.reader().put_back();
            return Ok(false);
        }
        if let Some(manner) = Head::manner_in(&words) {
            return self.sampled(session, &words, manner, main).map(|()| true);
        }
        let head = Head::parse(words).map_err(misbehaved)?;
        match head.kind {
            kind if kind.is_request() => {
                self.request_came(session, &head)?;
            }
            Kind::Reply | Kind::Failed => self.answer(session, &head, main)?,
            _ => return self.control(session, head).map(|()| true),
        }
        session.advance();
        Ok(true)
    }

    /// Runs a plain call, or a plain one-way message, whose number is none, where it lies.
    #[inline(always)]
    fn call(self: &Rc<Self>, session: &Rc<Session>, words: &[u64; 3]) {
        let (call, len) = (CallNumber::from_u64(words[1]), Head::len_in(words));
        let number = words[2] as u16;
        let methods = self.methods.borrow();
        let Some(entry) = methods.get(usize::from(number).wrapping_sub(1)) else {
            drop(methods);
            let oneway = call == CallNumber::NONE;
            let head =
                if oneway { Head::oneway(number, len) } else { Head::call(number, call, len) };
            let payload = session.plain_payload(len);
            let (kind, deadline_us, refusals) = (head.kind, None, None);
            let extendable = false;
            let request = Request { kind, call, deadline_us, refusals, extendable, payload };
            return self.request_slowly(session, &head, request);
        };
        self.running.set(Running::Handler(call, number));
        entry.method.call(self, session, call, len);
        self.ran();
    }

    #[inline(always)]
    pub(super) fn ran(&self) {
        self.running.set(Running::Nothing);
        self.unflushed.set(true);
    }

    /// Polls whoever waits for a reply without extensions while it lies open, or has it kept.
    #[inline(always)]
    fn reply(
        self: &Rc<Self>,
        session: &Session,
        words: &[u64; 3],
        main: Main<'_>,
    ) -> Result<(), Fault> {
        let (call, len) = (CallNumber::from_u64(words[1]), Head::len_in(words));
        match session.reply_arrived(call, len) {
            Some(task) => self.poll_answered(task, main),
            None => return self.answer(session, &Head::reply(call, len), main),
        }
        self.keep_answer(session)
    }

    /// Polls a task, or the main future, whose answer lies open.
    #[inline(always)]
    fn poll_answered(self: &Rc<Self>, task: TaskId, main: Main<'_>) {
        self.count(Counter::RepliesInPlace);
        match task {
            MAIN => main(Cause::Answered),
            task => self.run(task, Cause::Answered),
        }
    }

    /// Has an answer kept that was not taken where it lay.
    #[inline(always)]
    fn keep_answer(&self, session: &Session) -> Result<(), Fault> {
        if session.keep_answer()? {
            self.count(Counter::RepliesStashed);
        }
        Ok(())
    }

    /// Polls whoever waits for an answer while it lies open, or has it kept.
    #[inline(always)]
    pub(super) fn answer(
        self: &Rc<Self>,
        session: &Session,
        head: &Head,
        main: Main<'_>,
    ) -> Result<(), Fault> {
        self.answer_with(session, head, main, || ())
    }

    /// The same; `found` is called when it is known who waits.
    #[inline(always)]
    pub(super) fn answer_with(
        self: &Rc<Self>,
        session: &Session,
        head: &Head,
        main: Main<'_>,
        found: impl FnOnce(),
    ) -> Result<(), Fault> {
        let waiter = session.answer_arrived(head)?;
        found();
        match waiter {
            Some(Waiter::Task(task)) => self.poll_answered(task, main),
            Some(Waiter::Waker(waker)) => waker.wake(),
            None => {}
        }
        self.keep_answer(session)
    }
}
