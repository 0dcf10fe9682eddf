//! Several parts as of one moment.

use crate::common::{Watchdog, soon};
use crate::exports::{DeskClient, Quotes, ROWS, Row, Stand, Stock};
use std::cell::Cell;
use upbeat::export::ReadError;
use upbeat::{Import, Node};
use upbeat_core::bill::Counter;
use upbeat_core::limits::EXPORT_PARTS_MAX;

/// Runs a test beside an owner whose memory the reader maps, and beside an owner that it asks by calls.
fn read_beside_an_owner(test: impl AsyncFn(&str, &Node, &Import<Quotes>, &DeskClient)) {
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            test(part, &stand.node, &quotes, &desk).await;
        });
    }
}

#[test]
fn a_snapshot_has_parts_of_one_moment() {
    let _watchdog = Watchdog::new("a snapshot");
    read_beside_an_owner(async |part, node, quotes, desk| {
        let runs = Cell::new(0);
        let found = quotes.snapshot(async |of| {
            let first = of.book().index(0).read().await?;
            runs.set(runs.get() + 1);
            if runs.get() == 1 {
                // The owner changes both rows between the two reads.
                desk.put(7).await.unwrap();
            }
            Ok((first, of.book().index(1).read().await?, of.count().read().await?))
        });
        let found = soon(found).await;
        let wanted = Quotes::of(7);
        assert_eq!(found, Ok((wanted.book[0], wanted.book[1], wanted.count)), "{part}");
        assert_eq!(runs.get(), 2, "{part}: the first run has parts of two moments");
        let lost = quotes.lost_bets();
        assert!(lost.attempts > 0);
        // The bill of the reader has them as well, over all its imports and each once.
        let other = soon(node.import::<Quotes>("prices/quotes")).await.unwrap();
        soon(other.book().read()).await.unwrap();
        let calls = lost.calls + other.lost_bets().calls;
        let counted = [Counter::ReadsMeetingUpdates, Counter::ReadsByCall];
        let counted = counted.map(|counter| node.counted(counter));
        assert_eq!(counted, [lost.attempts + other.lost_bets().attempts, calls], "{part}");
        assert!(calls > 0, "the book has more parts than are read as one value in memory");
    });
}

/// The owner grants what is lost again and again.
#[test]
fn a_snapshot_that_loses_is_granted() {
    let _watchdog = Watchdog::new("a granted snapshot");
    read_beside_an_owner(async |part, _, quotes, desk| {
        let runs = Cell::new(10);
        // The owner changes what is read in every run.
        let found = quotes.snapshot(async |of| {
            let first = of.book().index(0).read().await?;
            runs.set(runs.get() + 1);
            desk.put(runs.get()).await.unwrap();
            Ok((first, of.book().index(1).read().await?))
        });
        let (first, second) = soon(found).await.unwrap();
        assert_eq!(second, Row::of(first.size + 1), "{part}");
        // Every run reads another part than those before it.
        let found = quotes.snapshot(async |of| {
            let at = of.totals().sold().read().await?.unsigned_abs() as usize % ROWS;
            runs.set(runs.get() + 1);
            desk.put(runs.get()).await.unwrap();
            of.book().index(at).read().await
        });
        assert_eq!(soon(found).await, Err(ReadError::Busy), "{part}");
    });
}

#[test]
fn a_snapshot_of_a_guarded_export_survives_one_update() {
    let _watchdog = Watchdog::new("a guarded snapshot");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        let runs = Cell::new(0);
        let found = stock.snapshot(async |of| {
            runs.set(runs.get() + 1);
            let bought = of.bought().read().await?;
            desk.restock(2, 0).await.unwrap();
            Ok((bought, of.rows().index(7).read().await?, of.sold().read().await?))
        });
        let found = soon(found).await;
        if crate::common::shares_memory("copies are read in memory") {
            assert_eq!((found, runs.get()), (Ok((1, Row::of(1), 1)), 1));
        } else {
            assert_eq!(found, Ok((2, Row::of(2), 2)));
        }
    });
}

/// The closure sees what never was together neither before nor after the update that comes between two of its reads.
#[test]
fn a_closure_that_reads_in_memory_finds_parts_of_one_moment() {
    if !crate::common::shares_memory("closures that read in memory") {
        return;
    }
    let _watchdog = Watchdog::new("the reads of a closure");
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("moments", &directory.path(), upbeat::Waiting::Adaptive);
    let cell = node.export("cell", Stock::of(1)).unwrap();
    let guarded = node.export_guarded("guarded", Stock::of(1)).unwrap();
    let update = |number| {
        cell.whole().set(Stock::of(number));
        guarded.try_lock().unwrap().whole().set(Stock::of(number));
    };
    node.block_on(async {
        for name in ["cell", "guarded"] {
            let import = node.import::<Stock>(&format!("moments/{name}")).await.unwrap();
            let (mut runs, mut lost) = (0, 0);
            let found = import.try_snapshot(|of| {
                runs += 1;
                let first = of.rows().index(0).try_read()?;
                if runs == 1 {
                    update(7);
                    update(8);
                }
                let second = of.rows().index(1).try_read().inspect_err(|_| lost += 1)?;
                assert_eq!(first, second, "{name}: two moments");
                Ok(second)
            });
            assert_eq!((found, runs, lost), (Ok(Row::of(8)), 2, 1), "{name}");
        }
    });
}

#[test]
fn the_errors_of_a_snapshot_are_those_of_its_reads() {
    let _watchdog = Watchdog::new("errors of snapshots");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
        let out = quotes.snapshot(async |of| of.book().index(ROWS).read().await);
        assert_eq!(soon(out).await, Err(ReadError::Index { index: ROWS }));
        let out = quotes.try_snapshot(|of| of.book().index(ROWS).try_read());
        assert_eq!(out, Err(ReadError::Index { index: ROWS }));
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        desk.withdraw().await.unwrap();
        let ended = quotes.snapshot(async |of| of.count().read().await);
        assert_eq!(soon(ended).await, Err(ReadError::Ended));
    });
}

#[test]
fn a_snapshot_by_calls_has_no_more_parts_than_fit() {
    let _watchdog = Watchdog::new("large snapshots");
    let stand = Stand::new("apart");
    stand.node.block_on(async {
        let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
        for (parts, fits) in [(EXPORT_PARTS_MAX, true), (EXPORT_PARTS_MAX + 1, false)] {
            let found = quotes.snapshot(async |of| {
                for part in 0..parts {
                    of.book().index(part % ROWS).read().await?;
                }
                Ok(parts)
            });
            assert_eq!(soon(found).await, if fits { Ok(parts) } else { Err(ReadError::Large) });
        }
        // A walk that finds no end.
        let endless = quotes.snapshot(async |of| -> Result<(), ReadError> {
            loop {
                of.count().read().await?;
            }
        });
        assert_eq!(soon(endless).await, Err(ReadError::Large));
    });
}

/// A walk that finds no end, over parts that the owner changes in every run: they are granted at last, and each further
/// read finds them at once.
#[test]
fn a_closure_that_reads_what_is_granted_for_ever_ends() {
    let _watchdog = Watchdog::within("an endless walk", 60);
    read_beside_an_owner(async |part, _, quotes, desk| {
        let runs = Cell::new(0);
        let endless = quotes.snapshot(async |of| -> Result<(), ReadError> {
            of.count().read().await?;
            runs.set(runs.get() + 1);
            desk.put(runs.get()).await.unwrap();
            loop {
                of.count().read().await?;
            }
        });
        assert_eq!(soon(endless).await, Err(ReadError::Large), "{part}");
    });
}
