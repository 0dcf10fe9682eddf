//! The places of a node's sessions, by number.
//!
//! A session with a node of this host has a byte on the node's board, and its number says which. One with a node
//! of another host needs none, and has a number behind those, so that neither kind takes the other's places. A
//! connection that is to go on with a session has a place of a third kind: a table without room for new sessions has room
//! for those.
//! Invariant: a key finds what it was given for or nothing, and a number of the board is never another host's.

use upbeat_core::limits::{REMOTE_PENDING_MAX, REMOTE_SESSIONS_MAX, SESSIONS_PER_NODE_MAX};
use upbeat_core::resume::ATTEMPTS_MAX;
use upbeat_memory::pool::{Key, Pool};

/// The number of the first session with a node of another host.
const FIRST_REMOTE: u32 = SESSIONS_PER_NODE_MAX as u32;
/// The number of the first connection that is to go on with a session.
const FIRST_RESUMING: u32 = FIRST_REMOTE + REMOTE_SESSIONS_MAX as u32;

/// The kind of a session's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A peer on this host.
    Here,
    /// A peer on another host.
    Remote,
    /// A peer on another host whose handshake resumes a session. The session has a place already.
    Resuming,
}

impl Whose {
    /// Returns how many places of this kind a node has at most.
    pub(super) const fn most(self) -> usize {
        match self {
            Whose::Here => SESSIONS_PER_NODE_MAX,
            Whose::Remote => REMOTE_SESSIONS_MAX,
            // The attempts of each session that this node connects again for, and all handshakes of callers.
            Whose::Resuming => REMOTE_SESSIONS_MAX * ATTEMPTS_MAX as usize + REMOTE_PENDING_MAX,
        }
    }

    /// Returns where the peer of the session of this number is.
    fn of(key: Key) -> Whose {
        match key.index {
            ..FIRST_REMOTE => Whose::Here,
            FIRST_REMOTE..FIRST_RESUMING => Whose::Remote,
            FIRST_RESUMING.. => Whose::Resuming,
        }
    }

    /// Returns the number of the first session of this kind.
    const fn first(self) -> u32 {
        match self {
            Whose::Here => 0,
            Whose::Remote => FIRST_REMOTE,
            Whose::Resuming => FIRST_RESUMING,
        }
    }
}

/// The places.
pub(super) struct Table<T> {
    here: Pool<T>,
    remote: Pool<T>,
    resuming: Pool<T>,
}

impl<T> Table<T> {
    /// Returns a table with so many places for sessions with nodes of other hosts.
    pub(super) fn new(remote: usize) -> Table<T> {
        let pool = |most: usize| Pool::new(most as u32);
        let remote = pool(remote.min(Whose::Remote.most()));
        Table { here: pool(Whose::Here.most()), remote, resuming: pool(Whose::Resuming.most()) }
    }

    /// Returns how many places of this kind there are.
    pub(super) fn most(&self, whose: Whose) -> usize {
        self.pool(whose).capacity()
    }

    fn pool(&self, whose: Whose) -> &Pool<T> {
        match whose {
            Whose::Here => &self.here,
            Whose::Remote => &self.remote,
            Whose::Resuming => &self.resuming,
        }
    }

    fn pool_mut(&mut self, whose: Whose) -> &mut Pool<T> {
        match whose {
            Whose::Here => &mut self.here,
            Whose::Remote => &mut self.remote,
            Whose::Resuming => &mut self.resuming,
        }
    }

    /// Returns the key that the next value of this kind will have. None if there is no place left.
    pub(super) fn next_key(&self, whose: Whose) -> Option<Key> {
        self.pool(whose).next_key().map(|key| outer(key, whose))
    }

    /// Puts a value in. None if there is no place left.
    pub(super) fn insert(&mut self, whose: Whose, value: T) -> Option<Key> {
        self.pool_mut(whose).insert(value).ok().map(|key| outer(key, whose))
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let whose = Whose::of(key);
        self.pool(whose).get(inner(key, whose))
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let whose = Whose::of(key);
        self.pool_mut(whose).get_mut(inner(key, whose))
    }

    /// Takes a value out. Its key is stale from now on.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let whose = Whose::of(key);
        self.pool_mut(whose).remove(inner(key, whose))
    }

    /// Returns the value whose byte on the board is this one.
    pub(super) fn on_board(&self, index: usize) -> Option<&T> {
        self.here.get(self.here.key_at(index as u32)?)
    }

    /// Returns the value of this number, if it has the number of a session with a node of another host.
    pub(super) fn remote(&self, number: u64) -> Option<&T> {
        let index = u32::try_from(number).ok()?.checked_sub(FIRST_REMOTE)?;
        self.remote.get(self.remote.key_at(index)?)
    }

    /// Returns the values that have a byte on the board.
    pub(super) fn here(&self) -> impl Iterator<Item = &T> {
        self.here.iter().map(|(_, value)| value)
    }

    /// Returns how many values have a session's number.
    pub(super) fn len(&self) -> usize {
        self.here.len() + self.remote.len()
    }

    /// Returns all values that have a session's number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.here().chain(self.remote.iter().map(|(_, value)| value))
    }
}

fn outer(key: Key, whose: Whose) -> Key {
    Key { index: key.index + whose.first(), ..key }
}

fn inner(key: Key, whose: Whose) -> Key {
    Key { index: key.index - whose.first(), ..key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_either_kind_take_no_place_of_the_other() {
        let mut table = Table::new(REMOTE_SESSIONS_MAX);
        for number in 0..SESSIONS_PER_NODE_MAX {
            let next = table.next_key(Whose::Here);
            let key = table.insert(Whose::Here, number);
            assert_eq!((key, key.unwrap().index as usize), (next, number));
        }
        assert_eq!((table.next_key(Whose::Here), table.insert(Whose::Here, 0)), (None, None));
        let far: Vec<Key> =
            (0..10_000).map(|number| table.insert(Whose::Remote, number).unwrap()).collect();
        assert!(far.iter().all(|key| key.index as usize >= SESSIONS_PER_NODE_MAX));
        for (number, key) in far.iter().enumerate() {
            assert_eq!(table.get(*key), Some(&number));
        }
        assert_eq!(table.remove(far[7]), Some(7));
        assert_eq!(table.get(far[7]), None);
        assert_eq!(table.remove(far[7]), None);
        let again = table.next_key(Whose::Remote).unwrap();
        assert!(again.index == far[7].index && again != far[7]);
        assert_eq!((table.on_board(9), table.on_board(FIRST_REMOTE as usize)), (Some(&9), None));
        let number = |key: Key| u64::from(key.index);
        assert_eq!((table.remote(number(far[8])), table.remote(number(far[7]))), (Some(&8), None));
        let beyond = number(far[9_999]) + 1;
        assert!([0, 9, beyond, u64::MAX].iter().all(|number| table.remote(*number).is_none()));
        assert_eq!(table.here().count(), SESSIONS_PER_NODE_MAX);
        assert_eq!(table.iter().count(), SESSIONS_PER_NODE_MAX + 9_999);
        assert_eq!(table.len(), table.iter().count());
    }

    #[test]
    fn a_connection_finds_a_place_where_sessions_find_none() {
        let mut table = Table::new(2);
        let sessions = [0, 1].map(|value| table.insert(Whose::Remote, value).unwrap());
        assert_eq!((table.next_key(Whose::Remote), table.most(Whose::Remote)), (None, 2));
        for value in 2..2 + Whose::Resuming.most() {
            let key = table.insert(Whose::Resuming, value).unwrap();
            assert!(!sessions.contains(&key) && table.get(key) == Some(&value));
        }
        assert_eq!(table.iter().copied().collect::<Vec<_>>(), [0, 1]);
    }
}
