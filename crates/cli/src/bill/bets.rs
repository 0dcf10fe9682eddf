//! The bets of the nodes, as rows for the text report and the page.

use crate::bill::recording::{Node, Recording};
use upbeat_core::bill::bet::{BETS, Bet};

/// The number of rows above which rows without a loss are left out.
const ROWS: usize = 32;

/// A bet of a node, and how often the node won and lost it.
pub(crate) struct Row<'a> {
    pub(crate) node: &'a Node,
    pub(crate) bet: &'static Bet,
    /// `None` if nobody counts that.
    pub(crate) won: Option<u64>,
    pub(crate) lost: u64,
}

impl<'a> Row<'a> {
    /// Creates the row of a bet, even if the node never took the bet.
    pub(crate) fn of(node: &'a Node, bet: &'static Bet) -> Row<'a> {
        let (won, lost) = (bet.won(|one| node.count(one)), bet.lost(|one| node.count(one)));
        Row { node, bet, won, lost }
    }

    /// Returns how often the node took the bet, where that is known.
    pub(crate) fn taken(&self) -> Option<u64> {
        Some(self.won?.saturating_add(self.lost))
    }

    /// Returns the share of lost bets, in percent, where it is known.
    pub(crate) fn percent(&self) -> Option<f64> {
        Some(100.0 * self.lost as f64 / self.taken()?.max(1) as f64)
    }
}

/// Returns the bets that are known to be taken, and the number of rows that are left out because they have no loss.
pub(crate) fn rows(recording: &Recording) -> (Vec<Row<'_>>, usize) {
    let of = |node| BETS.iter().map(move |bet| Row::of(node, bet));
    let mut rows: Vec<Row<'_>> = recording
        .nodes
        .iter()
        .flat_map(of)
        .filter(|row| row.taken().unwrap_or(row.lost) > 0)
        .collect();
    let all = rows.len();
    if all > ROWS {
        rows.retain(|row| row.lost > 0);
    }
    let left_out = all - rows.len();
    (rows, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::example;

    #[test]
    fn among_many_bets_only_those_with_a_loss_are_listed() {
        let mut recording = example::recording();
        let (few, left_out) = rows(&recording);
        assert!(few.iter().any(|row| row.lost == 0) && left_out == 0);
        let node = recording.nodes[2].clone();
        recording.nodes.extend(std::iter::repeat_n(node, ROWS));
        let (lossy, left_out) = rows(&recording);
        assert_eq!((lossy[0].lost, lossy[0].taken(), lossy[0].percent()), (21, None, None));
        assert_eq!((lossy.len(), lossy[1].lost, lossy[1].taken()), (2, 1_200, Some(10_000)));
        assert!(left_out > ROWS && (lossy[1].percent().unwrap() - 12.0).abs() < 1e-9);
    }
}
