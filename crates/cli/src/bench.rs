//! `upbeat bench`: what this machine charges, and what Upbeat adds to it.
//!
//! A benchmark is a list of cases that a pair of pinned processes measures by turns (`rounds`).
//! What is said is a table, or one JSON object a line.

pub mod pin;
pub mod error;
pub mod peers;
pub mod timing;
mod stats;
pub mod report;
mod ledger;
mod sizes;
pub mod progress;
pub mod control;
pub mod ground;
mod line;
mod message;
mod pipe;
pub mod pair;
mod placement;
pub mod rounds;
pub(crate) mod yardstick;
mod memory;
mod limits;
pub mod plot;
mod echo;
mod hosts;
mod call;
mod oneway;
mod bill;
mod papers;
mod beside;
mod size;
mod throughput;
mod contract;
mod execution;
mod arguments;
mod incast;
mod tasks;

use clap::{Args, Subcommand};
use error::BenchError;
use pair::Pair;
use pin::{Cpus, Wanted};
use progress::Progress;
use report::Row;
use rounds::{Schedule, Subject};
use std::fs::File;
use std::io::{BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `upbeat bench` is told.
#[derive(Debug, Args)]
#[command(after_long_help = HELP, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// Benchmarks, cases, or the first words of cases; everything if nothing is named
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Say which cases there are, and measure nothing
    #[arg(long)]
    list: bool,
    /// End within 30 seconds, with fewer rounds of everything
    #[arg(long)]
    quick: bool,
    /// How long each benchmark measures, if all of it: at least a round of every case
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// The CPUs of the measuring process and of the other [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pin: Option<Wanted>,
    /// Draw the lines of `size`, `throughput` or `arguments` into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Of `size` and `throughput`, leave out what is sent optimistically
    #[arg(long)]
    conservative: bool,
}

impl Arguments {
    /// How long a round of this benchmark takes, and all of its rounds.
    fn schedule(&self, bench: &Bench) -> Schedule {
        let schedule = if self.quick { bench.quick } else { bench.full };
        let total = self.seconds.map_or(schedule.total, Duration::from_secs);
        Schedule { total, ..schedule }
    }
}

/// What is measured elsewhere.
#[derive(Debug, Subcommand)]
enum Other {
    /// What one would pick instead of Upbeat, in a run with ours; built in the repository.
    Peers(peers::Arguments),
    /// Many senders to one slow receiver: what gets through, what grows, who else notices.
    Incast(incast::Arguments),
}

const HELP: &str = "\
How it is measured: two processes, each pinned to a CPU, do short rounds of everything by turns.
Around each round trip stand rounds of its floor, the round trip of two cache lines, and the ratio
to it is the median over all rounds. Before and after each sweep a probe finds where the two CPUs
are (one core, one L3, two L3s: virtual machines move them); sweeps in which that changed are
dropped, and figures of different placements are never mixed.

Examples:
  upbeat bench --quick               everything, in half a minute
  upbeat bench limits                what this machine charges
  upbeat bench call/null             calls of nothing, of every kind
  upbeat bench line unix --pin 2,3   some cases, on two CPUs of your choice
  upbeat bench peers --quick         what one would pick instead, beside ours
  upbeat bench papers --quick        the tables of old papers, and today's figures beside them
  upbeat bench size --plot size.svg  round trips by the size of the message, and their picture
  upbeat bench throughput            one-way messages by their size, beside bare rings
  upbeat bench contract              the price of an upcall, and programs with and without
  upbeat bench tasks                 switches, monitors, signals, beside a paper's
  upbeat bench execution             handlers and tasks, and what a lost bet costs
  upbeat bench arguments             calls by the size of their arguments, by execution
  upbeat bench incast --quick        16 senders to one slow receiver
  upbeat bench --json > today.jsonl  for a program";

/// What the second process is told.
#[derive(Debug, Args)]
pub struct PeerArguments {
    /// The CPUs that both run on.
    #[arg(long)]
    pub cpus: Wanted,
    /// A directory of the benchmark's own.
    #[arg(long)]
    pub scratch: PathBuf,
    /// The benchmark.
    pub bench: String,
}

/// Subjects for a pair, of the cases that are wanted.
type Subjects = fn(&Pair, &dyn Fn(&str) -> bool) -> Result<Vec<Box<dyn Subject>>, BenchError>;

/// A benchmark.
struct Bench {
    name: &'static str,
    about: &'static str,
    /// Its cases, and what each is.
    list: fn() -> Vec<(String, String)>,
    subjects: Subjects,
    serve: fn(Cpus, &Path) -> Result<(), BenchError>,
    full: Schedule,
    quick: Schedule,
    /// Whether it is left out where nothing is named: it measures again what others do.
    on_demand: bool,
    /// How its rows are said, for people or for programs, of the cases that are wanted.
    tell: Tell,
    /// Whether a case is left out of a quick run that names only the benchmark: it takes seconds.
    slow: fn(&str) -> bool,
    /// How they are drawn, if they are.
    plot: Option<fn(&[Row]) -> String>,
    /// What a reader should know of the figures, said once for those that share it.
    notes: &'static str,
}

type Tell = fn(&[Row], &dyn Fn(&str) -> bool, bool, &mut Output) -> std::io::Result<()>;

type Output = BufWriter<StdoutLock<'static>>;

const fn schedule(round_ms: u64, total_ms: u64) -> Schedule {
    let (round, total) = (Duration::from_millis(round_ms), Duration::from_millis(total_ms));
    Schedule { round, total }
}

const BENCHES: &[Bench] = &[
    Bench {
        name: limits::BENCH,
        about: "what this machine charges, with no library in between",
        list: limits::list,
        subjects: limits::subjects,
        serve: |cpus, _| pair::serve(cpus, limits::server),
        full: schedule(6, 50_000),
        quick: schedule(2, 6_000),
        on_demand: false,
        tell: |rows, _, json, to| tell_rows(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: call::BENCH,
        about: "what a typed call costs",
        list: call::list,
        subjects: call::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| call::server(control, ground, scratch, cpus))
        },
        full: schedule(6, 60_000),
        quick: schedule(2, 10_000),
        on_demand: false,
        tell: |rows, _, json, to| tell_rows(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: oneway::BENCH,
        about: "how many one-way messages get through",
        list: oneway::list,
        subjects: oneway::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| oneway::server(control, ground, scratch))
        },
        full: schedule(10, 12_000),
        quick: schedule(5, 3_000),
        on_demand: false,
        tell: |rows, _, json, to| tell_rows(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: bill::BENCH,
        about: "where the time of a call goes, item by item, and what the items do not say",
        list: bill::list,
        subjects: bill::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| bill::server(control, ground, scratch))
        },
        full: schedule(12, 30_000),
        quick: schedule(6, 6_000),
        on_demand: false,
        tell: |rows, _, json, to| tell_rows(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: papers::BENCH,
        about: "the tables of the papers, and today's figures beside them",
        list: papers::list,
        subjects: papers::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| papers::server(control, ground, scratch, cpus))
        },
        full: schedule(12, 30_000),
        quick: schedule(6, 8_000),
        on_demand: true,
        tell: |rows, wanted, json, to| papers::tell(rows, wanted, json, to),
        slow: |_| false,
        plot: None,
        notes: "",
    },
    Bench {
        name: size::BENCH,
        about: "round trips by the size of the message, optimistic and conservative",
        list: size::list,
        subjects: size::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| size::server(control, ground, scratch))
        },
        full: schedule(6, 40_000),
        quick: schedule(2, 5_000),
        on_demand: true,
        tell: |rows, _, json, to| size::tell(rows, json, to),
        slow: message::is_slow,
        plot: Some(size::plot),
        notes: "",
    },
    Bench {
        name: throughput::BENCH,
        about: "one-way messages by their size, optimistic and conservative, beside bare rings",
        list: throughput::list,
        subjects: throughput::subjects,
        serve: |cpus, scratch| {
            pair::serve(cpus, |control, ground| throughput::server(control, ground, scratch))
        },
        full: schedule(8, 40_000),
        quick: schedule(3, 5_000),
        on_demand: true,
        tell: |rows, _, json, to| throughput::tell(rows, json, to),
        slow: message::is_slow,
        plot: Some(throughput::plot),
        notes: "",
    },
    Bench {
        name: contract::BENCH,
        about: "what an upcall costs, and what it is worth to programs that compute",
        list: contract::list,
        subjects: contract::subjects,
        serve: |cpus, scratch| pair::serve(cpus, |control, _| contract::server(control, scratch)),
        full: schedule(12, 30_000),
        quick: schedule(6, 8_000),
        on_demand: true,
        tell: |rows, _, json, to| contract::tell(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: tasks::BENCH,
        about: "what tasks cost: to begin, to make way, to wait for each other",
        list: tasks::list,
        subjects: tasks::subjects,
        serve: |cpus, _| pair::serve(cpus, |_, _| Ok(tasks::Nobody)),
        full: schedule(6, 20_000),
        quick: schedule(2, 3_000),
        on_demand: true,
        tell: |rows, _, json, to| tasks::tell(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: "",
    },
    Bench {
        name: execution::BENCH,
        about: "handlers as active messages, optimistically, as tasks, and as it pays",
        list: execution::list,
        subjects: execution::subjects,
        serve: |cpus, scratch| pair::serve(cpus, |control, _| execution::server(control, scratch)),
        full: schedule(6, 40_000),
        quick: schedule(2, 8_000),
        on_demand: true,
        tell: |rows, _, json, to| execution::tell(rows, json, to),
        slow: |_| false,
        plot: None,
        notes: report::NOTES,
    },
    Bench {
        name: arguments::BENCH,
        about: "calls of nothing by the size of their arguments, by execution, and read in place",
        list: arguments::list,
        subjects: arguments::subjects,
        serve: |cpus, scratch| pair::serve(cpus, |control, _| arguments::server(control, scratch)),
        full: schedule(6, 40_000),
        quick: schedule(2, 6_000),
        on_demand: true,
        tell: |rows, _, json, to| arguments::tell(rows, json, to),
        slow: |_| false,
        plot: Some(arguments::plot),
        notes: "",
    },
];

/// Whether a case is meant by one of the names; all are when there are none.
fn is_wanted(names: &[String], bench: &str, case: &str) -> bool {
    let begins = |path: &str, name: &str| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = format!("{bench}/{case}");
    names.is_empty() || names.iter().any(|name| begins(&path, name) || begins(case, name))
}

/// Refuses a name that means no case.
fn check_names(names: &[String]) -> Result<(), BenchError> {
    let mut all = Vec::new();
    for bench in BENCHES {
        all.extend((bench.list)().into_iter().map(|(case, _)| (bench.name, case)));
    }
    let means_something = |name: &String| {
        all.iter().any(|(bench, case)| is_wanted(std::slice::from_ref(name), bench, case))
    };
    match names.iter().find(|name| !means_something(name)) {
        Some(name) => Err(BenchError::Case { name: name.clone() }),
        None => Ok(()),
    }
}

/// `upbeat bench`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    match &arguments.other {
        Some(Other::Peers(arguments)) => return peers::run(arguments),
        Some(Other::Incast(arguments)) => return incast::run(arguments),
        None => {}
    }
    let names: Vec<String> =
        arguments.cases.iter().map(|name| name.trim_end_matches('/').to_owned()).collect();
    check_names(&names)?;
    if arguments.list {
        return list(&names).or_else(unless_closed);
    }
    let leaves_out = |bench: &Bench| {
        let wanted = |case: &str| !names.is_empty() && is_wanted(&names, bench.name, case);
        (bench.list)().iter().any(|(case, _)| wanted(case) && is_bet(bench.name, case))
    };
    if arguments.conservative && !BENCHES.iter().any(leaves_out) {
        return Err(BenchError::Conservative);
    }
    let mut picture = match &arguments.plot {
        Some(path) => Some(Picture::open(path, &names)?),
        None => None,
    };
    let allowed = pin::allowed()?;
    let cpus = Cpus::choose(arguments.pin, &allowed)?;
    let mut progress = Progress::new();
    let mut notes = "";
    for bench in BENCHES.iter().filter(|bench| !bench.on_demand || !names.is_empty()) {
        let in_general = arguments.quick && names.iter().all(|name| name == bench.name);
        let left_out = |case: &str| {
            let is_bet = arguments.conservative && is_bet(bench.name, case);
            is_bet || (in_general && (bench.slow)(case))
        };
        let wanted = |case: &str| is_wanted(&names, bench.name, case) && !left_out(case);
        if !(bench.list)().iter().any(|(case, _)| wanted(case)) {
            continue;
        }
        let rows = measure(bench, cpus, arguments.schedule(bench), &wanted, &mut progress)?;
        progress.end();
        print(bench, &rows, &wanted, arguments.json).or_else(unless_closed)?;
        if let (Some(picture), Some(plot)) = (&mut picture, bench.plot) {
            picture.write(&plot(&rows))?;
        }
        if !rows.is_empty() && !bench.notes.is_empty() {
            notes = bench.notes;
        }
    }
    if !arguments.json {
        write!(std::io::stdout(), "{notes}").or_else(unless_closed)?;
    }
    Ok(())
}

/// Whether a case of a benchmark that goes by flow control is sent optimistically.
fn is_bet(bench: &str, case: &str) -> bool {
    [size::BENCH, throughput::BENCH].contains(&bench)
        && ["/optimistic", "/in-place", "/kept"].iter().any(|bet| case.ends_with(bet))
}

/// The file that a picture goes into.
struct Picture {
    path: PathBuf,
    file: File,
}

impl Picture {
    /// Opens it before anything is measured, if that is what can be drawn.
    fn open(path: &Path, names: &[String]) -> Result<Picture, BenchError> {
        let is_meant = |bench: &&Bench| {
            let cases = (bench.list)();
            !names.is_empty() && cases.iter().any(|(case, _)| is_wanted(names, bench.name, case))
        };
        let meant: Vec<&Bench> = BENCHES.iter().filter(is_meant).collect();
        match meant[..] {
            [one] if one.plot.is_some() => {}
            _ => return Err(BenchError::Plot),
        }
        let file = File::create(path).map_err(BenchError::picture(path))?;
        Ok(Picture { path: path.to_owned(), file })
    }

    fn write(&mut self, text: &str) -> Result<(), BenchError> {
        self.file.write_all(text.as_bytes()).map_err(BenchError::picture(&self.path))
    }
}

/// A reader that has seen enough, like `head`, is no fault.
fn unless_closed(error: std::io::Error) -> Result<(), BenchError> {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(BenchError::Output { error }),
    }
}

fn measure(
    bench: &Bench,
    cpus: Cpus,
    schedule: Schedule,
    wanted: &dyn Fn(&str) -> bool,
    progress: &mut Progress,
) -> Result<Vec<Row>, BenchError> {
    let mut pair = Pair::start(bench.name, cpus)?;
    let subjects = (bench.subjects)(&pair, wanted)?;
    let schedule = schedule.for_part(subjects.len(), (bench.list)().len());
    let rows = rounds::alternate(bench.name, &mut pair, subjects, schedule, progress)?;
    pair.end()?;
    Ok(rows)
}

fn print(
    bench: &Bench,
    rows: &[Row],
    wanted: &dyn Fn(&str) -> bool,
    json: bool,
) -> std::io::Result<()> {
    let mut to = BufWriter::new(std::io::stdout().lock());
    (bench.tell)(rows, wanted, json, &mut to)?;
    to.flush()
}

/// Rows as they were measured.
fn tell_rows(rows: &[Row], json: bool, to: &mut Output) -> std::io::Result<()> {
    if json { report::json(rows, to) } else { report::table(rows, to) }
}

fn list(names: &[String]) -> std::io::Result<()> {
    let mut to = BufWriter::new(std::io::stdout().lock());
    for bench in BENCHES {
        let cases: Vec<(String, String)> = (bench.list)()
            .into_iter()
            .filter(|(case, _)| is_wanted(names, bench.name, case))
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

/// `upbeat bench-peer`.
pub(crate) fn run_peer(arguments: &PeerArguments) -> Result<(), BenchError> {
    if arguments.bench == yardstick::BENCH {
        return yardstick::serve(arguments.cpus.cpus());
    }
    let (cpus, scratch) = (arguments.cpus.cpus(), &arguments.scratch);
    if let Some(served) = incast::serve(&arguments.bench, cpus, scratch) {
        return served;
    }
    let bench = BENCHES.iter().find(|bench| bench.name == arguments.bench);
    let bench = bench.ok_or_else(|| BenchError::Case { name: arguments.bench.clone() })?;
    (bench.serve)(cpus, scratch)
}

#[cfg(test)]
mod tests {
    use super::{Arguments, BENCHES, Wanted, check_names, is_wanted};
    use clap::{Args, Command, FromArgMatches};
    use std::time::Duration;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        let command = Arguments::augment_args(Command::new("bench").no_binary_name(true));
        Arguments::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
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
        let [limits, ..] = BENCHES else { panic!("no benchmark") };
        assert_eq!(none.schedule(limits).total, limits.full.total);
        assert_eq!(all.schedule(limits).total, limits.quick.total);
        let brief = parse(&["--quick", "--seconds", "1"]).unwrap().schedule(limits);
        assert_eq!((brief.round, brief.total), (limits.quick.round, Duration::from_secs(1)));
        assert!(parse(&["--seconds", "0"]).is_err());
    }

    #[test]
    fn a_name_means_a_benchmark_a_case_or_its_first_words() {
        let wanted = |name| is_wanted(&names(&[name]), "limits", "line/paced/2");
        assert!(wanted("limits") && wanted("limits/line") && wanted("limits/line/paced/2"));
        assert!(wanted("line") && wanted("line/paced"));
        assert!(!wanted("lin") && !wanted("line/tight") && !wanted("paced") && !wanted("call"));
        assert!(is_wanted(&[], "limits", "line/paced/2"));
    }

    #[test]
    fn a_name_that_means_nothing_is_refused() {
        check_names(&names(&["limits", "tcp"])).unwrap();
        let refused = check_names(&names(&["limits", "tpc"])).unwrap_err().to_string();
        assert!(refused.contains("`tpc`") && refused.contains("--list"), "{refused}");
    }

    #[test]
    fn quick_is_quick() {
        let all = BENCHES.iter().filter(|bench| !bench.on_demand);
        let total: Duration = all.map(|bench| bench.quick.total).sum();
        assert!(total <= Duration::from_secs(25), "the rest of 30 s is for starting and ending");
    }
}
