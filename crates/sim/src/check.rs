//! Programs under many seeds.

use crate::happened::{FaultNumbers, Happened};
use crate::outcome::{Ended, Outcome};
use crate::real::Real;
use crate::real::processes::tell;
use crate::schedule::{Log, TOLD};
use crate::sim::{Sim, new_place};
use crate::world::run_logged;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use upbeat_environment::chance;
use upbeat_environment::network::name_hosts;

/// The seeds that run twice, to see whether the program follows from its seed. One that fails does as well.
const TWICE: u64 = 2;
/// The real time for which shorter histories of a failure are looked for.
const SHORTENING: Duration = Duration::from_secs(60);

/// Runs a program in a world for each of so many seeds. When the program returns, all its threads
/// and processes end.
///
/// With `UPBEAT_SIM=real` the program runs once, and its processes are real ones: the guide's page on tests says how.
///
/// `UPBEAT_SIM_SEED` names the only seed to run, and `UPBEAT_SIM_SEEDS` another number of them. A seed that fails runs again
/// without some of its [faults](Sim::faults), until none can be left out: the message has those that are left, the last
/// calls and one-way messages, and the command with which they happen again.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use upbeat_sim::check;
///
/// /// A counter.
/// #[upbeat::service]
/// trait Counter {
///     /// Returns the sum.
///     async fn add(&self, a: u64, b: u64) -> u64;
/// }
///
/// struct Adds;
///
/// impl Counter for Adds {
///     async fn add(&self, a: u64, b: u64) -> u64 {
///         a + b
///     }
/// }
///
/// check(20, |sim| {
///     sim.start("counter", |sim| {
///         let node = sim.node("counter").build().unwrap();
///         node.serve(CounterServer::new(Adds)).unwrap();
///         node.block_on(std::future::pending::<()>());
///         Ok::<_, Infallible>(())
///     });
///     let client = sim.node("client").build().unwrap();
///     client.block_on(async {
///         let soon = Duration::from_secs(5);
///         let counter: CounterClient = client.connect("counter").wait_for(soon).await.unwrap();
///         assert_eq!(counter.add(1, 2).await, Ok(3));
///     });
/// });
/// ```
///
/// # Panics
/// If the program panics under a seed, if nothing can happen any more in it, if two runs of a seed differ, or if something
/// that is to happen [sometimes](Sim::sometimes) never does. The message says how to repeat the run.
pub fn check(seeds: u64, program: impl Fn(&Sim) + Sync) {
    let number = |text: &str| text.parse::<u64>().ok();
    let only = setting("UPBEAT_SIM_SEED", number);
    if setting("UPBEAT_SIM", |text| (text == "real").then_some(())).is_some() {
        return check_processes(only, &program);
    }
    let count = setting("UPBEAT_SIM_SEEDS", number).unwrap_or(seeds);
    let kept =
        only.and_then(|_| setting("UPBEAT_SIM_FAULTS", |text| text.parse::<FaultNumbers>().ok()));
    let seeds = only.map_or(0..count, |seed| seed..seed.saturating_add(1));
    let mut reached = BTreeMap::new();
    for (number, seed) in (0..).zip(seeds) {
        let run = Run::of(seed, kept.as_ref(), u64::MAX, Log::default(), &program);
        let has_failed = run.outcome.ended.is_err();
        if kept.is_none() && (has_failed || number < TWICE) {
            let again = Run::of(seed, None, u64::MAX, Log::default(), &program);
            if let Some(difference) = run.log.difference(&again.log) {
                panic!(
                    "{run}\ntwo runs of seed {seed} differ, so a failure could not be repeated: {difference}\n\
                     the program has time, chance or threads that are not those of the world: the guide's page on tests has a list"
                );
            }
        }
        if has_failed {
            panic!("{}", run.report(kept.is_some(), &program));
        }
        for (what, times) in run.reached {
            *reached.entry(what).or_insert(0) += times;
        }
    }
    let never = |(what, times): (&'static str, u64)| (times == 0).then_some(what);
    let never: Vec<_> = reached.into_iter().filter_map(never).collect();
    assert!(only.is_some() || never.is_empty(), "under none of {count} seeds: {never:?}");
}

/// Runs a program once, with real processes.
fn check_processes<P: Fn(&Sim) + Sync>(seed: Option<u64>, program: &P) {
    /// Held while a test runs: the names of its hosts are those of the process.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = path_of::<P>();
    let seed = seed.unwrap_or_else(|| {
        let drawn = chance::random().expect("the system has random numbers");
        u64::from(u16::from_le_bytes(drawn))
    });
    let Some(real) = Real::of_test(&path, new_place()) else { return };
    name_hosts(Some(Box::new(real.names())));
    let sim = Sim::of_processes(seed, real);
    let real = sim.real().expect("it has just been given");
    let Some(processes) = real.processes() else {
        program(&sim);
        real.never_begins();
    };
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| processes.supervise());
        let ended = catch_unwind(AssertUnwindSafe(|| program(&sim)));
        processes.ends();
        ended
    });
    let passed = sim.time();
    name_hosts(None);
    let (happened, reached) = sim.clear();
    let left_out = processes.left_out();
    if !left_out.is_empty() {
        tell(&format!("{path}, with real processes: left out are {}", left_out.join(", ")));
    }
    for (what, _) in reached.iter().filter(|(_, times)| **times == 0) {
        tell(&format!("{path}, with real processes: not in this run: {what}"));
    }
    let panic = ended.err().map(|panic| Ended::Panicked(panic).to_string());
    let mut texts: Vec<_> = [processes.failure(), panic].into_iter().flatten().collect();
    texts.dedup();
    if !texts.is_empty() {
        let mut text = format!("with real processes, after {passed:.1?}: {}", texts.join("\n"));
        tell_last(&mut text, 0, &happened);
        let setting = format!("UPBEAT_SIM=real UPBEAT_SIM_SEED={seed}");
        panic!("{text}\nto run it again, with faults at such times: {}", command(&setting, &path));
    }
}

/// Runs a program in the world of one seed, as [`check`] does, and returns its end.
///
/// ```
/// use std::time::Duration;
///
/// let world = upbeat_sim::play(7, |sim| sim.pause(Duration::from_secs(1)));
/// assert!(world.ended.is_ok() && world.passed >= Duration::from_secs(1));
/// ```
pub fn play(seed: u64, program: impl Fn(&Sim) + Sync) -> Outcome<()> {
    Run::of(seed, None, u64::MAX, Log::default(), &program).outcome
}

/// A run of the program.
struct Run {
    seed: u64,
    outcome: Outcome<()>,
    log: Log,
    /// The faults that have happened.
    happened: Vec<Happened>,
    reached: BTreeMap<&'static str, u64>,
}

impl Run {
    /// Runs the program once, with these faults alone, or with all, for so many steps at most.
    fn of(
        seed: u64,
        kept: Option<&FaultNumbers>,
        steps_max: u64,
        log: Log,
        program: &(impl Fn(&Sim) + Sync),
    ) -> Run {
        let sim = Sim::new(seed, kept.cloned());
        let (outcome, log) = run_logged(seed, steps_max, log, || {
            program(&sim);
            sim.ends();
        });
        let (happened, reached) = sim.clear();
        Run { seed, outcome, log, happened, reached }
    }

    /// Returns the most steps of a run that is to fail as this one has: its program may wait for a fault in a loop.
    fn steps_max(&self) -> u64 {
        self.outcome.steps.saturating_mul(10).saturating_add(10_000)
    }

    /// Leaves out faults of a run that has failed, many at once and then one at a time, until it fails with no fewer.
    fn shortened(mut self, program: &(impl Fn(&Sim) + Sync)) -> Run {
        let began = Instant::now();
        let kind = |run: &Run| run.outcome.ended.as_ref().err().map(discriminant);
        let steps_max = self.steps_max();
        let mut many = self.happened.len();
        while many > 0 {
            let (mut at, before) = (0, self.happened.len());
            while at < self.happened.len() && began.elapsed() < SHORTENING {
                let is_left = |number: usize| number < at || number >= at + many;
                let numbers = self.happened.iter().map(|fault| fault.number).enumerate();
                let kept = numbers.filter(|(number, _)| is_left(*number)).map(|(_, fault)| fault);
                let kept = FaultNumbers(kept.collect());
                let tried = Run::of(self.seed, Some(&kept), steps_max, Log::default(), program);
                if kind(&tried) == kind(&self) && tried.outcome.steps < steps_max {
                    self = tried;
                } else {
                    at += many;
                }
            }
            let is_shorter = self.happened.len() < before && began.elapsed() < SHORTENING;
            many = if is_shorter { many.min(self.happened.len()) } else { many / 2 };
        }
        self
    }

    /// Returns how the run has failed, the faults that it needs for that, its last messages, and the command that repeats
    /// it.
    fn report<P: Fn(&Sim) + Sync>(self, is_shortest: bool, program: &P) -> String {
        let all = self.happened.len();
        let shortest = if is_shortest { self } else { self.shortened(program) };
        let mut text = shortest.to_string();
        let mut setting = format!("UPBEAT_SIM_SEED={}", shortest.seed);
        if all > 0 {
            let left = shortest.happened.len();
            let _ = write!(text, "\nit needs {left} of its {all} faults:");
            tell_last(&mut text, 0, &shortest.happened);
            let _ = write!(setting, " UPBEAT_SIM_FAULTS={}", shortest.numbers());
        }
        shortest.tell_messages(&mut text, program);
        text + &format!("\nto repeat it: {}", command(&setting, &path_of::<P>()))
    }

    /// Returns the numbers of the faults that have happened.
    fn numbers(&self) -> FaultNumbers {
        FaultNumbers(self.happened.iter().map(|fault| fault.number).collect())
    }

    /// Runs the program once more, and writes the last messages. Their samples take time and frames, so it may end otherwise.
    fn tell_messages(&self, text: &mut String, program: &(impl Fn(&Sim) + Sync)) {
        let (kept, log) = (self.numbers(), Log::of_messages());
        let run = Run::of(self.seed, Some(&kept), self.steps_max(), log, program);
        let end = |run: &Run| run.outcome.ended.as_ref().map_err(Ended::to_string).err();
        if end(&run) != end(self) {
            let _ = write!(text, "\nit ends otherwise where each message is sampled: {run}");
            return;
        }
        let mut messages = run.log.messages.unwrap_or_default();
        let last = messages.len().saturating_sub(TOLD);
        messages[last..].sort_by_key(|(began_ns, _)| *began_ns);
        let told = |(began_ns, message): (u64, Box<dyn Display + Send>)| {
            let began = Duration::from_nanos(began_ns);
            format!("after {began:.1?}, {message}").replace('\n', "\n  ")
        };
        let messages: Vec<_> = messages.into_iter().map(told).collect();
        if !messages.is_empty() {
            text.push_str("\nits last messages:");
            tell_last(text, run.log.earlier, &messages);
        }
    }
}

impl fmt::Display for Run {
    /// Says how the run has ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { ended, passed, steps, .. } = &self.outcome;
        write!(f, "seed {}, after {passed:.1?} and {steps} steps: ", self.seed)?;
        match ended {
            Ok(()) => f.write_str("it has not failed"),
            Err(ended) => ended.fmt(f),
        }
    }
}

/// Returns the name of the test that the calling thread runs, as its binary knows it.
fn path_of<P>() -> String {
    // The test harness gives the thread of a test its name, unless it runs one test at a time.
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map_or_else(
        || {
            let program = std::any::type_name::<P>();
            let inside = program.split_once("::").map_or(program, |(_, inside)| inside);
            inside.split("::{{closure}}").next().unwrap_or(inside).to_owned()
        },
        str::to_owned,
    )
}

/// Returns the command that runs a test with settings.
fn command(settings: &str, path: &str) -> String {
    let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
    let flags = if cfg!(upbeat_mutants) { "RUSTFLAGS=\"--cfg upbeat_mutants\" " } else { "" };
    format!("{flags}{settings} cargo test{} {path}", package.unwrap_or_default())
}

/// Writes the last faults or messages, and how many there were before them.
fn tell_last(text: &mut String, before: usize, all: &[impl Display]) {
    let earlier = all.len().saturating_sub(TOLD);
    if before + earlier > 0 {
        let _ = write!(text, "\n  {} earlier ones", before + earlier);
    }
    for one in &all[earlier..] {
        let _ = write!(text, "\n  {one}");
    }
}

/// Returns the value of an environment variable, if there is one.
fn setting<T>(name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(read(&text).unwrap_or_else(|| panic!("{name} is `{text}`, which cannot be read")))
}
