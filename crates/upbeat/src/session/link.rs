//! A session whose connection is lost and that waits for another, for nodes and handles alike.

use super::Session;
use crate::error::Why;
use rustix::io::Errno;
use upbeat_core::hello::RefusalCode;
use upbeat_core::resume::{Link, Role};
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::remote::ResumeRequest;

/// The reason why a session ends that its listener does not know any more.
const FORGOTTEN: &str = "the node has no such session any more: it was started anew, or has given the session up; \
                         the next call opens another one";

impl Session {
    /// Runs `act` on the link, if the session outlives its connection.
    pub(crate) fn link<T>(&self, act: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let mut link = self.ending.link.get()?;
        let done = act(&mut link);
        self.ending.link.set(Some(link));
        self.ending.is_down.set(link.until_ns().is_some());
        Some(done)
    }

    /// Returns whether the session waits for another connection, and its owner has noticed.
    pub(crate) fn is_down(&self) -> bool {
        self.ending.is_down.get()
    }

    /// Returns the proof that the listener is shown when this side connects again.
    pub(crate) fn again(&self, home: &LocalNode) -> Option<ResumeRequest> {
        let ticket = self.carrier.agreed()?.ticket;
        Some(ResumeRequest::new(home, ticket, self.carrier.position()))
    }

    /// Notes that an attempt to connect again has failed, with the connection's error if there is one. Returns why
    /// the session ends if another attempt is useless; else another follows after a random delay.
    pub(crate) fn attempt_failed(
        &self,
        error: Option<&OpenError>,
        now_ns: u64,
        random: impl FnOnce() -> u64,
    ) -> Option<Why> {
        if error.is_some_and(is_final) {
            self.link(|link| link.refused());
            return Some(Why::Unreachable { text: FORGOTTEN.to_owned() });
        }
        if let Some(error) = error {
            self.ending.failed.replace(Some(error.to_string()));
        }
        self.link(|link| link.failed(now_ns, random()));
        None
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

/// Returns whether connecting again is useless after this error.
fn is_final(error: &OpenError) -> bool {
    match error {
        OpenError::Refused { code, .. } => *code == RefusalCode::NoSuchSession,
        OpenError::NoAddress { tried, .. } => tried.iter().any(is_final),
        _ => false,
    }
}
