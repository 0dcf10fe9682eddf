//! The types of the standard library and of other crates, as arguments and as fields.

use super::{any_words, decode, encode, endures, holds};
use crate::wire::{Describe, Fills, InPlace, Input, Json, Plain, Serde, Wire, WireError};
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, LinkedList, VecDeque};
use std::ffi::{CString, OsString};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::{Bound, Range, RangeFrom, RangeInclusive, RangeTo};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A struct that goes through serde as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: serde::de::DeserializeOwned"))]
struct Field<T> {
    before: u8,
    value: T,
    after: String,
}

fn field(value: usize) -> Field<usize> {
    Field { before: 7, value, after: "after".to_owned() }
}

/// Plain data whose length is no whole number of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, crate::Wire)]
#[repr(C, packed)]
#[wire(plain)]
struct Point {
    x: u16,
    y: [u8; 3],
}

fn travels<T: Wire + Clone + PartialEq + Debug + Serialize + DeserializeOwned>(value: &T) {
    holds(value);
    holds(&vec![value.clone(), value.clone()]);
    holds(&Field { before: 7, value: value.clone(), after: "after".to_owned() });
}

fn name_of<T: Wire>() -> String {
    let mut schema = Describe::default();
    schema.of::<T>();
    schema.into_text()
}

fn at(seconds: i64, part: u32) -> SystemTime {
    let span = Duration::new(seconds.unsigned_abs(), part);
    match seconds < 0 {
        true => SystemTime::UNIX_EPOCH - span,
        false => SystemTime::UNIX_EPOCH + span,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn addresses_numbers_and_times_travel(
        v4: u32,
        v6: u128,
        port: u16,
        flow: u32,
        scope: u32,
        one: u64,
        seconds: i32,
        part in 0..1_000_000_000_u32,
    ) {
        let (v4, v6) = (Ipv4Addr::from(v4), Ipv6Addr::from(v6));
        travels(&v4);
        travels(&v6);
        travels(&IpAddr::V4(v4));
        travels(&IpAddr::V6(v6));
        travels(&SocketAddrV4::new(v4, port));
        travels(&SocketAddr::new(v4.into(), port));
        travels(&SocketAddr::new(v6.into(), port));
        // Serde leaves the flow and the scope out; alone, an address has all its parts.
        travels(&SocketAddrV6::new(v6, port, 0, 0));
        holds(&SocketAddrV6::new(v6, port, flow, scope));
        holds(&SocketAddr::V6(SocketAddrV6::new(v6, port, flow, scope)));
        travels(&(one as usize));
        travels(&(one as isize));
        travels(&NonZero::new(one | 1).unwrap());
        travels(&NonZero::new(one as i8 | 1).unwrap());
        travels(&NonZero::new(one as usize | 1).unwrap());
        travels(&Wrapping(one));
        travels(&Saturating(port));
        travels(&Reverse(one));
        travels(&at(i64::from(seconds).abs(), part));
        holds(&at(i64::from(seconds), part));
    }

    #[test]
    fn texts_and_sequences_travel(
        text: String,
        bytes: Vec<u8>,
        words: Vec<u32>,
        texts: Vec<String>,
        turn in 0..9_usize,
    ) {
        let (path, no_text) = (PathBuf::from(&text), OsString::from_vec(bytes.clone()));
        travels(&path);
        holds(&PathBuf::from(&no_text));
        travels(&no_text);
        let bytes_without_zero: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
        travels(&CString::new(bytes_without_zero).unwrap());
        travels(&Box::<str>::from(&*text));
        travels(&Rc::<str>::from(&*text));
        travels(&Arc::<str>::from(&*text));
        travels(&Cow::<'static, str>::Owned(text.clone()));
        travels(&Box::<[u32]>::from(&*words));
        travels(&Rc::<[u8]>::from(&*bytes));
        travels(&Arc::<[String]>::from(&*texts));
        travels(&Cow::<'static, [u32]>::Owned(words.clone()));
        travels(&Rc::new(text.clone()));
        travels(&Arc::new((text.clone(), words.clone())));
        travels(&[text.clone(), String::new(), text.clone()]);
        travels(&[true, false, turn == 0]);
        travels(&[turn, usize::MAX]);
        travels(&['a', 'ß']);
        travels(&[Some(text.clone()), None]);
        travels(&[[words.clone(), vec![]], [vec![7], words.clone()]]);
        travels(&[[(1_u8, text.clone())], [(turn as u8, text.clone())]]);
        travels(&[field(1), field(turn)]);
        holds(&std::array::from_fn::<_, 100, _>(|at| field(at + turn)));
        holds(&std::array::from_fn::<_, 40, _>(|at| Point { x: at as u16, y: [turn as u8; 3] }));
        holds(&[[Point { x: 1, y: [turn as u8; 3] }; 2]; 3]);
        holds(&[[PhantomData::<str>; 3]; 2]);
        travels(&LinkedList::from_iter(bytes.clone()));
        travels(&LinkedList::from_iter(texts.clone()));
        let mut turned = VecDeque::from(bytes.clone());
        turned.rotate_left(turn.min(bytes.len()));
        turned.extend([1, 2, 3]);
        travels(&turned);
        let mut turned = VecDeque::from(texts.clone());
        turned.push_front(text.clone());
        travels(&turned);
        let heap = BinaryHeap::from(words.clone());
        assert_eq!(decode::<BinaryHeap<u32>>(&encode(&heap)).unwrap().into_sorted_vec(), heap.into_sorted_vec());
        travels(&Bytes::from(bytes.clone()));
        travels(&BytesMut::from(&*bytes));
        // All types that hold a sequence have one form, so the sides may choose different ones.
        assert_eq!(decode::<Vec<u8>>(&encode(&VecDeque::from(bytes.clone()))), Ok(bytes.clone()));
        assert_eq!(decode::<Arc<[u8]>>(&encode(&bytes)), Ok(bytes.into()));
    }

    #[test]
    fn ranges_travel(start: u64, end: String) {
        travels(&(start..start));
        travels(&(end.clone()..=end.clone()));
        travels(&(start..));
        travels(&(..end.clone()));
        travels(&Bound::Included(end.clone()));
        travels(&Bound::Excluded(start));
        travels(&Bound::<u8>::Unbounded);
        travels(&PhantomData::<str>);
    }

    #[test]
    fn types_of_other_crates_travel(
        uuid: u128,
        seconds in -60_000_000_000..60_000_000_000_i64,
        part in 0..1_000_000_000_u32,
        east in -86_399..86_400_i32,
        text: String,
    ) {
        travels(&Uuid::from_u128(uuid));
        let utc = DateTime::<Utc>::from_timestamp(seconds, part).unwrap();
        travels(&utc);
        holds(&utc.with_timezone(&FixedOffset::east_opt(east).unwrap()));
        // Written as text in a field, an offset has whole minutes.
        travels(&utc.with_timezone(&FixedOffset::east_opt(east / 60 * 60).unwrap()));
        travels(&utc.naive_utc());
        travels(&utc.date_naive());
        travels(&utc.time());
        travels(&(TimeDelta::seconds(seconds) + TimeDelta::nanoseconds(part.into())));
        travels(&Serde(text.clone()));
        travels(&Serde(vec![Some(text.clone())]));
        travels(&Json(json!({"text": text, "numbers": [1, -2.5, null, true], "seconds": seconds})));
        travels(&Json(vec![(text, part)]));
    }

    #[test]
    fn hostile_bytes_are_a_value_or_an_error(noise: Vec<u8>, words in any_words()) {
        let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        for bytes in [&noise, &words] {
            endures::<(IpAddr, SocketAddr)>(bytes);
            endures::<(SystemTime, usize, isize)>(bytes);
            endures::<(NonZero<u8>, NonZero<i128>, NonZero<usize>)>(bytes);
            endures::<(PathBuf, OsString, CString)>(bytes);
            endures::<(Range<u8>, RangeInclusive<char>, RangeFrom<String>, RangeTo<bool>)>(bytes);
            endures::<(Bound<u8>, Wrapping<u16>, Saturating<i8>, Reverse<String>)>(bytes);
            endures::<(Box<str>, Arc<[u64]>, Rc<[String]>, Cow<'static, [u8]>)>(bytes);
            endures::<VecDeque<[u8; 512]>>(bytes);
            endures::<Vec<[String; 3]>>(bytes);
            endures::<Vec<[Field<u8>; 2]>>(bytes);
            endures::<[[Option<Vec<u16>>; 2]; 3]>(bytes);
            endures::<VecDeque<[Point; 3]>>(bytes);
            endures::<([bool; 9], [char; 2], [usize; 2])>(bytes);
            endures::<LinkedList<u8>>(bytes);
            endures::<BinaryHeap<Option<u8>>>(bytes);
            endures::<(Bytes, BytesMut, Uuid)>(bytes);
            endures::<(DateTime<Utc>, NaiveDateTime, TimeDelta)>(bytes);
            endures::<DateTime<FixedOffset>>(bytes);
            endures::<(NaiveDate, NaiveTime)>(bytes);
            endures::<Serde<Vec<String>>>(bytes);
            endures::<Json<Value>>(bytes);
            endures::<Field<SystemTime>>(bytes);
            endures::<Field<NonZero<u16>>>(bytes);
            endures::<Field<LinkedList<DateTime<FixedOffset>>>>(bytes);
            endures::<Field<Json<Value>>>(bytes);
        }
    }
}

fn refused<T: Wire>(value: &impl Wire) -> bool {
    matches!(decode::<T>(&encode(value)), Err(WireError::Invalid { .. }))
}

#[test]
fn values_that_a_type_lacks_are_refused() {
    assert!(refused::<NonZero<u32>>(&0_u32));
    assert!(refused::<IpAddr>(&(5_u8, [0_u8; 16])));
    assert!(refused::<CString>(&vec![1_u8, 0, 2]));
    assert!(refused::<Bound<u8>>(&3_u8));
    assert!(refused::<SystemTime>(&(0_i64, 1_000_000_000_u32)));
    assert!(refused::<SystemTime>(&(i64::MAX, 999_999_999_u32)) == at_the_end().is_none());
    assert!(refused::<NaiveTime>(&(86_400_u32, 0_u32)));
    assert!(refused::<NaiveDate>(&i32::MAX));
    assert!(refused::<DateTime<Utc>>(&(i64::MAX, 0_u32)));
    assert!(refused::<DateTime<FixedOffset>>(&(0_i64, 0_u32, 86_400_i32)));
    let last = DateTime::<Utc>::MAX_UTC.timestamp();
    assert!(refused::<DateTime<FixedOffset>>(&(last, 0_u32, 86_399_i32)));
    assert!(refused::<TimeDelta>(&(1_i64, -1_i32)));
    assert!(refused::<TimeDelta>(&(i64::MIN, -1_i32)));
    let endless = decode::<crate::wire::InPlace<[u8; 0]>>(&encode(&u64::MAX));
    assert!(matches!(endless, Err(WireError::Count { .. })));
    assert!(refused::<TimeDelta>(&(i64::MAX, 0_i32)));
}

fn at_the_end() -> Option<SystemTime> {
    let last = Duration::new(i64::MAX as u64, 999_999_999);
    SystemTime::UNIX_EPOCH.checked_add(last)
}

#[test]
fn a_value_that_describes_itself_is_told_to_travel_as_json() {
    let error = decode::<Serde<Value>>(&encode(&Serde(json!(1)))).unwrap_err();
    assert!(error.to_string().contains("Json<T>"), "{error}");
}

#[test]
fn a_document_that_is_too_deep_is_refused() {
    let deep = |levels: usize| encode(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    assert!(decode::<Json<Value>>(&deep(50)).is_ok());
    assert!(decode::<Json<Value>>(&deep(100_000)).is_err());
}

#[test]
fn schemas_say_what_a_message_looks_like() {
    assert_eq!(name_of::<Arc<VecDeque<usize>>>(), "Vec<u64>");
    assert_eq!(name_of::<Cow<'static, [Rc<str>]>>(), "Vec<String>");
    assert_eq!(name_of::<Bytes>(), "Vec<u8>");
    assert_eq!(name_of::<NonZero<usize>>(), "NonZero<u64>");
    assert_eq!(name_of::<RangeInclusive<Wrapping<u8>>>(), "RangeInclusive<u8>");
    assert_eq!(name_of::<Serde<(Vec<Duration>, [Uuid; 2])>>(), "Serde<(Vec<Duration>, [Uuid; 2])>");
    assert_eq!(name_of::<Json<Value>>(), "Json<Value>");
    // Wrapped numbers lie at whole words each, and numbers lie without gaps.
    assert_eq!(name_of::<Vec<Box<u8>>>(), "Vec<spaced u8>");
    assert_eq!(name_of::<Arc<[Arc<Wrapping<u32>>]>>(), "Vec<spaced u32>");
    assert_eq!(name_of::<[[Reverse<u16>; 2]; 3]>(), "[[spaced u16; 2]; 3]");
    assert_eq!(encode(&vec![Box::new(7_u64), Box::new(8)]), encode(&vec![7_u64, 8]));
    assert_eq!(name_of::<Vec<Box<u64>>>(), "Vec<u64>");
    assert_eq!(name_of::<Vec<Box<String>>>(), "Vec<String>");
}

/// All that holds a sequence of plain arrays has the form of a `Vec` of them, without gaps.
#[test]
fn sequences_of_plain_arrays_have_one_form() {
    fn has_one_form<T: Plain + Default + PartialEq + Debug>(items: [T; 3]) {
        let bytes = encode(&items.to_vec());
        let numbers: Vec<u8> = items.as_bytes().to_vec();
        assert_eq!(bytes, [&3_u64.to_le_bytes()[..], &numbers].concat());
        assert_eq!(encode(&InPlace::from(items.to_vec())), bytes);
        let in_place = decode::<InPlace<T>>(&bytes).unwrap();
        assert_eq!(in_place.iter().collect::<Vec<_>>(), items);
        let mut turned = VecDeque::from([items[1], items[2]]);
        turned.push_front(items[0]);
        assert_eq!(encode(&turned), bytes);
        assert_eq!(encode(&LinkedList::from(items)), bytes);
        assert_eq!(decode::<Vec<T>>(&bytes).unwrap(), items);
        let mut filled = [T::default(); 3];
        let count = <Vec<T> as Fills<[T]>>::fill(&mut Input::own(&bytes), &mut filled);
        assert_eq!((count, filled), (Ok(3), items));
    }
    has_one_form([[1_u8, 2, 3], [4, 5, 6], [7, 8, 9]]);
    has_one_form([[[1_u16, 2, 3]; 1], [[4, 5, 6]; 1], [[7, 8, 9]; 1]]);
    has_one_form([1_u16, 2, 3].map(|x| [Point { x, y: [7; 3] }]));
}
