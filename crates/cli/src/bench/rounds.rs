//! Alternation: short rounds of subjects and of their floors, in one pair of processes.
//!
//! A sweep is a probe of the placement, then rounds of as many subjects as fit into a quarter
//! of a second, and another probe. A subject whose cost is a round trip has a round of the floors directly
//! before and after it, and its ratio is that of its median to the mean of theirs. A sweep in
//! which the placement changed is dropped; the other sweeps are grouped by placement. So a
//! drift of the machine that is slower than a few milliseconds cancels in the ratios.

use crate::bench::error::BenchError;
use crate::bench::ledger::Ledger;
use crate::bench::pair::Pair;
use crate::bench::placement::Probe;
use crate::bench::progress::Progress;
use crate::bench::report::{LeftOut, Placement, Row, rounded};
use crate::bench::stats::Ratios;
use crate::bench::timing::{Round, Shape, Work};
use crate::bench::waits::Condition;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The duration of a round of one floor.
const FLOOR: Duration = Duration::from_millis(2);
/// The duration of a sweep, without the end of its last round.
const SWEEP: Duration = Duration::from_millis(250);
/// The factor by which rounds are shortened if the first ones take too much of the time.
const HURRY: u32 = 8;

/// The floor that a subject's cost is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// The subject is not a round trip, and is not compared.
    Nothing,
    /// Round trips of two lines.
    Lines,
    /// Round trips of two lines, and of two eventfds with both sides sleeping.
    Eventfds,
}

/// The throughput that is reported of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// No throughput is reported.
    Nothing,
    /// Operations per second.
    Operations,
    /// Bytes per second, with the number of bytes of an operation.
    Bytes(u64),
}

/// A measurement, as the first process sees it.
pub trait Subject {
    /// Returns the path of the case.
    fn case(&self) -> &str;

    /// Returns how the operation is timed.
    fn shape(&self) -> Shape;

    /// Returns the floor that the cost is compared with.
    fn floor(&self) -> Floor;

    /// Returns the throughput to report.
    fn rate(&self) -> Rate {
        Rate::Nothing
    }

    /// Returns an earlier case that this one is compared with.
    fn baseline(&self) -> Option<&str> {
        None
    }

    /// Returns what the name of the case says about the waiting of its nodes.
    fn condition(&self) -> Condition {
        Condition::Any
    }

    /// Does both sides of a round.
    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError>;

    /// Receives the placement of the rounds since the last call, or `None` if they are dropped. A subject with
    /// measurements of its own keeps or drops them accordingly.
    fn settle(&mut self, _placement: Option<Placement>) {}

    /// Adds figures to a row that only the subject knows.
    fn finish(&mut self, _row: &mut Row) {}
}

/// The durations of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The duration of a round of a subject.
    pub round: Duration,
    /// The duration of all rounds of all subjects. Each subject has at least one round.
    pub total: Duration,
}

impl Schedule {
    /// Returns the schedule for some of all cases, which is shorter, but not proportionally.
    pub fn for_part(self, some: usize, all: usize) -> Schedule {
        let part = (some as f64 / all.max(1) as f64).clamp(0.2, 1.0);
        Schedule { total: self.total.mul_f64(part), ..self }
    }

    /// Returns whether the first rounds of `all` subjects, of which `rounds` are done, take too much of the
    /// time, because of other load on these CPUs.
    fn is_late(&self, spent: f64, rounds: usize, all: usize) -> bool {
        rounds < all && spent > 0.1 + 0.7 * rounds as f64 / all as f64
    }
}

/// The results of subjects.
#[derive(Debug, Default)]
pub struct Measured {
    /// The results, those of a subject in the placement of most rounds first.
    pub rows: Vec<Row>,
    /// The subjects that did not measure what they are named after.
    pub left_out: Vec<LeftOut>,
}

/// Measures the subjects of `bench` alternately.
pub fn alternate(
    bench: &'static str,
    pair: &mut Pair,
    subjects: Vec<Box<dyn Subject + '_>>,
    schedule: Schedule,
    progress: &mut Progress,
) -> Result<Measured, BenchError> {
    let start = Instant::now();
    let mut alternation = Alternation::new(pair, subjects)?;
    let all = alternation.entries.len();
    let mut rounds = 0;
    let is_over = |rounds| rounds >= all && start.elapsed() >= schedule.total;
    let mut probe = Probe::take(alternation.pair)?;
    while all > 0 && !is_over(rounds) {
        let sweep = Instant::now();
        while !is_over(rounds) && sweep.elapsed() < SWEEP {
            let at = rounds % all;
            let spent = start.elapsed().as_secs_f64() / schedule.total.as_secs_f64();
            let case = alternation.entries[at].subject.case();
            progress.show(bench, spent, case, probe.placement());
            alternation.hurry = schedule.is_late(spent, rounds, all);
            alternation.take(at, schedule.round)?;
            rounds += 1;
        }
        let after = Probe::take(alternation.pair)?;
        alternation.settle(probe.placement(), after.placement());
        probe = after;
    }
    Ok(alternation.measured(bench))
}

/// A subject and its measurements.
struct Entry<'a> {
    subject: Box<dyn Subject + 'a>,
    /// A recent estimate of the time of an operation.
    op_ns: f64,
    ledger: Ledger,
}

/// A single measurement of the floors.
#[derive(Clone, Copy, Debug, Default)]
struct Floors {
    tight_ns: f64,
    best_ns: f64,
    eventfd_ns: Option<f64>,
}

impl Floors {
    /// Returns the cost of a round between two measurements of the floors, relative to the floors.
    fn ratios(before: Floors, after: Floors, op_ns: f64) -> Ratios {
        let of = |a: f64, b: f64| Some(op_ns / ((a + b) / 2.0)).filter(|ratio| ratio.is_finite());
        Ratios {
            line: of(before.best_ns, after.best_ns),
            tight: of(before.tight_ns, after.tight_ns),
            eventfd: before.eventfd_ns.zip(after.eventfd_ns).and_then(|(a, b)| of(a, b)),
            baseline: None,
            load: None,
        }
    }
}

/// The alternating subjects, and the pair of processes.
struct Alternation<'a, 'p> {
    pair: &'p mut Pair,
    entries: Vec<Entry<'a>>,
    /// The last measurement of the floors, from which the next rounds are planned.
    floors: Floors,
    /// The floors directly before the next subject, if they were measured.
    before: Option<Floors>,
    /// The last medians of the subjects in the present placement.
    medians: HashMap<String, f64>,
    /// Whether rounds have to be short.
    hurry: bool,
}

impl<'a, 'p> Alternation<'a, 'p> {
    /// Creates the alternation, and estimates how long each operation takes.
    fn new(
        pair: &'p mut Pair,
        subjects: Vec<Box<dyn Subject + 'a>>,
    ) -> Result<Alternation<'a, 'p>, BenchError> {
        let mut entries = Vec::new();
        for mut subject in subjects {
            let shape = subject.shape();
            let sleeps = subject.floor() == Floor::Eventfds;
            let first = if sleeps { Work::of(4, 1) } else { Work::first(shape) };
            let op_ns = subject.round(pair, first)?.median_ns();
            let ledger = Ledger::new(Work::size(shape, op_ns));
            entries.push(Entry { subject, op_ns, ledger });
        }
        let lines = pair.lines(Work::of(64, 64), 0)?.median_ns();
        let eventfd_ns = Some(pair.eventfds(Work::of(8, 1))?.median_ns());
        let floors = Floors { tight_ns: lines, best_ns: lines, eventfd_ns };
        let (before, medians, hurry) = (None, HashMap::new(), false);
        Ok(Alternation { pair, entries, floors, before, medians, hurry })
    }

    /// Measures one round of one subject, and the floors around it.
    fn take(&mut self, at: usize, round: Duration) -> Result<(), BenchError> {
        let floor = self.entries[at].subject.floor();
        let near = match (floor, self.before.take()) {
            (Floor::Nothing, _) => None,
            // The floors after the last subject are also the floors before this one.
            (Floor::Lines, Some(floors)) => Some(floors),
            (Floor::Eventfds, Some(floors)) if floors.eventfd_ns.is_some() => Some(floors),
            _ => Some(self.take_floors(floor)?),
        };
        let round = self.take_round(at, round)?;
        let op_ns = round.median_ns();
        let mut ratios = Ratios::default();
        if let Some(near) = near {
            let after = self.take_floors(floor)?;
            ratios = Floors::ratios(near, after, op_ns);
            self.before = Some(after);
        }
        let entry = &mut self.entries[at];
        let base = entry.subject.baseline().and_then(|case| self.medians.get(case));
        ratios.baseline = base.map(|base| op_ns / base).filter(|ratio| ratio.is_finite());
        self.medians.insert(entry.subject.case().to_owned(), op_ns);
        entry.ledger.add(round, ratios);
        Ok(())
    }

    fn take_round(&mut self, at: usize, round: Duration) -> Result<Round, BenchError> {
        let round = self.hurried(round);
        let entry = &mut self.entries[at];
        let work = Work::planned(entry.subject.shape(), entry.ledger.size(), entry.op_ns, round);
        let round = entry.subject.round(self.pair, work)?;
        // The mean with the old estimate keeps one bad round from making the next too short.
        entry.op_ns = (entry.op_ns + round.median_ns()) / 2.0;
        Ok(round)
    }

    fn take_floors(&mut self, floor: Floor) -> Result<Floors, BenchError> {
        let round = self.hurried(FLOOR);
        let size = Work::size(Shape::Each, self.floors.tight_ns);
        let mut plan = Work::planned(Shape::Each, size, self.floors.tight_ns, round);
        plan.singles = 0;
        let tight_ns = self.pair.lines(plan, 0)?.median_ns();
        let paced_ns = self.pair.lines(plan, 1)?.median_ns();
        let best_ns = tight_ns.min(paced_ns);
        let mut floors = Floors { tight_ns, best_ns, eventfd_ns: None };
        if floor == Floor::Eventfds {
            let last = self.floors.eventfd_ns.unwrap_or(50_000.0);
            let plan = Work::planned(Shape::Each, 1, last, 2 * round);
            floors.eventfd_ns = Some(self.pair.eventfds(plan)?.median_ns());
        }
        self.floors = Floors { eventfd_ns: floors.eventfd_ns.or(self.floors.eventfd_ns), ..floors };
        Ok(floors)
    }

    /// Returns the duration of a round, which is shorter when time is scarce.
    fn hurried(&self, round: Duration) -> Duration {
        if self.hurry { round / HURRY } else { round }
    }

    /// Keeps the measurements since the last call, if the placement did not change.
    fn settle(&mut self, before: Placement, after: Placement) {
        for entry in &mut self.entries {
            entry.ledger.settle(before, after);
            entry.subject.settle((before == after).then_some(before));
        }
        self.before = None;
        if before != after {
            self.medians.clear();
        }
    }

    fn measured(self, bench: &'static str) -> Measured {
        let cpus = [self.pair.cpus.client, self.pair.cpus.server];
        let Measured { mut rows, mut left_out } = Measured::default();
        for mut entry in self.entries {
            for told in entry.ledger.told() {
                let case = entry.subject.case();
                let row = Row::new(bench, case, told.placement, &told.summary);
                let mut row = Row { cpus, ..row };
                let condition = entry.subject.condition();
                if let Some(reason) = condition.broken(told.summary.waits.as_ref()) {
                    left_out.push(row.without_figures(reason));
                    continue;
                }
                row.kept.rounds_dropped = told.rounds_dropped;
                row.compared.baseline = entry.subject.baseline().map(str::to_owned);
                match entry.subject.rate() {
                    Rate::Nothing => {}
                    Rate::Operations => row.rates.per_second = Some(rounded(1e9 / row.p50_ns)),
                    Rate::Bytes(n) => {
                        row.rates.gigabytes_per_second = Some(rounded(n as f64 / row.p50_ns));
                    }
                }
                entry.subject.finish(&mut row);
                rows.push(row);
            }
        }
        Measured { rows, left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::{Floors, Schedule};
    use std::time::Duration;

    #[test]
    fn some_of_the_cases_take_a_part_of_the_time() {
        let all = Schedule { round: Duration::from_millis(6), total: Duration::from_secs(50) };
        assert_eq!(all.for_part(30, 30).total, Duration::from_secs(50));
        assert_eq!(all.for_part(15, 30).total, Duration::from_secs(25));
        assert_eq!(all.for_part(1, 30).total, Duration::from_secs(10));
        assert_eq!(all.for_part(1, 30).round, all.round);
    }

    #[test]
    fn first_rounds_that_take_too_long_are_noticed() {
        let all = Schedule { round: Duration::from_millis(6), total: Duration::from_secs(50) };
        assert!(!all.is_late(0.05, 0, 30) && all.is_late(0.2, 0, 30));
        assert!(!all.is_late(0.4, 15, 30) && all.is_late(0.5, 15, 30));
        assert!(!all.is_late(2.0, 30, 30), "those behind the first are ended in time");
    }

    #[test]
    fn a_ratio_is_to_the_mean_of_the_floors_around() {
        let before = Floors { tight_ns: 100.0, best_ns: 80.0, eventfd_ns: Some(40_000.0) };
        let after = Floors { tight_ns: 120.0, best_ns: 120.0, eventfd_ns: None };
        let ratios = Floors::ratios(before, after, 110.0);
        assert_eq!((ratios.tight, ratios.line), (Some(1.0), Some(1.1)));
        assert_eq!(ratios.eventfd, None);
        assert_eq!(Floors::ratios(Floors::default(), Floors::default(), 1.0).line, None);
    }
}
