//! Connects a handle's session again after it has lost its connection.
//!
//! The thread that waits in the session connects again: the blocking thread, or the thread of the session. A handle
//! without open calls notices the break at its next call. [`upbeat_core::resume`] decides when an attempt begins.
//! Invariant: no thread waits for a connection longer than the deadline of the call for which it waits, and attempts
//! that have begun go on in the next wait.

use super::super::Target;
use super::super::lasting::{Watch, events};
use super::Caller;
use crate::call::Until;
use crate::error::Why;
use crate::remote::{Addresses, Place};
use std::os::fd::AsFd;
use upbeat_core::backoff::Jitter;
use upbeat_core::resume::{Attempt, Due, Link};
use upbeat_environment::time::now_ns;
use upbeat_environment::waiting::poll_any;
use upbeat_memory::ticks::ticks;
use upbeat_transport::carrier::Connection;
use upbeat_transport::error::OpenError;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::remote::{ResumeRequest, connect_again};

/// The attempts to connect again, which need no lock on the session.
pub(in crate::handle) struct Reconnect {
    target: Target,
    again: ResumeRequest,
    link: Link,
    addresses: Addresses,
    trials: Vec<Trial>,
    /// The error of the last attempt that has failed.
    failed: Option<String>,
}

/// An attempt under way.
struct Trial {
    attempt: Attempt,
    place: Place,
    opening: Opening,
}

/// The end of a thread's wait for another connection.
pub(in crate::handle) enum Outcome {
    /// The session continues over this connection, behind this position.
    Resumed(Connection, u64),
    /// The session ends: for this reason, or because its time is over.
    Over(Option<Why>),
    /// The deadline of the call has passed for which the thread waits.
    Late,
    /// The handle was dropped.
    Dropped,
}

impl Reconnect {
    /// Connects. Blocks this thread: until a time at most, or while the handle exists.
    pub(in crate::handle) fn run(
        &mut self,
        watch: Option<&Watch>,
        until: Option<Until>,
    ) -> Outcome {
        loop {
            let now = now_ns();
            let outcome = match self.link.due(now) {
                Some(Due::GiveUp) => Some(Outcome::Over(None)),
                Some(Due::Connect(attempt)) => self.begin(attempt, now),
                // The session has ended, or has a connection.
                None if self.link.until_ns().is_none() => Some(Outcome::Over(None)),
                None => None,
            };
            if let Some(outcome) = outcome.or_else(|| self.step(now)) {
                return outcome;
            }
            let left = until.map_or(u64::MAX, |until| until.left(now_ns()));
            if left == 0 {
                return Outcome::Late;
            }
            if self.wait(watch, left) {
                return Outcome::Dropped;
            }
        }
    }

    /// Begins an attempt.
    fn begin(&mut self, attempt: Attempt, now: u64) -> Option<Outcome> {
        let Target { to, remote, .. } = &self.target;
        let Some(address) = to.address() else { unreachable!("it is on another host") };
        let place = self.addresses.next(address, attempt.nth, now);
        let again = self.again.attempt(attempt.number);
        let times = [now / 1_000_000, attempt.until_ns.div_ceil(1_000_000)];
        match connect_again(to.node(), &again, place.at, 0, times, &remote.terms()) {
            Ok(opening) => {
                self.trials.push(Trial { attempt, place, opening });
                None
            }
            Err(error) => self.failed(attempt, place, &error),
        }
    }

    /// Records that an attempt has failed. Another follows, unless the peer has no such session.
    fn failed(&mut self, attempt: Attempt, place: Place, error: &OpenError) -> Option<Outcome> {
        self.failed = Some(error.to_string());
        let at = (now_ns(), Jitter::new(ticks()).next().0);
        let why = place.failed(&mut self.link, &attempt, error, at)?;
        Some(Outcome::Over(Some(why)))
    }

    /// Runs the next steps of all attempts.
    fn step(&mut self, now: u64) -> Option<Outcome> {
        let mut at = 0;
        while let Some(Trial { opening, .. }) = self.trials.get_mut(at) {
            match opening.step(now / 1_000_000) {
                Ok(Step::Waiting) => {
                    if let Some(heard_ms) = opening.under_way().heard_ms {
                        self.link.answered(heard_ms.saturating_mul(1_000_000));
                    }
                    at += 1;
                }
                Ok(Step::Ready) => {
                    // The other attempts are closed: a listener that met two would drop the connection of the first,
                    // which may be the one that goes on.
                    let mut trial = self.trials.swap_remove(at);
                    trial.opening.ask();
                    self.trials.clear();
                    self.trials.push(trial);
                    self.link.ready(now);
                    at = 0;
                }
                Ok(Step::Resumed { connection, position }) => {
                    self.trials.clear();
                    self.link.resumed();
                    return Some(Outcome::Resumed(connection, position));
                }
                Ok(Step::Done(_) | Step::Resuming(_)) => {
                    unreachable!("the session is to be resumed")
                }
                Err(error) => {
                    let Trial { attempt, place, .. } = self.trials.remove(at);
                    if let Some(outcome) = self.failed(attempt, place, &error) {
                        return Some(outcome);
                    }
                }
            }
        }
        None
    }

    /// Waits until an attempt continues or the next one begins, for so many nanoseconds at most. Returns true if the
    /// session is no longer wanted.
    fn wait(&self, watch: Option<&Watch>, most: u64) -> bool {
        let now = now_ns();
        let deadlines = self.trials.iter().map(|trial| trial.opening.deadline_ms() * 1_000_000);
        let next = deadlines.chain(self.link.next_ns()).min().unwrap_or(now);
        let timeout = next.saturating_sub(now).min(most);
        let openings = self.trials.iter().map(|trial| &trial.opening);
        let sockets: Vec<_> =
            openings.map(|opening| (opening.as_fd(), events(opening.wants_output()))).collect();
        let Some(watch) = watch else {
            poll_any(&sockets, Some(timeout));
            return false;
        };
        watch.wait_any(sockets, timeout)
    }
}

impl Caller {
    /// Notes that the connection has gone.
    #[cold]
    pub(super) fn has_broken(&mut self) {
        drop(self.session.carrier.take_broken());
        self.session.link(|link| link.broke(now_ns()));
    }

    /// Returns the attempts to connect again for the session, whose connection has gone. None if it has ended.
    pub(in crate::handle) fn mending(&mut self) -> Option<Box<Reconnect>> {
        // The break may have been found by a read.
        self.has_broken();
        if let Some(begun) = self.reconnect.take() {
            return Some(begun);
        }
        let link = self.session.link(|link| *link)?;
        let (again, last) = (self.session.again(&self.home)?, self.session.carrier.peer.at?);
        let (target, addresses) = (self.target.clone(), Addresses::new(last));
        let (trials, failed) = (Vec::new(), None);
        Some(Box::new(Reconnect { target, again, link, addresses, trials, failed }))
    }

    /// Handles the outcome of the attempts to connect again.
    pub(in crate::handle) fn reconnected(
        &mut self,
        mut reconnect: Box<Reconnect>,
        outcome: Outcome,
    ) {
        if self.session.ended().is_some() {
            return;
        }
        self.session.set_link(reconnect.link);
        if let Some(error) = reconnect.failed.take() {
            self.session.attempt_failed(error);
        }
        match outcome {
            Outcome::Resumed(connection, position) => {
                match self.session.carrier.resume(connection, position) {
                    Ok(()) => self.session.carrier.rest(),
                    Err(rule) => self.give_up(Why::Misbehaved(rule)),
                }
            }
            Outcome::Over(why) => {
                self.give_up(why.unwrap_or_else(|| self.session.not_resumed()));
            }
            Outcome::Late => self.reconnect = Some(reconnect),
            Outcome::Dropped => self.close(),
        }
    }

    fn give_up(&mut self, why: Why) {
        self.drain();
        self.end(why);
    }

    /// Connects again, and blocks this thread meanwhile.
    pub(super) fn mend(&mut self) {
        let Some(mut reconnect) = self.mending() else { return };
        let watch = self.watch.clone();
        let outcome = reconnect.run(watch.as_deref(), self.until.get());
        self.reconnected(reconnect, outcome);
    }

    /// Blocks until the session has another connection, or has ended, or until a time at most.
    #[cold]
    pub(super) fn mend_until(&mut self, until: Option<Until>) {
        self.until.set(until);
        while self.session.carrier.is_suspended()
            && self.session.ended().is_none()
            && !self.is_late()
        {
            self.mend();
        }
        self.until.set(None);
    }
}
