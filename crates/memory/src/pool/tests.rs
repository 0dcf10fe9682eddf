//! Tests that compare the pool with a map.

use super::{Content, Key, Pool};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    /// Removes the n-th key that was returned, whether it is stale or not.
    Remove(usize),
    Change(usize, u16),
    Guess(Key),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<u16>().prop_map(Step::Insert),
        6 => any::<usize>().prop_map(Step::Remove),
        3 => any::<(usize, u16)>().prop_map(|(which, value)| Step::Change(which, value)),
        2 => (0u32..8, 0u32..4).prop_map(|(index, generation)| Step::Guess(Key { index, generation })),
        1 => Just(Step::Clear),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 30 } else { 200 })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_pool_is_a_map_with_a_bound(capacity in 0u32..6, steps in steps()) {
        let mut pool = Pool::new(capacity);
        let (mut map, mut given) = (HashMap::new(), Vec::new());
        for step in steps {
            match step {
                Step::Insert(value) => {
                    let next = pool.next_key();
                    let inserted = pool.insert(value);
                    if map.len() == capacity as usize {
                        prop_assert!(pool.is_full() && next.is_none());
                        prop_assert_eq!(inserted.unwrap_err().0, value);
                    } else {
                        let key = inserted.unwrap();
                        prop_assert_eq!(next, Some(key));
                        prop_assert!(key.generation != 0 && key.index < capacity);
                        prop_assert!(!given.contains(&key), "{:?} was returned before", key);
                        given.push(key);
                        map.insert(key, value);
                    }
                }
                Step::Remove(which) if !given.is_empty() => {
                    let key = given[which % given.len()];
                    prop_assert_eq!(pool.remove(key), map.remove(&key));
                }
                Step::Change(which, value) if !given.is_empty() => {
                    let key = given[which % given.len()];
                    prop_assert_eq!(pool.get_mut(key).is_some(), map.contains_key(&key));
                    if let (Some(here), Some(there)) = (pool.get_mut(key), map.get_mut(&key)) {
                        (*here, *there) = (value, value);
                    }
                }
                Step::Guess(key) => {
                    prop_assert_eq!(pool.get(key), map.get(&key));
                    let at = map.keys().find(|known| known.index == key.index);
                    prop_assert_eq!(pool.key_at(key.index), at.copied());
                }
                Step::Clear => {
                    pool.clear();
                    map.clear();
                }
                Step::Remove(_) | Step::Change(..) => {}
            }
            prop_assert_eq!(pool.len(), map.len());
            prop_assert_eq!(pool.is_empty(), map.is_empty());
            prop_assert_eq!(pool.iter().map(|(key, value)| (key, *value)).collect::<HashMap<_, _>>(), map.clone());
            for key in &given {
                prop_assert_eq!(pool.contains(*key), map.contains_key(key));
            }
        }
    }
}

#[test]
fn a_pool_that_has_grown_allocates_no_more() {
    let mut pool = Pool::grown(4);
    let (start, room) = (pool.slots.as_ptr(), pool.slots.capacity());
    for round in 0..10 {
        while pool.insert(round).is_ok() {}
        assert_eq!(pool.len(), 4);
        pool.clear();
    }
    assert_eq!((pool.slots.as_ptr(), pool.slots.capacity()), (start, room));
}

#[test]
fn the_last_generation_is_followed_by_the_first() {
    let mut pool = Pool::new(1);
    let first = pool.insert(1).unwrap();
    pool.remove(first);
    pool.slots[0].generation = u32::MAX;
    let last = pool.insert(2).unwrap();
    assert_eq!(last.generation, u32::MAX);
    assert_eq!(pool.remove(last), Some(2));
    assert_eq!(pool.insert(3).unwrap(), Key { index: 0, generation: 1 });
    assert!(matches!(pool.slots[0].content, Content::Taken(3)));
}

#[test]
fn values_change_in_place_and_are_dropped_once() {
    use std::rc::Rc;
    let value = Rc::new(());
    let mut pool = Pool::new(3);
    let keys: Vec<_> = (0..3).map(|_| pool.insert((0, Rc::clone(&value))).unwrap()).collect();
    for (key, (number, _)) in pool.iter_mut() {
        *number = key.index + 10;
    }
    assert_eq!(pool.get(keys[2]).unwrap().0, 12);
    drop(pool.remove(keys[1]));
    assert_eq!(Rc::strong_count(&value), 3);
    drop(pool);
    assert_eq!(Rc::strong_count(&value), 1);
}
