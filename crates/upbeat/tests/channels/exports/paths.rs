//! Pointers that were read elsewhere, and paths of the owner that are kept while entries come and go.

use crate::common::{Directory, PROGRAM, SOON, Watchdog, node, soon};
use crate::exports::Row;
use std::panic::{AssertUnwindSafe, catch_unwind};
use upbeat::export::{Export, ExportError, FixedMap, FixedVec, ReadError, Ref};
use upbeat::{Node, Shared, Waiting};

#[derive(Clone, Debug, PartialEq, Shared)]
struct Chain {
    head: Ref<Link>,
    links: [Link; 3],
    few: FixedVec<Link, 2>,
    named: FixedMap<u32, Link, 2>,
    last: Option<Link>,
    many: Vec<Link>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Shared)]
struct Link {
    number: u64,
    next: Ref<Link>,
}

impl Link {
    fn of(number: u64) -> Link {
        Link { number, next: Ref::null() }
    }
}

impl Chain {
    fn of(number: u64) -> Chain {
        Chain {
            head: Ref::null(),
            links: std::array::from_fn(|index| Link::of(number + index as u64)),
            few: FixedVec::new(),
            named: FixedMap::new(),
            last: None,
            many: Vec::new(),
        }
    }
}

/// Exports a chain whose head leads to its second link, and that one to the third.
fn chain(owner: &Node, name: &str, number: u64) -> Export<Chain> {
    let chain = owner.export(name, Chain::of(number)).unwrap();
    chain.head().point_to(&chain.links().index(1));
    chain.links().index(1).next().point_to(&chain.links().index(2));
    chain
}

fn panics<R>(act: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).map(drop).unwrap_err();
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).into(),
    }
}

#[test]
fn a_pointer_is_followed_in_its_own_export_alone() {
    let _watchdog = Watchdog::new("pointers of other exports");
    let directory = Directory::new();
    let owner = node("owner/pointers", &directory.path(), Waiting::Adaptive);
    let (first, _second) = (chain(&owner, "first", 10), chain(&owner, "second", 20));
    // The exports that are made meanwhile have other numbers.
    let built = owner.export_with::<Chain>("built", |chain| {
        drop(owner.export("within", 7_u64).unwrap());
        chain.links().index(2).number().set(32);
        chain.head().point_to(&chain.links().index(2));
        let pointer = chain.head().get();
        chain.links().index(2).next().set(pointer);
    });
    let _built = built.unwrap();
    let place = directory.path();
    let reader = std::thread::spawn(move || {
        for shares in [true, false] {
            let builder = Node::builder(&format!("reader/pointers/{shares}")).program(PROGRAM);
            let node = builder.directory(&place).shared_memory(shares).build().unwrap();
            node.block_on(async {
                let of = async |name: &str| {
                    let name = format!("owner/pointers/{name}");
                    soon(node.import::<Chain>(&name)).await.unwrap()
                };
                let (first, second, built) =
                    (of("first").await, of("second").await, of("built").await);
                let pointer = soon(first.head().read_pointer()).await.unwrap();
                assert_eq!(soon(first.follow(pointer).number().read()).await, Ok(11));
                assert_eq!(soon(first.clone().follow(pointer).number().read()).await, Ok(11));
                assert_eq!(soon(of("first").await.follow(pointer).number().read()).await, Ok(11));
                let other = Err(ReadError::OtherExport);
                assert_eq!(soon(second.follow(pointer).number().read()).await, other);
                assert_eq!(second.follow(pointer).number().try_read(), other);
                assert_eq!(
                    soon(second.follow(pointer).next().target().number().read()).await,
                    other
                );
                assert_eq!(soon(second.follow(pointer).number().watch().changed()).await, other);
                // The reader reads a pointer alone, a value that holds pointers, and a pointer in a snapshot.
                let link = soon(first.links().index(1).read()).await.unwrap();
                let whole = soon(first.whole().read()).await.unwrap();
                let taken = soon(first.snapshot(async |of| of.links().index(1).read().await)).await;
                for next in [link.next, whole.links[1].next, taken.unwrap().next] {
                    assert_eq!(soon(first.follow(next).number().read()).await, Ok(12));
                    assert_eq!(soon(second.follow(next).number().read()).await, other);
                }
                let theirs = soon(second.links().index(1).next().read_pointer()).await.unwrap();
                assert_ne!(theirs, link.next, "they are in the same place of two exports");
                let built_at = soon(built.head().read_pointer()).await.unwrap();
                assert_eq!(soon(built.follow(built_at).number().read()).await, Ok(32));
                assert_eq!(
                    soon(built.head().target().next().target().number().read()).await,
                    Ok(32)
                );
                assert_eq!(soon(first.follow(built_at).number().read()).await, other);
                let nothing = soon(second.follow(Ref::<Link>::null()).read()).await;
                assert_eq!(nothing.map(drop), Err(ReadError::Nothing));
            });
            node.shut_down(SOON);
        }
    });
    owner.block_on(async {
        while !reader.is_finished() {
            upbeat::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    reader.join().unwrap();
    drop(first);
}

#[test]
fn an_owner_stores_no_pointer_into_another_export() {
    let directory = Directory::new();
    let owner = node("owner/stores", &directory.path(), Waiting::Adaptive);
    let (first, second) = (chain(&owner, "first", 10), chain(&owner, "second", 20));
    let (before, link) = (second.whole().get(), first.links().index(1).get());
    let refused = |text: String| assert!(text.contains("a pointer into another export"), "{text}");
    refused(panics(|| second.head().set(first.head().get())));
    refused(panics(|| second.whole().set(first.whole().get())));
    refused(panics(|| second.links().set_each(|_| link)));
    refused(panics(|| second.few().push(link)));
    refused(panics(|| second.named().insert(&1, link)));
    refused(panics(|| second.last().set(Some(link))));
    refused(panics(|| second.many().set(vec![Link::of(1), link])));
    assert!(matches!(second.many().push(link), Err(ExportError::OtherExport)));
    assert_eq!(second.whole().get(), before, "nothing of a change was done");
    let third = owner.export("third", first.whole().get()).map(drop);
    assert!(matches!(third, Err(ExportError::OtherExport)));
    // Its own pointers, and those to nothing, are stored. They hold when the export moves.
    first.whole().set(first.whole().get());
    first.few().push(link).unwrap();
    second.head().set(Ref::null());
    let pointer = first.head().get();
    for number in 0..2000 {
        first.many().push(Link { number, next: pointer }).unwrap();
    }
    assert_eq!(first.head().get(), pointer);
    assert_eq!(first.many().index(1999).next().target().number().get(), 11);
}

#[derive(Clone, Debug, Shared)]
struct Book {
    rows: FixedMap<u32, Row, 4>,
    one: FixedMap<u32, u64, 1>,
    nested: FixedMap<u32, FixedMap<u32, u64, 2>, 3>,
    limit: Option<u64>,
    best: Option<Row>,
    levels: FixedVec<u16, 3>,
    history: Vec<Row>,
    spare: Vec<Option<u64>>,
    favourite: u8,
    numbers: [u32; 4],
    head: Ref<Row>,
    stock: [Row; 2],
    ranked: FixedMap<u32, Ranked, 2>,
}

/// Numbers, and the index of the best of them.
#[derive(Clone, Copy, Debug, PartialEq, Shared)]
struct Ranked {
    best: u8,
    bids: [u32; 4],
    rows: [Row; 2],
    /// An option, whose value is behind a further step.
    last: Option<[u16; 3]>,
}

impl Ranked {
    fn of(best: u8) -> Ranked {
        let rows = [Row::of(best.into()); 2];
        Ranked { best, bids: [best.into(); 4], rows, last: Some([best.into(); 3]) }
    }
}

impl Book {
    fn new() -> Book {
        Book {
            rows: FixedMap::new(),
            one: FixedMap::new(),
            nested: FixedMap::new(),
            limit: Some(1),
            best: Some(Row::of(1)),
            levels: FixedVec::of(vec![1, 2]).unwrap(),
            history: vec![Row::of(1)],
            spare: vec![None, Some(2)],
            favourite: 1,
            numbers: [0; 4],
            head: Ref::null(),
            stock: [Row::of(1), Row::of(2)],
            ranked: FixedMap::new(),
        }
    }
}

/// Creates an owner in this process, and its export.
fn book(name: &str) -> (Node, Export<Book>, Directory) {
    let directory = Directory::new();
    let owner = node(&format!("owner/{name}"), &directory.path(), Waiting::Adaptive);
    let book = owner.export("book", Book::new()).unwrap();
    (owner, book, directory)
}

#[test]
fn a_kept_path_to_an_entry_writes_no_other_entry() {
    let (_owner, book, _directory) = book("entries");
    book.one().insert(&1, 10).unwrap();
    let one = book.one().entry(&1);
    let nothing = |text: String| assert!(text.contains("leads to nothing"), "{text}");
    one.set(11);
    assert!(book.one().remove(&1));
    nothing(panics(|| one.set(12)));
    book.one().insert(&2, 20).unwrap();
    nothing(panics(|| one.set(13)));
    nothing(panics(|| one.get()));
    assert_eq!(book.one().entry(&2).get(), 20);
    assert!(book.one().remove(&2));
    book.one().insert(&1, 14).unwrap();
    one.set(15);
    assert_eq!(book.one().entry(&1).get(), 15);

    // The entries lie in other slots afterwards, and each path finds its own.
    let keys = [1, 2, 3, 4];
    keys.iter().for_each(|key| book.rows().insert(key, Row::of(*key)).unwrap());
    let map = book.rows();
    let paths = keys.map(|key| map.entry(&key));
    keys.iter().for_each(|key| assert!(map.remove(key)));
    keys.iter().rev().for_each(|key| map.insert(key, Row::of(10 + key)).unwrap());
    for (key, path) in keys.iter().zip(&paths) {
        assert_eq!(path.get(), Row::of(10 + key));
        path.size().set(20 + key);
        path.update(|row| row.bid().set(f64::from(30 + key)));
    }
    for key in keys {
        let row = map.entry(&key).get();
        assert_eq!((row.bid, row.size), (f64::from(30 + key), 20 + key));
    }
    let mut others = FixedMap::new();
    others.insert(5, Row::of(5)).unwrap();
    map.set(others);
    paths.iter().for_each(|path| nothing(panics(|| path.size().set(6))));
    assert_eq!(map.entry(&5).get(), Row::of(5));
}

#[test]
fn a_kept_path_through_two_maps_writes_no_other_entry() {
    let (owner, book, _directory) = book("nested");
    let import = owner.block_on(soon(owner.import::<Book>("owner/nested/book"))).unwrap();
    for key in [1, 2, 3] {
        book.nested().insert(&key, FixedMap::new()).unwrap();
        book.nested().entry(&key).insert(&7, u64::from(key)).unwrap();
    }
    let maps = book.nested();
    let inner = [1, 2, 3].map(|key| maps.entry(&key));
    let numbers = inner.each_ref().map(|map| map.entry(&7));
    [1, 2, 3].iter().for_each(|key| assert!(maps.remove(key)));
    for key in [3, 2] {
        maps.insert(&key, FixedMap::new()).unwrap();
        maps.entry(&key).insert(&7, 0).unwrap();
    }
    assert!(panics(|| numbers[0].set(9)).contains("leads to nothing"));
    assert!(panics(|| inner[0].insert(&8, 9)).contains("leads to nothing"));
    numbers[1].set(22);
    numbers[2].set(33);
    inner[2].insert(&8, 34).unwrap();
    owner.block_on(async {
        for (key, number) in [(2, 22), (3, 33)] {
            let entry = import.nested().entry(&key).entry(&7);
            assert_eq!(soon(entry.read()).await, Ok(number));
        }
        assert_eq!(soon(import.nested().entry(&3).entry(&8).read()).await, Ok(34));
        assert_eq!(soon(import.nested().entry(&3).length().read()).await, Ok(2));
        let gone = soon(import.nested().entry(&1).length().read()).await;
        assert_eq!(gone, Err(ReadError::Nothing));
    });
}

#[test]
fn a_kept_path_to_what_is_gone_is_an_error_until_it_is_back() {
    let (_owner, book, _directory) = book("gone");
    let (limit, size) = (book.limit(), book.best());
    let (limit, size) = (limit.some(), size.some());
    let size = size.size();
    let (levels, history, spare) = (book.levels(), book.history(), book.spare());
    let (level, row, number) = (levels.index(1), history.index(0), spare.index(1));
    let number = number.some();
    book.limit().set(None);
    book.best().set(None);
    levels.pop();
    history.clear();
    spare.index(1).set(None);
    let nothing = |text: String| assert!(text.contains("leads to nothing"), "{text}");
    nothing(panics(|| limit.set(2)));
    nothing(panics(|| size.set(2)));
    nothing(panics(|| number.set(2)));
    assert!(panics(|| level.set(2)).contains("the index 1 is out of range"));
    assert!(panics(|| row.size().set(2)).contains("the index 0 is out of range"));
    book.limit().set(Some(3));
    book.best().set(Some(Row::of(3)));
    levels.push(3).unwrap();
    history.push(Row::of(3)).unwrap();
    spare.pop();
    assert!(panics(|| number.set(2)).contains("the index 1 is out of range"));
    spare.push(Some(3)).unwrap();
    limit.set(4);
    size.set(4);
    level.set(4);
    row.size().set(4);
    number.set(4);
    assert_eq!(book.limit().get(), Some(4));
    assert_eq!(book.best().get(), Some(Row { size: 4, ..Row::of(3) }));
    assert_eq!(levels.get()[..], [1, 4]);
    assert_eq!(history.get(), [Row { size: 4, ..Row::of(3) }]);
    assert_eq!(spare.get(), [None, Some(4)]);
}

/// A pointer and an index that lies in the export are followed once.
#[test]
fn a_kept_path_behind_a_pointer_stays_where_it_is() {
    let (_owner, book, _directory) = book("stays");
    book.head().point_to(&book.stock().index(0));
    let head = book.head();
    let first = head.target();
    book.head().point_to(&book.stock().index(1));
    first.size().set(7);
    let numbers = book.numbers();
    let favourite = book.favourite();
    let second = numbers.index_at(&favourite);
    book.favourite().set(3);
    second.set(8);
    assert_eq!(book.stock().get(), [Row { size: 7, ..Row::of(1) }, Row::of(2)]);
    assert_eq!(numbers.get(), [0, 8, 0, 0]);
}

/// The index is looked up once, and the array in the entry at each use.
#[test]
fn an_element_of_an_entry_stays_in_the_entry_when_that_moves() {
    let (_owner, book, _directory) = book("elements");
    let ranked = book.ranked();
    for other in 2..20 {
        // In one of these turns, the other key takes the slot of the first one.
        let exchange = || {
            ranked.remove(&1);
            ranked.remove(&other);
            ranked.insert(&other, Ranked::of(0)).unwrap();
            ranked.insert(&1, Ranked::of(1)).unwrap();
        };
        ranked.insert(&1, Ranked::of(1)).unwrap();
        let kept = ranked.entry(&1);
        let before = (kept.bids(), kept.best());
        let made_before = before.0.index_at(&before.1);
        exchange();
        let is_alone = |expected: Ranked| {
            assert_eq!(ranked.entry(&1).get(), expected, "beside {other}");
            assert_eq!(ranked.entry(&other).get(), Ranked::of(0));
        };
        let bids = kept.bids();
        let (bid, again) = (bids.index_at(&kept.best()), ranked.entry(&1));
        bid.set(7);
        is_alone(Ranked { bids: [1, 7, 1, 1], ..Ranked::of(1) });
        made_before.set(8);
        is_alone(Ranked { bids: [1, 8, 1, 1], ..Ranked::of(1) });
        // The index and the array were led to before and after the exchange.
        bids.index_at(&again.best()).set(9);
        is_alone(Ranked { bids: [1, 9, 1, 1], ..Ranked::of(1) });
        kept.rows().index_at(&kept.best()).size().set(6);
        let rows = [Row::of(1), Row { size: 6, ..Row::of(1) }];
        is_alone(Ranked { bids: [1, 9, 1, 1], rows, ..Ranked::of(1) });
        kept.last().some().index(2).set(5);
        let last = Some([1, 1, 5]);
        is_alone(Ranked { bids: [1, 9, 1, 1], rows, last, ..Ranked::of(1) });
        exchange();
        bid.set(4);
        is_alone(Ranked { bids: [1, 4, 1, 1], ..Ranked::of(1) });
        ranked.remove(&other);
    }
}

#[test]
fn a_path_that_was_made_before_its_value_leads_there_afterwards() {
    let (owner, book, _directory) = book("absent");
    let import = owner.block_on(soon(owner.import::<Book>("owner/absent/book"))).unwrap();
    book.limit().set(None);
    book.best().set(None);
    book.levels().clear();
    book.history().clear();
    let (limit, best, levels, history, spare) =
        (book.limit(), book.best(), book.levels(), book.history(), book.spare());
    let (one, nested, ranked) = (book.one(), book.nested(), book.ranked());
    let (limit, size, one) = (limit.some(), best.some(), one.entry(&1));
    let (level, row, number) = (levels.index(2), history.index(1), spare.index(0));
    let (inner, entry) = (nested.entry(&1), ranked.entry(&1));
    let (size, number, inner, bid) = (size.size(), number.some(), inner.entry(&2), entry.bids());
    let (bid, last) = (bid.index(2), entry.last());
    let last = last.some();
    let last = last.index(1);
    for text in [
        panics(|| limit.set(1)),
        panics(|| size.set(1)),
        panics(|| one.set(1)),
        panics(|| inner.set(1)),
        panics(|| bid.set(1)),
        panics(|| number.set(1)),
    ] {
        assert!(text.contains("leads to nothing"), "{text}");
    }
    assert!(panics(|| level.set(1)).contains("the index 2 is out of range"));
    assert!(panics(|| row.size().set(1)).contains("the index 1 is out of range"));
    let levels = FixedVec::of(vec![1, 2, 3]).unwrap();
    book.limit().set(Some(0));
    book.best().set(Some(Row::of(0)));
    book.levels().set(levels);
    (0..2).for_each(|number| book.history().push(Row::of(number)).unwrap());
    book.spare().index(0).set(Some(0));
    book.one().insert(&1, 0).unwrap();
    book.nested().insert(&1, FixedMap::new()).unwrap();
    book.nested().entry(&1).insert(&2, 0).unwrap();
    book.ranked().insert(&1, Ranked::of(1)).unwrap();
    limit.set(11);
    size.set(12);
    one.set(13);
    inner.set(14);
    bid.set(15);
    level.set(16);
    row.size().set(17);
    number.set(18);
    last.set(19);
    owner.block_on(async {
        let read = soon(import.whole().read()).await.unwrap();
        let best = (read.limit, read.best, read.one.get(&1));
        assert_eq!(best, (Some(11), Some(Row { size: 12, ..Row::of(0) }), Some(&13)));
        assert_eq!(read.nested.get(&1).unwrap().get(&2), Some(&14));
        let (bids, last) = ([1, 1, 15, 1], Some([1, 19, 1]));
        assert_eq!(read.ranked.get(&1), Some(&Ranked { bids, last, ..Ranked::of(1) }));
        assert_eq!(read.levels[..], [1, 2, 16]);
        assert_eq!(read.history[1], Row { size: 17, ..Row::of(1) });
        assert_eq!(read.spare, [Some(18), Some(2)]);
    });
}

#[test]
fn a_kept_path_under_a_guard_writes_no_other_entry() {
    let directory = Directory::new();
    let owner = node("owner/guarded", &directory.path(), Waiting::Adaptive);
    let book = owner.export_guarded("book", Book::new()).unwrap();
    let held = book.try_lock().unwrap();
    held.one().insert(&1, 10).unwrap();
    let one = held.one().entry(&1);
    assert!(held.one().remove(&1));
    held.one().insert(&2, 20).unwrap();
    assert!(panics(|| one.set(11)).contains("leads to nothing"));
    assert_eq!(held.one().entry(&2).get(), 20);
}
