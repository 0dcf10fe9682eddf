//! Calls that may be sent back: their arguments are kept, and sent again.
//!
//! A callee refuses such a call where what its handler needs is not there, and runs nothing of it.
//! The caller waits, longer each time and never as long as others who were refused with it, and sends
//! the call anew, under another number. Invariant: one of its calls at most is under way, and the next
//! is sent when that was refused; what was refused has not run.

use super::{Asks, Bound, Call, Filling, TryNackCall};
use crate::error::{CallError, FailCode};
use crate::time::Sleep;
use crate::wire::{Content, Fills, Input, Output, Wire, WireError};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use upbeat_core::backoff::is_refusable;

/// Arguments that are sent and kept.
struct Kept<A>(Rc<A>);

impl<A: Content> Content for Kept<A> {
    const IN_PLACE: bool = A::IN_PLACE;

    fn bytes_likely(&self) -> usize {
        self.0.bytes_likely()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.0.put(out)
    }
}

/// A call of a method under `#[method(nack)]`.
#[must_use = "a call does nothing until it is awaited"]
pub struct NackCall<'c, A, R> {
    bound: &'c Bound,
    index: usize,
    method: &'static str,
    arguments: Rc<A>,
    call: Call<'c, Kept<A>, R>,
    refusals: u64,
    /// Until it is sent again.
    pause: Option<Sleep>,
    deadline: Option<Sleep>,
    /// Until when that may be extended, whichever attempt it is.
    most: Option<u64>,
}

// Nothing in it is pinned, as in a call.
impl<A, R> Unpin for NackCall<'_, A, R> {}

impl Bound {
    /// Calls a method that may send the call back.
    pub fn nack_call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> NackCall<'_, A, R> {
        const { assert!(!A::STREAMS, "a method under `nack` has no streams in its arguments") };
        let arguments = Rc::new(arguments);
        let call = self.attempt(index, method, &arguments, 0);
        NackCall {
            bound: self,
            index,
            method,
            arguments,
            call,
            refusals: 0,
            pause: None,
            deadline: None,
            most: None,
        }
    }

    /// The same where the method's result is the user's `Result`.
    pub fn try_nack_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> TryNackCall<'_, A, T, E> {
        TryNackCall::new(self.nack_call(index, method, arguments))
    }

    fn attempt<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: &Rc<A>,
        refusals: u64,
    ) -> Call<'_, Kept<A>, R> {
        let mut call = self.call(index, method, Kept(Rc::clone(arguments)));
        call.rare.get_or_insert_default().refusals = Some(refusals);
        call
    }
}

impl<A: Content, R: Wire> NackCall<'_, A, R> {
    /// Gives the call up after `after`, however often it is sent: see [`Call::deadline`].
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(Sleep::new(&self.bound.node, after));
        self.most = None;
        self.call = self.call.deadline(after);
        self
    }

    /// Lets the callee ask to have the deadline extended until `total` is over from now on, however
    /// often the call is sent: see [`Call::extendable`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Bank {
    /// #     #[method(nack)]
    /// #     async fn withdraw(&self, coins: u64) -> u64;
    /// # }
    /// # async fn of(bank: &BankClient) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// bank.withdraw(3).deadline(usually).extendable(at_most).await
    /// # }
    /// ```
    pub fn extendable(mut self, total: Duration) -> Self {
        self.most = Some(self.bound.until(total));
        self.call = self.call.at_most(self.most);
        self
    }

    /// Has the result written into `buffer`: see [`Call::into`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Bank {
    /// #     #[method(nack)]
    /// #     async fn coins(&self, count: u64) -> Vec<u64>;
    /// # }
    /// # async fn of(bank: &BankClient) -> Result<u64, upbeat::CallError> {
    /// let mut coins = [0; 8];
    /// let count = bank.coins(8).into(&mut coins).await?;
    /// Ok(coins[..count].iter().sum())
    /// # }
    /// ```
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> Filling<'_, Self, R, B>
    where
        R: Fills<B>,
    {
        Filling::new(self, buffer)
    }

    /// Sends the call now, or says [`CallError::Full`]: see [`Call::try_send`]. If it is sent back, it
    /// is sent again when it is awaited.
    pub fn try_send(self) -> Result<Self, CallError> {
        Ok(NackCall { call: self.call.try_send()?, ..self })
    }

    /// The call was refused: it is sent again after a while.
    #[cold]
    fn back_off(&mut self) {
        let (refusals, pause_ns) = self.bound.node.back_off(self.refusals);
        self.refusals = refusals;
        self.pause = Some(Sleep::new(&self.bound.node, Duration::from_nanos(pause_ns)));
    }

    /// Waits until the call is to be sent again.
    #[cold]
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        let Some(pause) = &mut self.pause else { return Poll::Ready(Ok(())) };
        if let Some(deadline) = &mut self.deadline
            && Pin::new(deadline).poll(context).is_ready()
        {
            self.pause = None;
            return Poll::Ready(Err(CallError::Deadline));
        }
        ready!(Pin::new(pause).poll(context));
        self.pause = None;
        let bound = self.bound;
        let call = bound.attempt(self.index, self.method, &self.arguments, self.refusals);
        self.call = match &self.deadline {
            Some(deadline) => {
                call.deadline(Duration::from_micros(deadline.left_us())).at_most(self.most)
            }
            None => call,
        };
        Poll::Ready(Ok(()))
    }
}

impl<A: Content, R: Wire> Future for NackCall<'_, A, R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context, R::take)
    }
}

impl<A: Content, R: Wire> Asks for NackCall<'_, A, R> {
    fn bounded(self, after: Duration) -> Self {
        self.deadline(after)
    }

    fn lent(self, total: Duration) -> Self {
        self.extendable(total)
    }

    fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>> {
        let this = self;
        loop {
            if this.pause.is_some()
                && let Err(error) = ready!(this.poll_pause(context))
            {
                return Poll::Ready(Err(error));
            }
            match ready!(this.call.poll_with(context, &mut take)) {
                // One who refuses for ever is answered back by the error.
                Err(CallError::Failed { code: FailCode::Refused, .. })
                    if is_refusable(this.refusals) =>
                {
                    this.back_off();
                }
                result => return Poll::Ready(result),
            }
        }
    }
}
