//! Worlds that run the product: programs of nodes and handles, generated from a seed, which run in simulated worlds of
//! faults, and whose records are judged.

mod history;

mod plan;

mod serve;

mod exports;

mod operate;

mod run;

mod judge;

use crate::search::{Length, on_threads, seed_of_day, silence};
use history::sights::{Seen, Sight, export_of};
use history::{Did, Failure, History, Loss, Record, RunEnd, Told};
use plan::{Act, Plan};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use upbeat::Why;
use upbeat_core::mutant::ARE_POSSIBLE;

/// After so many worlds every event has occurred.
const ENOUGH: u64 = 2_000;

/// The figures of worlds.
#[derive(Default)]
struct Figures {
    worlds: u64,
    steps: u64,
    counts: BTreeMap<&'static str, u64>,
}

/// The end of one world.
pub(crate) struct Judged {
    steps: u64,
    counts: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
}

/// Runs the world of a seed, and judges it.
pub(crate) fn world(seed: u64) -> Judged {
    let plan = Arc::new(Plan::new(seed));
    let record = Mutex::new(None);
    let outcome = upbeat_sim::play(seed, |sim| {
        let its = Record::new(plan.operations.len());
        *record.lock().unwrap_or_else(PoisonError::into_inner) = Some(its.clone());
        run::run(sim, &plan, &its);
    });
    let record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut counts, mut violations) = (BTreeMap::new(), Vec::new());
    if let Err(ended) = outcome.ended {
        violations.push(format!("the world ends: {ended}"));
    } else if let Some(record) = record {
        let history = record.lock();
        violations.extend(judge::judge(&plan, &history));
        counts.clone_from(&history.counts);
        count(&plan, &history, &mut counts);
    }
    Judged { steps: outcome.steps, counts, violations }
}

/// Counts what has happened in a world.
fn count(plan: &Plan, history: &History, counts: &mut BTreeMap<&'static str, u64>) {
    let mut add = |what, happens: bool| *counts.entry(what).or_default() += u64::from(happens);
    for (operation, Did { stream, asked, told, runs }) in
        plan.operations.iter().zip(&history.operations)
    {
        let failed = |of| matches!(told, Some((_, Told::Failed { why, .. })) if *why == of);
        let has = |end| runs.iter().any(|run| run.end == Some(end));
        let is_asked = asked.is_some();
        add("calls", is_asked && operation.act != Act::Note);
        add("streams that were read to their end", stream.is_over);
        add("streams that ended early", matches!(told, Some((_, Told::Broken { .. }))));
        add(
            "streams whose writers were dropped",
            matches!(stream.writer, Some((_, RunEnd::Dropped))),
        );
        add("arguments that ended early for their readers", stream.broken.is_some());
        add("one-way messages", is_asked && operation.act == Act::Note);
        add("calls of handlers", is_asked && operation.parent.is_some());
        add("operations that were done", matches!(told, Some((_, Told::Done))));
        add("operations that were dropped", matches!(told, Some((_, Told::Dropped))));
        add("operations whose callers have died", is_asked && told.is_none());
        add("calls that failed by their methods", failed(Failure::Method));
        add("calls whose handlers panicked", failed(Failure::Panicked));
        add("calls that a layer refused", failed(Failure::Refused));
        add("calls that ended at their deadlines", failed(Failure::Deadline));
        add("calls of unknown end that have run", failed(Failure::Unknown) && !runs.is_empty());
        add("calls of unknown end that have not run", failed(Failure::Unknown) && runs.is_empty());
        add("calls that were not sent", failed(Failure::Unreached));
        add("calls that a closing server refused", failed(Failure::Closing));
        add("handlers that were dropped", has(RunEnd::Dropped));
    }
    for Seen { sight, .. } in &history.seen {
        let failed = |of| matches!(sight, Sight::Failed(why, _) if *why == of);
        let number = sight.number();
        add("values read", number.is_some());
        add("values read that were not the first", number.is_some_and(|at| at != export_of(at)));
        add("watches of a change", matches!(sight, Sight::Changed(..)));
        add("watches without a change", matches!(sight, Sight::Unchanged(_)));
        add("values that were not read without a call", *sight == Sight::Busy);
        add("exports that had ended", failed(Failure::Ended));
        add("exports that were not there", failed(Failure::Absent));
        add("owners that were replaced", failed(Failure::Replaced));
        add("reads of unknown end", failed(Failure::Unknown));
        add("reads of owners that were not reached", failed(Failure::Unreached));
    }
    for Loss { why, .. } in &history.losses {
        add("sessions lost by deaths", *why == Why::Died);
        add("sessions lost by outages", matches!(why, Why::Unreachable { .. }));
        add("sessions that their peers closed", matches!(why, Why::Closed | Why::HandleClosed));
    }
    add("clients that could not connect", !history.unconnected.is_empty());
}

/// Has the calling thread run on one processor alone. The threads that its worlds start inherit that, and one of them runs at a
/// time.
fn stay_on_processor(number: usize) {
    // Elsewhere the worlds are slower, and the same.
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let count = allowed.count().max(1) as usize;
    let processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    let mut one = CpuSet::new();
    processors.skip(number % count).take(1).for_each(|processor| one.set(processor));
    let _ = sched_setaffinity(None, &one);
}

impl Figures {
    fn print(&self, first: u64, seconds: f64, violations: usize, is_json: bool) {
        let Figures { worlds, steps, counts } = self;
        if is_json {
            let counts: Vec<_> =
                counts.iter().map(|(what, times)| format!("\"{what}\":{times}")).collect();
            println!(
                "{{\"worlds\":{worlds},\"seed\":{first},\"seconds\":{seconds:.1},\"steps\":{steps},\
                 \"violations\":{violations},\"counts\":{{{}}}}}",
                counts.join(",")
            );
            return;
        }
        for (what, times) in counts {
            println!("{times:>12}  {what}, {:.2} in a world", *times as f64 / *worlds as f64);
        }
        println!(
            "{worlds} worlds from seed {first} in {seconds:.1} s, {:.0} a second, {} steps in the mean; \
             {violations} violations",
            *worlds as f64 / seconds,
            steps / (*worlds).max(1)
        );
    }
}

/// Returns the lines that show a plan and what is wrong with its world.
fn shown(seed: u64, violations: &[String]) -> Vec<String> {
    let Plan { servers, clients, faults, resume_ms, wait_ms, accesses_max, .. } = Plan::new(seed);
    let mut lines = vec![format!(
        "seed {seed}: sessions wait for {resume_ms} ms, callers for {wait_ms} ms; turns end behind {accesses_max:?} accesses"
    )];
    lines.extend(servers.iter().map(|server| format!("{server:?}")));
    lines.extend(clients.iter().map(|client| format!("{client:?}")));
    lines.extend(faults.iter().map(|(at, fault)| format!("at {at} ms: {fault:?}")));
    lines.extend(violations.iter().map(|violation| format!("VIOLATION: {violation}")));
    let flags = if ARE_POSSIBLE { "RUSTFLAGS=\"--cfg upbeat_mutants\" " } else { "" };
    lines.push(format!(
        "again: {flags}cargo run --release -p sim -- worlds --seed {seed} --worlds 1 --threads 1"
    ));
    lines
}

/// Runs worlds on threads for this length, until one has a violation.
pub(crate) fn explore(length: &Length, is_json: bool) -> bool {
    silence();
    let first = length.seed.unwrap_or_else(seed_of_day);
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let is_over = |number| match length.worlds {
        Some(most) => number >= most,
        None => begun.elapsed() >= Duration::from_secs(length.seconds),
    };
    let total = Mutex::new((Figures::default(), None));
    let threads = AtomicUsize::new(0);
    on_threads(length.threads, || {
        stay_on_processor(threads.fetch_add(1, Ordering::Relaxed));
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if has_failed.load(Ordering::Relaxed) || is_over(number) {
                return;
            }
            let seed = first.wrapping_add(number);
            let judged = world(seed);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.0.worlds += 1;
            total.0.steps += judged.steps;
            for (what, times) in judged.counts {
                *total.0.counts.entry(what).or_default() += times;
            }
            if !judged.violations.is_empty() {
                has_failed.store(true, Ordering::Relaxed);
                total.1.get_or_insert((seed, judged.violations));
            }
        }
    });
    let (figures, violation) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let violations = violation.as_ref().map_or(0, |(_, violations)| violations.len());
    figures.print(first, begun.elapsed().as_secs_f64(), violations, is_json);
    let mut lines = violation.as_ref().map_or(Vec::new(), |(seed, found)| shown(*seed, found));
    let never: Vec<_> = figures.counts.iter().filter(|(_, times)| **times == 0).collect();
    let is_complete = figures.worlds < ENOUGH || never.is_empty();
    if !is_complete {
        lines.push(format!("events that never occurred in {} worlds: {never:?}", figures.worlds));
    }
    // The nodes of the worlds warn on standard error.
    let tell = |line| if is_json { eprintln!("{line}") } else { println!("{line}") };
    lines.into_iter().for_each(tell);
    violation.is_none() && is_complete
}
