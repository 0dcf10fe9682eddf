//! The directory of the nodes' sockets: one for each user, with a directory for each program in it.
//!
//! The directory is `$XDG_RUNTIME_DIR/upbeat` if that belongs to the user, else `/tmp/upbeat-<uid>`. The meaning of
//! the sockets, and which node may take a name, is decided elsewhere. Invariant: a directory that was opened here is
//! a real directory of the same user in which no other user can create a file.

use crate::error::{PlaceError, descriptor_limit};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use upbeat_core::limits::NAME_BYTES_MAX;
use upbeat_core::name::{NodeName, ProgramName};

/// The number of attempts to open the directory of a program whose last node removes it meanwhile.
const TRIES: usize = 100;

/// The most directories of other programs at which a process looks.
const OTHERS_MAX: usize = 64;

/// The longest path of a socket that the kernel takes, without the zero at its end.
const SUN_PATH_MAX: usize = 107;

/// The permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;
/// The permission of group and others to write.
const GROUP_AND_OTHERS_WRITE: u32 = 0o022;

// A path through the descriptor of the directory has room for every name.
const _: () = assert!("/proc/self/fd/".len() + 10 + 1 + NAME_BYTES_MAX + 5 <= SUN_PATH_MAX);

/// The directory below which the programs' sockets lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketDirectory {
    directory: PathBuf,
    /// Whether nothing but directories of programs lies there: the application has not chosen the directory.
    is_users: bool,
}

impl SocketDirectory {
    /// Opens this user's directory. It lies in `$XDG_RUNTIME_DIR` if that is an absolute path to a directory that
    /// only this user can use, else in `/tmp`. A missing directory is created.
    pub fn of_user() -> Result<SocketDirectory, PlaceError> {
        SocketDirectory::choose(std::env::var_os("XDG_RUNTIME_DIR"), Path::new("/tmp"))
    }

    fn choose(runtime: Option<OsString>, fallback: &Path) -> Result<SocketDirectory, PlaceError> {
        let runtime = runtime.map(PathBuf::from).filter(|path| path.is_absolute());
        let usable = match &runtime {
            None => false,
            Some(path) => match open_directory(path, GROUP_AND_OTHERS) {
                Ok(_) => true,
                // The directory may be usable: the process has reached its limit of descriptors.
                Err(error @ PlaceError::Descriptors { .. }) => return Err(error),
                Err(_) => false,
            },
        };
        let directory = match runtime {
            Some(path) if usable => path.join("upbeat"),
            _ => fallback.join(format!("upbeat-{}", rustix::process::geteuid().as_raw())),
        };
        make_directory(&directory)?;
        open_directory(&directory, GROUP_AND_OTHERS)?;
        Ok(SocketDirectory { directory, is_users: true })
    }

    /// Opens a directory of the caller's choice, for tests and for containers that share it. A missing directory is
    /// created. The directory must belong to this user, and no other user may write into it.
    pub fn at(directory: impl Into<PathBuf>) -> Result<SocketDirectory, PlaceError> {
        let directory = directory.into();
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        make_directory(&directory)?;
        open_directory(&directory, GROUP_AND_OTHERS_WRITE)?;
        Ok(SocketDirectory { directory, is_users: false })
    }

    /// Returns the path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a node's socket.
    pub fn socket_path(&self, program: &ProgramName, name: &NodeName) -> PathBuf {
        self.directory.join(program.as_str()).join(FileNames::of(name).socket)
    }

    /// Opens the directory of a program, and creates it first if `make` is true.
    pub(crate) fn open(
        &self,
        program: &ProgramName,
        make: bool,
    ) -> Result<ProgramDirectory, PlaceError> {
        let path = self.directory.join(program.as_str());
        let mut left = TRIES;
        loop {
            if make {
                make_directory(&self.directory)?;
                make_directory(&path)?;
            }
            match open_directory(&path, GROUP_AND_OTHERS_WRITE) {
                Ok(descriptor) => return Ok(ProgramDirectory { path, descriptor }),
                Err(PlaceError::System { error: Errno::NOENT, .. }) if make && left > 0 => {
                    left -= 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens directories of programs other than this one, of which some may have no node any more. Returns none of a
    /// directory that the application has chosen, where directories of others may lie.
    pub(crate) fn others(&self, than: &ProgramName) -> impl Iterator<Item = ProgramDirectory> {
        let entries = self.is_users.then(|| std::fs::read_dir(&self.directory));
        let entries = entries.into_iter().flatten().flatten();
        let program = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let mut others: Vec<ProgramName> = entries.flatten().filter_map(program).collect();
        others.retain(|other| other != than);
        if others.len() > OTHERS_MAX {
            // Another process begins elsewhere.
            let first = std::process::id() as usize % others.len();
            others.rotate_left(first);
            others.truncate(OTHERS_MAX);
        }
        others.into_iter().filter_map(|other| self.open(&other, false).ok())
    }
}

/// The open directory of one program.
pub(crate) struct ProgramDirectory {
    pub(crate) path: PathBuf,
    pub(crate) descriptor: OwnedFd,
}

impl ProgramDirectory {
    /// Returns the address of a socket in this directory. If the path is longer than the kernel takes, the address
    /// leads through the directory's descriptor.
    pub(crate) fn address(&self, file: &str) -> Result<SocketAddrUnix, Errno> {
        let path = self.path.join(file);
        if path.as_os_str().len() <= SUN_PATH_MAX {
            return SocketAddrUnix::new(path);
        }
        let descriptor = self.descriptor.as_raw_fd();
        SocketAddrUnix::new(format!("/proc/self/fd/{descriptor}/{file}"))
    }

    /// Removes the directory itself if it is empty. A node that has opened it, and has no file there yet, opens it
    /// again.
    pub(crate) fn remove_if_empty(&self) {
        let _ = rustix::fs::unlinkat(CWD, &self.path, AtFlags::REMOVEDIR);
    }

    pub(crate) fn remove(&self, file: &str) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.descriptor, file, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }
}

/// The files of a node. A name contains no `%`, so no two names share a file.
pub(crate) struct FileNames {
    /// The node's socket.
    pub(crate) socket: String,
    /// The node's socket before it listens.
    pub(crate) staged: String,
    /// The file whose lock proves that the node owns its name.
    pub(crate) lock: String,
}

impl FileNames {
    pub(crate) fn of(name: &NodeName) -> FileNames {
        FileNames::of_stem(&name.as_str().replace('/', "%"))
    }

    /// Returns the files whose names begin with `stem`.
    pub(crate) fn of_stem(stem: &str) -> FileNames {
        FileNames {
            socket: format!("{stem}.sock"),
            staged: format!("{stem}.new"),
            lock: format!("{stem}.lock"),
        }
    }
}

fn make_directory(path: &Path) -> Result<(), PlaceError> {
    match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => {
            Err(PlaceError::System { act: "making the directory", path: path.to_owned(), error })
        }
    }
}

/// Opens a directory of this user, in which other users have none of the permissions `forbidden`.
fn open_directory(path: &Path, forbidden: u32) -> Result<OwnedFd, PlaceError> {
    let failed = |act| {
        move |error| match error {
            Errno::NOTDIR | Errno::LOOP => PlaceError::NoDirectory { path: path.to_owned() },
            Errno::MFILE => PlaceError::Descriptors { limit: descriptor_limit() },
            error => PlaceError::System { act, path: path.to_owned(), error },
        }
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(failed("opening the directory"))?;
    let stat = rustix::fs::fstat(&directory).map_err(failed("looking at the directory"))?;
    let ours = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(PlaceError::NoDirectory { path: path.to_owned() });
    }
    if stat.st_uid != ours {
        return Err(PlaceError::Owner { path: path.to_owned(), uid: stat.st_uid, ours });
    }
    if stat.st_mode & forbidden != 0 {
        return Err(PlaceError::Mode { path: path.to_owned(), mode: stat.st_mode });
    }
    Ok(directory)
}

#[cfg(test)]
mod tests;
