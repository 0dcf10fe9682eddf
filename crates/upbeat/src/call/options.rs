//! The options of calls that are made through the trait of a service's callers.

#![expect(private_bounds, reason = "the routes are those of this crate")]

use super::{CallFuture, Route, SendFuture, Take};
use crate::metadata::{Attached, Context};
use crate::wire::Content;
use std::time::Duration;

/// The deadline and the context of calls that are made through the trait of a service's callers: see
/// `CounterCaller::deadline` and `CounterCaller::with` of a service `Counter`.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use upbeat::CallError;
///
/// #[upbeat::service]
/// pub trait Counter {
///     async fn add(&self, n: u64) -> u64;
/// }
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Tenant(u64);
///
/// impl upbeat::Context for Tenant {
///     const KEY: &'static str = "tenant";
/// }
///
/// /// Calls a client, a handle, a service of this process, or a mock, which has no deadline and no context.
/// async fn add_twice(counter: &impl CounterCaller, n: u64) -> Result<u64, CallError> {
///     let counter = counter.deadline(Duration::from_millis(100));
///     counter.add(n).await?;
///     counter.with(&Tenant(7)).add(n).await
/// }
/// ```
#[derive(Clone, Default)]
pub struct CallOptions {
    deadline: Option<Duration>,
    attached: Option<Attached>,
}

impl CallOptions {
    /// Gives each call up after `after`, or earlier if the options say so already. A one-way message that is awaited has
    /// no deadline: bound it by [`within`](crate::within).
    pub fn deadline(mut self, after: Duration) -> CallOptions {
        self.deadline = Some(self.deadline.map_or(after, |before| before.min(after)));
        self
    }

    /// Has a value travel with each call and one-way message.
    pub fn with<C: Context>(mut self, value: &C) -> CallOptions {
        self.attached.get_or_insert_default().add(value);
        self
    }

    /// Returns these options and those of a caller around them: the earlier deadline, and of two values with one key
    /// the other's.
    pub fn join(&self, other: &CallOptions) -> CallOptions {
        let deadline = self.deadline.into_iter().chain(other.deadline).min();
        let attached = match (&self.attached, &other.attached) {
            (Some(attached), Some(other)) => Some(attached.joined(other)),
            (attached, other) => attached.as_ref().or(other.as_ref()).cloned(),
        };
        CallOptions { deadline, attached }
    }
}

impl<W: Route, A: Content, T: Take> CallFuture<W, A, T> {
    /// Sets the options of the call.
    #[doc(hidden)]
    pub fn options(self, options: &CallOptions) -> Self {
        let call = self.attached(options.attached.clone());
        match options.deadline {
            Some(after) => call.deadline(after),
            None => call,
        }
    }
}

impl<W: Route, A: Content> SendFuture<W, A> {
    /// Sets the options of the message, which has no deadline.
    #[doc(hidden)]
    pub fn options(mut self, options: &CallOptions) -> Self {
        if options.attached.is_some() {
            self.rare.get_or_insert_default().attached.clone_from(&options.attached);
        }
        self
    }
}
