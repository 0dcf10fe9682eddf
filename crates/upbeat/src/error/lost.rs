//! How a session ended.

use super::{Called, Rule};
use std::fmt;

/// How a session ended, and the peer of that session.
///
/// ```
/// use upbeat::{Lost, Why};
///
/// let lost = Lost::new("counter (process 7)", Why::Died);
/// assert_eq!(lost.to_string(), "counter (process 7) has died: it ended without closing the session");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The peer's name, or a description of a peer without a name.
    pub peer: String,
    /// Why the session ended.
    pub why: Why,
    /// The method that was called, if this is the reason of a call.
    pub(super) called: Called,
}

/// The reason why a session ended.
///
/// ```
/// use upbeat::{Lost, Why};
///
/// let lost = Lost::new("counter (process 7)", Why::Closed);
/// assert_eq!(lost.to_string(), "counter (process 7) was shut down and has closed the session");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The peer's process was killed, or ended without closing its node or its handle.
    Died,
    /// The peer is a node that was shut down, or dropped.
    Closed,
    /// The peer is a handle that was dropped, or that has closed a session it no longer needs. This is no fault.
    HandleClosed,
    /// This node was shut down.
    ShutDown,
    /// The peer broke a rule.
    Misbehaved(Rule),
    /// The peer broke a rule of the lane or the socket, in words.
    Broken(String),
    /// This process has no descriptor left for a message of the peer.
    Descriptors {
        /// The most descriptors that the process may have.
        limit: u64,
    },
    /// This process could not map memory of the peer, for a reason of its own.
    Unmapped {
        /// The memory that could not be mapped, and the reason.
        text: String,
    },
    /// The peer gave the session up because a resource is missing there, or because this side broke a rule.
    GivenUp {
        /// The peer's text.
        text: String,
    },
    /// The connection to the peer's host broke, or nothing has arrived over it for too long. The session was
    /// not to outlive its connection, or no other connection was made in time.
    Unreachable {
        /// The system's text, or the result of the attempts to connect again.
        text: String,
    },
    /// This process is a forked child of the process whose handle opened the session.
    Forked,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Died => {
                write!(f, "{} has died: it ended without closing the session", self.peer)
            }
            Why::Closed => write!(f, "{} was shut down and has closed the session", self.peer),
            Why::HandleClosed => {
                write!(f, "{} has closed its session, which it needs no more", self.peer)
            }
            Why::ShutDown => write!(f, "this node was shut down and left {}", self.peer),
            Why::Misbehaved(rule) => write!(f, "{} broke a rule: {rule}", self.peer),
            Why::Broken(text) => write!(f, "{} broke a rule: {text}", self.peer),
            Why::Descriptors { limit } => write!(
                f,
                "the session with {} was given up: this process has its {limit} descriptors in \
                 use; raise the limit (ulimit -n)",
                self.peer
            ),
            Why::Unmapped { text } => {
                write!(f, "the session with {} was given up: in this process {text}", self.peer)
            }
            Why::GivenUp { text } => write!(f, "{} gave the session up: {text}", self.peer),
            Why::Unreachable { text } => {
                write!(f, "the connection to {} broke: {text}", self.peer)
            }
            Why::Forked => write!(
                f,
                "a forked child cannot use its parent's session with {}: connect a handle of the \
                 child's own",
                self.peer
            ),
        }
    }
}

impl std::error::Error for Lost {}

impl Lost {
    /// Returns how the session with a peer ended, for a mock that fails a call.
    ///
    /// ```
    /// use upbeat::{CallError, Lost, Why};
    ///
    /// let error: CallError = CallError::Unknown(Box::new(Lost::new("counter", Why::Died)));
    /// assert!(error.may_have_run());
    /// ```
    pub fn new(peer: &str, why: Why) -> Lost {
        Lost { peer: peer.to_owned(), why, called: Called::default() }
    }

    /// Returns whether a node under the peer's name may exist again after a while.
    pub(crate) fn may_come_back(&self) -> bool {
        matches!(self.why, Why::Died | Why::Closed | Why::Unreachable { .. })
    }
}
