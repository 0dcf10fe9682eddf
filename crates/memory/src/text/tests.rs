//! Tests of texts as they are read back, and of any other words in their place.

use super::*;
use proptest::prelude::*;

const WORDS: usize = 4;

fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn a_long_text_is_cut_between_two_characters() {
    let region = Region::heap(WORDS + 2);
    for (text, kept) in [
        ("", ""),
        ("123456789012345678901234", "123456789012345678901234"),
        ("1234567890123456789012345", "123456789012345678901…"),
        ("12345678901234567890ä345", "12345678901234567890…"),
        ("äääääääääääää", "ääääääääää…"),
    ] {
        put(&region, 1, WORDS, text);
        assert_eq!(get(&region, 1, WORDS).as_deref(), Ok(kept));
        assert_eq!((region.load(0), region.load(WORDS + 1)), (0, 0));
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_text_is_read_back_whole_or_cut(text in "\\PC{0,40}") {
        let region = Region::heap(WORDS + 2);
        put(&region, 1, WORDS, &text);
        let back = get(&region, 1, WORDS).unwrap();
        match back.strip_suffix(CUT) {
            Some(kept) if back != text => {
                prop_assert!(text.starts_with(kept) && text.len() > bytes_max(WORDS));
                // The cut removes no more than the mark needs, and a character that did not fit.
                prop_assert!(kept.len() + CUT.len() + 3 >= bytes_max(WORDS));
            }
            _ => prop_assert_eq!(&back, &text),
        }
        prop_assert!(back.len() <= bytes_max(WORDS));
        prop_assert_eq!((region.load(0), region.load(WORDS + 1)), (0, 0));
    }

    #[test]
    fn any_words_are_a_text_or_an_impossible_length(
        length in prop_oneof![any::<u64>(), 0..40_u64],
        words in any::<[u64; WORDS - 1]>(),
    ) {
        let region = Region::heap(WORDS);
        region.store(0, length);
        (1..).zip(words).for_each(|(at, word)| region.store(at, word));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        match get(&region, 0, WORDS) {
            Ok(text) => prop_assert_eq!(text, String::from_utf8_lossy(&bytes[..length as usize])),
            Err(found) => prop_assert!(found == length && length > bytes.len() as u64),
        }
    }
}
