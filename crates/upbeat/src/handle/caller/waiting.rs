//! How the holder of a session waits in it: for frames, for room, and for the session itself.
//!
//! Invariant: the thread does not wait beyond its deadline, nor after its handle was dropped.

use super::super::lasting::{Watch, events};
use super::{Caller, Wants};
use crate::call::Until;
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::session::Waiter;
use crate::wait::{Idle, IdlePolicy, Waiting};
use crate::wake::MAIN;
use crate::wire::{Input, WireError};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;
use upbeat_core::mutant::{Mutant, mutated};

use upbeat_core::frame::CallNumber;
use upbeat_environment::time::now_ns;
use upbeat_environment::waiting::{looks_again, poll};
use upbeat_memory::doorbell::may_leave;
use upbeat_memory::sync::{FenceProof, fence_full};
use upbeat_memory::ticks::{ticks, ticks_per_second};
use upbeat_transport::carrier::Segment;

/// The socket of a session that lay idle for this part of a second, 20 us, is read before the session is used. The
/// read takes a hundredth of that time.
const IDLE_PARTS: u64 = 50_000;

/// The longest time for which a future polls for its reply within one poll: a part of the time that its thread needs
/// to wake up.
const LINGER_US: u64 = 20;

/// How often a future that leaves takes over frames that have arrived meanwhile. After that the thread does.
const LEAVES: u32 = 2;

/// Looks at the socket of a stream between two decisions of the policy. One takes the time of forty looks at a lane.
const STREAM_LOOKS: u32 = 8;

/// The most looks at the socket for all that has come. A session of a handle keeps no other one waiting, and more than
/// this lies in no socket's buffers.
const HEARS_MAX: usize = 64;

impl Caller {
    /// Returns whether the deadline of the blocking thread has passed.
    pub(super) fn is_late(&self) -> bool {
        self.until.get().is_some_and(|until| until.is_over(now_ns()))
    }

    /// Waits as the policy says, when nothing has arrived.
    pub(super) fn idle(&mut self) {
        if self.session.carrier.is_suspended() {
            return self.mend();
        }
        // If each reply arrives at once, only this tick notices other threads that run on this processor.
        if self.ticker.turn() {
            self.ticker.restart();
            self.pace.tick();
        }
        if self.session.carrier.caps().is_pumped {
            if self.pump() {
                return;
            }
        } else {
            self.look(self.pace.looks(false));
            if self.session.has_frame() {
                return;
            }
        }
        match self.pace.idle(false) {
            Idle::Tick => {
                looks_again();
                if self.ticker.is_watch_due(now_ns()) {
                    self.hear();
                    self.session.look_at_peer();
                }
            }
            Idle::Yield => self.pace.yield_now(),
            Idle::Sleep => {
                self.sleep();
                self.pace.slept();
            }
        }
    }

    /// Looks at the socket of a stream, several times if the policy polls at all. Returns whether anything arrived.
    fn pump(&mut self) -> bool {
        let looks = if self.pace.looks(false) == 1 { 1 } else { STREAM_LOOKS };
        for _ in 0..looks {
            let pumped = self.session.carrier.pump();
            if pumped.ended {
                self.hear();
            }
            if pumped.came || pumped.ended {
                return true;
            }
        }
        false
    }

    /// Blocks until the peer has read something, or grants the room that was asked for, or a call has freed
    /// a number, or the peer is gone.
    pub(super) fn wait_to_send(&mut self, wants: &mut Wants) -> Result<(), CallError> {
        self.look_at_socket();
        while self.session.ended().is_none() {
            self.drain();
            self.session.settle(false);
            // A message that finds room each time and cannot use it comes back here: its deadline counts first.
            if self.is_late() {
                self.withdraw(wants);
                return Err(CallError::deadline(false));
            }
            if !self.session.still_waits(&mut wants.admission)
                && !self.session.carrier.writer().wants_room()
            {
                break;
            }
            self.idle();
        }
        Ok(())
    }

    /// Reads the socket, for a message that has to wait: the news that it needs may be there, or the end of the
    /// session. A lane in shared memory tells most news by itself, so its socket is read now and then.
    fn look_at_socket(&mut self) {
        if self.session.carrier.caps().is_pumped {
            if self.session.carrier.pump().ended {
                self.hear();
            }
        } else if self.ticker.is_watch_due(now_ns()) {
            self.hear();
        }
    }

    /// Sleeps until the peer rings the doorbell.
    fn sleep(&mut self) {
        // The last ring is read now, when no frame is waiting.
        if self.noted.rung.take() && !self.session.carrier.caps().is_pumped {
            self.hear();
        }
        self.session.look_at_peer();
        if self.may_sleep()
            && let Some(bell) = self.session.carrier.socket()
        {
            let left = self.until.get().map(|until| until.left(now_ns()));
            let left = left.into_iter().chain(self.session.looks_at_peer_in_ns()).min();
            let writable = self.session.carrier.has_output();
            let unwanted = wait(bell.as_fd(), writable, self.watch.as_deref(), left);
            drop(bell);
            if unwanted {
                self.close();
            }
            self.noted.rung.set(true);
            self.sampling.woke();
        }
        self.home.page().set_polling();
    }

    /// Returns whether the session stands, for a thread that is about to use it. A session that has lost its connection is
    /// waited for, until a time at most. While the session was idle no thread
    /// read its socket: an end that was not noticed would fail a call that could have gone over
    /// another session.
    #[inline]
    pub(in crate::handle) fn stands(&mut self, until: Option<Until>) -> bool {
        let now = ticks();
        let idle = now.saturating_sub(std::mem::replace(&mut self.used, now));
        if idle > ticks_per_second() / IDLE_PARTS && !mutated(Mutant::IdleUnread) {
            self.hear();
        }
        if self.session.carrier.is_suspended() {
            self.mend_until(until);
            if self.session.carrier.is_suspended() {
                return false;
            }
        }
        self.session.ended().is_none()
    }

    /// Returns whether the session has no connection, and may get another.
    pub(in crate::handle) fn is_suspended(&self) -> bool {
        self.session.carrier.is_suspended() && self.session.ended().is_none()
    }

    /// Reads the socket, so far that a sleep until it is readable again misses nothing, nor the end of the session.
    pub(in crate::handle) fn hear(&mut self) {
        if self.session.ended().is_some() {
            return;
        }
        for _ in 0..HEARS_MAX {
            match self.session.hear() {
                Ok(_) if self.session.carrier.is_suspended() => return self.has_broken(),
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => {
                    // Frames that the peer wrote before its end are taken over first.
                    self.drain();
                    return self.end(*why);
                }
            }
        }
    }

    /// Wakes a peer that waits for room, in case the room was made before the peer announced its wait. The fence
    /// comes after the last frame that was taken.
    pub(in crate::handle) fn relieve(&self, fenced: FenceProof) {
        if self.session.peer_wants_room() {
            self.session.flush(fenced);
        }
    }

    /// Clears the polling flag, for a thread that is about to wait on the socket. Returns whether it may
    /// wait: no frame has arrived, the session stands, room that was asked for is not there yet, and no
    /// woken sender has others waiting behind it.
    pub(in crate::handle) fn may_sleep(&self) -> bool {
        let session = &self.session;
        let may = session.carrier.may_sleep(self.home.page(), || {
            if session.is_pressed() {
                session.settle(false);
            }
        });
        // The receiver of control frames that found room now may be asleep.
        if session.is_unflushed() {
            self.flush();
        }
        self.relieve(fence_full());
        may && !session.awaits_senders() && session.ended().is_none()
    }

    /// Sets the polling flag.
    pub(in crate::handle) fn awake(&self) {
        self.home.page().set_polling();
    }

    /// Records that the thread of the session has slept.
    pub(in crate::handle) fn woke(&self) {
        self.sampling.woke();
        self.awake();
    }

    /// Sets how the session waits from here on.
    pub(in crate::handle) fn looks_as(&mut self, waiting: Waiting) {
        self.pace = IdlePolicy::new(waiting);
    }

    /// Returns in how many nanoseconds the thread that is about to sleep must wake to free unused memory.
    pub(in crate::handle) fn tidies_in_ns(&self) -> Option<u64> {
        let kept = self.session.tidy_in_ns();
        self.noted.tidies.set(kept.is_some());
        kept
    }

    /// Polls for the reply of the only open call, for a future that is polled: as long as that has paid lately,
    /// and no longer than [`LINGER_US`]. If the reply does not arrive, it wakes `waker` later.
    pub(in crate::handle) fn linger<R>(
        &mut self,
        call: CallNumber,
        waker: &Waker,
        mut take: impl FnMut(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Option<Result<R, CallError>> {
        let mut result = None;
        // A node that this thread drives cannot reply meanwhile, and only the thread of the session reads a stream.
        let lingers = self.session.calls_open() == 1
            && !self.session.carrier.caps().is_pumped
            && !Dispatcher::is_driving();
        let most = lingers.then(|| ticks() + LINGER_US * ticks_per_second() / 1_000_000);
        self.has_waited();
        while let Some(most) = most
            && self.session.ended().is_none()
        {
            self.noted.waits.set(true);
            let looks = self.pace.looks(false);
            if looks > 1 {
                self.awake();
            }
            self.look(looks);
            self.drain_for(&mut |_| {
                result = self.poll(call, || Waiter::Task(MAIN), &mut take).result()
            });
            if result.is_some() {
                self.pace.busy();
                self.noted.waits.set(false);
                self.noted.rests.set(true);
                return result;
            }
            match self.pace.idle(false) {
                Idle::Tick if ticks() < most => {}
                // Another thread may run while the future waits: there is no need to yield here.
                Idle::Yield => {
                    self.pace.has_yielded();
                    break;
                }
                Idle::Tick | Idle::Sleep => break,
            }
        }
        self.poll(call, || Waiter::Waker(waker.into()), take).result()
    }

    /// Records that the wait of a future that had polled for its reply is over.
    pub(in crate::handle) fn has_waited(&mut self) {
        if self.noted.waits.take() {
            self.pace.slept();
        }
    }

    /// Looks so many times for a frame, until one has arrived.
    fn look(&self, looks: u32) {
        for _ in 0..looks {
            if self.session.has_frame() {
                return;
            }
            self.sampling.looked_in_vain();
            std::hint::spin_loop();
        }
    }

    /// Returns the segment with exports of this generation, as [`Session::export`](crate::session::Session::export) does.
    pub(in crate::handle) fn export(
        &self,
        generation: u32,
    ) -> Result<Option<(Segment, Option<u32>)>, String> {
        // The rings for other replies may be read with it.
        self.noted.heard.set(true);
        self.session.export(generation)
    }

    /// Records that a future leaves the session, which is not polled from here on. Returns whether the thread of the
    /// session may stay asleep. If the future has found its reply and no call is open, the polling flag stays set:
    /// nothing can arrive that could not wait for the next call, which saves two fences.
    pub(in crate::handle) fn leave(&self) -> bool {
        if self.ended().is_some() {
            return true;
        }
        let session = &self.session;
        let must_tidy = !self.noted.tidies.get() && session.tidy_in_ns().is_some();
        let heard = self.noted.heard.take();
        let is_idle = || session.calls_open() == 0 && !session.is_pressed();
        let rests = self.noted.rests.take() && is_idle() && !session.awaits_senders();
        if must_tidy || !heard && may_leave(self.home.page(), !rests) {
            return !must_tidy;
        }
        for _ in 0..LEAVES {
            if self.may_sleep() {
                return true;
            }
            self.drain();
        }
        false
    }
}

/// Waits until the socket is readable, or writable if `writable` says so. Returns true if the session is no longer
/// wanted.
pub(super) fn wait(
    socket: BorrowedFd<'_>,
    writable: bool,
    watch: Option<&Watch>,
    timeout_ns: Option<u64>,
) -> bool {
    let Some(watch) = watch else {
        poll([(socket, events(writable))], timeout_ns);
        return false;
    };
    watch.wait(socket, writable, timeout_ns)
}
