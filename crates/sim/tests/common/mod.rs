//! Nodes of the hosts `main` and `vienna`, and a network between them to which something happens again and again.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::panic::catch_unwind;
use std::time::Duration;
use upbeat::Builder;
use upbeat_sim::{Fault, Faults, Siege, Sim, check};

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

/// Has the network break, be parted, silent in one direction, and slow.
pub(crate) fn besiege(sim: &Sim) -> Siege {
    sim.faults(Faults::of([Fault::Break, Fault::Part, Fault::Silence, Fault::Delay]))
}
