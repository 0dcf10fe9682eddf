//! The worst messages of 32 MiB, in a process with 1 GiB of address space: none ends it, whether it receives them as
//! arguments or as replies, in either form.
//!
//! The values of a message of 32 MiB may take 1 GiB, which the process does not have: it names the bytes for which it has
//! no memory. Shorter messages of the same kinds reach the limit for values, and the error names that.

#![allow(clippy::large_enum_variant, reason = "the values are large, and short in a message")]

use crate::common::process::one_test;
use crate::common::{Directory, Watchdog, node};
use crate::hostile::any::{Kind, Value, expect};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use upbeat::call::Bound;
use upbeat::client::Client;
use upbeat::service::{Methods, Rules, Serve, Wraps};
use upbeat::wire::{Describe, Input, Json, Output, Serde, Signature, WireError, signature};
use upbeat::{CallError, Waiting, Wire};
use upbeat_core::limits::{VALUES_BYTES_ALWAYS, VALUES_PER_BYTE_MAX};

/// Says that the process is to have 1 GiB of address space: in other processes this is a test of nothing.
const LIMITED: &str = "TEST_LIMITED_MEMORY";

/// The bytes of a long message, a little less than a node takes.
const LONG: usize = (32 << 20) - 4096;
/// The bytes of a short message, whose values may take as much as those of any shorter one.
const SHORT: usize = VALUES_BYTES_ALWAYS / VALUES_PER_BYTE_MAX;

/// A value of 2 KiB that may be absent.
type Large = [[u64; 16]; 16];

/// A value of 2 KiB with a hash and an order.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Wire)]
enum Key {
    None,
    Some(Box<Key>),
    Large(Large),
}

#[derive(Serialize, Deserialize, Wire)]
struct Derived {
    rows: Vec<Option<Large>>,
}

#[derive(Serialize, Deserialize, Wire)]
struct Defaults {
    #[wire(default)]
    row: Large,
}

#[derive(Serialize, Deserialize, Wire)]
#[wire(whole)]
struct Whole {
    rows: Vec<(Option<Large>, String)>,
}

#[derive(Serialize, Deserialize, Wire)]
enum Open {
    Rows(VecDeque<Option<Large>>),
    Large(Large),
    #[wire(other)]
    Other,
}

/// A message of any bytes, as the arguments or the result of a method.
struct Bytes(Rc<[u8]>);

impl Wire for Bytes {
    fn describe(out: &mut Describe) {
        out.text("any");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.bytes(&self.0);
        Ok(())
    }

    fn take(_: &mut Input<'_>) -> Result<Self, WireError> {
        unreachable!("it is not read")
    }
}

const SERVICE: &str = "Worst";
const TAKES: [&str; 2] = ["takes", "takes_field_by_field"];
const GIVES: [&str; 2] = ["gives", "gives_field_by_field"];

/// The schemas of the callee: that of the caller, and one with a field more, so that values travel field by field.
const DESCRIBES: [fn(&mut Describe); 2] = [Bytes::describe, |out| {
    Bytes::describe(out);
    out.default_field(0, "more", |out| out.text("u8"));
}];

thread_local! {
    /// The message that the callee returns next.
    static MESSAGE: RefCell<Rc<[u8]>> = RefCell::new(Rc::from([]));
}

struct Worst;

impl Serve for Worst {
    const SERVICE: &'static str = SERVICE;

    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
        for ((takes, gives), describe) in TAKES.into_iter().zip(GIVES).zip(DESCRIBES) {
            expect([Kind { describe, ..Kind::of::<u64>() }; 2]);
            methods.call::<Value<true>, u8, _>(takes, Rules::NONE.of(takes), async |_| 1);
            methods.call::<u8, Value<true>, _>(gives, Rules::NONE.of(gives), async |_| {
                Value::of(Bytes(MESSAGE.with_borrow(Rc::clone)))
            });
        }
    }
}

struct Caller(Bound);

impl Client for Caller {
    const SERVICE: &'static str = SERVICE;

    fn signatures() -> &'static [Signature] {
        let takes = TAKES.map(|name| signature::<Bytes, u8>(SERVICE, name, false, &[]));
        let gives = GIVES.map(|name| signature::<u8, Bytes>(SERVICE, name, false, &[]));
        [takes, gives].concat().leak()
    }

    fn from_bound(bound: Bound) -> Caller {
        Caller(bound)
    }
}

impl Caller {
    /// Returns the results of two calls: the first sends the message as its arguments, the second receives it as its result.
    async fn both(&self, form: &Form, message: Rc<[u8]>) -> [Result<(), CallError>; 2] {
        let by_field = usize::from(form.is_by_field);
        MESSAGE.set(Rc::clone(&message));
        expect([form.kind; 2]);
        let takes = self.0.call::<_, u8>(by_field, TAKES[by_field], Bytes(message)).await;
        expect([form.kind; 2]);
        let gives = self.0.call::<_, Value<true>>(2 + by_field, GIVES[by_field], 0_u8).await;
        MESSAGE.set(Rc::from([]));
        [takes.map(drop), gives.map(drop)]
    }
}

/// Returns a message of so many bytes, which are these and then zeros.
fn zeros(front: &[u8], bytes: usize) -> Rc<[u8]> {
    let mut message = vec![0; bytes];
    message[..front.len()].copy_from_slice(front);
    message.into()
}

/// Returns a message of a sequence in the library's own form, with elements of so many bytes.
fn counted(element: usize, bytes: usize) -> Rc<[u8]> {
    let count = (bytes - 8) / element;
    zeros(&(count as u64).to_le_bytes(), 8 + count * element)
}

fn words(bytes: usize) -> Rc<[u8]> {
    counted(8, bytes)
}

fn pairs(bytes: usize) -> Rc<[u8]> {
    counted(16, bytes)
}

/// Returns a message of maps or sets that have one entry.
fn single(bytes: usize) -> Rc<[u8]> {
    let count = (bytes - 8) / 8;
    [&(count as u64).to_le_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0].repeat(count)].concat().into()
}

/// Returns a message of a struct with one field, field by field, which is a sequence of words.
fn field(bytes: usize) -> Rc<[u8]> {
    let (length, count) = (bytes - 8, bytes / 8 - 2);
    zeros(&[length as u64 | 1 << 32, count as u64].map(u64::to_le_bytes).concat(), bytes)
}

/// Returns a message of a sequence in postcard behind these bytes, with elements of so many bytes.
fn packed(front: &[u8], element: usize, bytes: usize) -> Rc<[u8]> {
    let count = postcard::to_allocvec(&((bytes - 8) / element)).unwrap();
    zeros(&[front, &count].concat(), bytes)
}

fn packed_bytes(bytes: usize) -> Rc<[u8]> {
    packed(&[], 1, bytes)
}

fn packed_pairs(bytes: usize) -> Rc<[u8]> {
    packed(&[], 2, bytes)
}

/// Returns a message of the first variant of an enum, which is a sequence in postcard.
fn packed_variant(bytes: usize) -> Rc<[u8]> {
    packed(&[0], 1, bytes)
}

/// Returns a message of a JSON text that repeats a value.
fn json(value: &str, bytes: usize) -> Rc<[u8]> {
    let count = (bytes - 16) / (value.len() + 1);
    let text = format!("[{}{value}]", format!("{value},").repeat(count - 1));
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat().into()
}

fn nulls(bytes: usize) -> Rc<[u8]> {
    json("null", bytes)
}

fn digits(bytes: usize) -> Rc<[u8]> {
    json("0", bytes)
}

/// Messages of one type.
struct Form {
    name: &'static str,
    kind: Kind,
    is_by_field: bool,
    /// Returns the worst message of so many bytes.
    message: fn(usize) -> Rc<[u8]>,
    /// Whether the values take more than the limit.
    is_beyond: bool,
}

macro_rules! forms {
    ($($message:ident, $by_field:literal, $beyond:literal: $($type:ty)|+;)*) => {
        vec![$($(Form {
            name: stringify!($type),
            kind: Kind::of::<$type>(),
            is_by_field: $by_field,
            message: $message,
            is_beyond: $beyond,
        },)+)*]
    };
}

fn forms() -> Vec<Form> {
    forms! {
        words, false, true: Vec<Option<Large>> | VecDeque<Option<Large>> | LinkedList<Option<Large>>
            | Arc<[Option<Large>]> | BinaryHeap<Option<Large>> | Vec<Result<u8, Large>>
            | Vec<Box<Option<Large>>> | Vec<Derived> | Vec<Serde<Key>>;
        pairs, false, true: Vec<(Option<Large>, String)>;
        words, false, false: Vec<String> | Vec<Vec<Vec<u8>>> | Vec<BTreeMap<u8, u8>>;
        single, false, true: Vec<BTreeMap<u8, Option<Large>>> | Vec<HashMap<u8, Option<Large>>>
            | Vec<BTreeSet<Key>> | Vec<HashSet<Key>>;
        packed_bytes, false, true: HashSet<Key> | BTreeSet<Key> | Derived | Serde<Vec<Option<Large>>>;
        packed_pairs, false, true: BTreeMap<u8, Option<Key>> | HashMap<u8, Key> | Whole;
        packed_bytes, false, false: Serde<Vec<Option<String>>> | Serde<LinkedList<Vec<u8>>>;
        packed_variant, false, true: Open;
        nulls, false, true: Json<Vec<Option<Large>>>;
        digits, false, false: Json<serde_json::Value>;
        words, true, true: Vec<Option<Large>> | Vec<Defaults> | Vec<Open> | HashSet<Key> | BTreeSet<Key>;
        pairs, true, true: BTreeMap<u8, Option<Large>> | HashMap<u8, Key>;
        field, true, true: Derived;
        packed_pairs, true, true: Whole;
        words, true, false: Vec<HashSet<u8>>;
    }
}

#[test]
fn the_worst_messages_in_limited_memory() {
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let _watchdog = Watchdog::new("the worst messages");
    let directory = Directory::new();
    let node = node("worst", &directory.path(), Waiting::Sleeping);
    node.serve(Worst).unwrap();
    let caller: Caller = node.block_on(node.connect("worst")).unwrap();
    let limit = Rlimit { current: Some(1 << 30), maximum: Some(1 << 30) };
    setrlimit(Resource::As, limit).unwrap();
    let too_much = format!("would take more than {VALUES_BYTES_ALWAYS} bytes of memory");
    for form in forms() {
        let begun = Instant::now();
        for bytes in [LONG, SHORT] {
            let results = node.block_on(caller.both(&form, (form.message)(bytes)));
            for (result, way) in results.into_iter().zip(["argument", "reply"]) {
                let what = format!("{} as {way}, {bytes} bytes: {result:?}", form.name);
                println!("{what}");
                let text = result.err().map(|error| error.to_string());
                match text {
                    Some(text) if bytes == SHORT => {
                        assert!(form.is_beyond && text.contains(&too_much), "{what}");
                    }
                    Some(text) => assert!(text.contains("no memory for"), "{what}"),
                    None => assert!(!form.is_beyond, "{what}"),
                }
            }
        }
        println!("{}: {:?}", form.name, begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(60), "{}: {:?}", form.name, begun.elapsed());
    }
}

#[test]
#[ignore = "takes half a minute without optimisation: `.ci/run hostile` runs it"]
fn no_message_ends_a_process_with_limited_memory() {
    let mut command = one_test(concat!(module_path!(), "::the_worst_messages_in_limited_memory"));
    let output = command.env(LIMITED, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{}", String::from_utf8_lossy(&output.stderr));
}
