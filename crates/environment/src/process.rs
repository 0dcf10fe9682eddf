//! The possessions of a process that end with it: its sockets, and the files that it has locked.

use crate::world::{FileNumber, World, current};
use rustix::fs::{FlockOperation, fstat};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

pub use crate::world::{Resource, process_number};

/// Takes note of a socket whose peers are to see its end when the process ends, as the system shows it.
#[must_use]
pub fn with_socket(socket: OwnedFd) -> OwnedFd {
    if let Some(world) = current() {
        world.has_socket(socket.as_fd());
    }
    socket
}

/// Asks a world for a resource that the caller is about to take from the system. Without one the system alone decides.
///
/// # Errors
/// That of the system for a process which has none left.
#[inline]
pub fn obtain(resource: Resource) -> rustix::io::Result<()> {
    current().and_then(|world| world.lacks(resource)).map_or(Ok(()), Err)
}

/// A record lock of a whole file. The system ends the lock with the process, or when this closes any
/// descriptor of the file; a world ends it with the process too, or when this is dropped.
pub struct FileLock {
    in_world: Option<(Arc<dyn World>, FileNumber)>,
}

impl FileLock {
    /// Locks a file that is open for writing.
    ///
    /// # Errors
    /// `EAGAIN` or `EACCES` if another process has locked it; others of `fcntl(2)`.
    pub fn take(file: &OwnedFd) -> rustix::io::Result<FileLock> {
        let Some(world) = current() else {
            rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?;
            return Ok(FileLock { in_world: None });
        };
        // Processes outside of the world hold real locks.
        if real_holder(file)?.is_some() {
            return Err(rustix::io::Errno::AGAIN);
        }
        let number = number(file)?;
        match world.lock(number) {
            true => Ok(FileLock { in_world: Some((world, number)) }),
            false => Err(rustix::io::Errno::AGAIN),
        }
    }

    /// Returns the other process that has locked a file, if one has: its number, or None if it has none in this PID
    /// namespace. Processes of a world have the number of the real one.
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    pub fn holder(file: &OwnedFd) -> rustix::io::Result<Option<Option<u32>>> {
        let holder = real_holder(file)?;
        match current() {
            Some(world) if holder.is_none() => {
                Ok(world.is_locked(number(file)?).then(|| Some(std::process::id())))
            }
            _ => Ok(holder),
        }
    }
}

/// Returns the other process of the system that has locked a file.
fn real_holder(file: &OwnedFd) -> rustix::io::Result<Option<Option<u32>>> {
    let holder = fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?;
    let number = |pid: rustix::process::Pid| pid.as_raw_nonzero().get().unsigned_abs();
    Ok(holder.map(|holder| holder.pid.map(number)))
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some((world, number)) = &self.in_world {
            world.unlock(*number);
        }
    }
}

fn number(file: &OwnedFd) -> rustix::io::Result<FileNumber> {
    let file = fstat(file)?;
    Ok((file.st_dev, file.st_ino))
}
