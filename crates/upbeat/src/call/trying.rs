//! Calls of methods that return a `Result` of the user's.
//!
//! One wrapper does for all kinds of calls: it hands on what can be said of them. Invariant: the user's
//! error and ours stand in one level.

use super::{Asks, Call, NackCall, TryFilling};
use crate::error::CallError;
use crate::wire::{Content, Fills, Wire};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A call that can be sent before it is awaited.
pub trait SendsNow: Asks {
    /// Sends it, or says [`CallError::Full`].
    #[doc(hidden)]
    fn send_now(self) -> Result<Self, CallError>;
}

impl<A: Content, R: Wire> SendsNow for Call<'_, A, R> {
    fn send_now(self) -> Result<Self, CallError> {
        self.try_send()
    }
}

impl<A: Content, R: Wire> SendsNow for NackCall<'_, A, R> {
    fn send_now(self) -> Result<Self, CallError> {
        self.try_send()
    }
}

/// A call of a method that returns a `Result<T, E>` of the user's: of a node's client, of one whose
/// call may be sent back, or of a handle.
#[must_use = "a call does nothing until it is awaited"]
pub struct Trying<C, T, E> {
    call: C,
    result: PhantomData<fn() -> Result<T, E>>,
}

/// A call of a method that returns a `Result<T, E>` of the user's.
pub type TryCall<'c, A, T, E> = Trying<Call<'c, A, Result<T, E>>, T, E>;

/// A call of a method under `#[method(nack)]` that returns a `Result<T, E>` of the user's.
pub type TryNackCall<'c, A, T, E> = Trying<NackCall<'c, A, Result<T, E>>, T, E>;

impl<C, T, E> Trying<C, T, E> {
    #[inline(always)]
    pub(crate) fn new(call: C) -> Self {
        Trying { call, result: PhantomData }
    }
}

impl<C: Asks, T, E> Trying<C, T, E> {
    /// Gives the call up after `after`, here and at the callee, to whom the deadline travels: see
    /// [`Call::deadline`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Files {
    /// #     async fn size(&self, name: String) -> Result<u64, String>;
    /// # }
    /// # async fn of(files: &FilesClient) -> Result<u64, upbeat::CallError<String>> {
    /// use std::time::Duration;
    ///
    /// files.size("notes".into()).deadline(Duration::from_millis(100)).await
    /// # }
    /// ```
    pub fn deadline(self, after: Duration) -> Self {
        Trying { call: self.call.bounded(after), ..self }
    }

    /// Lets the callee ask to have the deadline extended: see [`Call::extendable`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Files {
    /// #     async fn size(&self, name: String) -> Result<u64, String>;
    /// # }
    /// # async fn of(files: &FilesClient) -> Result<u64, upbeat::CallError<String>> {
    /// use std::time::Duration;
    ///
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// files.size("notes".into()).deadline(usually).extendable(at_most).await
    /// # }
    /// ```
    pub fn extendable(self, total: Duration) -> Self {
        Trying { call: self.call.lent(total), ..self }
    }

    /// Has the result written into `buffer`, unless it is the method's error: see [`Call::into`].
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Files {
    ///     async fn read(&self, name: String, from: u64) -> Result<Vec<u8>, String>;
    /// }
    ///
    /// async fn head(files: &FilesClient) -> Result<Vec<u8>, upbeat::CallError<String>> {
    ///     let mut page = vec![0; 4096];
    ///     let bytes = files.read("notes".into(), 0).into(&mut page).await?;
    ///     page.truncate(bytes);
    ///     Ok(page)
    /// }
    /// ```
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> TryFilling<'_, C, T, E, B>
    where
        T: Fills<B>,
    {
        TryFilling::new(self.call, buffer)
    }
}

impl<C: SendsNow, T, E> Trying<C, T, E> {
    /// Sends the call now, or says [`CallError::Full`]: see [`Call::try_send`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Files {
    /// #     async fn size(&self, name: String) -> Result<u64, String>;
    /// # }
    /// # async fn of(files: &FilesClient) -> Result<u64, upbeat::CallError<String>> {
    /// let call = files.size("notes".into()).try_send().map_err(upbeat::CallError::widen)?;
    /// call.await
    /// # }
    /// ```
    pub fn try_send(self) -> Result<Self, CallError> {
        Ok(Trying { call: self.call.send_now()?, ..self })
    }
}

impl<C, T, E> Future for Trying<C, T, E>
where
    C: Asks + Future<Output = Result<Result<T, E>, CallError>>,
{
    type Output = Result<T, CallError<E>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(flatten(ready!(Pin::new(&mut self.call).poll(context))))
    }
}

/// The user's error and ours in one level.
#[inline]
pub(crate) fn flatten<T, E>(result: Result<Result<T, E>, CallError>) -> Result<T, CallError<E>> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(CallError::Method(error)),
        Err(error) => Err(error.widen()),
    }
}
