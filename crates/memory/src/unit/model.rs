//! Models of an owner and a reader of two units, in every order that the memory model allows.

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
