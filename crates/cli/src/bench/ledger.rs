//! The rounds of one case, grouped by the placement of the two CPUs.

use crate::bench::report::Placement;
use crate::bench::stats::{Figures, Ratios, Summary};
use crate::bench::timing::Round;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The number of rounds below which a placement is not reported, unless there is no other.
const ROUNDS_MIN: u64 = 3;

/// The measurements of a case.
pub(crate) struct Ledger {
    /// The number of operations in a batch, which is equal in all rounds.
    size: u32,
    /// The rounds whose placement is not known yet.
    pending: Vec<(Round, Ratios)>,
    figures: BTreeMap<Placement, Figures>,
}

/// The results of a case in one placement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacementResult {
    /// The placement of the CPUs.
    pub(crate) placement: Placement,
    /// The summary of the measurements.
    pub(crate) summary: Summary,
    /// The number of dropped rounds of the case.
    pub(crate) rounds_dropped: u64,
}

impl Ledger {
    /// Creates an empty ledger for batches of `size`.
    pub(crate) fn new(size: u32) -> Ledger {
        Ledger { size, pending: Vec::new(), figures: BTreeMap::new() }
    }

    /// Returns the number of operations in a batch.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, round: Round, ratios: Ratios) {
        self.pending.push((round, ratios));
    }

    /// Assigns the rounds since the last call to the placement that two probes found before and after them. If the
    /// placements differ, the rounds belong to none.
    pub(crate) fn settle(&mut self, before: Placement, after: Placement) {
        if self.pending.is_empty() {
            return;
        }
        let placement = if before == after { before } else { Placement::Unsettled };
        let new = || Figures::new(self.size);
        let figures = self.figures.entry(placement).or_insert_with(new);
        for (round, ratios) in self.pending.drain(..) {
            figures.add(&round, ratios);
        }
    }

    /// Returns a summary for each placement, that of most rounds first. Rounds without a placement
    /// are dropped, unless there are no others.
    pub(crate) fn told(mut self) -> Vec<PlacementResult> {
        let unsettled = self.figures.remove(&Placement::Unsettled);
        let mut kept: Vec<(Placement, Figures)> = self.figures.into_iter().collect();
        kept.sort_by_key(|(_, figures)| Reverse(figures.rounds()));
        let first = kept.first().map(|(placement, _)| *placement);
        kept.retain(|(placement, figures)| {
            figures.rounds() >= ROUNDS_MIN || Some(*placement) == first
        });
        let mut rounds_dropped = unsettled.as_ref().map_or(0, Figures::rounds);
        if kept.is_empty() {
            rounds_dropped = 0;
            kept.extend(unsettled.map(|figures| (Placement::Unsettled, figures)));
        }
        let told = |(placement, figures): (Placement, Figures)| {
            let summary = figures.summary();
            PlacementResult { placement, summary, rounds_dropped }
        };
        kept.into_iter().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Placement, Ratios, Round};

    const NEAR: Placement = Placement::OneL3;
    const FAR: Placement = Placement::TwoL3s;

    fn ledger(sweeps: &[(Placement, Placement, usize)]) -> Vec<(Placement, u64, u64)> {
        let mut ledger = Ledger::new(1);
        for (before, after, rounds) in sweeps {
            for _ in 0..*rounds {
                ledger.add(Round::of_batches(1, vec![100]), Ratios::default());
            }
            ledger.settle(*before, *after);
        }
        let told = ledger.told();
        told.iter().map(|one| (one.placement, one.summary.rounds, one.rounds_dropped)).collect()
    }

    #[test]
    fn rounds_in_which_the_placement_changed_are_dropped() {
        let told = ledger(&[(NEAR, NEAR, 4), (NEAR, FAR, 2), (FAR, NEAR, 1), (NEAR, NEAR, 1)]);
        assert_eq!(told, [(NEAR, 5, 3)]);
    }

    #[test]
    fn placements_are_separate_and_the_most_frequent_is_first() {
        let told = ledger(&[(NEAR, NEAR, 3), (FAR, FAR, 7)]);
        assert_eq!(told, [(FAR, 7, 0), (NEAR, 3, 0)]);
        assert_eq!(ledger(&[(NEAR, NEAR, 2), (FAR, FAR, 7)]), [(FAR, 7, 0)]);
        assert_eq!(ledger(&[(NEAR, NEAR, 1)]), [(NEAR, 1, 0)]);
    }

    #[test]
    fn rounds_without_a_placement_are_reported_if_there_are_no_others() {
        assert_eq!(ledger(&[(NEAR, FAR, 2), (FAR, NEAR, 1)]), [(Placement::Unsettled, 3, 0)]);
        assert_eq!(ledger(&[]), []);
    }
}
