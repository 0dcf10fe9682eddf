//! `bench incast`: many senders to one slow receiver, far above its capacity.
//!
//! Four processes: this one measures, one receives, one has all senders, and one answers a client
//! that has nothing to do with them. First the senders send for a while, during which the
//! receiver's throughput and memory are observed; then quiet rounds and rounds with the crowd
//! alternate, in which two well-behaved clients time their calls: that of the fourth process, and
//! one of the receiver. Messages are numbered, and at the end all of them must have arrived.

mod outcome;
mod desk;
mod crowd;
mod clients;

use clap::Args;
use clients::Clients;
use outcome::{Alternated, Messages, Outcome};
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use upbeat_cli::bench::control::{Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::{COUNT_LINE, Ground};
use upbeat_cli::bench::memory;
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::pin::{self, Cpus, Wanted};
use upbeat_cli::bench::progress::Progress;
use upbeat_cli::bench::timing::Work;

/// The names under which the other processes are started.
const DESK: &str = "incast-desk";
const CROWD: &str = "incast-crowd";
const NEIGHBOUR: &str = "incast-neighbour";

/// Messages a second that the receiver lets through.
const CAPACITY: u64 = 2_000;
/// The offered load, as a multiple of that capacity.
const LOAD: u64 = 10;
/// Bytes of a message: the paper's example, which fits no slot.
const BYTES: usize = 500;
/// Open calls of a sender; with more, the sender waits.
const OPEN_CALLS: usize = 1_000;
/// Bytes of requests that the receiver holds: this budget is used up before a client of a crowded round calls.
const BUDGET: u64 = 4 << 20;

/// How long no message may arrive before the missing ones count as lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the receiver's memory is read.
const LOOK: Duration = Duration::from_secs(5);
/// How long a client times its calls in a round.
const WINDOW: Duration = Duration::from_millis(150);
/// How long the crowd sends before those rounds.
const CROWDED: Duration = Duration::from_millis(400);

/// The arguments of `bench incast`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    /// How long the senders keep on, for each kind of message
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many senders there are
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    senders: u32,
    /// End within some 15 seconds: 2 for each kind, and fewer rounds
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// The CPUs of the measuring process and of the one that answers it [default: the first two allowed]
    #[arg(long, value_name = "A,B")]
    pin: Option<Wanted>,
}

const HELP: &str = "\
Senders offer ten times what one receiver lets through, once as one-way messages and once as calls,
whose handlers wait for their turn and take no CPU. Said are: what got through of what could, what
was lost (nothing may be), whether each sender's messages came in their order, how the memory of the
receiver's process grew, and what two well-behaved clients notice: one of the same receiver, and a
pair of nodes elsewhere on the host.

Examples:
  bench incast --quick          both kinds in some 15 seconds
  bench incast --seconds 300    long enough to see memory grow
  bench incast --json           for a program";

/// The commands of this process to the others, as the name of a case.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Command {
    /// To the senders: connect to the receiver, whose socket is in this directory.
    Connect { senders: u32, directory: PathBuf },
    /// To the senders: send so many a second each.
    Go { calls: bool, per_second: u64 },
    /// To the senders: send no more.
    Stop,
    /// To the receiver: let all messages through at once, or no longer.
    Open(bool),
    /// To both: report the counts.
    Tell,
}

impl Command {
    fn read(job: &str) -> Result<Command, BenchError> {
        let unknown = |error| BenchError::protocol(format!("`{job}` is no command: {error}"));
        serde_json::from_str(job).map_err(unknown)
    }

    fn job(&self) -> Result<Job, BenchError> {
        let unwritten = |error| BenchError::protocol(format!("{self:?} has no text: {error}"));
        serde_json::to_string(self).map(Job::Case).map_err(unwritten)
    }
}

/// Writes the counts of this process for the first process.
fn tell_counts(ground: &Ground, counts: &[&AtomicU64]) {
    for (at, count) in counts.iter().enumerate() {
        ground.ours.publish(COUNT_LINE + at, count.load(Relaxed));
    }
}

/// Returns the resident memory of a process, in kibibytes.
fn resident(pid: u32) -> Option<f64> {
    memory::line(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Another process, which takes commands.
struct Other {
    pair: Pair,
}

impl Other {
    fn start(name: &str, cpus: Cpus) -> Result<Other, BenchError> {
        let pair = Pair::start(name, cpus)?;
        let Done = pair.control().receive()?;
        Ok(Other { pair })
    }

    /// Sends a command, and returns the counts of the process.
    fn tell<const N: usize>(&mut self, command: &Command) -> Result<[u64; N], BenchError> {
        self.pair.round(command.job()?, Work::of(1, 1), |_| Ok(()))?;
        Ok(std::array::from_fn(|at| self.pair.ground.theirs.load(COUNT_LINE + at)))
    }
}

/// The counts of the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Received {
    arrived: u64,
    done: u64,
    misordered: u64,
}

/// The counts of the senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    sent: u64,
    offered: u64,
    failed: u64,
    busy: u64,
}

/// All processes.
struct Scene {
    desk: Other,
    crowd: Other,
    clients: Clients,
    senders: u32,
    progress: Progress,
}

impl Scene {
    fn set(senders: u32, cpus: Cpus) -> Result<Scene, BenchError> {
        let desk = Other::start(DESK, cpus)?;
        let mut crowd = Other::start(CROWD, cpus)?;
        let directory = desk.pair.scratch().to_owned();
        let _: [u64; 0] = crowd.tell(&Command::Connect { senders, directory })?;
        let neighbour = Pair::start(NEIGHBOUR, cpus)?;
        let clients = Clients::new(neighbour, desk.pair.scratch())?;
        Ok(Scene { desk, crowd, clients, senders, progress: Progress::new() })
    }

    fn received(&mut self, command: &Command) -> Result<Received, BenchError> {
        let [arrived, done, misordered] = self.desk.tell(command)?;
        Ok(Received { arrived, done, misordered })
    }

    fn sent(&mut self, command: &Command) -> Result<Sent, BenchError> {
        let [sent, offered, failed, busy] = self.crowd.tell(command)?;
        Ok(Sent { sent, offered, failed, busy })
    }

    fn go(&mut self, calls: bool) -> Result<(), BenchError> {
        let per_second = (CAPACITY * LOAD / u64::from(self.senders)).max(1);
        self.sent(&Command::Go { calls, per_second }).map(|_| ())
    }

    /// Stops the senders, and waits until all messages under way have arrived.
    fn settle(&mut self) -> Result<(Sent, Received), BenchError> {
        self.sent(&Command::Stop)?;
        self.received(&Command::Open(true))?;
        let mut last = (0, Instant::now());
        loop {
            let sent = self.sent(&Command::Tell)?;
            let received = self.received(&Command::Tell)?;
            let is_over = sent.busy == 0 && received.done >= sent.sent;
            if received.done != last.0 {
                last = (received.done, Instant::now());
            }
            if is_over || last.1.elapsed() > PATIENCE {
                self.received(&Command::Open(false))?;
                return Ok((sent, received));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Measures one kind of message, from beginning to end.
    fn play(&mut self, calls: bool, time: Duration, rounds: u32) -> Result<Outcome, BenchError> {
        let case = if calls { "call" } else { "oneway" };
        let (sent_before, before) = self.settle()?;
        self.go(calls)?;
        let (start, mut memory) = (Instant::now(), Vec::new());
        let every = LOOK.min(time / 4);
        let pid = self.desk.pair.peer_pid();
        while start.elapsed() < time {
            let next = every * (memory.len() as u32 + 1);
            while start.elapsed() < next.min(time) {
                let part = start.elapsed().as_secs_f64() / time.as_secs_f64();
                let kib = resident(pid).unwrap_or(0.0);
                self.progress.show("incast", 0.7 * part, case, format_args!("{kib:.0} KiB"));
                std::thread::sleep(Duration::from_millis(50));
            }
            memory.extend(resident(pid));
        }
        let during = self.received(&Command::Tell)?;
        let elapsed = start.elapsed();
        let (sent, _) = self.settle()?;
        let (mut quiet, mut crowded) = (Alternated::default(), Alternated::default());
        for round in 0..rounds {
            let part = 0.7 + 0.3 * f64::from(round) / f64::from(rounds);
            self.progress.show("incast", part, case, "clients");
            self.clients.time(WINDOW, &mut quiet)?;
            self.go(calls)?;
            std::thread::sleep(CROWDED);
            self.clients.time(WINDOW, &mut crowded)?;
            self.settle()?;
        }
        let (last_sent, last) = self.settle()?;
        let rate = |count: u64| count as f64 / elapsed.as_secs_f64() / CAPACITY as f64;
        self.progress.end();
        Ok(Outcome {
            bench: "incast",
            case,
            senders: self.senders,
            seconds: elapsed.as_secs_f64(),
            bytes: BYTES,
            capacity_per_second: CAPACITY,
            budget_bytes: BUDGET,
            offered_ratio: rate(sent.offered - sent_before.offered),
            goodput_ratio: rate(during.done - before.done),
            messages: Messages {
                sent: last_sent.sent - sent_before.sent,
                lost: last_sent.sent.saturating_sub(last.arrived),
                misordered: last.misordered - before.misordered,
                failed: last_sent.failed - sent_before.failed,
            },
            rss_kib: memory,
            rss_every_seconds: every.as_secs_f64(),
            neighbour: Alternated::neighbour(&quiet, &crowded),
            client: Alternated::client(&quiet, &crowded),
        })
    }

    fn end(self) -> Result<(), BenchError> {
        self.clients.end()?;
        self.crowd.pair.end()?;
        self.desk.pair.end()
    }
}

/// Runs `bench incast`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let cpus = Cpus::choose(arguments.pin, &pin::allowed()?)?;
    let (seconds, rounds) = if arguments.quick { (2, 3) } else { (arguments.seconds, 12) };
    let mut scene = Scene::set(arguments.senders, cpus)?;
    let mut outcomes = Vec::new();
    for calls in [false, true] {
        outcomes.push(scene.play(calls, Duration::from_secs(seconds), rounds)?);
    }
    scene.end()?;
    let mut to = BufWriter::new(std::io::stdout().lock());
    outcome::tell(&outcomes, arguments.json, &mut to)
        .and_then(|()| to.flush())
        .map_err(|error| BenchError::Output { error })
}

/// Runs one of the other processes, if `name` is its name.
pub(crate) fn serve(name: &str, cpus: Cpus, scratch: &Path) -> Option<Result<(), BenchError>> {
    match name {
        DESK => Some(desk::serve(cpus, scratch)),
        CROWD => Some(crowd::serve(cpus)),
        NEIGHBOUR => Some(clients::serve(cpus, scratch)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Job, resident};

    #[test]
    fn commands_are_read_as_they_were_meant() {
        let directory = "/tmp/a \"b\"".into();
        for command in [
            Command::Connect { senders: 16, directory },
            Command::Go { calls: true, per_second: 1250 },
            Command::Stop,
            Command::Open(true),
            Command::Tell,
        ] {
            let Job::Case(text) = command.job().unwrap() else { panic!("no case") };
            assert_eq!(Command::read(&text).unwrap(), command);
        }
        assert!(Command::read("stop").is_err());
    }

    #[test]
    fn this_process_is_resident() {
        assert!(resident(std::process::id()).is_some_and(|kib| kib > 100.0));
        assert_eq!(resident(u32::MAX), None);
    }
}
