//! Turns that end between any two accesses to shared memory: the programs hold under them, and processes die there.

use crate::faults::{PROGRAMS, for_each};
use crate::mixed;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use upbeat_sim::{Sim, check, play};

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
