//! Routes through memory.

use super::doors::{Known, doors, word};
use super::memory::Memory;
use super::shapes;
use crate::channel::export::map::{Slots, slot_words, tag};
use crate::channel::export::{
    Directory, Found, Load, Missing, Nameless, NotRead, Part, Readers, Route, Scalar, Selection,
    Shape, Step, gather,
};
use crate::limits::EXPORT_STEPS_MAX;
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

/// Draws a route of some steps. Returns it with its end.
fn draw<'s>(shape: &'s Shape, picks: &[prop::sample::Index]) -> (Route, Vec<Step>, &'s Shape) {
    let (mut route, mut steps, mut end) = (Route::default(), Vec::new(), shape);
    for pick in picks {
        let doors = doors(shape, end, None);
        if doors.is_empty() {
            break;
        }
        let door = pick.get(&doors);
        route.push(door.step.clone());
        steps.push(door.step.clone());
        end = door.to;
    }
    (route, steps, end)
}

fn picks() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..5)
}

/// Memory of so many words, with something else in them at each load.
struct Hostile<'k> {
    words: usize,
    seed: u64,
    keys: &'k [u64],
    loads: usize,
}

impl Load for Hostile<'_> {
    fn look(&mut self, version: Option<usize>) {
        assert!(version.is_none_or(|at| at < self.words), "{version:?} is outside");
    }

    fn load(&mut self, at: usize) -> u64 {
        assert!(at < self.words, "word {at} is outside");
        self.loads += 1;
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (which, any) = (self.seed >> 40 & 7, self.seed ^ self.seed >> 29);
        match which {
            0 => any,
            1 => any & 1,
            2 => any % 40,
            3 => any % (self.words as u64 + 2),
            4 => u64::MAX - any % 40,
            _ if self.keys.is_empty() => 1,
            _ => self.keys[any as usize % self.keys.len()],
        }
    }
}

/// Returns words that searches for the keys of these steps may meet.
fn keys(steps: &[Step]) -> Vec<u64> {
    let keys = steps.iter().filter_map(|step| match step {
        Step::Entry { key, .. } => Some(&key[..]),
        _ => None,
    });
    keys.flat_map(|key| [&[tag(key)], key].concat()).collect()
}

/// Returns the most loads that a step makes.
fn loads(step: &Step) -> usize {
    match step {
        Step::Begin { .. } => 0,
        Step::Some { .. } | Step::Element { .. } | Step::Index { .. } | Step::Target { .. } => 1,
        Step::Chunk { .. } => 2,
        Step::Entry { len, key, .. } => *len as usize * slot_words(key.len(), 0),
    }
}

/// Follows a route through memory with any words, and checks where it leads.
fn follow_anywhere(
    (route, steps, end): (&Route, &[Step], &Shape),
    words: usize,
    seed: u64,
) -> Result<Found, Missing> {
    let keys = keys(steps);
    let mut memory = Hostile { words, seed, keys: &keys, loads: 0 };
    let found = route.follow(words, &mut memory);
    assert!(memory.loads <= steps.iter().map(loads).sum());
    if let Ok(found) = found {
        assert!(found.at + end.words() <= words, "{found:?} with {end} in {words} words");
        assert!(found.around.is_none_or(|at| at < words));
        let is_scalar = matches!(end, Shape::Scalar(_));
        assert!(found.shift < 64 && (found.shift == 0 || is_scalar));
    }
    found
}

proptest! {
    #[test]
    fn a_route_on_the_wire_is_that_route(shape in shapes(), picks in picks()) {
        let (route, _, end) = draw(&shape, &picks);
        prop_assert_eq!(Route::decode(&route.encode(), &shape), Ok((route, end)), "{}", shape);
    }

    #[test]
    fn a_route_stays_in_the_value_whatever_the_memory_has(
        shape in shapes(),
        picks in picks(),
        more in 0_usize..60,
        seed in any::<u64>(),
    ) {
        let (route, steps, end) = draw(&shape, &picks);
        for turn in 0..20 {
            let seed = seed.wrapping_add(turn << 20);
            let _ = follow_anywhere((&route, &steps, end), shape.words() + more, seed);
        }
    }

    /// Words that nearly are a route are one that stays in the value, or none.
    #[test]
    fn any_words_are_a_route_through_the_value_or_refused(
        shape in shapes(),
        picks in picks(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0_u32..64, 0_u64..4), 0..3),
        random in proptest::collection::vec(any::<u64>(), 0..2),
        seed in any::<u64>(),
    ) {
        let mut words = draw(&shape, &picks).0.encode();
        for (at, bit, by) in changes {
            if !words.is_empty() {
                let at = at.index(words.len());
                words[at] ^= by << bit;
            }
        }
        words.extend(random);
        if let Ok((route, end)) = Route::decode(&words, &shape) {
            prop_assert_eq!(route.encode(), words, "a route has one form");
            for turn in 0..20 {
                let steps: &Vec<_> = &route.steps().cloned().collect();
                let _ = follow_anywhere((&route, steps, end), shape.words(), seed.wrapping_add(turn << 20));
            }
        }
    }

    /// A step finds what the owner has put there.
    #[test]
    fn a_step_leads_to_the_value_that_was_put(shape in shapes(), seed in any::<u64>(), picks in picks()) {
        let (memory, whole) = Memory::invent(&shape, seed);
        let (mut route, mut end, mut value) = (Route::default(), &shape, &whole);
        for pick in picks {
            let mut doors = doors(&shape, end, Some(value));
            doors.retain(|door| !matches!(door.value, Known::Nothing));
            if doors.is_empty() {
                break;
            }
            let door = pick.get(&doors).clone();
            route.push(door.step);
            end = door.to;
            let found = route.follow(memory.words.len(), &mut Plain(&memory.words));
            match door.value {
                Known::Value(expected) => {
                    let found = found.unwrap();
                    prop_assert_eq!(&read(end, found, &memory), &expected.to_string());
                    value = expected;
                }
                Known::Missing(missing) => {
                    prop_assert_eq!(found, Err(missing), "{:?} of {}", route, shape);
                    break;
                }
                Known::Nothing => unreachable!("only known ones are kept"),
            }
        }
    }
}

/// Memory that nobody changes.
struct Plain<'m>(&'m [u64]);

impl Load for Plain<'_> {
    fn look(&mut self, _: Option<usize>) {}

    fn load(&mut self, at: usize) -> u64 {
        self.0[at]
    }
}

/// Returns the value at the end of a route, as text.
fn read(shape: &Shape, found: Found, memory: &Memory) -> std::string::String {
    let words = gather(shape, found.at, memory.words.len(), &mut |at| memory.words[at]).unwrap();
    let part = Part { at: 0, words: word(shape.words()) };
    let selection = Selection { route: Vec::new(), part, shift: found.shift, shape: shape.clone() };
    selection.value(&words).unwrap().to_string()
}

/// A thing that a route does in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Did {
    Look(Option<usize>),
    Load(usize),
}

struct Noted<'m> {
    words: &'m [u64],
    did: Vec<Did>,
}

impl Load for Noted<'_> {
    fn look(&mut self, version: Option<usize>) {
        self.did.push(Did::Look(version));
    }

    fn load(&mut self, at: usize) -> u64 {
        self.did.push(Did::Load(at));
        self.words[at]
    }
}

fn follow(steps: &[Step], words: &[u64]) -> (Result<Found, Missing>, Vec<Did>) {
    let mut route = Route::default();
    steps.iter().for_each(|step| route.push(step.clone()));
    let mut memory = Noted { words, did: Vec::new() };
    (route.follow(words.len(), &mut memory), memory.did)
}

use Did::{Load as L, Look as V};

fn ok(at: usize, shift: u8, around: Option<usize>) -> Result<Found, Missing> {
    Ok(Found { at, shift, around })
}

#[test]
fn an_option_has_a_value_if_its_number_says_so() {
    let step = Step::Some { at: 1 };
    let of = |number| follow(std::slice::from_ref(&step), &[2, 4, number, 7]);
    assert_eq!(of(0), (Err(Missing::Nothing), vec![V(Some(1)), L(2)]));
    assert_eq!(of(1), (ok(3, 0, Some(1)), vec![V(Some(1)), L(2)]));
    assert_eq!(of(u64::MAX).0, ok(3, 0, Some(1)), "no more than the one value");
}

#[test]
fn an_element_is_below_the_length_of_its_vector() {
    // A vector of five numbers of 16 bits, in the second word of a struct.
    let of = |index, length| {
        follow(&[Step::Element { at: 1, index, each: 2, len: 5 }], &[0, 0, length, 0, 0])
    };
    assert_eq!(of(0, 0), (Err(Missing::Index { index: 0 }), vec![V(Some(1)), L(2)]));
    assert_eq!(of(2, 3).0, ok(3, 32, Some(1)));
    assert_eq!(of(3, 3).0, Err(Missing::Index { index: 3 }));
    assert_eq!(of(4, 5).0, ok(4, 0, Some(1)));
    assert_eq!(of(5, u64::MAX).0, Err(Missing::Index { index: 5 }), "the capacity is a bound");
    // A vector of one element or none is no option.
    let one =
        |length| follow(&[Step::Element { at: 0, index: 0, each: 8, len: 1 }], &[2, length, 7]);
    assert_eq!(one(0).0, Err(Missing::Index { index: 0 }));
    assert_eq!(one(1).0, ok(2, 0, Some(0)));
}

#[test]
fn an_element_of_a_growing_vector_is_in_its_chunk() {
    let of = |index, length: u64, chunk: u64| {
        let mut words = vec![0; 60];
        (words[2], words[4]) = (length, chunk);
        follow(&[Step::Chunk { at: 1, index, each: 8 }], &words)
    };
    assert_eq!(of(8, 8, 30), (Err(Missing::Index { index: 8 }), vec![V(Some(1)), L(2)]));
    assert_eq!(of(8, 9, 30), (ok(30, 0, Some(1)), vec![V(Some(1)), L(2), L(4)]));
    assert_eq!(of(23, 24, 44).0, ok(59, 0, Some(1)), "the last word");
    for chunk in [0, 45, 60, u64::MAX - 3, u64::MAX] {
        assert_eq!(of(8, 24, chunk).0, Err(Missing::Broken), "{chunk}");
    }
    assert_eq!(of(u32::MAX, u64::MAX, 30).0, Err(Missing::Index { index: u32::MAX.into() }));
}

#[test]
fn a_pointer_leads_to_a_struct_in_the_value() {
    let step = Step::Target { at: 1, words: 2, around: Some(0) };
    let of = |pointer| follow(std::slice::from_ref(&step), &[2, pointer, 4, 7]);
    assert_eq!(of(0), (Err(Missing::Nothing), vec![V(Some(0)), L(1)]));
    assert_eq!(of(1).0, ok(0, 0, Some(0)));
    assert_eq!(of(3).0, ok(2, 0, Some(0)));
    for pointer in [4, 5, u64::MAX - 1, u64::MAX] {
        assert_eq!(of(pointer).0, Err(Missing::Broken), "{pointer}");
    }
    let begin = |pointer| follow(&[Step::Begin { pointer, name: "A".into(), words: 2 }], &[0; 4]);
    assert_eq!(begin(0), (Err(Missing::Nothing), vec![]));
    assert_eq!(begin(3), (ok(2, 0, None), vec![]));
    assert_eq!(begin(4).0, Err(Missing::Broken));
}

/// `A { at: u8, small: [u16; 2], rows: [R { r: u64 }; 2], bytes: [u8; 9], limit: option<u8> }`, whose index is 1.
const INDEXED: &str =
    "A { at: u8, small: [u16; 2], rows: [R { r: u64 }; 2], bytes: [u8; 9], limit: option<u8> }";

#[test]
fn an_index_leads_to_an_element_of_an_array() {
    let shape: Shape = INDEXED.parse().unwrap();
    let words = |index: u64| {
        vec![2, 0xff00 | index, 0x0001_0000, 4, 50, 6, 51, 8, 0x0807_0605_0403_0201, 9, 2, 1, 70]
    };
    let index = |first: u32, each: u32, from: u32| {
        let words = [3 | 1 << 8 | u64::from(first) << 32, u64::from(from) | u64::from(each) << 32];
        Route::decode(&words, &shape).map(|(route, end)| (route, end.to_string()))
    };
    let (small, rows, bytes) = (index(16, 2, 8), index(24, 16, 8), index(64, 1, 8));
    let follow =
        |route: &Route, words: &[u64]| follow(&route.steps().cloned().collect::<Vec<_>>(), words);
    // Only the low bits of a small number are the number.
    let (route, end) = small.unwrap();
    assert_eq!(follow(&route, &words(1)), (ok(2, 16, Some(0)), vec![V(Some(0)), L(1)]));
    assert_eq!((&*end, follow(&route, &words(2)).0), ("u16", Err(Missing::Index { index: 2 })));
    let (route, end) = rows.unwrap();
    assert_eq!((&*end, follow(&route, &words(1)).0), ("R { r: u64 }", ok(5, 0, Some(0))));
    let (route, end) = bytes.unwrap();
    assert_eq!((&*end, follow(&route, &words(8)).0), ("u8", ok(9, 0, Some(7))));
    // The second of two small numbers is an index, and the last of nine.
    let (route, _) = index(24, 16, 18).unwrap();
    assert_eq!(follow(&route, &words(0)), (ok(5, 0, Some(0)), vec![V(Some(0)), L(2)]));
    let (route, _) = index(24, 16, 72).unwrap();
    assert_eq!(
        follow(&route, &words(0)),
        (Err(Missing::Index { index: 9 }), vec![V(Some(7)), L(9)])
    );
    for (first, each, from) in [
        (17, 2, 8),
        (16, 1, 8),
        (24, 8, 8),
        (40, 16, 8),
        (56, 1, 8),
        (16, 2, 9),
        (16, 2, 0),
        (16, 2, 20),
        (16, 2, 73),
        (16, 2, 96),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        assert!(index(first, each, from).is_err(), "{first}, {each}, {from}");
    }
}

#[test]
fn an_entry_is_found_by_its_key() {
    let slots = Slots { at: 1, len: 3, key: 2, value: 1 };
    let mut words = vec![0; 15];
    let key = [3, 9];
    let slot = slots.room(&key, &mut |at| words[at]).unwrap();
    let first = slots.slot(slot);
    words[first..first + 4].copy_from_slice(&[tag(&key), 3, 9, 70]);
    let of = |key: [u64; 2], words: &[u64]| {
        follow(&[Step::Entry { at: 1, len: 3, value: 1, key: key.into() }], words)
    };
    let (found, did) = of(key, &words);
    assert_eq!(found, ok(first + 3, 0, Some(1)));
    assert_eq!(did, [V(Some(1)), L(first), L(first + 1), L(first + 2)]);
    assert_eq!(of([3, 8], &words).0, Err(Missing::Nothing));
    words[first + 2] = 8;
    assert_eq!(
        of(key, &words).0,
        Err(Missing::Nothing),
        "the word of the slot alone is not enough"
    );
}

#[test]
fn an_index_is_an_unsigned_number_and_a_key_has_its_words() {
    let shape: Shape =
        "A { a: u16, b: i16, c: bool, d: char, e: [u64; 2], f: map<text<9>, u8; 2> }"
            .parse()
            .unwrap();
    let index = |from: u64| Route::decode(&[3 | 1 << 8 | 48 << 32, from | 8 << 32], &shape);
    assert!(index(8).is_ok());
    for from in [16, 24, 32] {
        assert!(index(from).is_err(), "{from}");
    }
    for words in 0..6 {
        let entry = [&[4 | words << 8 | 8 << 32][..], &vec![0; words as usize]].concat();
        assert_eq!(Route::decode(&entry, &shape).is_ok(), words == 3, "{words}");
    }
}

/// Each unit on the way is looked at before its words are loaded.
#[test]
fn each_step_looks_at_the_unit_of_the_step_before() {
    // `A { p: ref<B>, b: B { v: vec<option<u8>; 2>, n: u8, small: [u8; 4] } }`: the words of B begin at 2.
    let shape: Shape =
        "A { p: ref<B>, b: B { v: vec<option<u8>; 2>, n: u8, small: [u8; 4] } }".parse().unwrap();
    let words = [2, 3, 4, 6, 2, 8, 0, 0, 10, 1, 70, 3, 0x0403_0201];
    let selection = shape.resolve("p*.v[1]?").unwrap();
    let (route, end) = Route::decode(&selection.route, &shape).unwrap();
    assert_eq!(end.to_string(), "u8");
    let (found, did) = follow(&route.steps().cloned().collect::<Vec<_>>(), &words);
    assert_eq!(found, ok(10, 0, Some(8)));
    assert_eq!(did, [V(Some(0)), L(1), V(Some(3)), L(4), V(Some(8)), L(9)]);
    // The index of an array lies in the target of a pointer.
    let target = Step::Target { at: 1, words: 11, around: Some(0) };
    let index = Step::Index {
        first: 80,
        each: 1,
        len: 4,
        to: Some(0),
        from: 72,
        of: Scalar::U8,
        around: Some(0),
    };
    let (found, did) = follow(&[target, index], &words);
    assert_eq!(found, ok(12, 24, Some(2)));
    assert_eq!(did, [V(Some(0)), L(1), V(Some(2)), L(11)]);
    // A value without a unit around it has the version of the export.
    let index =
        Step::Index { first: 0, each: 1, len: 8, to: None, from: 0, of: Scalar::U8, around: None };
    assert_eq!(follow(&[index], &[3]), (ok(0, 24, None), vec![V(None), L(0)]));
}

#[test]
fn a_route_has_a_bounded_number_of_steps() {
    let list: Shape = "A { a: ref<A> }".parse().unwrap();
    let mut route = Route::default();
    for _ in 0..EXPORT_STEPS_MAX {
        route.push(Step::Target { at: 1, words: 2, around: Some(0) });
    }
    assert_eq!(Route::decode(&route.encode(), &list), Ok((route.clone(), &list)));
    // A list may lead round and round.
    assert_eq!(follow(&route.steps().cloned().collect::<Vec<_>>(), &[2, 1]).0, ok(0, 0, Some(0)));
    route.push(Step::Target { at: 1, words: 2, around: Some(0) });
    assert!(Route::decode(&route.encode(), &list).is_err());
}

#[test]
fn an_owner_leads_a_route_through_an_export_that_stands() {
    let mut directory = Directory::new(0);
    let shape: Shape = format!("B {{ a: {INDEXED}, p: ref<R> }}").parse().unwrap();
    let number = directory.number("a", &shape).unwrap();
    directory.export(number, "a", shape.clone(), Readers::everybody(), 7).unwrap();
    let route = shape.resolve(".p*").unwrap().route;
    let whole = Part { at: 0, words: 2 };
    let routed = directory.routed(number, &route, whole, &Nameless).unwrap();
    assert_eq!((routed.shape.to_string(), *routed.kept), ("R { r: u64 }".into(), 7));
    assert!(!routed.route.is_empty());
    let version = Part { at: 0, words: 1 };
    for (number, route, part, refusal) in [
        (number, &route[..], version, NotRead::NoPart),
        (number, &[0], whole, NotRead::NoPart),
        (number + 1, &route, whole, NotRead::OtherOwner),
    ] {
        assert_eq!(directory.routed(number, route, part, &Nameless).err(), Some(refusal));
    }
    let routed =
        directory.routed(number, &[], Part { at: 0, words: word(shape.words()) }, &Nameless);
    assert!(routed.unwrap().route.is_empty());
}
