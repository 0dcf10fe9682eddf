//! The network between the hosts `main` and `vienna`, to which something happens again and again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use upbeat_sim::{Sim, spawn};

/// The network breaks, is parted, silent in one direction, and slow, until this is dropped.
pub(crate) struct Siege(Arc<AtomicBool>);

impl Siege {
    pub(crate) fn begin(sim: &Sim) -> Siege {
        let (sim, is_over) = (sim.clone(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let body = move || {
            while !ended.load(Relaxed) {
                besiege(&sim);
            }
        };
        drop(spawn("besieges", body).unwrap());
        Siege(is_over)
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn besiege(sim: &Sim) {
    let ms = Duration::from_millis;
    sim.pause(sim.between(&(ms(0)..ms(200))));
    match sim.below(5) {
        0 | 1 => sim.break_connections("main", "vienna"),
        2 => sim.part("main", "vienna"),
        3 => sim.silence("main", "vienna"),
        _ => sim.delay("main", "vienna", ms(0)..sim.between(&(ms(1)..ms(50)))),
    }
    sim.pause(sim.between(&(ms(0)..ms(5_000 * sim.below(2) + 50))));
    sim.heal("main", "vienna");
}
