//! Calls that block the calling thread.
//!
//! Invariant: a call that has its session takes no lock and allocates nothing, and can read its result into
//! a buffer of the caller.

use super::caller::Caller;
use super::{BoundHandle, IDLE_MAX, not_connected, wait};
use crate::call::{Fill, Given, Split, Take, To, TryFill, Until, Whole};
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::metadata::{Attached, Context};
use crate::wire::{Content, Fills, Wire};
use std::cell::RefCell;
use std::future::poll_fn;
use std::time::Duration;
use upbeat_environment::time::now_ns;

/// Calls that block the calling thread, over a session of their own.
///
/// ```no_run
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// #     #[oneway]
/// #     async fn reset(&self);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter: CounterHandle = upbeat::handle::connect("counter")?;
/// // One session for all of these calls.
/// let blocking = counter.blocking();
/// for n in 0..1000 {
///     blocking.add(n)?;
/// }
/// # Ok(()) }
/// ```
pub struct Blocking<'h> {
    handle: &'h BoundHandle,
    caller: RefCell<Option<Caller>>,
    /// How long each call may block, and how long if its callee asks for more.
    deadline: Option<Duration>,
    total: Option<Duration>,
    /// The context of each call.
    attached: Option<Attached>,
}

impl<'h> Blocking<'h> {
    /// Returns the blocking form of `handle`. The first call takes a session.
    pub(super) fn new(handle: &'h BoundHandle) -> Blocking<'h> {
        let deadline = handle.shared.target.call_deadline;
        Blocking { handle, caller: RefCell::new(None), deadline, total: None, attached: None }
    }
}

impl Blocking<'_> {
    /// Gives each call up after `after`, here and at the callee, to which the deadline travels. The deadline
    /// holds while the call waits for the session, for room, or for the reply. The error
    /// [says](crate::error::Expired::is_sent) whether the call was sent. A one-way message waits for room
    /// until the deadline, and over a byte stream until the system has taken all of it: a message that ends so, and
    /// was sent, may still arrive. The default is
    /// [`HandleBuilder::call_deadline`](super::HandleBuilder::call_deadline), or else no deadline.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use upbeat::CallError;
    ///
    /// let counter: CounterHandle = upbeat::handle::connect("counter")?;
    /// let blocking = counter.blocking().deadline(Duration::from_millis(100));
    /// match blocking.add(1) {
    ///     Err(CallError::Deadline(_)) => eprintln!("the counter is silent"),
    ///     sum => println!("{}", sum?),
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use = "it says how long the calls of what it gives may block"]
    pub fn deadline(mut self, after: Duration) -> Self {
        (self.deadline, self.total) = (Some(after), None);
        self
    }

    /// Lets callees ask to have the deadline extended, by [`extend`](crate::extend), until `total` is over
    /// from the beginning of each call is over. Without a deadline set before, this has no effect.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let counter: CounterHandle = upbeat::handle::connect("counter")?;
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// let blocking = counter.blocking().deadline(usually).extendable(at_most);
    /// println!("{}", blocking.add(1)?);
    /// # Ok(()) }
    /// ```
    #[must_use = "it says how long the calls of what it gives may block"]
    pub fn extendable(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Sends a value with each call and one-way message: see [`Context`](crate::Context).
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize, upbeat::Wire)]
    /// struct Tenant(u64);
    ///
    /// impl upbeat::Context for Tenant {
    ///     const KEY: &'static str = "tenant";
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counter: CounterHandle = upbeat::handle::connect("counter")?;
    /// println!("{}", counter.blocking().with(&Tenant(7)).add(1)?);
    /// # Ok(()) }
    /// ```
    #[must_use = "it says what travels with the calls of what it gives"]
    pub fn with<C: Context>(mut self, value: &C) -> Self {
        self.attached.get_or_insert_default().add(value);
        self
    }

    /// Returns the deadline of a call that begins now.
    fn until(&self) -> Option<Until> {
        let (after, now) = (self.deadline?, now_ns());
        let until = Until::after(now, after);
        Some(self.total.map_or(until, |total| until.extendable(now, total)))
    }

    /// Calls the method at `index` in the service, and blocks until its reply.
    #[inline]
    pub fn call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<R, CallError> {
        self.taking(index, method, arguments, Whole::default())
    }

    /// Calls a method that returns the user's own `Result`, and blocks until its reply.
    #[inline]
    pub fn try_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<T, CallError<E>> {
        self.taking(index, method, arguments, Split::default())
    }

    /// Sends a one-way message, and blocks while there is no room. Over a byte stream the message was handed to the
    /// system when this returns.
    #[inline]
    pub fn send<A: Content>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<(), CallError> {
        const { assert!(!A::STREAMS, "nobody goes on with the streams of a one-way message") };
        let until = self.until();
        let context = Attached::entries(self.attached.as_ref());
        let context = context.map_err(|error| self.failed(error, method))?;
        let given = Given { until, context };
        let sent =
            self.over(until, |caller| caller.send(To::new(index, method), &arguments, given));
        sent.map_err(|error| self.failed(error, method))
    }

    /// Returns the error of a call of this method.
    #[cold]
    #[inline(never)]
    fn failed(&self, error: CallError, method: &'static str) -> CallError {
        error.at(|| self.handle.callee(method))
    }

    /// Runs `act` with an open session, and opens one if there is none.
    #[inline]
    fn over<T>(
        &self,
        until: Option<Until>,
        act: impl FnOnce(&mut Caller) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.handle.shared.check_process()?;
        if Dispatcher::is_driving() {
            return Err(CallError::WouldBlockNode);
        }
        let mut caller = self.caller.borrow_mut();
        let stands = caller.as_mut().is_some_and(|caller| caller.stands(until));
        match &mut *caller {
            Some(caller) if stands => act(caller),
            caller => act(self.prepare(caller, until)?),
        }
    }

    /// Takes an idle session out of those that are kept. The lock is released before the session is waited for.
    fn pop_idle(&self) -> Option<Caller> {
        self.handle.shared.idle().pop()
    }

    /// Takes an idle session, or opens one.
    #[cold]
    fn prepare<'a>(
        &self,
        caller: &'a mut Option<Caller>,
        until: Option<Until>,
    ) -> Result<&'a mut Caller, CallError> {
        if caller.as_ref().is_some_and(Caller::is_suspended) {
            // The deadline has passed, and the session goes on without this call.
            return Err(CallError::deadline(false));
        }
        *caller = None;
        while let Some(mut idle) = self.pop_idle() {
            // An idle session may have ended meanwhile.
            idle.hear();
            if idle.stands(until) {
                return Ok(caller.insert(idle));
            }
            if idle.is_suspended() {
                *caller = Some(idle);
                return Err(CallError::deadline(false));
            }
        }
        let shared = &self.handle.shared;
        let opened = shared.open(shared.target.terms(until)).map_err(not_connected)?;
        Ok(caller.insert(opened))
    }
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        if !self.handle.shared.made.is_this() {
            // The session belongs to the parent.
            std::mem::forget(self.caller.take());
            return;
        }
        if let Some(caller) = self.caller.take()
            && caller.ended().is_none()
        {
            caller.session.retire_all_slabs();
            caller.flush();
            // No thread polls the session from here on.
            let quiet = caller.may_sleep();
            let mut idle = self.handle.shared.idle();
            if quiet && idle.len() < IDLE_MAX {
                idle.push(caller);
            }
        }
    }
}

/// A blocking call whose result goes into a buffer: see [`Blocking::filling`].
#[must_use = "nothing is called until a method is"]
#[doc(hidden)]
pub struct BlockingFilling<'b, B: ?Sized> {
    blocking: &'b Blocking<'b>,
    buffer: &'b mut B,
}

impl Blocking<'_> {
    /// Writes the result of the next method that is called into `buffer`, straight from the memory where the
    /// callee wrote it: see [`Call::into`](crate::call::Call::into).
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Sensor {
    ///     async fn samples(&self, count: u64) -> Vec<f32>;
    /// }
    ///
    /// fn first(sensor: &SensorBlocking) -> Result<f32, upbeat::CallError> {
    ///     let mut samples = [0.0; 16];
    ///     sensor.filling(&mut samples).samples(16)?;
    ///     Ok(samples[0])
    /// }
    /// ```
    #[inline]
    pub fn filling<'b, B: ?Sized>(&'b self, buffer: &'b mut B) -> BlockingFilling<'b, B> {
        BlockingFilling { blocking: self, buffer }
    }
}

impl<B: ?Sized> BlockingFilling<'_, B> {
    /// Calls the method at `index` in the service, and blocks until its reply. Returns the number of items, if
    /// the result is a sequence.
    #[inline]
    pub fn call<A: Content, R: Fills<B>>(
        self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<R::Filled, CallError> {
        let BlockingFilling { blocking, buffer } = self;
        blocking.taking(index, method, arguments, Fill::<R, B>::new(buffer))
    }

    /// Calls a method that returns the user's own `Result`, as [`call`](Self::call) does.
    #[inline]
    pub fn try_call<A: Content, R: Fills<B>, E: Wire>(
        self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<R::Filled, CallError<E>> {
        let BlockingFilling { blocking, buffer } = self;
        blocking.taking(index, method, arguments, TryFill::<R, E, B>::new(buffer))
    }
}

impl Blocking<'_> {
    /// Calls a method, and has `take` read the result in place.
    #[inline]
    pub(super) fn taking<A: Content, T: Take>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
        mut take: T,
    ) -> T::Output {
        let until = self.until();
        if A::STREAMS || T::STREAMS {
            // Streams need the session that several threads may use.
            let call = self.handle.calling(index, method, arguments, take).until(until);
            let mut call = call.attached(self.attached.clone());
            return T::output(wait(poll_fn(|context| call.poll_read(context))));
        }
        let to = To::new(index, method);
        let given = match Attached::entries(self.attached.as_ref()) {
            Ok(context) => Given { until, context },
            Err(error) => return T::output(Err(self.failed(error, method))),
        };
        let read = take.reader();
        let result = self.over(until, |caller| caller.call(to, arguments, given, read));
        T::output(result.map_err(|error| self.failed(error, method)))
    }
}
