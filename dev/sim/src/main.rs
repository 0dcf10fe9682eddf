//! `cargo run --release -p sim -- …`: generated programs of nodes and handles in simulated worlds, judged, and the same
//! with faults that are put into the product.
#![forbid(unsafe_code)]

mod random;

mod search;

mod worlds;

mod mutants;

use clap::{Parser, Subcommand};
use search::Length;
use std::process::ExitCode;
use std::time::Duration;

/// Runs generated programs of Upbeat in simulated worlds of faults
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run generated programs of nodes and handles in simulated worlds, and judge them
    Worlds {
        #[command(flatten)]
        length: Length,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put each fault in and run worlds until one is judged wrong, in a build with `RUSTFLAGS="--cfg upbeat_mutants"`
    Mutants {
        /// Look for each fault for this many seconds
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The first seed. The default is the time of day
        #[arg(long)]
        seed: Option<u64>,
        /// Put in these faults alone
        only: Vec<String>,
    },
}

fn main() -> ExitCode {
    let fine = match Arguments::parse().command {
        Command::Worlds { length, json } => worlds::explore(&length, json),
        Command::Mutants { seconds, seed, only } => {
            mutants::search(Duration::from_secs(seconds), seed, &only)
        }
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
