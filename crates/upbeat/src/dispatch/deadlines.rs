//! The times at which sessions and handshakes need attention next.
//!
//! A node looks only at those whose time has come, however many others wait. Invariant: each key has one time at most,
//! and every operation takes a time that grows with the logarithm of the number of keys.

use std::collections::{BTreeMap, BTreeSet};
use upbeat_memory::pool::Key;

/// Keys, each with the time at which it is due.
#[derive(Default)]
pub(super) struct Deadlines {
    order: BTreeSet<(u64, Key)>,
    of: BTreeMap<Key, u64>,
}

impl Deadlines {
    /// Sets when a key is due; None for never.
    pub(super) fn set(&mut self, key: Key, at: Option<u64>) {
        let before = match at {
            Some(at) => self.of.insert(key, at),
            None => self.of.remove(&key),
        };
        if before != at {
            if let Some(before) = before {
                self.order.remove(&(before, key));
            }
            self.order.extend(at.map(|at| (at, key)));
        }
    }

    /// Returns when the next key is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Returns the keys that are due, the longest due ones first. They stay due until another time is set.
    pub(super) fn due(&self, now: u64) -> impl Iterator<Item = Key> {
        self.order.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| *key)
    }

    /// Returns all keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.of.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key { index, generation: 1 }
    }

    /// Sixty thousand keys are set, come due a few at a time, and are set again: each is handed out once.
    #[test]
    fn each_of_sixty_thousand_keys_is_handed_out_once() {
        const KEYS: u32 = 60_000;
        let mut deadlines = Deadlines::default();
        for index in 0..KEYS {
            deadlines.set(key(index), Some(0));
            deadlines.set(key(index), Some(u64::from(KEYS - index)));
        }
        let mut visited = 0;
        for now in 1..=u64::from(KEYS) {
            assert_eq!(deadlines.next(), Some(now));
            let due: Vec<Key> = deadlines.due(now).collect();
            assert_eq!(due, [key(KEYS - now as u32)]);
            visited += due.len();
            let later = (now % 2 == 0).then_some(1_000_000);
            deadlines.set(due[0], later);
        }
        assert_eq!((visited, deadlines.keys().count()), (KEYS as usize, KEYS as usize / 2));
        assert_eq!((deadlines.next(), deadlines.due(999_999).count()), (Some(1_000_000), 0));
        let left: Vec<Key> = deadlines.keys().collect();
        left.into_iter().for_each(|key| deadlines.set(key, None));
        assert_eq!((deadlines.next(), deadlines.order.len()), (None, 0));
    }
}
