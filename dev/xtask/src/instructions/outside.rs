//! The program that is counted: builds it outside of the workspace, and runs it under callgrind.

use super::callgrind::Profile;
use super::figures::Counted;

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MANIFEST: &str = include_str!("../../outside/Cargo.toml.in");
const MAIN: &str = include_str!("../../outside/main.rs");
const READS: &str = include_str!("../../outside/reads.rs");

/// The functions of the program in which callgrind collects, as a pattern of their full names.
const COLLECT: &str = "outside::*measured_*";

/// The program, built.
pub(crate) struct Program {
    /// The directory of its source.
    pub(crate) directory: PathBuf,
    pub(crate) binary: PathBuf,
    lines: Lines,
}

/// Returns an error that says what to do, if valgrind cannot be run.
pub(crate) fn find_valgrind() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(failure("valgrind --version", &output)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("valgrind, which counts the instructions, is not installed: `apt-get install \
                 valgrind`, `dnf install valgrind`, or the like"
                .into())
        }
        Err(error) => Err(format!("cannot start valgrind: {error}")),
    }
}

/// Whether the program has the bill in it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Billed {
    /// As by default. No message is sampled, because sampling would depend on chance.
    Yes,
    /// Built without the feature.
    No,
}

/// How the program is built.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Lines {
    /// As a user would.
    No,
    /// With debugging information for inlined lines beside the same code.
    Yes,
}

/// Writes the program below the target directory and builds it as a user would.
pub(crate) fn build(root: &Path, billed: Billed, lines: Lines) -> Result<Program, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = root.join(target);
    // All programs share their dependencies, which take most of the time of a build.
    let built = target.join("outside-built");
    let (name, features) = match billed {
        Billed::Yes => ("outside", "true"),
        Billed::No => ("outside-unbilled", "false"),
    };
    let lined = if lines == Lines::Yes { "-lines" } else { "" };
    let directory = target.join(format!("{name}{lined}"));
    fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let upbeat = root.join("crates/upbeat");
    let Some(upbeat) = upbeat.to_str() else {
        return Err(format!("the path {} is not UTF-8", upbeat.display()));
    };
    let upbeat = upbeat.replace('\\', "\\\\").replace('"', "\\\"");
    let manifest = MANIFEST.replace("@UPBEAT@", &upbeat).replace("@FEATURES@", features);
    write(&directory.join("Cargo.toml"), &manifest)?;
    write(&directory.join("main.rs"), MAIN)?;
    write(&directory.join("reads.rs"), READS)?;
    // The versions of the workspace: cargo adds the program itself and drops what is not used.
    let lock = fs::read_to_string(root.join("Cargo.lock"))
        .map_err(|error| format!("cannot read Cargo.lock: {error}"))?;
    write(&directory.join("Cargo.lock"), &lock)?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--quiet", "--target-dir"]).arg(&built);
    command.current_dir(&directory);
    for name in std::env::vars_os().map(|(name, _)| name).filter(changes_the_build) {
        command.env_remove(name);
    }
    if lines == Lines::Yes {
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    }
    eprintln!("instructions: building the program that is counted ({})", directory.display());
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("the program in {} could not be built", directory.display()));
    }
    let binary = directory.join("outside");
    fs::copy(built.join("release/outside"), &binary)
        .map_err(|error| format!("cannot copy {}: {error}", binary.display()))?;
    Ok(Program { directory, binary, lines })
}

impl Program {
    /// Runs one side of a call under callgrind, and the other beside it.
    pub(crate) fn count(&self, way: &str, side: &str) -> Result<Counted, String> {
        let profile = self.directory.join(format!("callgrind.{way}.{side}"));
        let mut to = OsString::from("--callgrind-out-file=");
        to.push(&profile);
        let what = format!("valgrind --tool=callgrind {} {way} {side}", self.binary.display());
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet"])
            .args((self.lines == Lines::Yes).then_some("--dump-instr=yes"))
            .arg(format!("--toggle-collect={COLLECT}"))
            .arg(to)
            .arg(&self.binary)
            .args([way, side])
            .current_dir(&self.directory)
            .env("UPBEAT_SAMPLING", "0")
            .output()
            .map_err(|error| format!("cannot start valgrind: {error}"))?;
        if !output.status.success() {
            return Err(failure(&what, &output));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let calls = said.lines().last().and_then(|line| line.parse().ok()).filter(|&n| n > 0);
        let Some(calls) = calls else {
            return Err(format!("{what} does not say how many calls it made: `{}`", said.trim()));
        };
        let text = fs::read_to_string(&profile)
            .map_err(|error| format!("cannot read {}: {error}", profile.display()))?;
        let profile = Profile::read(&text)?;
        if profile.total == 0 {
            return Err(format!("{what} has collected nothing: no function is named {COLLECT}"));
        }
        Ok(Counted { calls, profile })
    }
}

/// Whether a variable of the environment makes cargo build otherwise than by default.
fn changes_the_build(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    let flags = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];
    flags.contains(&name)
        || ["CARGO_BUILD_TARGET", "CARGO_INCREMENTAL"].contains(&name)
        || ["CARGO_PROFILE_", "CARGO_TARGET_"].iter().any(|start| name.starts_with(start))
}

/// Writes a file, unless the file has this text already: cargo rebuilds when a file is newer.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

pub(super) fn failure(what: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    format!("{what} failed ({}):\n{}", output.status, said.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_fits_what_is_asked_of_it() {
        assert_eq!(MANIFEST.matches("@UPBEAT@").count(), 1);
        assert_eq!(MANIFEST.matches("@FEATURES@").count(), 1);
        assert!(MANIFEST.contains("\n[workspace]\n"), "it is no member of ours");
        assert!(!MANIFEST.contains("[profile"), "the default profile is measured");
        for function in ["measured_turn", "measured_calls"] {
            assert!(MAIN.contains(&format!("#[inline(never)]\nfn {function}(")));
        }
        for function in ["measured_number", "measured_element", "measured_row"] {
            assert!(READS.contains(&format!("#[inline(never)]\nfn {function}(")));
        }
    }

    #[test]
    fn the_default_profile_is_what_is_built() {
        let changes = |name: &str| changes_the_build(&name.into());
        assert!(changes("RUSTFLAGS") && changes("CARGO_PROFILE_RELEASE_LTO"));
        assert!(!changes("CARGO_HOME") && !changes("RUSTUP_TOOLCHAIN") && !changes("PATH"));
    }
}
