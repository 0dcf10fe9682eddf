//! Worlds with faults that are put into the product, which the judge is to find.

use crate::search::{on_threads, seed_of_day, silence};
use crate::worlds::world;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use upbeat_core::mutant::{self, Mutant};

/// Puts each fault in, one in each thread at a time, and runs worlds until one is judged wrong. Returns whether each fault
/// is found within so long.
pub(crate) fn search(longest: Duration, seed: Option<u64>, only: &[String]) -> bool {
    if !mutant::ARE_POSSIBLE {
        eprintln!("this build has no faults: build it with RUSTFLAGS=\"--cfg upbeat_mutants\"");
        return false;
    }
    silence();
    let first = seed.unwrap_or_else(seed_of_day);
    let is_chosen =
        |(fault, _): &&_| only.is_empty() || only.iter().any(|name| *name == format!("{fault:?}"));
    let faults: Vec<&(Mutant, &str)> = Mutant::ALL.iter().filter(is_chosen).collect();
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    on_threads(None, || {
        while let Some((fault, what)) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            mutant::put(Some(*fault));
            let mut seeds = (first..).take_while(|_| begun.elapsed() < longest);
            let finding = seeds.find_map(|seed| Some((seed, world(seed).violations.pop()?)));
            mutant::put(None);
            let seconds = begun.elapsed().as_secs_f64();
            match finding {
                Some((seed, violation)) => {
                    found.fetch_add(1, Ordering::Relaxed);
                    println!("{fault:?} is found by seed {seed} in {seconds:.1} s: {violation}");
                }
                None => println!("{fault:?} is NOT found in {seconds:.1} s: {what}"),
            }
        }
    });
    let found = found.into_inner();
    println!("{found} of {} faults are found", faults.len());
    found == faults.len()
}
