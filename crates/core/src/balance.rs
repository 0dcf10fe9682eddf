//! The choice of the node that gets the next session, among nodes that share a name.
//!
//! The nodes of a process that share a name form a group. Each caller is handed to one of them, which [`next_node`]
//! chooses. A node that nobody drives would keep its callers for ever: a [`Watch`] tells the other nodes when to take
//! them back. The runtime accepts, hands over and keeps the clock; here are the decisions. The invariant: a caller goes
//! to a node that takes callers while there is one, and nodes with equally many sessions take turns.

use crate::limits::HANDED_MS_MAX;

/// A node of a group, as far as the choice is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The sessions that the node has, and the callers that were handed to it and wait there.
    pub sessions: usize,
    /// Whether the node takes its callers and has room for more of them.
    pub takes: bool,
}

/// Returns the place of the node that gets the next session: the node with the fewest sessions among those that take
/// callers, or among all if none does. Of nodes with equally many sessions it is the first one behind `last`, which is
/// the place of the node that was chosen before. None if there is no node.
///
/// ```
/// use upbeat_core::balance::{Candidate, next_node};
///
/// let node = |sessions, takes| Candidate { sessions, takes };
/// let nodes = [node(3, true), node(1, true), node(0, false), node(1, true)];
/// assert_eq!(next_node(nodes.into_iter(), 0), Some(1));
/// assert_eq!(next_node(nodes.into_iter(), 1), Some(3));
/// assert_eq!(next_node(nodes.into_iter(), 3), Some(1));
/// ```
pub fn next_node(nodes: impl Iterator<Item = Candidate>, last: usize) -> Option<usize> {
    let behind = |place: usize| (place <= last, place);
    let key = |(place, node): &(usize, Candidate)| (!node.takes, node.sessions, behind(*place));
    nodes.enumerate().min_by_key(key).map(|(place, _)| place)
}

/// Watches the callers that were handed to other nodes of a group and wait there.
///
/// ```
/// use upbeat_core::balance::Watch;
/// use upbeat_core::limits::HANDED_MS_MAX;
///
/// let mut watch = Watch::default();
/// assert!(!watch.is_overdue(Some(7), 1_000), "caller 7 has just come");
/// assert!(watch.is_overdue(Some(7), 1_000 + HANDED_MS_MAX), "and is still there");
/// assert!(!watch.is_overdue(Some(8), 2_000), "another one waits");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// The number of the caller that waits longest, and when it was first seen there.
    seen: Option<(u64, u64)>,
}

impl Watch {
    /// Notes which caller waits longest with another node now. Returns whether it was there [`HANDED_MS_MAX`] ago, so
    /// that this node takes the callers back.
    pub fn is_overdue(&mut self, oldest: Option<u64>, now_ms: u64) -> bool {
        self.seen = match (oldest, self.seen) {
            (None, _) => None,
            (Some(number), Some((seen, since_ms))) if seen == number => Some((seen, since_ms)),
            (Some(number), _) => Some((number, now_ms)),
        };
        self.ends_ms().is_some_and(|ends_ms| now_ms >= ends_ms)
    }

    /// Returns when to look again, if a caller was seen to wait.
    pub fn ends_ms(&self) -> Option<u64> {
        self.seen.map(|(_, since_ms)| since_ms.saturating_add(HANDED_MS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn nodes(sessions: &[usize]) -> Vec<Candidate> {
        sessions.iter().map(|sessions| Candidate { sessions: *sessions, takes: true }).collect()
    }

    #[test]
    fn the_node_with_the_fewest_sessions_is_next() {
        for (sessions, last, next) in [
            (&[][..], 0, None),
            (&[9], 0, Some(0)),
            (&[1, 0], 1, Some(1)),
            (&[0, 1], 0, Some(0)),
            (&[2, 1, 1, 2], 1, Some(2)),
            (&[2, 1, 1, 2], 2, Some(1)),
            // A node has left since, and the places have changed.
            (&[1, 1], 7, Some(0)),
        ] {
            let found = next_node(nodes(sessions).into_iter(), last);
            assert_eq!(found, next, "{sessions:?} behind {last}");
        }
    }

    #[test]
    fn sessions_are_spread_by_turns() {
        let (mut nodes, mut last) = (nodes(&[0, 0, 0]), 2);
        let mut order = Vec::new();
        for _ in 0..9 {
            last = next_node(nodes.iter().copied(), last).unwrap();
            nodes[last].sessions += 1;
            order.push(last);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        // A node that loses its sessions gets the next ones.
        nodes[1].sessions = 1;
        assert_eq!(next_node(nodes.iter().copied(), last), Some(1));
    }

    #[test]
    fn a_node_that_takes_none_is_passed_over_while_another_takes_them() {
        let mut nodes = nodes(&[0, 5]);
        nodes[0].takes = false;
        assert_eq!(next_node(nodes.iter().copied(), 1), Some(1));
        nodes[1].takes = false;
        assert_eq!(next_node(nodes.iter().copied(), 1), Some(0));
    }

    #[test]
    fn a_caller_is_overdue_where_it_has_not_moved() {
        let mut watch = Watch::default();
        assert!(!watch.is_overdue(None, 0) && watch.ends_ms().is_none());
        assert!(!watch.is_overdue(Some(1), 10));
        assert!(!watch.is_overdue(Some(1), 9 + HANDED_MS_MAX));
        assert_eq!(watch.ends_ms(), Some(10 + HANDED_MS_MAX));
        // The node has taken that one, and another waits.
        assert!(!watch.is_overdue(Some(2), 10 + HANDED_MS_MAX));
        assert!(watch.is_overdue(Some(2), 10 + 2 * HANDED_MS_MAX));
        assert!(!watch.is_overdue(None, 10 + 3 * HANDED_MS_MAX) && watch.ends_ms().is_none());
    }
}
