//! Makes a recording from the samples in a program's pages.
//!
//! Pages are read repeatedly while their owner writes; the owner does nothing for it.
//! Invariant: every record of a page is either added to the recording or counted as missed.

use crate::bill::delay::delays;
use crate::bill::histogram::Histogram;
use crate::bill::recording::carried::Carried;
use crate::bill::recording::{
    Amount, Leg, Line, MessageTimes, Missed, Node, Recording, Samples, Subject, cleaned,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use upbeat_core::bill::Counter;
use upbeat_core::bill::collected::{
    Breakdown, CollectedSamples, MeanSource, PhaseTime, Spread, Story,
};
use upbeat_core::bill::way::{MessageEvents, StampMode, WAYS, Way};
use upbeat_memory::counters::CountersView;
use upbeat_memory::samples::{RECORDS, Record, SamplesView};

/// The number of slowest stories of a subject that the recording keeps.
const TOLD_SLOWEST: usize = 16;
/// The number of other stories that the recording keeps, evenly spread over the time.
const TOLD_OTHERS: usize = 48;

/// The samples of all pages, grouped by kind of message.
#[derive(Default)]
pub(crate) struct Collector {
    groups: BTreeMap<Key, Group>,
    missed: Missed,
}

/// The properties that are common to the samples of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    from: String,
    to: String,
    service: String,
    method: String,
    carrier: Option<String>,
    address: Option<String>,
    kind: u8,
    /// The frequency of the clock that made the stamps.
    ticks_per_second: u64,
}

struct Group {
    collected: CollectedSamples,
    /// The names of locks. The note of a story is an index into this list, counted from 1.
    locks: Vec<String>,
}

/// A node's page, and the position up to which it was read.
pub(crate) struct Source {
    view: SamplesView,
    next: u64,
    texts: HashMap<u16, String>,
}

impl Source {
    /// Creates a source that starts at the oldest record of the page.
    pub(crate) fn new(view: SamplesView) -> Source {
        let next = view.oldest();
        Source { view, next, texts: HashMap::new() }
    }

    /// Returns the text of a subject, if the node has entered it.
    fn text(&mut self, number: u16) -> Option<String> {
        if let Some(text) = self.texts.get(&number) {
            return Some(text.clone());
        }
        let text = self.view.subject(number)?;
        self.texts.insert(number, text.clone());
        Some(text)
    }

    /// Returns the group of a record. For a call the record is in the caller's page, for a one-way message
    /// in the receiver's.
    fn key(&mut self, record: &Record) -> Option<Key> {
        let text = self.text(record.subject)?;
        let mut lines = text.splitn(5, '\n').map(cleaned);
        let (peer, service, method) = (lines.next()?, lines.next()?, lines.next()?);
        let mut rest = || lines.next().filter(|text| !text.is_empty());
        let (carrier, address) = (rest(), rest());
        let us = cleaned(&self.view.node());
        let way = WAYS.get(usize::from(record.kind))?;
        let (from, to) = if way.is_answered() { (us, peer) } else { (peer, us) };
        let ticks_per_second = self.view.ticks_per_second();
        let kind = record.kind;
        Some(Key { from, to, service, method, carrier, address, kind, ticks_per_second })
    }
}

impl Collector {
    /// Adds the records that were written to a page since the last read.
    pub(crate) fn look(&mut self, source: &mut Source) {
        let (written, oldest) = (source.view.written(), source.view.oldest());
        if oldest > source.next {
            self.miss(oldest - source.next);
            source.next = oldest;
        }
        // The page may be corrupt, so the loop reads no more records than a page can hold.
        let until = written.min(source.next.saturating_add(RECORDS as u64));
        while source.next < until {
            match source.view.read(source.next) {
                Some(record) if self.take(source, &record).is_some() => {}
                Some(_) => self.missed.unusable = self.missed.unusable.saturating_add(1),
                None => self.miss(1),
            }
            source.next += 1;
        }
    }

    fn miss(&mut self, records: u64) {
        self.missed.overwritten = self.missed.overwritten.saturating_add(records);
    }

    /// Adds a record. Returns `None` if this version does not understand the record.
    fn take(&mut self, source: &mut Source, record: &Record) -> Option<()> {
        let manner = StampMode::from_byte(record.rung)?;
        let key = source.key(record)?;
        let way: &'static Way = WAYS.get(usize::from(record.kind))?;
        let ticks_per_second = key.ticks_per_second;
        let group = self.groups.entry(key).or_insert_with(|| Group {
            collected: CollectedSamples::new(way, ticks_per_second),
            locks: Vec::new(),
        });
        let lock = source.text(record.note).map(|name| cleaned(&name));
        let note = lock.map_or(0, |name| group.lock(name));
        let taken =
            group.collected.sample(manner, &record.stamps, MessageEvents(record.flags), note);
        if taken.is_ok() && manner == StampMode::Whole && record.doubt != 0 {
            group.collected.doubt(record.doubt);
        }
        taken.ok()
    }

    /// Returns the number of samples that were added so far.
    pub(crate) fn samples(&self) -> u64 {
        let counts = self.groups.values().map(|group| group.collected.counts());
        counts.map(|(pairs, stories)| (pairs + stories) as u64).sum()
    }

    /// Returns the number of samples that were not usable so far.
    pub(crate) fn missed(&self) -> Missed {
        self.missed
    }

    /// Returns the recording of `seconds` seconds that ended at `taken` (in seconds since 1970).
    pub(crate) fn recording(&self, taken: u64, seconds: f64) -> Recording {
        let mut recording = Recording::new(taken, seconds);
        recording.missed = self.missed;
        let first = self.groups.values().flat_map(|group| group.collected.stories());
        let first = first.map(|story| story.began).min().unwrap_or(0);
        let subjects = self.groups.iter().filter_map(|(key, group)| subject(key, group, first));
        recording.subjects = subjects.collect();
        let weight = |subject: &Subject| subject.samples.count();
        recording.subjects.sort_by_key(|subject| std::cmp::Reverse(weight(subject)));
        recording
    }
}

impl Group {
    fn lock(&mut self, name: String) -> u64 {
        let known = self.locks.iter().position(|one| *one == name);
        let at = known.unwrap_or_else(|| {
            self.locks.push(name);
            self.locks.len() - 1
        });
        at as u64 + 1
    }

    fn lock_name(&self, note: u64) -> Option<String> {
        let at = usize::try_from(note.checked_sub(1)?).ok()?;
        self.locks.get(at).cloned()
    }
}

/// Returns a node as its counters describe it.
pub(crate) fn node(pid: u32, view: &CountersView, samples: bool) -> Node {
    let value = |counter: &Counter| Some((counter.name().into(), view.get(counter.index())?));
    Node {
        name: cleaned(&view.node()),
        pid,
        incarnation: format!("{:016x}", view.incarnation()),
        samples,
        counters: Counter::ALL.iter().filter_map(value).collect(),
    }
}

fn subject(key: &Key, group: &Group, first: u64) -> Option<Subject> {
    let breakdown = group.collected.breakdown()?;
    let mut stories = group.collected.stories();
    stories.sort_by_key(|story| story.began);
    let (pairs, _) = group.collected.counts();
    let lock = |note| group.lock_name(note);
    let happened = |(one, name): (MessageEvents, &str)| {
        let count = stories.iter().filter(|story| story.happened.has(one)).count() as u64;
        (count > 0).then(|| (name.to_owned(), count))
    };
    let selected = Selection::of(&stories, &breakdown.whole.spread);
    let ns_per_tick = 1e9 / key.ticks_per_second.max(1) as f64;
    let told = |at: &usize| {
        let story: &Story = &stories[*at];
        MessageTimes {
            began_ns: story.began.saturating_sub(first) as f64 * ns_per_tick,
            phases: story.phases.clone(),
            happened: story.happened.0,
            lock: lock(story.note),
        }
    };
    Some(Subject {
        from: key.from.clone(),
        to: key.to.clone(),
        service: key.service.clone(),
        method: key.method.clone(),
        carried: Carried {
            carrier: key.carrier.clone(),
            address: key.address.clone(),
            doubt: breakdown.doubt,
        },
        way: breakdown.way,
        samples: Samples {
            stories: stories.len() as u64,
            pairs: pairs as u64,
            means_from: match breakdown.from {
                MeanSource::Pairs => "pairs".into(),
                MeanSource::Stories => "stories".into(),
            },
            stamp_ns: breakdown.stamp,
        },
        whole: amount(&breakdown.whole),
        totals: Histogram::of(stories.iter().map(Story::total)),
        lines: lines(&breakdown, &stories),
        causes: delays(breakdown.way, &stories, lock),
        happened: MessageEvents::ALL.into_iter().filter_map(happened).collect(),
        told: selected.all.iter().map(told).collect(),
        typical: selected.typical,
        slow: selected.slow,
    })
}

fn amount(charged: &PhaseTime) -> Amount {
    let Spread { p50, p99, p999, max } = charged.spread;
    Amount { mean: charged.mean, p50, p99, p999, max }
}

/// Returns the lines of a bill. Phases of one item and leg share a line.
fn lines(breakdown: &Breakdown, stories: &[Story]) -> Vec<Line> {
    let way = breakdown.way;
    let of: Vec<_> =
        way.phases.iter().zip(Leg::of(way)).map(|(phase, leg)| (phase.item, leg)).collect();
    let mut seen = Vec::new();
    for one in &of {
        if !seen.contains(one) {
            seen.push(*one);
        }
    }
    let line = |(item, leg)| {
        let at: Vec<usize> = (0..of.len()).filter(|at| of[*at] == (item, leg)).collect();
        let took: Vec<f64> =
            stories.iter().map(|story| at.iter().map(|at| story.phases[*at]).sum()).collect();
        let mean = at.iter().map(|at| breakdown.phases[*at].mean).sum();
        let spread = Histogram::of(took.iter().copied());
        Line { item, leg, ns: amount(&PhaseTime { mean, spread: Spread::of(took) }), spread }
    };
    seen.into_iter().map(line).collect()
}

/// The stories that a recording keeps, as indices.
struct Selection {
    all: Vec<usize>,
    typical: Option<usize>,
    slow: Option<usize>,
}

impl Selection {
    /// Selects among stories that are sorted by their beginning.
    fn of(stories: &[Story], spread: &Spread) -> Selection {
        let totals: Vec<f64> = stories.iter().map(Story::total).collect();
        let nearest = |to: f64| {
            let far = |at: &usize| (totals[*at] - to).abs();
            (0..totals.len()).min_by(|one, other| far(one).total_cmp(&far(other)))
        };
        let (typical, slow) = (nearest(spread.p50), nearest(spread.p999));
        let mut by_time: Vec<usize> = (0..totals.len()).collect();
        by_time.sort_by(|one, other| totals[*other].total_cmp(&totals[*one]));
        let mut all: BTreeSet<usize> = by_time.into_iter().take(TOLD_SLOWEST).collect();
        let step = totals.len().div_ceil(TOLD_OTHERS).max(1);
        all.extend((0..totals.len()).step_by(step));
        all.extend(typical.into_iter().chain(slow));
        let all: Vec<usize> = all.into_iter().collect();
        let place = |at: Option<usize>| all.iter().position(|one| Some(*one) == at);
        Selection { typical: place(typical), slow: place(slow), all }
    }
}

#[cfg(test)]
mod tests;
