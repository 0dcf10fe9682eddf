//! Histories by the million: explored by seeds, replayed, and run with injected faults.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::check::Violation;
use crate::count::Counts;
use crate::world::World;
use upbeat_core::mutant::{self, Mutant};

/// Events that are printed of a failed history.
const EVENTS: usize = 60;

/// Seconds between two lines of progress.
const WORD_SECONDS: u64 = 10;

/// The beginning of a violation that is a panic of the simulated code or of the world.
const PANIC: &str = "panic: ";

/// Faults that an assertion finds: of the simulated code, or of the memory of the world, which has bounds. A panic
/// with another fault is none of the checker's findings.
const PANICS: &[Mutant] = &[Mutant::VoidReleasesTwice, Mutant::PointerUnchecked];

/// After so many histories every event has occurred.
const ENOUGH: u64 = 20_000;

/// Seeds that are always replayed, each with its reason.
const CORPUS: &str = include_str!("../corpus.txt");

/// The length of an exploration.
pub(crate) struct Extent {
    pub(crate) time: Duration,
    pub(crate) histories: Option<u64>,
    pub(crate) seed: Option<u64>,
    pub(crate) threads: Option<usize>,
}

/// Runs one history. A panic of the simulated code is a violation.
fn history(seed: u64) -> (Counts, Result<(), Violation>) {
    let mut world = World::new(seed, false);
    let result = guarded(&mut world);
    (world.counts, result)
}

fn guarded(world: &mut World) -> Result<(), Violation> {
    catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Violation(format!("{PANIC}{}", text.unwrap_or_default())))
    })
}

/// Turns off the printing of panics, which are reported as violations.
pub(crate) fn silence() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Runs the seeds of a thread until the time or the number is reached, or a history fails.
pub(crate) fn explore(extent: &Extent) -> bool {
    silence();
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = extent.seed.unwrap_or(day.as_micros() as u64);
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let words = AtomicU64::new(1);
    let total = Mutex::new((0, Counts::default(), None));
    let done = || match extent.histories {
        Some(most) => next.load(Ordering::Relaxed) >= most,
        None => begun.elapsed() >= extent.time,
    };
    let work = || {
        let (mut histories, mut counts, mut fault) = (0, Counts::default(), None);
        while !failed.load(Ordering::Relaxed) && !done() {
            let seed = first.wrapping_add(next.fetch_add(1, Ordering::Relaxed));
            let (its, result) = history(seed);
            histories += 1;
            counts.add(&its);
            let said = words.load(Ordering::Relaxed);
            if begun.elapsed().as_secs() >= said * WORD_SECONDS
                && words.fetch_max(said + 1, Ordering::Relaxed) == said
            {
                eprintln!("{} histories so far", next.load(Ordering::Relaxed));
            }
            if let Err(violation) = result {
                failed.store(true, Ordering::Relaxed);
                fault = Some((seed, violation));
            }
        }
        let mut total = total.lock().expect("nobody panics with it");
        total.0 += histories;
        total.1.add(&counts);
        total.2 = total.2.take().or(fault);
    };
    on_threads(extent.threads, work);
    let (histories, counts, fault) = total.into_inner().expect("nobody panicked with it");
    let seconds = begun.elapsed().as_secs_f64();
    for (what, many) in counts.each() {
        println!("{many:>14}  {what}");
    }
    println!(
        "{histories} histories from seed {first} in {seconds:.1} s, {:.0} a second; {} violations",
        histories as f64 / seconds,
        u32::from(fault.is_some()),
    );
    if let Some((seed, _)) = fault {
        replay(seed, false);
        return false;
    }
    let never: Vec<_> = counts.each().into_iter().filter(|(_, many)| *many == 0).collect();
    let is_complete = histories < ENOUGH || never.is_empty();
    if !is_complete {
        println!("events that never occurred in {histories} histories: {never:?}");
    }
    is_complete
}

/// Runs one history again, and prints the events before its violation.
pub(crate) fn replay(seed: u64, all: bool) -> bool {
    silence();
    let mut world = World::new(seed, true);
    let result = guarded(&mut world);
    if all || result.is_err() {
        println!("{:?}", world.plan);
        let skipped = if all { 0 } else { world.trace().len().saturating_sub(EVENTS) };
        for event in &world.trace()[skipped..] {
            println!("{event}");
        }
    }
    match result {
        Ok(()) => {
            println!("seed {seed}: no violation in {} events", world.trace().len());
            true
        }
        Err(violation) => {
            println!("seed {seed}: VIOLATION: {violation}");
            println!("again: cargo run --release -p sim -- replay {seed}");
            false
        }
    }
}

/// Returns the seeds of the corpus, and the reason of each.
fn seeds() -> impl Iterator<Item = (u64, &'static str)> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        let (seed, why) = line.split_once(' ').unwrap_or((line, ""));
        (seed.parse().expect("a line of the corpus begins with a seed"), why.trim())
    })
}

/// Returns the faults that the reason of a seed names.
fn faults(why: &str) -> impl Iterator<Item = Mutant> {
    let words: Vec<&str> = why.split([' ', ',']).collect();
    let all = Mutant::OF_CORE.iter().map(|(mutant, _)| *mutant);
    all.filter(move |mutant| words.contains(&format!("{mutant:?}").as_str()))
}

/// Replays the corpus, and where faults are possible each seed again with those that it is said to find.
pub(crate) fn corpus() -> bool {
    silence();
    let mut fine = true;
    let (mut many, mut found) = (0, 0);
    for (seed, why) in seeds() {
        many += 1;
        if let (_, Err(violation)) = history(seed) {
            println!("{seed} ({why}): {violation}");
            fine &= replay(seed, false);
        }
        for mutant in faults(why).filter(|_| mutant::ARE_POSSIBLE) {
            mutant::put(Some(mutant));
            let is_found = history(seed).1.is_err();
            mutant::put(None);
            if !is_found {
                println!("{seed} does not find {mutant:?} any more: choose the seeds anew");
            }
            (fine, found) = (fine && is_found, found + u64::from(is_found));
        }
    }
    println!("corpus: {many} seeds replayed, and {found} faults found by them");
    fine && (found > 0 || !mutant::ARE_POSSIBLE)
}

/// Injects each fault and runs histories until one fails, with a fault in each thread at a time. Returns whether every
/// fault was caught.
pub(crate) fn mutants(most: u64, only: Option<&str>) -> bool {
    if !mutant::ARE_POSSIBLE {
        println!("this build has no faults: build it with RUSTFLAGS=\"--cfg upbeat_mutants\"");
        return false;
    }
    silence();
    let is_chosen = |mutant: &Mutant| only.is_none_or(|only| format!("{mutant:?}").contains(only));
    let chosen: Vec<_> = Mutant::OF_CORE.iter().filter(|(mutant, _)| is_chosen(mutant)).collect();
    let (next, caught) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((mutant, what)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = format!("{mutant:?}");
            match first_finding(*mutant, most) {
                Some((seed, violation)) => {
                    caught.fetch_add(1, Ordering::Relaxed);
                    println!(
                        "caught after {:>6}  {name:<28} {what}\n{:21}{violation}",
                        seed + 1,
                        ""
                    );
                }
                None => println!("NOT CAUGHT in {most}  {name:<28} {what}"),
            }
        }
    };
    on_threads(None, work);
    let caught = caught.into_inner();
    println!("{caught} of {} mutants caught by the checker", chosen.len());
    caught == chosen.len()
}

/// Returns the first history of this thread that fails with a fault injected.
fn first_finding(mutant: Mutant, most: u64) -> Option<(u64, Violation)> {
    mutant::put(Some(mutant));
    // The world itself may panic in a history, which shows nothing about the checker: another history may.
    let is_found =
        |violation: &Violation| PANICS.contains(&mutant) || !violation.0.starts_with(PANIC);
    let found = (0..most).find_map(|seed| {
        let violation = history(seed).1.err().filter(is_found)?;
        Some((seed, violation))
    });
    mutant::put(None);
    found
}

/// Runs the work on so many threads, or on one for each processor.
pub(crate) fn on_threads(threads: Option<usize>, work: impl Fn() + Sync) {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads.unwrap_or_else(processors) {
            scope.spawn(&work);
        }
    });
}

#[cfg(test)]
mod tests;
