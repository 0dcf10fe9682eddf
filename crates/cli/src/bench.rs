//! `upbeat bench` measures the costs of this machine, and the costs of calls and messages above them.
//!
//! A benchmark is a list of cases that a pair of pinned processes measures alternately (`rounds`).
//! The output is a table, or one JSON object per line. Benchmarks for the developers of Upbeat are
//! in `dev/bench`, and use the code of this module.

pub mod pin;
pub mod error;
pub mod waits;
pub mod timing;
pub mod stats;
pub mod report;
mod ledger;
pub mod progress;
pub mod control;
pub mod ground;
mod line;
mod socket;
pub mod message;
pub mod pipe;
pub mod pair;
mod placement;
pub mod rounds;
pub mod suite;
pub(crate) mod yardstick;
pub mod memory;
mod limits;
pub mod echo;
pub mod hosts;
pub mod flight;
mod call;
mod oneway;
mod tcp;
pub mod read;

use clap::Args;
use error::BenchError;
use pair::PeerArguments;
use suite::{Bench, Choice, Suite, tell_rows};

/// The arguments of `upbeat bench`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    choice: Choice,
}

const HELP: &str = "\
Method: two processes, each pinned to a CPU, measure short rounds of all cases alternately. Rounds of
a case alternate with rounds of its floor, the round trip of two cache lines, and the ratio of the
two is the median over all rounds. Before and after each sweep over the cases, a probe finds the
placement of the two CPUs (one core, one L3, two L3s), because virtual machines move them. A sweep
in which the placement changed is dropped, and figures of different placements are never mixed.

Benchmarks for the developers of Upbeat, such as the tables of papers and other libraries, are in
the repository: `cargo run --release -p bench -- --help`.

Examples:
  upbeat bench --quick               everything, in half a minute
  upbeat bench limits                the costs of this machine, without a library
  upbeat bench call/null             null calls, between threads and processes
  upbeat bench call oneway           calls of different sizes, one-way messages, streams
  upbeat bench tcp                   over TCP and TLS on this host, beside bare sockets
  upbeat bench read                  reads of exported variables, beside bare loads
  upbeat bench line unix --pin 2,3   some cases, on two CPUs of your choice
  upbeat bench --json > today.jsonl  one JSON object per line, for a program";

/// The benchmarks of `upbeat bench`.
pub const SUITE: Suite = Suite {
    command: "upbeat bench",
    benches: &[
        Bench {
            name: limits::BENCH,
            about: "the costs of this machine, without a library",
            list: limits::list,
            subjects: limits::subjects,
            serve: |cpus, _| pair::serve(cpus, limits::server),
            full: Bench::schedule(6, 50_000),
            quick: Bench::schedule(2, 5_000),
            tell: tell_rows,
            notes: report::NOTES,
        },
        Bench {
            name: call::BENCH,
            about: "the cost of a typed call",
            list: call::list,
            subjects: call::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, _| call::server(control, scratch, cpus))
            },
            full: Bench::schedule(6, 60_000),
            quick: Bench::schedule(2, 8_000),
            tell: tell_rows,
            notes: report::NOTES,
        },
        Bench {
            name: oneway::BENCH,
            about: "the throughput of one-way messages",
            list: oneway::list,
            subjects: oneway::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, ground| oneway::server(control, ground, scratch))
            },
            full: Bench::schedule(10, 12_000),
            quick: Bench::schedule(5, 3_000),
            tell: tell_rows,
            notes: report::NOTES,
        },
        Bench {
            name: tcp::BENCH,
            about: "the costs of calls and messages over TCP and TLS, and of bare sockets",
            list: tcp::list,
            subjects: tcp::subjects,
            serve: |cpus, scratch| pair::serve(cpus, |control, _| tcp::server(control, scratch)),
            full: Bench::schedule(10, 60_000),
            quick: Bench::schedule(3, 5_000),
            tell: tell_rows,
            notes: report::NOTES,
        },
        Bench {
            name: read::BENCH,
            about: "the costs of reading variables that another process exports",
            list: read::list,
            subjects: read::subjects,
            serve: |cpus, scratch| pair::serve(cpus, |control, _| read::server(control, scratch)),
            full: Bench::schedule(10, 40_000),
            quick: Bench::schedule(3, 4_000),
            tell: read::tell,
            notes: read::NOTES,
        },
    ],
};

/// Runs `upbeat bench`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let chosen = SUITE.chosen(&arguments.choice)?;
    match arguments.choice.list {
        true => chosen.list(),
        false => chosen.measure(|_, _| false, |_, _| Ok(())),
    }
}

/// Runs `upbeat bench-peer`.
pub(crate) fn run_peer(arguments: &PeerArguments) -> Result<(), BenchError> {
    match arguments.bench.as_str() {
        yardstick::BENCH => yardstick::serve(arguments.cpus.cpus()),
        _ => SUITE.serve(arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::SUITE;
    use std::time::Duration;

    #[test]
    fn quick_runs_end_within_thirty_seconds() {
        let total: Duration = SUITE.benches.iter().map(|bench| bench.quick.total).sum();
        assert!(total <= Duration::from_secs(25), "the rest of 30 s is for starting and ending");
    }
}
