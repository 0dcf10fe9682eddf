//! A histogram of times, in buckets that grow with the time: eight buckets for each doubling.

use serde::{Deserialize, Serialize};

/// The number of buckets for each doubling.
const PER_DOUBLING: f64 = 8.0;
/// The number of buckets. The last bucket begins at 500 years.
const BUCKETS: usize = 8 * 64;

/// The numbers of times in each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    /// The index of the first count. Its bucket begins at 2^(first/8) nanoseconds.
    first: usize,
    counts: Vec<u64>,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// The beginning of the bucket, in nanoseconds. The first bucket also has the times below one.
    pub(crate) from: f64,
    /// The end of the bucket, in nanoseconds.
    pub(crate) to: f64,
    /// The number of times in the bucket.
    pub(crate) count: u64,
}

impl Histogram {
    /// Creates the histogram of some times in nanoseconds.
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

    /// Returns the buckets, from the first to the last that is not empty.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let first = self.first.min(BUCKETS);
        self.counts.iter().take(BUCKETS - first).enumerate().map(move |(nth, count)| Bucket {
            from: begins(first + nth),
            to: begins(first + nth + 1),
            count: *count,
        })
    }

    /// Returns the largest count of a bucket.
    pub(crate) fn most(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

fn begins(place: usize) -> f64 {
    (place as f64 / PER_DOUBLING).exp2()
}

fn place(value: f64) -> usize {
    // Times below one, and values that are not numbers, are in the first bucket.
    ((value.max(1.0).log2() * PER_DOUBLING) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_its_bucket() {
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
    fn extreme_values_do_not_panic() {
        let histogram = Histogram::of([f64::NAN, f64::INFINITY, -4.0, f64::MAX]);
        assert_eq!(histogram.buckets().map(|one| one.count).sum::<u64>(), 4);
        assert_eq!(Histogram::of([]).buckets().count(), 0);
        let hostile = Histogram { first: usize::MAX, counts: vec![1; 3] };
        assert_eq!(hostile.buckets().count(), 0);
    }
}
