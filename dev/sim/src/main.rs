//! `cargo run --release -p sim -- …`: histories of a seeded world, explored, replayed, or run with
//! injected faults.
#![forbid(unsafe_code)]

mod random;
mod value;
mod plan;
mod check;
mod count;
mod wire;
mod world;
mod explore;
mod worlds;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Runs Upbeat's state machines in a simulated world of faults, which heals at the end
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Explore for this many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Explore this many histories instead
    #[arg(long, conflicts_with = "seconds")]
    histories: Option<u64>,
    /// The first seed; each history has another. The default is the time of day
    #[arg(long)]
    seed: Option<u64>,
    /// The number of threads that explore
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the history of one seed again and print its events
    Replay {
        /// The seed
        seed: u64,
        /// Print all events, not only the last ones
        #[arg(long)]
        all: bool,
    },
    /// Run generated programs of nodes and handles in simulated worlds, and judge them
    Worlds {
        /// Run worlds for this many seconds
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// Run this many worlds instead
        #[arg(long, conflicts_with = "seconds")]
        histories: Option<u64>,
        /// The first seed; each world has another. The default is the time of day
        #[arg(long)]
        seed: Option<u64>,
        /// The number of threads that run worlds
        #[arg(long)]
        threads: Option<usize>,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },
    /// Replay the seeds of `corpus.txt`, in a build with faults also with those that each is said to find
    Corpus,
    /// Inject each fault and run histories until it is caught, in a build with `RUSTFLAGS="--cfg upbeat_mutants"`
    Mutants {
        /// Give up after this many histories
        #[arg(long, default_value_t = 200_000)]
        most: u64,
        /// Inject only faults whose names contain this
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
        Some(Command::Worlds { seconds, histories, seed, threads, json }) => {
            let time = Duration::from_secs(seconds);
            worlds::explore(&explore::Extent { time, histories, seed, threads }, json)
        }
        Some(Command::Corpus) => explore::corpus(),
        Some(Command::Mutants { most, only }) => explore::mutants(most, only.as_deref()),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
