//! The samples of many rounds, and their summary.
//!
//! Minimum and median are those of batches; the 99th and 99.9th percentiles are those of operations that
//! were timed one by one (`timing` gives the reason). Ratios are medians of each round's ratio to its
//! own neighbours, so that drift cancels.

use crate::bench::timing::{Round, nanoseconds};
use crate::bench::waits::Waits;
use hdrhistogram::Histogram;

/// The significant digits of a histogram.
const DIGITS: u8 = 3;

/// The measurements of one case in one placement.
pub(crate) struct Figures {
    size: u32,
    batches: Histogram<u64>,
    singles: Histogram<u64>,
    operations: u64,
    rounds: u64,
    least: Vec<f64>,
    line: Vec<f64>,
    tight: Vec<f64>,
    eventfd: Vec<f64>,
    baseline: Vec<f64>,
    load: Vec<f64>,
    waits: Option<Waits>,
}

/// The ratios of a round to the measurements next to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ratios {
    /// The ratio to a round trip of two lines at the best rate of polling.
    pub(crate) line: Option<f64>,
    /// The ratio to a round trip of two lines polled without a pause.
    pub(crate) tight: Option<f64>,
    /// The ratio to a round trip of two eventfds, with both sides sleeping.
    pub(crate) eventfd: Option<f64>,
    /// The ratio to another case.
    pub(crate) baseline: Option<f64>,
    /// The ratio to bare loads of the same bytes.
    pub(crate) load: Option<f64>,
}

/// The summary of the measurements, in nanoseconds per operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The number of measured operations.
    pub(crate) n: u64,
    /// The number of rounds.
    pub(crate) rounds: u64,
    /// The number of operations in a batch.
    pub(crate) batch: u32,
    /// Whether the 99th and higher percentiles are those of single operations.
    pub(crate) single_tails: bool,
    /// The fastest batch.
    pub(crate) min_ns: f64,
    /// The median batch.
    pub(crate) p50_ns: f64,
    /// The 99th percentile.
    pub(crate) p99_ns: f64,
    /// The 99.9th percentile.
    pub(crate) p999_ns: f64,
    /// The median calls per second of the node with the fewest calls.
    pub(crate) least_per_second: Option<f64>,
    /// The medians of the rounds' ratios.
    pub(crate) ratios: Ratios,
    /// How the nodes of both sides have waited, if they counted it.
    pub(crate) waits: Option<Waits>,
}

impl Figures {
    /// Creates empty figures for batches of `size`.
    pub(crate) fn new(size: u32) -> Figures {
        let histogram = || Histogram::new(DIGITS).expect("3 digits are allowed");
        Figures {
            size,
            batches: histogram(),
            singles: histogram(),
            operations: 0,
            rounds: 0,
            least: Vec::new(),
            line: Vec::new(),
            tight: Vec::new(),
            eventfd: Vec::new(),
            baseline: Vec::new(),
            load: Vec::new(),
            waits: None,
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, round: &Round, ratios: Ratios) {
        record(&mut self.batches, &round.batches);
        record(&mut self.singles, &round.singles);
        self.operations += round.operations;
        self.rounds += 1;
        self.least.extend(round.least_per_second);
        self.line.extend(ratios.line);
        self.tight.extend(ratios.tight);
        self.eventfd.extend(ratios.eventfd);
        self.baseline.extend(ratios.baseline);
        self.load.extend(round.ratio_to_load);
        if let Some(waits) = round.waits {
            *self.waits.get_or_insert_default() += waits;
        }
    }

    /// Returns the number of rounds.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns the summary of all rounds.
    pub(crate) fn summary(&self) -> Summary {
        let size = f64::from(self.size.max(1));
        let batch = |rank: f64| nanoseconds(self.batches.value_at_quantile(rank) as f64 / size);
        let single_tails = !self.singles.is_empty();
        let tail = |rank: f64| match single_tails {
            true => nanoseconds(self.singles.value_at_quantile(rank) as f64),
            false => batch(rank),
        };
        Summary {
            n: self.operations,
            rounds: self.rounds,
            batch: self.size,
            single_tails: single_tails || self.size == 1,
            min_ns: nanoseconds(self.batches.min() as f64 / size),
            p50_ns: batch(0.5),
            p99_ns: tail(0.99),
            p999_ns: tail(0.999),
            least_per_second: median(&self.least),
            ratios: Ratios {
                line: median(&self.line),
                tight: median(&self.tight),
                eventfd: median(&self.eventfd),
                baseline: median(&self.baseline),
                load: median(&self.load),
            },
            waits: self.waits,
        }
    }
}

fn record(histogram: &mut Histogram<u64>, values: &[u64]) {
    histogram.auto(true);
    for &value in values {
        // A resizable histogram refuses only values near the maximum, which are centuries.
        let _ = histogram.record(value.max(1));
    }
}

/// Returns the median: of two numbers in the middle their mean, and `None` without numbers.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Ratios, median};
    use crate::bench::timing::{Round, nanoseconds};

    fn close(found: f64, wanted_ticks: f64) {
        let wanted = nanoseconds(wanted_ticks);
        assert!((found - wanted).abs() <= wanted * 0.002, "{found} is not {wanted}");
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn medians_come_from_batches_and_percentiles_from_single_operations() {
        let mut figures = Figures::new(10);
        let mut round = Round::of_batches(10, (1..=1000).map(|i| i * 10).collect());
        round.singles = (1..=1000).map(|i| i * 100).collect();
        round.operations += 1000;
        figures.add(&round, Ratios { line: Some(1.5), ..Ratios::default() });
        figures.add(&round, Ratios { line: Some(0.5), tight: Some(2.0), ..Ratios::default() });
        figures.add(&round, Ratios { line: Some(0.9), ..Ratios::default() });
        let said = figures.summary();
        assert_eq!((said.n, said.rounds, said.batch, said.single_tails), (33_000, 3, 10, true));
        close(said.min_ns, 1.0);
        close(said.p50_ns, 500.0);
        close(said.p99_ns, 99_000.0);
        close(said.p999_ns, 99_900.0);
        let ratios = Ratios { line: Some(0.9), tight: Some(2.0), ..Ratios::default() };
        assert_eq!(said.ratios, ratios);
    }

    #[test]
    fn without_single_operations_percentiles_are_those_of_batches() {
        let mut figures = Figures::new(4);
        let round = Round::of_batches(4, (1..=1000).map(|i| i * 4).collect());
        figures.add(&round, Ratios::default());
        let said = figures.summary();
        assert!(!said.single_tails);
        close(said.p99_ns, 990.0);
        let mut alone = Figures::new(1);
        alone.add(&Round { size: 1, ..round }, Ratios::default());
        assert!(alone.summary().single_tails, "batches of one are single operations");
    }

    #[test]
    fn empty_figures_have_no_ratios() {
        let said = Figures::new(1).summary();
        assert_eq!((said.n, said.rounds, said.p50_ns), (0, 0, 0.0));
        assert_eq!(said.ratios, Ratios::default());
    }
}
