use super::{UnitReader, begin, is_updated};
use crate::region::Region;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A region with a unit of three words at word 0, and one of two words at word 3.
fn region() -> Region {
    Region::heap(5)
}

fn whole(region: &Region) -> Option<[u64; 5]> {
    let mut reader = UnitReader::<2>::new(region);
    reader.look(0);
    reader.look(3);
    reader.read(|region| std::array::from_fn(|at| region.load(at)))
}

#[test]
fn a_unit_that_is_being_updated_is_not_read() {
    let region = region();
    let update = begin(&region, 0, 0);
    region.store(1, 7);
    assert_eq!(whole(&region), None);
    drop(update);
    assert_eq!(whole(&region), Some([2, 7, 0, 0, 0]));
}

#[test]
fn the_owner_knows_which_unit_it_updates() {
    let region = region();
    let update = begin(&region, 0, 6);
    assert!(is_updated(&region, 0) && !is_updated(&region, 3));
    drop(update);
    assert!(!is_updated(&region, 0));
    assert_eq!(region.load(0), 8);
}

#[test]
fn a_unit_that_changes_while_another_is_read_is_not_read() {
    let region = region();
    for changed in [0, 3] {
        let mut reader = UnitReader::<2>::new(&region);
        reader.look(0);
        reader.look(3);
        assert_eq!(reader.read(|region| drop(begin(region, changed, 0))), None);
    }
}

#[test]
fn more_units_than_a_reader_has_room_for_are_not_read() {
    let region = region();
    let mut reader = UnitReader::<1>::new(&region);
    reader.look(0);
    reader.look(3);
    assert_eq!(reader.read(|_| ()), None);
}

#[test]
fn an_update_that_panics_is_ended() {
    let region = region();
    let update = AssertUnwindSafe(|| {
        let _update = begin(&region, 0, 0);
        panic!("within the update");
    });
    assert!(catch_unwind(update).is_err());
    assert!(whole(&region).is_some());
}

/// The version of an owner that has updated so often, or that lies, is no trap.
#[test]
fn the_last_version_is_followed_by_the_first() {
    let region = region();
    drop(begin(&region, 0, u64::MAX - 1));
    assert_eq!(whole(&region), Some([0; 5]));
}

#[test]
fn no_torn_unit_is_read_at_full_speed() {
    let region = Region::heap(9);
    let reader = region.read_only();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for value in 0..if cfg!(miri) { 50 } else { 200_000 } {
                let _update = begin(&region, 0, 2 * value);
                (1..9).for_each(|at| region.store(at, value));
            }
        });
        while !writer.is_finished() {
            let mut unit = UnitReader::<1>::new(&reader);
            unit.look(0);
            let read =
                unit.read(|region| std::array::from_fn::<u64, 8, _>(|at| region.load(at + 1)));
            assert!(
                read.is_none_or(|words| words.iter().all(|word| *word == words[0])),
                "{read:?}"
            );
        }
    });
}
