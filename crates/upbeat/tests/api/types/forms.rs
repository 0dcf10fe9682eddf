//! Types and services that compile, and without warnings.
#![deny(warnings)]

use crate::common::{Directory, Watchdog, node};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::marker::PhantomData;
use upbeat::{CallError, InPlace, Stream, Waiting};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type that is named like a result and is none.
mod game {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, upbeat::Wire)]
    pub(super) enum Result<T, E> {
        Won(T),
        Lost(E),
    }
}

type Played = game::Result<u8, String>;

/// A result with one parameter.
type Result<T> = std::result::Result<T, String>;

#[derive(Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Table<T> {
    rows: BTreeMap<String, T>,
    more: HashMap<u8, Vec<T>>,
}

/// Neither serde nor the library carries it.
#[derive(Debug, PartialEq)]
struct User;

#[derive(Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Id<T> {
    n: u64,
    of: PhantomData<T>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Node<T> {
    value: T,
    next: Option<Box<Node<T>>>,
    #[wire(default)]
    seen: HashSet<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Arrays {
    bits: [bool; 4],
    names: [String; 3],
    sizes: [usize; 2],
    letters: [char; 1],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
struct Spot {
    x: u16,
    y: u16,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[allow(deprecated)]
struct Holder {
    old: OldOrder,
}

#[derive(Serialize, Deserialize)]
#[deprecated]
struct OldOrder {
    id: u64,
}

#[allow(deprecated)]
impl upbeat::Wire for OldOrder {
    fn describe(out: &mut upbeat::wire::Describe) {
        out.text("OldOrder");
    }

    fn put(
        &self,
        out: &mut upbeat::wire::Output<'_>,
    ) -> std::result::Result<(), upbeat::wire::WireError> {
        self.id.put(out)
    }

    fn take(
        input: &mut upbeat::wire::Input<'_>,
    ) -> std::result::Result<Self, upbeat::wire::WireError> {
        u64::take(input).map(|id| OldOrder { id })
    }
}

#[deprecated]
type OldCount = u64;

/// The paths to its fields have names and types about which the compiler warns.
#[derive(upbeat::Shared)]
#[allow(non_camel_case_types, non_snake_case)]
struct quote {
    bestBid: f64,
    #[allow(deprecated)]
    count: OldCount,
}

/// Its methods have names and types about which the compiler warns.
#[upbeat::service]
trait Forms {
    async fn table(&self, table: Table<u16>) -> Table<u16>;
    async fn id(&self, id: Id<User>) -> Id<User>;
    async fn list(&self, list: Node<String>) -> Node<String>;
    async fn arrays(&self, arrays: Arrays, bits: [bool; 40], names: [String; 3]) -> [String; 3];
    async fn long(&self, bits: [bool; 5000], names: [String; 100]) -> String;
    async fn tables(
        &self,
        tables: [Table<u8>; 70],
        ids: &[Option<Id<User>>; 2],
    ) -> [[Table<u8>; 1]; 2];
    async fn sum(&self, few: [Stream<u8>; 2], more: [Stream<u8>; 64]) -> u64;
    async fn spots(&self, spots: [[Spot; 10]; 100]) -> u64;
    async fn put(&self, page_items: u64, page: InPlace<u8>) -> u64;
    #[allow(non_snake_case)]
    async fn getOrder(&self, longName: u64) -> u64;
    #[expect(deprecated, reason = "tried too")]
    async fn old(&self, order: OldOrder, holder: Holder) -> u64;
    async fn audit(&self) -> Result<u64>;
    async fn refused(&self, why: String) -> Result<Vec<u64>>;
    async fn play(&self) -> Played;
    #[allow(deprecated)]
    async fn later(&self) -> Result<Holder>;
}

struct All(Cell<u64>);

#[upbeat::service]
impl Forms for All {
    async fn table(&self, table: Table<u16>) -> Table<u16> {
        table
    }

    async fn id(&self, id: Id<User>) -> Id<User> {
        id
    }

    async fn list(&self, list: Node<String>) -> Node<String> {
        list
    }

    async fn arrays(&self, arrays: Arrays, bits: [bool; 40], names: [String; 3]) -> [String; 3] {
        assert_eq!((arrays.bits[1], bits[39]), (true, true));
        names
    }

    async fn long(&self, bits: [bool; 5000], names: [String; 100]) -> String {
        let [.., last] = names;
        if bits[4999] { last } else { String::new() }
    }

    async fn tables(
        &self,
        tables: [Table<u8>; 70],
        ids: &[Option<Id<User>>; 2],
    ) -> [[Table<u8>; 1]; 2] {
        assert_eq!(ids, &[Some(Id { n: 4, of: PhantomData }), None]);
        let [first, .., last] = tables;
        [[first], [last]]
    }

    async fn sum(&self, few: [Stream<u8>; 2], more: [Stream<u8>; 64]) -> u64 {
        let mut sum = 0;
        for mut stream in few.into_iter().chain(more) {
            while let Some(item) = stream.next().await {
                sum += u64::from(item.unwrap());
            }
        }
        sum
    }

    async fn spots(&self, spots: [[Spot; 10]; 100]) -> u64 {
        spots.iter().flatten().map(|spot| u64::from(spot.x)).sum()
    }

    async fn put(&self, page_items: u64, page: InPlace<u8>) -> u64 {
        page_items + page.len() as u64
    }

    #[allow(non_snake_case)]
    #[method(needs(*longName > 0))]
    async fn getOrder(&self, longName: u64) -> u64 {
        longName
    }

    #[allow(deprecated)]
    async fn old(&self, order: OldOrder, holder: Holder) -> u64 {
        order.id + holder.old.id
    }

    #[cfg(any())]
    #[method(needs(self.0.get() > 1))]
    async fn audit(&self) -> Result<u64> {
        Ok(0)
    }

    #[cfg(not(any()))]
    #[method(needs(self.0.get() > 0))]
    async fn audit(&self) -> Result<u64> {
        Ok(self.0.get())
    }

    async fn play(&self) -> Played {
        Played::Lost("late".into())
    }

    async fn refused(&self, why: String) -> Result<Vec<u64>> {
        if why.is_empty() { Ok(vec![1, 2]) } else { Err(why) }
    }

    #[allow(deprecated)]
    async fn later(&self) -> Result<Holder> {
        Ok(Holder { old: OldOrder { id: 5 } })
    }
}

fn names() -> [String; 3] {
    ["a", "", "c"].map(str::to_owned)
}

#[test]
#[allow(deprecated)]
fn unusual_forms_are_carried() {
    let _watchdog = Watchdog::new("forms");
    let directory = Directory::new();
    let node = node("forms", &directory.path(), Waiting::Sleeping);
    node.serve(FormsServer::new(All(Cell::new(3)))).unwrap();
    node.block_on(async {
        let forms: FormsClient = node.connect("forms").await.unwrap();
        let table = || Table {
            rows: BTreeMap::from([("row".to_owned(), 7)]),
            more: HashMap::from([(1, vec![2, 3])]),
        };
        assert_eq!(forms.table(table()).await, Ok(table()));
        assert_eq!(forms.id(Id { n: 4, of: PhantomData }).await, Ok(Id { n: 4, of: PhantomData }));
        let end = || Node { value: "end".into(), next: None, seen: HashSet::new() };
        let list =
            || Node { value: "begin".into(), next: Some(Box::new(end())), seen: HashSet::new() };
        assert_eq!(forms.list(list()).await, Ok(list()));
        let bits = std::array::from_fn(|at| at == 39);
        let arrays = Arrays {
            bits: [false, true, false, true],
            names: names(),
            sizes: [1, 2],
            letters: ['x'],
        };
        assert_eq!(forms.arrays(arrays, bits, names()).await, Ok(names()));
        let names = std::array::from_fn(|at| at.to_string());
        assert_eq!(forms.long([true; 5000], names).await.as_deref(), Ok("99"));
        let tables =
            |at: usize| Table { rows: BTreeMap::from([(at.to_string(), 1)]), more: HashMap::new() };
        let ids = [Some(Id { n: 4, of: PhantomData }), None];
        // The memory of long arguments is used again.
        for _ in [1, 2] {
            let ends = forms.tables(std::array::from_fn(tables), &ids).await;
            assert_eq!(ends, Ok([[tables(0)], [tables(69)]]));
            assert_eq!(forms.spots([[Spot { x: 3, y: 1 }; 10]; 100]).await, Ok(3000));
        }
        let streams =
            forms.sum([1, 2].map(|n| Stream::of([n; 3])), [5; 64].map(|n| Stream::of([n])));
        assert_eq!(streams.await, Ok(329));
        assert_eq!(forms.put(2, vec![1, 2, 3].into()).await, Ok(5));
        assert_eq!(forms.getOrder(8).await, Ok(8));
        let holder = Holder { old: OldOrder { id: 1 } };
        assert_eq!(forms.old(OldOrder { id: 2 }, holder).await, Ok(3));
        assert_eq!(forms.audit().await, Ok(3));
        assert_eq!(forms.refused(String::new()).await, Ok(vec![1, 2]));
        let refused = forms.refused("full".into()).await;
        assert_eq!(refused, Err(CallError::Method("full".to_owned())));
        assert_eq!(forms.play().await, Ok(Played::Lost("late".into())));
        assert_eq!(forms.later().await.unwrap().old.id, 5);
        let exported = node.export("quote", quote { bestBid: 1.5, count: 1 }).unwrap();
        assert_eq!(exported.bestBid().get(), 1.5);
    });
}
