//! The context of a call: values that travel with it, and how they are written and read.
//!
//! `core::context` holds the entries and their bounds; this file turns values into entries and back. Invariant: an
//! entry that cannot be read gives no value, and the process is warned of it once.

use crate::error::CallError;
use crate::warning::{Problem, warn_of};
use crate::wire::{Input, Output, Wire, WireError};
use std::sync::Arc;
use upbeat_core::context::{Context as Entries, ContextError};
use upbeat_core::limits::CONTEXT_BYTES_MAX;

/// A value that travels with a call beside its arguments: a tenant, a trace, a priority.
///
/// The caller gives it by [`with`](crate::call::CallFuture::with), and the handler and what it calls read it by
/// [`context`](crate::context()). A handler's own calls and one-way messages carry on what its caller gave, as they
/// inherit its deadline, and so do those of the tasks that it [spawns](crate::spawn). A call travels with at most 16
/// such values, which have at most 4 KiB together with their keys.
///
/// Both sides must agree on the type of a key: choose another key when the type changes.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Tenant(u64);
///
/// impl upbeat::Context for Tenant {
///     const KEY: &'static str = "tenant";
/// }
///
/// #[upbeat::service]
/// pub trait Orders {
///     async fn count(&self) -> u64;
/// }
///
/// struct Store;
///
/// impl Orders for Store {
///     async fn count(&self) -> u64 {
///         match upbeat::context::<Tenant>() {
///             Some(Tenant(tenant)) => 100 * tenant,
///             None => 0,
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = upbeat::Node::builder("doc/context").local_only().build()?;
/// node.serve(OrdersServer::new(Store))?;
/// let count = node.block_on(async {
///     let orders: OrdersClient = node.connect("doc/context").await?;
///     Ok::<_, Box<dyn std::error::Error>>(orders.count().with(&Tenant(7)).await?)
/// })?;
/// assert_eq!(count, 700);
/// # Ok(()) }
/// ```
///
/// A priority that travels with a call gives a task its [`Priority`](crate::Priority):
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use upbeat::Priority;
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// enum Urgency {
///     Later,
///     Now,
/// }
///
/// impl upbeat::Context for Urgency {
///     const KEY: &'static str = "urgency";
/// }
///
/// /// Starts work that a handler leaves to a task, as urgent as the handler's caller says.
/// fn start(node: &upbeat::Node, work: impl Future<Output = ()> + 'static) {
///     let priority = match upbeat::context::<Urgency>() {
///         Some(Urgency::Now) => Priority::High,
///         Some(Urgency::Later) => Priority::Low,
///         None => Priority::Normal,
///     };
///     drop(node.spawn_with(priority, work));
/// }
/// ```
pub trait Context: Wire {
    /// The name of the value: 1 to 64 bytes. Of two values of one key the later one travels.
    const KEY: &'static str;
}

/// Reads the value of a type.
pub(crate) fn read<C: Context>(entries: &Entries) -> Option<C> {
    let value = entries.value(C::KEY)?;
    let mut input = Input::own(value);
    let read = C::take(&mut input).and_then(|value| match input.remaining() {
        0 => Ok(value),
        bytes => Err(WireError::Surplus { bytes }),
    });
    read.inspect_err(|error| is_unread(C::KEY, error)).ok()
}

#[cold]
fn is_unread(key: &'static str, error: &WireError) {
    let text = format_args!(
        "the value `{key}` of a call's context cannot be read and counts as absent: {error}; caller and callee \
         must use one type for this key"
    );
    warn_of(("context", key), Problem::Dropped, text);
}

/// The context that a caller gives a call.
#[derive(Clone, Default)]
pub(crate) struct Attached {
    given: Arc<Entries>,
    /// Why a value cannot travel.
    error: Option<Box<str>>,
    /// Whether the context of the handler that makes the call stays behind.
    alone: bool,
}

impl Attached {
    /// Adds a value.
    pub(crate) fn add<C: Context>(&mut self, value: &C) {
        const { assert!(!C::STREAMS, "a stream cannot travel in a context") };
        let mut out = Output::own(CONTEXT_BYTES_MAX);
        let written = value.put(&mut out).map_err(|error| error.to_string());
        let added = written.and_then(|()| {
            let (bytes, fits) = (out.len(), out.fits());
            let value = out.into_bytes().filter(|_| fits).ok_or(ContextError::Bytes { bytes });
            let set = value.and_then(|value| Arc::make_mut(&mut self.given).set(C::KEY, &value));
            set.map_err(|error| error.to_string())
        });
        if let Err(text) = added {
            self.error.get_or_insert_with(|| format!("`{}`: {text}", C::KEY).into());
        }
    }

    /// Returns this context with the values of another, which replace those with the same keys.
    pub(crate) fn joined(&self, other: &Attached) -> Attached {
        let (given, failed) = match self.given.with(&other.given) {
            Ok(both) => (Arc::new(both), None),
            Err(error) => (Arc::clone(&self.given), Some(error.to_string().into())),
        };
        let error = self.error.clone().or_else(|| other.error.clone()).or(failed);
        Attached { given, error, alone: self.alone || other.alone }
    }

    /// Leaves out the context of the handler that makes the call.
    pub(crate) fn leave_inherited(&mut self) {
        self.alone = true;
    }

    /// Returns the context with which a call goes that inherits none.
    #[inline(always)]
    pub(crate) fn entries(attached: Option<&Attached>) -> Result<Option<&Entries>, CallError> {
        match attached {
            None => Ok(None),
            Some(attached) => attached.own(),
        }
    }

    #[cold]
    fn own(&self) -> Result<Option<&Entries>, CallError> {
        match &self.error {
            Some(text) => Err(CallError::context(text.clone())),
            None => Ok(Some(&*self.given).filter(|given| !given.is_empty())),
        }
    }

    /// Returns the context with which a call goes that is made where this one was inherited.
    pub(crate) fn outgoing(
        attached: Option<&Attached>,
        inherited: Option<Arc<Entries>>,
    ) -> Result<Option<Arc<Entries>>, CallError> {
        let Some(attached) = attached else { return Ok(inherited) };
        let given = attached.own()?;
        match (inherited.filter(|_| !attached.alone), given) {
            (Some(inherited), Some(given)) => match inherited.with(given) {
                Ok(both) => Ok(Some(Arc::new(both))),
                Err(error) => Err(CallError::context(error.to_string())),
            },
            (Some(inherited), None) => Ok(Some(inherited)),
            (None, given) => Ok(given.map(|_| Arc::clone(&attached.given))),
        }
    }
}
