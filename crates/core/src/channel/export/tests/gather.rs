//! Values in one piece.

use super::memory::Memory;
use crate::channel::export::{NotGathered, Shape, gather};
use std::vec::Vec;

fn shape(text: &str) -> Shape {
    text.parse().unwrap()
}

#[test]
fn vectors_in_each_other_come_in_one_piece() {
    let shape =
        shape("A { a: vec<B { b: vec<u16>, c: option<vec<u8>> }>, d: map<u8, vec<u32>; 3> }");
    for seed in 0..200 {
        let (memory, value) = Memory::invent(&shape, seed);
        let words = gather(&shape, 0, memory.words.len(), &mut |at| memory.words[at]).unwrap();
        assert_eq!(shape.resolve("").unwrap().value(&words), Ok(value));
        assert!(words.len() <= memory.words.len(), "only what the value has");
    }
}

/// Gathers a vector of such elements, whose head has this length and this place of each chunk, from endless memory.
fn endless(of: &str, len: u64, chunk: u64) -> Result<Vec<u64>, NotGathered> {
    let mut head = [chunk; 23];
    head[1] = len;
    let load = &mut |at: usize| head.get(at).copied().unwrap_or(0);
    gather(&shape(&std::format!("vec<{of}>")), 0, usize::MAX, load)
}

#[test]
fn a_vector_of_any_words_is_gathered_within_bounds() {
    assert_eq!(endless("u8", 20, 1000).unwrap().len(), 23 + 1 + 2);
    for len in [1 << 27, 1 << 40, u64::MAX] {
        for of in ["u8", "u64", "[u8; 100]", "[u8; 0]", "vec<u8>", "[vec<u8>; 0]"] {
            assert_eq!(endless(of, len, 1000), Err(NotGathered::Large), "{len} of {of}");
        }
    }
    assert_eq!(endless("u8", 20, u64::MAX), Err(NotGathered::Outside), "no memory is so large");
}

/// A reader leads the owner to words of another shape: they are a vector whose elements lie outside of the export.
#[test]
fn a_vector_that_leads_out_of_the_export_is_not_gathered() {
    let mut numbers = [1_u64 << 40; 64];
    numbers[1] = 8;
    let load = &mut |at: usize| numbers.get(at).copied().expect("the export has no such word");
    for of in ["u64", "vec<u64>"] {
        let shape = shape(&std::format!("vec<{of}>"));
        assert_eq!(gather(&shape, 0, numbers.len(), load), Err(NotGathered::Outside));
    }
}
