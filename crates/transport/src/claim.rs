//! The claim to a node's name: a record lock that ends with its process.
//!
//! A forked child does not inherit a record lock, unlike `flock`, so a dead node's name is free even while a child
//! lives. Record locks do not tell two nodes of one process apart, and closing any descriptor of the file releases
//! them. The process therefore keeps a set of its own names as well, and asks that set first.
//!
//! The last node of a program removes the directory of the program. The next node removes the files of dead nodes, and
//! directories of programs without a node. A directory is removed only while it is empty, and a node whose directory was
//! removed before its lock file lay there begins again. A service that removes old files leaves a directory under a lock
//! alone. Where somebody removes a lock file nevertheless, the name is taken as long as its socket answers and the process
//! lives that made it; a forked child may hold the socket of a dead node. Invariant: at any time one node of all processes
//! holds the claim to a name, unless somebody else has removed its files.

use crate::error::{BindError, descriptor_limit};
use crate::packet;
use crate::socket_directory::{FileNames, ProgramDirectory, SocketDirectory};
use crate::watch::{PeerProcess, WatchError};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_environment::process::{FileLock, Resource, obtain, process_number};
use upbeat_environment::turns::Mutex;
use upbeat_environment::waiting::sleep;
use upbeat_memory::credentials;

/// The number of attempts to lock a file that its owner removed meanwhile, or whose directory was removed. With the time
/// between them they outlast a sweep that waits for the end of a process.
const TRIES: usize = 500;

/// The time between two attempts while another process removes the files of a dead node of that name, which takes a
/// few system calls, or [`ENDING`] where that node's process is about to end.
const SWEEP: Duration = Duration::from_millis(1);

/// The time within which a process ends that has begun to: it gives up its locks first, and its sockets later.
const ENDING: Duration = Duration::from_millis(250);

/// The names of this process, with the process ID (a forked child inherits the set, but not the names) and the path.
static OURS: Mutex<Option<HashSet<(u32, PathBuf)>>> = Mutex::new(None);

/// A name that this node holds. Dropping the claim frees the name.
pub(crate) struct Claim {
    pub(crate) dir: ProgramDirectory,
    pub(crate) files: FileNames,
    lock: Lock,
    own_name: OwnName,
}

/// The lock file of a name, which this process has locked.
struct Lock {
    /// The lock ends before its file is closed.
    _held: FileLock,
    file: OwnedFd,
}

impl Claim {
    /// Takes a name in the directory of a program, which was opened as `dir` and may have been removed since.
    pub(crate) fn take(
        place: &SocketDirectory,
        program: &ProgramName,
        mut dir: ProgramDirectory,
        name: &NodeName,
    ) -> Result<Claim, BindError> {
        let files = FileNames::of(name);
        let own_name = OwnName::take(&dir, &files).ok_or_else(|| BindError::NameTaken {
            name: name.clone(),
            pid: Some(std::process::id()),
        })?;
        for _ in 0..TRIES {
            match lock(&dir, &files) {
                Ok(Locked::Ours(lock)) => {
                    // Without this lock, which not every file system has, the name is ours as well.
                    let _ =
                        rustix::fs::flock(&dir.descriptor, FlockOperation::NonBlockingLockShared);
                    return Ok(Claim { dir, files, lock, own_name });
                }
                Ok(Locked::By(pid)) => {
                    return Err(BindError::NameTaken { name: name.clone(), pid });
                }
                Ok(Locked::Removed) => {}
                Ok(Locked::Swept) => sleep(SWEEP),
                // The directory was removed: nothing can be made in it any more.
                Err(Errno::NOENT) => dir = place.open(program, true)?,
                Err(error) => return Err(failed("locking the name")(error)),
            }
        }
        Err(BindError::System { act: "locking the name", error: Errno::AGAIN })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A forked child holds no claim, and must not remove its parent's files.
        if !self.own_name.is_ours() {
            return;
        }
        // Where somebody else has removed the lock file, the files of that name may be those of another node.
        if is_in_place(&self.dir, &self.files, &self.lock.file).unwrap_or(false) {
            let _ = self.dir.remove(&self.files.socket);
            let _ = self.dir.remove(&self.files.lock);
        }
        self.dir.remove_if_empty();
    }
}

/// The entry of a name in the set of this process.
struct OwnName((u32, PathBuf));

impl OwnName {
    fn take(dir: &ProgramDirectory, files: &FileNames) -> Option<OwnName> {
        let key = key(dir, files);
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        ours.get_or_insert_default().insert(key.clone()).then(|| OwnName(key))
    }

    fn is_ours(&self) -> bool {
        self.0.0 == process_number()
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        ours.get_or_insert_default().remove(&self.0);
    }
}

/// The holder of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The name has no lock file: no node ever had it, or the last one has removed its files.
    NoLock,
    /// No process holds the name: the node that had it is dead.
    Nobody,
    /// A process, with its number if it has one in our PID namespace.
    Process(Option<u32>),
}

/// Returns the holder of a name.
pub(crate) fn holder(dir: &ProgramDirectory, files: &FileNames) -> Result<Holder, Errno> {
    // The guard lives until the end: closing the file would release a lock that this process has just taken.
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    if ours.get_or_insert_default().contains(&key(dir, files)) {
        return Ok(Holder::Process(Some(std::process::id())));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat(&dir.descriptor, &files.lock, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Holder::NoLock),
        file => file?,
    };
    Ok(FileLock::holder(&file)?.map_or(Holder::Nobody, Holder::Process))
}

/// Returns the entry of a name in the set of this process. The directory of the program may be removed at any time, and
/// is no link: only the path to it is looked up.
pub(crate) fn key(dir: &ProgramDirectory, files: &FileNames) -> (u32, PathBuf) {
    let above = dir.path.parent().and_then(|above| std::fs::canonicalize(above).ok());
    let path = above.zip(dir.path.file_name()).map(|(above, program)| above.join(program));
    (process_number(), path.unwrap_or_else(|| dir.path.clone()).join(&files.lock))
}

/// The result of locking a name.
enum Locked {
    /// This process has the lock.
    Ours(Lock),
    /// Another process has the lock, with its number if it has one in our PID namespace.
    By(Option<u32>),
    /// The last holder removed the file meanwhile.
    Removed,
    /// Another process removes the files of a dead node.
    Swept,
}

/// Locks the file of a name, and creates the file if it is missing.
fn lock(dir: &ProgramDirectory, files: &FileNames) -> Result<Locked, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    obtain(Resource::Descriptors)?;
    obtain(Resource::Room)?;
    let file = rustix::fs::openat(&dir.descriptor, &files.lock, flags | OFlags::CREATE, mode)?;
    match FileLock::take(&file) {
        Ok(_) if !is_in_place(dir, files, &file)? => Ok(Locked::Removed),
        Ok(held) => match answering(dir, files) {
            None => Ok(Locked::Ours(Lock { _held: held, file })),
            Some(pid) => {
                // A lock file that nobody holds would say that the node is dead.
                dir.remove(&files.lock)?;
                Ok(Locked::By(pid))
            }
        },
        Err(Errno::AGAIN | Errno::ACCESS) => {
            // A process that sweeps holds this lock too. While it is held here, no sweep begins.
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(Locked::Swept),
                Err(error) => return Err(error),
            }
            Ok(FileLock::holder(&file)?.map_or(Locked::Removed, Locked::By))
        }
        Err(error) => Err(error),
    }
}

/// Returns the living process that listens at the socket of a name whose lock nobody holds, with its number if it has
/// one in our PID namespace; None if nobody does.
fn answering(dir: &ProgramDirectory, files: &FileNames) -> Option<Option<u32>> {
    let socket = packet::socket().ok()?;
    match rustix::net::connect(&socket, &dir.address(&files.socket).ok()?) {
        Ok(()) => {
            let pid = credentials::of_peer(socket.as_fd()).ok().and_then(|peer| peer.pid);
            pid.is_none_or(lives_on).then_some(pid)
        }
        // Its queue is full.
        Err(Errno::AGAIN) => Some(None),
        Err(_) => None,
    }
}

/// Returns whether a process does not end soon, as far as can be found out.
fn lives_on(pid: u32) -> bool {
    match PeerProcess::of(pid) {
        Ok(process) => !process.ends_within(ENDING),
        Err(error) => !matches!(error, WatchError::Dead { .. }),
    }
}

/// Returns whether an open lock file is still the one in the directory.
fn is_in_place(dir: &ProgramDirectory, files: &FileNames, file: &OwnedFd) -> Result<bool, Errno> {
    let ours = rustix::fs::fstat(file)?;
    let there = rustix::fs::statat(&dir.descriptor, &files.lock, AtFlags::SYMLINK_NOFOLLOW);
    Ok(there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)))
}

/// Removes the files of dead nodes, whose names no process holds. A file that cannot be removed now is left to the
/// next node.
pub(crate) fn sweep(dir: &ProgramDirectory) {
    for stem in stems(dir) {
        let _ = sweep_name(dir, &FileNames::of_stem(&stem));
    }
}

/// Removes what dead nodes of other programs have left, once for each process and place. A program with a live node is
/// left to the next node of that program.
pub(crate) fn sweep_others(place: &SocketDirectory, program: &ProgramName) {
    static SWEPT: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);
    let this = Some((process_number(), place.directory().to_owned()));
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if *swept == this {
        return;
    }
    *swept = this;
    drop(swept);
    for dir in place.others(program) {
        if stems(&dir).all(|stem| sweep_name(&dir, &FileNames::of_stem(&stem)).is_ok()) {
            dir.remove_if_empty();
        }
    }
}

/// Returns the beginnings of the file names of each node in a directory.
fn stems(dir: &ProgramDirectory) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(&dir.path).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".lock")?.to_owned()))
}

/// Removes the files of a name under the lock with which a node takes the name. Fails if a process holds the name.
fn sweep_name(dir: &ProgramDirectory, files: &FileNames) -> Result<(), Errno> {
    // The guard lives until the end: closing the file would release a lock that this process has just taken.
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    if ours.get_or_insert_default().contains(&key(dir, files)) {
        return Err(Errno::AGAIN);
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(&dir.descriptor, &files.lock, flags, Mode::empty())?;
    // This lock tells a node that takes the name that the other process sweeps and does not hold the name.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let _held = FileLock::take(&file)?;
    if is_in_place(dir, files, &file)? {
        if answering(dir, files).is_none() {
            dir.remove(&files.socket)?;
            dir.remove(&files.staged)?;
        }
        dir.remove(&files.lock)?;
    }
    Ok(())
}

fn failed(act: &'static str) -> impl Fn(Errno) -> BindError {
    move |error| match error {
        Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
        error => BindError::System { act, error },
    }
}
