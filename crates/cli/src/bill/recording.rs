//! A recording: what every output of `upbeat bill` shows, collected from a running program or
//! loaded from a file.
//!
//! It is text and numbers alone, so that it can be kept, sent and held against another. How it is
//! collected and what is concluded from it is said elsewhere. Invariant: a recording that was
//! loaded has been checked: its ways and items are known, each story has a phase for each of its
//! way, and no text in it has characters that would command a terminal.

pub(crate) mod carried;

use crate::bill::error::BillError;
use crate::bill::histogram::Histogram;
use carried::Carried;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::Path;
use upbeat_core::bill::way::{Happened, Place, WAYS, Way};
use upbeat_core::bill::{Counter, Item};

/// What a file begins with.
const FORMAT: &str = "upbeat bill";
/// The version of the file's meaning.
const VERSION: u32 = 1;
/// A file that is longer is not read.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Everything that was collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    format: String,
    version: u32,
    /// When collecting ended, in seconds since 1970.
    pub(crate) taken: u64,
    /// For so long it was collected.
    pub(crate) seconds: f64,
    /// Samples that are in no figure.
    pub(crate) missed: Missed,
    /// The nodes that were seen.
    pub(crate) nodes: Vec<Node>,
    /// What was sampled.
    pub(crate) subjects: Vec<Subject>,
}

/// Samples that are in no figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missed {
    /// Later ones took their place before they were read.
    pub(crate) overwritten: u64,
    /// They say what this version does not understand.
    pub(crate) unusable: u64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Its name.
    pub(crate) name: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Its incarnation, as text: programs that read JSON have no such numbers.
    pub(crate) incarnation: String,
    /// Whether it takes samples.
    pub(crate) samples: bool,
    /// Its counters by name, since it began.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// One kind of message: a method, between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The node that calls or sends.
    pub(crate) from: String,
    /// The node that it is for.
    pub(crate) to: String,
    pub(crate) service: String,
    pub(crate) method: String,
    #[serde(flatten)]
    pub(crate) carried: Carried,
    /// The way of its messages.
    #[serde(serialize_with = "way_out", deserialize_with = "way_in")]
    pub(crate) way: &'static Way,
    #[serde(flatten)]
    pub(crate) samples: Samples,
    /// From beginning to end.
    pub(crate) whole: Amount,
    pub(crate) totals: Histogram,
    /// Where the time went, in the order in which messages meet it.
    pub(crate) lines: Vec<Line>,
    /// What made messages late.
    pub(crate) causes: Vec<Delay>,
    /// How many stories something happened to.
    pub(crate) happened: BTreeMap<String, u64>,
    /// Some of the stories, by when they began.
    pub(crate) told: Vec<Told>,
    /// The one whose time is nearest to the median.
    pub(crate) typical: Option<usize>,
    /// The one whose time is nearest to p99.9.
    pub(crate) slow: Option<usize>,
}

/// The samples of a kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Whole stories among them.
    pub(crate) stories: u64,
    /// Pairs among them.
    pub(crate) pairs: u64,
    /// The samples that the means are taken of: `pairs` or `stories`.
    pub(crate) means_from: String,
    /// The time that a stamp takes. It is in no figure.
    pub(crate) stamp_ns: f64,
}

impl Samples {
    /// Returns how many there are of both kinds.
    pub(crate) fn count(&self) -> u64 {
        self.stories.saturating_add(self.pairs)
    }
}

/// Nanoseconds: the mean, and how single messages are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amount {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// A line of the bill: an item, at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(serialize_with = "item_out", deserialize_with = "item_in")]
    pub(crate) item: Item,
    pub(crate) leg: Leg,
    #[serde(flatten)]
    pub(crate) ns: Amount,
    pub(crate) spread: Histogram,
}

/// A part of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Leg {
    /// At the node that calls or sends.
    Caller,
    /// From there to the other.
    Out,
    /// At the node that it is for.
    Callee,
    /// From there back.
    Back,
}

/// What makes messages late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    /// The lane was full.
    Room,
    /// The node that it is for slept.
    CalleeSlept,
    /// The caller slept when the answer came.
    CallerSlept,
    /// The node that it is for was busy with something else.
    CalleeBusy,
    /// The caller was busy with something else when the answer came.
    CallerBusy,
    /// The handler ran for longer than its budget without a pause.
    Budget,
    /// The handler waited for a lock.
    Lock,
    /// The handler waited for something else.
    Wait,
    /// The handler was ready, and others ran.
    Queue,
    /// A step that is short by nature was long: nobody waited for anything.
    Pause,
}

/// A cause of delay, in how many stories, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delay {
    pub(crate) cause: Cause,
    /// The lock's name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Stories that it made late.
    pub(crate) stories: u64,
    /// How late, of those.
    pub(crate) p50: f64,
    pub(crate) max: f64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// When it began, in nanoseconds after the first of the recording.
    pub(crate) began_ns: f64,
    /// What each phase of its way took.
    pub(crate) phases: Vec<f64>,
    /// What happened to it, a bit each.
    pub(crate) happened: u32,
    /// The lock that it waited for, or the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<String>,
}

/// A session of which messages were sampled, in the direction of requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session<'r> {
    pub(crate) from: &'r str,
    pub(crate) to: &'r str,
    /// What carries it, and the peer's address.
    pub(crate) carried: String,
    pub(crate) samples: u64,
    /// Nanoseconds by which what is on the wire may be wrong, where the clocks are of two hosts.
    pub(crate) doubt: Option<f64>,
}

impl Recording {
    /// An empty one.
    pub(crate) fn new(taken: u64, seconds: f64) -> Recording {
        Recording {
            format: FORMAT.into(),
            version: VERSION,
            taken,
            seconds,
            missed: Missed::default(),
            nodes: Vec::new(),
            subjects: Vec::new(),
        }
    }

    /// It as text, to be loaded again.
    pub(crate) fn text(&self) -> Result<String, BillError> {
        let text = serde_json::to_string(self).map_err(std::io::Error::from);
        text.map_err(BillError::Output)
    }

    /// Reads one from a file.
    pub(crate) fn load(path: &Path) -> Result<Recording, BillError> {
        let refused = |error| BillError::File { act: "read", path: path.into(), error };
        let bytes = std::fs::metadata(path).map_err(refused)?.len();
        let wrong = |error| BillError::Recording { path: path.into(), error };
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!("it has {bytes} bytes, the most are {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(refused)?;
        Recording::parse(&text).map_err(wrong)
    }

    /// Reads one from text.
    pub(crate) fn parse(text: &str) -> Result<Recording, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if head.format != FORMAT {
            return Err(format!("it is of the format `{}`", cleaned(&head.format)));
        }
        if head.version != VERSION {
            return Err(format!("it is of version {}, this is {VERSION}", head.version));
        }
        let mut recording: Recording =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        recording.subjects.iter().try_for_each(Subject::check)?;
        recording.clean();
        Ok(recording)
    }

    /// Leaves only subjects whose title has this text in it.
    pub(crate) fn keep(&mut self, text: &str) -> Result<(), BillError> {
        let seen = self.subjects.iter().map(Subject::title).collect();
        let text = text.to_lowercase();
        self.subjects.retain(|subject| subject.title().to_lowercase().contains(&text));
        if self.subjects.is_empty() {
            return Err(BillError::NoSuchMethod { text, seen });
        }
        Ok(())
    }

    /// All samples that are in its figures.
    pub(crate) fn samples(&self) -> u64 {
        self.subjects.iter().fold(0, |sum, subject| sum.saturating_add(subject.samples.count()))
    }

    /// The sessions of which messages were sampled, in both directions, as far as it is known what carries them.
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
            clean(&mut node.name);
            clean(&mut node.incarnation);
        }
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
    /// What a counter says; 0 if the node has no such counter.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.counters.get(counter.name()).copied().unwrap_or(0)
    }
}

impl Subject {
    /// Service and method.
    pub(crate) fn title(&self) -> String {
        format!("{}.{}", self.service, self.method)
    }

    /// The story whose time is nearest to the median.
    pub(crate) fn typical(&self) -> Option<&Told> {
        self.typical.and_then(|at| self.told.get(at))
    }

    /// The story whose time is nearest to p99.9.
    pub(crate) fn slow(&self) -> Option<&Told> {
        self.slow.and_then(|at| self.told.get(at))
    }

    /// What p99.9 is called: of fewer than a thousand stories it is simply the slowest.
    pub(crate) fn slow_name(&self) -> String {
        if self.samples.stories >= 1000 {
            "p99.9".into()
        } else {
            format!("slowest of {} samples", self.samples.stories)
        }
    }

    /// The node at which a leg is, or None on the wire.
    pub(crate) fn node_of(&self, leg: Leg) -> Option<&str> {
        match leg {
            Leg::Caller => Some(&self.from),
            Leg::Callee => Some(&self.to),
            Leg::Out | Leg::Back => None,
        }
    }

    /// By so many nanoseconds the mean of a line may be wrong, where that is more than the line itself.
    pub(crate) fn doubt_of(&self, line: &Line) -> Option<f64> {
        let compares = matches!(line.leg, Leg::Out | Leg::Back);
        (compares && self.carried.doubt > line.ns.mean).then_some(self.carried.doubt)
    }

    /// The part of the mean, in percent.
    pub(crate) fn percent(&self, line: &Line) -> f64 {
        if self.whole.mean > 0.0 { 100.0 * line.ns.mean / self.whole.mean } else { 0.0 }
    }

    fn check(&self) -> Result<(), String> {
        let phases = self.way.phases.len();
        let whole = |told: &Told| {
            told.phases.len() == phases && told.phases.iter().all(|ns| ns.is_finite() && *ns >= 0.0)
        };
        if !self.told.iter().all(whole) {
            return Err(format!("a story of {} is not whole", cleaned(&self.title())));
        }
        Ok(())
    }
}

impl Told {
    /// From beginning to end.
    pub(crate) fn total(&self) -> f64 {
        self.phases.iter().sum()
    }

    /// What it waited for that has a name: the word for it, and the name.
    pub(crate) fn named(&self) -> Option<(&'static str, &str)> {
        let is_condition = Happened(self.happened).has(Happened::CONDITION);
        Some((if is_condition { "condition" } else { "lock" }, self.lock.as_deref()?))
    }

    /// What happened to it, in words.
    pub(crate) fn events(&self) -> impl Iterator<Item = &'static str> {
        let happened = Happened(self.happened);
        Happened::ALL.into_iter().filter(move |(one, _)| happened.has(*one)).map(|(_, name)| name)
    }
}

impl Leg {
    /// Its name, in one word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Leg::Caller => "caller",
            Leg::Out => "out",
            Leg::Callee => "callee",
            Leg::Back => "back",
        }
    }

    /// The leg of each phase of a way.
    pub(crate) fn of(way: &Way) -> impl Iterator<Item = Leg> + '_ {
        let mut arrived = false;
        way.phases.iter().map(move |phase| {
            arrived |= phase.place == Place::There;
            match phase.place {
                Place::Here => Leg::Caller,
                Place::There => Leg::Callee,
                Place::Wire if arrived => Leg::Back,
                Place::Wire => Leg::Out,
            }
        })
    }
}

/// Takes out what would command a terminal or turn the direction of what is written after it.
pub(crate) fn cleaned(text: &str) -> String {
    const DIRECTIONS: [char; 5] = ['\u{200e}', '\u{200f}', '\u{061c}', '\u{2028}', '\u{2029}'];
    let harmless = |one: char| {
        !one.is_control()
            && !matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            && !DIRECTIONS.contains(&one)
    };
    text.chars().map(|one| if harmless(one) { one } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn clean(text: &mut String) {
    *text = cleaned(text);
}

fn way_out<S: Serializer>(way: &&'static Way, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(way.name)
}

fn way_in<'de, D: Deserializer<'de>>(from: D) -> Result<&'static Way, D::Error> {
    let name = String::deserialize(from)?;
    let known = WAYS.iter().copied().find(|way| way.name == name);
    known.ok_or_else(|| serde::de::Error::custom(format_args!("unknown way `{}`", cleaned(&name))))
}

fn item_out<S: Serializer>(item: &Item, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(item.name())
}

fn item_in<'de, D: Deserializer<'de>>(from: D) -> Result<Item, D::Error> {
    let name = String::deserialize(from)?;
    let known = Item::ALL.iter().copied().find(|item| item.name() == name);
    known.ok_or_else(|| serde::de::Error::custom(format_args!("unknown item `{}`", cleaned(&name))))
}

#[cfg(test)]
mod tests;
