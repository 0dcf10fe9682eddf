//! Imports in any thread, with a node and without one.

use crate::common::{PROGRAM, Watchdog, block_on, soon};
use crate::exports::{DeskClient, Quotes, Row, Stand};
use upbeat::Import;
use upbeat::export::{ImportError, ReadError};

/// Imports without a node.
fn imported(stand: &Stand, name: &str) -> Result<Import<Quotes>, ImportError> {
    let builder = upbeat::handle::builder().program(PROGRAM).directory(stand.directory());
    block_on(builder.import(name))
}

fn sendable<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn an_export_is_imported_without_a_node() {
    let _watchdog = Watchdog::new("an import without a node");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        let quotes = imported(&stand, "prices/quotes").unwrap();
        let wanted = Quotes::of(1);
        assert_eq!(block_on(quotes.whole().read()), Ok(wanted.clone()), "{part}");
        assert_eq!(block_on(sendable(quotes.book().index(3).read())), Ok(Row::of(4)), "{part}");
        let both = quotes.snapshot(async |of| {
            let count = of.count().read().await?;
            Ok((count, of.open().read().await?))
        });
        // A task of any runtime may await it.
        let both = sendable(both);
        assert_eq!(block_on(both), Ok((wanted.count, wanted.open)), "{part}");
        let error = imported(&stand, "prices/none").err().unwrap();
        assert!(matches!(error, ImportError::NoExport { .. }), "{error}");
        let error = imported(&stand, "prices").err().unwrap();
        assert!(matches!(error, ImportError::Name { .. }), "{error}");
    }
}

/// A node's import calls by the node on the node's thread, and by a handle elsewhere.
#[test]
fn an_import_of_a_node_calls_in_every_thread() {
    let _watchdog = Watchdog::new("an import in threads");
    let stand = Stand::new("apart");
    let quotes = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    let wanted = Quotes::of(1);
    stand.node.block_on(async {
        assert_eq!(soon(quotes.whole().read()).await, Ok(wanted.clone()));
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (quotes, wanted) = (quotes.clone(), wanted.clone());
            scope.spawn(move || assert_eq!(block_on(quotes.whole().read()), Ok(wanted)));
        }
    });
    // An import that another thread drops leaves the others of the node's thread.
    let other = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(other));
    });
    let again = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    stand.node.block_on(async {
        for quotes in [&quotes, &again] {
            assert_eq!(soon(quotes.count().read()).await, Ok(wanted.count));
        }
    });
}

#[test]
fn an_import_outlives_its_node() {
    let _watchdog = Watchdog::new("an import without its node");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        let node = crate::exports::node("short/1", &stand.directory(), upbeat::Waiting::Adaptive);
        let quotes = node.block_on(node.import::<Quotes>("prices/quotes")).unwrap();
        node.shut_down(crate::exports::SOON);
        drop(node);
        assert_eq!(block_on(quotes.count().read()), Ok(Quotes::of(1).count), "{part}");
        stand.node.block_on(async {
            // Another node of the same thread drives now.
            assert_eq!(soon(quotes.book().index(1).read()).await, Ok(Row::of(2)), "{part}");
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            desk.withdraw().await.unwrap();
            assert_eq!(soon(quotes.count().read()).await, Err(ReadError::Ended), "{part}");
        });
    }
}

/// A read that has begun on the thread of its node ends in any other, and one that is dropped there leaves nothing behind.
#[test]
fn a_read_moves_to_another_thread() {
    let _watchdog = Watchdog::new("a read that moves");
    let stand = Stand::new("apart");
    let quotes = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    let (count, open) = (quotes.count(), quotes.open());
    let (mut moved, mut dropped) = (Box::pin(count.read()), Box::pin(open.read()));
    stand.node.block_on(std::future::poll_fn(|context| {
        assert!(moved.as_mut().poll(context).is_pending());
        assert!(dropped.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    }));
    std::thread::scope(|scope| {
        scope.spawn(move || drop(dropped));
        scope.spawn(move || assert_eq!(block_on(moved), Ok(Quotes::of(1).count)));
    });
    stand.node.block_on(async {
        assert_eq!(soon(quotes.count().read()).await, Ok(Quotes::of(1).count));
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        desk.put(2).await.unwrap();
        assert_eq!(soon(quotes.count().read()).await, Ok(Quotes::of(2).count));
    });
}
