//! Tests that compare the words and bytes of a region with a vector.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 64 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_region_stores_bytes_as_a_vector_does(
        writes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()),
            0..if cfg!(miri) { 6 } else { 40 },
        )
    ) {
        const WORDS: usize = if cfg!(miri) { 80 } else { 1200 };
        let region = Region::heap(WORDS);
        let mut plain = vec![0; WORDS * WORD];
        for (at, len, seed) in writes {
            let at = at.index(plain.len() + 1);
            // Both short and long writes are generated.
            let most = (plain.len() - at).min(if seed % 2 == 0 { 40 } else { usize::MAX });
            let bytes: Vec<u8> = (0..len.index(most + 1)).map(|i| (i as u8).wrapping_mul(seed)).collect();
            region.write(at, &bytes);
            plain[at..at + bytes.len()].copy_from_slice(&bytes);
            let from = at / WORD * WORD;
            let mut out = vec![0xee; bytes.len().min(plain.len() - from) + 1];
            let room = out.len() - 1;
            region.read(from, &mut out[..room]);
            prop_assert_eq!(&out[..room], &plain[from..from + room]);
            // The read writes no byte beyond the requested ones.
            prop_assert_eq!(out[room], 0xee);
        }
        let mut out = vec![0; plain.len()];
        region.read(0, &mut out);
        prop_assert!(out == plain);
        for (word, bytes) in plain.chunks(WORD).enumerate() {
            prop_assert_eq!(region.load(word).to_ne_bytes(), bytes);
            prop_assert_eq!(region.load_bytes(word), bytes);
        }
    }
}

#[test]
fn values_are_read_as_they_were_written() {
    let region = Region::heap(4);
    region.write(8, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(region.read_value::<[u8; 12]>(8), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(region.read_value::<u32>(16), u32::from_ne_bytes([9, 10, 11, 12]));
    assert_eq!(region.read_value::<[u8; 0]>(32), []);
    region.store_byte(9, 77);
    assert_eq!(region.load_bytes(1)[1], 77);
    assert_eq!((region.take_byte(9), region.take_byte(9)), (77, 0));
}

#[test]
fn a_part_keeps_the_memory_alive_and_checks_its_own_bounds() {
    let part = Region::heap(16).part(3, 5);
    part.store(4, 1);
    assert_eq!((part.words(), part.load(4), part.take(4), part.load(4)), (5, 1, 1, 0));
    let part = part.part(1, 4).part(4, 0);
    assert_eq!(part.words(), 0);
    part.write(0, &[]);
    part.read(0, &mut []);
}

#[test]
fn an_access_out_of_bounds_or_a_store_to_a_read_only_region_panics() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let region = Region::heap(4);
    let mut room = [0; 40];
    let refused = |act: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(act)).is_err();
    assert!(refused(&mut || _ = region.load(4)));
    assert!(refused(&mut || _ = region.load_bytes(4)));
    assert!(refused(&mut || region.store(usize::MAX, 0)));
    assert!(refused(&mut || region.publish(4, 0)));
    assert!(refused(&mut || region.store_byte(32, 0)));
    assert!(refused(&mut || _ = region.take_byte(32)));
    assert!(refused(&mut || _ = region.take(4)));
    assert!(refused(&mut || region.toggle(4, 1)));
    assert!(refused(&mut || region.write(31, &[0; 2])));
    assert!(refused(&mut || region.write(usize::MAX, &[0; 2])));
    assert!(refused(&mut || region.read(24, &mut room[..9])));
    assert!(refused(&mut || region.read(4, &mut room[..4])));
    assert!(refused(&mut || region.read(usize::MAX - 7, &mut room[..8])));
    assert!(refused(&mut || _ = region.read_value::<[u8; 33]>(0)));
    assert!(refused(&mut || _ = region.part(2, 3)));
    assert!(refused(&mut || _ = region.part(5, 0)));
    assert!(refused(&mut || _ = region.part(1, usize::MAX)));
    let read_only = region.read_only();
    assert!(refused(&mut || read_only.store(0, 0)));
    assert!(refused(&mut || read_only.publish(0, 0)));
    assert!(refused(&mut || read_only.store_byte(0, 0)));
    assert!(refused(&mut || read_only.write(0, &[0])));
    assert!(refused(&mut || _ = read_only.take_byte(0)));
    assert!(refused(&mut || _ = read_only.take(0)));
    assert!(refused(&mut || read_only.toggle(0, 1)));
}

/// Slots and headers of lanes share no line and no pair of lines with others.
#[test]
fn the_words_of_a_heap_begin_a_pair_of_lines() {
    for words in [1, 9, 100, 1024] {
        for region in [Region::heap(words), Region::try_heap(words).unwrap()] {
            assert_eq!(region.bytes_at(0, words * WORD).align_offset(128), 0, "{words} words");
        }
    }
}
