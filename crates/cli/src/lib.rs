//! The `upbeat` command. `demo` runs a program of three nodes; `bench` measures the costs of this machine
//! and what Upbeat adds to them; `bill` shows where a running program spends its time; `keys` makes the
//! certificates by which nodes of several hosts know each other.
//!
//! Each subcommand is a module with its arguments and a `run` function; this file only chooses one. The
//! command is a library so that `dev/bench` can use the measuring code of `bench`. Public items are those
//! that `dev/bench` needs; they are no stable interface.

#![forbid(unsafe_code)]

mod keys;
pub mod bench;
mod demo;
mod bill;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A communication runtime for programs of several address spaces: what it costs, measured here.
#[derive(Debug, Parser)]
#[command(name = "upbeat", version, about, max_term_width = 100)]
struct Upbeat {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands of `upbeat`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Start a small program of three nodes, and show who calls whom and what that costs.
    Demo(demo::Arguments),
    /// Measure this machine's floors, and what calls and messages cost above them.
    Bench(bench::Arguments),
    /// Show where the time of a running program's calls and messages went.
    Bill(bill::Arguments),
    /// Make the certificates by which a program's nodes on several hosts know each other.
    Keys(keys::Arguments),
    /// The second process of `bench`, which `bench` starts itself.
    #[command(hide = true)]
    BenchPeer(bench::pair::PeerArguments),
    /// The processes of `demo`, which it starts itself.
    #[command(hide = true)]
    DemoNode(demo::NodeArguments),
}

/// Runs the command with the arguments of this process, and returns its exit code.
pub fn main() -> ExitCode {
    let done = match Upbeat::parse().command {
        Command::Demo(arguments) => demo::run(&arguments).map_err(|error| error.to_string()),
        Command::DemoNode(arguments) => demo::run_node(&arguments)
            .map_err(|error| format!("node `{}`: {error}", arguments.node())),
        Command::Bench(arguments) => bench::run(&arguments).map_err(|error| error.to_string()),
        Command::Bill(arguments) => bill::run(&arguments).map_err(|error| error.to_string()),
        Command::Keys(arguments) => keys::run(&arguments).map_err(|error| error.to_string()),
        Command::BenchPeer(arguments) => {
            bench::run_peer(&arguments).map_err(|error| format!("the second process: {error}"))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("upbeat: {error}");
            ExitCode::FAILURE
        }
    }
}
