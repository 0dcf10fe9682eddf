//! The end of a session: the reason that the peer gets, and the description for this side's errors.

use super::Session;
use crate::error::{Lost, Why};
use upbeat_core::frame::Head;
use upbeat_core::hello::RefusalCode;
use upbeat_memory::sync::fence_full;

impl Session {
    /// Closes the socket. The peer is told the reason if this side lacks something or the peer broke a rule.
    pub(crate) fn close(&self, why: &Why) {
        let carrier = &self.carrier;
        match why {
            Why::Descriptors { limit } => {
                let text = format!("all {limit} descriptors of the process are in use (ulimit -n)");
                carrier.refuse(RefusalCode::TooManyDescriptors, &text);
            }
            Why::Unmapped { text } => carrier.refuse(RefusalCode::NoResources, text),
            Why::Misbehaved(rule) => carrier.refuse(RefusalCode::Malformed, &rule.to_string()),
            Why::Broken(text) => carrier.refuse(RefusalCode::Malformed, text),
            _ => {}
        }
        carrier.close();
    }

    /// Tells the peer that this side closes the session in order, unless it has ended or was told before. The frame may
    /// find no slot, or lie behind frames that the peer cannot read any more: the header of the lane says it too.
    pub(crate) fn say_goodbye(&self) {
        if self.ended().is_none() && self.is_here() && !self.ending.said.replace(true) {
            self.carrier.writer().set_ended();
            self.send_surely(Head::goodbye(), Vec::new());
            self.flush(fence_full());
        }
    }

    /// Returns why a session ends whose peer is gone: the peer may have announced its end.
    pub(crate) fn why_gone(&self, why: Why) -> Why {
        let in_order = self.ending.goodbye.get() || self.carrier.reader().peer_has_ended();
        match (why, &self.carrier.peer.name) {
            (Why::Died, Some(_)) if in_order => Why::Closed,
            (Why::Died, None) if in_order => Why::HandleClosed,
            (why, _) => why,
        }
    }

    /// Returns how the session ended.
    pub(crate) fn lost(&self) -> Lost {
        let still = || Lost::new(&self.peer_text(), Why::Died);
        self.ending.lost.get().cloned().unwrap_or_else(still)
    }

    /// Returns the peer's description for messages.
    pub(crate) fn peer_text(&self) -> String {
        let peer = &self.carrier.peer;
        let process = match (peer.pid, peer.at) {
            (Some(pid), _) => format!("process {pid}"),
            (None, Some(at)) => at.to_string(),
            (None, None) => "a process of another PID namespace".to_owned(),
        };
        match &peer.name {
            Some(name) => format!("{name} ({process})"),
            None => format!("a handle of {process}"),
        }
    }
}
