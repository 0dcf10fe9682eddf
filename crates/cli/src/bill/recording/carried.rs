//! What carries the session of a kind of message, as far as a recording says it.

use serde::{Deserialize, Serialize};

/// What carries the session of a kind of message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carried {
    /// The name of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carrier: Option<String>,
    /// The address of the node's peer, where it is of another host; without a port where the peer has connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Nanoseconds by which what is charged to the wire in one direction may be wrong, where the clocks are of two
    /// hosts: as much is missing in the other direction.
    #[serde(default)]
    pub(crate) doubt: f64,
}

impl Carried {
    /// What carries it, and the peer's address, in words, as far as that is known.
    pub(crate) fn words(&self) -> Option<String> {
        let carrier = match self.carrier.as_deref()? {
            "local" => "memory of one process",
            "shared" => "shared memory",
            "stream" => "a byte stream on one host",
            "tcp" => "TCP",
            "tls" => "TLS",
            other => other,
        };
        Some(match &self.address {
            Some(at) => format!("{carrier}, {at}"),
            None => carrier.to_owned(),
        })
    }
}
