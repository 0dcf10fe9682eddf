//! Sessions between nodes of one process: a registry of names, and the requests that wait for their nodes.
//!
//! The lanes are on the heap. The doorbell is a pair of sockets as between processes, so the session needs no special
//! case. Nodes that share a name form a `group`, which hands each request to one of them. Invariant: a name has one
//! group, the requests that wait for a node are bounded, and a caller whose request fails is told so, at the latest by
//! the end of its socket.

use crate::error::{BindError, OpenError};
use crate::group::{Group, Membership, NotHanded};
use crate::handshake::Side;
use crate::host::reaches;
use crate::local_node::{LocalNode, NodeInfo};
use crate::local_request::{self, LocalRequest};
use crate::opening::Opening;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_environment::process::process_number;
use upbeat_environment::turns::{Mutex, MutexGuard};

/// A name, by process: a forked child inherits the registry and not the nodes.
type Address = (u32, ProgramName, NodeName);

type Groups = HashMap<Address, Arc<Group<LocalRequest>>>;

static REGISTRY: Mutex<Option<Groups>> = Mutex::new(None);

/// A node's part in its name, at which other nodes of the process request sessions.
pub struct Listener {
    address: Address,
    /// None while it is dropped.
    membership: Option<Membership<LocalRequest>>,
}

impl Listener {
    /// Takes the node's name in this process, or shares it with the nodes that have it.
    pub fn bind(home: &LocalNode) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        let address = address_of(home.program().name(), &name);
        let mut registry = registry();
        let groups = registry.get_or_insert_default();
        let group = groups.get(&address).cloned().unwrap_or_else(|| Arc::new(Group::new()));
        match Membership::take(&group, home)? {
            Some(membership) => {
                groups.insert(address.clone(), group);
                Ok(Listener { address, membership: Some(membership) })
            }
            None => Err(BindError::NameTaken { name, pid: Some(std::process::id()) }),
        }
    }

    fn membership(&self) -> &Membership<LocalRequest> {
        self.membership.as_ref().expect("it stands until it is dropped")
    }

    /// Accepts the next request, for the session with this number. Returns None if there is none. The first step of
    /// the opening returns the session; instead, the owner may refuse it.
    pub fn accept(
        &self,
        home: &LocalNode,
        session: usize,
        _now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::new(home.info(), session)?;
        if let Some(request) = self.membership().next() {
            return Ok(Some(Opening::request(request, us)));
        }
        // A caller that comes from here on wakes the node again.
        self.membership().member().has_woken();
        Ok(self.membership().next().map(|request| Opening::request(request, us)))
    }

    /// Returns whether a caller waits for this node.
    pub fn has_caller(&self) -> bool {
        self.membership().has_caller()
    }

    /// Has the node woken again, as if a caller had come.
    pub fn wake(&self) {
        self.membership().member().wake();
    }

    /// Takes callers back from nodes of this name that do not take them. Returns when to look again, if any caller
    /// waits for another node.
    pub fn look_after(&self, now_ms: u64) -> Option<u64> {
        self.membership().look_after(now_ms)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.membership().member().as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut registry = registry();
        // Callers that wait for the last node see the end of their sockets.
        self.membership = None;
        if let Some(groups) = registry.as_mut()
            && groups.get(&self.address).is_some_and(|group| group.is_empty())
        {
            groups.remove(&self.address);
        }
    }
}

/// Requests a session with the node `to` of this process, for our session of this number.
pub fn connect(
    home: &LocalNode,
    to: &NodeName,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    request_at(home, (to, None), session, now_ms)
}

/// Requests a session with the node `to` of this process, as [`connect`] does, if the node listens at this address of
/// our host and shares memory. Another node of that name is treated like a missing one.
pub fn connect_at(
    home: &LocalNode,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    request_at(home, (to, Some(at)), session, now_ms)
}

fn request_at(
    home: &LocalNode,
    (to, at): (&NodeName, Option<SocketAddr>),
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    let us = Side::new(home.info(), session)?;
    let absent = || OpenError::NoSuchNode { name: to.clone(), path: None, died: false };
    let group = group_of(home.program().name(), to).ok_or_else(absent)?;
    let listens = |info: &NodeInfo| at.is_none_or(|at| reaches(at, info.listening()));
    let mut ours = None;
    let handed = group.hand(listens, |info| {
        let streams = home.info().streams_alone || info.streams_alone;
        let (call, request) = local_request::request(us, to, streams, now_ms)?;
        if info.program != *home.program() {
            let ours = Box::new(home.program().clone());
            let theirs = Box::new(info.program.clone());
            return Err(OpenError::WrongProgram { peer: call.peer().clone(), ours, theirs });
        }
        ours = Some(call);
        Ok(request)
    });
    match (handed, ours) {
        (Ok(()), Some(call)) => Ok(Opening::call(call)),
        (Ok(()), None) | (Err(NotHanded::Nobody), _) => Err(absent()),
        (Err(NotHanded::Full), _) => Err(OpenError::Backlog { name: to.clone() }),
        (Err(NotHanded::NotMade(error)), _) => Err(error),
    }
}

/// Whether a node of this name in this process has this incarnation.
pub fn has_node(program: &ProgramName, name: &NodeName, incarnation: u64) -> bool {
    let group = group_of(program, name);
    group.is_some_and(|group| group.any(|info| info.incarnation == incarnation))
}

fn group_of(program: &ProgramName, name: &NodeName) -> Option<Arc<Group<LocalRequest>>> {
    registry().as_ref()?.get(&address_of(program, name)).cloned()
}

fn address_of(program: &ProgramName, name: &NodeName) -> Address {
    (process_number(), program.clone(), name.clone())
}

fn registry() -> MutexGuard<'static, Option<Groups>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
