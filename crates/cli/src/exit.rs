//! The exit codes of the command, and its output to streams and files.
//!
//! Invariant: a reader that closes the pipe early, like `head`, ends the command quietly with success.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// The command did what it was told to do.
pub(crate) const DONE: u8 = 0;
/// The command failed.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong, and nothing was done. `clap` uses the same code.
pub(crate) const COMMAND_LINE: u8 = 2;
/// The user interrupted the command: 128 plus the number of SIGINT, as shells report it.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error of a subcommand.
pub(crate) trait Failure: Display {
    /// Returns the exit code that the error causes.
    fn code(&self) -> u8;
}

/// Returns the exit code after an error of the output.
pub(crate) fn of_output(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe { DONE } else { FAILED }
}

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut to = io::stdout().lock();
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Writes a line to standard error. If standard error is closed, the line is dropped.
pub(crate) fn report(line: impl Display) {
    let _ = writeln!(io::stderr(), "upbeat: {line}");
}

/// Returns an error if no file can be written at `path`. The function changes nothing that exists.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => OpenOptions::new().append(true).open(path).map(drop),
        // To open and close a pipe would end its reader.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(_) => std::fs::remove_file(path),
                // The path is a link to a file that does not exist yet.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::check_writable;

    #[test]
    fn a_check_of_a_path_changes_nothing() {
        let directory = std::env::temp_dir().join(format!("upbeat-exit-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("file");
        check_writable(&file).unwrap();
        assert!(!file.exists());
        std::fs::write(&file, "kept").unwrap();
        check_writable(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
        std::os::unix::fs::symlink(directory.join("later"), directory.join("link")).unwrap();
        check_writable(&directory.join("link")).unwrap();
        check_writable("/dev/null".as_ref()).unwrap();
        assert!(check_writable(&directory).is_err());
        assert!(check_writable(&directory.join("none/file")).is_err());
        assert!(check_writable(&file.join("file")).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
