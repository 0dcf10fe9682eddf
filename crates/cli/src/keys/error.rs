//! The errors of `upbeat keys`.

use crate::exit::{self, Failure};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use upbeat_core::name::NameError;
use upbeat_transport::identity::{IdentityError, IdentityFlaw, Moment};

/// The end of the file name of an authority, behind the name of its program.
pub(crate) const AUTHORITY: &str = ".authority.pem";

/// The reason why keys cannot be made or shown.
#[derive(Debug)]
pub(crate) enum KeysError {
    /// The name of the program in the environment is not valid.
    Program(NameError),
    /// This user has no directory for the authority.
    NoHome,
    /// The file exists already.
    Exists(PathBuf),
    /// The path names something that is not a regular file.
    NoFile(PathBuf),
    /// The path of the directory is not a directory, or no file can be created in it.
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file cannot be written.
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// No node of this program can have one of the given names.
    Names(String),
    /// The program has no authority.
    NoAuthority {
        /// The path where the authority was searched.
        path: PathBuf,
        /// The name of the program.
        program: String,
    },
    /// The file of the authority cannot be used.
    Authority {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        reason: String,
    },
    /// The authority has expired.
    Expired {
        /// The path of the file.
        path: PathBuf,
        /// The time when it expired.
        at: Moment,
    },
    /// The new file cannot be loaded as an identity.
    Identity(IdentityError),
    /// The file to show cannot be read.
    Read(IdentityError),
    /// A key or a certificate cannot be made.
    Make(String),
    /// The results cannot be written.
    Output(io::Error),
}

impl KeysError {
    /// Returns a function for `map_err` that names the file at `path`.
    pub(crate) fn read(path: &std::path::Path) -> impl Fn(IdentityFlaw) -> KeysError {
        move |flaw| KeysError::Read(IdentityError { path: path.into(), flaw })
    }
}

impl From<rcgen::Error> for KeysError {
    fn from(error: rcgen::Error) -> KeysError {
        KeysError::Make(error.to_string())
    }
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeysError::Program(error) => write!(f, "UPBEAT_PROGRAM: {error}"),
            KeysError::NoHome => write!(
                f,
                "the directory of the authority is unknown: neither XDG_CONFIG_HOME nor HOME is set; name a \
                 directory with --dir"
            ),
            KeysError::Exists(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} exists already: name another file, or replace the file with --force"
                )
            }
            KeysError::NoFile(path) => {
                write!(f, "{} is not a regular file: name another path", path.display())
            }
            KeysError::Directory { path, error } => write!(
                f,
                "no file can be created in {}: {error}; name an existing directory that you may write to",
                path.display()
            ),
            KeysError::Write { path, error } => {
                write!(f, "{} cannot be written: {error}", path.display())
            }
            KeysError::Names(reason) => write!(f, "{reason}"),
            KeysError::NoAuthority { path, program } => write!(
                f,
                "program `{program}` has no authority at {}: make one with `{}`, or name its directory with --dir",
                path.display(),
                init_command(path)
            ),
            KeysError::Authority { path, reason } => write!(
                f,
                "{} cannot be used as an authority: {reason}; `{} --force` makes another, and all identities \
                 have to be issued anew",
                path.display(),
                init_command(path)
            ),
            KeysError::Expired { path, at } => write!(
                f,
                "the authority at {} expired at {at}: make another with `{} --force`, and issue all \
                 identities anew",
                path.display(),
                init_command(path)
            ),
            KeysError::Identity(error) => write!(f, "the new identity cannot be loaded: {error}"),
            KeysError::Read(error) => write!(f, "{error}"),
            KeysError::Make(reason) => write!(f, "a certificate cannot be made: {reason}"),
            KeysError::Output(error) => write!(f, "the results cannot be written: {error}"),
        }
    }
}

impl std::error::Error for KeysError {}

/// Returns the command that makes the authority at a path.
fn init_command(path: &Path) -> String {
    let (directory, file) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let file = file.to_string_lossy();
    let program = file.strip_suffix(AUTHORITY).unwrap_or(&file);
    format!("upbeat keys init --program {program} --dir {}", quoted(directory))
}

/// Returns a path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

impl Failure for KeysError {
    fn code(&self) -> u8 {
        match self {
            KeysError::Names(_) => exit::COMMAND_LINE,
            KeysError::Output(error) => exit::of_output(error),
            _ => exit::FAILED,
        }
    }
}
