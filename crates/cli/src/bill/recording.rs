//! A recording: the data of every output of `upbeat bill`, collected from a running program or
//! loaded from a file.
//!
//! A recording consists of text and numbers, so that it can be saved, sent and compared. Other modules
//! collect it and draw conclusions from it. Invariant: a loaded recording has been checked: its ways and
//! items are known, each story has a time for each phase of its way, and no text contains characters that
//! control a terminal.

pub(crate) mod carried;
mod text;
mod event;
mod names;

use crate::bill::error::BillError;
use crate::bill::histogram::Histogram;
use carried::Carried;
pub(crate) use carried::Session;
pub(crate) use event::{Before, Ended, KeptThread};
use names::{item_in, item_out, leg_in, leg_out, way_in, way_out};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use text::clean;
pub(crate) use text::cleaned;
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::{MessageEvents, Way};
use upbeat_core::bill::{Counter, Item};

/// The format name at the beginning of a file.
const FORMAT: &str = "upbeat bill";
/// The version of the format.
const VERSION: u32 = 2;
/// The smallest numbers of values that have a p99 and a p99.9.
pub(crate) const P99_LEAST: u64 = 100;
pub(crate) const P999_LEAST: u64 = 1_000;
/// The largest size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The samples and counters of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    format: String,
    version: u32,
    /// The time when collecting ended, in seconds since 1970.
    pub(crate) taken: u64,
    /// The duration of collecting, in seconds.
    pub(crate) seconds: f64,
    /// The part of the recording that is older than the time of collecting.
    pub(crate) before: Before,
    /// The samples that no figure contains.
    pub(crate) missed: Missed,
    /// The nodes that were found.
    pub(crate) nodes: Vec<Node>,
    /// The kinds of messages that were sampled.
    pub(crate) subjects: Vec<Subject>,
    /// The sampled calls that ended without a result.
    pub(crate) ended: Vec<Ended>,
    /// The methods and tasks that kept the thread of their node for too long.
    pub(crate) kept: Vec<KeptThread>,
}

/// The numbers of samples that no figure contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missed {
    /// Samples that were overwritten by later ones before they were read.
    pub(crate) overwritten: u64,
    /// Samples that this version does not understand.
    pub(crate) unusable: u64,
    /// Samples of messages for whose names their node had no room.
    pub(crate) unnamed: u64,
}

/// A node of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// The node's name.
    pub(crate) name: String,
    /// The number of the node's process.
    pub(crate) pid: u32,
    /// The node's incarnation, as text, because JSON readers round large numbers.
    pub(crate) incarnation: String,
    /// Whether the node takes samples.
    pub(crate) samples: bool,
    /// The node's program.
    pub(crate) program: String,
    /// Whether the node has ended while it was observed.
    pub(crate) ended: bool,
    /// The node's counters by name: what was added while it was observed, or since the node began. None if the node
    /// is of a version with other counters.
    pub(crate) counters: Option<BTreeMap<String, u64>>,
}

/// A kind of message: a method, between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The node that calls or sends.
    pub(crate) from: String,
    /// The node that receives.
    pub(crate) to: String,
    pub(crate) service: String,
    pub(crate) method: String,
    #[serde(flatten)]
    pub(crate) carried: Carried,
    /// The way of the messages.
    #[serde(serialize_with = "way_out", deserialize_with = "way_in")]
    pub(crate) way: &'static Way,
    #[serde(flatten)]
    pub(crate) samples: Samples,
    /// The time from beginning to end.
    pub(crate) whole: Amount,
    pub(crate) totals: Histogram,
    /// The lines of the bill, in the order of the phases.
    pub(crate) lines: Vec<Line>,
    /// The causes of delays.
    pub(crate) causes: Vec<Delay>,
    /// The number of stories in which each event happened.
    pub(crate) happened: BTreeMap<String, u64>,
    /// The stories that the recording keeps, sorted by their beginning.
    pub(crate) told: Vec<MessageTimes>,
    /// The index of the story whose time is nearest to the median.
    pub(crate) typical: Option<usize>,
    /// The index of the story whose time is nearest to p99.9.
    pub(crate) slow: Option<usize>,
}

/// The numbers of samples of a kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// The number of full samples.
    pub(crate) stories: u64,
    /// The number of pairs of stamps.
    pub(crate) pairs: u64,
    /// The kind of samples from which the means are computed: `pairs` or `stories`.
    pub(crate) means_from: String,
    /// The time that a stamp takes, which no figure contains.
    pub(crate) stamp_ns: f64,
}

impl Samples {
    /// Returns the number of samples of both kinds.
    pub(crate) fn count(&self) -> u64 {
        self.stories.saturating_add(self.pairs)
    }
}

/// A mean and percentiles, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amount {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    /// None if there are fewer than a hundred values.
    pub(crate) p99: Option<f64>,
    /// None if there are fewer than a thousand values.
    pub(crate) p999: Option<f64>,
    pub(crate) max: f64,
}

impl Amount {
    /// Returns p99.9, or the maximum if there are too few values for that.
    pub(crate) fn slowest(&self) -> f64 {
        self.p999.unwrap_or(self.max)
    }
}

/// A line of the bill: an item in one leg.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(serialize_with = "item_out", deserialize_with = "item_in")]
    pub(crate) item: Item,
    #[serde(serialize_with = "leg_out", deserialize_with = "leg_in")]
    pub(crate) leg: Leg,
    #[serde(flatten)]
    pub(crate) ns: Amount,
    pub(crate) spread: Histogram,
}

/// The cause of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    /// The lane was full.
    Room,
    /// The callee slept.
    CalleeSlept,
    /// The caller slept when the reply came.
    CallerSlept,
    /// The callee was busy with other work.
    CalleeBusy,
    /// The caller was busy with other work when the reply came.
    CallerBusy,
    /// The handler ran for longer than its budget without a pause.
    Budget,
    /// The handler waited for a lock.
    Lock,
    /// The handler waited for a timer, a condition or an event.
    Wait,
    /// The handler waited for the reply of a node.
    Call,
    /// The handler was ready while other handlers ran.
    Queue,
    /// A step that is usually short was long, although nothing was waited for.
    Pause,
}

/// A cause of delays, the number of stories that it delayed, and the delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delay {
    pub(crate) cause: Cause,
    /// The name of the lock, of the condition or of the step, if the cause has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The number of delayed stories.
    pub(crate) stories: u64,
    /// The median of the delays.
    pub(crate) p50: f64,
    pub(crate) max: f64,
}

/// The times of one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageTimes {
    /// The beginning of the message, in nanoseconds after the first message of the recording.
    pub(crate) began_ns: f64,
    /// The nanoseconds of each phase of the way.
    pub(crate) phases: Vec<f64>,
    /// The events of the message, as the bits of [`MessageEvents`].
    pub(crate) happened: u32,
    /// The name of the lock or the condition that the handler waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<String>,
}

impl Recording {
    /// Creates an empty recording.
    pub(crate) fn new(taken: u64, seconds: f64) -> Recording {
        Recording {
            format: FORMAT.into(),
            version: VERSION,
            taken,
            seconds,
            before: Before::default(),
            missed: Missed::default(),
            nodes: Vec::new(),
            subjects: Vec::new(),
            ended: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Returns the recording as text that [`Recording::parse`] reads.
    pub(crate) fn text(&self) -> Result<String, BillError> {
        let text = serde_json::to_string(self).map_err(std::io::Error::from);
        text.map_err(BillError::Output)
    }

    /// Loads a recording from a file.
    pub(crate) fn load(path: &Path) -> Result<Recording, BillError> {
        let refused = |error| BillError::File { act: "read", path: path.into(), error };
        let bytes = std::fs::metadata(path).map_err(refused)?.len();
        let wrong = |error| BillError::Recording { path: path.into(), error };
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!(
                "it has {bytes} bytes; the largest permitted size is {FILE_BYTES_MAX}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(refused)?;
        Recording::parse(&text).map_err(wrong)
    }

    /// Parses a recording.
    pub(crate) fn parse(text: &str) -> Result<Recording, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if head.format != FORMAT {
            return Err(format!("its format is `{}`", cleaned(&head.format)));
        }
        if head.version != VERSION {
            return Err(format!(
                "the file has version {}, and this command reads version {VERSION}",
                head.version
            ));
        }
        let mut recording: Recording =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        recording.subjects.iter().try_for_each(Subject::check)?;
        recording.clean();
        Ok(recording)
    }

    /// Removes all subjects whose title does not contain the text.
    pub(crate) fn keep(&mut self, text: &str) -> Result<(), BillError> {
        let seen = self.subjects.iter().map(Subject::title).collect();
        let text = text.to_lowercase();
        self.subjects.retain(|subject| subject.title().to_lowercase().contains(&text));
        if self.subjects.is_empty() {
            return Err(BillError::NoSuchMethod { text, seen });
        }
        Ok(())
    }

    /// Returns the number of samples in the figures.
    pub(crate) fn samples(&self) -> u64 {
        self.subjects.iter().fold(0, |sum, subject| sum.saturating_add(subject.samples.count()))
    }

    /// Returns the sessions whose messages were sampled and whose carrier is known, in both directions.
    pub(crate) fn sessions(&self) -> Vec<Session<'_>> {
        let mut sessions: Vec<Session<'_>> = Vec::new();
        for subject in &self.subjects {
            let Some(carried) = subject.carried.words() else { continue };
            let (from, to) = (subject.from.as_str(), subject.to.as_str());
            let samples = subject.samples.count();
            let doubt = (subject.carried.doubt > 0.0).then_some(subject.carried.doubt);
            let same =
                |one: &&mut Session<'_>| (one.from, one.to, &one.carried) == (from, to, &carried);
            if let Some(known) = sessions.iter_mut().find(same) {
                known.samples = known.samples.saturating_add(samples);
                known.doubt = known.doubt.into_iter().chain(doubt).reduce(f64::max);
            } else {
                sessions.push(Session { from, to, carried, samples, doubt });
            }
        }
        sessions
    }

    fn clean(&mut self) {
        for node in &mut self.nodes {
            [&mut node.name, &mut node.incarnation, &mut node.program].into_iter().for_each(clean);
        }
        self.ended.iter_mut().for_each(Ended::clean);
        self.kept.iter_mut().for_each(KeptThread::clean);
        for subject in &mut self.subjects {
            let Subject { from, to, service, method, samples, .. } = subject;
            [from, to, service, method, &mut samples.means_from].into_iter().for_each(clean);
            let Carried { carrier, address, .. } = &mut subject.carried;
            carrier.iter_mut().chain(address).for_each(clean);
            subject.causes.iter_mut().filter_map(|delay| delay.name.as_mut()).for_each(clean);
            subject.told.iter_mut().filter_map(|told| told.lock.as_mut()).for_each(clean);
        }
    }
}

impl Node {
    /// Returns the value of a counter, or 0 if the node has no such counter.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        let value = |counters: &BTreeMap<String, u64>| counters.get(counter.name()).copied();
        self.counters.as_ref().and_then(value).unwrap_or(0)
    }
}

impl Subject {
    /// Returns the service and method.
    pub(crate) fn title(&self) -> String {
        format!("{}.{}", self.service, self.method)
    }

    /// Returns the name of the samples from which the means come.
    pub(crate) fn means_from(&self) -> &str {
        match self.samples.means_from.as_str() {
            "pairs" => "pairs of stamps, without the fastest and the slowest 5%",
            "stories" => "full samples",
            other => other,
        }
    }

    /// Returns the story whose time is nearest to the median.
    pub(crate) fn typical(&self) -> Option<&MessageTimes> {
        self.typical.and_then(|at| self.told.get(at))
    }

    /// Returns the story whose time is nearest to p99.9.
    pub(crate) fn slow(&self) -> Option<&MessageTimes> {
        self.slow.and_then(|at| self.told.get(at))
    }

    /// Returns the name of p99.9. With fewer than a thousand stories it is the slowest one.
    pub(crate) fn slow_name(&self) -> String {
        if self.samples.stories >= P999_LEAST {
            "p99.9".into()
        } else {
            format!("slowest of {} samples", self.samples.stories)
        }
    }

    /// Returns the node of a leg, or `None` for the wire.
    pub(crate) fn node_of(&self, leg: Leg) -> Option<&str> {
        match leg {
            Leg::Caller => Some(&self.from),
            Leg::Callee => Some(&self.to),
            Leg::Out | Leg::Back => None,
        }
    }

    /// Returns the possible error of a line's mean in nanoseconds, if it is larger than the mean.
    pub(crate) fn doubt_of(&self, line: &Line) -> Option<f64> {
        let compares = matches!(line.leg, Leg::Out | Leg::Back);
        (compares && self.carried.doubt > line.ns.mean).then_some(self.carried.doubt)
    }

    /// Returns the line's share of the mean, in percent.
    pub(crate) fn percent(&self, line: &Line) -> f64 {
        if self.whole.mean > 0.0 { 100.0 * line.ns.mean / self.whole.mean } else { 0.0 }
    }

    fn check(&self) -> Result<(), String> {
        let phases = self.way.phases.len();
        let whole = |told: &MessageTimes| {
            told.phases.len() == phases && told.phases.iter().all(|ns| ns.is_finite() && *ns >= 0.0)
        };
        if !self.told.iter().all(whole) {
            return Err(format!("a full sample of {} is incomplete", cleaned(&self.title())));
        }
        Ok(())
    }
}

impl MessageTimes {
    /// Returns the time from beginning to end.
    pub(crate) fn total(&self) -> f64 {
        self.phases.iter().sum()
    }

    /// Returns the kind (lock, condition or node) and the name of what the handler waited for longest.
    pub(crate) fn named(&self) -> Option<(&'static str, &str)> {
        Some((MessageEvents(self.happened).awaited(), self.lock.as_deref()?))
    }

    /// Returns the nanoseconds of the longest run of the handler, if that exceeded the budget of its method.
    pub(crate) fn run(&self) -> Option<f64> {
        MessageEvents(self.happened).run_us().map(|us| f64::from(us) * 1e3)
    }

    /// Returns the names of the events of the message.
    pub(crate) fn events(&self) -> impl Iterator<Item = &'static str> {
        MessageEvents(self.happened).names()
    }
}

#[cfg(test)]
mod tests;
