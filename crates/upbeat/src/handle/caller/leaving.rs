//! How messages of a handle leave this process, and how a handle leaves its session.
//!
//! Invariant: a message that blocked its sender was taken by the system, or its sender has an error; what awaited
//! messages have left behind is sent before the session ends, or a line on standard error says that it may not be.

use super::Caller;
use super::waiting::wait;
use crate::call::Until;
use crate::dispatch::Dispatcher;
use crate::error::{CallError, Why};
use crate::session::leave_all;
use crate::wait::Idle;
use std::os::fd::AsFd;
use std::time::Duration;
use upbeat_core::bind::BIND;
use upbeat_core::limits::LEAVING_MS_MAX;
use upbeat_environment::time::now_ns;
use upbeat_transport::carrier::Leaving;

/// The milliseconds for which a session without such messages waits until the peer's host knows that it ends.
const CALLS_MS: u64 = 1_000;

impl Caller {
    /// Blocks until the system has taken everything that was written over a byte stream: nobody would send the rest
    /// before this session is used again. If the connection is lost, the rest waits for another one.
    pub(super) fn wait_until_sent(&mut self) -> Result<(), CallError> {
        while self.session.carrier.has_unsent() {
            if let Some(lost) = self.session.ended() {
                return Err(CallError::at_loss(true, lost.clone()));
            }
            if self.is_late() {
                return Err(CallError::deadline(true));
            }
            match self.session.carrier.is_suspended() {
                true => self.mend(),
                false => self.await_output(),
            }
        }
        Ok(())
    }

    /// Sends what the system takes, and waits as the policy says if it does not take everything.
    fn await_output(&mut self) {
        if self.session.carrier.pump().ended {
            self.hear();
        }
        self.drain();
        self.session.look_at_peer();
        // A thread that slept with nothing to send would wait for news of the peer, which may have none.
        if self.session.carrier.has_unsent() && self.session.ended().is_none() {
            match self.pace.idle(false) {
                Idle::Tick => {}
                Idle::Yield => self.pace.yield_now(),
                Idle::Sleep => {
                    self.sleep_until_sent();
                    self.pace.slept();
                }
            }
        }
    }

    fn sleep_until_sent(&self) {
        let Some(socket) = self.session.carrier.socket() else { return };
        let left = self.until.get().map(|until| until.left(now_ns()));
        let left = left.into_iter().chain(self.session.looks_at_peer_in_ns()).min();
        // A message may wait for room in the lane: the report of the peer makes the socket readable.
        let writable = self.session.carrier.has_output();
        wait(socket.as_fd(), writable, None, left);
    }

    /// Closes the session, which is no longer wanted.
    pub(super) fn close(&self) {
        self.session.say_goodbye();
        self.end(Why::Closed);
    }

    /// Closes the session in order. One-way messages that were sent over a byte stream arrive: this blocks until the
    /// peer's host has them, for [`LEAVING_MS_MAX`] at most, and not in a node's task, whose node would stand meanwhile.
    fn leave_in_order(&mut self) {
        if self.ended().is_some() || !self.session.is_here() {
            return;
        }
        // The handle of this session is gone, and must not end the waits below.
        self.watch = None;
        let is_used = *self.methods.numbers != [BIND];
        let sends = is_used && self.noted.sends.get();
        let can_wait = !Dispatcher::is_driving();
        let is_at_stake = is_used && self.session.is_at_stake();
        let mut loses = sends && self.session.has_bytes_under_way();
        if sends && can_wait {
            // An idle handle does not read its socket, and has not noticed if the connection has broken.
            self.hear();
            loses |= self.is_suspended() && self.session.carrier.has_unsent();
        }
        let most_ms = if sends { LEAVING_MS_MAX } else { CALLS_MS };
        let is_at_stake = is_at_stake || loses;
        let most = if can_wait { Duration::from_millis(most_ms) } else { Duration::ZERO };
        let until = Until::after(now_ns(), most);
        if is_at_stake && can_wait && sends && self.is_suspended() {
            self.mend_until(Some(until));
        }
        if self.ended().is_none() {
            self.session.say_goodbye();
            let left = Duration::from_nanos(until.left(now_ns()));
            let session = Some(&self.session);
            let (at_stake, other) = if is_at_stake { (session, None) } else { (None, session) };
            let lost = leave_all(at_stake, other, left, now_ns);
            lost.iter()
                .filter(|_| loses)
                .for_each(|(session, leaving)| session.warn_of_unsent(*leaving, most));
            self.end(Why::Closed);
        } else if loses {
            self.session.warn_of_unsent(Leaving::Lost, most);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.leave_in_order();
    }
}
