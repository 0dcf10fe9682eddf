//! Makes a recording from the samples in a program's pages.
//!
//! Pages are read repeatedly while their owner writes; the owner does nothing for it.
//! Invariant: every record of a page is either added to the recording or counted as missed.

use crate::bill::delay::delays;
use crate::bill::histogram::Histogram;
use crate::bill::recording::carried::Carried;
use crate::bill::recording::{
    Amount, Before, Ended, KeptThread, Line, MessageTimes, Missed, Node, P99_LEAST, P999_LEAST,
    Recording, Samples, Subject, cleaned,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use upbeat_core::bill::Counter;
use upbeat_core::bill::collected::{
    Breakdown, CollectedSamples, MeanSource, PhaseTime, Spread, Story,
};
use upbeat_core::bill::event::{BadEnd, Event};
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::{MessageEvents, SERVED, StampMode, WAYS, Way};
use upbeat_memory::counters::CountersView;
use upbeat_memory::samples::{RECORDS, Record, SamplesView};
use upbeat_memory::ticks::ticks;

/// The number of slowest stories of a subject that the recording keeps.
const TOLD_SLOWEST: usize = 16;
/// The number of other stories that the recording keeps, evenly spread over the time.
const TOLD_OTHERS: usize = 48;

/// The samples of all pages, grouped by kind of message.
#[derive(Default)]
pub(crate) struct Collector {
    groups: BTreeMap<Key, Group>,
    /// The nanoseconds after which sampled calls ended without a result.
    ended: BTreeMap<(Key, BadEnd), Vec<f64>>,
    /// The last record about each method or task that kept its thread.
    kept: BTreeMap<(String, String, String), KeptThread>,
    missed: Missed,
    before: Before,
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
    /// The number of the first record that was written while the page was observed.
    start: u64,
    texts: HashMap<u16, String>,
}

impl Source {
    /// Creates a source that starts at the oldest record of the page.
    pub(crate) fn new(view: SamplesView) -> Source {
        let (next, start) = (view.oldest(), view.written());
        Source { view, next, start, texts: HashMap::new() }
    }

    /// Creates a source that leaves out what the page has already.
    pub(crate) fn from_now(view: SamplesView) -> Source {
        let start = view.written();
        Source { view, next: start, start, texts: HashMap::new() }
    }

    /// Creates a source of a node that has begun while others were observed.
    pub(crate) fn of_new_node(view: SamplesView) -> Source {
        let start = view.oldest();
        Source { view, next: start, start, texts: HashMap::new() }
    }

    /// Returns the number of records that were there before the page was observed.
    pub(crate) fn older(&self) -> u64 {
        self.start - self.view.oldest().min(self.start)
    }

    /// Returns the seconds since the beginning of a record.
    fn age(&self, record: &Record) -> f64 {
        ticks().saturating_sub(record.stamps[0]) as f64 / self.view.ticks_per_second() as f64
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

impl Key {
    /// Returns whether these are the same calls as the other ones, which are those that a node has served.
    fn includes(&self, served: &Key) -> bool {
        let same =
            |key: &Key| (key.from.clone(), key.to.clone(), key.service.clone(), key.method.clone());
        served.kind == SERVED.number() && self.kind != served.kind && same(self) == same(served)
    }
}

fn ended_badly(key: &Key, how: BadEnd, lasted: &[f64]) -> Ended {
    let spread = Spread::of(lasted.iter().copied());
    Ended {
        from: key.from.clone(),
        to: key.to.clone(),
        service: key.service.clone(),
        method: key.method.clone(),
        how: how.name().into(),
        calls: lasted.len() as u64,
        p50: spread.p50,
        max: spread.max,
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
                Some(record) if record.subject == 0 => {
                    self.missed.unnamed = self.missed.unnamed.saturating_add(1);
                }
                Some(record) if self.take(source, &record).is_some() => {
                    if source.next < source.start {
                        self.before.samples += 1;
                        self.before.oldest_s = self.before.oldest_s.max(source.age(&record));
                    }
                }
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
        if let Some(event) = Event::from_byte(record.rung) {
            return self.take_event(source, record, event);
        }
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

    /// Adds a record of an event.
    fn take_event(&mut self, source: &mut Source, record: &Record, event: Event) -> Option<()> {
        let key = source.key(record)?;
        let ns = |ticks: u64| ticks as f64 * 1e9 / key.ticks_per_second as f64;
        let [began, ended, budget, count, blocked, longest, ..] = record.stamps;
        match event {
            Event::Ended(how) => {
                let lasted = ns(ended.checked_sub(began)?);
                self.ended.entry((key, how)).or_default().push(lasted);
            }
            Event::OverRan | Event::Blocked => {
                let (node, service, method) =
                    (cleaned(&source.view.node()), key.service, key.method);
                let (longest, budget) = (ns(longest), ns(budget));
                let at = (node.clone(), service.clone(), method.clone());
                let kept = KeptThread { node, service, method, count, blocked, longest, budget };
                self.kept.insert(at, kept);
            }
        }
        Some(())
    }

    /// Has the recording say that older samples, and counters since the nodes began, are included, or how many older
    /// samples there are.
    pub(crate) fn includes(&mut self, before: bool, older: u64) {
        self.before.included = before;
        if !before {
            self.before.samples = older;
        }
    }

    /// Returns whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.ended.is_empty() && self.kept.is_empty()
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
        (recording.missed, recording.before) = (self.missed, self.before);
        recording.kept = self.kept.values().cloned().collect();
        let ended = self.ended.iter();
        recording.ended =
            ended.map(|((key, how), lasted)| ended_badly(key, *how, lasted)).collect();
        let first = self.groups.values().flat_map(|group| group.collected.stories());
        let first = first.map(|story| story.began).min().unwrap_or(0);
        // The caller's view of a call includes that of the node that serves it.
        let groups =
            self.groups.iter().filter(|(key, _)| !self.groups.keys().any(|one| one.includes(key)));
        let subjects = groups.filter_map(|(key, group)| subject(key, group, first));
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

/// Returns a node as its counters describe it, which had these values before.
pub(crate) fn node(pid: u32, view: &CountersView, before: &[u64]) -> Node {
    let value = |counter: &Counter| {
        let before = before.get(counter.index()).copied().unwrap_or(0);
        Some((counter.name().into(), view.get(counter.index())?.saturating_sub(before)))
    };
    // Counters have names by their positions, if the node has the same list of them.
    let is_known = view.names() == Counter::NAMES;
    Node {
        name: cleaned(&view.node()),
        pid,
        incarnation: format!("{:016x}", view.incarnation()),
        samples: false,
        program: cleaned(&view.program()),
        ended: false,
        counters: is_known.then(|| Counter::ALL.iter().filter_map(value).collect()),
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
        whole: amount(&breakdown.whole, stories.len()),
        totals: Histogram::of(stories.iter().map(Story::total)),
        lines: lines(&breakdown, &stories),
        causes: delays(breakdown.way, &stories, lock),
        happened: MessageEvents::ALL.into_iter().filter_map(happened).collect(),
        told: selected.all.iter().map(told).collect(),
        typical: selected.typical,
        slow: selected.slow,
    })
}

/// Returns the mean and the percentiles of so many values.
fn amount(charged: &PhaseTime, values: usize) -> Amount {
    let Spread { p50, p99, p999, max } = charged.spread;
    let at = |least: u64, percentile| (values as u64 >= least).then_some(percentile);
    let (p99, p999) = (at(P99_LEAST, p99), at(P999_LEAST, p999));
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
        let ns = amount(&PhaseTime { mean, spread: Spread::of(took) }, stories.len());
        Line { item, leg, ns, spread }
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
