//! A list of benchmarks: its cases, the choice among them, their measurement and output.
//! `upbeat bench` has one list, the benchmarks for developers another.

use crate::bench::error::BenchError;
use crate::bench::pair::{Pair, PeerArguments};
use crate::bench::pin::{self, Cpus, Wanted};
use crate::bench::progress::Progress;
use crate::bench::report::{self, Row};
use crate::bench::rounds::{self, Measured, Schedule, Subject};
use clap::Args;
use std::io::{BufWriter, StdoutLock, Write};
use std::path::Path;
use std::time::Duration;

/// The choice of cases, the time for them, and the form of the output.
#[derive(Debug, Args)]
pub struct Choice {
    /// The benchmarks or cases, by name or by the first words of a name [default: all]
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// List the cases and measure nothing
    #[arg(long)]
    pub list: bool,
    /// End within 30 seconds, with fewer rounds of each case
    #[arg(long)]
    pub quick: bool,
    /// The seconds for all cases of a benchmark; each case gets at least one round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// The CPUs of the measuring process and of the second process [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pub pin: Option<Wanted>,
}

impl Choice {
    /// Returns the duration of a round of this benchmark, and of all its rounds.
    fn schedule(&self, bench: &Bench) -> Schedule {
        let schedule = if self.quick { bench.quick } else { bench.full };
        let total = self.seconds.map_or(schedule.total, Duration::from_secs);
        Schedule { total, ..schedule }
    }
}

/// Creates the subjects of the chosen cases for a pair.
pub type Subjects = fn(&Pair, &dyn Fn(&str) -> bool) -> Result<Vec<Box<dyn Subject>>, BenchError>;

/// Writes the rows of the chosen cases, for people or for programs.
pub type Tell = fn(&[Row], &dyn Fn(&str) -> bool, bool, &mut Output) -> std::io::Result<()>;

/// The output for rows.
pub type Output = BufWriter<StdoutLock<'static>>;

/// A benchmark.
pub struct Bench {
    /// The first word of its cases.
    pub name: &'static str,
    /// A description of the benchmark.
    pub about: &'static str,
    /// Returns the cases and their descriptions.
    pub list: fn() -> Vec<(String, String)>,
    /// Creates the first process's side of the cases.
    pub subjects: Subjects,
    /// Runs the second process.
    pub serve: fn(Cpus, &Path) -> Result<(), BenchError>,
    /// The durations of its rounds.
    pub full: Schedule,
    /// The durations of its rounds in a quick run.
    pub quick: Schedule,
    /// Writes its rows.
    pub tell: Tell,
    /// An explanation of the figures, printed once for benchmarks that share it.
    pub notes: &'static str,
}

impl Bench {
    /// Returns the durations of a round and of all rounds, given in milliseconds.
    pub const fn schedule(round_ms: u64, total_ms: u64) -> Schedule {
        let (round, total) = (Duration::from_millis(round_ms), Duration::from_millis(total_ms));
        Schedule { round, total }
    }
}

/// Writes rows as they were measured.
pub fn tell_rows(
    rows: &[Row],
    _: &dyn Fn(&str) -> bool,
    json: bool,
    to: &mut Output,
) -> std::io::Result<()> {
    if json { report::json(rows, to) } else { report::table(rows, to) }
}

/// The benchmarks of a command.
pub struct Suite {
    /// The words of a command line that run it.
    pub command: &'static str,
    /// All benchmarks, in the order in which they are listed and measured.
    pub benches: &'static [Bench],
}

impl Suite {
    /// Returns the chosen cases, or an error if a name matches no case.
    pub fn chosen<'a>(&'a self, choice: &'a Choice) -> Result<Chosen<'a>, BenchError> {
        let names: Vec<String> =
            choice.cases.iter().map(|name| name.trim_end_matches('/').to_owned()).collect();
        self.check_names(&names)?;
        Ok(Chosen { suite: self, choice, names })
    }

    fn check_names(&self, names: &[String]) -> Result<(), BenchError> {
        let mut all = Vec::new();
        for bench in self.benches {
            all.extend((bench.list)().into_iter().map(|(case, _)| (bench.name, case)));
        }
        let means_something = |name: &String| {
            let name = std::slice::from_ref(name);
            all.iter().any(|(bench, case)| self.is_wanted(name, bench, case))
        };
        match names.iter().find(|name| !means_something(name)) {
            Some(name) => Err(self.unknown(name)),
            None => Ok(()),
        }
    }

    /// Returns whether one of the names selects a case; without names all cases are selected. The name of a
    /// benchmark does not select cases of other benchmarks that begin with the name.
    fn is_wanted(&self, names: &[String], bench: &str, case: &str) -> bool {
        let begins = |path: &str, name: &str| {
            path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_bench = |name: &str| self.benches.iter().any(|bench| bench.name == name);
        let path = format!("{bench}/{case}");
        let means = |name: &String| begins(&path, name) || !is_bench(name) && begins(case, name);
        names.is_empty() || names.iter().any(means)
    }

    fn unknown(&self, name: &str) -> BenchError {
        BenchError::Case { name: name.to_owned(), command: self.command }
    }

    /// Runs the second process of a benchmark.
    pub fn serve(&self, arguments: &PeerArguments) -> Result<(), BenchError> {
        let bench = self.benches.iter().find(|bench| bench.name == arguments.bench);
        let bench = bench.ok_or_else(|| self.unknown(&arguments.bench))?;
        (bench.serve)(arguments.cpus.cpus(), &arguments.scratch)
    }
}

/// The chosen cases of a suite.
pub struct Chosen<'a> {
    suite: &'a Suite,
    choice: &'a Choice,
    names: Vec<String>,
}

impl Chosen<'_> {
    /// Returns the names that the user gave; no names mean all cases.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether one of the names selects a case.
    pub fn wants(&self, bench: &Bench, case: &str) -> bool {
        self.suite.is_wanted(&self.names, bench.name, case)
    }

    /// Returns whether a name selects any case of a benchmark.
    pub fn wants_any_of(&self, bench: &Bench) -> bool {
        (bench.list)().iter().any(|(case, _)| self.wants(bench, case))
    }

    /// Prints the cases and their descriptions.
    pub fn list(&self) -> Result<(), BenchError> {
        self.write_list().map_err(output)
    }

    fn write_list(&self) -> std::io::Result<()> {
        let mut to = BufWriter::new(std::io::stdout().lock());
        for bench in self.suite.benches {
            let cases: Vec<(String, String)> = (bench.list)()
                .into_iter()
                .filter(|(case, _)| self.wants(bench, case))
                .map(|(case, about)| (format!("{}/{case}", bench.name), about))
                .collect();
            let Some(width) = cases.iter().map(|(path, _)| path.len()).max() else { continue };
            writeln!(to, "{}: {}", bench.name, bench.about)?;
            for (path, about) in cases {
                writeln!(to, "  {path:<width$}  {about}")?;
            }
        }
        to.flush()
    }

    /// Measures the cases and prints their rows, without those that are left out. `then` receives the
    /// rows of each benchmark after they are printed.
    pub fn measure<E: From<BenchError>>(
        &self,
        left_out: impl Fn(&Bench, &str) -> bool,
        mut then: impl FnMut(&Bench, &[Row]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut notes = "";
        self.collect(&left_out, |bench, measured| {
            let wanted = |case: &str| self.wants(bench, case) && !left_out(bench, case);
            print(bench, &measured, &wanted, self.choice.json).map_err(output)?;
            if !measured.rows.is_empty() && !bench.notes.is_empty() {
                notes = bench.notes;
            }
            then(bench, &measured.rows)
        })?;
        if !self.choice.json {
            write!(std::io::stdout(), "{notes}").map_err(output)?;
        }
        Ok(())
    }

    /// Measures the cases, without those that are left out, and prints nothing. `then` receives the
    /// results of each benchmark.
    pub fn collect<E: From<BenchError>>(
        &self,
        left_out: impl Fn(&Bench, &str) -> bool,
        mut then: impl FnMut(&Bench, Measured) -> Result<(), E>,
    ) -> Result<(), E> {
        let allowed = pin::allowed().map_err(BenchError::from)?;
        let cpus = Cpus::choose(self.choice.pin, &allowed).map_err(BenchError::from)?;
        let mut progress = Progress::new();
        for bench in self.suite.benches {
            let wanted = |case: &str| self.wants(bench, case) && !left_out(bench, case);
            if !(bench.list)().iter().any(|(case, _)| wanted(case)) {
                continue;
            }
            let schedule = self.choice.schedule(bench);
            let measured = measure(bench, cpus, schedule, &wanted, &mut progress)?;
            progress.end();
            then(bench, measured)?;
        }
        // The pairs have pinned this thread, and another choice of cases begins with all CPUs.
        pin::keep_on(&allowed).map_err(BenchError::from)?;
        Ok(())
    }
}

fn output(error: std::io::Error) -> BenchError {
    BenchError::Output { error }
}

fn measure(
    bench: &Bench,
    cpus: Cpus,
    schedule: Schedule,
    wanted: &dyn Fn(&str) -> bool,
    progress: &mut Progress,
) -> Result<Measured, BenchError> {
    let mut pair = Pair::start(bench.name, cpus)?;
    let subjects = (bench.subjects)(&pair, wanted)?;
    let schedule = schedule.for_part(subjects.len(), (bench.list)().len());
    let measured = rounds::alternate(bench.name, &mut pair, subjects, schedule, progress)?;
    pair.end()?;
    Ok(measured)
}

fn print(
    bench: &Bench,
    measured: &Measured,
    wanted: &dyn Fn(&str) -> bool,
    json: bool,
) -> std::io::Result<()> {
    let mut to = BufWriter::new(std::io::stdout().lock());
    (bench.tell)(&measured.rows, wanted, json, &mut to)?;
    report::left_out(&measured.left_out, json, &mut to)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::{Bench, Choice, Suite, Wanted, tell_rows};
    use clap::{Args, Command, FromArgMatches};
    use std::time::Duration;

    const LIMITS: Bench = Bench {
        name: "limits",
        about: "an example",
        list: || ["line/paced/2", "tcp/polling"].map(|case| (case.into(), "".into())).into(),
        subjects: |_, _| Ok(Vec::new()),
        serve: |_, _| Ok(()),
        full: Bench::schedule(6, 50_000),
        quick: Bench::schedule(2, 6_000),
        tell: tell_rows,
        notes: "",
    };

    fn parse(line: &[&str]) -> Result<Choice, clap::Error> {
        let command = Choice::augment_args(Command::new("bench").no_binary_name(true));
        Choice::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn arguments() {
        let none = parse(&[]).unwrap();
        assert!(none.cases.is_empty() && !none.list && !none.quick && !none.json);
        assert_eq!(none.pin, None);
        let all = parse(&["limits", "--quick", "unix", "--json", "--pin", "1,0"]).unwrap();
        assert_eq!(all.cases, ["limits", "unix"]);
        assert_eq!(all.pin, Some("1,0".parse::<Wanted>().unwrap()));
        let refused = parse(&["--pin", "1"]).unwrap_err().to_string();
        assert!(refused.contains("`1` does not name two CPUs"), "{refused}");
        let refused = parse(&["--pin=0,0"]).unwrap_err().to_string();
        assert!(refused.contains("not 0 twice"), "{refused}");
        assert!(parse(&["--fast"]).is_err());
        assert_eq!(none.schedule(&LIMITS).total, LIMITS.full.total);
        assert_eq!(all.schedule(&LIMITS).total, LIMITS.quick.total);
        let brief = parse(&["--quick", "--seconds", "1"]).unwrap().schedule(&LIMITS);
        assert_eq!((brief.round, brief.total), (LIMITS.quick.round, Duration::from_secs(1)));
        assert!(parse(&["--seconds", "0"]).is_err());
    }

    #[test]
    fn a_name_selects_a_benchmark_a_case_or_cases_by_their_first_words() {
        let tcp = Bench { name: "tcp", ..LIMITS };
        let suite = Suite { command: "upbeat bench", benches: Box::leak(Box::new([LIMITS, tcp])) };
        let wanted = |name: &str| suite.is_wanted(&[name.to_owned()], "limits", "line/paced/2");
        assert!(wanted("limits") && wanted("limits/line") && wanted("limits/line/paced/2"));
        assert!(wanted("line") && wanted("line/paced"));
        assert!(!wanted("lin") && !wanted("line/tight") && !wanted("paced") && !wanted("call"));
        assert!(suite.is_wanted(&[], "limits", "line/paced/2"));
        let tcp = |bench| suite.is_wanted(&["tcp".to_owned()], bench, "tcp/polling");
        assert!(tcp("tcp") && !tcp("limits"), "a benchmark of that name");
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let suite = Suite { command: "upbeat bench", benches: &[LIMITS] };
        suite.chosen(&parse(&["limits", "tcp/"]).unwrap()).unwrap();
        let choice = parse(&["limits", "tpc"]).unwrap();
        let Err(refused) = suite.chosen(&choice) else { panic!("`tpc` means something") };
        let refused = refused.to_string();
        assert!(
            refused.contains("`tpc`") && refused.contains("`upbeat bench --list`"),
            "{refused}"
        );
    }
}
