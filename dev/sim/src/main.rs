//! `cargo run --release -p sim -- …`: histories of a seeded world, explored, replayed, or run with
//! faults put in.
#![forbid(unsafe_code)]

mod random;
mod plan;
mod check;
mod count;
mod wire;
mod world;
mod explore;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Upbeat's state machines in a world in which everything goes wrong, and then heals.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Explores for so many seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Explores so many histories instead.
    #[arg(long, conflicts_with = "seconds")]
    histories: Option<u64>,
    /// The first seed; another one for each history. Without it, the time of day.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads that explore.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the history of one seed again and prints what happened.
    Replay {
        /// The seed.
        seed: u64,
        /// All events, not the last ones alone.
        #[arg(long)]
        all: bool,
    },
    /// Replays the seeds of `corpus.txt`.
    Corpus,
    /// Puts each fault in and runs histories until it is caught.
    Mutants {
        /// Gives up after so many.
        #[arg(long, default_value_t = 200_000)]
        most: u64,
        /// Only those whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let fine = match arguments.command {
        None => explore::explore(&explore::Extent {
            time: Duration::from_secs(arguments.seconds),
            histories: arguments.histories,
            seed: arguments.seed,
            threads: arguments.threads,
        }),
        Some(Command::Replay { seed, all }) => explore::replay(seed, all),
        Some(Command::Corpus) => explore::corpus(),
        Some(Command::Mutants { most, only }) => explore::mutants(most, only.as_deref()),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
