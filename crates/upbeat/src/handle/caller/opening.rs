//! Opens a session of a handle, and blocks the thread meanwhile.
//!
//! Invariant: the thread does not wait beyond its deadline, nor after its handle was dropped.

use super::super::lasting::Watch;
use super::super::{ConnectTerms, Target};
use super::Caller;
use super::waiting::wait;
use crate::call::Until;
use crate::error::{CallError, ConnectError};
use crate::remote::{Attempts, is_worth_waiting, lookup, not_answered, own_times, resolve};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use upbeat_core::address::Address;
use upbeat_core::backoff::{Jitter, Retry, connect_delay_ns};
use upbeat_core::limits::CONNECT_MS_MAX;
use upbeat_core::method::Signature;
use upbeat_environment::time::{Instant, now_ns};
use upbeat_environment::waiting::sleep;
use upbeat_memory::ticks::{nanoseconds, ticks};
use upbeat_transport::carrier::Carrier;
use upbeat_transport::host::is_own;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::remote::{RemoteOptions, connect};

/// The handle's sides of sessions that it may open.
struct Homes {
    /// The side for a node that is found by its name, or that is reached over the network.
    home: LocalNode,
    /// The side for a node at an address of this host, reached through memory, once that was tried.
    own: OnceCell<LocalNode>,
}

impl Homes {
    fn new(target: &Target) -> Result<Homes, ConnectError> {
        let program = target.program.clone();
        let home = match target.to.address() {
            Some(_) => LocalNode::without_memory(program, None),
            None => target.carriers.home(program, None, target.place.is_some()),
        };
        let home = home.map_err(|error| ConnectError::Service { text: error.to_string() })?;
        Ok(Homes { home, own: OnceCell::new() })
    }

    /// Returns the side that shares memory with nodes of this host, or none if the handle shares no memory.
    fn own(&self, target: &Target) -> Option<&LocalNode> {
        if self.own.get().is_none() {
            target.place.as_ref()?;
            let own = target.carriers.home(target.program.clone(), None, true).ok()?;
            let _ = self.own.set(own);
        }
        self.own.get().filter(|own| own.shares())
    }

    /// Returns the side that was used for a session.
    fn of(self, carrier: &Carrier) -> LocalNode {
        match (carrier.peer.at, self.own.into_inner()) {
            (None, Some(own)) => own,
            _ => self.home,
        }
    }
}

/// A session that is being opened.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    target: &'a Target,
    homes: &'a Homes,
    watch: Option<&'a Watch>,
    /// When the thread gives up.
    until: Option<Until>,
    began: Instant,
}

/// Wakes a thread that waits for a descriptor.
struct Bell(OwnedFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // The counter is far from full.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Opens a session, and blocks this thread meanwhile. Tries again while the node is too busy to accept.
pub(super) fn wait_open(
    target: &Target,
    watch: Option<&Watch>,
    until: Option<Until>,
) -> Result<(LocalNode, Carrier), ConnectError> {
    if target.to.address().is_some() && target.remote.is_unprotected() {
        return Err(ConnectError::Unprotected { to: target.to.to_string() });
    }
    let homes = Homes::new(target)?;
    let wanted = Wanted { target, homes: &homes, watch, until, began: Instant::now() };
    let (mut attempts, mut jitter) = (0, Jitter::new(homes.home.incarnation()));
    loop {
        let opened = match target.to.address() {
            None => wanted.open_by_name(&homes.home),
            Some(address) => wanted.open_at(address),
        };
        let busy = match opened {
            Err(ConnectError::Open(error))
                if error.is_busy() && wanted.passed_ms() < CONNECT_MS_MAX =>
            {
                error
            }
            Ok(Step::Done(carrier)) => return Ok((homes.of(&carrier), carrier)),
            Ok(_) => unreachable!("a session is opened"),
            Err(error) => return Err(error),
        };
        attempts += 1;
        let random;
        (random, jitter) = jitter.next();
        let delay = connect_delay_ns(attempts, random);
        if wanted.left_ns() <= delay {
            return Err(ConnectError::Open(busy));
        }
        pause(watch, delay)?;
    }
}

/// Waits for so many nanoseconds, or until the handle is dropped.
fn pause(watch: Option<&Watch>, ns: u64) -> Result<(), ConnectError> {
    match watch {
        None => sleep(Duration::from_nanos(ns)),
        Some(watch) if watch.pause(ns) => return Err(dropped()),
        Some(_) => {}
    }
    Ok(())
}

impl Caller {
    /// Opens a session and asks for the methods' numbers, and tries again if the node is not there, as long as the
    /// terms allow. Blocks this thread.
    pub(in crate::handle) fn connect(
        target: &Target,
        service: &'static str,
        signatures: &[Signature],
        watch: Option<Arc<Watch>>,
        terms: ConnectTerms,
    ) -> Result<Caller, ConnectError> {
        let ConnectTerms { until, wait_for } = terms;
        let end = |time| Retry::until(now_ns().saturating_add(nanoseconds(time)));
        let mut waits = wait_for.map(|time| (time, end(time)));
        let mut jitter = Jitter::new(ticks());
        loop {
            let opened = Caller::open(target, service, signatures, watch.clone(), until);
            let error = match opened {
                Ok(caller) => return Ok(caller),
                Err(error) => error,
            };
            let Some((time, retry)) = waits.as_mut().filter(|_| error.may_pass()) else {
                return Err(error);
            };
            let random;
            (random, jitter) = jitter.next();
            let Some(delay) = retry.failed(now_ns(), random) else {
                return Err(error.after(*time));
            };
            match until.map_or(u64::MAX, |until| until.left(now_ns())) {
                0 => return Err(ConnectError::Call(CallError::deadline(false))),
                left => pause(watch.as_deref(), delay.min(left))?,
            }
        }
    }
}

/// Returns the error of a handle that was dropped while its thread connected.
fn dropped() -> ConnectError {
    let text = "the handle was dropped while it connected";
    ConnectError::Call(CallError::not_connected(text))
}

impl Wanted<'_> {
    /// Returns the milliseconds since the first attempt.
    fn passed_ms(self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Returns the nanoseconds that are left until the deadline.
    fn left_ns(self) -> u64 {
        self.until.map_or(u64::MAX, |until| until.left(now_ns()))
    }

    /// Tries once to open a session on this host. The time is counted from the first attempt.
    fn open_by_name(self, home: &LocalNode) -> Result<Step, ConnectError> {
        let Target { place, carriers, to, program, .. } = self.target;
        if let Some(at) = carriers.address(place.as_ref(), program.name(), to.node()) {
            // The handle cannot find this address again, so the session ends with its connection.
            return self.try_at(
                at,
                CONNECT_MS_MAX,
                RemoteOptions { resume_within_ms: 0, ..self.terms() },
            );
        }
        let times = [self.passed_ms(), 0];
        let opening = carriers.connect(home, place.as_ref(), to.node(), 0, times);
        self.finish(opening.map_err(ConnectError::Open)?)
    }

    /// Tries to open a session at each of the addresses that a host has.
    fn open_at(self, address: &Address) -> Result<Step, ConnectError> {
        let mut attempts = Attempts::new(self.look_up(address)?);
        loop {
            let now_ms = self.passed_ms();
            let end_ms = CONNECT_MS_MAX.min(now_ms.saturating_add(self.left_ns() / 1_000_000));
            let Some((at, until_ms)) = attempts.next(now_ms, end_ms) else {
                return Err(ConnectError::Open(attempts.into_error(address)));
            };
            if let Some(opened) = self.try_own(at, until_ms) {
                return opened;
            }
            match self.try_at(at, until_ms, self.terms()) {
                Err(ConnectError::Open(error)) => attempts.failed(error),
                opened => return opened,
            }
        }
    }

    /// Returns the addresses of a host, which another thread looks up meanwhile.
    fn look_up(self, address: &Address) -> Result<Vec<SocketAddr>, ConnectError> {
        if address.ip().is_some() {
            return resolve(address).map_err(ConnectError::Open);
        }
        let no_bell = |error: Errno| ConnectError::Service { text: error.to_string() };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_bell)?;
        let bell = Arc::new(Bell(bell));
        let waker = Waker::from(Arc::clone(&bell));
        let mut found = pin!(lookup(address));
        loop {
            if let Poll::Ready(found) = found.as_mut().poll(&mut Context::from_waker(&waker)) {
                return found.map_err(ConnectError::Open);
            }
            let left_ms = CONNECT_MS_MAX.saturating_sub(self.passed_ms());
            if self.left_ns() == 0 {
                return Err(ConnectError::Call(CallError::deadline(false)));
            }
            if left_ms == 0 {
                return Err(ConnectError::Open(not_answered(address, CONNECT_MS_MAX)));
            }
            let timeout = self.left_ns().min(left_ms * 1_000_000);
            if wait(bell.0.as_fd(), false, self.watch, Some(timeout)) {
                return Err(dropped());
            }
        }
    }

    fn terms(self) -> RemoteOptions {
        self.target.remote.terms()
    }

    /// Tries to open a session through memory, if the address is one of this host. Returns `None` if the listener
    /// there must be reached over the network.
    fn try_own(self, at: SocketAddr, until_ms: u64) -> Option<Result<Step, ConnectError>> {
        if !is_own(at.ip()) {
            return None;
        }
        let home = self.homes.own(self.target)?;
        let (carriers, place) = (self.target.carriers, self.target.place.as_ref());
        let times = own_times(self.passed_ms(), until_ms);
        let opening = carriers.connect_at(home, place, (self.target.to.node(), at), 0, times);
        match opening.map_err(ConnectError::Open).and_then(|opening| self.finish(opening)) {
            Err(ConnectError::Open(error))
                if !is_worth_waiting(&error, self.passed_ms(), CONNECT_MS_MAX) =>
            {
                None
            }
            opened => Some(opened),
        }
    }

    /// Tries to open a session at one address, until a time at most.
    fn try_at(
        self,
        at: SocketAddr,
        until_ms: u64,
        terms: RemoteOptions,
    ) -> Result<Step, ConnectError> {
        let (name, times) = (self.target.to.node(), [self.passed_ms(), until_ms]);
        let opening = connect(&self.homes.home, name, at, 0, times, &terms);
        self.finish(opening.map_err(ConnectError::Open)?)
    }

    /// Runs the steps of an opening, and waits between them. Returns the last step.
    fn finish(self, mut opening: Opening) -> Result<Step, ConnectError> {
        loop {
            let is_late = self.left_ns() == 0;
            match opening.step(self.passed_ms()) {
                // The deadline replaces any other error.
                Ok(Step::Waiting) | Err(_) if is_late => {
                    return Err(ConnectError::Call(CallError::deadline(false)));
                }
                Err(error) => return Err(ConnectError::Open(error)),
                Ok(Step::Waiting) => {
                    let late_ms = opening.deadline_ms().saturating_sub(self.passed_ms()).max(1);
                    let timeout = (late_ms * 1_000_000).min(self.left_ns());
                    let writable = opening.wants_output();
                    if wait(opening.as_fd(), writable, self.watch, Some(timeout)) {
                        return Err(dropped());
                    }
                }
                Ok(step) => return Ok(step),
            }
        }
    }
}
