//! Measurement for the developers of Upbeat, beside `upbeat bench`, which measures for users.
//!
//! The machinery is that of `upbeat bench`: two pinned processes, short rounds by turns. Here are
//! the tables and figures of papers, the parts of a call, crowds, and the way to the peers: other
//! libraries, whose benchmarks are a workspace of their own in `peers`. It is a library so that the
//! peers are drawn and started in the same way; only their needs are public.

#![forbid(unsafe_code)]

mod error;
pub mod peers;
pub mod plot;
mod sizes;
mod bill;
mod papers;
mod beside;
mod size;
mod throughput;
mod contract;
mod execution;
mod arguments;
mod tasks;
mod reads;
mod incast;
mod floods;
mod cores;
mod sweep;
mod suite;
mod everything;
pub mod figures;

use clap::{Parser, Subcommand};
use error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use suite::{SUITE, is_bet, is_slow, plot};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::pair::PeerArguments;
use upbeat_cli::bench::suite::{Bench, Choice, Chosen};

/// Measure for the developers of Upbeat: papers, parts, crowds, other libraries
#[derive(Debug, Parser)]
#[command(name = "bench", about, max_term_width = 100, after_long_help = HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(mut_arg("quick", |quick| quick.help("End within a minute, with fewer rounds of everything")))]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    choice: Choice,
    /// Draw the lines of `size`, `throughput` or `arguments` into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Leave out the cases of `size` and `throughput` that are sent optimistically
    #[arg(long)]
    conservative: bool,
}

/// Benchmarks with arguments of their own.
#[derive(Debug, Subcommand)]
enum Other {
    /// Other libraries beside Upbeat, in one run; built in the repository
    Peers(peers::Arguments),
    /// Many senders to one slow receiver: throughput, memory, and the latency of others
    Incast(incast::Arguments),
    /// Strangers that connect in great numbers, and honest clients meanwhile
    Floods(floods::Arguments),
    /// Several nodes behind one name: calls a second beside those of one node.
    Cores(cores::Arguments),
    /// Every table and figure of the five papers, with what is measured beside it or the word absent
    Papers(everything::Arguments),
    /// Every figure of README.md and docs/, measured and written there
    Figures(figures::Arguments),
    /// Every way of sending at every border of sizes, at full speed: what hangs, what is wrong
    Sweep(sweep::Arguments),
    /// The second process of a benchmark, which the first starts itself.
    #[command(hide = true)]
    BenchPeer(PeerArguments),
}

const HELP: &str = "\
It is measured as `upbeat bench` measures, whose help says how. In these examples, and in those of
`peers`, `incast`, `floods` and `figures`, `bench` is `cargo run --release -p bench --`.

Examples:
  bench bill                         where the time of a call goes
  bench peers --quick                what one would pick instead, beside ours
  bench papers --quick               every table of five papers, and today's figures beside them
  bench papers/lynx                  the tables of one of them, with the parts of a call
  bench figures                      the figures of README.md and docs/, measured and written
  bench size --plot size.svg         round trips by the size of the message, and their picture
  bench throughput                   one-way messages by their size, beside bare rings
  bench contract                     the price of an upcall, and programs with and without
  bench tasks                        switches, monitors, signals, beside a paper's
  bench execution                    handlers and tasks, and what a lost bet costs
  bench arguments                    calls by the size of their arguments, by execution
  bench reads                        remote variables by size, and programs that refer to them
  bench incast --quick               16 senders to one slow receiver
  bench floods --quick               3,000 strangers a second, and whom they keep waiting
  bench cores                        one node and two behind one name, with 8 clients
  bench sweep --messages 200         every way of sending, at the borders of the sizes
  bench papers --json > today.jsonl  for a program";

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.other {
        Some(Other::Peers(arguments)) => peers::run(arguments),
        Some(Other::Incast(arguments)) => incast::run(arguments).map_err(Error::from),
        Some(Other::Floods(arguments)) => floods::run(arguments).map_err(Error::from),
        Some(Other::Cores(arguments)) => cores::run(arguments).map_err(Error::from),
        Some(Other::Papers(arguments)) => everything::run(arguments),
        Some(Other::Figures(arguments)) => figures::run(arguments),
        Some(Other::Sweep(arguments)) => sweep::run(arguments).map_err(Error::from),
        Some(Other::BenchPeer(arguments)) => serve(arguments).map_err(Error::from),
        None => run(&arguments),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    let code = error.exit_code();
    if code != 0 {
        let second = matches!(arguments.other, Some(Other::BenchPeer(_)));
        let process = if second { "the second process: " } else { "" };
        eprintln!("bench: {process}{error}");
    }
    ExitCode::from(code)
}

/// Runs the first process.
fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { choice, conservative, .. } = arguments;
    let chosen = SUITE.chosen(choice)?;
    if choice.list {
        return Ok(chosen.list()?);
    }
    if *conservative && !leaves_out_any(&chosen) {
        return Err(Error::Conservative);
    }
    let mut picture = match &arguments.plot {
        Some(path) => Some(Picture::open(path, &chosen)?),
        None => None,
    };
    let left_out = |bench: &Bench, case: &str| {
        let in_general = choice.quick && chosen.names().iter().all(|name| name == bench.name);
        (*conservative && is_bet(bench.name, case)) || (in_general && is_slow(bench.name, case))
    };
    chosen.measure(left_out, |bench, rows| match (&mut picture, plot(bench.name)) {
        (Some(picture), Some(plot)) => picture.write(&plot(rows)),
        _ => Ok(()),
    })
}

/// Returns whether a case was named that is sent optimistically.
fn leaves_out_any(chosen: &Chosen<'_>) -> bool {
    let leaves_out = |bench: &Bench| {
        let cases = (bench.list)();
        cases.iter().any(|(case, _)| chosen.wants(bench, case) && is_bet(bench.name, case))
    };
    !chosen.names().is_empty() && SUITE.benches.iter().any(leaves_out)
}

/// Runs the second process.
fn serve(arguments: &PeerArguments) -> Result<(), BenchError> {
    let (name, cpus, scratch) = (&arguments.bench, arguments.cpus.cpus(), &arguments.scratch);
    let served = incast::serve(name, cpus, scratch).or_else(|| floods::serve(name, cpus, scratch));
    let served = served.or_else(|| sweep::serve(name, scratch));
    let of_users = upbeat_cli::bench::SUITE;
    let is_of_users = of_users.benches.iter().any(|bench| bench.name == *name);
    let suite = if is_of_users { of_users } else { SUITE };
    served.unwrap_or_else(|| suite.serve(arguments))
}

/// The file for a plot.
struct Picture {
    path: PathBuf,
    file: File,
}

impl Picture {
    /// Opens the file before anything is measured, if the chosen benchmarks can be drawn.
    fn open(path: &Path, chosen: &Chosen<'_>) -> Result<Picture, Error> {
        let mut meant = SUITE.benches.iter().filter(|bench| chosen.wants_any_of(bench));
        match (meant.next(), meant.next()) {
            (Some(one), None) if plot(one.name).is_some() => {}
            _ => return Err(Error::Plot),
        }
        let file = File::create(path).map_err(Error::picture(path))?;
        Ok(Picture { path: path.to_owned(), file })
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        self.file.write_all(text.as_bytes()).map_err(Error::picture(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_go_with_each_other() {
        Arguments::command().debug_assert();
    }
}
