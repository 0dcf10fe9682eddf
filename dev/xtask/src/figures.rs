//! `cargo xtask figures`: the figures of the documents, which `bench figures` measures and writes.

use crate::command::{Command, Outcome};
use crate::repository;

/// The command.
pub(crate) const COMMAND: Command = Command {
    name: "figures",
    about: "Measures every figure of README.md and docs/, and writes them there.",
    usage: "\
usage: cargo xtask figures [--quick] [--check] [--peers]

Builds `bench` and runs `bench figures` with these arguments. Without arguments it takes some seven
minutes and needs a machine on which nothing else runs. --quick takes two minutes. --check measures
nothing: it compares the documents with the stored run, docs/figures.json. --peers measures the other
libraries too, which are built first; without it their table stays as it is.
",
    run,
};

fn run(arguments: &[String]) -> Result<Outcome, String> {
    if let Some(unknown) =
        arguments.iter().find(|one| !["--quick", "--check", "--peers"].contains(&one.as_str()))
    {
        return Err(format!("`{unknown}` is no argument of `figures`; see --help"));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = std::process::Command::new(cargo)
        .current_dir(repository::root())
        .args(["run", "--release", "--quiet", "-p", "bench", "--", "figures"])
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo, which builds `bench`, cannot be started: {error}"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}
