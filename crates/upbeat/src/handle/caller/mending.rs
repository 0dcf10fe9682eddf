//! Connects a handle's session again after it has lost its connection.
//!
//! The thread that waits in the session connects again: the blocking thread, or the thread of the session. A handle
//! without open calls notices the break at its next call. Invariant: no thread waits for a connection longer than the
//! deadline of the call for which it waits.

use super::super::Target;
use super::super::lasting::{Watch, now_ns};
use super::{Caller, Wanted, What};
use crate::call::Until;
use crate::error::{ConnectError, Why};
use crate::reactor::timespec;
use std::time::{Duration, Instant};
use upbeat_core::backoff::Jitter;
use upbeat_core::resume::Due;
use upbeat_memory::ticks::ticks;
use upbeat_transport::carrier::Connection;
use upbeat_transport::opening::Step;
use upbeat_transport::remote::ResumeRequest;

/// The next step of a thread for a session that has lost its connection.
pub(in crate::handle) enum Mending {
    /// The thread connects.
    Connect(Box<Reconnect>),
    /// The thread waits for so many nanoseconds.
    Wait(u64),
    /// Nothing: the session has ended.
    Over,
}

/// An attempt to connect again, which needs no lock on the session.
pub(in crate::handle) struct Reconnect {
    target: Target,
    again: ResumeRequest,
    /// When the session ends without a connection.
    over: u64,
}

impl Reconnect {
    /// Connects. Blocks this thread: until a time at most, or while the handle exists.
    pub(in crate::handle) fn connect(
        &self,
        watch: Option<&Watch>,
        until: Option<Until>,
    ) -> Result<(Connection, u64), ConnectError> {
        let Reconnect { target, again, over } = self;
        let (what, began) = (What::Again(again, *over), Instant::now());
        let wanted = Wanted { target, what, watch, until, began };
        let Some(address) = target.to.address() else { unreachable!("it is on another host") };
        match wanted.open_at(address)? {
            Step::Resumed { connection, position } => Ok((connection, position)),
            _ => unreachable!("the session is to go on"),
        }
    }
}

impl Caller {
    /// Notes that the connection has gone.
    #[cold]
    pub(super) fn has_broken(&mut self) {
        self.session.link(|link| link.broke(now_ns()));
    }

    /// Returns the next step for the session, whose connection has gone.
    pub(in crate::handle) fn mending(&mut self) -> Mending {
        let (now, link) = (now_ns(), |caller: &Caller| caller.session.link(|link| *link));
        // The break may have been found by a read.
        self.session.link(|link| link.broke(now));
        match self.session.link(|link| link.due(now)).flatten() {
            Some(Due::GiveUp) => {
                self.give_up(self.session.not_resumed());
                Mending::Over
            }
            Some(Due::Connect) => {
                let over = link(self).and_then(|link| link.until_ns()).unwrap_or(now);
                let Some(again) = self.session.again(&self.home) else { return Mending::Over };
                let target = self.target.clone();
                Mending::Connect(Box::new(Reconnect { target, again, over }))
            }
            None => match link(self).and_then(|link| link.next_ns()) {
                Some(next) => Mending::Wait(next.saturating_sub(now)),
                None => Mending::Over,
            },
        }
    }

    /// Handles the result of an attempt to connect again.
    pub(in crate::handle) fn reconnected(
        &mut self,
        connected: Result<(Connection, u64), ConnectError>,
    ) {
        if self.session.ended().is_some() {
            return;
        }
        match connected {
            Ok((connection, position)) => {
                self.session.link(|link| link.resumed());
                match self.session.carrier.resume(connection, position) {
                    Ok(()) => self.session.carrier.rest(),
                    Err(rule) => self.give_up(Why::Misbehaved(rule)),
                }
            }
            Err(error) => {
                let error = match &error {
                    ConnectError::Open(error) => Some(error),
                    _ => None,
                };
                let random = || Jitter::new(ticks()).next().0;
                if let Some(why) = self.session.attempt_failed(error, now_ns(), random) {
                    self.give_up(why);
                }
            }
        }
    }

    fn give_up(&mut self, why: Why) {
        self.drain();
        self.end(why);
    }

    /// Does the next step for the session, and blocks this thread meanwhile.
    pub(super) fn mend(&mut self) {
        let (watch, until) = (self.watch.clone(), self.until.get());
        match self.mending() {
            Mending::Over => {}
            Mending::Connect(attempt) => {
                let connected = attempt.connect(watch.as_deref(), until);
                self.reconnected(connected);
            }
            Mending::Wait(ns) => {
                let ns = until.map_or(ns, |until| until.left(now_ns()).min(ns));
                match &watch {
                    None => std::thread::sleep(Duration::from_nanos(ns)),
                    Some(watch) if watch.pause(&timespec(ns)) => self.close(),
                    Some(_) => {}
                }
            }
        }
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
