//! Nodes of the hosts `main` and `vienna`, and a network between them to which something happens again and again.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use upbeat::Builder;
use upbeat_sim::{Sim, check, spawn};

/// The time for which a host waits for an acknowledgement.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the builder of a node that calls other hosts, or is called by them.
pub(crate) fn remote(sim: &Sim, name: &str, resume_within: Duration) -> Builder {
    sim.node(name).insecure_plaintext().peer_timeout(PATIENCE).resume_within(resume_within)
}

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Returns the text with which a check of this program fails.
pub(crate) fn failure(program: fn(&Sim)) -> String {
    let payload = catch_unwind(|| check(100, program)).unwrap_err();
    payload.downcast_ref::<String>().cloned().unwrap()
}

/// Something happens to the network again and again, until this is dropped.
pub(crate) struct Siege(Arc<AtomicBool>);

impl Siege {
    /// The network breaks, is parted, silent in one direction, and slow.
    pub(crate) fn begin(sim: &Sim) -> Siege {
        Siege::by(sim, Duration::from_millis(200), besiege)
    }

    /// Acts again and again, after pauses of up to this time.
    pub(crate) fn by(sim: &Sim, every: Duration, act: impl Fn(&Sim) + Send + 'static) -> Siege {
        let (sim, is_over) = (sim.clone(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let body = move || {
            while !ended.load(Relaxed) {
                sim.pause(sim.between(&(Duration::ZERO..every)));
                act(&sim);
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
    match sim.below(5) {
        0 | 1 => sim.break_connections("main", "vienna"),
        2 => sim.part("main", "vienna"),
        3 => sim.silence("main", "vienna"),
        _ => sim.delay("main", "vienna", ms(0)..sim.between(&(ms(1)..ms(50)))),
    }
    sim.pause(sim.between(&(ms(0)..ms(5_000 * sim.below(2) + 50))));
    sim.heal("main", "vienna");
}
