//! Turns that end between any two accesses to shared memory, where stores come late: the programs hold under them, and
//! processes die there.

use crate::faults::{PROGRAMS, for_each};
use crate::mixed;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat_memory::region::Region;
use upbeat_memory::sync::{Ordering, fence, fence_full};
use upbeat_sim::{Sim, check, play, spawn};

/// The worlds of each program.
const SEEDS: u64 = 4;

/// Returns a most number of accesses in a turn: between every access and the next, or seldom.
fn accesses(sim: &Sim) -> NonZero<usize> {
    NonZero::new([5, 50, 500, 5_000][sim.below(4) as usize]).unwrap()
}

pub(crate) fn mixed_in_a_process(sim: &Sim) {
    sim.interleave(accesses(sim));
    mixed::in_a_process(sim);
}

pub(crate) fn mixed_on_a_host(sim: &Sim) {
    sim.interleave(accesses(sim));
    mixed::on_a_host(sim);
}

#[test]
fn every_program_holds() {
    for_each(PROGRAMS, |(name, program)| {
        let run = |seed| {
            let outcome = play(seed, |sim| {
                sim.interleave(accesses(sim));
                program(sim);
            });
            if let Err(ended) = outcome.ended {
                panic!("{name}, seed {seed}: {ended}");
            }
            outcome.history
        };
        for seed in 0..SEEDS {
            assert!(run(seed) == run(seed), "{name}: two runs of seed {seed} differ");
        }
    });
}

#[test]
fn a_process_dies_in_the_middle_of_an_update() {
    check(50, |sim| {
        sim.interleave(accesses(sim));
        let is_updating = Arc::new(AtomicBool::new(false));
        let updating = Arc::clone(&is_updating);
        sim.start("owner", move |sim| {
            let node = sim.node("owner").build().unwrap();
            let counts = node.export("counts", [0_u64; 8]).unwrap();
            node.block_on(async {
                for round in 1.. {
                    updating.store(true, Relaxed);
                    (0..8).for_each(|at| counts.index(at).set(round));
                    updating.store(false, Relaxed);
                    upbeat::sleep(Duration::from_micros(1)).await;
                }
            });
            Ok::<_, String>(())
        });
        sim.pause(sim.between(&(Duration::from_millis(1)..Duration::from_millis(2))));
        sim.kill("owner");
        sim.sometimes("the owner dies in the middle of an update", is_updating.load(Relaxed));
        sim.sometimes("the owner dies where it waits", !is_updating.load(Relaxed));
    });
}

/// Words of a region, in lines of their own.
const ONE: usize = 0;
const OTHER: usize = 16;
const LAST: usize = 31;

/// Returns what two threads return that run beside each other in worlds of several seeds.
fn outcomes(one: fn(&Region) -> u64, other: fn(&Region) -> u64) -> BTreeSet<(u64, u64)> {
    let seen = Mutex::new(BTreeSet::new());
    for seed in 0..1_000 {
        let outcome = play(seed, |sim| {
            sim.interleave(NonZero::new(4).unwrap());
            let region = Region::heap(32);
            let (its, result) = (region.clone(), Arc::new(AtomicU64::new(0)));
            let of_other = Arc::clone(&result);
            // Others see the stores of a thread at its end: it makes some accesses before.
            let body = move || {
                of_other.store(other(&its), Relaxed);
                (0..4).for_each(|_| _ = its.load(LAST));
            };
            let beside = spawn("beside", body).unwrap();
            let of_one = one(&region);
            (0..4).for_each(|_| _ = region.load(LAST));
            beside.join().unwrap();
            seen.lock().unwrap().insert((of_one, result.load(Relaxed)));
        });
        outcome.ended.unwrap_or_else(|ended| panic!("seed {seed}: {ended}"));
    }
    seen.into_inner().unwrap()
}

#[test]
fn a_store_is_later_than_a_load_behind_it_unless_a_fence_stands_between_them() {
    let without = outcomes(
        |words| {
            words.store(ONE, 1);
            words.load(OTHER)
        },
        |words| {
            words.publish(OTHER, 1);
            words.load(ONE)
        },
    );
    assert_eq!(without, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
    let with = outcomes(
        |words| {
            words.store(ONE, 1);
            fence_full();
            words.load(OTHER)
        },
        |words| {
            words.publish(OTHER, 1);
            fence_full();
            words.load(ONE)
        },
    );
    assert_eq!(with, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
}

#[test]
fn a_store_passes_an_earlier_one_unless_it_releases_that() {
    let reads = |words: &Region| {
        let told = words.load(OTHER);
        fence(Ordering::Acquire);
        told << 1 | words.load(ONE)
    };
    let seen = |writes: fn(&Region) -> u64| {
        outcomes(writes, reads).into_iter().map(|(_, seen)| seen).collect()
    };
    let all = BTreeSet::from([0b00, 0b01, 0b10, 0b11]);
    let ordered = BTreeSet::from([0b00, 0b01, 0b11]);
    let relaxed: BTreeSet<u64> = seen(|words| {
        words.store(ONE, 1);
        words.store(OTHER, 1);
        0
    });
    assert_eq!(relaxed, all);
    let copied: BTreeSet<u64> = seen(|words| {
        words.write(ONE * 8, &1_u64.to_ne_bytes());
        words.store(OTHER, 1);
        0
    });
    assert_eq!(copied, all);
    let released: BTreeSet<u64> = seen(|words| {
        words.write(ONE * 8, &1_u64.to_ne_bytes());
        words.publish(OTHER, 1);
        0
    });
    assert_eq!(released, ordered);
    let fenced: BTreeSet<u64> = seen(|words| {
        words.store(ONE, 1);
        fence(Ordering::Release);
        words.store(OTHER, 1);
        0
    });
    assert_eq!(fenced, ordered);
    let exchanged: BTreeSet<u64> = seen(|words| {
        words.store(ONE, 1);
        words.toggle(OTHER, 1);
        0
    });
    assert_eq!(exchanged, ordered);
}
