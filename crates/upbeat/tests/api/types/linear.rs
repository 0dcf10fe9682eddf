//! Values of every form are written and read at a cost that grows as their number: the bytes that both sides copy for n, 2n
//! and 4n of them are counted. Where each value copies all that is left of its message, they grow as the square.

use crate::ALLOCATOR;
use crate::common::{Directory, PROGRAM, Watchdog};
use crate::types::any::{Kind, Value, expect};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::time::Duration;
use upbeat::call::Bound;
use upbeat::client::Client;
use upbeat::service::{Methods, Rules, Serve, Wraps};
use upbeat::wire::{Describe, Json, Serde, Signature, signature};
use upbeat::{Counter, Node, Stream, Waiting, Wire};
use upbeat_memory::probe::copied_bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Serialize, Deserialize, Wire)]
struct Order {
    id: u64,
    item: String,
}

#[derive(Serialize, Deserialize, Wire)]
struct Page {
    orders: Vec<Order>,
}

#[derive(Serialize, Deserialize, Wire)]
#[wire(whole)]
struct Whole(u32, String);

#[derive(Serialize, Deserialize, Wire)]
enum Open {
    Order(Order),
    #[wire(other)]
    Other,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Wire)]
#[repr(C)]
#[wire(plain)]
struct Reading {
    at: u64,
    value: f64,
}

fn order(id: u64) -> Order {
    Order { id, item: "tea".into() }
}

/// A form: its kind, a value of so many parts, and a part by itself.
struct Form {
    name: &'static str,
    many: (Kind, Maker),
    item: (Kind, Maker),
}

macro_rules! forms {
    ($($many:ty, $item:ty, |$number:ident| $part:expr;)*) => {
        vec![$({
            fn item($number: u64) -> $item {
                $part
            }
            Form {
                name: stringify!($many),
                many: (Kind::of::<$many>(), |count| Value::of::<$many>((0..count).map(item).collect())),
                item: (Kind::of::<$item>(), |number| Value::of(item(number))),
            }
        }),*]
    };
}

fn forms() -> Vec<Form> {
    let mut forms = forms! {
        Vec<u64>, u64, |number| number;
        Vec<Reading>, Reading, |number| Reading { at: number, value: 0.5 };
        Vec<String>, String, |number| number.to_string();
        Vec<Option<(u8, String)>>, Option<(u8, String)>, |number| Some((3, number.to_string()));
        Vec<Order>, Order, |number| order(number);
        VecDeque<Box<Order>>, Box<Order>, |number| Box::new(order(number));
        Vec<Duration>, Duration, |number| Duration::from_secs(number);
        Vec<BTreeMap<u8, u64>>, BTreeMap<u8, u64>, |number| BTreeMap::from([(1, number)]);
        BTreeMap<u64, Order>, (u64, Order), |number| (number, order(number));
        HashSet<u64>, u64, |number| number;
        Vec<Serde<String>>, Serde<String>, |number| Serde(number.to_string());
        Vec<Json<Vec<u64>>>, Json<Vec<u64>>, |number| Json(vec![number; 3]);
        Vec<Whole>, Whole, |number| Whole(7, number.to_string());
        Vec<Open>, Open, |number| Open::Order(order(number));
        Vec<[Order; 2]>, [Order; 2], |number| [order(number), order(number)];
        Vec<[[f32; 3]; 1]>, [[f32; 3]; 1], |number| [[number as f32; 3]];
        Vec<Page>, Page, |number| Page { orders: vec![order(number)] };
    };
    forms.push(Form {
        name: "Page",
        many: (Kind::of::<Page>(), |count| {
            Value::of(Page { orders: (0..count).map(order).collect() })
        }),
        item: (Kind::of::<Order>(), |number| Value::of(order(number))),
    });
    forms.push(Form {
        name: "Json<Vec<u64>>",
        many: (Kind::of::<Json<Vec<u64>>>(), |count| {
            Value::of(Json((0..count).collect::<Vec<_>>()))
        }),
        item: (Kind::of::<Json<u64>>(), |number| Value::of(Json(number))),
    });
    forms
}

const SERVICE: &str = "Linear";
/// The methods: a value that comes back, the same field by field, the same after a wait, and a stream of the items.
const METHODS: [&str; 4] = ["value", "field_by_field", "kept", "items"];
const KEPT: usize = 2;
const ITEMS: usize = 3;

/// A maker of values, by their number.
type Maker = fn(u64) -> Value<true>;

thread_local! {
    /// Whether the handlers go on that wait.
    static IS_FREE: Cell<bool> = const { Cell::new(true) };
    /// The maker of the values that the callee returns next, and their number.
    static NEXT: Cell<(Maker, u64)> = const { Cell::new((|_| unreachable!(), 0)) };
}

fn describe(out: &mut Describe) {
    out.text("any");
}

/// Describes a type with a field more, which binds a method in the tolerant form.
fn describe_more(out: &mut Describe) {
    out.text("any");
    out.default_field(0, "more", |out| out.text("u8"));
}

struct Callee;

impl Serve for Callee {
    const SERVICE: &'static str = SERVICE;

    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
        let back = || {
            let (make, count) = NEXT.get();
            make(count)
        };
        let of = |describe| Kind { describe, ..Kind::of::<u64>() };
        for name in METHODS {
            let rule = Rules::NONE.of(name);
            let describe = if name == METHODS[1] { describe_more } else { describe };
            expect([of(describe), of(describe)]);
            match name {
                "kept" => {
                    methods.call::<Value<true>, Value<true>, _>(name, rule, move |_| async move {
                        while !IS_FREE.get() {
                            upbeat::yield_now().await;
                        }
                        back()
                    })
                }
                "items" => {
                    methods.call::<Value<true>, Stream<Value<false>>, _>(name, rule, async |_| {
                        let (make, count) = NEXT.get();
                        Stream::of((0..count).map(move |number| make(number).into()))
                    })
                }
                _ => methods.call::<Value<true>, Value<true>, _>(name, rule, move |_| async move {
                    back()
                }),
            }
        }
    }
}

struct Caller(Bound);

impl Client for Caller {
    const SERVICE: &'static str = SERVICE;

    fn signatures() -> &'static [Signature] {
        let of = Kind { describe, ..Kind::of::<u64>() };
        let signatures = METHODS.map(|name| {
            expect([of, of]);
            match name {
                "items" => {
                    signature::<Value<true>, Stream<Value<false>>>(SERVICE, name, false, &[])
                }
                _ => signature::<Value<true>, Value<true>>(SERVICE, name, false, &[]),
            }
        });
        signatures.to_vec().leak()
    }

    fn from_bound(bound: Bound) -> Caller {
        Caller(bound)
    }
}

impl Caller {
    /// Makes a call with so many values, and reads as many of its result.
    async fn call(&self, method: usize, form: &Form, count: u64) {
        let ((many, make), name) = (form.many, METHODS[method]);
        expect([many, many]);
        NEXT.set((make, count));
        self.0.call::<_, Value<true>>(method, name, make(count)).await.unwrap();
    }

    /// Makes such a call while the handler of another one waits, so that the node keeps its request.
    async fn call_late(&self, node: &Node, form: &Form, count: u64) {
        let ((many, make), name) = (form.many, METHODS[KEPT]);
        let kept = node.counted(Counter::RefusedHere);
        IS_FREE.set(false);
        expect([many; 2]);
        NEXT.set((make, count));
        upbeat::scope(async |scope| {
            let first = scope.spawn(self.0.call::<_, Value<true>>(KEPT, name, make(0)));
            let second = scope.spawn(self.0.call::<_, Value<true>>(KEPT, name, make(count)));
            while node.counted(Counter::RefusedHere) == kept {
                upbeat::yield_now().await;
            }
            expect([many; 3]);
            IS_FREE.set(true);
            first.await.and(second.await).unwrap();
        })
        .await;
    }

    /// Reads a stream of so many values.
    async fn stream(&self, form: &Form, count: u64) {
        let ((many, make_many), (item, make)) = (form.many, form.item);
        let items = std::iter::repeat_n(item, count as usize);
        expect(std::iter::once(many).chain(items).collect::<VecDeque<_>>());
        NEXT.set((make, count));
        let call = self.0.call::<_, Stream<Value<false>>>(ITEMS, METHODS[ITEMS], make_many(1));
        let mut items = call.await.unwrap();
        for _ in 0..count {
            items.next().await.unwrap().unwrap();
        }
    }

    /// Returns the bytes that both sides copy for so many values.
    async fn copied(&self, node: &Node, method: usize, form: &Form, count: u64) -> u64 {
        let before = copied_bytes();
        match method {
            KEPT => self.call_late(node, form, count).await,
            ITEMS => self.stream(form, count).await,
            method => self.call(method, form, count).await,
        }
        copied_bytes() - before
    }
}

/// The values of the shortest call.
const COUNT: u64 = 1000;

/// An array is read like a vector of as many elements.
#[test]
fn an_array_costs_as_much_as_a_vector() {
    const MANY: usize = 4 * COUNT as usize;
    let of = |many| Form { name: "array", many, item: (Kind::of::<u64>(), Value::of) };
    let array: Maker =
        |_| Value::of(Box::new(std::array::from_fn::<_, MANY, _>(|at| order(at as u64))));
    let vector: Maker = |_| Value::of((0..MANY as u64).map(order).collect::<Vec<_>>());
    let array = of((Kind::of::<Box<[Order; MANY]>>(), array));
    let vector = of((Kind::of::<Vec<Order>>(), vector));
    let (node, _directory) = served("array");
    node.block_on(async {
        let caller: Caller = node.connect("array").await.unwrap();
        let array = caller.copied(&node, 0, &array, 1).await;
        let vector = caller.copied(&node, 0, &vector, 1).await;
        // Records of TLS do not end at the same bytes each time.
        assert!(array < 2 * vector, "{array} bytes are copied, and {vector} for a vector");
    });
}

/// A sequence that keeps the memory of a vector is read with as many allocations as a vector.
#[test]
fn sequences_of_a_vectors_memory_allocate_it_once() {
    let (node, _directory) = served("allocations");
    node.block_on(async {
        let caller: Caller = node.connect("allocations").await.unwrap();
        let mut expected = None;
        for form in forms! {
            Vec<u64>, u64, |number| number;
            Box<[u64]>, u64, |number| number;
            VecDeque<u64>, u64, |number| number;
            BinaryHeap<u64>, u64, |number| number;
            Cow<'static, [u64]>, u64, |number| number;
        } {
            // The other tests may allocate, but not during every call.
            let mut least = u64::MAX;
            for _ in 0..200 {
                let before = ALLOCATOR.allocations();
                caller.call(0, &form, COUNT).await;
                least = least.min(ALLOCATOR.allocations() - before);
            }
            assert_eq!(least, *expected.get_or_insert(least), "{}", form.name);
        }
    });
}

/// Returns a node that serves the callee.
fn served(name: &str) -> (Node, Directory) {
    let directory = Directory::new();
    let builder = Node::builder(name).program(PROGRAM).directory(directory.path());
    // While a request is handled, the next ones are kept.
    let node = builder.waiting(Waiting::Sleeping).session_budget(1).build().unwrap();
    node.serve(Callee).unwrap();
    (node, directory)
}

#[test]
fn values_of_each_form_cost_as_much_as_they_are_many() {
    let _watchdog = Watchdog::new("linear");
    let (node, _directory) = served("linear");
    node.block_on(async {
        let caller: Caller = node.connect("linear").await.unwrap();
        for form in forms() {
            for (method, name) in METHODS.iter().enumerate() {
                let (mut copied, kept) = ([0; 3], node.counted(Counter::RefusedHere));
                for (bytes, times) in copied.iter_mut().zip([1, 2, 4]) {
                    *bytes = caller.copied(&node, method, &form, times * COUNT).await;
                }
                println!("| {} | {name} | {copied:?} |", form.name);
                // A long message is copied once less than a short one that is kept.
                let times = copied[0] + COUNT..=5 * copied[0];
                assert!(times.contains(&copied[2]), "{} {name}", form.name);
                let kept = node.counted(Counter::RefusedHere) - kept;
                assert_eq!(kept, if method == KEPT { 3 } else { 0 }, "{} {name}", form.name);
            }
        }
    });
}
