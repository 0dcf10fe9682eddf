//! A model of an owner that updates three times and a reader, in every order that the memory model allows.

use super::*;
use loom::thread;

/// The step that an owner or a reader leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The words may be visible before the odd version.
    OwnersFence,
    /// The version may be checked before the words are read.
    ReadersFence,
    /// A copy is read although the owner writes it.
    Check,
}

fn update(region: &Region, value: u64, without: Without) {
    let copy = match without {
        Without::OwnersFence => {
            let version = region.load(0);
            region.publish(0, version + 1);
            copy_of(version + 2)
        }
        _ => begin(region, 0),
    };
    region.store(1 + 2 * copy, value);
    region.store(2 + 2 * copy, value);
    end(region, 0);
}

fn read(region: &Region, without: Without) -> Option<[u64; 2]> {
    let look = Look::at(region, 0);
    let first = 1 + 2 * look.copy();
    let words = [region.load(first), region.load(first + 1)];
    let stands = match without {
        Without::ReadersFence => region.load(0).wrapping_sub(look.version) <= 2,
        Without::Check => true,
        _ => look.stands(region, 0),
    };
    stands.then_some(words)
}

/// Panics if words of two updates are read. The owner is the model's first thread, so that loom lets the reader find each
/// of the owner's stores.
fn model(without: Without) {
    loom::model(move || {
        let region = Region::heap(5);
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            if let Some([first, second]) = read(&theirs, without) {
                assert_eq!(first, second, "torn words");
            }
        });
        (1..=3).for_each(|value| update(&region, value, without));
        reader.join().unwrap();
        assert_eq!(read(&region, Without::Nothing), Some([3, 3]));
    });
}

#[test]
fn no_torn_words_are_read() {
    model(Without::Nothing);
}

#[test]
#[should_panic(expected = "torn words")]
fn without_the_owners_fence_torn_words_are_read() {
    model(Without::OwnersFence);
}

#[test]
#[should_panic(expected = "torn words")]
fn without_the_readers_fence_torn_words_are_read() {
    model(Without::ReadersFence);
}

#[test]
#[should_panic(expected = "torn words")]
fn without_the_check_torn_words_are_read() {
    model(Without::Check);
}
