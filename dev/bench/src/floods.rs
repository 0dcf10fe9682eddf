//! `bench floods`: strangers that connect to a node in great numbers, and honest clients that connect meanwhile.
//!
//! The node is in a process of its own, or on a thread of its own where it is reached within the process. In each case
//! strangers of one kind come at one rate over one carrier; they say nothing, a part of a first message, a whole one and
//! nothing behind it, a certificate of another authority in a whole handshake, something else, or end their side at once. Meanwhile an
//! honest client connects and calls again and again, and a client that was there before calls. After the strangers are
//! gone, the honest client connects once more. The node's processor time is read before and after.

mod desk;
mod clients;
mod strangers;
mod outcome;

use clap::Args;
use clients::{Honest, Old};
use desk::Desk;
use outcome::{Outcome, tell};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use strangers::Crowd;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::pin::{self, Cpus, Wanted};
use upbeat_cli::bench::progress::Progress;
use upbeat_core::limits::ACCEPTS_PER_SECOND;

/// The arguments of `bench floods`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    /// Only the cases with these names or beginnings, such as `tls` or `tcp/silent`
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// How long the strangers of a case come, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    time: u64,
    /// Only the greatest rates of the promise, for 0.7 seconds each: half a minute in all
    #[arg(long, conflicts_with = "time")]
    quick: bool,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// The CPUs of the strangers and of the node [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pin: Option<Wanted>,
}

const HELP: &str = "\
Strangers come over each carrier, of each kind, at 100, 1,000 and 3,000 a second and 3,000 at once. The
table says how long honest clients took to connect and call meanwhile, how long the next one took at
once after the strangers had gone, the longest call of a session that was there before, and the
processor time of the node that one stranger costs. The node promises two seconds, unless more callers
send a whole first message (`greeting`, `foreign`) than the 1,000 a second that it answers.

Examples:
  bench floods --quick          the greatest rates, half a minute
  bench floods tls/silent       some cases
  bench floods --json           everything, for a program";

/// The carriers over which strangers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Memory,
    Stream,
    Tcp,
    Tls,
}

impl Carrier {
    const ALL: [Carrier; 4] = [Carrier::Memory, Carrier::Stream, Carrier::Tcp, Carrier::Tls];

    fn word(self) -> &'static str {
        match self {
            Carrier::Memory => "memory",
            Carrier::Stream => "stream",
            Carrier::Tcp => "tcp",
            Carrier::Tls => "tls",
        }
    }
}

/// The strangers' behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Strangers connect and say nothing.
    Silent,
    /// Strangers send the beginning of a first message.
    Partial,
    /// Strangers send a client's first message, and do not go on.
    Greeting,
    /// Strangers make a whole handshake under TLS, with a certificate of another authority.
    Foreign,
    /// Strangers send bytes that are no first message.
    Garbage,
    /// Strangers end their side of the connection at once.
    HalfClosed,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Silent,
        Kind::Partial,
        Kind::Greeting,
        Kind::Foreign,
        Kind::Garbage,
        Kind::HalfClosed,
    ];

    fn word(self) -> &'static str {
        match self {
            Kind::Silent => "silent",
            Kind::Partial => "partial",
            Kind::Greeting => "greeting",
            Kind::Foreign => "foreign",
            Kind::Garbage => "garbage",
            Kind::HalfClosed => "half-closed",
        }
    }
}

/// How strangers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// So many a second.
    PerSecond(u32),
    /// So many at once.
    AtOnce(u32),
}

impl Rate {
    const ALL: [Rate; 4] =
        [Rate::PerSecond(100), Rate::PerSecond(1_000), Rate::PerSecond(3_000), Rate::AtOnce(3_000)];

    fn word(self) -> String {
        match self {
            Rate::PerSecond(count) => count.to_string(),
            Rate::AtOnce(count) => format!("{count}-at-once"),
        }
    }

    /// Returns whether strangers of this kind come at no greater rate for which the node makes its promise.
    fn is_great_for(self, kind: Kind) -> bool {
        match kind {
            Kind::Greeting | Kind::Foreign => self == Rate::PerSecond(ACCEPTS_PER_SECOND),
            _ => matches!(self, Rate::PerSecond(3_000) | Rate::AtOnce(_)),
        }
    }
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) carrier: Carrier,
    pub(crate) kind: Kind,
    pub(crate) rate: Rate,
}

impl Case {
    fn name(self) -> String {
        format!("{}/{}/{}", self.carrier.word(), self.kind.word(), self.rate.word())
    }
}

/// Returns the cases. A stranger within the process cannot send less than a whole request. A process of the same host
/// that can send a whole first message is one of the same user.
fn cases(arguments: &Arguments) -> Vec<Case> {
    let all = Carrier::ALL.into_iter().flat_map(|carrier| {
        let kinds = Kind::ALL.into_iter();
        kinds.flat_map(move |kind| Rate::ALL.map(|rate| Case { carrier, kind, rate }))
    });
    let is_wanted = |case: &Case| {
        let exists = match (case.carrier, case.kind) {
            (_, Kind::Silent | Kind::HalfClosed) => true,
            (carrier, Kind::Greeting) => matches!(carrier, Carrier::Tcp | Carrier::Tls),
            (carrier, Kind::Foreign) => carrier == Carrier::Tls,
            (carrier, Kind::Partial | Kind::Garbage) => carrier != Carrier::Memory,
        };
        let name = case.name();
        exists
            && (!arguments.quick || case.rate.is_great_for(case.kind))
            && (arguments.cases.is_empty()
                || arguments.cases.iter().any(|wanted| name.starts_with(wanted.as_str())))
    };
    all.filter(is_wanted).collect()
}

/// The time for which the cost of honest clients alone is measured.
const QUIET: Duration = Duration::from_millis(400);

/// Measures one case.
fn play(case: Case, time: Duration, cpus: Cpus) -> Result<Outcome, BenchError> {
    let desk = Desk::start(case.carrier, cpus)?;
    let door = desk.door();
    let old = Old::start(&door)?;
    let quiet_before = desk.cpu_ns()?;
    let quiet = Honest::start(&door);
    std::thread::sleep(QUIET.min(time));
    let quiet = quiet.stop();
    let honest_ns = (desk.cpu_ns()? - quiet_before) / (quiet.took.len() as u64).max(1);

    let (before, began) = (desk.cpu_ns()?, Instant::now());
    let honest = Honest::start(&door);
    let crowd = Crowd::start(&door, case)?;
    std::thread::sleep(time);
    let crowd = crowd.stop()?;
    // The strangers have gone.
    let after = clients::connect(&door);
    let honest = honest.stop();
    let (cpu_ns, elapsed) = (desk.cpu_ns()? - before, began.elapsed());
    let old = old.stop();
    desk.end()?;
    let acts = [&honest, &after, &old];
    Ok(Outcome::new(case.name(), elapsed, crowd, acts, [cpu_ns, honest_ns]))
}

/// Runs `bench floods`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let cpus = Cpus::choose(arguments.pin, &pin::allowed()?)?;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(BenchError::system("raising the limit of descriptors"))?;
    let time = Duration::from_millis(if arguments.quick { 700 } else { arguments.time });
    let cases = cases(arguments);
    let mut progress = Progress::new();
    let mut outcomes = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let part = number as f64 / cases.len() as f64;
        progress.show("floods", part, &case.name(), format_args!("{number} of {}", cases.len()));
        outcomes.push(play(*case, time, cpus)?);
    }
    progress.end();
    let mut to = BufWriter::new(std::io::stdout().lock());
    tell(&outcomes, arguments.json, &mut to)
        .and_then(|()| to.flush())
        .map_err(|error| BenchError::Output { error })
}

/// Runs the node's process, if `name` is its name.
pub(crate) fn serve(name: &str, cpus: Cpus, scratch: &Path) -> Option<Result<(), BenchError>> {
    desk::carrier_of(name).map(|carrier| desk::serve(carrier, cpus, scratch))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, cases};
    use clap::Parser;

    #[derive(Parser)]
    struct Floods {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn names(words: &[&str]) -> Vec<String> {
        let words = ["floods"].iter().chain(words);
        let arguments = Floods::try_parse_from(words).unwrap().arguments;
        cases(&arguments).into_iter().map(|case| case.name()).collect()
    }

    #[test]
    fn cases_are_chosen_by_their_beginnings() {
        assert_eq!(names(&[]).len(), 4 * (6 + 5 + 4 + 2));
        assert_eq!(names(&["--quick"]).len(), 2 * (4 + 4 + 4 + 2) + 3);
        assert_eq!(names(&["--quick", "tls/greeting"]), ["tls/greeting/1000"]);
        assert_eq!(names(&["tls/silent"]).len(), 4);
        assert_eq!(names(&["tcp/partial/3000-at-once"]), ["tcp/partial/3000-at-once"]);
        assert!(names(&["memory/garbage"]).is_empty());
    }
}
