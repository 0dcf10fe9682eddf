//! A result of a benchmark. Its fields are those of the JSON that programs read.

use crate::bench::stats::{Ratios, Summary};
use serde::Serialize;
use std::fmt;

/// Where the two CPUs were, as far as caches are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Placement {
    /// Two threads of one core.
    #[serde(rename = "one core")]
    OneCore,
    /// Two cores that share their last cache.
    #[serde(rename = "one L3")]
    OneL3,
    /// Two cores that share none.
    #[serde(rename = "two L3s")]
    TwoL3s,
    /// It changed in every round, so the figures belong to no placement.
    #[serde(rename = "unsettled")]
    Unsettled,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::OneCore => "one core",
            Placement::OneL3 => "one L3",
            Placement::TwoL3s => "two L3s",
            Placement::Unsettled => "unsettled",
        })
    }
}

/// One result: a case in a placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The group of cases: `limits`, `call`, `oneway`.
    pub bench: &'static str,
    /// The path of the case that was measured.
    pub case: String,
    /// Where the two CPUs were.
    pub placement: Placement,
    /// Operations measured.
    pub n: u64,
    /// The fastest batch, for one operation of it.
    pub min_ns: f64,
    /// The median batch, for one operation of it.
    pub p50_ns: f64,
    /// 99 of 100 operations are faster.
    pub p99_ns: f64,
    /// 999 of 1,000 operations are faster.
    pub p999_ns: f64,
    /// What an operation costs in others.
    #[serde(flatten)]
    pub compared: Compared,
    /// How much was done in a second.
    #[serde(flatten)]
    pub rates: Rates,
    /// Bytes of what cases differ by.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// How messages went.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Where the time went, item by item.
    #[serde(flatten)]
    pub bill: Option<Billed>,
    /// The rounds that it is of.
    #[serde(flatten)]
    pub kept: Kept,
    /// The CPUs: of the process that measures, and of the other.
    pub cpus: [usize; 2],
}

/// What an operation costs in others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The cost in round trips of two cache lines, polled at the better of two paces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_line: Option<f64>,
    /// The cost in round trips of two cache lines, polled without a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_tight: Option<f64>,
    /// The cost in round trips of two eventfds, both sides sleeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_eventfd: Option<f64>,
    /// A case that this one is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The cost in operations of that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_baseline: Option<f64>,
}

/// How much was done in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Messages, or calls in all, per second: by the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// 10^9 bytes per second: by the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes_per_second: Option<f64>,
    /// Calls per second of the node that got the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_per_second: Option<f64>,
}

/// Bytes of what cases differ by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// Bytes of memory that each idle session takes, in both processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_session: Option<f64>,
    /// Bytes of each message, where cases differ by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes of the ring that was the best of those tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bytes: Option<u64>,
}

/// How messages went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Frames of the protocol's own, of both sides, for each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_frames_per_message: Option<f64>,
    /// The part of the messages that were sent without reserving room, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimistic_percent: Option<f64>,
    /// The part of the messages that the receiver had no room for at first, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_percent: Option<f64>,
    /// Of the messages that came, the part that was polled and woke nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled_percent: Option<f64>,
}

/// The rounds that a result is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Operations in a batch.
    pub batch: u32,
    /// What p99 and p999 are of: `operations` timed one by one, or `batches`.
    pub tails_of: &'static str,
    /// Rounds that were kept.
    pub rounds: u64,
    /// Rounds that were dropped because the placement changed.
    pub rounds_dropped: u64,
}

impl Row {
    /// A row of a hundred operations that took so long each, for examples of what is said of rows.
    pub fn alike(bench: &'static str, case: &str, placement: Placement, ns: f64) -> Row {
        let said = Summary {
            n: 100,
            rounds: 7,
            batch: 1,
            single_tails: false,
            min_ns: ns,
            p50_ns: ns,
            p99_ns: ns,
            p999_ns: ns,
            least_per_second: None,
            ratios: Ratios::default(),
        };
        Row::new(bench, case, placement, &said)
    }

    /// A row with what every case has.
    pub(crate) fn new(
        bench: &'static str,
        case: &str,
        placement: Placement,
        said: &Summary,
    ) -> Row {
        Row {
            bench,
            case: case.to_owned(),
            placement,
            n: said.n,
            min_ns: rounded(said.min_ns),
            p50_ns: rounded(said.p50_ns),
            p99_ns: rounded(said.p99_ns),
            p999_ns: rounded(said.p999_ns),
            compared: Compared {
                ratio_to_line: said.ratios.line.map(rounded),
                ratio_to_tight: said.ratios.tight.map(rounded),
                ratio_to_eventfd: said.ratios.eventfd.map(rounded),
                baseline: None,
                ratio_to_baseline: said.ratios.baseline.map(rounded),
            },
            rates: Rates {
                least_per_second: said.least_per_second.map(rounded),
                ..Rates::default()
            },
            sizes: Sizes::default(),
            traffic: Traffic::default(),
            bill: None,
            kept: Kept {
                batch: said.batch,
                tails_of: if said.single_tails { "operations" } else { "batches" },
                rounds: said.rounds,
                rounds_dropped: 0,
            },
            cpus: [0, 0],
        }
    }
}

/// Where the time of an operation went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Billed {
    /// What each phase took, in the order in which they come.
    pub items: Vec<BilledItem>,
    /// The sum of all items.
    pub sum_ns: f64,
    /// The round trip of rounds without samples, which alternate with those with samples.
    pub measured_ns: f64,
    /// The part of `measured_ns` that is in no item: the median over the rounds.
    pub residual_percent: f64,
    /// How much longer calls take where one in 1,000 is sampled: the median over the rounds.
    pub sampled_percent: f64,
    /// Parts that were each measured alone.
    pub parts: Vec<BilledPart>,
    /// The sum of the parts, each as often as a call has it.
    pub estimate_ns: f64,
    /// By how much that is more than the round trip of rounds without samples.
    pub estimate_error_percent: f64,
    /// The time that one stamp takes. It is in no item.
    pub stamp_ns: f64,
    /// The time by which the mark of a sampled call makes it longer. It is in no item.
    pub mark_ns: f64,
    /// Samples that the items are made of.
    pub samples: u64,
}

/// An item of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledItem {
    /// Its name.
    pub item: &'static str,
    /// `here`, `wire` or `there`.
    pub place: &'static str,
    /// Its mean.
    pub ns: f64,
    /// Its part of the sum.
    pub percent: f64,
}

/// A part of an estimate, measured alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledPart {
    /// Its name.
    pub part: &'static str,
    /// What it takes once.
    pub ns: f64,
    /// How often a call has it; less than nothing where another part has too much of it.
    pub times: f64,
}

/// Three decimals are more than is known.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
