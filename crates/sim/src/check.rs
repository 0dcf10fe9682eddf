//! Programs under many seeds.

use crate::happened::{FaultNumber, Happened};
use crate::outcome::Outcome;
use crate::sim::Sim;
use crate::world::{Log, run_logged};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::mem::discriminant;
use std::time::{Duration, Instant};

/// The seeds that run twice, to see whether the program follows from its seed. One that fails does as well.
const TWICE: u64 = 2;
/// The real time for which shorter histories of a failure are looked for.
const SHORTENING: Duration = Duration::from_secs(60);
/// The value of `UPBEAT_SIM_FAULTS` with which no fault happens.
const NO_FAULTS: &str = "none";

/// Runs a program in a world for each of so many seeds. When the program returns, all its threads
/// and processes end.
///
/// `UPBEAT_SIM_SEED` names the only seed to run, and `UPBEAT_SIM_SEEDS` another number of them. A seed that fails runs again
/// without some of its [faults](Sim::faults), until none can be left out: the message has those that are left, and
/// the command with which they happen again.
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
    let count = setting("UPBEAT_SIM_SEEDS", number).unwrap_or(seeds);
    let kept = only.and_then(|_| setting("UPBEAT_SIM_FAULTS", faults_of));
    let seeds = only.map_or(0..count, |seed| seed..seed.saturating_add(1));
    let mut reached = BTreeMap::new();
    for (number, seed) in (0..).zip(seeds) {
        let run = Run::of(seed, kept.as_ref(), u64::MAX, &program);
        let has_failed = run.outcome.ended.is_err();
        if kept.is_none() && (has_failed || number < TWICE) {
            let again = Run::of(seed, None, u64::MAX, &program);
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

/// Runs a program in the world of one seed, as [`check`] does, and returns its end.
///
/// ```
/// use std::time::Duration;
///
/// let world = upbeat_sim::play(7, |sim| sim.pause(Duration::from_secs(1)));
/// assert!(world.ended.is_ok() && world.passed >= Duration::from_secs(1));
/// ```
pub fn play(seed: u64, program: impl Fn(&Sim) + Sync) -> Outcome<()> {
    Run::of(seed, None, u64::MAX, &program).outcome
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
        kept: Option<&BTreeSet<FaultNumber>>,
        steps_max: u64,
        program: &(impl Fn(&Sim) + Sync),
    ) -> Run {
        let sim = Sim::new(seed, kept.cloned());
        let (outcome, log) = run_logged(seed, steps_max, || {
            program(&sim);
            sim.ends();
        });
        let (happened, reached) = sim.clear();
        Run { seed, outcome, log, happened, reached }
    }

    /// Leaves out faults of a run that has failed, many at once and then one at a time, until it fails with no fewer.
    fn shortened(mut self, program: &(impl Fn(&Sim) + Sync)) -> Run {
        let began = Instant::now();
        let kind = |run: &Run| run.outcome.ended.as_ref().err().map(discriminant);
        // A program may wait for a fault in a loop.
        let steps_max = self.outcome.steps.saturating_mul(10).saturating_add(10_000);
        let mut many = self.happened.len();
        while many > 0 {
            let (mut at, before) = (0, self.happened.len());
            while at < self.happened.len() && began.elapsed() < SHORTENING {
                let is_left = |number: usize| number < at || number >= at + many;
                let numbers = self.happened.iter().map(|fault| fault.number).enumerate();
                let kept = numbers.filter(|(number, _)| is_left(*number)).map(|(_, fault)| fault);
                let tried = Run::of(self.seed, Some(&kept.collect()), steps_max, program);
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

    /// Returns how the run has failed, the faults that it needs for that, and the command that repeats it.
    fn report(self, is_shortest: bool, program: &(impl Fn(&Sim) + Sync)) -> String {
        let all = self.happened.len();
        let shortest = if is_shortest { self } else { self.shortened(program) };
        let mut text = shortest.to_string();
        let mut setting = format!("UPBEAT_SIM_SEED={}", shortest.seed);
        if all > 0 {
            let left = shortest.happened.len();
            let _ = write!(text, "\nit needs {left} of its {all} faults:");
            let mut numbers = Vec::new();
            for Happened { number, at, what } in &shortest.happened {
                let _ = write!(text, "\n  after {at:.1?}, {what}");
                numbers.push(number.to_string());
            }
            let numbers = if left == 0 { NO_FAULTS.to_owned() } else { numbers.join(",") };
            let _ = write!(setting, " UPBEAT_SIM_FAULTS={numbers}");
        }
        let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
        let package = package.unwrap_or_default();
        let thread = std::thread::current();
        // The test harness gives the thread of a test its name.
        let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
        text + &format!("\nto repeat it: {setting} cargo test{package} {test}")
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

/// Returns the numbers of faults, as a report writes them.
fn faults_of(text: &str) -> Option<BTreeSet<FaultNumber>> {
    let numbers = text.split(',').filter(|text| *text != NO_FAULTS);
    numbers.map(|number| number.parse().ok()).collect()
}

/// Returns the value of an environment variable, if there is one.
fn setting<T>(name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(read(&text).unwrap_or_else(|| panic!("{name} is `{text}`, which cannot be read")))
}
