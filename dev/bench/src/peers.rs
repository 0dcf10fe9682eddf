//! `bench peers`: other libraries beside Upbeat, in one run.
//!
//! The peers need a hundred crates and some system packages, so their benchmarks are no part of
//! the workspace: they are built when they are run, in `dev/bench/peers`. This module has the arguments that both
//! share, and starts them.

use crate::error::Error;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use upbeat_cli::bench::pin::Wanted;

/// The arguments of `bench peers`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct Arguments {
    /// Peers, carriers, operations or waits, such as `tonic`, `tonic/unix` or `null/sleeping`;
    /// everything if nothing is named
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// List the cases, and those that are left out, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// End within a minute, with fewer rounds of everything
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// The CPUs of the calling process and of the serving one [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pub pin: Option<Wanted>,
    /// Write the table into README.md and the plot to docs/peers.svg; measures everything
    #[arg(long, conflicts_with_all = ["cases", "list", "json"])]
    pub write_readme: bool,
}

const HELP: &str = "\
The same call of nothing, call with 1 KiB each way, stream of 8-byte messages, and read of 8 bytes
and of 1 KiB of the other process, on Upbeat and on what one would pick instead: tonic, tarpc, Cap'n
Proto RPC, iceoryx2, ipc-channel, ZeroMQ, Lamellar and UCX. Each is used as its own documentation
advises, between two processes on the same two CPUs, and all do short rounds by turns. How a case
waits is a part of its name: `polling` keeps both CPUs busy, `sleeping` gives them back.

The peers are built when they are run. What they need of the system is installed by
dev/bench/peers/prepare; a peer that cannot be built or started is left out, and that is said.

Examples:
  bench peers --quick            everything, in a minute
  bench peers tonic tarpc        these two, and ours
  bench peers null/sleeping      calls of nothing where both sides sleep
  bench peers read               reads of 8 bytes, and a bare load
  bench peers --write-readme     measure everything and write table and plot";

impl Arguments {
    /// Returns the arguments as words of a command line.
    fn words(&self) -> Vec<OsString> {
        let flags = [
            (self.list, "--list"),
            (self.quick, "--quick"),
            (self.json, "--json"),
            (self.write_readme, "--write-readme"),
        ];
        let mut words: Vec<OsString> =
            flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag.into()).collect();
        if let Some(pin) = self.pin {
            words.extend(["--pin".into(), pin.cpus().argument().into()]);
        }
        // Names come last, behind the end of the flags.
        words.push("--".into());
        words.extend(self.cases.iter().map(OsString::from));
        words
    }
}

/// Measures everything, and writes table and plot, in place of this process.
pub(crate) fn write_readme(quick: bool) -> Result<(), Error> {
    let (cases, write_readme) = (Vec::new(), true);
    run(&Arguments { cases, list: false, quick, json: false, pin: None, write_readme })
}

/// Builds the peers' benchmarks and runs them in place of this process.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let manifest = directory().join("peers/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--manifest-path"]).arg(&manifest);
    command.arg("--target-dir").arg(target(&manifest));
    command.args(["--features", features()]).arg("--").args(arguments.words());
    eprintln!("bench: building the peers' benchmarks; the first time takes some minutes");
    Err(Error::Cargo { error: command.exec() })
}

/// Returns the directory of this package: Cargo says where it is run, the constant says where it was built.
fn directory() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// Returns the directory of the build. Lamellar is built only below a directory of just this name.
fn target(manifest: &Path) -> PathBuf {
    let own = || manifest.parent().unwrap_or(Path::new(".")).to_owned();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(own, PathBuf::from).join("target")
}

/// Returns the features for peers that are not built everywhere: ZeroMQ needs a C++ compiler.
fn features() -> &'static str {
    let compiler = Command::new("c++").arg("--version").output();
    if compiler.is_ok() { "lamellar,zmq" } else { "lamellar" }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, directory};
    use clap::{Args, Command, FromArgMatches};

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        let command = Arguments::augment_args(Command::new("peers").no_binary_name(true));
        Arguments::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn arguments_are_handed_on_as_they_were_meant() {
        let line = ["tonic", "--quick", "null/sleeping", "--pin", "1,0"];
        let words = parse(&line).unwrap().words();
        assert_eq!(words, ["--quick", "--pin", "1,0", "--", "tonic", "null/sleeping"]);
        let again: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(parse(&again).unwrap().words(), words);
    }

    #[test]
    fn the_readme_is_written_from_a_run_of_everything() {
        assert!(parse(&["--write-readme", "--quick"]).unwrap().write_readme);
        assert!(parse(&["--write-readme", "tonic"]).is_err());
        assert!(parse(&["--write-readme", "--json"]).is_err());
    }

    #[test]
    fn the_peers_are_where_they_are_looked_for() {
        assert!(directory().join("peers/Cargo.toml").exists());
    }
}
