//! Options, vectors, maps and pointers: values whose place the memory decides.

use crate::common::process::{input_ends, say};
use crate::common::{PROGRAM, SOON, Watchdog, shares_memory, soon};
use crate::exports::{Row, Stand};
use std::path::PathBuf;
use upbeat::export::{Export, FixedMap, FixedVec, MapFull, ReadError, Ref, Text};
use upbeat::{Import, Node, Shared};

#[derive(Clone, Debug, Shared)]
pub(crate) struct Shop {
    pub(crate) limit: Option<u64>,
    pub(crate) best: Option<Row>,
    pub(crate) levels: FixedVec<u16, 5>,
    pub(crate) rows: FixedVec<Row, 4>,
    pub(crate) only: FixedVec<u64, 1>,
    pub(crate) prices: FixedMap<Text<12>, Row, 4>,
    pub(crate) counts: FixedMap<i8, u64, 3>,
    pub(crate) history: Vec<Row>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) nested: Vec<Vec<u32>>,
    pub(crate) favourite: u8,
    pub(crate) numbers: [u32; 10],
    pub(crate) stock: [Row; 10],
    pub(crate) head: Ref<Entry>,
    pub(crate) entries: [Entry; 6],
}

#[derive(Clone, Debug, Default, PartialEq, Shared)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) row: Row,
    pub(crate) next: Ref<Entry>,
}

impl Shop {
    pub(crate) fn new() -> Shop {
        Shop {
            limit: None,
            best: None,
            levels: FixedVec::new(),
            rows: FixedVec::new(),
            only: FixedVec::new(),
            prices: FixedMap::new(),
            counts: FixedMap::new(),
            history: (0..20).map(Row::of).collect(),
            bytes: Vec::new(),
            nested: vec![vec![1, 2, 3], Vec::new(), (0..100).collect()],
            favourite: 0,
            numbers: std::array::from_fn(|index| 100 + index as u32),
            stock: std::array::from_fn(|index| Row::of(index as u32)),
            head: Ref::null(),
            entries: Default::default(),
        }
    }
}

/// Tells the owner what to do.
#[upbeat::service]
trait Clerk {
    async fn fill(&self, number: u32);
    async fn empty(&self);
    /// Appends rows to the history.
    async fn append(&self, rows: u32);
}

struct Keeper(Export<Shop>);

fn text(text: &str) -> Text<12> {
    Text::new(text).unwrap()
}

/// Gives a value to each part.
pub(crate) fn fill(shop: &Export<Shop>, number: u32) {
    shop.limit().set(Some(number.into()));
    shop.best().set(Some(Row::of(number)));
    shop.best().some().size().set(number + 1);
    shop.levels().clear();
    for level in 0..5 {
        shop.levels().push(level).unwrap();
    }
    assert_eq!(shop.levels().push(9), Err(9), "it is full");
    assert_eq!(shop.levels().pop(), Some(4));
    shop.levels().index(1).set(number as u16);
    shop.rows().clear();
    shop.rows().push(Row::of(number)).unwrap();
    shop.rows().push(Row::of(number + 1)).unwrap();
    for (index, key) in ["EUR", "USD", "GBP"].into_iter().enumerate() {
        shop.prices().insert(&text(key), Row::of(number + index as u32)).unwrap();
    }
    shop.prices().remove(&text("USD"));
    shop.prices().entry(&text("GBP")).size().set(7);
    for key in [-1, 0, 1] {
        shop.counts().insert(&key, u64::from(number)).unwrap();
    }
    assert_eq!(shop.counts().insert(&2, 0), Err(MapFull));
    shop.counts().entry(&-1).set(5);
    shop.favourite().set(3);
    // A list of the first, the third and the fifth entry.
    let entries = shop.entries();
    for index in 0..6 {
        entries.index(index).number().set(u64::from(number) + index as u64);
    }
    shop.head().point_to(&entries.index(0));
    entries.index(0).next().point_to(&entries.index(2));
    shop.head().target().next().target().next().point_to(&entries.index(4));
    entries.index(4).next().clear();
}

impl Clerk for Keeper {
    async fn fill(&self, number: u32) {
        fill(&self.0, number);
    }

    async fn empty(&self) {
        let shop = &self.0;
        shop.limit().set(None);
        shop.best().set(None);
        shop.levels().clear();
        shop.rows().pop();
        shop.prices().remove(&text("EUR"));
        shop.head().clear();
        shop.history().clear();
    }

    async fn append(&self, rows: u32) {
        for number in 0..rows {
            self.0.history().push(Row::of(number)).unwrap();
            self.0.bytes().push(number as u8).unwrap();
        }
    }
}

/// The process of the owner.
pub(crate) fn owner(shares: bool, place: PathBuf) {
    let builder = Node::builder("shop").program(PROGRAM).directory(place);
    let node = builder.shared_memory(shares).build().unwrap();
    let shop = node.export("shop", Shop::new()).unwrap();
    node.serve(ClerkServer::new(Keeper(shop))).unwrap();
    say("serving");
    node.block_on(input_ends());
    node.shut_down(SOON);
}

/// Runs a reader of an owner that shares memory, and of one that does not.
fn read(what: &'static str, reader: impl AsyncFn(&Import<Shop>, &ClerkClient, bool)) {
    let _watchdog = Watchdog::new(what);
    for part in ["containers shared", "containers apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let shop = stand.node.import::<Shop>("shop/shop").await.unwrap();
            let clerk: ClerkClient = stand.node.connect("shop").await.unwrap();
            reader(&shop, &clerk, part.ends_with("shared")).await;
        });
    }
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    read("what is not there", async |shop, _, _| {
        assert_eq!(soon(shop.limit().read()).await, Ok(None));
        assert_eq!(soon(shop.limit().some().read()).await, Err(ReadError::Nothing));
        assert_eq!(soon(shop.best().some().bid().read()).await, Err(ReadError::Nothing));
        let index = |index| Err(ReadError::Index { index });
        assert_eq!(soon(shop.levels().index(0).read()).await, index(0).map(|()| 0));
        assert_eq!(soon(shop.rows().index(3).bid().read()).await, index(3).map(|()| 0.0));
        assert_eq!(
            soon(shop.rows().index(1 << 40).read()).await.map(drop),
            index(u32::MAX as usize)
        );
        assert_eq!(soon(shop.only().index(0).read()).await, index(0).map(|()| 0));
        assert_eq!(soon(shop.history().index(20).read()).await.map(drop), index(20));
        assert_eq!(soon(shop.history().index(1 << 30).read()).await.map(drop), index(1 << 30));
        let absent = shop.prices().entry(&text("EUR")).read().await;
        assert_eq!(absent.map(drop), Err(ReadError::Nothing));
        assert_eq!(soon(shop.head().read()).await.map(drop), Err(ReadError::Nothing));
        assert_eq!(
            soon(shop.head().target().next().read()).await.map(drop),
            Err(ReadError::Nothing)
        );
        assert_eq!(soon(shop.follow(Ref::<Entry>::null()).read()).await, Err(ReadError::Nothing));
    });
}

#[test]
fn each_part_is_read_where_it_lies() {
    read("each part", async |shop, clerk, shares| {
        clerk.fill(40).await.unwrap();
        assert_eq!(soon(shop.limit().read()).await, Ok(Some(40)));
        assert_eq!(soon(shop.limit().some().read()).await, Ok(40));
        let best = Row { size: 41, ..Row::of(40) };
        assert_eq!(soon(shop.best().read()).await, Ok(Some(best)));
        assert_eq!(soon(shop.best().some().read()).await, Ok(best));
        assert_eq!(soon(shop.best().some().size().read()).await, Ok(41));
        assert_eq!(soon(shop.levels().length().read()).await, Ok(4));
        assert_eq!(soon(shop.levels().read()).await.unwrap()[..], [0, 40, 2, 3]);
        for (index, level) in [0, 40, 2, 3].into_iter().enumerate() {
            assert_eq!(soon(shop.levels().index(index).read()).await, Ok(level));
        }
        assert_eq!(soon(shop.rows().index(1).read()).await, Ok(Row::of(41)));
        assert_eq!(soon(shop.rows().read()).await.unwrap()[..], [Row::of(40), Row::of(41)]);
        assert_eq!(soon(shop.prices().length().read()).await, Ok(2));
        assert_eq!(soon(shop.prices().entry(&text("EUR")).read()).await, Ok(Row::of(40)));
        assert_eq!(soon(shop.prices().entry(&text("GBP")).size().read()).await, Ok(7));
        let usd = shop.prices().entry(&text("USD")).bid().read().await;
        assert_eq!(usd, Err(ReadError::Nothing));
        let prices = soon(shop.prices().read()).await.unwrap();
        assert_eq!((prices.len(), prices.get(&text("EUR"))), (2, Some(&Row::of(40))));
        assert_eq!(soon(shop.counts().entry(&-1).read()).await, Ok(5));
        assert_eq!(soon(shop.counts().entry(&1).read()).await, Ok(40));
        assert_eq!(shop.counts().read().await.unwrap().len(), 3);
        // The index is a part of the export.
        assert_eq!(soon(shop.numbers().index_at(&shop.favourite()).read()).await, Ok(103));
        let stock = shop.stock();
        assert_eq!(soon(stock.index_at(&shop.favourite()).size().read()).await, Ok(3));
        assert_eq!(soon(stock.index_at(&shop.favourite()).read()).await, Ok(Row::of(3)));
        let number = shop.numbers().index(10);
        let beyond = stock.index_at(&number);
        assert_eq!(soon(beyond.size().read()).await, Err(ReadError::Index { index: 10 }));
        assert_eq!(beyond.try_read(), Err(ReadError::Index { index: 10 }));
        // Nothing of this took a call where the memory is shared, but what has many parts.
        if shares && shares_memory("reads without a call") {
            assert_eq!(shop.limit().some().try_read(), Ok(40));
            assert_eq!(shop.prices().entry(&text("GBP")).size().try_read(), Ok(7));
            assert_eq!(shop.stock().index_at(&shop.favourite()).try_read(), Ok(Row::of(3)));
            assert_eq!(shop.head().try_read().unwrap().number, 40);
        }
        clerk.empty().await.unwrap();
        assert_eq!(soon(shop.best().some().bid().read()).await, Err(ReadError::Nothing));
        assert_eq!(
            soon(shop.rows().index(1).read()).await.map(drop),
            Err(ReadError::Index { index: 1 })
        );
        assert_eq!(soon(shop.rows().index(0).read()).await, Ok(Row::of(40)));
    });
}

#[test]
fn linked_structures_are_walked() {
    read("linked structures", async |shop, clerk, _| {
        clerk.fill(40).await.unwrap();
        // By a path, which is evaluated where the data is.
        let third = shop.head().target().next().target().next().target().number();
        assert_eq!(soon(third.read()).await, Ok(44));
        // A copy of what a pointer leads to, and onwards by the pointers in the copies.
        let mut entry = soon(shop.head().read()).await.unwrap();
        let mut numbers = vec![entry.number];
        while !entry.next.is_null() {
            assert_eq!(
                soon(shop.follow(entry.next).number().read()).await,
                Ok(numbers.last().unwrap() + 2)
            );
            entry = soon(shop.follow(entry.next).read()).await.unwrap();
            numbers.push(entry.number);
        }
        assert_eq!(numbers, [40, 42, 44]);
        let pointer = soon(shop.head().read_pointer()).await.unwrap();
        assert_eq!(soon(shop.follow(pointer).read()).await.unwrap().number, 40);
        let last = shop.entries().index(4).next();
        assert_eq!(soon(last.read()).await.map(drop), Err(ReadError::Nothing));
        // A path has a bound, wherever the data is.
        let mut path = shop.head().target();
        for _ in 0..70 {
            path = path.next().target();
        }
        assert_eq!(path.try_read().err(), Some(ReadError::Steps));
        assert_eq!(soon(path.read()).await.err(), Some(ReadError::Steps));
        assert_eq!(soon(path.number().watch().changed()).await, Err(ReadError::Steps));
        let most = soon(shop.snapshot(async |shop| {
            let mut path = shop.head().target();
            for _ in 0..70 {
                path = path.next().target();
            }
            path.number().read().await
        }));
        assert_eq!(most.await, Err(ReadError::Steps));
    });
}

#[test]
fn several_parts_are_read_as_of_one_moment() {
    read("a snapshot of containers", async |shop, clerk, _| {
        clerk.fill(40).await.unwrap();
        let found = shop.snapshot(async |shop| {
            Ok((
                shop.best().some().bid().read().await?,
                shop.prices().entry(&text("EUR")).size().read().await?,
                shop.history().index(19).size().read().await?,
                shop.head().target().next().read().await?.number,
            ))
        });
        assert_eq!(soon(found).await, Ok((40.0, 40, 19, 42)));
    });
}

#[test]
fn a_change_behind_a_pointer_is_watched() {
    read("a watch of containers", async |shop, clerk, _| {
        clerk.fill(40).await.unwrap();
        let (number, limit) = (shop.head().target().next().target().number(), shop.limit());
        let (mut numbers, mut limits) = (number.watch(), limit.watch());
        assert_eq!(soon(numbers.changed()).await, Ok(42));
        assert_eq!(soon(limits.changed()).await, Ok(Some(40)));
        clerk.fill(50).await.unwrap();
        assert_eq!(soon(numbers.changed()).await, Ok(52));
        assert_eq!(soon(limits.changed()).await, Ok(Some(50)));
        clerk.empty().await.unwrap();
        assert_eq!(soon(limits.changed()).await, Ok(None));
        assert_eq!(soon(numbers.changed()).await, Err(ReadError::Nothing));
    });
}

#[test]
fn vectors_grow_while_they_are_read() {
    read("growing vectors", async |shop, clerk, _| {
        let history = soon(shop.history().read()).await.unwrap();
        assert_eq!(history, (0..20).map(Row::of).collect::<Vec<_>>());
        let nested = soon(shop.nested().read()).await.unwrap();
        assert_eq!((nested.len(), &*nested[0], nested[2].len()), (3, &[1, 2, 3][..], 100));
        assert_eq!(soon(shop.nested().index(2).index(99).read()).await, Ok(99));
        assert_eq!(soon(shop.bytes().read()).await, Ok(Vec::new()));
        // The export moves many times.
        let mut rows = 0_u32;
        for step in [1, 10, 100, 1000, 5000] {
            clerk.append(step).await.unwrap();
            rows += step;
            assert_eq!(soon(shop.history().length().read()).await, Ok(20 + u64::from(rows)));
            let last = 19 + rows as usize;
            assert_eq!(soon(shop.history().index(last).read()).await, Ok(Row::of(step - 1)));
            assert_eq!(soon(shop.history().index(7).read()).await, Ok(Row::of(7)));
            assert_eq!(
                soon(shop.bytes().index(rows as usize - 1).read()).await,
                Ok((step - 1) as u8)
            );
            assert_eq!(soon(shop.numbers().index(3).read()).await, Ok(103));
            assert_eq!(soon(shop.stock().index(3).read()).await, Ok(Row::of(3)));
        }
        let bytes = soon(shop.bytes().read()).await.unwrap();
        assert_eq!(bytes.len(), rows as usize);
        assert_eq!(
            bytes[rows as usize - 5000..],
            (0..5000_u32).map(|number| number as u8).collect::<Vec<_>>()
        );
        let whole = soon(shop.whole().read()).await.unwrap();
        assert_eq!((whole.history.len(), whole.nested.len()), (20 + rows as usize, 3));
        clerk.empty().await.unwrap();
        assert_eq!(soon(shop.history().read()).await, Ok(Vec::new()));
        assert_eq!(
            soon(shop.history().index(0).read()).await.map(drop),
            Err(ReadError::Index { index: 0 })
        );
    });
}

/// A reader that does not know the type, such as `upbeat read`, writes the path as text.
#[test]
fn a_path_of_text_leads_through_memory() {
    let _watchdog = Watchdog::new("paths of text");
    let stand = Stand::new("containers shared");
    stand.node.block_on(async {
        let clerk: ClerkClient = stand.node.connect("shop").await.unwrap();
        clerk.fill(40).await.unwrap();
        let exports = soon(stand.node.exports_of("shop")).await.unwrap();
        let shape = exports[0].shape().unwrap();
        for (path, value) in [
            ("limit", "Some(40)"),
            ("limit?", "40"),
            ("best?.size", "41"),
            ("levels", "[0, 40, 2, 3]"),
            ("levels[1]", "40"),
            ("rows[1].size", "41"),
            ("prices[\"GBP\"].size", "7"),
            ("counts[-1]", "5"),
            ("history[19].size", "19"),
            ("nested[2][99]", "99"),
            ("nested[0]", "[1, 2, 3]"),
            ("head*.next*.number", "42"),
            ("entries[4].next", "null"),
        ] {
            let selection = shape.resolve(path).unwrap();
            assert_eq!(exports[0].read(&selection).await.unwrap().to_string(), value, "{path}");
        }
        for (path, error) in [
            ("rows[3]", ReadError::Index { index: 3 }),
            ("history[20]", ReadError::Index { index: 20 }),
            ("prices[\"USD\"].bid", ReadError::Nothing),
            ("entries[4].next*", ReadError::Nothing),
        ] {
            let selection = shape.resolve(path).unwrap();
            assert_eq!(exports[0].read(&selection).await.err(), Some(error), "{path}");
        }
        let whole = exports[0].read(&shape.resolve("").unwrap()).await.unwrap().to_string();
        assert!(whole.contains("counts: {") && whole.contains("limit: Some(40)"), "{whole}");
    });
}
