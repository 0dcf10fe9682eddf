//! Slots of maps, against a plain map.

use crate::channel::export::map::{Slots, slot_words, tag};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u64, u64),
    Remove(u64),
    Find(u64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    // Few keys, so that most of them meet each other, and the map is often full.
    let key = 0..12_u64;
    let operation = prop_oneof![
        3 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Operation::Insert(key, value)),
        2 => key.clone().prop_map(Operation::Remove),
        1 => key.prop_map(Operation::Find),
    ];
    proptest::collection::vec(operation, 0..80)
}

/// A map of keys of so many words, and of values of a word.
struct Map {
    words: Vec<u64>,
    slots: Slots,
}

impl Map {
    fn new(at: usize, len: usize, key: usize) -> Map {
        let slots = Slots { at, len, key, value: 1 };
        Map { words: vec![0; at + 2 + len * slot_words(key, 1)], slots }
    }

    /// Returns the words of a key, most of which are the same.
    fn key(&self, key: u64) -> Vec<u64> {
        let mut words = vec![7; self.slots.key];
        *words.last_mut().unwrap() = key;
        words
    }

    /// Finds a key by loads of the slots alone, each word once at most.
    fn find(&self, key: u64) -> Option<usize> {
        let mut seen = vec![false; self.words.len()];
        self.slots.find(&self.key(key), &mut |at| {
            assert!(at >= self.slots.at + 2, "word {at} belongs to no slot");
            assert!(!std::mem::replace(&mut seen[at], true), "word {at} is loaded again");
            self.words[at]
        })
    }

    fn value(&self, slot: usize) -> u64 {
        self.words[self.slots.value_of(slot)]
    }

    /// Inserts an entry. Returns whether there is room for it.
    fn insert(&mut self, key: u64, value: u64) -> bool {
        let words = self.key(key);
        let load = &mut |at: usize| self.words[at];
        let Some(slot) = self.find(key).or_else(|| self.slots.room(&words, load)) else {
            return false;
        };
        self.words[self.slots.slot(slot)] = tag(&words);
        let first = self.slots.key_of(slot);
        self.words[first..first + words.len()].copy_from_slice(&words);
        self.words[self.slots.value_of(slot)] = value;
        true
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let slot = self.find(key)?;
        let value = self.value(slot);
        let mut puts = Vec::new();
        self.slots.remove(slot, &mut |at| self.words[at], &mut |at, word| puts.push((at, word)));
        puts.into_iter().for_each(|(at, word)| self.words[at] = word);
        Some(value)
    }

    /// Returns the slots whose entries were removed, and that are not free.
    fn removed(&self) -> Vec<usize> {
        (0..self.slots.len).filter(|slot| self.words[self.slots.slot(*slot)] == 1).collect()
    }

    /// Returns how many slots a search looks at for a key that the map does not have, in the mean of many.
    fn looks(&self) -> usize {
        let mut looks = 0;
        let missing = u64::MAX - 1000..u64::MAX;
        let found = missing.filter(|key| {
            let key = self.key(*key);
            let found = self.slots.find(&key, &mut |at| {
                looks += 1;
                self.words[at]
            });
            found.is_some()
        });
        assert_eq!(found.count(), 0);
        looks / 1000
    }

    fn entries(&self) -> usize {
        (0..self.slots.len)
            .filter(|slot| Slots::is_entry(self.words[self.slots.slot(*slot)]))
            .count()
    }
}

proptest! {
    #[test]
    fn a_map_does_what_a_plain_map_does(
        operations in operations(),
        at in 0_usize..3,
        len in 0_usize..9,
        key in 1_usize..4,
    ) {
        let mut map = Map::new(at, len, key);
        let mut model = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Insert(key, value) => {
                    let has_room = model.len() < len || model.contains_key(&key);
                    prop_assert_eq!(map.insert(key, value), has_room);
                    if has_room {
                        model.insert(key, value);
                    }
                }
                Operation::Remove(key) => prop_assert_eq!(map.remove(key), model.remove(&key)),
                Operation::Find(key) => {
                    let found = map.find(key).map(|slot| map.value(slot));
                    prop_assert_eq!(found, model.get(&key).copied());
                }
            }
            for key in 0..12 {
                prop_assert_eq!(map.find(key).map(|slot| map.value(slot)), model.get(&key).copied());
            }
            prop_assert_eq!(map.entries(), model.len());
            for slot in map.removed() {
                let word = map.slots.slot(slot);
                map.words[word] = 0;
                let needs = model.keys().any(|key| map.find(*key).is_none());
                prop_assert!(needs, "no entry needs slot {slot}");
                map.words[word] = 1;
            }
        }
    }

    /// A search ends, and stays in its map, whatever the words are.
    #[test]
    fn a_search_among_any_words_ends(
        len in 0_usize..9,
        wanted in 0_u64..3,
        words in proptest::collection::vec(0_u64..5, 60),
    ) {
        let mut map = Map::new(1, len, 2);
        let tag = tag(&map.key(wanted));
        for (word, any) in map.words.iter_mut().zip(words) {
            *word = [0, 1, tag, 7, wanted][any as usize];
        }
        if let Some(slot) = map.find(wanted) {
            prop_assert!(slot < len);
            let first = map.slots.key_of(slot);
            prop_assert_eq!(&map.words[first..first + 2], &[7, wanted]);
        }
    }

    #[test]
    fn the_word_of_an_entry_is_none_of_a_slot_without_one(key in proptest::collection::vec(any::<u64>(), 0..5)) {
        prop_assert!(Slots::is_entry(tag(&key)));
    }
}

#[test]
fn a_removed_entry_leaves_a_free_slot_where_nothing_lies_behind_it() {
    for len in 1..6 {
        let mut map = Map::new(0, len, 1);
        (0..len as u64).for_each(|key| assert!(map.insert(key, key)));
        assert!(!map.insert(99, 0), "the map is full");
        assert_eq!(map.find(99), None);
        (0..len as u64).for_each(|key| assert_eq!(map.remove(key), Some(key)));
        assert_eq!(map.entries(), 0);
        assert_eq!(map.removed(), [0; 0], "no entry needs a slot");
        let mut map = Map::new(0, 4, 1);
        for key in 0..100 {
            assert!(map.insert(key, 0));
            assert_eq!(map.remove(key), Some(0));
            assert!(map.words.iter().skip(2).step_by(3).all(|word| *word == 0), "all are free");
        }
    }
    assert_eq!(Map::new(0, 0, 1).find(1), None);
}

/// A map whose entries come and go, half of its slots in use, and that is full in between.
#[test]
fn searches_stay_short_however_many_entries_a_map_has_had() {
    const LEN: u64 = 256;
    let mut map = Map::new(0, LEN as usize, 1);
    let mut oldest = 0;
    (0..LEN / 2).for_each(|key| assert!(map.insert(key, key)));
    for round in 0..3 {
        for _ in 0..8 * LEN {
            assert!(map.insert(oldest + LEN / 2, 0));
            assert_eq!(map.remove(oldest).map(|_| ()), Some(()));
            oldest += 1;
        }
        let looks = map.looks();
        assert!(looks < 8, "{looks} looks in round {round}");
        (0..LEN / 2).for_each(|key| assert!(map.insert(oldest + LEN / 2 + key, 0)));
        assert_eq!(map.looks(), LEN as usize, "it is full");
        (0..LEN / 2).for_each(|key| assert!(map.remove(oldest + key).is_some()));
        oldest += LEN / 2;
    }
}

/// The words of maps lie in the memory of owners and of readers, who may be of other versions.
#[test]
fn a_tag_never_changes() {
    assert_eq!(tag(&[]), 2);
    assert_eq!(tag(&[1]), 0x9e37_79b9_e17d_05ae);
    assert_eq!(tag(&[3, 0x0052_5545]), 0x0238_332b_685a_d827);
    let slots = Slots { at: 10, len: 4, key: 2, value: 3 };
    assert_eq!((slots.slot(1), slots.key_of(1), slots.value_of(1)), (18, 19, 21));
}
