//! How the errors of calls are made, and how they get the names of what was called.

use super::CallError;
use super::expired::{Called, Callee, Expired};
use std::fmt::Display;
use upbeat_core::limits::MESSAGE_BYTES_MAX;

impl<E> CallError<E> {
    /// Returns the error of a call whose deadline has passed, after it was sent or before, for a mock that fails a call.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let error: CallError = CallError::deadline(true);
    /// assert_eq!(error.to_string(), "the deadline passed; the call was sent and may have run");
    /// ```
    #[cold]
    pub fn deadline(is_sent: bool) -> CallError<E> {
        CallError::Deadline(Box::new(Expired { is_sent, called: Called::default() }))
    }

    /// Returns the error of a call whose session is lost and could not be opened anew, with the reason.
    #[cold]
    pub(crate) fn not_connected(text: impl Into<Box<str>>) -> CallError<E> {
        CallError::NotConnected { text: text.into(), called: Called::default() }
    }

    /// Returns the error of a call whose arguments or result cannot be carried.
    #[cold]
    pub(crate) fn value(error: &dyn Display) -> CallError<E> {
        CallError::Value { text: error.to_string().into(), called: Called::default() }
    }

    /// Returns the error of a message of so many bytes, which are too many.
    #[cold]
    pub(crate) fn too_large(bytes: usize) -> CallError<E> {
        CallError::TooLarge { bytes, most: MESSAGE_BYTES_MAX, called: Called::default() }
    }

    /// Returns the error of a stream that was broken off, with the reason.
    #[cold]
    pub(crate) fn stream(text: &str) -> CallError<E> {
        CallError::Stream { text: text.into(), called: Called::default() }
    }

    /// Returns the error of a call whose context cannot travel, with the reason.
    #[cold]
    pub(crate) fn context(text: impl Into<Box<str>>) -> CallError<E> {
        CallError::Context { text: text.into(), called: Called::default() }
    }

    /// Notes the callee of a call that has failed. An error that was named first knows its call best.
    #[cold]
    pub(crate) fn at(mut self, callee: impl FnOnce() -> Callee) -> CallError<E> {
        if let Some(called) = self.called() {
            called.0.get_or_insert_with(|| Box::new(callee()));
        }
        self
    }

    /// Notes the callee of the call for which another one was made, and has failed.
    #[cold]
    pub(crate) fn of(mut self, callee: Callee) -> CallError<E> {
        if let Some(called) = self.called() {
            called.0 = Some(Box::new(callee));
        }
        self
    }

    /// Returns where the error names its callee. A clash names its method. The others without a place come of attempts that
    /// a program may make in a loop, and of errors whose remedy lies in the caller.
    fn called(&mut self) -> Option<&mut Called> {
        match self {
            CallError::Deadline(expired) => Some(&mut expired.called),
            CallError::Unknown(lost) | CallError::NotSent(lost) => Some(&mut lost.called),
            CallError::Failed { called, .. }
            | CallError::NoSuchMethod { called, .. }
            | CallError::Value { called, .. }
            | CallError::TooLarge { called, .. }
            | CallError::ResultTooLarge { called, .. }
            | CallError::ResultNoMemory { called, .. }
            | CallError::NoRoom { called, .. }
            | CallError::Stream { called, .. }
            | CallError::Refused { called, .. }
            | CallError::Context { called, .. }
            | CallError::ReplyDropped { called, .. }
            | CallError::NotConnected { called, .. } => Some(called),
            CallError::Method(_)
            | CallError::Clash(_)
            | CallError::Full
            | CallError::NoMemory { .. }
            | CallError::TooManyCalls { .. }
            | CallError::WouldBlockNode => None,
        }
    }

    /// Returns the method that was called, if the error is one of a call that was made, and names it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// #[upbeat::service]
    /// trait Clock {
    ///     async fn now(&self) -> u64;
    /// }
    ///
    /// struct Never;
    ///
    /// impl Clock for Never {
    ///     async fn now(&self) -> u64 {
    ///         std::future::pending().await
    ///     }
    /// }
    ///
    /// let node = upbeat::Node::builder("doc/callee").local_only().build()?;
    /// node.serve(ClockServer::new(Never))?;
    /// let error = node.block_on(async {
    ///     let clock: ClockClient = node.connect("doc/callee").await?;
    ///     let late = clock.now().deadline(Duration::from_millis(1)).await;
    ///     Ok::<_, upbeat::ConnectError>(late.unwrap_err())
    /// })?;
    /// assert_eq!(error.callee().map(|callee| callee.method), Some("now"));
    /// # Ok(()) }
    /// ```
    pub fn callee(&self) -> Option<&Callee> {
        match self {
            CallError::Deadline(expired) => expired.callee(),
            CallError::Unknown(lost) | CallError::NotSent(lost) => lost.called.0.as_deref(),
            CallError::Failed { called, .. }
            | CallError::NoSuchMethod { called, .. }
            | CallError::Value { called, .. }
            | CallError::TooLarge { called, .. }
            | CallError::ResultTooLarge { called, .. }
            | CallError::ResultNoMemory { called, .. }
            | CallError::NoRoom { called, .. }
            | CallError::Stream { called, .. }
            | CallError::Refused { called, .. }
            | CallError::Context { called, .. }
            | CallError::ReplyDropped { called, .. }
            | CallError::NotConnected { called, .. } => called.0.as_deref(),
            CallError::Method(_)
            | CallError::Clash(_)
            | CallError::Full
            | CallError::NoMemory { .. }
            | CallError::TooManyCalls { .. }
            | CallError::WouldBlockNode => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_names_its_callee_and_says_whether_the_call_was_sent() {
        let callee = || Callee { node: "shop".into(), service: "Shop", method: "total" };
        let text = |is_sent| CallError::<u8>::deadline(is_sent).at(callee).to_string();
        assert_eq!(
            [text(true), text(false)],
            [
                "the deadline of `total` of service `Shop` at shop passed; the call was sent and may have run",
                "the deadline of `total` of service `Shop` at shop passed before the call was sent; it has not run and \
                 can be repeated",
            ]
        );
        let may_have_run = |is_sent| CallError::<u8>::deadline(is_sent).may_have_run();
        assert_eq!([may_have_run(true), may_have_run(false)], [true, false]);
        // The error that was named first knows its call best.
        let other = || Callee { node: "other".into(), service: "Other", method: "other" };
        let twice = CallError::<u8>::deadline(true).at(callee).at(other);
        assert!(
            matches!(twice, CallError::Deadline(expired) if expired.callee() == Some(&callee()))
        );
    }

    /// Errors are returned by value from every call.
    #[test]
    fn an_error_takes_four_words_at_most() {
        assert!(size_of::<CallError>() <= 4 * size_of::<usize>());
        assert!(size_of::<CallError<String>>() <= 4 * size_of::<usize>());
    }
}
