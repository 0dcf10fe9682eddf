//! Tests of heads with generated words: parsing is the inverse of writing, and never panics.

use proptest::prelude::*;

use super::*;
use crate::limits::{ERROR_TEXT_BYTES_MAX, STAMPS_BYTES_MAX};

fn number() -> impl Strategy<Value = CallNumber> {
    any::<u64>().prop_map(CallNumber::from_u64)
}

fn extended(head: Head, flags: u16, len: u32) -> Head {
    let flags = Flags(flags & head.kind.shape().flags.0);
    let len = match flags.has(Flags::PLACED) {
        true => flags.extension_bytes(),
        false => len.max(flags.extension_bytes()),
    };
    Head { len, ..head.with_flags(flags) }
}

fn head() -> impl Strategy<Value = Head> {
    let len = || prop_oneof![0..=LEN_MAX, 0..=64u32, Just(LEN_MAX)];
    prop_oneof![
        (any::<u16>(), number(), len(), 0..128u16).prop_map(|(m, n, l, f)| extended(
            Head::call(m, n, l),
            f,
            l
        )),
        (any::<u16>(), len(), 0..128u16).prop_map(|(m, l, f)| extended(Head::oneway(m, l), f, l)),
        (number(), len(), 0..8u16).prop_map(|(n, l, f)| extended(Head::reply(n, l), f, l)),
        (number(), 1..=1 + ERROR_TEXT_BYTES_MAX as u32).prop_map(|(n, l)| Head::failed(n, l)),
        number().prop_map(Head::cancel),
        (number(), 8..=STAMPS_BYTES_MAX as u32).prop_map(|(n, l)| Head::stamps(n, l)),
        (any::<u16>(), number(), len(), 1..28u8)
            .prop_map(|(m, n, l, p)| { Head::call(m, n, l).with_manner(Some(StampMode::Pair(p))) }),
        (number(), len(), 0..1_u64 << 48).prop_map(|(n, l, stamp)| {
            let head = Head::reply(n, l).with_manner(Some(StampMode::Whole));
            Head { stamp, ..head }
        }),
        (any::<u16>(), len(), any::<u64>()).prop_map(|(m, l, stamp)| {
            let head = Head::oneway(m, l).with_manner(Some(StampMode::Pair(9)));
            Head { stamp, ..head }
        }),
        any::<u32>().prop_map(Head::switch),
        any::<u64>().prop_map(Head::nack),
        Just(Head::reserve()),
        any::<u64>().prop_map(Head::grant),
        any::<u64>().prop_map(Head::withdraw),
        any::<u32>().prop_map(Head::slab),
        any::<u32>().prop_map(Head::retire),
        Just(Head::goodbye()),
    ]
}

proptest! {
    #[test]
    fn parse_is_the_inverse_of_words(head in head(), lap: u8, span: u16) {
        let mut words = head.words();
        words[0] |= u64::from(lap) | u64::from(span) << 16;
        prop_assert_eq!(Head::parse(words), Ok(head));
    }

    #[test]
    fn any_words_give_a_head_or_a_rule(words: [u64; 3]) {
        check(words);
    }

    /// Random words nearly always break the first rule; words near a valid head reach the other rules.
    #[test]
    fn words_near_a_head_give_a_head_or_a_rule(
        head in head(),
        at in 0..192u32,
        also in 0..192u32,
    ) {
        let mut words = head.words();
        words[at as usize / 64] ^= 1 << (at % 64);
        words[also as usize / 64] ^= 1 << (also % 64);
        check(words);
    }

    /// The inline path accepts exactly the heads that the shapes accept.
    #[test]
    fn both_paths_agree(head in head(), word in 0..3usize, value: u64, near in any::<bool>()) {
        let mut words = head.words();
        words[word] = if near { words[word] ^ (value & 0xff) << 8 } else { value };
        prop_assert_eq!(Head::parse(words), Head::parse_any(words));
    }
}

/// Checks that a parsed head has the words that were parsed, without lap and span.
fn check(words: [u64; 3]) {
    match Head::parse(words) {
        Ok(head) => {
            let [first, second, third] = head.words();
            assert_eq!([first, second, third], [words[0] & !0xffff_00ff, words[1], words[2]]);
            assert!(head.body_bytes() <= LEN_MAX);
        }
        Err(rule) => assert!(!rule.to_string().is_empty()),
    }
}

#[test]
fn every_broken_shape_names_its_rule() {
    let one = CallNumber::new(1, 1);
    let call = Head::call(1, one, 8);
    let stamped = Some(StampMode::Whole);
    let cases: [(Head, Rule); 25] = [
        (Head::cancel(one).with_manner(stamped), Rule::StrayManner { kind: 6, manner: 255 }),
        (Head::stamps(one, 7), Rule::LengthBelowMin { kind: 9, len: 7, min: 8 }),
        (
            Head { len: LEN_MAX + 1, ..call },
            Rule::LengthBeyondMax { len: LEN_MAX + 1, max: LEN_MAX },
        ),
        (Head { flags: Flags(128), ..call }, Rule::UnknownFlags { kind: 1, flags: 128 }),
        (Head::reply(one, 8).with_flags(Flags::CONTEXT), Rule::UnknownFlags { kind: 4, flags: 64 }),
        (
            Head::operation(1, one, 8).with_flags(Flags::CONTEXT),
            Rule::UnknownFlags { kind: 18, flags: 64 },
        ),
        (
            Head::oneway(7, 16).with_flags(Flags::REFUSABLE),
            Rule::UnknownFlags { kind: 2, flags: 8 },
        ),
        (
            Head::oneway(7, 16).with_flags(Flags::EXTENDABLE),
            Rule::UnknownFlags { kind: 2, flags: 16 },
        ),
        (Head { len: 7, ..Head::extend(one) }, Rule::LengthBelowMin { kind: 16, len: 7, min: 8 }),
        (Head { len: 9, ..Head::extended(one) }, Rule::LengthBeyondMax { len: 9, max: 8 }),
        (Head::reply(one, 16).with_flags(Flags::GRANTED), Rule::UnknownFlags { kind: 4, flags: 4 }),
        (Head { len: 9, ..call.with_flags(Flags::PLACED) }, Rule::StrayPayload { kind: 1, len: 9 }),
        (
            call.with_flags(Flags::PLACED.with(Flags::GRANTED)),
            Rule::LengthBelowMin { kind: 1, len: 8, min: 16 },
        ),
        (Head { len: 1, ..Head::nack(5) }, Rule::StrayPayload { kind: 10, len: 1 }),
        (Head { len: 4, ..Head::reserve() }, Rule::LengthBelowMin { kind: 11, len: 4, min: 8 }),
        (
            Head { call: one, ..Head::reserve() },
            Rule::StrayNumber { kind: 11, index: 1, generation: 1 },
        ),
        (Head { method: 1, ..Head::grant(5) }, Rule::StrayMethod { kind: 12, method: 1 }),
        (
            Head { call: one, ..Head::slab(1) },
            Rule::StrayNumber { kind: 14, index: 1, generation: 1 },
        ),
        (
            Head { call: one, ..Head::retire(1) },
            Rule::StrayNumber { kind: 15, index: 1, generation: 1 },
        ),
        (Head::reply(one, 8).with_flags(Flags::DEADLINE), Rule::UnknownFlags { kind: 4, flags: 1 }),
        (
            Head { call: one, ..Head::oneway(1, 8) },
            Rule::StrayNumber { kind: 2, index: 1, generation: 1 },
        ),
        (Head { method: 3, ..Head::reply(one, 0) }, Rule::StrayMethod { kind: 4, method: 3 }),
        (
            Head::call(1, one, 7).with_flags(Flags::DEADLINE),
            Rule::LengthBelowMin { kind: 1, len: 7, min: 8 },
        ),
        (Head { len: 1, ..Head::cancel(one) }, Rule::StrayPayload { kind: 6, len: 1 }),
        (Head::failed(one, 0), Rule::LengthBelowMin { kind: 5, len: 0, min: 1 }),
    ];
    for (head, rule) in cases {
        assert_eq!(Head::parse(head.words()), Err(rule), "{head:?}");
    }
    assert_eq!(Head::parse([0; 3]), Err(Rule::UnknownKind { kind: 0 }));
    let mut words = call.words();
    words[2] |= 100 << 48;
    assert_eq!(Head::parse(words), Err(Rule::StrayManner { kind: 1, manner: 100 }));
    let mut words = call.words();
    words[2] |= 1 << 63;
    assert_eq!(Head::parse(words), Err(Rule::ReservedBits { bits: 0x80 }));
    let mut words = call.words();
    words[2] |= 2 << 32;
    assert_eq!(Head::parse(words), Err(Rule::ReservedBits { bits: 2 }));
    // The kind 3 existed in an earlier version.
    assert_eq!(Head::parse([3 << 8, 0, 0]), Err(Rule::UnknownKind { kind: 3 }));
    // The flag of a placed payload has its own byte and is not among the flags.
    let mut words = call.words();
    words[2] |= 2 << 16;
    assert_eq!(Head::parse(words), Err(Rule::UnknownFlags { kind: 1, flags: 1 << 15 }));
}

#[test]
fn kinds_have_one_byte_each() {
    for byte in 0..=u8::MAX {
        assert_eq!(Kind::from_byte(byte).map_or(byte, Kind::byte), byte);
    }
    assert!(Kind::ALL.iter().all(|&kind| Kind::from_byte(kind.byte()) == Some(kind)));
}

#[test]
fn spans_and_lengths_agree() {
    assert_eq!((slots(0), slots(104), slots(105), slots(232)), (1, 1, 2, 2));
}

#[test]
fn extensions_precede_the_body() {
    let deadline = Head::call(1, CallNumber::NONE, 24).with_flags(Flags::DEADLINE);
    assert_eq!(
        (deadline.flags.offset_of(Flags::DEADLINE), Flags::NONE.offset_of(Flags::DEADLINE)),
        (Some(0), None)
    );
    assert_eq!(deadline.body_bytes(), 16);
    let all = Flags::DEADLINE.with(Flags::PLACED).with(Flags::GRANTED);
    let offsets = [Flags::DEADLINE, Flags::PLACED, Flags::GRANTED].map(|flag| all.offset_of(flag));
    assert_eq!((offsets, all.extension_bytes()), ([Some(0), Some(8), Some(16)], 24));
}

proptest! {
    #[test]
    fn a_place_is_read_from_its_word(word: u64) {
        prop_assert_eq!(Placed::from_u64(word).as_u64(), word);
    }
}
