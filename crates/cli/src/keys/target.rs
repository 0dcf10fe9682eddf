//! Writes a file beside its final path and then renames it. Invariant: only its owner can read the file, and an
//! existing file is replaced only if the user asked for that.

use super::error::KeysError;
use rustix::fs::{CWD, RenameFlags};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The final path of a file, and the unfinished file beside it.
pub(crate) struct Target<'a> {
    path: &'a Path,
    force: bool,
    unborn: PathBuf,
    file: File,
}

impl<'a> Target<'a> {
    /// Creates the unfinished file before its content is known.
    ///
    /// # Errors
    /// Returns an error if the path exists and must not be replaced, or if no file can be created there.
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

    /// Writes the content, checks the unfinished file with `good`, and renames it to the final path.
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
        // After the rename there is no unfinished file to remove.
        let _ = std::fs::remove_file(&self.unborn);
    }
}
