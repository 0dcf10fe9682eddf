//! `bench papers`: the cases of all benchmarks that stand beside a table or a figure of a paper, in one run.

use crate::error::Error;
use crate::papers::figures::{Entry, all};
use crate::papers::report::{self, Beside};
use crate::suite::{SUITE, lines};
use clap::Args;
use std::io::{BufWriter, Write};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::pin::Wanted;
use upbeat_cli::bench::report::{LeftOut, Row, placements};
use upbeat_cli::bench::suite::Choice;

/// The arguments of `bench papers`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// End within a minute or two, with fewer rounds of everything
    #[arg(long)]
    quick: bool,
    /// The seconds for all cases of a benchmark; each case gets at least one round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Print one JSON object a row instead of tables
    #[arg(long)]
    json: bool,
    /// The CPUs of the measuring process and of the second process [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pin: Option<Wanted>,
}

/// The cases that stand beside the papers, by the first words of their names.
const CASES: &[&str] = &[
    "papers",
    "size/100B",
    "throughput/500B",
    "contract/null/polling",
    "contract/null/both-compute",
    "tasks",
    "execution/am",
    "execution/orpc",
    "execution/trpc",
    "execution/lost",
    "arguments/2B",
    "arguments/4B",
    "arguments/8B",
    "arguments/16B",
    "arguments/32B",
    "arguments/64B",
    "arguments/128B",
    "arguments/256B",
    "arguments/512B",
    "arguments/1024B",
    "reads",
];

/// The measurements beside the papers.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The figures of today, those of a benchmark of one placement.
    pub(crate) today: Vec<Beside>,
    /// The cases that did not measure what they are named after.
    pub(crate) left_out: Vec<LeftOut>,
}

impl Outcome {
    /// Returns the rows of the papers that should have a figure of today and have none, with their benchmarks.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for entry in all() {
            let Entry::Held(printed) = entry else { continue };
            for row in report::missing(printed, &self.today) {
                let text = format!("{}, {}: {row}", printed.system, printed.table);
                missing.push(Missing { bench: printed.today.bench, text });
            }
        }
        missing
    }

    /// Adds figures that are not there yet.
    fn add(&mut self, more: Vec<Beside>) {
        for one in more {
            let is_it = |other: &Beside| {
                (&other.system, &other.table, &other.row, &other.case)
                    == (&one.system, &one.table, &one.row, &one.case)
            };
            if !self.today.iter().any(is_it) {
                self.today.push(one);
            }
        }
    }

    /// Measures the benchmarks that have missing rows once more.
    pub(crate) fn complete(&mut self, quick: bool) -> Result<(), Error> {
        let missing = self.missing();
        self.left_out.clear();
        self.measure(quick, None, None, |bench| missing.iter().any(|one| one.bench == bench))
    }

    fn measure(
        &mut self,
        quick: bool,
        seconds: Option<u64>,
        pin: Option<Wanted>,
        wants: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let of_wanted = |case: &&&str| wants(case.split('/').next().unwrap_or(case));
        let cases: Vec<String> =
            CASES.iter().filter(of_wanted).map(|case| (*case).to_owned()).collect();
        if cases.is_empty() {
            return Ok(());
        }
        let choice = Choice { cases, list: false, quick, seconds, json: false, pin };
        let chosen = SUITE.chosen(&choice)?;
        chosen.collect(
            |_, _| false,
            |bench, measured| {
                eprintln!("bench: measured {}", bench.name);
                for placement in placements(&measured.rows) {
                    let is_of = |row: &&Row| row.placement == placement;
                    let rows: Vec<&Row> = measured.rows.iter().filter(is_of).collect();
                    self.add(lines(bench.name, &rows));
                }
                self.left_out.extend(measured.left_out);
                Ok::<(), Error>(())
            },
        )
    }
}

/// A row of a paper that should have a figure of today.
#[derive(Debug)]
pub(crate) struct Missing {
    bench: &'static str,
    /// The system, the table and the row.
    pub(crate) text: String,
}

/// Measures what stands beside the papers.
pub(crate) fn measure(
    quick: bool,
    seconds: Option<u64>,
    pin: Option<Wanted>,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    outcome.measure(quick, seconds, pin, |_| true)?;
    Ok(outcome)
}

/// Runs `bench papers`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { quick, seconds, json, pin } = *arguments;
    let outcome = measure(quick, seconds, pin)?;
    let mut to = BufWriter::new(std::io::stdout().lock());
    let entries: Vec<Entry> = all().collect();
    let told = report::tell(&entries, &outcome.today, json, &mut to)
        .and_then(|()| upbeat_cli::bench::report::left_out(&outcome.left_out, json, &mut to))
        .and_then(|()| to.flush());
    told.map_err(|error| Error::Bench(BenchError::Output { error }))
}

#[cfg(test)]
mod tests;
