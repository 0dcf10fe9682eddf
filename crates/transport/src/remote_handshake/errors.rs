//! The errors of a handshake, with the peer as far as it is known.

use super::{RemoteHandshake, State};
use crate::error::{OpenError, Unreached};
use crate::tls::TlsError;
use rustix::io::Errno;
use upbeat_core::fault::Rule;

impl RemoteHandshake {
    pub(super) fn too_slow(&self, now_ms: u64) -> OpenError {
        match self.state {
            State::Connection { .. } => {
                let waited_ms = now_ms.saturating_sub(self.started_ms);
                self.unreached(Unreached::TimedOut { waited_ms })
            }
            _ => {
                let waited_ms = now_ms.saturating_sub(self.since_ms());
                OpenError::TooSlow { peer: self.peer.clone(), waited_ms }
            }
        }
    }

    pub(super) fn unreached(&self, why: Unreached) -> OpenError {
        OpenError::Unreached { at: self.at.to_string(), why }
    }

    /// Returns the error of a broken connection, with the reason as far as it is known.
    #[cold]
    pub(super) fn broke(&self, error: Errno) -> OpenError {
        match (self.pipe.fault(), error) {
            (Some(TlsError::Cut), _) | (None, Errno::PIPE | Errno::CONNRESET) => self.closed(),
            (Some(why), _) => self.no_agreement(why),
            (None, error) => self.unreached(Unreached::Network(error)),
        }
    }

    pub(super) fn closed(&self) -> OpenError {
        OpenError::Closed { peer: self.peer.clone() }
    }

    pub(super) fn broken(&self, rule: Rule) -> OpenError {
        OpenError::Protocol { peer: self.peer.clone(), rule }
    }
}
