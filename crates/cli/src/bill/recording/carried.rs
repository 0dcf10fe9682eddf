//! The carrier of a session, as far as a recording contains it.

use serde::{Deserialize, Serialize};

/// The carrier of the session of a kind of message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carried {
    /// The name of the kind of carrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carrier: Option<String>,
    /// The address of the node's peer, if the peer is on another host; without a port if the peer has connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// The possible error of the wire's time in one direction, in nanoseconds, if the clocks are those of two
    /// hosts. The other direction has the opposite error.
    #[serde(default)]
    pub(crate) doubt: f64,
}

impl Carried {
    /// Returns the carrier and the peer's address in words, if the carrier is known.
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

/// A session whose messages were sampled, in the direction of requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session<'r> {
    pub(crate) from: &'r str,
    pub(crate) to: &'r str,
    /// The carrier of the session, and the peer's address.
    pub(crate) carried: String,
    pub(crate) samples: u64,
    /// The possible error of the wire's time in nanoseconds, if the clocks are those of two hosts.
    pub(crate) doubt: Option<f64>,
}
