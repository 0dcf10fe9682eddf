//! The chunks of vectors that grow.

use crate::channel::export::chunks::{CHUNKS, count, find, len, pointer, words};
use crate::channel::export::{Scalar, Shape};
use crate::limits::EXPORT_WORDS_MAX;
use proptest::prelude::*;

#[test]
fn each_element_has_a_place_behind_the_one_before() {
    let most: usize = (0..CHUNKS).map(len).sum();
    assert!(most > EXPORT_WORDS_MAX);
    let (mut chunk, mut index) = (0, 0);
    for element in 0..most {
        let place = find(element).unwrap();
        assert_eq!((place.chunk, place.index), (chunk, index));
        assert_eq!(count(element + 1), chunk + 1, "the chunks of a vector with this element");
        index += 1;
        if index == len(chunk) {
            (chunk, index) = (chunk + 1, 0);
        }
    }
    assert_eq!((chunk, index), (CHUNKS, 0));
    assert_eq!(find(most), None);
    assert_eq!(count(0), 0);
}

#[test]
fn the_head_has_a_word_for_each_chunk() {
    let shape: Shape = "vec<u8>".parse().unwrap();
    assert_eq!(shape.words(), 2 + CHUNKS);
    assert_eq!((pointer(0), pointer(CHUNKS - 1)), (2, shape.words() - 1));
}

proptest! {
    /// The elements of a chunk begin with its first word, and fill it.
    #[test]
    fn a_chunk_has_the_words_of_its_elements(chunk in 0..CHUNKS, words_of in 0_usize..100) {
        for scalar in Scalar::ALL {
            let bytes = len(chunk) * scalar.bytes();
            prop_assert_eq!(bytes % 8, 0, "the next chunk begins with a word");
            prop_assert_eq!(words(chunk, scalar.bytes()), bytes / 8);
        }
        prop_assert_eq!(words(chunk, 8 * words_of), len(chunk) * words_of);
    }

    #[test]
    fn any_number_is_an_index_or_none(element in any::<usize>()) {
        match find(element) {
            Some(place) => prop_assert!(place.chunk < CHUNKS && place.index < len(place.chunk)),
            None => prop_assert!(element >= (0..CHUNKS).map(len).sum()),
        }
        prop_assert!(count(element) <= 64);
    }
}
