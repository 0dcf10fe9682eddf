//! The `upbeat` command. `bench` measures what this machine charges, and what Upbeat adds to it.
//!
//! Each subcommand is a module with its arguments and a `run`; this file only picks one.

#![forbid(unsafe_code)]

mod bench;

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
    /// Measure this machine's floors, and what calls and messages cost above them.
    Bench(bench::Arguments),
    /// The second process of `bench`, which `bench` starts itself.
    #[command(hide = true)]
    BenchPeer(bench::PeerArguments),
}

fn main() -> ExitCode {
    let done = match Upbeat::parse().command {
        Command::Bench(arguments) => bench::run(&arguments).map_err(|error| error.to_string()),
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
