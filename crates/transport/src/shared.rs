//! Sessions between processes of one host: the listener at a node's socket, and the caller.
//!
//! The handshake decides the contents of the packets. Invariant: a name has one listener. A full table of descriptors
//! makes no caller wait and no listener spin, because one spare descriptor serves to tell the next caller.

use crate::claim::{Claim, Holder, holder, sweep};
use crate::error::{BindError, OpenError, descriptor_limit};
use crate::handshake::{Dialled, Handshake, Side, refuse};
use crate::home::Home;
use crate::opening::Opening;
use crate::place::{FileNames, Place};
use crate::spare::SpareDescriptor;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::name::{NodeName, ProgramName};

/// The connections that may wait to be accepted, if the system allows that many: all peers that a node can have may
/// connect at once.
const BACKLOG: i32 = 4096;

/// A node's socket, at which other processes call.
pub struct Listener {
    socket: OwnedFd,
    name: NodeName,
    path: PathBuf,
    /// The claim is dropped last: the name is free only when the node no longer answers under it.
    _claim: Claim,
    spare: SpareDescriptor,
    /// A counter, of which every handshake in progress holds a clone.
    pending: Arc<()>,
}

impl Listener {
    /// Takes the node's name and listens under it. The socket of a dead node is replaced.
    pub fn bind(place: &Place, home: &Home) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        if !home.is_reachable() {
            return Err(BindError::LocalOnly);
        }
        let dir = place.open(home.program().name(), true)?;
        let path = place.socket_path(home.program().name(), &name);
        let claim = Claim::take(dir, &name)?;
        sweep(&claim.dir);
        let socket = listen(&claim)?;
        let spare = SpareDescriptor::new().map_err(failed("opening /"))?;
        Ok(Listener { socket, name, path, _claim: claim, spare, pending: Arc::new(()) })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of this listener's handshakes in progress. Beyond [`PENDING_HANDSHAKES_MAX`] callers wait
    /// in the socket's queue until a handshake has ended or was refused.
    pub fn pending(&self) -> usize {
        Arc::strong_count(&self.pending) - 1
    }

    /// Accepts the next caller, for the session with this number. Returns None if there is no caller, or if as many
    /// handshakes are in progress as allowed.
    ///
    /// An error concerns one caller, which was told; the next caller may be accepted at once. After
    /// [`OpenError::Descriptors`] the remaining callers should wait for the next turn, because telling a caller needs
    /// the spare descriptor, which may not be available again.
    pub fn accept(
        &self,
        home: &Home,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::new(home.info(), session)?;
        if self.pending() >= PENDING_HANDSHAKES_MAX {
            return Ok(None);
        }
        let socket = match self.accept_socket() {
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
            Err(Errno::MFILE | Errno::NFILE) => {
                self.turn_away();
                return Err(OpenError::Descriptors { limit: descriptor_limit() });
            }
            other => other.map_err(OpenError::system("accepting a caller"))?,
        };
        self.spare.restock();
        let pending = Arc::clone(&self.pending);
        Handshake::answer(us, socket, self.name.clone(), pending, now_ms)
            .map(|handshake| Some(Opening::shared(handshake)))
    }

    fn accept_socket(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }

    /// Tells the next caller that there is no descriptor for it, with the number of the spare descriptor.
    fn turn_away(&self) {
        self.spare.lend(|| {
            if let Ok(socket) = self.accept_socket() {
                let error = OpenError::Descriptors { limit: descriptor_limit() };
                refuse(socket.as_fd(), RefusalCode::TooManyDescriptors, &error.to_string());
            }
        });
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Calls the node `to`, for our session of this number. The node must accept the connection within
/// [`CONNECT_MS_MAX`](upbeat_core::limits::CONNECT_MS_MAX) from `now_ms` on. A caller that retries passes the time of
/// its first attempt.
pub fn connect(
    place: &Place,
    home: &Home,
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
    place: &Place,
    home: &Home,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    [now_ms, until_ms]: [u64; 2],
) -> Result<Opening, OpenError> {
    call(place, home, (to, Some(Dialled { at, until_ms })), session, now_ms)
}

fn call(
    place: &Place,
    home: &Home,
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
    let socket = socket().map_err(system("making a socket"))?;
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
pub fn process_of(place: &Place, program: &ProgramName, name: &NodeName) -> Option<u32> {
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
    let socket = socket().map_err(failed("making a socket"))?;
    dir.remove(&files.staged).map_err(failed("removing a socket that was never used"))?;
    let address = dir.address(&files.staged).map_err(failed("naming the socket"))?;
    rustix::net::bind(&socket, &address).map_err(failed("binding the socket"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listening"))?;
    rustix::fs::renameat(&dir.descriptor, &files.staged, &dir.descriptor, &files.socket)
        .map_err(failed("naming the socket"))?;
    Ok(socket)
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn failed(act: &'static str) -> impl Fn(Errno) -> BindError {
    move |error| match error {
        Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
        error => BindError::System { act, error },
    }
}
