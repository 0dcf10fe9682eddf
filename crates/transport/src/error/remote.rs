//! The errors of connections between hosts, in words for the user.

use rustix::io::Errno;
use std::fmt;

/// The reason why there is no connection to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreached {
    /// The host's name has no address.
    NoSuchHost {
        /// The text of the system.
        text: String,
    },
    /// No program listens at the port.
    Refused,
    /// No reply came in time.
    TimedOut {
        /// The time that this side waited.
        waited_ms: u64,
    },
    /// The network reported an error.
    Network(Errno),
    /// The program at this address speaks another protocol.
    NotUpbeat,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreached::NoSuchHost { text } => {
                write!(
                    f,
                    "the host's name was not resolved ({text}): see whether it is spelled right"
                )
            }
            Unreached::Refused => write!(
                f,
                "the connection was refused: see whether the node runs and listens at this port"
            ),
            Unreached::TimedOut { waited_ms } => write!(
                f,
                "nothing has answered for {waited_ms} ms: see whether the host is up and no firewall \
                 stands between"
            ),
            Unreached::Network(error) => write!(f, "the connection failed: {error}"),
            Unreached::NotUpbeat => {
                write!(f, "what answers is no node of Upbeat: see whether the port is right")
            }
        }
    }
}

impl std::error::Error for Unreached {}
