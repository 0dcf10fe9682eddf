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

use clap::{Args, Parser, Subcommand};

/// Runs Upbeat's state machines in a simulated world of faults, which heals at the end
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    length: Length,
}

/// For how long to explore.
#[derive(Args)]
struct Length {
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

impl Length {
    fn extent(self) -> explore::Extent {
        let Length { seconds, histories, seed, threads } = self;
        explore::Extent { time: Duration::from_secs(seconds), histories, seed, threads }
    }
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
        #[command(flatten)]
        length: Length,
        /// Go on for as long as fewer worlds have run than this
        #[arg(long, default_value_t = 0)]
        least: u64,
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
        None => explore::explore(&arguments.length.extent()),
        Some(Command::Replay { seed, all }) => explore::replay(seed, all),
        Some(Command::Worlds { length, least, json }) => {
            worlds::explore(&length.extent(), least, json)
        }
        Some(Command::Corpus) => explore::corpus(),
        Some(Command::Mutants { most, only }) => explore::mutants(most, only.as_deref()),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
