//! What the holder of a handle's session does with the frames that have come.
//!
//! A handle serves nothing and has no tasks: replies, and what a session says of itself, are all that there is.

use super::Caller;
use crate::driver::{Driver, Main, take_frames};
use crate::handle::lasting::now_ns;
use crate::sampling::take_sampled;
use crate::session::{Fault, Session};
use crate::wake::TaskId;
use upbeat_core::bill::way::Manner;
use upbeat_core::frame::{CallNumber, FailCode, Head};
use upbeat_core::term::Step;

impl Caller {
    /// Takes over every frame that has come. Replies are kept for their waiters.
    pub(in crate::handle) fn drain(&self) {
        self.drain_for(&mut |_| ());
    }

    /// Takes over every frame that has come. `main` is polled while the reply lies open that it waits for.
    #[inline]
    pub(in crate::handle) fn drain_for(&self, main: Main<'_>) {
        let before = self.session.carrier.lanes.reader().taken();
        loop {
            let pass = PassOnPanic(&self.session);
            let taken = take_frames(self, main);
            std::mem::forget(pass);
            match taken {
                Ok(0) => break,
                Ok(_) => self.sampling.drained(),
                Err(fault) => return self.end(*fault),
            }
        }
        if self.session.carrier.lanes.reader().taken() != before {
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

/// Passes the frame that lies open when a value that is read from it panics, so that the session goes on.
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

    fn sampled(self, words: &[u64; 3], manner: Manner, main: Main<'_>) -> Result<(), Fault> {
        take_sampled(self, &self.sampling, words, manner, main, |words, _| {
            self.refuse(CallNumber::from_u64(words[1]));
            Ok(())
        })
    }

    fn stamps(self, head: &Head) -> Result<(), Fault> {
        self.sampling.stamps_arrived(&self.session, head).map(drop)
    }

    fn extension_asked(self, head: &Head) {
        let now = now_ns();
        let wanted = now.saturating_add(self.session.first_word().saturating_mul(1000));
        let mut terms = self.terms.borrow_mut();
        let term = terms.get_mut(&head.call.as_u64());
        let step = term.map_or(Step::Refused, |term| term.extend(wanted, None));
        if let Step::Granted(end) = step {
            // A thread that blocks waits for this call and for no other.
            self.until.set(self.until.get().map(|_| end));
        }
        let left = step.left(now).map_or(0, |left| (left / 1000).max(1));
        self.session.send_surely(Head::extended(head.call), left.to_le_bytes().to_vec());
    }

    fn reads_socket(self) {
        self.noted.heard.set(true);
    }
}
