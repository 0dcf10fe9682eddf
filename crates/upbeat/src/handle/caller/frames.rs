//! Handles the frames that arrive in a handle's session.
//!
//! A handle serves nothing and has no tasks: the only frames are replies, and those of the session itself.

use super::Caller;
use crate::driver::{Driver, Main, take_frames};
use crate::sampling::take_sampled;
use crate::session::{Fault, Session};
use crate::wake::TaskId;
use upbeat_core::bill::way::StampMode;
use upbeat_core::frame::{CallNumber, FailCode, Head};
use upbeat_environment::time::now_ns;

impl Caller {
    /// Takes over every frame that has arrived. Replies are kept for their waiters.
    pub(in crate::handle) fn drain(&self) {
        self.drain_for(&mut |_| ());
    }

    /// Takes over every frame that has arrived. `main` is polled while the reply that it waits for lies open.
    #[inline]
    pub(in crate::handle) fn drain_for(&self, main: Main<'_>) {
        let mut has_taken = false;
        loop {
            let pass = PassOnPanic(&self.session);
            let taken = take_frames(self, main);
            std::mem::forget(pass);
            match taken {
                Ok(0) => break,
                Ok(_) => {
                    has_taken = true;
                    self.sampling.drained();
                }
                Err(fault) => return self.end(*fault),
            }
        }
        if has_taken {
            self.session.publish_progress();
        }
        if self.session.is_pressed() {
            self.session.settle(false);
        }
        if self.session.is_unflushed() || self.session.peer_wants_room() {
            self.flush();
        }
    }

    #[cold]
    fn refuse(&self, call: CallNumber) {
        if call != CallNumber::NONE {
            self.session.fail(call, FailCode::NoSuchMethod, "a handle serves nothing");
        }
    }
}

/// A guard that passes the open frame when a value that is read from it panics, so that the session goes on.
struct PassOnPanic<'s>(&'s Session);

impl Drop for PassOnPanic<'_> {
    fn drop(&mut self) {
        self.0.advance();
        self.0.publish_progress();
    }
}

/// A handle serves nothing and has no tasks.
impl<'c> Driver<'c> for &'c Caller {
    #[inline(always)]
    fn session(self) -> &'c Session {
        &self.session
    }

    fn run(self, words: &[u64; 3]) {
        self.refuse(CallNumber::from_u64(words[1]));
    }

    fn request(self, head: &Head) -> Result<(), Fault> {
        self.refuse(head.call);
        Ok(())
    }

    fn poll_task(self, _: TaskId) {}

    fn sampled(self, words: &[u64; 3], manner: StampMode, main: Main<'_>) -> Result<(), Fault> {
        take_sampled(self, &self.sampling, words, manner, main, |words, _| {
            self.refuse(CallNumber::from_u64(words[1]));
            Ok(())
        })
    }

    fn stamps(self, head: &Head) -> Result<(), Fault> {
        self.sampling.stamps_arrived(&self.session, head).map(drop)
    }

    fn now_ns(self) -> u64 {
        now_ns()
    }

    fn reads_socket(self) {
        self.noted.heard.set(true);
    }
}
