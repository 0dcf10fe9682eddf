//! Sessions between processes of one host: the listener at a node's socket, and the caller.
//!
//! The handshake decides the contents of the packets. Invariant: a name has one socket, which nodes of one process
//! may share, and which is there without a gap while any of them listens. A full table of descriptors makes no caller
//! wait and no listener spin, because one spare descriptor serves to tell the next caller.

use crate::claim::{Claim, Holder, holder, key, sweep, sweep_others};
use crate::error::{BindError, OpenError, descriptor_limit};
use crate::group::{Group, Membership};
use crate::handshake::{Dialled, Handshake, Side, refuse};
use crate::local_node::LocalNode;
use crate::opening::Opening;
use crate::packet;
use crate::socket_directory::{FileNames, ProgramDirectory, SocketDirectory};
use crate::spare::SpareDescriptor;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_environment::process::{Resource, obtain, with_socket};
use upbeat_environment::turns::{Mutex, MutexGuard};

/// The connections that may wait to be accepted, if the system allows that many: all peers that a node can have may
/// connect at once.
const BACKLOG: i32 = 4096;

/// The sockets of this process's nodes, by process and name.
static SOCKETS: Mutex<Option<Sockets>> = Mutex::new(None);

type Sockets = HashMap<(u32, PathBuf), Arc<Socket>>;

/// A node's socket, at which other processes call. Nodes of a process that share a name share the socket.
pub struct Listener {
    key: (u32, PathBuf),
    /// None while it is dropped.
    part: Option<Part>,
    /// One clone is held by every handshake under way.
    pending: Arc<()>,
}

/// A node's part in the socket of its name.
struct Part {
    membership: Membership<OwnedFd>,
    socket: Arc<Socket>,
}

/// The socket of a name.
struct Socket {
    socket: OwnedFd,
    name: NodeName,
    path: PathBuf,
    /// The claim goes last: the name is free only when nobody answers under it.
    _claim: Claim,
    spare: SpareDescriptor,
    group: Arc<Group<OwnedFd>>,
}

impl Socket {
    /// Takes a node's name and listens under it.
    fn new(
        place: &SocketDirectory,
        home: &LocalNode,
        dir: ProgramDirectory,
        name: &NodeName,
    ) -> Result<Socket, BindError> {
        let program = home.program().name();
        let path = place.socket_path(program, name);
        let claim = Claim::take(place, program, dir, name)?;
        sweep(&claim.dir);
        sweep_others(place, program);
        let socket = listen(&claim)?;
        let spare = SpareDescriptor::new().map_err(failed("opening /"))?;
        let (name, group) = (name.clone(), Arc::new(Group::new()));
        Ok(Socket { socket, name, path, _claim: claim, spare, group })
    }

    fn accept(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        obtain(Resource::Descriptors)?;
        obtain(Resource::Memory)?;
        rustix::net::accept_with(&self.socket, flags).map(with_socket)
    }

    /// Tells the next caller that there is no descriptor for it, by means of the one in spare.
    fn turn_away(&self) {
        self.spare.lend(|| {
            if let Ok(socket) = self.accept() {
                let error = OpenError::Descriptors { limit: descriptor_limit() };
                refuse(socket.as_fd(), RefusalCode::TooManyDescriptors, &error.to_string());
            }
        });
    }
}

impl Listener {
    /// Takes the node's name and listens under it, or shares both with the nodes of this process that have the name. A
    /// dead node's socket is taken over.
    pub fn bind(place: &SocketDirectory, home: &LocalNode) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        if !home.is_reachable() {
            return Err(BindError::LocalOnly);
        }
        let dir = place.open(home.program().name(), true)?;
        let key = key(&dir, &FileNames::of(&name));
        // Until the end, so that the name is not let go of meanwhile.
        let mut sockets = sockets();
        let sockets = sockets.get_or_insert_default();
        let socket = match sockets.get(&key) {
            Some(socket) => Arc::clone(socket),
            None => Arc::new(Socket::new(place, home, dir, &name)?),
        };
        home.info().is_locked_by(&key.1);
        let Some(membership) = Membership::take(&socket.group, home)? else {
            return Err(BindError::NameTaken { name, pid: Some(std::process::id()) });
        };
        sockets.insert(key.clone(), Arc::clone(&socket));
        Ok(Listener { key, part: Some(Part { membership, socket }), pending: Arc::new(()) })
    }

    /// Where the socket lies.
    pub fn path(&self) -> &Path {
        &self.part().socket.path
    }

    fn part(&self) -> &Part {
        self.part.as_ref().expect("it stands until it is dropped")
    }

    /// Returns the number of handshakes of this listener that are under way. How many may be is the owner's to
    /// say, who leaves the others in the socket's queue.
    pub fn pending(&self) -> usize {
        Arc::strong_count(&self.pending) - 1
    }

    /// Whether a caller waits that another node of this name has accepted.
    pub fn has_caller(&self) -> bool {
        self.part().membership.has_caller()
    }

    /// Takes callers back from nodes of this name that do not take them. Returns when to look again, if any caller
    /// waits for another node.
    pub fn look_after(&self, now_ms: u64) -> Option<u64> {
        self.part().membership.look_after(now_ms)
    }

    /// Returns whether the descriptor is there with which the next caller can be told that there is no other.
    pub fn has_spare(&self) -> bool {
        self.part().socket.spare.is_open()
    }

    /// Accepts the next caller, for the session of this number; None if nobody calls. Callers that are other nodes' of
    /// this name are left with those.
    ///
    /// An error is one caller's, which was told; the next may be accepted at once. The exception is
    /// [`OpenError::Descriptors`]: callers are told as long as [`Listener::has_spare`], so leave the rest for the next
    /// turn, or for later.
    pub fn accept(
        &self,
        home: &LocalNode,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::new(home.info(), session)?;
        let Some(socket) = self.next()? else { return Ok(None) };
        let (name, pending) = (self.part().socket.name.clone(), Arc::clone(&self.pending));
        Handshake::answer(us, socket, name, pending, now_ms)
            .map(|handshake| Some(Opening::shared(handshake)))
    }

    /// Returns the next caller of this node: one that waits for it, or one that has connected.
    fn next(&self) -> Result<Option<OwnedFd>, OpenError> {
        let Part { membership, socket: listening } = self.part();
        if let Some(socket) = membership.next() {
            return Ok(Some(socket));
        }
        // As many as may be another node's.
        for _ in 0..PENDING_HANDSHAKES_MAX {
            let socket = match listening.accept() {
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
                Err(Errno::MFILE | Errno::NFILE) => {
                    listening.turn_away();
                    return Err(OpenError::Descriptors { limit: descriptor_limit() });
                }
                other => other.map_err(OpenError::system("accepting a caller"))?,
            };
            listening.spare.restock();
            if let Some(socket) = membership.route(socket) {
                return Ok(Some(socket));
            }
        }
        Ok(None)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.part().socket.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut sockets = sockets();
        self.part = None;
        // The name is free when its last node is gone.
        if let Some(sockets) = sockets.as_mut()
            && sockets.get(&self.key).is_some_and(|socket| Arc::strong_count(socket) == 1)
        {
            sockets.remove(&self.key);
        }
    }
}

fn sockets() -> MutexGuard<'static, Option<Sockets>> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the node `to`, for our session of this number. The node must accept the connection within
/// [`CONNECT_MS_MAX`](upbeat_core::limits::CONNECT_MS_MAX) from `now_ms` on. A caller that retries passes the time of
/// its first attempt.
pub fn connect(
    place: &SocketDirectory,
    home: &LocalNode,
    to: &NodeName,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    call(place, home, (to, None), session, now_ms)
}

/// Calls the node `to`, as [`connect`] does, if the node listens at this address of our host and shares memory.
/// Another node of that name, or a node of another network namespace, is treated like a missing one. The node must
/// answer by `until_ms`.
pub fn connect_at(
    place: &SocketDirectory,
    home: &LocalNode,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    [now_ms, until_ms]: [u64; 2],
) -> Result<Opening, OpenError> {
    call(place, home, (to, Some(Dialled { at, until_ms })), session, now_ms)
}

fn call(
    place: &SocketDirectory,
    home: &LocalNode,
    (to, dialled): (&NodeName, Option<Dialled>),
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    let us = Side::new(home.info(), session)?;
    if !home.is_reachable() {
        return Err(OpenError::LocalOnly);
    }
    let program = home.program().name();
    let absent = |died| {
        let path = Some(place.socket_path(program, to));
        OpenError::NoSuchNode { name: to.clone(), path, died }
    };
    let dir = match place.open(program, false) {
        Err(crate::error::PlaceError::System { error: Errno::NOENT, .. }) => {
            return Err(absent(false));
        }
        other => other?,
    };
    let system = OpenError::system;
    let files = FileNames::of(to);
    // A forked child of a dead node may hold its socket, which then still accepts connections. If the holder of the
    // name is unknown, the socket decides.
    match holder(&dir, &files) {
        Ok(Holder::Nobody) => return Err(absent(true)),
        Err(error @ Errno::MFILE) => {
            return Err(system("asking for the holder of the name")(error));
        }
        _ => {}
    }
    let socket = packet::socket().map_err(system("making a socket"))?;
    let address = dir.address(&files.socket).map_err(system("naming the socket"))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(absent(false)),
        Err(Errno::CONNREFUSED) => return Err(absent(true)),
        Err(Errno::AGAIN) => return Err(OpenError::Backlog { name: to.clone() }),
        Err(error) => return Err(system("connecting")(error)),
    }
    Handshake::call(us, socket, (to, dialled), now_ms).map(Opening::shared)
}

/// Returns the process that holds a node's name, which proves that a peer of that process may use the name. Returns
/// None if no process holds it, if the process is of another PID namespace, or if it is unknown.
pub fn process_of(place: &SocketDirectory, program: &ProgramName, name: &NodeName) -> Option<u32> {
    let dir = place.open(program, false).ok()?;
    match holder(&dir, &FileNames::of(name)) {
        Ok(Holder::Process(pid)) => pid,
        _ => None,
    }
}

/// Makes the listening socket of a name that this process holds. The socket gets its name only when it listens, and
/// then replaces a dead node's socket.
fn listen(claim: &Claim) -> Result<OwnedFd, BindError> {
    let (dir, files) = (&claim.dir, &claim.files);
    let socket = packet::socket().map_err(failed("making a socket"))?;
    dir.remove(&files.staged).map_err(failed("removing a socket that was never used"))?;
    let address = dir.address(&files.staged).map_err(failed("naming the socket"))?;
    rustix::net::bind(&socket, &address).map_err(failed("binding the socket"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listening"))?;
    rustix::fs::renameat(&dir.descriptor, &files.staged, &dir.descriptor, &files.socket)
        .map_err(failed("naming the socket"))?;
    Ok(socket)
}

fn failed(act: &'static str) -> impl Fn(Errno) -> BindError {
    move |error| match error {
        Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
        error => BindError::System { act, error },
    }
}
