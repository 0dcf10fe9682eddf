//! A session whose connection is lost and that waits for another, for nodes and handles alike.

use super::Session;
use crate::error::Why;
use rustix::io::Errno;
use upbeat_core::resume::{Link, Role};
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::remote::ResumeRequest;

impl Session {
    /// Runs `act` on the link, if the session outlives its connection.
    pub(crate) fn link<T>(&self, act: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let mut link = self.ending.link.get()?;
        let done = act(&mut link);
        self.set_link(link);
        Some(done)
    }

    /// Stores the state of the link, on which the owner has worked elsewhere.
    pub(crate) fn set_link(&self, link: Link) {
        self.ending.link.set(Some(link));
        self.ending.is_down.set(link.until_ns().is_some());
    }

    /// Returns whether the session waits for another connection, and its owner has noticed.
    pub(crate) fn is_down(&self) -> bool {
        self.ending.is_down.get()
    }

    /// Returns whether the session is hot, and over a byte stream that stands, as far as is known.
    pub(crate) fn is_pumped(&self) -> bool {
        self.carrier.caps().is_pumped && self.noted.hot.get() && !self.is_down()
    }

    /// Returns the proof that the listener is shown when this side connects again.
    pub(crate) fn again(&self, home: &LocalNode) -> Option<ResumeRequest> {
        let ticket = self.carrier.agreed()?.ticket;
        Some(ResumeRequest::new(home, ticket, self.carrier.position()))
    }

    /// Notes the error of an attempt to connect again that has failed.
    pub(crate) fn attempt_failed(&self, error: String) {
        self.ending.failed.replace(Some(error));
    }

    /// Returns why the session ends whose connection did not come back in time.
    pub(crate) fn not_resumed(&self) -> Why {
        let Some(agreed) = self.carrier.agreed() else { return Why::Died };
        let within = agreed.within_ms;
        let text = match (agreed.role, self.ending.failed.take()) {
            (Role::Listener, _) => format!("the peer did not connect again within {within} ms"),
            (Role::Caller, None) => {
                format!(
                    "no other could be made within {within} ms; calls open another session once its host is reached"
                )
            }
            (Role::Caller, Some(failed)) => format!(
                "no other could be made within {within} ms ({failed}); calls open another session once this is repaired"
            ),
        };
        Why::Unreachable { text }
    }
}

/// Returns why the session ends at once whose connection broke with this error.
pub(super) fn unreachable(error: Errno) -> Why {
    let text = match error {
        Errno::TIMEDOUT => {
            "its host has not answered within `peer_timeout`; calls open another session once the host is reached"
                .to_owned()
        }
        error => error.to_string(),
    };
    Why::Unreachable { text }
}
