//! The errors of connecting a client or a handle.

use super::{
    AddressError, CallError, Clash, FailCode, NameError, NodeAddressError, OpenError, debug_as_text,
};
use std::fmt;
use std::time::Duration;

/// The reason why a client could not connect.
///
/// ```
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// #     #[oneway]
/// #     async fn reset(&self);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::ConnectError;
///
/// let node = upbeat::Node::builder("doc/connect").local_only().build()?;
/// match node.block_on(node.connect::<CounterClient>("nobody")) {
///     Err(ConnectError::Open(error)) => assert!(error.to_string().contains("no node `nobody`")),
///     _ => unreachable!("nobody is there"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name of the node is not valid.
    Name(NameError),
    /// The address of the host is not valid.
    Address(AddressError),
    /// The node is on another host, but this side has neither an identity nor permission for plaintext.
    Unprotected {
        /// The node, and its address.
        to: String,
    },
    /// The node of a reference is on another host, and the reference has no address of it.
    NoAddress {
        /// The node.
        to: String,
    },
    /// No session could be opened.
    Open(OpenError),
    /// The peer does not serve this service.
    NotServed {
        /// The service.
        service: String,
        /// The peer.
        peer: String,
    },
    /// Both sides have these methods with different signatures, and no other method of the service can be called. If some
    /// can, connecting succeeds, and calls of the others fail with [`CallError::Clash`].
    Clash(Vec<Clash>),
    /// The request for the service cannot be made, or the peer's reply cannot be understood.
    Service {
        /// The reason.
        text: String,
    },
    /// The session ended, or the peer refused the request, before the methods were known.
    Call(CallError),
    /// This node was shut down.
    ShutDown,
    /// The node did not appear in time ([`Connect::wait_for`](crate::Connect::wait_for)).
    NotInTime {
        /// How long the client has waited.
        waited: Duration,
        /// The error of the last attempt.
        last: Box<ConnectError>,
    },
}

impl ConnectError {
    /// Returns whether a later attempt may succeed without a change here: the node does not exist yet, or no longer
    /// exists, or does not serve the service yet.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            ConnectError::Open(error) => error.may_pass(),
            ConnectError::NotServed { .. } => true,
            ConnectError::Call(CallError::Failed { code, .. }) => *code == FailCode::Closing,
            ConnectError::Call(CallError::NotSent(lost) | CallError::Unknown(lost)) => {
                lost.may_come_back()
            }
            _ => false,
        }
    }

    /// Returns whether a node was reached that does not serve the service, also behind a wait for it.
    pub(crate) fn is_not_served(&self) -> bool {
        match self {
            ConnectError::NotServed { .. } => true,
            ConnectError::NotInTime { last, .. } => last.is_not_served(),
            _ => false,
        }
    }

    /// Returns the error for a node that did not appear in time, whose last attempt failed with this one.
    pub(crate) fn after(self, waited: Duration) -> ConnectError {
        ConnectError::NotInTime { waited, last: Box::new(self) }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Name(error) => error.fmt(f),
            ConnectError::Address(error) => error.fmt(f),
            ConnectError::Unprotected { to } => write!(
                f,
                "messages to {to} would go over the network as they are: give this side an identity \
                 (`upbeat keys issue`), or, where the network is safe, say so by \
                 `insecure_plaintext()` on both sides"
            ),
            ConnectError::NoAddress { to } => write!(
                f,
                "the reference to {to} comes from another host and says no address of it, and this \
                 node has no session with it: have {to} listen at an address of its host \
                 (`Builder::listen`, neither `0.0.0.0` nor `[::]`), or make the reference by \
                 `ServiceRef::at(\"{to}@host:7411\")`"
            ),
            ConnectError::Open(error) => error.fmt(f),
            ConnectError::NotServed { service, peer } => {
                write!(
                    f,
                    "{peer} does not serve {service}: write `node.serve({service}Server::new(…))?` in its program \
                     before it is connected to, connect to the node that serves {service}, or wait for the service \
                     with `node.connect(…).wait_for(…)`"
                )
            }
            ConnectError::Clash(clashes) => {
                clashes.iter().try_for_each(|clash| writeln!(f, "{clash}"))
            }
            ConnectError::Service { text } => write!(f, "binding failed: {text}"),
            ConnectError::Call(error) => write!(f, "binding failed: {error}"),
            ConnectError::ShutDown => write!(f, "this node was shut down"),
            ConnectError::NotInTime { waited, last } => {
                write!(f, "{last}; it was waited for during {waited:?}")
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::NotInTime { last, .. } => Some(&**last),
            _ => None,
        }
    }
}

debug_as_text!(ConnectError {
    Name,
    Address,
    Unprotected,
    NoAddress,
    Open,
    NotServed,
    Clash,
    Service,
    Call,
    ShutDown,
    NotInTime,
});

impl From<NodeAddressError> for ConnectError {
    fn from(error: NodeAddressError) -> ConnectError {
        match error {
            NodeAddressError::Name(error) => ConnectError::Name(error),
            NodeAddressError::Address(error) => ConnectError::Address(error),
        }
    }
}
