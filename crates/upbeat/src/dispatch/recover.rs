//! Handles panics: a panic ends the call, or the task, that it came from, and nothing else.
//!
//! One `catch_unwind` covers all turns, because one around each handler would cost each message something. So a panic
//! leaves its turn. Invariant: what the turn had left to do is done all the same, however often handlers panic.

use super::{Dispatcher, Main, Running};
use crate::contain::{drop_payload, panic_text, take_contained};
use crate::session::Session;
use crate::task::Caller;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, FailCode};
use upbeat_environment::WorldIsOver;

impl Dispatcher {
    /// Handles a panic that has come out of a turn, and finishes the turn: sessions behind the one that had its turn,
    /// waiters, tasks, peers that are to be woken, timers and sockets. A panic of the main future is resumed instead.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_panicked(self: &Rc<Self>, panic: Box<dyn Any + Send>, main: Main<'_>) {
        let hot = self.peers.hot.hold().to_vec();
        let behind = hot.iter().position(has_open_frame).map_or(hot.len(), |at| at + 1);
        self.recover(panic);
        for session in &hot[behind..] {
            self.contained(|| self.drain(session, main));
        }
        // The next turn goes on where one of these panics as well: it looks at the lanes first.
        if self.pressed.is_any() {
            self.contained(|| self.see_to_pressed(true, main));
        }
        if self.work.roster.any() {
            self.contained(|| self.run_woken(main));
        }
        if self.home.board().is_marked() {
            self.sweep();
        }
        self.flush_all();
        self.check_behind_turn();
        if self.waits.ticker.turn() {
            self.contained(|| self.tick_busy());
        }
    }

    /// Does a part of a turn, and handles its panic.
    pub(super) fn contained<R>(self: &Rc<Self>, part: impl FnOnce() -> R) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(part)) {
            self.recover(panic);
        }
    }

    /// Handles a panic: the call, or the task, that it came from is ended; the open frame is passed, and the node
    /// goes on. A panic of the main future is resumed as well.
    fn recover(self: &Rc<Self>, panic: Box<dyn Any + Send>) {
        let text = panic_text(&*panic);
        self.count(Counter::Panics);
        self.unflushed.sent();
        self.forget_budget();
        self.unbound();
        self.keep_ready();
        let running = self.running();
        self.run.running.set(Running::Nothing);
        self.run.current.end();
        let open = self.open_frame();
        let hand = open.as_ref().and_then(|session| session.noted.key.get());
        let caller = match running {
            Running::Handler(call) => {
                let call = Some(call).filter(|call| *call != CallNumber::NONE);
                Some(Caller { session: hand, call })
            }
            Running::Kept(key, call) => {
                // Requests that wait behind this one, in this session and in others, still need a look.
                if let Some(session) = self.session(key) {
                    self.await_turn(&session);
                }
                self.pressed.set(true);
                let call = Some(call).filter(|call| *call != CallNumber::NONE);
                Some(Caller { session: Some(key), call })
            }
            Running::Task(id) => {
                let caller = self.work.tasks.end_panicked(id, &text);
                self.press_if_freed();
                caller
            }
            Running::Nothing => None,
        };
        if let Some(Caller { session: Some(key), call }) = caller
            && let Some(session) = self.session(key)
        {
            let promoted = matches!(running, Running::Task(_));
            match call {
                Some(call) => {
                    session.serving().remove(call);
                    session.fail(call, FailCode::Panicked, &text);
                }
                None if promoted => session.end_oneway(),
                None => {}
            }
        }
        if let Some(session) = open {
            match session.keep_answer() {
                Ok(_) => {
                    session.advance();
                    session.publish_progress();
                }
                Err(why) => self.lose(&session, *why),
            }
        }
        if matches!(running, Running::Nothing) || panic.is::<WorldIsOver>() {
            resume_unwind(panic);
        }
        drop_payload(panic);
    }

    /// Adds the panics of dropped values to the count of panics.
    pub(super) fn tally_contained(&self) {
        self.count_more(Counter::Panics, take_contained() + self.work.roster.take_contained());
    }

    /// Returns the session whose frame is being taken over.
    fn open_frame(&self) -> Option<Rc<Session>> {
        self.sessions().into_iter().find(has_open_frame)
    }
}

fn has_open_frame(session: &Rc<Session>) -> bool {
    session.carrier.reader().is_open()
}
