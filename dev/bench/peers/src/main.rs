//! `bench peers`: libraries that a user could choose instead of Upbeat, measured in one run with Upbeat.
//!
//! The machinery is that of `upbeat bench`: two pinned processes, and short rounds that alternate. This program
//! has the peers, each in a module of its own, and the report about them.

#![forbid(unsafe_code)]

mod case;
mod names;
mod payload;
mod values;
mod tasks;
mod run;
mod peers;
mod summary;
mod plot;
mod readme;

use bench::peers::Arguments;
use case::Way;
use clap::{Parser, Subcommand};
use peers::LeftOut;
use readme::Readme;
use run::{BENCH, Sides};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use summary::Summary;
use upbeat_cli::bench::control::Done;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::pair::{self, Pair, PeerArguments};
use upbeat_cli::bench::pin::{self, Cpus};
use upbeat_cli::bench::progress::Progress;
use upbeat_cli::bench::report;
use upbeat_cli::bench::rounds::{self, Measured, Schedule};

/// Measures libraries that a user could choose instead of Upbeat, in one run with Upbeat.
#[derive(Debug, Parser)]
#[command(name = "bench peers", about, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Peers {
    #[command(subcommand)]
    process: Option<Process>,
    #[command(flatten)]
    arguments: Arguments,
}

/// Processes that the benchmark starts itself.
#[derive(Debug, Subcommand)]
enum Process {
    /// The second process.
    #[command(hide = true)]
    BenchPeer(PeerArguments),
    /// A process of Lamellar.
    #[cfg(feature = "lamellar")]
    #[command(hide = true)]
    LamellarPe(peers::lamellar::PeArguments),
}

const FULL: Schedule =
    Schedule { round: Duration::from_millis(8), total: Duration::from_secs(180) };
const QUICK: Schedule =
    Schedule { round: Duration::from_millis(4), total: Duration::from_secs(30) };

/// The duration of a run in tests, without the first round of each case.
const SECONDS: &str = "UPBEAT_BENCH_PEERS_SECONDS";

fn main() -> ExitCode {
    let Peers { process, arguments } = Peers::parse();
    let done = match process {
        Some(Process::BenchPeer(arguments)) => {
            serve(&arguments).map_err(|error| format!("the second process: {error}"))
        }
        #[cfg(feature = "lamellar")]
        Some(Process::LamellarPe(arguments)) => peers::lamellar::run_pe(&arguments)
            .map_err(|error| format!("a process of Lamellar's: {error}")),
        None => run(&arguments).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the second process.
fn serve(arguments: &PeerArguments) -> Result<(), BenchError> {
    let (cpus, scratch) = (arguments.cpus.cpus(), &arguments.scratch);
    pair::serve(cpus, |control, _| {
        control.send(&Done)?;
        Ok(Sides::new(peers::ways(), scratch, cpus))
    })
}

/// Runs the first process.
fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let ways = peers::ways();
    let chosen = run::chosen(&ways, &arguments.cases);
    for name in &arguments.cases {
        if run::chosen(&ways, std::slice::from_ref(name)).is_empty() {
            let text =
                format!("nothing is called `{name}`; `--list` names all, and what is missing");
            return Err(BenchError::Runtime { act: "choosing cases", text });
        }
    }
    if arguments.list {
        return list(&ways, &arguments.cases).map_err(|error| BenchError::Output { error });
    }
    let readme = match arguments.write_readme {
        true => Some(Readme::open().map_err(unwritten)?),
        false => None,
    };
    let cpus = Cpus::choose(arguments.pin, &pin::allowed()?)?;
    let measured = measure(&ways, &chosen, cpus, arguments.quick)?;
    say(&measured, &ways, arguments).map_err(|error| BenchError::Output { error })?;
    if let (Some(readme), Some(summary)) = (readme, Summary::of(&ways, &measured.rows)) {
        readme.write(&summary, arguments.quick).map_err(unwritten)?;
    }
    Ok(())
}

fn unwritten(why: String) -> BenchError {
    BenchError::Output { error: std::io::Error::other(why) }
}

fn measure(
    ways: &[Way],
    chosen: &[(usize, case::Op)],
    cpus: Cpus,
    quick: bool,
) -> Result<Measured, BenchError> {
    let mut pair = Pair::start(BENCH, cpus)?;
    let Done = pair.control().receive()?;
    let all: usize = ways.iter().map(|way| way.ops().count()).sum();
    let mut schedule = if quick { QUICK } else { FULL }.for_part(chosen.len(), all);
    if let Some(seconds) = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()) {
        schedule = Schedule { total: Duration::from_secs(seconds), ..QUICK };
    }
    let subjects = run::subjects(ways, chosen, &pair);
    let mut progress = Progress::new();
    let measured = rounds::alternate(BENCH, &mut pair, subjects, schedule, &mut progress)?;
    progress.end();
    pair.end()?;
    Ok(measured)
}

/// Prints the results, and the cases that were not measured.
fn say(measured: &Measured, ways: &[Way], arguments: &Arguments) -> std::io::Result<()> {
    let mut to = std::io::stdout().lock();
    if arguments.json {
        report::json(&measured.rows, &mut to)?;
    } else {
        report::table(&measured.rows, &mut to)?;
        write!(to, "{}", report::NOTES)?;
    }
    report::left_out(&measured.left_out, arguments.json, &mut to)?;
    to.flush()?;
    let mut to = std::io::stderr().lock();
    for LeftOut { what, why } in peers::left_out(ways, &arguments.cases) {
        writeln!(to, "left out: {what}: {why}")?;
    }
    Ok(())
}

fn list(ways: &[Way], cases: &[String]) -> std::io::Result<()> {
    let mut to = std::io::stdout().lock();
    for way in ways {
        for op in way.ops().filter(|&op| names::is_wanted(cases, &way.path(op))) {
            writeln!(to, "{:<34} {}: {}", way.path(op), op.about(), way.about)?;
        }
    }
    for LeftOut { what, why } in peers::left_out(ways, cases) {
        writeln!(to, "left out: {what}: {why}")?;
    }
    Ok(())
}
