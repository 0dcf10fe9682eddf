//! Every form: a value that is written is read again, and no bytes do harm.

use super::by_reference::ByReference;
use super::{Describe, InPlace, Input, Output, Wire, WireError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use upbeat_core::limits::{EMPTY_ELEMENTS_MAX, KEPT_ARGUMENT_BYTES_MAX};

mod memory;

mod schemas;
mod types;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Leaf {
    name: String,
    shade: Option<f32>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Chain {
    next: Option<Box<Chain>>,
}

fn encode<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Output::own(1 << 20);
    value.put(&mut out).unwrap();
    assert!(out.fits());
    out.into_bytes().unwrap()
}

fn decode<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    let mut input = Input::own(bytes);
    let value = T::take(&mut input)?;
    input.finish()?;
    Ok(value)
}

fn encode_tolerantly<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Output::own(1 << 20).tolerating(true);
    value.put(&mut out).unwrap();
    assert!(out.fits());
    let mut counted = Output::counted().tolerating(true);
    value.put(&mut counted).unwrap();
    assert_eq!(counted.len(), out.len());
    out.into_bytes().unwrap()
}

fn decode_tolerantly<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    let mut input = Input::own(bytes).tolerating();
    let value = T::take(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// The same type with fields that have a default, and with fewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Tree {
    leaf: Leaf,
    #[wire(default)]
    branches: Vec<Tree>,
    #[wire(default = "height")]
    height: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Stem {
    leaf: Leaf,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
enum Plant {
    Moss,
    Tree(Box<Tree>),
    Herb { leaf: Leaf, grows: BTreeMap<u8, Leaf> },
}

fn height() -> u32 {
    2
}

/// A value that is written is read again; a message that is cut off is an error, unless only its last gap is missing.
fn holds<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = encode(value);
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    let (all, last) = (bytes.len(), bytes.len().saturating_sub(10));
    for length in (0..last).step_by(1 + all / 16).chain(last..all) {
        if let Ok(shorter) = decode::<T>(&bytes[..length]) {
            assert_eq!(&shorter, value);
        }
    }
    let mut longer = bytes;
    longer.extend([0; 16]);
    assert!(matches!(decode::<T>(&longer), Err(WireError::Surplus { .. })));
}

/// Any bytes give a valid value, or an error.
fn endures<T: Wire>(bytes: &[u8]) {
    if let Ok(value) = decode::<T>(bytes) {
        let again = encode(&value);
        assert!(decode::<T>(&again).is_ok());
    }
}

type Several = (u8, i128, bool, char, [u16; 3], Option<String>);

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_written_is_read_again(
        several: Several,
        bytes: Vec<u8>,
        words: Vec<u64>,
        texts: Vec<String>,
        outcome: Result<Vec<u32>, String>,
        map: BTreeMap<u16, String>,
        set: HashSet<i32>,
        leaves: Vec<(String, Option<f32>)>,
    ) {
        let leaves: Vec<_> = leaves
            .into_iter()
            .map(|(name, shade)| Leaf { name, shade: shade.filter(|shade| !shade.is_nan()) })
            .collect();
        let boxed = Box::new(several.clone());
        holds(&several);
        holds(&boxed);
        holds(&bytes);
        holds(&words);
        holds(&texts);
        holds(&outcome);
        holds(&map);
        holds(&set);
        holds(&leaves);
        let branches = leaves.into_iter().map(|leaf| Tree { leaf, branches: Vec::new(), height: 5 });
        let leaf = Leaf { name: "elm".into(), shade: None };
        let tree = Tree { leaf: leaf.clone(), branches: branches.collect(), height: 9 };
        let written = encode_tolerantly(&tree);
        prop_assert_eq!(decode_tolerantly(&written), Ok(tree.clone()));
        prop_assert_eq!(decode_tolerantly(&written), Ok(Stem { leaf: leaf.clone() }));
        let less = Tree { branches: Vec::new(), height: 2, ..tree.clone() };
        let stem = encode_tolerantly(&Stem { leaf: leaf.clone() });
        prop_assert_eq!(decode_tolerantly(&stem), Ok(less));
        let grows = map.keys().map(|key| (*key as u8, leaf.clone())).collect();
        for plant in [Plant::Moss, Plant::Tree(Box::new(tree)), Plant::Herb { leaf, grows }] {
            prop_assert_eq!(decode_tolerantly(&encode_tolerantly(&plant)), Ok(plant));
        }
        holds(&(bytes, texts, (), several.4, map));
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(noise: Vec<u8>, words in any_words()) {
        let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        for bytes in [&noise, &words] {
            endures::<Several>(bytes);
            endures::<Vec<u8>>(bytes);
            endures::<Vec<[u8; 4096]>>(bytes);
            endures::<Vec<Vec<u64>>>(bytes);
            endures::<Vec<String>>(bytes);
            endures::<Vec<Option<char>>>(bytes);
            endures::<Result<String, Vec<bool>>>(bytes);
            endures::<BTreeMap<u16, String>>(bytes);
            endures::<Vec<Leaf>>(bytes);
            endures::<Chain>(bytes);
            endures::<std::time::Duration>(bytes);
        }
    }

    #[test]
    fn any_bytes_in_the_tolerant_form_are_a_value_or_an_error(words in any_fronts()) {
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        endures_tolerantly::<Leaf>(&bytes);
        endures_tolerantly::<Vec<Tree>>(&bytes);
        endures_tolerantly::<Chain>(&bytes);
        endures_tolerantly::<Plant>(&bytes);
        endures_tolerantly::<BTreeMap<u16, Tree>>(&bytes);
        endures_tolerantly::<HashSet<()>>(&bytes);
    }
}

/// Any bytes in the tolerant form give a value, which then is one, or an error.
fn endures_tolerantly<T: Wire>(bytes: &[u8]) {
    if let Ok(value) = decode_tolerantly::<T>(bytes) {
        assert!(decode_tolerantly::<T>(&encode_tolerantly(&value)).is_ok());
    }
}

/// Words as a struct may begin with: its bytes, and the number of its fields.
fn any_fronts() -> impl Strategy<Value = Vec<u64>> {
    let front = (0..20_u64, 0..6_u64).prop_map(|(words, fields)| (words * 8) | (fields << 32));
    let word = prop_oneof![4 => front, 3 => 0..4_u64, 1 => any::<u64>()];
    prop::collection::vec(word, 0..20)
}

#[test]
fn structs_in_the_tolerant_form_lie_within_what_holds_them() {
    let leaf = Leaf { name: "elm".into(), shade: None };
    let bytes = encode_tolerantly(&leaf);
    let with_front = |bytes_of: u64, fields: u64| {
        let mut bytes = bytes.clone();
        bytes[..8].copy_from_slice(&(bytes_of | (fields << 32)).to_le_bytes());
        decode_tolerantly::<Leaf>(&bytes)
    };
    let right = bytes.len() as u64 - 8;
    assert_eq!(with_front(right, 2), Ok(leaf));
    assert!(matches!(with_front(right + 1, 2), Err(WireError::Short { .. })));
    assert!(with_front(right - 8, 2).is_err());
    assert!(matches!(with_front(right, 1), Err(WireError::Invalid { .. })));
    // A chain whose links stand in each other, as often as a message allows.
    let links = 1 << 20;
    let link = |at: u64| [((links - at) * 16 - 8) | (1 << 32), 1];
    let bytes: Vec<u8> = (0..links).flat_map(link).flat_map(u64::to_le_bytes).collect();
    let deep = Err(WireError::Invalid { what: "value of an endurable depth" });
    assert_eq!(decode_tolerantly::<Chain>(&bytes), deep);
}

/// Words as a message may begin with: counts that are right, nearly right, and huge.
fn any_words() -> impl Strategy<Value = Vec<u64>> {
    let word =
        prop_oneof![0..40_u64, Just(u64::MAX), Just(1 << 40), Just((1 << 20) - 1024), any::<u64>()];
    prop::collection::vec(word, 0..20)
}

#[test]
fn a_count_reserves_no_more_than_the_message_can_fill() {
    // A million pages are announced, and none of them follows.
    let mut bytes = ((1_u64 << 20) - 1024).to_le_bytes().to_vec();
    bytes.resize(1 << 16, 7);
    assert!(matches!(decode::<Vec<[u64; 512]>>(&bytes), Err(WireError::Count { .. })));
    assert!(matches!(decode::<Vec<[usize; 512]>>(&bytes), Err(WireError::Short { .. })));
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(decode::<Vec<()>>(&bytes), Err(WireError::Count { .. })));
    assert!(matches!(decode::<Vec<u8>>(&bytes), Err(WireError::Count { .. })));
    assert!(matches!(decode::<String>(&bytes), Err(WireError::Count { .. })));
}

#[test]
fn a_sequence_has_no_more_empty_elements_than_its_limit() {
    let decoded = |count: usize| {
        let values = decode::<Vec<()>>(&(count as u64).to_le_bytes());
        values.map(|values| values.len())
    };
    assert_eq!(decoded(EMPTY_ELEMENTS_MAX), Ok(EMPTY_ELEMENTS_MAX));
    let count = EMPTY_ELEMENTS_MAX as u64 + 1;
    assert_eq!(decoded(EMPTY_ELEMENTS_MAX + 1), Err(WireError::Count { count, left: 0 }));
    let in_place = decode::<InPlace<[u8; 0]>>(&count.to_le_bytes()).map(|items| items.len());
    assert_eq!(in_place, Err(WireError::Count { count, left: 0 }));
}

/// A method keeps the memory of an argument by reference for its next request, and frees larger memory.
#[test]
fn memory_of_an_argument_is_kept_up_to_its_limit() {
    fn cleared<T: ByReference + ?Sized>(mut kept: T::Kept) -> T::Kept {
        T::clear(&mut kept);
        kept
    }
    for (more, is_kept) in [(0, true), (1, false)] {
        let bytes = KEPT_ARGUMENT_BYTES_MAX + more;
        let left = if is_kept { bytes } else { 0 };
        assert_eq!(cleared::<str>(String::with_capacity(bytes)).capacity(), left);
        assert_eq!(cleared::<[u8]>(Vec::with_capacity(bytes)).capacity(), left);
        assert_eq!(cleared::<Path>(PathBuf::with_capacity(bytes)).capacity(), left);
        assert_eq!(cleared::<OsStr>(OsString::with_capacity(bytes)).capacity(), left);
        let words = KEPT_ARGUMENT_BYTES_MAX / size_of::<u64>() + more;
        let left = if is_kept { words } else { 0 };
        assert_eq!(cleared::<[u64]>(Vec::with_capacity(words)).capacity(), left);
    }
}

#[test]
fn a_value_behind_the_end_is_missed() {
    // The text ends in the middle of a word, and so does the message.
    let bytes = encode(&("abc".to_owned(), Chain { next: None }));
    let short = decode::<(String, Chain)>(&bytes[..11]);
    assert!(matches!(short, Err(WireError::Short { .. })), "{short:?}");
    let short = decode::<(String, [u8; 0])>(&bytes[..11]);
    assert!(matches!(short, Err(WireError::Short { .. })), "{short:?}");
}

#[test]
fn a_value_that_is_too_deep_is_refused() {
    let deep = |links: usize| {
        let mut bytes = vec![1; links];
        bytes.push(0);
        bytes
    };
    assert!(decode::<Chain>(&deep(50)).is_ok());
    let error = decode::<Chain>(&deep(1_000_000)).unwrap_err();
    assert!(error.to_string().contains("depth"), "{error}");
}

#[test]
fn bytes_in_place_are_read_as_a_stream() {
    use std::io::{BufRead, Read, Seek, SeekFrom};

    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at / 3) as u8).collect();
    let in_place = InPlace::from(bytes.clone());
    for piece in [1, 7, 4095, 4096, 4097, 30_000] {
        let (mut reader, mut read, mut to) = (in_place.reader(), Vec::new(), vec![0; piece]);
        loop {
            assert_eq!(reader.remaining(), bytes.len() - read.len());
            match reader.read(&mut to).unwrap() {
                0 => break,
                count => read.extend_from_slice(&to[..count]),
            }
        }
        assert_eq!(read, bytes, "in pieces of {piece}");
    }
    let mut reader = in_place.reader();
    assert_eq!(reader.fill_buf().unwrap()[..3], bytes[..3]);
    reader.consume(2);
    let mut one = [0];
    for (to, position) in
        [(SeekFrom::Current(5), 7), (SeekFrom::Start(4_096), 4_096), (SeekFrom::End(-1), 19_999)]
    {
        assert_eq!(reader.seek(to).unwrap(), position);
        reader.read_exact(&mut one).unwrap();
        assert_eq!(one[0], bytes[position as usize]);
    }
    reader.seek(SeekFrom::End(9)).unwrap();
    assert_eq!((reader.read(&mut one).unwrap(), reader.remaining()), (0, 0));
    assert!(reader.seek(SeekFrom::Current(-1 << 40)).is_err());
}

#[test]
#[should_panic(expected = "items 1..+3 of 3")]
fn more_items_than_there_are_cannot_be_copied() {
    InPlace::from(vec![1_u32, 2, 3]).copy_to(1, &mut [0; 3]);
}

#[test]
fn a_kept_buffer_takes_the_bytes_of_each_message_in_turn() {
    let mut kept = Vec::new();
    for len in [10, 0, 5_000, 7] {
        let in_place = InPlace::from(vec![len as u16; len]);
        assert_eq!(in_place.copy_into(&mut kept).unwrap(), vec![len as u16; len]);
        let mut some = [9; 8];
        let count = in_place.read_into(3, &mut some);
        assert_eq!(count, len.saturating_sub(3).min(8));
        assert!(
            some[..count].iter().all(|item| *item == len as u16)
                && some[count..].iter().all(|item| *item == 9)
        );
    }
}

/// Types of one name, and structs that change.
mod db {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) enum Error {
        Closed,
        Timeout,
    }

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Update<T> {
        id: u64,
        #[wire(default)]
        value: Option<T>,
    }

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Page<T> {
        items: Vec<T>,
    }
}

mod api {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) enum Error {
        Missing,
        Db(super::db::Error),
        Again(Option<Box<Error>>),
    }

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Update<T> {
        id: u64,
        #[wire(default)]
        note: Option<T>,
    }

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Page<T> {
        items: Vec<T>,
        #[serde(skip)]
        _cache: Option<u8>,
    }
}

fn schema_of<T: Wire>() -> String {
    let mut schema = Describe::default();
    schema.of::<T>();
    schema.into_text()
}

#[test]
fn a_type_inside_of_another_of_the_same_name_is_in_the_schema() {
    let inner = "Error[Closed, Timeout]";
    let text = format!("Error[Missing, Db({inner}), Again(Option<Error>)]");
    assert_eq!(schema_of::<api::Error>(), text);
    assert_eq!(schema_of::<(db::Error, db::Error)>(), format!("({inner}, {inner})"));
}

/// Returns the differences that a method with these arguments endures.
fn tolerance_of<A: Wire>() -> upbeat_core::method::Tolerance {
    super::signature::<A, ()>("S", "m", false, &[]).tolerance().clone()
}

#[test]
fn a_signature_endures_itself() {
    let endures = |tolerance: &upbeat_core::method::Tolerance| tolerance.endures(tolerance);
    let generic = tolerance_of::<(db::Update<String>, db::Update<u64>)>();
    assert!(generic.fields().len() == 2 && endures(&generic));
    // Neither side of a session could tell the default fields of the two structs apart.
    let alike = tolerance_of::<(db::Update<String>, api::Update<String>)>();
    assert!(alike.fields().is_empty() && endures(&alike));
}

#[test]
fn a_type_that_is_written_whole_has_another_base() {
    let (by_field, whole) =
        (tolerance_of::<(db::Page<u64>,)>(), tolerance_of::<(api::Page<u64>,)>());
    assert!(!by_field.endures(&whole));
    assert_eq!(schema_of::<db::Page<u64>>(), schema_of::<api::Page<u64>>());
}

/// A type that is not tolerant has one form: a writer decides by the type whether it writes the tolerant one, and a
/// reader by the message.
#[test]
fn types_with_two_forms_are_tolerant() {
    fn has_one_form<T: Wire>(value: &T) {
        let (plain, tolerant) = (encode(value), encode_tolerantly(value));
        assert!(T::TOLERANT || plain == tolerant, "{}", schema_of::<T>());
    }
    let text = || "text".to_owned();
    has_one_form(&BTreeMap::from([(text(), text())]));
    has_one_form(&std::collections::HashMap::from([(1_u8, 2_u8)]));
    has_one_form(&HashSet::from([7_u64]));
    has_one_form(&std::collections::BTreeSet::from([text()]));
    has_one_form(&vec![Some(BTreeMap::from([(1_u8, text())]))]);
    has_one_form(&Ok::<_, u8>(HashSet::from([7_u64])));
    has_one_form(&[HashSet::from([7_u64])]);
    has_one_form(&(1_u8, HashSet::from([7_u64])));
    has_one_form(&std::time::Duration::from_millis(3));
    has_one_form(&(vec![text()], Some(Box::new(4_u16)), [1_u8, 2]));
    has_one_form(&PathBuf::from("/tmp"));
    has_one_form(&crate::wire::Serde(vec![text()]));
    has_one_form(&Leaf { name: text(), shade: None });
}
