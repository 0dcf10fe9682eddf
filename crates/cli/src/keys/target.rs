//! A file that is made whole before it takes its place. Invariant: nobody but its owner can ever read it, and
//! a file that is there is replaced only if that was asked for.

use super::error::KeysError;
use rustix::fs::{CWD, RenameFlags};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a file will be, and the file as it is made beside it.
pub(crate) struct Target<'a> {
    path: &'a Path,
    force: bool,
    unborn: PathBuf,
    file: File,
}

impl<'a> Target<'a> {
    /// Takes the place for a file, before there is anything to write.
    ///
    /// # Errors
    /// If a file is there and is not to be replaced, or none can be made there.
    pub(crate) fn open(path: &'a Path, force: bool) -> Result<Target<'a>, KeysError> {
        match path.symlink_metadata() {
            Ok(found) if !found.is_file() => return Err(KeysError::NoFile(path.into())),
            Ok(_) if !force => return Err(KeysError::Exists(path.into())),
            _ => {}
        }
        let name = path.file_name().ok_or_else(|| KeysError::NoFile(path.into()))?;
        let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let unborn = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unborn);
        let file = file.map_err(|error| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            KeysError::Directory { path: parent.unwrap_or(Path::new(".")).into(), error }
        })?;
        Ok(Target { path, force, unborn, file })
    }

    /// Writes the file, has it tried where it is, and puts it into its place.
    pub(crate) fn write(
        mut self,
        text: &str,
        good: impl FnOnce(&Path) -> Result<(), KeysError>,
    ) -> Result<(), KeysError> {
        let failed = |error| KeysError::Write { path: self.path.into(), error };
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_all().map_err(failed)?;
        good(&self.unborn)?;
        let flags = if self.force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(CWD, &self.unborn, CWD, self.path, flags).map_err(|error| {
            match std::io::Error::from(error) {
                error if error.kind() == ErrorKind::AlreadyExists => {
                    KeysError::Exists(self.path.into())
                }
                error => failed(error),
            }
        })
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // It is gone if it has taken its place.
        let _ = std::fs::remove_file(&self.unborn);
    }
}
