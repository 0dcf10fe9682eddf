//! The `upbeat` command. `demo` shows a program of three nodes; `bench` measures what this machine
//! charges, and what Upbeat adds to it; `bill` says where the time of a running program went; `keys` makes
//! the certificates by which nodes of several hosts know each other.
//!
//! Each subcommand is a module with its arguments and a `run`; this file only picks one. It is a
//! library so that `dev/bench` measures with the machinery of `bench`; what is public is what
//! `dev/bench` needs, and is promised to nobody else.

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

/// What the command can do.
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

/// The command: does what the arguments of this process say.
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
