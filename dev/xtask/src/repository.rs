//! The place of the repository, and the files that belong to it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory that holds the workspace's Cargo.toml.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable when it runs us. The constant serves a binary that is started by
    // hand, and may be stale if two clones share a target directory.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.ancestors().nth(2).expect("xtask lies two directories below the root").to_path_buf()
}

/// Returns the paths of all files that are committed or could be, which .gitignore does not name. They are relative to
/// `root`, with forward slashes, sorted.
pub(crate) fn files(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start git to list the files: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git ls-files failed in {}: {}", root.display(), reason.trim()));
    }
    let listing = String::from_utf8(output.stdout)
        .map_err(|error| format!("a file has a name that is not UTF-8: {error}"))?;
    let mut files: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty() && root.join(path).is_file())
        .map(String::from)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
