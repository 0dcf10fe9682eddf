//! How many messages took how long, in buckets that grow with the time: eight for each doubling.

use serde::{Deserialize, Serialize};

/// Buckets for each doubling.
const PER_DOUBLING: f64 = 8.0;
/// Buckets in all: the last begins after 500 years.
const BUCKETS: usize = 8 * 64;

/// Counts by time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    /// The place of the first count: its bucket begins at 2^(first/8) nanoseconds.
    first: usize,
    counts: Vec<u64>,
}

/// One bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Where it begins, in nanoseconds. Times below one are in the first of all.
    pub(crate) from: f64,
    /// Where it ends.
    pub(crate) to: f64,
    /// How many are in it.
    pub(crate) count: u64,
}

impl Histogram {
    /// Of these nanoseconds.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Histogram {
        let mut counts = vec![0; BUCKETS];
        for value in values {
            counts[place(value)] += 1;
        }
        let Some(first) = counts.iter().position(|count| *count > 0) else {
            return Histogram::default();
        };
        let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
        Histogram { first, counts: counts[first..=last].to_vec() }
    }

    /// Its buckets, from the first to the last that has any.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let first = self.first.min(BUCKETS);
        self.counts.iter().take(BUCKETS - first).enumerate().map(move |(nth, count)| Bucket {
            from: begins(first + nth),
            to: begins(first + nth + 1),
            count: *count,
        })
    }

    /// The most in one bucket.
    pub(crate) fn most(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

fn begins(place: usize) -> f64 {
    (place as f64 / PER_DOUBLING).exp2()
}

fn place(value: f64) -> usize {
    // What is below one or no number is in the first.
    ((value.max(1.0).log2() * PER_DOUBLING) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_the_bucket_around_it() {
        let values = [0.0, 0.5, 1.0, 3.0, 99.0, 1e6, 1e6, 7e9];
        let histogram = Histogram::of(values);
        let buckets: Vec<Bucket> = histogram.buckets().collect();
        assert_eq!(buckets.iter().map(|one| one.count).sum::<u64>(), values.len() as u64);
        assert_eq!(histogram.most(), 3);
        for value in values.into_iter().filter(|value| *value >= 1.0) {
            let inside = |one: &&Bucket| one.from <= value && value < one.to && one.count > 0;
            assert!(buckets.iter().any(|one| inside(&one)), "{value}");
        }
    }

    #[test]
    fn any_values_do_no_harm() {
        let histogram = Histogram::of([f64::NAN, f64::INFINITY, -4.0, f64::MAX]);
        assert_eq!(histogram.buckets().map(|one| one.count).sum::<u64>(), 4);
        assert_eq!(Histogram::of([]).buckets().count(), 0);
        let hostile = Histogram { first: usize::MAX, counts: vec![1; 3] };
        assert_eq!(hostile.buckets().count(), 0);
    }
}
