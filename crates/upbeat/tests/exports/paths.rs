//! Pointers that were read elsewhere.

use crate::common::{Directory, PROGRAM, SOON, Watchdog, node, soon};
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
                // A pointer within a value, of which one was read by a call, and one in a snapshot.
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
