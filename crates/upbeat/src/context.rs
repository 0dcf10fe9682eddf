//! How a handler reads the context of its call.

use crate::dispatch::Dispatcher;
use crate::metadata::{Context, read};

/// Returns the value of this type that the caller of the handler has given its call [`with`](crate::call::CallFuture::with).
///
/// A handler reads the context of its call, and so do the tasks that it has spawned and their tasks. None where the
/// call has no value of this [key](Context::KEY), where its bytes are not those of this type (the process is warned of
/// that once), and outside of handlers.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Trace(u128);
///
/// impl upbeat::Context for Trace {
///     const KEY: &'static str = "trace";
/// }
///
/// fn log(what: &str) {
///     let trace = upbeat::context::<Trace>().map_or(0, |Trace(number)| number);
///     println!("{trace:032x} {what}");
/// }
/// # log("started");
/// ```
pub fn context<C: Context>() -> Option<C> {
    let context = Dispatcher::if_driving(|node| node.inherited_context())??;
    read(&context)
}
