//! The method that a failed call was for, and a call whose deadline has passed.

use std::fmt;

/// The method that a failed call was for.
///
/// ```
/// use upbeat::error::Callee;
///
/// let callee = Callee { node: "counter (process 7)".into(), service: "Counter", method: "add" };
/// assert_eq!(callee.to_string(), "`add` of service `Counter` at counter (process 7)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// The node, as the caller knows it.
    pub node: String,
    /// The name of the service.
    pub service: &'static str,
    /// The name of the method.
    pub method: &'static str,
}

/// The method that a failed call was for, in those errors that are one of several kinds of facts. It is not known where no
/// call was made: in the errors of mocks, and of streams of arguments, whose reader is the callee.
///
/// Any two are equal, so that errors are compared by what happened.
///
/// ```
/// use upbeat::CallError;
/// use upbeat::error::Called;
///
/// let error: CallError = CallError::Refused { text: "no".into(), called: Called::default() };
/// assert_eq!(error.callee(), None);
/// ```
#[derive(Clone, Default)]
pub struct Called(pub(super) Option<Box<Callee>>);

impl PartialEq for Called {
    fn eq(&self, _: &Called) -> bool {
        true
    }
}

impl Eq for Called {}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Prints the method and the service behind the word "call", or nothing.
impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(callee) => write!(f, " of `{}` of service `{}`", callee.method, callee.service),
            None => Ok(()),
        }
    }
}

/// A call whose deadline has passed: whether it was sent, and its callee. See [`CallError::Deadline`](super::CallError::Deadline).
///
/// Two of these are equal if both calls were sent, or neither was.
#[derive(Clone, Debug)]
pub struct Expired {
    pub(super) is_sent: bool,
    pub(super) called: Called,
}

impl Expired {
    /// Returns whether the call was sent: the session had taken its request over. If so, the call may have run. It may
    /// also still run, if the session has lost its connection and gets another; it then ends at once, as far as the
    /// callee knows that its deadline has passed.
    ///
    /// If not, the call has not run and does not run later: it had waited for its session, for room, or for its turn.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let CallError::<u8>::Deadline(expired) = CallError::deadline(false) else { panic!() };
    /// assert!(!expired.is_sent());
    /// ```
    pub fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Returns the method that was called, if the error is one of a call that was made.
    ///
    /// ```
    /// use upbeat::CallError;
    ///
    /// let CallError::<u8>::Deadline(expired) = CallError::deadline(true) else { panic!() };
    /// assert_eq!(expired.callee(), None);
    /// ```
    pub fn callee(&self) -> Option<&Callee> {
        self.called.0.as_deref()
    }
}

impl PartialEq for Expired {
    fn eq(&self, other: &Expired) -> bool {
        self.is_sent == other.is_sent
    }
}

impl Eq for Expired {}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of service `{}` at {}", self.method, self.service, self.node)
    }
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.callee() {
            Some(callee) => write!(f, "the deadline of {callee} passed")?,
            None => write!(f, "the deadline passed")?,
        }
        match self.is_sent {
            true => write!(f, "; the call was sent and may have run"),
            false => write!(f, " before the call was sent; it has not run and can be repeated"),
        }
    }
}
