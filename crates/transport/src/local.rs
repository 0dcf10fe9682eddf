//! Sessions between nodes of one process: a registry of names, and an inbox for each listener.
//!
//! The lanes are on the heap. The doorbell is a pair of sockets as between processes, so the session needs no special
//! case. Invariant: a name has one inbox, an inbox is bounded, and a caller whose request fails is told so, at the
//! latest by the end of its socket.

use crate::error::{BindError, OpenError, descriptor_limit};
use crate::handshake::Side;
use crate::home::{Home, NodeInfo};
use crate::host::reaches;
use crate::local_request::{self, LocalRequest};
use crate::opening::Opening;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::name::{NodeName, ProgramName};

type Address = (ProgramName, NodeName);

static REGISTRY: Mutex<Option<HashMap<Address, Arc<Inbox>>>> = Mutex::new(None);

/// The requests for sessions with one node, until the node's thread takes them.
struct Inbox {
    info: Arc<NodeInfo>,
    requests: Mutex<VecDeque<LocalRequest>>,
    /// An eventfd that is readable while a request may wait.
    wake: OwnedFd,
}

impl Inbox {
    fn requests(&self) -> MutexGuard<'_, VecDeque<LocalRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node's inbox for requests of other nodes of the process.
pub struct Listener {
    address: Address,
    inbox: Arc<Inbox>,
}

impl Listener {
    /// Takes the node's name in this process.
    pub fn bind(home: &Home) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags).map_err(|error| match error {
            Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
            error => BindError::System { act: "making an eventfd", error },
        })?;
        let address = (home.program().name().clone(), name);
        let inbox = Inbox { info: Arc::clone(home.info()), requests: Mutex::default(), wake };
        let inbox = Arc::new(inbox);
        match registry().get_or_insert_default().entry(address.clone()) {
            Entry::Vacant(entry) => entry.insert(Arc::clone(&inbox)),
            Entry::Occupied(_) => {
                let (name, pid) = (address.1, Some(std::process::id()));
                return Err(BindError::NameTaken { name, pid });
            }
        };
        Ok(Listener { address, inbox })
    }

    /// Accepts the next request, for the session with this number. Returns None if there is none. The first step of
    /// the opening returns the session; instead, the owner may refuse it.
    pub fn accept(
        &self,
        home: &Home,
        session: usize,
        _now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::new(home.info(), session)?;
        let mut requests = self.inbox.requests();
        let Some(request) = requests.pop_front() else {
            // The lock prevents a lost wake-up. The count in the eventfd does not matter.
            let _ = rustix::io::read(&self.inbox.wake, &mut [0; 8]);
            return Ok(None);
        };
        drop(requests);
        Ok(Some(Opening::request(request, us)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.wake.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(inboxes) = registry().as_mut() {
            inboxes.remove(&self.address);
        }
        // Callers that still wait see the end of their sockets.
        self.inbox.requests().clear();
    }
}

/// Requests a session with the node `to` of this process, for our session of this number.
pub fn connect(
    home: &Home,
    to: &NodeName,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    request_at(home, (to, None), session, now_ms)
}

/// Requests a session with the node `to` of this process, as [`connect`] does, if the node listens at this address of
/// our host and shares memory. Another node of that name is treated like a missing one.
pub fn connect_at(
    home: &Home,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    request_at(home, (to, Some(at)), session, now_ms)
}

fn request_at(
    home: &Home,
    (to, at): (&NodeName, Option<SocketAddr>),
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    let us = Side::new(home.info(), session)?;
    let address = (home.program().name().clone(), to.clone());
    let inbox = registry().as_ref().and_then(|inboxes| inboxes.get(&address)).cloned();
    let listens = |inbox: &Arc<Inbox>| at.is_none_or(|at| reaches(at, inbox.info.listening()));
    let Some(inbox) = inbox.filter(listens) else {
        return Err(OpenError::NoSuchNode { name: to.clone(), path: None, died: false });
    };
    let (call, request) = {
        let streams = home.info().streams_alone || inbox.info.streams_alone;
        local_request::request(us, to, streams, now_ms)?
    };
    if inbox.info.program != *home.program() {
        let ours = Box::new(home.program().clone());
        let theirs = Box::new(inbox.info.program.clone());
        return Err(OpenError::WrongProgram { peer: call.peer().clone(), ours, theirs });
    }
    let mut requests = inbox.requests();
    if requests.len() >= PENDING_HANDSHAKES_MAX {
        return Err(OpenError::Backlog { name: to.clone() });
    }
    requests.push_back(request);
    // The write fails only if the counter is full, which wakes the node as well.
    let _ = rustix::io::write(&inbox.wake, &1u64.to_ne_bytes());
    Ok(Opening::call(call))
}

/// Returns the incarnation of the node that has a name in this process.
pub fn incarnation_of(program: &ProgramName, name: &NodeName) -> Option<u64> {
    let address = (program.clone(), name.clone());
    Some(registry().as_ref()?.get(&address)?.info.incarnation)
}

fn registry() -> MutexGuard<'static, Option<HashMap<Address, Arc<Inbox>>>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
