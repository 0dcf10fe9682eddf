//! Measures the placement of the two CPUs, because a virtual machine does not report it and moves them.
//!
//! A probe takes 20 to 40 ms and has three parts, each of which distinguishes two placements better
//! than the others do: the round trip of two lines, the load of a line that the other side has
//! just written, and the slowdown of arithmetic while the other CPU works too.

use crate::bench::control::Job;
use crate::bench::error::BenchError;
use crate::bench::ground::{CLIENT_LINE, DIRTY_LINES, SERVER_LINE};
use crate::bench::line;
use crate::bench::pair::{self, Pair};
use crate::bench::report::Placement;
use crate::bench::timing::{Round, Work, nanoseconds};

/// Round trips are below this on one core (45 ns was seen), above it on two (85 and more).
const LINE_ONE_CORE_NS: f64 = 70.0;
/// Round trips are below this within one last cache (115 ns was seen), above it across (520).
const LINE_ONE_L3_NS: f64 = 240.0;
/// Loads of lines just written are below this on one core (4 ns was seen), above it on two (13).
const DIRTY_ONE_CORE_NS: f64 = 8.0;
/// Loads of lines just written are below this within one last cache (24 ns was seen), above it
/// across (105).
const DIRTY_ONE_L3_NS: f64 = 50.0;
/// Two threads of one core slow each other down by more than this, two cores by less.
const SLOWDOWN_ONE_CORE: f64 = 1.25;

/// The results of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    /// The time of a round trip of two lines, polled without a pause.
    pub(crate) line_ns: f64,
    /// The time of the load of a line that the other side has just written.
    pub(crate) dirty_ns: f64,
    /// The time of arithmetic while the other CPU works, relative to its time while the other CPU sleeps.
    pub(crate) slowdown: f64,
}

impl Probe {
    /// Measures a probe.
    pub(crate) fn take(pair: &mut Pair) -> Result<Probe, BenchError> {
        // The probe uses low percentiles, because other load on these CPUs only makes measurements slower.
        let lines = pair.lines(Work::of(300, 32), 0)?;
        let dirty = Work::of(60, DIRTY_LINES as u32);
        let dirty = pair.round(Job::Dirty, dirty, |ground| Ok(line::load_dirty(ground, dirty)))?;
        Ok(Probe {
            line_ns: lines.ns_at(0.3),
            dirty_ns: dirty.ns_at(0.3),
            slowdown: slowdown(pair)?,
        })
    }

    /// Returns the placement on which two of the three parts agree.
    pub(crate) fn placement(&self) -> Placement {
        let by = |value: f64, one_core: f64, one_l3: f64| match value {
            value if value < one_core => Placement::OneCore,
            value if value < one_l3 => Placement::OneL3,
            _ => Placement::TwoL3s,
        };
        let line = by(self.line_ns, LINE_ONE_CORE_NS, LINE_ONE_L3_NS);
        let dirty = by(self.dirty_ns, DIRTY_ONE_CORE_NS, DIRTY_ONE_L3_NS);
        let slow = self.slowdown > SLOWDOWN_ONE_CORE;
        match (line, dirty, slow) {
            (line, dirty, _) if line == dirty => line,
            (Placement::OneCore, _, true) | (_, Placement::OneCore, true) => Placement::OneCore,
            (Placement::OneCore, other, false) | (other, Placement::OneCore, false) => other,
            // The round trip distinguishes one L3 from two more reliably.
            (line, _, _) => line,
        }
    }
}

/// Returns the time of arithmetic while the other CPU works, relative to its time while the other sleeps.
fn slowdown(pair: &mut Pair) -> Result<f64, BenchError> {
    const PIECES: usize = 300;
    let alone = quick(pair::arithmetic_pieces(PIECES));
    let beside = pair.round(Job::Arithmetic, Work::of(1, 1), |ground| {
        ground.turn += 1;
        line::await_word::<1>(&ground.theirs, SERVER_LINE, ground.turn);
        let pieces = pair::arithmetic_pieces(PIECES);
        ground.ours.publish(CLIENT_LINE, ground.turn);
        Ok(quick(pieces))
    })?;
    Ok(beside / alone.max(1.0))
}

/// Returns the nanoseconds of one of the faster pieces.
fn quick(pieces: Vec<u64>) -> f64 {
    Round::of_batches(1, pieces).ns_at(0.2).max(nanoseconds(1.0))
}

#[cfg(test)]
mod tests {
    use super::{Placement, Probe};

    fn of(line_ns: f64, dirty_ns: f64, slowdown: f64) -> Placement {
        Probe { line_ns, dirty_ns, slowdown }.placement()
    }

    #[test]
    fn measured_placements_are_recognized() {
        assert_eq!(of(45.0, 4.0, 1.8), Placement::OneCore);
        assert_eq!(of(110.0, 19.0, 1.0), Placement::OneL3);
        assert_eq!(of(520.0, 105.0, 1.0), Placement::TwoL3s);
    }

    #[test]
    fn load_on_the_cpus_does_not_change_the_placement() {
        // Other load on the CPU slows arithmetic down.
        assert_eq!(of(110.0, 19.0, 1.9), Placement::OneL3);
        assert_eq!(of(520.0, 105.0, 2.5), Placement::TwoL3s);
        assert_eq!(of(45.0, 4.0, 1.0), Placement::OneCore);
    }

    #[test]
    fn two_of_three_parts_decide() {
        assert_eq!(of(80.0, 4.0, 1.7), Placement::OneCore);
        assert_eq!(of(60.0, 13.0, 1.0), Placement::OneL3);
        assert_eq!(of(60.0, 13.0, 1.6), Placement::OneCore);
        assert_eq!(of(230.0, 60.0, 1.0), Placement::OneL3);
        assert_eq!(of(300.0, 40.0, 1.0), Placement::TwoL3s);
    }
}
