//! The promise of an owner: whole values, a whole export, or whole numbers.

use crate::common::{Watchdog, soon};
use crate::exports::{DeskClient, Row, Stand, Stock};
use std::time::Duration;
use upbeat::export::ReadError;

#[test]
fn a_guarded_export_shows_nothing_of_an_update_under_way() {
    let _watchdog = Watchdog::new("an update under way");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            let theirs = desk.clone();
            let update = stand.node.spawn(async move { theirs.restock_slowly(2).await });
            // The owner answers while the update waits.
            desk.put(1).await.unwrap();
            assert_eq!(soon(stock.whole().read()).await, Ok(Stock::of(1)), "{part}");
            assert_eq!(soon(stock.bought().read()).await, Ok(1), "{part}");
            desk.go_on().await.unwrap();
            soon(update).await.unwrap().unwrap();
            assert_eq!(soon(stock.whole().read()).await, Ok(Stock::of(2)), "{part}");
            // The next update begins with the words that its copy lacks.
            for number in 3..6 {
                desk.restock(number, 0).await.unwrap();
                assert_eq!(soon(stock.whole().read()).await, Ok(Stock::of(number)), "{part}");
            }
        });
    }
}

#[test]
fn what_is_discarded_or_panics_is_undone() {
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("undone", &directory.path(), upbeat::Waiting::Adaptive);
    let stock = node.export_guarded("stock", Stock::of(1)).unwrap();
    node.block_on(async {
        let read = soon(node.import::<Stock>("undone/stock")).await.unwrap();
        let held = stock.lock().await;
        held.whole().set(Stock::of(7));
        assert_eq!(held.whole().get(), Stock::of(7), "the holder sees its own changes");
        assert!(stock.try_lock().is_none(), "somebody has the lock");
        held.discard();
        assert_eq!(soon(read.whole().read()).await, Ok(Stock::of(1)));
        let theirs = std::panic::AssertUnwindSafe(|| {
            let held = stock.try_lock().unwrap();
            held.rows().index(3).bid().set(9.0);
            panic!("an expected panic");
        });
        std::panic::catch_unwind(theirs).unwrap_err();
        assert_eq!(soon(read.whole().read()).await, Ok(Stock::of(1)));
        // More changes than an owner notes one by one.
        let held = stock.lock().await;
        for index in 0..50 {
            held.rows().index(index).bid().set(2.0);
            held.rows().index(index).ask().set(2.5);
        }
        held.bought().set(2);
        drop(held);
        drop(stock.lock().await);
        let found = soon(read.whole().read()).await.unwrap();
        assert_eq!(found.rows, [Row { bid: 2.0, ask: 2.5, size: 1 }; 50]);
        assert_eq!((found.bought, found.sold), (2, 1));
    });
}

/// The owner answers calls in the middle of an update, whose closure drives its node.
#[test]
fn an_update_that_drives_its_node_is_found_whole() {
    let _watchdog = Watchdog::new("an update that drives its node");
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("driven", &directory.path(), upbeat::Waiting::Adaptive);
    let row = node.export("row", Row::of(1)).unwrap();
    let import = node.block_on(soon(node.import::<Row>("driven/row"))).unwrap();
    let read = row.whole().update(|parts| {
        parts.bid().set(2.0);
        let read = node.spawn(async move { import.whole().read().await });
        node.block_on(upbeat::sleep(Duration::from_millis(20)));
        parts.ask().set(2.5);
        parts.size().set(2);
        read
    });
    assert_eq!(node.block_on(soon(read)).unwrap(), Ok(Row::of(2)));
}

/// The closure of an update that panics ends it where it is. Only a guard undoes it.
#[test]
fn an_update_that_panics_keeps_what_it_has_set() {
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("halves", &directory.path(), upbeat::Waiting::Adaptive);
    let row = node.export("row", Row::of(1)).unwrap();
    let import = node.block_on(soon(node.import::<Row>("halves/row"))).unwrap();
    let update = std::panic::AssertUnwindSafe(|| {
        row.whole().update(|parts| {
            parts.bid().set(2.0);
            panic!("an expected panic");
        });
    });
    std::panic::catch_unwind(update).unwrap_err();
    let found = node.block_on(soon(import.whole().read()));
    assert_eq!(found, Ok(Row { bid: 2.0, ..Row::of(1) }));
    row.whole().set(Row::of(3));
    assert_eq!(node.block_on(soon(import.whole().read())), Ok(Row::of(3)));
}

#[test]
fn a_raw_export_has_its_numbers() {
    let _watchdog = Watchdog::new("a raw export");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let raw = soon(stand.node.import::<Row>("prices/raw")).await.unwrap();
            assert_eq!(soon(raw.bid().read()).await, Ok(1.0));
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            desk.put(5).await.unwrap();
            assert_eq!(soon(raw.whole().read()).await, Ok(Row::of(5)));
            let both =
                raw.snapshot(async |row| Ok((row.bid().read().await?, row.ask().read().await?)));
            assert_eq!(soon(both).await, Err(ReadError::Raw));
            assert!(ReadError::Raw.to_string().contains("export_guarded"));
        });
    }
}

/// A task that holds the lock keeps the others of its node waiting, and no reader.
#[test]
fn the_owners_handlers_exclude_each_other() {
    let _watchdog = Watchdog::new("the owner's lock");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
        let updates: Vec<_> = (2..6)
            .map(|number| {
                let desk = desk.clone();
                stand.node.spawn(async move { desk.restock(number, 5).await })
            })
            .collect();
        for update in updates {
            let found = soon(stock.whole().read()).await.unwrap();
            assert_eq!(found, Stock::of(found.bought as u32));
            soon(update).await.unwrap().unwrap();
        }
        upbeat::sleep(Duration::from_millis(1)).await;
        assert_eq!(soon(stock.whole().read()).await, Ok(Stock::of(5)));
    });
}
