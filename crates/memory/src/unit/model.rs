//! Models of an owner and readers of units, in every order that the memory model allows.

use super::*;
use loom::thread;

const FIRST: usize = 0;
const SECOND: usize = 3;

/// The way in which a unit is updated.
#[derive(Clone, Copy)]
enum Writes {
    /// The owner uses [`begin`].
    Whole,
    /// The words may be visible before the odd version.
    WithoutFence,
    /// The even version may be visible before the words.
    WithoutRelease,
}

fn update(region: &Region, at: usize, value: u64, writes: Writes) {
    let version = region.load(at);
    let update = matches!(writes, Writes::Whole).then(|| begin(region, at, version));
    if update.is_none() {
        region.store(at, version + 1);
    }
    if matches!(writes, Writes::WithoutRelease) {
        fence(Ordering::Release);
    }
    region.store(at + 1, value);
    region.store(at + 2, value);
    match writes {
        Writes::Whole => {}
        Writes::WithoutFence => region.publish(at, version + 2),
        Writes::WithoutRelease => region.store(at, version + 2),
    }
}

/// The way in which units are read.
#[derive(Clone, Copy)]
enum Reads {
    /// The reader uses [`UnitReader::read`].
    Whole,
    /// The words may be read before the versions.
    WithoutFirstFence,
    /// The versions may be checked before the words are read.
    WithoutLastFence,
}

fn read(region: &Region, units: &[usize], reads: Reads) -> Option<Vec<u64>> {
    let words = |region: &Region| {
        units.iter().flat_map(|at| [region.load(at + 1), region.load(at + 2)]).collect()
    };
    let mut reader = UnitReader::<2>::new(region);
    units.iter().for_each(|at| reader.look(*at));
    if let Reads::Whole = reads {
        return reader.read(words);
    }
    if reader.is_busy {
        return None;
    }
    if matches!(reads, Reads::WithoutLastFence) {
        fence(Ordering::Acquire);
    }
    let found = words(region);
    if matches!(reads, Reads::WithoutFirstFence) {
        fence(Ordering::Acquire);
    }
    let stand =
        units.iter().zip(reader.units).all(|(at, (_, version))| region.load(*at) == version);
    stand.then_some(found)
}

/// Models one unit that is updated twice while it is read. Panics if words of two updates are read.
///
/// The owner is the model's first thread, so that loom lets the reader find each of the owner's stores.
fn one_unit(writes: Writes, reads: Reads) {
    loom::model(move || {
        let region = Region::heap(3);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            let found = read(&theirs, &[FIRST], reads);
            assert!(found.is_none_or(|words| words[0] == words[1]), "a torn unit");
        });
        update(&region, FIRST, 1, writes);
        update(&region, FIRST, 2, writes);
        reader.join().unwrap();
        assert_eq!(read(&region, &[FIRST], Reads::Whole), Some(vec![2, 2]));
    });
}

#[test]
fn no_torn_unit_is_read() {
    one_unit(Writes::Whole, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn unit")]
fn without_the_owners_fence_a_torn_unit_is_read() {
    one_unit(Writes::WithoutFence, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn unit")]
fn without_the_owners_release_a_torn_unit_is_read() {
    one_unit(Writes::WithoutRelease, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn unit")]
fn without_the_readers_first_fence_a_torn_unit_is_read() {
    one_unit(Writes::Whole, Reads::WithoutFirstFence);
}

#[test]
#[should_panic(expected = "a torn unit")]
fn without_the_readers_last_fence_a_torn_unit_is_read() {
    one_unit(Writes::Whole, Reads::WithoutLastFence);
}

/// Two units that are updated one after the other are read as of one moment: never the second update without the first.
#[test]
fn units_are_read_as_of_one_moment() {
    loom::model(|| {
        let region = Region::heap(6);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            if let Some(words) = read(&theirs, &[FIRST, SECOND], Reads::Whole) {
                assert!(words[0] >= words[2], "the second update without the first: {words:?}");
            }
        });
        update(&region, FIRST, 1, Writes::Whole);
        update(&region, SECOND, 1, Writes::Whole);
        reader.join().unwrap();
    });
}

/// Models two values of one word. The owner changes the first one and then the second one. Panics if a reader that has
/// found the second change does not find the first one.
fn two_words(reader_fences: bool) {
    loom::model(move || {
        let region = Region::heap(6);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            let read = |at: usize| match reader_fences {
                true => apart(|| theirs.load(at + 1)),
                false => theirs.load(at + 1),
            };
            let (second, first) = (read(SECOND), read(FIRST));
            assert!(first >= second, "the second change without the first");
        });
        for at in [FIRST, SECOND] {
            let update = begin(&region, at, 0);
            region.store(at + 1, 7);
            drop(update);
        }
        reader.join().unwrap();
    });
}

#[test]
fn values_of_one_word_are_read_in_order() {
    two_words(true);
}

#[test]
#[should_panic(expected = "the second change without the first")]
fn without_the_readers_fence_values_of_one_word_are_read_out_of_order() {
    two_words(false);
}

/// Models values of one word of two halves, which have no version. The owner may store the halves apart, as it does with
/// words that have a version, and the reader may load them apart. Panics if halves of two changes are read.
fn one_word(stores_whole: bool, loads_whole: bool) {
    loom::model(move || {
        let region = Region::heap(3);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            let word = apart(|| theirs.load(FIRST + 1));
            let other = if loads_whole { word } else { theirs.load(FIRST + 1) };
            let (low, high) = (word as u32, (other >> 32) as u32);
            assert_eq!(low, high, "a torn word");
        });
        let update = begin(&region, FIRST, 0);
        if !stores_whole {
            region.store(FIRST + 1, 7);
        }
        region.store(FIRST + 1, 7 << 32 | 7);
        drop(update);
        reader.join().unwrap();
    });
}

#[test]
fn an_array_of_one_word_is_not_torn() {
    one_word(true, true);
}

#[test]
#[should_panic(expected = "a torn word")]
fn a_word_that_is_stored_in_halves_is_torn() {
    one_word(false, true);
}

#[test]
#[should_panic(expected = "a torn word")]
fn a_word_that_is_loaded_in_halves_is_torn() {
    one_word(true, false);
}

/// Models a pointer, a unit of its own, that the owner redirects before it changes the value to which the pointer led.
/// Panics if a reader that follows the pointer finds a value to which the pointer never led.
fn routed(reader_fences: bool) {
    const POINTER: usize = 0;
    const OLD: usize = 2;
    const NEW: usize = 4;
    loom::model(move || {
        let region = Region::heap(6);
        region.store(POINTER + 1, OLD as u64);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            let mut reader = UnitReader::<2>::new(&theirs);
            match reader_fences {
                true => reader.look_first(POINTER),
                false => reader.look(POINTER),
            }
            let to = theirs.load(POINTER + 1) as usize;
            reader.look_first(to);
            let found = reader.read(|region| region.load(to + 1));
            assert!(
                found.is_none_or(|value| value == 0),
                "a value of another moment than its route"
            );
        });
        let update = begin(&region, POINTER, 0);
        region.store(POINTER + 1, NEW as u64);
        drop(update);
        let update = begin(&region, OLD, 2);
        region.store(OLD + 1, 7);
        drop(update);
        reader.join().unwrap();
    });
}

#[test]
fn a_value_and_its_route_are_of_one_moment() {
    routed(true);
}

#[test]
#[should_panic(expected = "a value of another moment than its route")]
fn without_the_fence_behind_a_look_a_route_leads_to_another_moment() {
    routed(false);
}

/// Models a unit that moves to another region while the owner updates it. One reader reads the region before, and
/// another one reads it and then the region to which the owner has told it the unit has moved. Panics if words of two
/// updates are read, or an older value after a later one. The update may end in the region before.
fn moved(ends_elsewhere: bool) {
    const TOLD: usize = 3;
    let find = |region: &Region| {
        let found = read(region, &[FIRST], Reads::Whole);
        assert!(found.as_ref().is_none_or(|words| words[0] == words[1]), "a torn unit");
        found.map(|words| words[0])
    };
    // All orders of three threads take half a minute.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (last, next) = (Region::heap(4), Region::heap(3));
        let (theirs, others, elsewhere) = (last.clone(), last.clone(), next.clone());
        let reader = thread::spawn(move || find(&theirs));
        let follower = thread::spawn(move || {
            let before = find(&others);
            if look(&others, TOLD) == 1 {
                let after = find(&elsewhere);
                assert!(after.is_none() || after >= before, "an older value");
            }
        });
        let update = open(&last, FIRST, 0);
        last.store(FIRST + 1, 1);
        (FIRST..FIRST + 3).for_each(|at| next.store(at, last.load(at)));
        last.publish(TOLD, 1);
        next.store(FIRST + 2, 1);
        update.end(if ends_elsewhere { &next } else { &last }, FIRST);
        reader.join().unwrap();
        follower.join().unwrap();
    });
}

#[test]
fn a_unit_that_moves_is_not_torn() {
    moved(true);
}

#[test]
#[should_panic(expected = "a torn unit")]
fn an_update_that_ends_where_the_unit_was_tears_it() {
    moved(false);
}
