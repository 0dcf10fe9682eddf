//! Every form of an argument by reference, in every form of a call.

use crate::common::{Directory, Watchdog, node};
use crate::references::service::{Order, Reading, StoreClient, StoreHandle, digest_of, owned};
use crate::references::{name, with_each};
use std::time::Duration;
use upbeat::client::Client;
use upbeat::error::Called;
use upbeat::{CallError, Waiting};

fn block() -> [u8; 1024] {
    std::array::from_fn(|at| (at * at / 7) as u8)
}

fn reading(at: u64) -> Reading {
    Reading { at, values: [at as f32; 6] }
}

fn order(count: u32) -> Order {
    Order { item: "nails".into(), count }
}

#[test]
fn a_client_passes_what_it_has() {
    let _watchdog = Watchdog::new("references of a client");
    with_each(|node, place| {
        node.block_on(async {
            let store: StoreClient = node.connect(&name("store", &place)).await.unwrap();
            let (words, readings) = (["a".to_owned(), "bc".to_owned()], [reading(1), reading(3)]);
            for length in [0_usize, 1, 30, 100, 1000, 5000, 70_000, 300_000, 3, 70_000] {
                let (key, value) = ("k".repeat(length % 977), vec![1; length]);
                let sum = key.len() * 1_000_000 + length;
                assert_eq!(store.put(&key, &value).await, Ok(sum as u64), "{length} bytes");
            }
            assert_eq!(store.digest(&block()).await, Ok(digest_of(&block())));
            assert_eq!(store.place(&order(3)).await, Ok(3));
            assert_eq!(store.place(&order(0)).await, Err(CallError::Method("no nails".into())));
            assert_eq!(store.mean(&readings, &reading(2), 2.0).await, Ok(4.0));
            assert_eq!(store.join(&words, "–").await.as_deref(), Ok("a–bc"));
            assert_eq!(store.join(&[], "").await.as_deref(), Ok(""));
            // A call borrows its arguments only until it ends.
            let mut value = vec![1; 4];
            for _ in 0..3 {
                store.put("", &value).await.unwrap();
                value.push(1);
            }
            let call = store.put("", &value).deadline(Duration::from_secs(10)).try_send().unwrap();
            assert_eq!(call.await, Ok(7));
        });
    });
}

#[test]
fn a_handle_passes_what_it_has() {
    let _watchdog = Watchdog::new("references of a handle");
    with_each(|node, place| {
        let store = name("store", &place);
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM).directory(place);
        let store: StoreHandle = builder.connect(&store).unwrap();
        let blocking = store.blocking();
        let long = vec![1; 100_000];
        assert_eq!(blocking.put("key", &long), Ok(3_100_000));
        assert_eq!(blocking.digest(&block()), Ok(digest_of(&block())));
        assert_eq!(blocking.place(&order(0)), Err(CallError::Method("no nails".into())));
        assert_eq!(blocking.guarded("four"), Ok(4));
        blocking.note("blocking").unwrap();
        node.block_on(async {
            assert_eq!(store.put("key", &long).await, Ok(3_100_000));
            assert_eq!(store.place(&order(4)).await, Ok(4));
            store.note("awaited").await.unwrap();
            // Each session tells what came over it.
            assert!(store.noted().await.unwrap().contains(&"awaited".to_owned()));
        });
        assert!(blocking.noted().unwrap().contains(&"blocking".to_owned()));
    });
}

#[test]
fn results_go_into_values_of_their_callers() {
    let _watchdog = Watchdog::new("results in values");
    assert_ne!(digest_of(&block()), [0; 32]);
    with_each(|node, place| {
        let (before, readings) = (reading(9), [reading(1), reading(3)]);
        let none = Err(CallError::Method("none".to_owned()));
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM).directory(&place);
        let handle: StoreHandle = builder.connect(&name("store", &place)).unwrap();
        let (mut digest, mut last) = ([0; 32], before);
        let blocking = handle.blocking();
        assert_eq!(blocking.filling(&mut digest).digest(&block()), Ok(()));
        assert_eq!(digest, digest_of(&block()));
        assert_eq!(blocking.filling(&mut last).last(&[]), none);
        assert_eq!(last, before);
        assert_eq!(blocking.filling(&mut last).last(&readings), Ok(()));
        assert_eq!(last, readings[1]);
        node.block_on(async {
            let store: StoreClient = node.connect(&name("store", &place)).await.unwrap();
            let (mut digest, mut last) = ([0; 32], before);
            assert_eq!(store.digest(&block()).into(&mut digest).await, Ok(()));
            assert_eq!(digest, digest_of(&block()));
            assert_eq!(store.last(&[]).into(&mut last).await, none);
            // A dropped call has left the buffer as it was, too.
            drop(store.last(&readings).try_send().unwrap().into(&mut last));
            assert_eq!(last, before);
            assert_eq!(store.last(&readings[..1]).into(&mut last).await, Ok(()));
            assert_eq!(last, readings[0]);
            assert_eq!(handle.last(&readings).into(&mut last).await, Ok(()));
            assert_eq!(last, readings[1]);
        });
    });
}

#[test]
fn messages_that_are_sent_again_and_that_nobody_answers() {
    let _watchdog = Watchdog::new("references in other calls");
    with_each(|node, place| {
        node.block_on(async {
            let store: StoreClient = node.connect(&name("store", &place)).await.unwrap();
            for word in ["one", "two"] {
                store.note(word).await.unwrap();
            }
            store.note("three").try_send().unwrap();
            assert_eq!(store.noted().await.unwrap(), ["one", "two", "three"]);
            let other = store.clone();
            let closed = node.spawn(async move { other.close().await });
            // The request is sent back while the gate is closed, and sent again from the same text.
            let text = "guarded".to_owned();
            let guarded = store.guarded(&text).try_send().unwrap();
            store.open().await.unwrap();
            assert_eq!(guarded.await, Ok(7));
            closed.await.unwrap().unwrap();
        });
    });
}

#[test]
fn handlers_that_wait_keep_what_they_were_given() {
    let _watchdog = Watchdog::new("references of handlers that wait");
    with_each(|node, place| {
        node.block_on(async {
            let store: StoreClient = node.connect(&name("store", &place)).await.unwrap();
            let other = store.clone();
            let closed = node.spawn(async move { other.close().await });
            crate::common::yield_now().await;
            let texts: Vec<String> = (0..8).map(|at| format!("text {at}")).collect();
            let blocks: Vec<[u8; 16]> = (0..8).map(|at| [at; 16]).collect();
            let bytes = [0; 200];
            let calls = texts.iter().zip(&blocks).enumerate().map(|(at, (text, block))| {
                store.wait(text, block, &bytes[..25 * at]).try_send().unwrap()
            });
            let calls: Vec<_> = calls.collect();
            // Some are given up, and their memory with them.
            let mut kept = Vec::new();
            for (at, call) in calls.into_iter().enumerate() {
                if at % 4 != 1 {
                    kept.push((at, call));
                }
            }
            store.open().await.unwrap();
            for (at, call) in kept {
                assert_eq!(call.await, Ok(format!("text {at} {at} {}", 25 * at)));
            }
            closed.await.unwrap().unwrap();
            let last = store.wait("last", &[7; 16], &[]).await;
            assert_eq!(last.as_deref(), Ok("last 7 0"));
        });
    });
}

#[test]
fn a_reference_is_on_the_wire_what_owns_the_same() {
    let _watchdog = Watchdog::new("references and values");
    let of = |signatures: &[upbeat::wire::Signature]| {
        let named = signatures.iter().map(|one| (one.name().to_owned(), format!("{one:?}")));
        named.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (borrows, owns) = (of(StoreClient::signatures()), of(owned::StoreClient::signatures()));
    for (name, owned) in owns {
        assert_eq!(borrows[&name], owned);
    }
    // A caller that owns what it passes, and a callee that takes references.
    with_each(|node, place| {
        node.block_on(async {
            let store: owned::StoreClient = node.connect(&name("store", &place)).await.unwrap();
            assert_eq!(store.put("key".into(), vec![1, 2]).await, Ok(3_000_003));
            assert_eq!(store.digest(block()).await, Ok(digest_of(&block())));
            assert_eq!(store.place(order(5)).await, Ok(5));
            assert_eq!(store.mean(vec![reading(1)], reading(3), 1.0).await, Ok(2.0));
            let words = vec!["a".into(), "b".into()];
            assert_eq!(store.join(words, "+".into()).await.as_deref(), Ok("a+b"));
            assert_eq!(store.guarded("four".into()).await, Ok(4));
            store.note("owned".into()).await.unwrap();
            assert_eq!(store.noted().await.unwrap(), ["owned"]);
        });
    });
    // The other way round.
    let directory = Directory::new();
    let node = node("owner", &directory.path(), Waiting::Adaptive);
    node.serve(owned::StoreServer::new(owned::Echo)).unwrap();
    let callee = std::thread::scope(|scope| {
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM);
        let builder = builder.directory(directory.path());
        let done = crate::common::Signal::default();
        let ended = done.clone();
        let caller = scope.spawn(move || {
            let store: Result<StoreHandle, _> = builder.connect("owner");
            let store = store.unwrap();
            let put = store.blocking().put("key", &[1; 9]);
            let digest = store.blocking().digest(&block());
            let missing = store.blocking().open();
            ended.give();
            (put, digest, missing)
        });
        node.block_on(done);
        caller.join().unwrap()
    });
    assert_eq!(callee.0, Ok(12));
    assert_eq!(callee.1, Ok(digest_of(&block())));
    assert_eq!(
        callee.2,
        Err(CallError::NoSuchMethod { method: "open", called: Called::default() })
    );
}
