//! One short round of one operation: the number of operations, and their times.
//!
//! A round has three parts. The first operations warm up and are not measured. Then come batches,
//! with one reading of the clock for each: medians and minima are those of batches, in which the cost of
//! the clock does not matter. The last operations are timed one by one, because the mean of a batch hides
//! its tail; each of them contains the cost of one reading.

use crate::bench::waits::{NodeCounts, Waits};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;
use upbeat_memory::ticks::{ticks, ticks_per_second};

/// The time from which an operation is timed alone and not in batches.
const ALONE_FROM_NS: f64 = 3_000.0;
/// The intended duration of a batch.
const BATCH_NS: f64 = 5_000.0;

/// The operations of a round. Both processes know them, so that both do the same number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The number of operations that are not measured.
    pub warm: u32,
    /// The number of batches.
    pub batches: u32,
    /// The number of operations in a batch.
    pub size: u32,
    /// The number of operations that are timed one by one.
    pub singles: u32,
}

/// How operations can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An operation begins when the last one has ended: batches are timed, and some single operations.
    Each,
    /// Operations are done in bursts of this number and cannot be timed one by one.
    Bursts(u32),
}

impl Work {
    /// Returns a round of `batches` batches of `size`, with a few operations to warm up.
    pub fn of(batches: u32, size: u32) -> Work {
        Work { warm: size, batches, size, singles: 0 }
    }

    /// Returns the first round of an operation of unknown duration.
    pub(crate) fn first(shape: Shape) -> Work {
        match shape {
            Shape::Each => Work::of(8, 4),
            Shape::Bursts(size) => Work::of(1, size),
        }
    }

    /// Returns the size of a batch if one operation takes `op_ns`.
    pub fn size(shape: Shape, op_ns: f64) -> u32 {
        match shape {
            Shape::Bursts(size) => size,
            Shape::Each if op_ns >= ALONE_FROM_NS => 1,
            Shape::Each => (BATCH_NS / op_ns.max(1.0)).clamp(2.0, 512.0) as u32,
        }
    }

    /// Plans a round of about `round`, of batches of `size`, if one operation takes `op_ns`.
    pub fn planned(shape: Shape, size: u32, op_ns: f64, round: Duration) -> Work {
        let ops = (round.as_nanos() as f64 / op_ns.max(1.0)).clamp(1.0, 16e6);
        let alone = matches!(shape, Shape::Bursts(_)) || size == 1;
        let batched = if alone { ops } else { ops * 2.0 / 3.0 };
        Work {
            warm: if size == 1 { 4 } else { size },
            batches: ((batched / f64::from(size)) as u32).max(if alone { 2 } else { 4 }),
            size,
            singles: if alone { 0 } else { ((ops - batched) as u32).clamp(32, 1 << 16) },
        }
    }

    /// Returns the number of all operations of the round.
    pub fn total(&self) -> u64 {
        let batched = u64::from(self.batches) * u64::from(self.size);
        u64::from(self.warm) + batched + u64::from(self.singles)
    }

    /// Returns the round as a sequence of laps, for an operation that is awaited.
    pub fn laps(self) -> Laps {
        Laps {
            work: self,
            done: 0,
            last: 0,
            batches: touched(self.batches),
            singles: touched(self.singles),
        }
    }

    /// Does the round.
    #[inline]
    pub fn run(self, mut operation: impl FnMut()) -> Round {
        let done = self.try_run(|| {
            operation();
            Ok::<(), Infallible>(())
        });
        match done {
            Ok(round) => round,
        }
    }

    /// Does the round unless an operation fails.
    #[inline]
    pub fn try_run<E>(self, mut operation: impl FnMut() -> Result<(), E>) -> Result<Round, E> {
        let mut laps = self.laps();
        for operations in laps.by_ref() {
            for _ in 0..operations {
                operation()?;
            }
        }
        Ok(laps.round())
    }

    /// Does the round in bursts: `burst` does the given number of operations.
    pub fn try_bursts<E>(self, mut burst: impl FnMut(u32) -> Result<(), E>) -> Result<Round, E> {
        let mut laps = self.laps();
        for operations in laps.by_ref() {
            burst(operations)?;
        }
        Ok(laps.round())
    }
}

/// Returns a vector of capacity `length`, whose pages are touched so that no page fault is measured.
fn touched(length: u32) -> Vec<u64> {
    let mut cells = vec![1; length as usize];
    cells.clear();
    cells
}

/// The laps of a round. Each item is the number of operations to do before the next item is taken;
/// taking the next item ends the lap.
pub struct Laps {
    work: Work,
    /// The number of laps that have begun.
    done: u32,
    last: u64,
    batches: Vec<u64>,
    singles: Vec<u64>,
}

impl Laps {
    /// Returns the times of the laps.
    pub fn round(self) -> Round {
        let batched = self.batches.len() as u64 * u64::from(self.work.size);
        Round {
            size: self.work.size,
            operations: batched + self.singles.len() as u64,
            batches: self.batches,
            singles: self.singles,
            least_per_second: None,
            ratio_to_load: None,
            waits: None,
        }
    }
}

impl Iterator for Laps {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let now = ticks();
        let took = now.saturating_sub(self.last);
        let lap = self.done;
        self.done += 1;
        self.last = now;
        if lap >= 2 {
            if lap - 2 < self.work.batches {
                self.batches.push(took);
            } else if lap - 2 < self.work.batches + self.work.singles {
                self.singles.push(took);
            }
        }
        if lap == 0 {
            Some(self.work.warm)
        } else if lap <= self.work.batches {
            Some(self.work.size)
        } else {
            (lap <= self.work.batches + self.work.singles).then_some(1)
        }
    }
}

/// The measurements of a round, in ticks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The number of operations in a batch.
    pub(crate) size: u32,
    /// The number of measured operations.
    pub(crate) operations: u64,
    /// The time of each batch.
    pub batches: Vec<u64>,
    /// The time of each single operation.
    pub(crate) singles: Vec<u64>,
    /// The calls per second of the node with the fewest calls, if several nodes call.
    pub(crate) least_per_second: Option<f64>,
    /// The ratio to bare loads that alternated with the operations, if there were any.
    pub(crate) ratio_to_load: Option<f64>,
    /// How the nodes of both sides have waited, if they counted it.
    pub(crate) waits: Option<Waits>,
}

impl Round {
    /// Creates a round that has only batches.
    pub fn of_batches(size: u32, batches: Vec<u64>) -> Round {
        let operations = u64::from(size) * batches.len() as u64;
        Round {
            size,
            operations,
            batches,
            singles: Vec::new(),
            least_per_second: None,
            ratio_to_load: None,
            waits: None,
        }
    }

    /// Adds what the second process's nodes counted.
    pub(crate) fn with_callee(mut self, callee: NodeCounts) -> Round {
        if let Some(waits) = &mut self.waits {
            waits.callee = callee;
        }
        self
    }

    /// Adds the operations of another round with batches of the same size.
    pub(crate) fn append(&mut self, other: Round) {
        self.operations += other.operations;
        self.batches.extend(other.batches);
        self.singles.extend(other.singles);
    }

    /// Creates a round of one batch from a time per operation that another process measured.
    pub fn told(size: u32, nanoseconds: f64) -> Round {
        let ticks = nanoseconds * f64::from(size) * ticks_per_second() as f64 / 1e9;
        Round::of_batches(size, vec![ticks.round() as u64])
    }

    /// Returns the nanoseconds of one operation at the percentile `rank` of the batches.
    pub fn ns_at(&self, rank: f64) -> f64 {
        let mut batches = self.batches.clone();
        batches.sort_unstable();
        let last = batches.len().saturating_sub(1);
        let at = (last as f64 * rank).round() as usize;
        let ticks = batches.get(at).copied().unwrap_or(0);
        nanoseconds(ticks as f64 / f64::from(self.size.max(1)))
    }

    /// Returns the mean nanoseconds of one operation, without the lowest and the highest 5% of the
    /// batches.
    pub fn mean_ns(&self) -> f64 {
        let mut batches = self.batches.clone();
        batches.sort_unstable();
        let out = batches.len() / 20;
        let middle = &batches[out..batches.len() - out];
        let sum: u64 = middle.iter().sum();
        let operations = middle.len() as f64 * f64::from(self.size);
        nanoseconds(sum as f64 / operations.max(1.0))
    }

    /// Returns the median nanoseconds of one operation.
    pub(crate) fn median_ns(&self) -> f64 {
        self.ns_at(0.5)
    }
}

/// Converts ticks to nanoseconds, with fractions.
pub fn nanoseconds(ticks: f64) -> f64 {
    ticks * 1e9 / ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::{Round, Shape, Work, nanoseconds};
    use std::time::Duration;
    use upbeat_memory::ticks::ticks_per_second;

    #[test]
    fn a_round_does_all_of_its_work_and_measures_the_right_parts() {
        let work = Work { warm: 5, batches: 3, size: 4, singles: 7 };
        let mut count = 0;
        let round = work.run(|| count += 1);
        assert_eq!(count, work.total());
        assert_eq!((round.batches.len(), round.singles.len(), round.size), (3, 7, 4));
        assert_eq!(round.operations, 19);
        assert_eq!(work.laps().collect::<Vec<_>>(), [5, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(Work::of(2, 1).laps().collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn a_failure_ends_a_round() {
        let mut count = 0;
        let failed = Work::of(4, 4).try_run(|| {
            count += 1;
            if count == 6 { Err(count) } else { Ok(()) }
        });
        assert_eq!(failed, Err(6));
    }

    #[test]
    fn plans_fit_the_time() {
        let millis = Duration::from_millis(6);
        let size = Work::size(Shape::Each, 100.0);
        let work = Work::planned(Shape::Each, size, 100.0, millis);
        assert_eq!(size, 50);
        assert!((55_000..=61_000).contains(&work.total()), "{work:?}");
        assert!(work.singles > 15_000);
        let size = Work::size(Shape::Each, 30_000.0);
        let work = Work::planned(Shape::Each, size, 30_000.0, millis);
        assert_eq!((work.size, work.batches, work.singles), (1, 200, 0));
        let bursts = Shape::Bursts(1000);
        let work = Work::planned(bursts, Work::size(bursts, 9.0), 9.0, millis);
        assert_eq!((work.size, work.singles), (1000, 0));
        assert!(Work::planned(Shape::Each, 1, 1e9, millis).batches == 2);
    }

    #[test]
    fn a_round_knows_its_median() {
        let tick = 1e9 / ticks_per_second() as f64;
        let round = Round::of_batches(10, vec![500, 100, 300]);
        assert!((round.median_ns() - 30.0 * tick).abs() < 1e-9);
        assert!((round.ns_at(0.0) - 10.0 * tick).abs() < 1e-9);
        assert!((round.ns_at(1.0) - 50.0 * tick).abs() < 1e-9);
        assert_eq!(Round::of_batches(1, vec![]).median_ns(), 0.0);
        assert!((Round::told(1000, 250.0).median_ns() - 250.0).abs() < 1.0);
        assert!((nanoseconds(ticks_per_second() as f64) - 1e9).abs() < 1.0);
    }
}
