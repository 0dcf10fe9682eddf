//! Sessions between processes of one host: the listener at a node's socket, and the caller.
//!
//! What is said on the socket is the handshake's. Invariant: a name has one listener; a full table
//! of descriptors keeps nobody waiting and makes nobody spin, for one descriptor is kept in reserve
//! with which the next caller is told.

use crate::claim::{Claim, Holder, holder, sweep};
use crate::error::{BindError, OpenError, descriptor_limit};
use crate::handshake::{Dialled, Handshake, Side, refuse};
use crate::home::Home;
use crate::opening::Opening;
use crate::place::{FileNames, Place};
use crate::reserve::Reserve;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::name::{NodeName, ProgramName};

/// Connections that may wait to be accepted, if the system allows as many: all that a node can have
/// sessions with may connect at once.
const BACKLOG: i32 = 4096;

/// A node's socket, at which other processes call.
pub struct Listener {
    socket: OwnedFd,
    name: NodeName,
    path: PathBuf,
    /// The claim goes last: the name is free only when nobody answers under it.
    _claim: Claim,
    reserve: Reserve,
    /// One clone is held by every handshake under way.
    pending: Arc<()>,
}

impl Listener {
    /// Takes the node's name and listens under it. A dead node's socket is taken over.
    pub fn bind(place: &Place, home: &Home) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        if !home.is_reachable() {
            return Err(BindError::LocalOnly);
        }
        let hall = place.open(home.program().name(), true)?;
        let path = place.socket_path(home.program().name(), &name);
        let claim = Claim::take(hall, &name)?;
        sweep(&claim.hall);
        let socket = listen(&claim)?;
        let reserve = Reserve::new().map_err(failed("opening /"))?;
        Ok(Listener { socket, name, path, _claim: claim, reserve, pending: Arc::new(()) })
    }

    /// Where the socket lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Handshakes of this listener that are under way. With [`PENDING_HANDSHAKES_MAX`] the others
    /// wait in the socket's queue until one of these has ended or was refused.
    pub fn pending(&self) -> usize {
        Arc::strong_count(&self.pending) - 1
    }

    /// Accepts the next caller, for the session of this number; None if nobody calls, or if as many
    /// handshakes are under way as may be.
    ///
    /// An error is one caller's, which was told; the next may be accepted at once. The exception is
    /// [`OpenError::Descriptors`]: callers are told as long as the descriptor in reserve can be had
    /// again, so leave the rest for the next turn.
    pub fn accept(
        &self,
        home: &Home,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::new(home.card(), session)?;
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
        self.reserve.restock();
        let pending = Arc::clone(&self.pending);
        Handshake::answer(us, socket, self.name.clone(), pending, now_ms)
            .map(|handshake| Some(Opening::shared(handshake)))
    }

    fn accept_socket(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }

    /// Tells the next caller that there is no descriptor for it, by means of the one in reserve.
    fn turn_away(&self) {
        self.reserve.lend(|| {
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

/// Calls the node `to`, for our session of this number. The node has [`CONNECT_MS_MAX`](upbeat_core::limits::CONNECT_MS_MAX) from `now_ms` on
/// to accept the connection: a caller that tries again gives the time of its first attempt.
pub fn connect(
    place: &Place,
    home: &Home,
    to: &NodeName,
    session: usize,
    now_ms: u64,
) -> Result<Opening, OpenError> {
    call(place, home, (to, None), session, now_ms)
}

/// Calls the node `to`, as [`connect`] does, if it listens at this address of our host and shares memory; another
/// node of that name, or one of another network namespace, is as good as none. The node has the time between the two
/// to answer.
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
    let us = Side::new(home.card(), session)?;
    if !home.is_reachable() {
        return Err(OpenError::LocalOnly);
    }
    let program = home.program().name();
    let absent = |died| {
        let path = Some(place.socket_path(program, to));
        OpenError::NoSuchNode { name: to.clone(), path, died }
    };
    let hall = match place.open(program, false) {
        Err(crate::error::PlaceError::System { error: Errno::NOENT, .. }) => {
            return Err(absent(false));
        }
        other => other?,
    };
    let system = OpenError::system;
    let files = FileNames::of(to);
    // A forked child of a dead node may hold its socket, which then still takes connections. Without
    // an answer to who holds the name, the socket tells.
    match holder(&hall, &files) {
        Ok(Holder::Nobody) => return Err(absent(true)),
        Err(error @ Errno::MFILE) => {
            return Err(system("asking for the holder of the name")(error));
        }
        _ => {}
    }
    let socket = socket().map_err(system("making a socket"))?;
    let address = hall.address(&files.socket).map_err(system("naming the socket"))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(absent(false)),
        Err(Errno::CONNREFUSED) => return Err(absent(true)),
        Err(Errno::AGAIN) => return Err(OpenError::Backlog { name: to.clone() }),
        Err(error) => return Err(system("connecting")(error)),
    }
    Handshake::call(us, socket, (to, dialled), now_ms).map(Opening::shared)
}

/// The process that holds the name of a node, which proves that a peer of that process may call
/// itself so. None if nobody holds it, or a process of another PID namespace, or if it cannot be told.
pub fn process_of(place: &Place, program: &ProgramName, name: &NodeName) -> Option<u32> {
    let hall = place.open(program, false).ok()?;
    match holder(&hall, &FileNames::of(name)) {
        Ok(Holder::Process(pid)) => pid,
        _ => None,
    }
}

/// Makes the listening socket of a name that is ours. It appears under its name only when it
/// listens, in the place of a dead node's.
fn listen(claim: &Claim) -> Result<OwnedFd, BindError> {
    let (hall, files) = (&claim.hall, &claim.files);
    let socket = socket().map_err(failed("making a socket"))?;
    hall.remove(&files.unborn).map_err(failed("removing a socket that was never used"))?;
    let address = hall.address(&files.unborn).map_err(failed("naming the socket"))?;
    rustix::net::bind(&socket, &address).map_err(failed("binding the socket"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listening"))?;
    rustix::fs::renameat(&hall.directory, &files.unborn, &hall.directory, &files.socket)
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
