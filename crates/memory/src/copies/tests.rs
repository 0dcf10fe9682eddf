use super::{Look, begin, end};
use crate::region::Region;

/// A version, and two copies of a word.
fn region() -> Region {
    Region::heap(3)
}

fn update(region: &Region, value: u64) {
    let copy = begin(region, 0);
    region.store(1 + copy, value);
    end(region, 0);
}

#[test]
fn the_last_copy_stands_while_the_next_one_is_written() {
    let region = region();
    update(&region, 7);
    let before = Look::at(&region, 0);
    let copy = begin(&region, 0);
    region.store(1 + copy, 8);
    for look in [before, Look::at(&region, 0)] {
        assert_ne!(look.copy(), copy);
        assert_eq!(region.load(1 + look.copy()), 7);
        assert!(look.stands(&region, 0));
    }
    end(&region, 0);
    assert!(before.stands(&region, 0), "its copy is not written yet");
    let after = Look::at(&region, 0);
    assert_eq!((after.copy(), after.version(), region.load(1 + after.copy())), (copy, 4, 8));
}

#[test]
fn a_look_falls_with_the_second_update() {
    let region = region();
    let look = Look::at(&region, 0);
    update(&region, 1);
    assert!(look.stands(&region, 0));
    begin(&region, 0);
    assert!(!look.stands(&region, 0), "its copy is being written");
    end(&region, 0);
    assert!(!look.stands(&region, 0));
}

#[test]
fn who_begins_twice_writes_the_same_copy() {
    let region = region();
    assert_eq!(begin(&region, 0), begin(&region, 0), "the first update was not ended");
}
