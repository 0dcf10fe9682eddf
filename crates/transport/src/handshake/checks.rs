//! The records and comparisons of both handshakes: between processes of one host, and between hosts.

use super::{Dialled, Handshake, Role, Side};
use crate::error::{OpenError, PeerIdentity};
use crate::host;
use upbeat_core::hello::{Hello, Refusal, Segments, VERSION_MAX, VERSION_MIN, Welcome};
use upbeat_core::name::NodeName;

impl Side {
    /// Makes the hello of a caller that wants this node.
    pub(crate) fn hello(&self, wanted: &NodeName, memory: bool) -> Hello {
        let info = &self.info;
        Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            program: info.program.clone(),
            caller: info.name.clone(),
            wanted: wanted.clone(),
            incarnation: info.incarnation,
            pid: std::process::id(),
            memory,
        }
    }

    /// Compares a caller's hello with this side, which listens under `name`, and returns the answer.
    pub(crate) fn welcome(
        &self,
        name: &NodeName,
        hello: &Hello,
        peer: &PeerIdentity,
    ) -> Result<Welcome, OpenError> {
        let (info, peer) = (&self.info, || peer.clone());
        let Some(version) = hello.version() else {
            let (ours, theirs) = (VERSION_MAX, hello.version_max);
            return Err(OpenError::WrongVersion { peer: peer(), ours, theirs });
        };
        if hello.program != info.program {
            let (ours, theirs) = (info.program.clone().into(), hello.program.clone().into());
            return Err(OpenError::WrongProgram { peer: peer(), ours, theirs });
        }
        if hello.wanted != *name {
            let (wanted, reached) = (hello.wanted.clone(), name.clone());
            return Err(OpenError::WrongNode { peer: peer(), wanted, reached });
        }
        Ok(Welcome { node: name.clone(), incarnation: info.incarnation, version })
    }
}

impl Handshake {
    /// Returns the address that this side was given, if it is a caller with an address.
    pub(super) fn dialled(&self) -> Option<Dialled> {
        match &self.role {
            Role::Caller { dialled } => *dialled,
            Role::Listener { .. } => None,
        }
    }

    /// Checks that the node listens at the address that this side was given.
    pub(super) fn check_listens(&self, segments: &Segments) -> Result<(), OpenError> {
        match self.dialled() {
            Some(dialled) if !host::reaches(dialled.at, segments.listening) => {
                Err(self.elsewhere())
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of a caller that was given an address whose node it cannot reach through memory.
    pub(super) fn elsewhere(&self) -> OpenError {
        match self.peer.name.clone() {
            Some(name) => OpenError::NoSuchNode { name, path: None, died: false },
            None => OpenError::Closed { peer: self.peer.clone() },
        }
    }
}

/// Compares the name of the node that has answered with the name that was wanted. The names differ if a socket was
/// moved.
pub(crate) fn check_welcome(welcome: &Welcome, peer: &PeerIdentity) -> Result<(), OpenError> {
    match &peer.name {
        Some(wanted) if *wanted != welcome.node => Err(OpenError::WrongNode {
            peer: peer.clone(),
            wanted: wanted.clone(),
            reached: welcome.node.clone(),
        }),
        _ => Ok(()),
    }
}

/// Returns the error of a side that was refused.
pub(crate) fn refused(peer: &PeerIdentity, refusal: &Refusal) -> OpenError {
    let text = refusal.text().escape_debug().to_string();
    OpenError::Refused { peer: peer.clone(), code: refusal.code(), text }
}
