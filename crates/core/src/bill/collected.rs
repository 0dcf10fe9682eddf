//! The samples of one kind of message, and the bill that follows from them.
//!
//! Two stamps cannot measure a phase that takes less than a stamp. Pairs therefore begin where the message begins,
//! and end at each point in turn; the time of a phase is the difference of two means, in which the cost of a stamp
//! cancels out. Pairs over the whole way, with and without a mark, measure the cost of a mark. Full samples have
//! a stamp at every point: they show the distribution of phases, and the history of one message. For messages that
//! take so long that stamps do not matter, the means come from stories too.
//!
//! Invariant: the items of a breakdown add up to its whole.

use super::way::{MessageEvents, PAIR_POINTS_MAX, Place, Point, StampMode, Way};
use super::{Bill, Item};
use alloc::vec;
use alloc::vec::Vec;

/// The largest number of stories of one kind; a new one then replaces the oldest.
pub const STORIES_MAX: usize = 1 << 14;
/// The largest number of pairs of each rung.
pub const PAIRS_MAX: usize = 1 << 14;
/// The smallest number of pairs of a rung that gives a useful mean.
pub const PAIRS_MIN: usize = 50;
/// The share of stamps in a story above which pairs are used.
const STAMPS_MATTER: f64 = 0.01;
/// The share of a rung's pairs that is left out of its mean at either end, because of pauses of the machine.
const TRIMMED: f64 = 0.05;

/// The history of one message, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// When the message began, in ticks.
    pub began: u64,
    /// The time of each phase, including stamps.
    pub phases: Vec<f64>,
    /// Further events of the message.
    pub happened: MessageEvents,
    /// A number that the reader of the samples gave to the story.
    pub note: u64,
}

impl Story {
    /// Returns the time from beginning to end.
    pub fn total(&self) -> f64 {
        self.phases.iter().sum()
    }
}

/// The reason why a sample is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The sample has fewer stamps than its way has points.
    Short,
    /// A stamp of the sample is earlier than the one before it.
    Backwards,
    /// The way has no such rung.
    NoSuchRung,
}

/// Samples of messages that go one way.
#[derive(Clone, Debug)]
pub struct CollectedSamples {
    way: &'static Way,
    ns_per_tick: f64,
    /// The pairs, by the points at which they end.
    pairs: Vec<LastValues<f64>>,
    /// The total times of messages that were marked without need.
    marked: LastValues<f64>,
    /// The times between two serialising stamps at the beginning.
    waiting: LastValues<f64>,
    /// The total times of messages with one more stamp.
    thrice: LastValues<f64>,
    stories: LastValues<Story>,
    /// The uncertainties of the time on the wire, for stories with stamps of two clocks.
    doubts: LastValues<f64>,
}

/// The last values of many.
#[derive(Clone, Debug)]
struct LastValues<T> {
    values: Vec<T>,
    most: usize,
    next: usize,
}

impl<T> LastValues<T> {
    fn new(most: usize) -> LastValues<T> {
        LastValues { values: Vec::new(), most, next: 0 }
    }

    fn push(&mut self, value: T) {
        if self.values.len() < self.most {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.next = (self.next + 1) % self.most;
        }
    }
}

impl CollectedSamples {
    /// Creates an empty collection.
    pub fn new(way: &'static Way, ticks_per_second: u64) -> CollectedSamples {
        let ns_per_tick = 1e9 / ticks_per_second.max(1) as f64;
        let pairs = (0..PAIR_POINTS_MAX).map(|_| LastValues::new(PAIRS_MAX)).collect();
        let [marked, waiting, thrice] = [(); 3].map(|()| LastValues::new(PAIRS_MAX));
        let (stories, doubts) = (LastValues::new(STORIES_MAX), LastValues::new(STORIES_MAX));
        CollectedSamples { way, ns_per_tick, pairs, marked, waiting, thrice, stories, doubts }
    }

    /// Returns the way of these messages.
    pub fn way(&self) -> &'static Way {
        self.way
    }

    /// Adds a pair: the ticks from the beginning to the point `rung`.
    pub fn pair(&mut self, rung: u8, ticks: u64) -> Result<(), Refused> {
        if !self.way.rungs().any(|one| one == rung) {
            return Err(Refused::NoSuchRung);
        }
        self.pairs[usize::from(rung)].push(ticks as f64 * self.ns_per_tick);
        Ok(())
    }

    /// Adds a full sample: its stamps in ticks, one for each point.
    pub fn story(
        &mut self,
        stamps: &[u64],
        happened: MessageEvents,
        note: u64,
    ) -> Result<(), Refused> {
        let stamps = stamps.get(..self.way.points()).ok_or(Refused::Short)?;
        let lasted = |pair: &[u64]| Some(pair[1].checked_sub(pair[0])? as f64 * self.ns_per_tick);
        let phases: Option<Vec<f64>> = stamps.windows(2).map(lasted).collect();
        let phases = phases.ok_or(Refused::Backwards)?;
        self.stories.push(Story { began: stamps[0], phases, happened, note });
        Ok(())
    }

    /// Adds a sample as it was recorded: the stamps of a story, or the first stamp of a pair and that of its
    /// point. A second stamp directly after the first measures one stamp.
    pub fn sample(
        &mut self,
        manner: StampMode,
        stamps: &[u64],
        happened: MessageEvents,
        note: u64,
    ) -> Result<(), Refused> {
        let point = match manner {
            StampMode::Whole => return self.story(stamps, happened, note),
            StampMode::Pair(point) => usize::from(point.max(1)),
            StampMode::Marked | StampMode::Thrice => Point::Done.index(),
            StampMode::Waiting => 1,
        };
        let place = self.way.place(point).ok_or(Refused::NoSuchRung)?;
        let end = stamps.get(place).ok_or(Refused::Short)?;
        let ticks = end.checked_sub(stamps[0]).ok_or(Refused::Backwards)?;
        let nanoseconds = ticks as f64 * self.ns_per_tick;
        match manner {
            StampMode::Pair(point) => return self.pair(point, ticks),
            StampMode::Waiting => self.waiting.push(nanoseconds),
            StampMode::Thrice => self.thrice.push(nanoseconds),
            StampMode::Marked | StampMode::Whole => self.marked.push(nanoseconds),
        }
        Ok(())
    }

    /// Records that the stamps of a story are of two clocks, with this uncertainty in ticks.
    pub fn doubt(&mut self, ticks: u64) {
        self.doubts.push(ticks as f64 * self.ns_per_tick);
    }

    /// Returns the numbers of pairs and of stories.
    pub fn counts(&self) -> (usize, usize) {
        (self.pairs.iter().map(|pairs| pairs.values.len()).sum(), self.stories.values.len())
    }

    /// Returns the nanoseconds of one stamp, from the pairs that end where they begin.
    pub fn stamp(&self) -> f64 {
        trimmed_mean(&self.pairs[0].values).unwrap_or(0.0)
    }

    /// Returns the nanoseconds that one stamp adds among other work, which the processor overlaps with it: a
    /// message with one more stamp is compared with a message without.
    pub fn stamp_among(&self) -> f64 {
        match (trimmed_mean(&self.thrice.values), self.unmarked()) {
            (Some(thrice), Some(twice)) => (thrice - twice).clamp(0.0, self.stamp()),
            _ => self.stamp(),
        }
    }

    /// Returns the total time of messages that are not marked, including one stamp.
    fn unmarked(&self) -> Option<f64> {
        trimmed_mean(&self.pairs.get(Point::Done.index())?.values)
    }

    /// Returns the nanoseconds of a serialising stamp, which waits until all earlier instructions are done.
    pub fn waiting_stamp(&self) -> f64 {
        trimmed_mean(&self.waiting.values).unwrap_or_else(|| self.stamp())
    }

    /// Returns the stories without the time of their stamps. The wait for a busy node is separated from the time
    /// on the wire.
    pub fn stories(&self) -> Vec<Story> {
        let mut stories = self.stories.values.clone();
        for (woke, busy) in [
            (Point::WokeThere, MessageEvents::BUSY_THERE),
            (Point::WokeHere, MessageEvents::BUSY_HERE),
        ] {
            // A message that is read from a socket has a stamp at the end of the wire.
            if let Some(wire) = self.way.place(woke.index())
                && self.way.phases.get(wire + 1).is_some_and(|phase| phase.item == Item::Notice)
            {
                separate_notice(&mut stories, wire, busy);
            }
        }
        let stamp = self.waiting_stamp();
        for lasted in stories.iter_mut().flat_map(|story| &mut story.phases) {
            *lasted = (*lasted - stamp).max(0.0);
        }
        stories
    }

    /// Returns the breakdown, if there are enough samples.
    pub fn breakdown(&self) -> Option<Breakdown> {
        let stories = self.stories();
        let stamp = self.stamp();
        let totals: Vec<f64> = stories.iter().map(Story::total).collect();
        let by_stories = |at: usize| mean(stories.iter().map(|story| story.phases[at]));
        let mut means: Vec<f64> = (0..self.way.phases.len()).map(by_stories).collect();
        let rung_means = self.rung_means();
        let stamps = stamp * self.way.points() as f64;
        let matter = stories.is_empty() || stamps > STAMPS_MATTER * mean(totals.iter().copied());
        let from = match rung_means {
            Some(rung_means) if matter => {
                means = between_rungs(self.way, &rung_means, &means);
                MeanSource::Pairs
            }
            None if stories.is_empty() => return None,
            _ => MeanSource::Stories,
        };
        let spread_of = |at: usize| Spread::of(stories.iter().map(|story| story.phases[at]));
        let phases = means.iter().enumerate();
        let phases = phases.map(|(at, mean)| PhaseTime { mean: *mean, spread: spread_of(at) });
        Some(Breakdown {
            way: self.way,
            from,
            phases: phases.collect(),
            whole: PhaseTime { mean: means.iter().sum(), spread: Spread::of(totals) },
            stamp,
            mark: self.mark(),
            doubt: mean(self.doubts.values.iter().copied()),
        })
    }

    /// Returns the additional nanoseconds of a marked message, both sides together, or 0 if they are not known.
    /// The dispatchers handle a marked message on another path, and its stamps wait where the processor would have
    /// executed later instructions.
    pub fn mark(&self) -> f64 {
        match (trimmed_mean(&self.marked.values), self.unmarked()) {
            (Some(marked), Some(unmarked)) => {
                let unmarked = unmarked - self.stamp_among();
                let marked = marked - self.waiting_stamp();
                (marked - unmarked).max(0.0)
            }
            _ => 0.0,
        }
    }

    /// Returns the mean time to each rung, or none if a rung has too few pairs. The time of a stamp is subtracted,
    /// and so is that of the mark: half of it before the receiver opens the message, and half before the caller
    /// opens the reply, where marked frames leave the common path.
    fn rung_means(&self) -> Option<Vec<(usize, f64)>> {
        let rung = |at: u8| {
            let pairs = &self.pairs[usize::from(at)].values;
            (pairs.len() >= PAIRS_MIN).then(|| trimmed_mean(pairs)).flatten()
        };
        let (stamp, waiting, mark) = (rung(0)?, self.waiting_stamp(), self.mark());
        let among = self.stamp_among();
        let noticed = |at: u8| {
            let by_whom = [Point::NoticedThere as u8, Point::NoticedHere as u8];
            by_whom.iter().filter(|point| at >= **point).count()
        };
        let without = |at: u8| {
            let place = self.way.place(usize::from(at))?;
            let off = match StampMode::Pair(at).marks() {
                true => waiting + mark * noticed(at) as f64 / 2.0,
                false if at >= Point::Reached as u8 => among,
                false => stamp,
            };
            Some((place, rung(at)? - off))
        };
        self.way.rungs().map(without).collect()
    }
}

/// Limits the time on the wire to the usual one for messages that lay in the lane while the node was busy. Such
/// messages were sent as fast as others, and waited for the node.
fn separate_notice(stories: &mut [Story], wire: usize, busy: MessageEvents) {
    let crossed = |story: &Story| story.phases.get(wire).map(|way| way + story.phases[wire + 1]);
    let at_once = stories.iter().filter(|story| !story.happened.has(busy));
    let mut usual: Vec<f64> = at_once.filter_map(crossed).collect();
    if usual.is_empty() {
        usual = stories.iter().filter_map(crossed).collect();
        usual.sort_by(f64::total_cmp);
        usual.truncate(1);
    }
    let Some(usual) = trimmed_mean(&usual) else { return };
    for story in stories.iter_mut().filter(|story| story.happened.has(busy)) {
        let Some(whole) = crossed(story) else { continue };
        story.phases[wire] = whole.min(usual);
        story.phases[wire + 1] = whole - story.phases[wire];
    }
}

/// Returns the differences between rungs. Several phases between two rungs share the difference in the proportions
/// of the stories.
fn between_rungs(way: &Way, rung_means: &[(usize, f64)], by_stories: &[f64]) -> Vec<f64> {
    let mut means = vec![0.0; way.phases.len()];
    for pair in rung_means.windows(2) {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        let told = by_stories.get(from..to).unwrap_or_default();
        let sum: f64 = told.iter().sum();
        for (nth, mean) in means[from..to].iter_mut().enumerate() {
            let share = match told.get(nth) {
                Some(one) if sum > 0.0 => one / sum,
                _ => f64::from(u8::from(nth == 0)),
            };
            *mean = (after - before) * share;
        }
    }
    means
}

/// The source of the means of a breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeanSource {
    /// The differences between pairs of stamps, for messages so short that stamps matter.
    Pairs,
    /// Full samples.
    Stories,
}

/// The distribution of a time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the distribution of these values, or zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |permille: usize| {
            let rank = (permille * values.len()).div_ceil(1000);
            values.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        Spread { p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// The mean and the distribution of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseTime {
    /// The mean in nanoseconds per message.
    pub mean: f64,
    /// The distribution over single messages.
    pub spread: Spread,
}

/// The breakdown of the time of one kind of message, phase by phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The way whose phases these are.
    pub way: &'static Way,
    /// The source of the means.
    pub from: MeanSource,
    /// One entry for each phase.
    pub phases: Vec<PhaseTime>,
    /// The time from beginning to end. Its mean is the sum of the means of the phases.
    pub whole: PhaseTime,
    /// The time of one stamp, which no phase includes.
    pub stamp: f64,
    /// The additional time of a marked message, which no phase includes.
    pub mark: f64,
    /// The uncertainty of the time on the wire in one direction. The other direction is wrong by as much with the
    /// opposite sign.
    pub doubt: f64,
}

impl Breakdown {
    /// Returns the means as a bill, in which an item is the sum of its phases.
    pub fn bill(&self) -> Bill {
        let mut bill = Bill::default();
        for (phase, charged) in self.way.phases.iter().zip(&self.phases) {
            bill[phase.item] += charged.mean;
        }
        bill
    }

    /// Returns the time that is charged to an item at a place.
    pub fn at(&self, place: Place, item: Item) -> f64 {
        let phases = self.way.phases.iter().zip(&self.phases);
        let there = phases.filter(|(phase, _)| phase.place == place && phase.item == item);
        there.map(|(_, charged)| charged.mean).sum()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// Returns the mean of these values without the smallest and the largest ones.
fn trimmed_mean(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let out = (values.len() as f64 * TRIMMED) as usize;
    let middle = &values[out..values.len() - out];
    if middle.is_empty() { None } else { Some(mean(middle.iter().copied())) }
}

#[cfg(test)]
mod tests;
