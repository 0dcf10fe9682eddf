//! Samples of one kind of message, collected, and the bill that they make.
//!
//! A phase that takes less than a stamp cannot be timed by two stamps around it. So pairs begin
//! where the message begins and end at each point in turn; what a phase takes is the difference of
//! two means, and a stamp's own cost, which is in both, falls out. What a mark costs is told by
//! pairs over the whole way, with a mark and without. Whole stories have a stamp at every point:
//! they say how phases are spread, and what happened to one message. Where a message takes so long
//! that its stamps do not matter, its means come from stories too.
//!
//! Invariant: the items of a breakdown add up to its whole.

use super::way::{Happened, Manner, PAIR_POINTS_MAX, Place, Point, Way};
use super::{Bill, Item};
use alloc::vec;
use alloc::vec::Vec;

/// The most stories kept of one kind; after that the oldest is given up for each new one.
pub const STORIES_MAX: usize = 1 << 14;
/// The most pairs kept of each rung.
pub const PAIRS_MAX: usize = 1 << 14;
/// Fewer pairs of a rung than this give no mean worth a difference.
pub const PAIRS_MIN: usize = 50;
/// Where all stamps together take a larger part of a story than this, pairs are asked.
const STAMPS_MATTER: f64 = 0.01;
/// So much of a rung's pairs is left out of its mean at either end: the machine's own pauses.
const TRIMMED: f64 = 0.05;

/// The way of one message, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// When it began, in ticks.
    pub began: u64,
    /// The time that each phase took, stamps included.
    pub phases: Vec<f64>,
    /// The events that happened to the message besides.
    pub happened: Happened,
    /// A number that whoever reads the samples gave it.
    pub note: u64,
}

impl Story {
    /// From beginning to end.
    pub fn total(&self) -> f64 {
        self.phases.iter().sum()
    }
}

/// Why a sample was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has fewer stamps than its way has points.
    Short,
    /// It ends before it begins, or a stamp stands before the one ahead of it.
    Backwards,
    /// Its way has no such rung.
    NoSuchRung,
}

/// Samples of messages that go one way.
#[derive(Clone, Debug)]
pub struct Collected {
    way: &'static Way,
    ns_per_tick: f64,
    /// By the points at which they end.
    pairs: Vec<Kept<f64>>,
    /// From beginning to end of messages that were marked without need.
    marked: Kept<f64>,
    /// Twice where messages begin, by stamps that wait.
    waiting: Kept<f64>,
    /// From beginning to end of messages with a stamp more.
    thrice: Kept<f64>,
    stories: Kept<Story>,
    /// By how much stories may be wrong about what is on the wire, where they are of two clocks.
    doubts: Kept<f64>,
}

/// The last of many.
#[derive(Clone, Debug)]
struct Kept<T> {
    values: Vec<T>,
    most: usize,
    next: usize,
}

impl<T> Kept<T> {
    fn new(most: usize) -> Kept<T> {
        Kept { values: Vec::new(), most, next: 0 }
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

impl Collected {
    /// Nothing yet.
    pub fn new(way: &'static Way, ticks_per_second: u64) -> Collected {
        let ns_per_tick = 1e9 / ticks_per_second.max(1) as f64;
        let pairs = (0..PAIR_POINTS_MAX).map(|_| Kept::new(PAIRS_MAX)).collect();
        let [marked, waiting, thrice] = [(); 3].map(|()| Kept::new(PAIRS_MAX));
        let (stories, doubts) = (Kept::new(STORIES_MAX), Kept::new(STORIES_MAX));
        Collected { way, ns_per_tick, pairs, marked, waiting, thrice, stories, doubts }
    }

    /// The way of these messages.
    pub fn way(&self) -> &'static Way {
        self.way
    }

    /// Takes in a pair: the ticks from the beginning to the point `rung`.
    pub fn pair(&mut self, rung: u8, ticks: u64) -> Result<(), Refused> {
        if !self.way.rungs().any(|one| one == rung) {
            return Err(Refused::NoSuchRung);
        }
        self.pairs[usize::from(rung)].push(ticks as f64 * self.ns_per_tick);
        Ok(())
    }

    /// Takes in a whole story: its stamps in ticks, one for each point.
    pub fn story(&mut self, stamps: &[u64], happened: Happened, note: u64) -> Result<(), Refused> {
        let stamps = stamps.get(..self.way.points()).ok_or(Refused::Short)?;
        let lasted = |pair: &[u64]| Some(pair[1].checked_sub(pair[0])? as f64 * self.ns_per_tick);
        let phases: Option<Vec<f64>> = stamps.windows(2).map(lasted).collect();
        let phases = phases.ok_or(Refused::Backwards)?;
        self.stories.push(Story { began: stamps[0], phases, happened, note });
        Ok(())
    }

    /// Takes in a sample as it was written down: a story's stamps, or a pair's first and that of
    /// its point. What one stamp takes is told by a second one right behind the first.
    pub fn sample(
        &mut self,
        manner: Manner,
        stamps: &[u64],
        happened: Happened,
        note: u64,
    ) -> Result<(), Refused> {
        let point = match manner {
            Manner::Whole => return self.story(stamps, happened, note),
            Manner::Pair(point) => usize::from(point.max(1)),
            Manner::Marked | Manner::Thrice => Point::Done.index(),
            Manner::Waiting => 1,
        };
        let place = self.way.place(point).ok_or(Refused::NoSuchRung)?;
        let end = stamps.get(place).ok_or(Refused::Short)?;
        let ticks = end.checked_sub(stamps[0]).ok_or(Refused::Backwards)?;
        let nanoseconds = ticks as f64 * self.ns_per_tick;
        match manner {
            Manner::Pair(point) => return self.pair(point, ticks),
            Manner::Waiting => self.waiting.push(nanoseconds),
            Manner::Thrice => self.thrice.push(nanoseconds),
            Manner::Marked | Manner::Whole => self.marked.push(nanoseconds),
        }
        Ok(())
    }

    /// Notes that the stamps of a story are of two clocks, and may be wrong by so many ticks against each other.
    pub fn doubt(&mut self, ticks: u64) {
        self.doubts.push(ticks as f64 * self.ns_per_tick);
    }

    /// How many pairs and stories there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.pairs.iter().map(|pairs| pairs.values.len()).sum(), self.stories.values.len())
    }

    /// Returns the nanoseconds that one stamp takes: the pairs that end where they begin say it.
    pub fn stamp(&self) -> f64 {
        location(&self.pairs[0].values).unwrap_or(0.0)
    }

    /// Returns the nanoseconds that one stamp takes among other work, which the processor does meanwhile: a message
    /// with one more stamp is compared with a message without.
    pub fn stamp_among(&self) -> f64 {
        match (location(&self.thrice.values), self.unmarked()) {
            (Some(thrice), Some(twice)) => (thrice - twice).clamp(0.0, self.stamp()),
            _ => self.stamp(),
        }
    }

    /// From beginning to end of messages that are not marked, one stamp included.
    fn unmarked(&self) -> Option<f64> {
        location(&self.pairs.get(Point::Done.index())?.values)
    }

    /// Returns the nanoseconds that a stamp takes that waits until all instructions before it are done.
    pub fn waiting_stamp(&self) -> f64 {
        location(&self.waiting.values).unwrap_or_else(|| self.stamp())
    }

    /// The stories, with what a busy node was waited for told apart from the wire, and without what
    /// their stamps took.
    pub fn stories(&self) -> Vec<Story> {
        let mut stories = self.stories.values.clone();
        for (woke, busy) in
            [(Point::WokeThere, Happened::BUSY_THERE), (Point::WokeHere, Happened::BUSY_HERE)]
        {
            // A message that is read from a socket has a stamp where the wire ends.
            if let Some(wire) = self.way.place(woke.index())
                && self.way.phases.get(wire + 1).is_some_and(|phase| phase.item == Item::Notice)
            {
                part_notice(&mut stories, wire, busy);
            }
        }
        let stamp = self.waiting_stamp();
        for lasted in stories.iter_mut().flat_map(|story| &mut story.phases) {
            *lasted = (*lasted - stamp).max(0.0);
        }
        stories
    }

    /// The breakdown, if there is anything to break down.
    pub fn breakdown(&self) -> Option<Breakdown> {
        let stories = self.stories();
        let stamp = self.stamp();
        let totals: Vec<f64> = stories.iter().map(Story::total).collect();
        let by_stories = |at: usize| mean(stories.iter().map(|story| story.phases[at]));
        let mut means: Vec<f64> = (0..self.way.phases.len()).map(by_stories).collect();
        let ladder = self.ladder();
        let stamps = stamp * self.way.points() as f64;
        let matter = stories.is_empty() || stamps > STAMPS_MATTER * mean(totals.iter().copied());
        let from = match ladder {
            Some(ladder) if matter => {
                means = between_rungs(self.way, &ladder, &means);
                From::Pairs
            }
            None if stories.is_empty() => return None,
            _ => From::Stories,
        };
        let spread_of = |at: usize| Spread::of(stories.iter().map(|story| story.phases[at]));
        let phases = means.iter().enumerate();
        let phases = phases.map(|(at, mean)| Charged { mean: *mean, spread: spread_of(at) });
        Some(Breakdown {
            way: self.way,
            from,
            phases: phases.collect(),
            whole: Charged { mean: means.iter().sum(), spread: Spread::of(totals) },
            stamp,
            mark: self.mark(),
            doubt: mean(self.doubts.values.iter().copied()),
        })
    }

    /// Returns the nanoseconds that a marked message takes longer than another, both sides together; 0 if that is not
    /// known. A marked message goes another way through the dispatchers, and its stamps wait while the processor would
    /// have run ahead.
    pub fn mark(&self) -> f64 {
        match (location(&self.marked.values), self.unmarked()) {
            (Some(marked), Some(unmarked)) => {
                let unmarked = unmarked - self.stamp_among();
                let marked = marked - self.waiting_stamp();
                (marked - unmarked).max(0.0)
            }
            _ => 0.0,
        }
    }

    /// The mean time to each rung, or None where some rung has too few. What a stamp takes is taken
    /// off, and what the mark takes: half of it before the message is noticed there, the
    /// other half before its answer is noticed here, for that is where marked frames part from
    /// others.
    fn ladder(&self) -> Option<Vec<(usize, f64)>> {
        let rung = |at: u8| {
            let pairs = &self.pairs[usize::from(at)].values;
            (pairs.len() >= PAIRS_MIN).then(|| location(pairs)).flatten()
        };
        let (stamp, waiting, mark) = (rung(0)?, self.waiting_stamp(), self.mark());
        let among = self.stamp_among();
        let noticed = |at: u8| {
            let by_whom = [Point::NoticedThere as u8, Point::NoticedHere as u8];
            by_whom.iter().filter(|point| at >= **point).count()
        };
        let without = |at: u8| {
            let place = self.way.place(usize::from(at))?;
            let off = match Manner::Pair(at).marks() {
                true => waiting + mark * noticed(at) as f64 / 2.0,
                false if at >= Point::Reached as u8 => among,
                false => stamp,
            };
            Some((place, rung(at)? - off))
        };
        self.way.rungs().map(without).collect()
    }
}

/// Charges the wire with no more than the usual time for messages that lay in the lane while the node was busy. They
/// were sent as fast as others, and waited for the node.
fn part_notice(stories: &mut [Story], wire: usize, busy: Happened) {
    let crossed = |story: &Story| story.phases.get(wire).map(|way| way + story.phases[wire + 1]);
    let at_once = stories.iter().filter(|story| !story.happened.has(busy));
    let mut usual: Vec<f64> = at_once.filter_map(crossed).collect();
    if usual.is_empty() {
        usual = stories.iter().filter_map(crossed).collect();
        usual.sort_by(f64::total_cmp);
        usual.truncate(1);
    }
    let Some(usual) = location(&usual) else { return };
    for story in stories.iter_mut().filter(|story| story.happened.has(busy)) {
        let Some(whole) = crossed(story) else { continue };
        story.phases[wire] = whole.min(usual);
        story.phases[wire + 1] = whole - story.phases[wire];
    }
}

/// The differences between rungs. Where phases lie between two of them, their sum is shared out as
/// stories have it.
fn between_rungs(way: &Way, ladder: &[(usize, f64)], by_stories: &[f64]) -> Vec<f64> {
    let mut means = vec![0.0; way.phases.len()];
    for pair in ladder.windows(2) {
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

/// The measurements from which the means of a breakdown come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Differences between pairs of stamps: for what takes so little that stamps matter.
    Pairs,
    /// Whole stories.
    Stories,
}

/// How something is spread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Half take at most this.
    pub p50: f64,
    /// 99 of a hundred.
    pub p99: f64,
    /// 999 of a thousand.
    pub p999: f64,
    /// All.
    pub max: f64,
}

impl Spread {
    /// Of these values; zeros if there are none.
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

/// A mean and how single ones are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Charged {
    /// Nanoseconds a message.
    pub mean: f64,
    /// Of single messages.
    pub spread: Spread,
}

/// Where the time of one kind of message went, phase by phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// Whose phases they are.
    pub way: &'static Way,
    /// The measurements from which the means come.
    pub from: From,
    /// A phase each.
    pub phases: Vec<Charged>,
    /// From beginning to end. Its mean is the sum of those of the phases.
    pub whole: Charged,
    /// The time that one stamp took. No phase includes it.
    pub stamp: f64,
    /// The time that a marked message took longer than another. No phase includes it.
    pub mark: f64,
    /// By so much what is charged to the wire in one direction may be wrong, and as much in the other the other
    /// way round.
    pub doubt: f64,
}

impl Breakdown {
    /// The means as a bill: an item is the sum of its phases.
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

/// The mean of these without the least and the greatest.
fn location(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let out = (values.len() as f64 * TRIMMED) as usize;
    let middle = &values[out..values.len() - out];
    if middle.is_empty() { None } else { Some(mean(middle.iter().copied())) }
}

#[cfg(test)]
mod tests;
