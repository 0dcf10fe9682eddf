//! Programs under many seeds.

use crate::sim::Sim;
use crate::world::{Ended, Log, Outcome, run_logged};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

/// The seeds that run twice, to see whether the program follows from its seed.
const TWICE: u64 = 2;

/// Runs a program in a world for each of so many seeds. When the program returns, all its threads
/// and processes end.
///
/// `UPBEAT_SIM_SEED` names the only seed to run, and `UPBEAT_SIM_SEEDS` another number of them.
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
    let only = setting("UPBEAT_SIM_SEED");
    let count = setting("UPBEAT_SIM_SEEDS").unwrap_or(seeds);
    let seeds = only.map_or(0..count, |seed| seed..seed.saturating_add(1));
    let mut reached = BTreeMap::new();
    for (number, seed) in (0..).zip(seeds) {
        let is_twice = number < TWICE;
        let (sim, log) = play(seed, is_twice, &program);
        for (what, times) in sim.reached() {
            *reached.entry(what).or_insert(0) += times;
        }
        if is_twice {
            let (_, again) = play(seed, true, &program);
            if let Some(difference) = log.difference(&again) {
                panic!(
                    "two runs of seed {seed} differ, so a failure could not be repeated: {difference}"
                );
            }
        }
    }
    let never = |(what, times): (&'static str, u64)| (times == 0).then_some(what);
    let never: Vec<_> = reached.into_iter().filter_map(never).collect();
    assert!(only.is_some() || never.is_empty(), "under none of {count} seeds: {never:?}");
}

/// Runs the program once.
fn play(seed: u64, is_logged: bool, program: &(impl Fn(&Sim) + Sync)) -> (Sim, Log) {
    let sim = Sim::new(seed);
    let (Outcome { ended, passed, steps, .. }, log) = run_logged(seed, is_logged, || {
        program(&sim);
        sim.ends();
    });
    sim.clear();
    if let Err(ended) = ended {
        let what = match &ended {
            Ended::Panicked(payload) => text(&**payload),
            Ended::Stuck(text) => text,
        };
        let passed = Duration::from_millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
        panic!(
            "seed {seed}, after {passed:?} and {steps} steps: {what}\nUPBEAT_SIM_SEED={seed} repeats it"
        );
    }
    (sim, log)
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Returns the number of an environment variable, if there is one.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number")))
}
