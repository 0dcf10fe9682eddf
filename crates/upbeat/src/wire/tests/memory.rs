//! The memory that the values of a message take is bounded, in every form.

use super::{decode, decode_tolerantly, encode, encode_tolerantly};
use crate::wire::{Input, WireError};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, LinkedList, VecDeque};
use std::time::{Duration, Instant};
use upbeat_core::limits::{VALUES_BYTES_ALWAYS, VALUES_PER_BYTE_MAX};

/// A value of 1 KiB that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Large([[u64; 16]; 8]);

/// A value of 1 KiB that is a byte in a message.
#[derive(Deserialize)]
#[serde(from = "u8")]
struct FromByte {
    _large: Large,
}

impl From<u8> for FromByte {
    fn from(byte: u8) -> FromByte {
        FromByte { _large: Large([[u64::from(byte); 16]; 8]) }
    }
}

/// A row of which most is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sparse {
    texts: [Option<String>; 8],
    numbers: [Option<u128>; 8],
}

#[derive(Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Rows {
    rows: Vec<Option<Large>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, crate::Wire)]
struct Nest {
    inner: Vec<Nest>,
    kept: Option<Box<Large>>,
}

/// Returns a message of a sequence in postcard that counts so many elements, each of which is these bytes.
fn counted(count: u64, element: &[u8], elements: usize) -> Vec<u8> {
    let mut bytes = postcard::to_allocvec(&count).unwrap();
    bytes.extend(element.iter().cycle().take(element.len() * elements));
    bytes
}

/// Returns a message of so many words without a bit, behind a count.
fn words(count: u64, words: usize) -> Vec<u8> {
    let mut bytes = vec![0; 8 * (1 + words)];
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// Returns a message of a text.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn read_serde<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    Input::own(bytes).serde()
}

/// Checks that a message of so many bytes is refused for the memory of its values.
#[track_caller]
fn is_refused<T>(value: Result<T, WireError>, bytes: usize) {
    let most = (bytes * VALUES_PER_BYTE_MAX).max(VALUES_BYTES_ALWAYS);
    match value {
        Err(WireError::MemoryLimit { most: limit }) => assert_eq!(limit, most),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was read"),
    }
}

#[test]
fn a_short_message_does_not_become_large_values() {
    // Serde: absent values, present ones behind pointers, and sequences in each other.
    let absent = counted(1 << 20, &[0], 1 << 20);
    is_refused(read_serde::<Vec<Option<Large>>>(&absent), absent.len());
    is_refused(read_serde::<Vec<(Option<Large>, ())>>(&absent), absent.len());
    is_refused(read_serde::<VecDeque<Option<Large>>>(&absent), absent.len());
    is_refused(read_serde::<LinkedList<Option<Large>>>(&absent), absent.len());
    let keyed = counted(1 << 19, &[0, 0], 1 << 19);
    is_refused(read_serde::<BTreeMap<u8, Option<Large>>>(&keyed), keyed.len());
    let nested = counted(1 << 18, &[3, 0, 0, 0], 1 << 18);
    is_refused(read_serde::<Vec<Vec<Option<Large>>>>(&nested), nested.len());
    // A type that reads less than it becomes, and one behind a pointer.
    is_refused(read_serde::<Vec<FromByte>>(&absent), absent.len());
    is_refused(read_serde::<Vec<Box<Option<Large>>>>(&absent), absent.len());
    // The own forms.
    let absent = words(1 << 17, 1 << 17);
    is_refused(decode::<Vec<Box<Option<[[u64; 16]; 8]>>>>(&absent), absent.len());
    is_refused(decode::<Vec<Option<Large>>>(&absent), absent.len());
    is_refused(decode::<Vec<Result<(), Large>>>(&absent), absent.len());
    is_refused(decode::<Vec<[Option<Large>; 2]>>(&absent), absent.len());
    is_refused(decode::<Vec<[[Option<Large>; 4]; 4]>>(&absent), absent.len());
    let keyed = words(1 << 16, 1 << 17);
    is_refused(decode_tolerantly::<BTreeMap<u64, Option<[[u64; 32]; 32]>>>(&keyed), keyed.len());
    // The first entry of a tree has room for ten others.
    let trees = counted(1 << 12, &[1, 0, 0], 1 << 12);
    is_refused(read_serde::<Vec<BTreeMap<u8, Option<Large>>>>(&trees), trees.len());
    let trees =
        [&(1_u64 << 12).to_le_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0].repeat(1 << 12)].concat();
    is_refused(decode::<Vec<BTreeMap<u8, Option<Large>>>>(&trees), trees.len());
    is_refused(decode::<Vec<HashMap<u8, Option<Large>>>>(&trees), trees.len());
    is_refused(decode::<Vec<BTreeSet<Option<[[u64; 16]; 16]>>>>(&trees), trees.len());
}

/// The arguments of a call share what its message may take.
#[test]
fn the_values_of_one_message_share_a_limit() {
    type Rows = Vec<Option<Large>>;
    let row = [0_u8; 8];
    let half = (VALUES_BYTES_ALWAYS / size_of::<Option<Large>>()) as u64 * 2 / 3;
    let rows: Vec<u8> = half.to_le_bytes().into_iter().chain(row.repeat(half as usize)).collect();
    let both = rows.repeat(2);
    assert_eq!(decode::<(Rows, u64)>(&[&rows[..], &row].concat()).unwrap().0.len() as u64, half);
    is_refused(decode::<(Rows, Rows)>(&both), both.len());
    let mut input = Input::own(&rows);
    let _: Rows = crate::Wire::take(&mut input).unwrap();
    assert_eq!(input.charged(), half as usize * size_of::<Option<Large>>());
}

/// A part of a message in the tolerant form may take what the whole message may.
#[test]
fn both_forms_have_the_same_limit() {
    let rows = Rows { rows: vec![None; 3 * VALUES_BYTES_ALWAYS / 2 / size_of::<Option<Large>>()] };
    let message = (rows, "x".repeat(600_000));
    assert_eq!(decode::<(Rows, String)>(&encode(&message)).unwrap(), message);
    assert_eq!(decode_tolerantly::<(Rows, String)>(&encode_tolerantly(&message)).unwrap(), message);
}

#[test]
fn values_without_any_size_end_soon() {
    let begun = Instant::now();
    for count in [u64::MAX, 1 << 63, 1 << 32] {
        is_refused(read_serde::<Vec<()>>(&counted(count, &[], 0)), 10);
        is_refused(read_serde::<Vec<((), [u8; 0])>>(&counted(count, &[], 0)), 10);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// An array counts as many elements as it has: a short message could announce any number of them otherwise.
#[test]
fn elements_of_arrays_without_any_size_are_charged() {
    is_refused(decode::<Vec<[[(); 1 << 10]; 1 << 10]>>(&(1_u64 << 20).to_le_bytes()), 8);
    let lists = [16, 1 << 20].map(u64::to_le_bytes).concat();
    let lists = [&lists[..8], &lists[8..].repeat(16)].concat();
    is_refused(decode::<Vec<LinkedList<[u8; 0]>>>(&lists), lists.len());
}

#[test]
fn values_of_usual_sizes_are_read() {
    let numbers: Vec<u64> = (0..2 << 20).map(|number| number % 100).collect();
    let bytes = postcard::to_allocvec(&numbers).unwrap();
    assert_eq!(read_serde::<Vec<u64>>(&bytes).unwrap(), numbers);
    let texts = vec![String::new(); 1 << 20];
    let bytes = postcard::to_allocvec(&texts).unwrap();
    assert_eq!(read_serde::<Vec<String>>(&bytes).unwrap(), texts);
    let rows = vec![(1_u8, String::from("a"), None::<u64>, [0.5_f32; 3]); 1 << 19];
    let bytes = postcard::to_allocvec(&rows).unwrap();
    assert_eq!(read_serde::<Vec<(u8, String, Option<u64>, [f32; 3])>>(&bytes).unwrap(), rows);
    // A short message may have large values in it.
    let absent = counted(4096, &[0], 4096);
    assert_eq!(read_serde::<Vec<Option<Large>>>(&absent).unwrap(), vec![None; 4096]);
    let sparse = vec![Sparse::default(); 1 << 15];
    let bytes = postcard::to_allocvec(&sparse).unwrap();
    assert_eq!(read_serde::<Vec<Sparse>>(&bytes).unwrap(), sparse);
    let nest = Nest { inner: vec![], kept: Some(Box::new(Large([[7; 16]; 8]))) };
    assert_eq!(decode::<Nest>(&encode(&nest)).unwrap(), nest);
}

/// Says that the process is to have no more than [`LIMIT`]: in other processes this is a test of nothing.
const LIMITED: &str = "TEST_LIMITED_MEMORY";

/// Bytes of memory, which the values of the messages exceed.
const LIMIT: u64 = 512 << 20;

#[test]
fn the_worst_messages_in_limited_memory() {
    const BYTES: usize = 16 << 20;
    fn fails<T>(value: Result<T, WireError>) {
        match value {
            Err(WireError::MemoryLimit { .. } | WireError::NoMemory { .. }) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was read"),
        }
    }
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    setrlimit(Resource::As, limit).unwrap();
    let zeros = counted(BYTES as u64, &[0], BYTES);
    fails(read_serde::<Vec<Option<Large>>>(&zeros));
    fails(read_serde::<Vec<String>>(&zeros));
    fails(read_serde::<LinkedList<Vec<u8>>>(&zeros));
    drop(zeros);
    let zeros = words(BYTES as u64 / 8, BYTES / 8);
    fails(decode::<Vec<Option<Large>>>(&zeros));
    // These take less.
    assert!(decode::<LinkedList<Option<Box<str>>>>(&zeros).is_ok());
}

#[test]
fn no_message_ends_a_process_with_limited_memory() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "wire::tests::memory::the_worst_messages_in_limited_memory";
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(LIMITED, "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[cfg(feature = "json")]
#[test]
fn json_is_bounded_as_well() {
    use crate::wire::Json;
    let absent = format!("[{}null]", "null,".repeat(1 << 18));
    is_refused(decode::<Json<Vec<Option<Large>>>>(&text(&absent)), absent.len() + 8);
    // Many texts share what they have.
    let short = format!("[{}null]", "null,".repeat(1 << 12));
    let shorts = vec![short.as_str(); 64];
    let bytes = postcard::to_allocvec(&shorts).unwrap();
    assert!(read_serde::<Vec<Json<Vec<Option<Large>>>>>(&bytes[..]).is_err());
    assert!(read_serde::<Vec<Json<Vec<Option<Large>>>>>(&counted(1, &bytes[1..], 1)).is_ok());
    let mut words = (shorts.len() as u64).to_le_bytes().to_vec();
    for short in &shorts {
        words.extend(text(short));
        words.resize(words.len().next_multiple_of(8), 0);
    }
    is_refused(decode::<Vec<Json<Vec<Option<Large>>>>>(&words), words.len());
    let empty = format!("[{}[]]", "[],".repeat(1 << 18));
    let read = decode::<Json<Vec<Vec<u8>>>>(&text(&empty)).unwrap();
    assert_eq!(read.0.len(), (1 << 18) + 1);
}

/// JSON within values of serde is counted, and the arguments of a call share what it may take.
#[cfg(feature = "json")]
#[test]
fn the_json_of_one_message_shares_a_limit() {
    use crate::wire::{Json, Serde};
    type Rows = Serde<Vec<Json<Vec<Option<Large>>>>>;
    let rows = || -> Rows { Serde((0..3).map(|_| Json(vec![None; 1 << 12])).collect()) };
    let one = encode(&rows());
    let mut input = Input::own(&one);
    let _: Rows = crate::Wire::take(&mut input).unwrap();
    assert!(input.charged() >= 3 * (1 << 12) * size_of::<Option<Large>>(), "{}", input.charged());
    assert!(decode::<(Rows, Rows)>(&encode(&(rows(), rows()))).is_err());
}
