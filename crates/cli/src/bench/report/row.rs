//! A result of a benchmark. Its fields are those of the JSON that programs read.

use crate::bench::stats::{Ratios, Summary};
use serde::Serialize;
use std::fmt;

/// The placement of the two CPUs relative to caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Placement {
    /// The CPUs are two threads of one core.
    #[serde(rename = "one core")]
    OneCore,
    /// The CPUs are two cores that share their last cache.
    #[serde(rename = "one L3")]
    OneL3,
    /// The CPUs are two cores that share no cache.
    #[serde(rename = "two L3s")]
    TwoL3s,
    /// The placement changed in every round, so the figures belong to no placement.
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

/// The result of a case in a placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The group of cases: `limits`, `call`, `oneway`, `read`.
    pub bench: &'static str,
    /// The path of the measured case.
    pub case: String,
    /// The placement of the two CPUs.
    pub placement: Placement,
    /// The number of measured operations.
    pub n: u64,
    /// The fastest batch, per operation.
    pub min_ns: f64,
    /// The median batch, per operation.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile.
    pub p999_ns: f64,
    /// The cost of an operation, relative to other operations.
    #[serde(flatten)]
    pub compared: Compared,
    /// The throughput.
    #[serde(flatten)]
    pub rates: Rates,
    /// The sizes by which cases differ, in bytes.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// The ways in which messages were sent.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The time of an operation, item by item.
    #[serde(flatten)]
    pub bill: Option<Billed>,
    /// The rounds of the result.
    #[serde(flatten)]
    pub kept: Kept,
    /// The CPU of the measuring process, and the CPU of the other.
    pub cpus: [usize; 2],
}

/// The cost of an operation, relative to other operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The cost in round trips of two cache lines, polled at the better of two rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_line: Option<f64>,
    /// The cost in round trips of two cache lines, polled without a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_tight: Option<f64>,
    /// The cost in round trips of two eventfds, with both sides sleeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_eventfd: Option<f64>,
    /// The case that this one is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The cost in operations of that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_baseline: Option<f64>,
    /// The cost in bare loads, or copies, of the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_load: Option<f64>,
}

/// The throughput of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// The median of messages, or of all calls, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The median of 10^9 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes_per_second: Option<f64>,
    /// The calls per second of the node with the fewest calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_per_second: Option<f64>,
}

/// The sizes by which cases differ, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// The memory of each idle session, in both processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_session: Option<f64>,
    /// The size of each message, if cases differ by the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The size of the fastest ring that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bytes: Option<u64>,
}

/// The ways in which messages were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// The number of frames of the protocol's own, of both sides, per message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_frames_per_message: Option<f64>,
    /// The share of messages that were sent without reserving room, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimistic_percent: Option<f64>,
    /// The share of messages that the receiver had no room for at first, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_percent: Option<f64>,
    /// The share of received messages that were polled and caused no wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled_percent: Option<f64>,
    /// The share of those reads that were to be made in memory and became calls, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_percent: Option<f64>,
    /// How often the calling node slept for each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_sleeps: Option<f64>,
    /// How often the called node slept for each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callee_sleeps: Option<f64>,
}

/// A case that was measured and gives no figure, because its nodes did not wait as its name says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The group of cases.
    pub bench: &'static str,
    /// The path of the case.
    pub case: String,
    /// The placement of the two CPUs.
    pub placement: Placement,
    /// The reason.
    pub left_out: String,
    /// How often the calling node slept for each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_sleeps: Option<f64>,
    /// How often the called node slept for each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callee_sleeps: Option<f64>,
    /// The CPU of the measuring process, and the CPU of the other.
    pub cpus: [usize; 2],
}

/// The rounds of a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// The number of operations in a batch.
    pub batch: u32,
    /// The kind of samples of p99 and p999: `operations` timed one by one, or `batches`.
    pub tails_of: &'static str,
    /// The number of rounds that were kept.
    pub rounds: u64,
    /// The number of rounds that were dropped because the placement changed.
    pub rounds_dropped: u64,
}

impl Row {
    /// Creates a row of a hundred operations of equal duration, for examples and tests.
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
            waits: None,
        };
        Row::new(bench, case, placement, &said)
    }

    /// Creates a row with the figures that every case has.
    pub(crate) fn new(
        bench: &'static str,
        case: &str,
        placement: Placement,
        said: &Summary,
    ) -> Row {
        let sleeps = said.waits.map(|waits| waits.sleeps_per_operation()).unwrap_or_default();
        let [caller_sleeps, callee_sleeps] = sleeps.map(|sleeps| sleeps.map(rounded));
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
                ratio_to_load: said.ratios.load.map(rounded),
            },
            rates: Rates {
                least_per_second: said.least_per_second.map(rounded),
                ..Rates::default()
            },
            sizes: Sizes::default(),
            traffic: Traffic { caller_sleeps, callee_sleeps, ..Traffic::default() },
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

impl Row {
    /// Returns what stands in place of the row if the case did not measure what it is named after.
    pub(crate) fn without_figures(self, reason: String) -> LeftOut {
        let Traffic { caller_sleeps, callee_sleeps, .. } = self.traffic;
        let Row { bench, case, placement, cpus, .. } = self;
        LeftOut { bench, case, placement, left_out: reason, caller_sleeps, callee_sleeps, cpus }
    }
}

/// The time of an operation, item by item.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Billed {
    /// The phases in their order.
    pub items: Vec<BilledItem>,
    /// The sum of all items.
    pub sum_ns: f64,
    /// The round trip in rounds without samples, which alternate with rounds with samples.
    pub measured_ns: f64,
    /// The share of `measured_ns` that is in no item: the median over the rounds.
    pub residual_percent: f64,
    /// The slowdown of calls if one in 1,000 is sampled: the median over the rounds.
    pub sampled_percent: f64,
    /// The parts, each measured alone.
    pub parts: Vec<BilledPart>,
    /// The sum of the parts, each multiplied by its number in a call.
    pub estimate_ns: f64,
    /// The excess of the estimate over the round trip in rounds without samples.
    pub estimate_error_percent: f64,
    /// The time of one stamp, which no item contains.
    pub stamp_ns: f64,
    /// The time by which the mark of a sampled call delays the call, which no item contains.
    pub mark_ns: f64,
    /// The number of samples of the items.
    pub samples: u64,
}

/// An item of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledItem {
    /// The name of the item.
    pub item: &'static str,
    /// The place: `here`, `wire` or `there`.
    pub place: &'static str,
    /// The mean of the item.
    pub ns: f64,
    /// The item's share of the sum.
    pub percent: f64,
}

/// A part of an estimate, measured alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledPart {
    /// The name of the part.
    pub part: &'static str,
    /// The time of the part.
    pub ns: f64,
    /// The number of the part in a call; negative if another part contains too much of it.
    pub times: f64,
}

/// Rounds to three decimals, because more are not known.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
