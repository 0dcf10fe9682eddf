//! The errors of calls, and their texts for users.
//!
//! There is one enum for each family: calls, and connecting. A method that returns `Result<T, E>` is called with
//! `Result<T, CallError<E>>`: the user's error and Upbeat's are in one level.

mod build;

mod cores;

mod serve;

mod connect;

mod shown;

mod expired;

mod made;

mod lost;

use std::convert::Infallible;
use std::fmt;

pub use build::BuildError;
pub use connect::ConnectError;
pub use cores::CoresError;
pub use expired::{Called, Callee, Expired};
pub use lost::{Lost, Why};
pub use serve::ServeError;
pub(crate) use shown::debug_as_text;
use shown::escaped;
pub use upbeat_core::address::{AddressError, NodeAddressError};
pub use upbeat_core::bind::Clash;
use upbeat_core::channel::call::Ending;
#[doc(hidden)]
pub use upbeat_core::fault::Rule;
pub use upbeat_core::frame::FailCode;
pub use upbeat_core::name::NameError;
pub use upbeat_transport::error::{BindError, HomeError, OpenError, PlaceError, Unreached};
pub use upbeat_transport::identity::{IdentityError, Untrusted};
pub use upbeat_transport::tls::{Distrust, TlsError};

/// The reason why a call has no result.
///
/// ```
/// use upbeat::CallError;
///
/// fn shown(result: Result<u64, CallError<String>>) -> String {
///     match result {
///         Ok(value) => format!("it is {value}"),
///         Err(CallError::Method(error)) => format!("the method says: {error}"),
///         Err(CallError::NotSent(lost)) => format!("not run, for {lost}"),
///         Err(CallError::Unknown(lost)) => format!("it may have run, but {lost}"),
///         Err(other) => other.to_string(),
///     }
/// }
///
/// assert_eq!(shown(Err(CallError::Method("too many".into()))), "the method says: too many");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// The method returned this error. The call has run, once.
    Method(E),
    /// The peer was lost before it answered. The call may have run, or not.
    Unknown(Box<Lost>),
    /// The peer was lost before the call was sent, and the call does not reconnect: this node was shut down, or the
    /// call is one that does not wait or that was built in a buffer of its session. It has not run.
    NotSent(Box<Lost>),
    /// The callee reports why there is no result.
    Failed {
        /// The kind of failure.
        code: FailCode,
        /// The callee's text.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// The deadline passed, after the call was sent or before.
    Deadline(Box<Expired>),
    /// The callee does not have this method, although it has others of the service.
    NoSuchMethod {
        /// The method's name.
        method: &'static str,
        /// The method that was called.
        called: Called,
    },
    /// The callee has this method with another signature. The call was not sent, and has not run. Calls of other methods
    /// of the service work.
    Clash(Box<Clash>),
    /// The arguments, or the result, cannot be carried.
    Value {
        /// The reason.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// The result has more bytes than this node, or handle, accepts, and was not read. The call has run.
    ResultTooLarge {
        /// The bytes of the result.
        bytes: usize,
        /// The most bytes that are accepted.
        most: usize,
        /// The method that was called.
        called: Called,
    },
    /// There is no memory for the result, which was not read. The call has run.
    ResultNoMemory {
        /// The bytes of the result.
        bytes: usize,
        /// The method that was called.
        called: Called,
    },
    /// The message is longer than messages may be, and was not sent.
    TooLarge {
        /// The bytes of the message.
        bytes: usize,
        /// The most bytes of a message.
        most: usize,
        /// The method that was called.
        called: Called,
    },
    /// The result has more items than the caller's buffer, and none of them was written. The call
    /// has run.
    NoRoom {
        /// The number of items of the result.
        items: usize,
        /// The number of items that the buffer can hold.
        room: usize,
        /// The method that was called.
        called: Called,
    },
    /// A stream ended before its last item.
    Stream {
        /// The reason.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// A layer of the service refused the call. Its method has not run.
    Refused {
        /// The layer's text.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// The context cannot travel with the call, which was not sent.
    Context {
        /// The value, and the reason.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// There is no room for the message now, and `try_send` does not wait. The message was not sent.
    Full,
    /// There is no memory for the message.
    NoMemory {
        /// The bytes that were needed.
        bytes: usize,
        /// The system's text.
        text: Box<str>,
    },
    /// The call has run, but its reply was dropped on arrival, because unread replies
    /// filled the memory that a session has for them.
    ReplyDropped {
        /// Bytes of the reply.
        bytes: usize,
        /// The most bytes of unread replies that a session copies.
        most: usize,
        /// The method that was called.
        called: Called,
    },
    /// Too many calls of this session are open, and `try_send` does not wait. The call was not sent.
    TooManyCalls {
        /// The most calls that may be open.
        most: usize,
    },
    /// The session was lost before the call was sent, and reconnecting failed. The call has not run.
    NotConnected {
        /// The reason.
        text: Box<str>,
        /// The method that was called.
        called: Called,
    },
    /// A blocking call would stop the node that this thread drives.
    WouldBlockNode,
}

impl<E> CallError<E> {
    /// Returns the error of a call that has no reply when its session is lost.
    #[cold]
    pub(crate) fn at_loss(is_sent: bool, lost: Lost) -> CallError<E> {
        match Ending::of(is_sent) {
            Ending::NotSent => CallError::NotSent(Box::new(lost)),
            Ending::Unknown => CallError::Unknown(Box::new(lost)),
        }
    }

    /// Returns whether the callee has refused the call before its handler began, so that the call is sent again.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, CallError::Failed { code: FailCode::Refused, .. })
    }

    /// Returns the same error with the method's own error converted by `f`.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let error = CallError::Method(404).map(|code: u16| format!("code {code}"));
    /// assert_eq!(error.to_string(), "code 404");
    /// ```
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> CallError<F> {
        match self {
            CallError::Method(error) => CallError::Method(f(error)),
            CallError::Unknown(lost) => CallError::Unknown(lost),
            CallError::NotSent(lost) => CallError::NotSent(lost),
            CallError::Failed { code, text, called } => CallError::Failed { code, text, called },
            CallError::Deadline(expired) => CallError::Deadline(expired),
            CallError::NoSuchMethod { method, called } => {
                CallError::NoSuchMethod { method, called }
            }
            CallError::Clash(clash) => CallError::Clash(clash),
            CallError::Value { text, called } => CallError::Value { text, called },
            CallError::TooLarge { bytes, most, called } => {
                CallError::TooLarge { bytes, most, called }
            }
            CallError::ResultTooLarge { bytes, most, called } => {
                CallError::ResultTooLarge { bytes, most, called }
            }
            CallError::ResultNoMemory { bytes, called } => {
                CallError::ResultNoMemory { bytes, called }
            }
            CallError::NoRoom { items, room, called } => CallError::NoRoom { items, room, called },
            CallError::Stream { text, called } => CallError::Stream { text, called },
            CallError::Refused { text, called } => CallError::Refused { text, called },
            CallError::Context { text, called } => CallError::Context { text, called },
            CallError::Full => CallError::Full,
            CallError::NoMemory { bytes, text } => CallError::NoMemory { bytes, text },
            CallError::ReplyDropped { bytes, most, called } => {
                CallError::ReplyDropped { bytes, most, called }
            }
            CallError::TooManyCalls { most } => CallError::TooManyCalls { most },
            CallError::NotConnected { text, called } => CallError::NotConnected { text, called },
            CallError::WouldBlockNode => CallError::WouldBlockNode,
        }
    }

    /// Returns whether the call may have run although there is no result.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let [sent, unsent] = [true, false].map(CallError::<u8>::deadline);
    /// assert!(sent.may_have_run() && !unsent.may_have_run());
    /// ```
    pub fn may_have_run(&self) -> bool {
        match self {
            CallError::Method(_)
            | CallError::Unknown(_)
            | CallError::NoRoom { .. }
            | CallError::ResultTooLarge { .. }
            | CallError::ResultNoMemory { .. }
            | CallError::Stream { .. }
            | CallError::ReplyDropped { .. }
            | CallError::Value { .. } => true,
            CallError::Deadline(expired) => expired.is_sent(),
            CallError::Failed { code, .. } => {
                let unrun = [
                    FailCode::NoSuchMethod,
                    FailCode::BadArguments,
                    FailCode::Closing,
                    FailCode::Refused,
                    FailCode::ArgumentsTooLarge,
                    FailCode::NoMemory,
                ];
                !unrun.contains(code)
            }
            _ => false,
        }
    }
}

impl CallError<Infallible> {
    /// Returns the same error for a method that has an error type of its own.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let error: CallError = CallError::Full;
    /// assert_eq!(error.widen::<String>(), CallError::Full);
    /// ```
    pub fn widen<E>(self) -> CallError<E> {
        self.map(|never| match never {})
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

/// Prints the text for a user, and the variant behind it: a `main` that returns this error prints it so. The method's own
/// error is printed by its own `Debug`, and nothing else.
impl<E: fmt::Debug> fmt::Debug for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Method(error) => error.fmt(f),
            other => {
                other.show(f, E::fmt).and_then(|()| write!(f, " (CallError::{})", self.variant()))
            }
        }
    }
}

impl<E> CallError<E> {
    /// Returns the name of the variant.
    fn variant(&self) -> &'static str {
        match self {
            CallError::Method { .. } => "Method",
            CallError::Unknown { .. } => "Unknown",
            CallError::NotSent { .. } => "NotSent",
            CallError::Failed { .. } => "Failed",
            CallError::Deadline { .. } => "Deadline",
            CallError::NoSuchMethod { .. } => "NoSuchMethod",
            CallError::Clash { .. } => "Clash",
            CallError::Value { .. } => "Value",
            CallError::ResultTooLarge { .. } => "ResultTooLarge",
            CallError::ResultNoMemory { .. } => "ResultNoMemory",
            CallError::TooLarge { .. } => "TooLarge",
            CallError::NoRoom { .. } => "NoRoom",
            CallError::Stream { .. } => "Stream",
            CallError::Refused { .. } => "Refused",
            CallError::Context { .. } => "Context",
            CallError::Full => "Full",
            CallError::NoMemory { .. } => "NoMemory",
            CallError::ReplyDropped { .. } => "ReplyDropped",
            CallError::TooManyCalls { .. } => "TooManyCalls",
            CallError::NotConnected { .. } => "NotConnected",
            CallError::WouldBlockNode => "WouldBlockNode",
        }
    }

    /// Writes the text for a user. `method` writes the method's own error.
    fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        method: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match (self, self.callee()) {
            // These name the callee within their sentences.
            (CallError::Deadline(_) | CallError::Unknown(_) | CallError::NotSent(_), _)
            | (_, None) => {}
            (_, Some(callee)) => write!(f, "{callee}: ")?,
        }
        match self {
            CallError::Method(error) => method(error, f),
            CallError::Unknown(lost) => write!(f, "{lost}; the call{} may have run", lost.called),
            CallError::NotSent(lost) => write!(f, "{lost}; the call{} was not sent", lost.called),
            CallError::Failed { code, text, .. } if text.is_empty() => {
                write!(f, "the callee: {code}")
            }
            CallError::Failed { code, text, .. } => {
                write!(f, "the callee: {code}: {}", escaped(text))
            }
            CallError::Deadline(expired) => write!(f, "{expired}"),
            CallError::NoSuchMethod { method, .. } => write!(
                f,
                "the callee has no method {method}: it was built from an older version of the \
                 service"
            ),
            CallError::Clash(clash) => write!(f, "the call was not sent: {clash}"),
            CallError::Value { text, .. } => write!(f, "the value cannot be carried: {text}"),
            CallError::TooLarge { bytes, most, .. } => {
                write!(f, "the message has {bytes} bytes; at most {most} are carried")
            }
            CallError::ResultTooLarge { bytes, most, .. } => write!(
                f,
                "the result has {bytes} bytes and at most {most} are taken; the call has run: \
                 raise `max_message_bytes` of the caller's node, or handle"
            ),
            CallError::ResultNoMemory { bytes, .. } => write!(
                f,
                "the caller has no memory for the {bytes} bytes of the result; the call has run"
            ),
            CallError::NoRoom { items, room, .. } => {
                write!(f, "the result has {items} items and the buffer has room for {room}")
            }
            CallError::Stream { text, .. } => {
                write!(f, "the stream was broken off: {}", escaped(text))
            }
            CallError::Refused { text, .. } => {
                write!(f, "the callee refused the call: {}", escaped(text))
            }
            CallError::Context { text, .. } => {
                write!(f, "the context cannot travel with the call, which was not sent: {text}")
            }
            CallError::Full => write!(
                f,
                "there is no room for the message now, and it was not sent: await it, or try again"
            ),
            CallError::NoMemory { bytes, text } => {
                write!(f, "there is no memory for a buffer of {bytes} bytes: {text}")
            }
            CallError::ReplyDropped { bytes, most, .. } => write!(
                f,
                "the call has run, and its reply of {bytes} bytes was dropped: replies of its session \
                 that nobody has read fill {most} bytes; poll calls that were sent until they are done, \
                 or drop them"
            ),
            CallError::TooManyCalls { most } => {
                write!(
                    f,
                    "{most} calls of this session are open, as many as may be, and the call was not sent: await it, or try again when some have ended"
                )
            }
            CallError::NotConnected { text, .. } => write!(f, "not connected: {text}"),
            CallError::WouldBlockNode => write!(
                f,
                "a blocking call in the thread that drives a node would stop that node: await the handle's own \
                 method (`counter.add(1).await` instead of `counter.blocking().add(1)`, and \
                 `node.connect(…).await` instead of making a handle), or block in another thread"
            ),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for CallError<E> {}
