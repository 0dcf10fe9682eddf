//! Values as readers find them.

use crate::common::{Watchdog, shares_memory, soon};
use crate::exports::{DeskClient, Quotes, ROWS, Row, Stand};
use std::time::Duration;
use upbeat::Import;
use upbeat::export::ReadError;

/// Reads every part of the value, and compares it with what the owner has written.
async fn is(quotes: &Import<Quotes>, number: u32) {
    let wanted = Quotes::of(number);
    assert_eq!(soon(quotes.count().read()).await, Ok(wanted.count));
    assert_eq!(soon(quotes.open().read()).await, Ok(wanted.open));
    assert_eq!(soon(quotes.grade().read()).await, Ok(wanted.grade));
    assert_eq!(soon(quotes.change().read()).await, Ok(wanted.change));
    assert_eq!(soon(quotes.name().read()).await, Ok(wanted.name));
    for index in [0, 7, ROWS - 1] {
        assert_eq!(soon(quotes.book().index(index).read()).await, Ok(wanted.book[index]));
        assert_eq!(soon(quotes.book().index(index).ask().read()).await, Ok(wanted.book[index].ask));
        assert_eq!(soon(quotes.bytes().index(index).read()).await, Ok(wanted.bytes[index]));
    }
    assert_eq!(soon(quotes.bytes().read()).await, Ok(wanted.bytes));
    assert_eq!(soon(quotes.small().read()).await, Ok(wanted.small));
    assert_eq!(soon(quotes.small().index(2).read()).await, Ok(wanted.small[2]));
    assert_eq!(soon(quotes.levels().read()).await, Ok(wanted.levels));
    assert_eq!(soon(quotes.levels().index(3).index(4).read()).await, Ok(wanted.levels[3][4]));
    assert_eq!(soon(quotes.flags().read()).await, Ok(wanted.flags));
    assert_eq!(soon(quotes.flags().index(8).read()).await, Ok(wanted.flags[8]));
    assert_eq!(soon(quotes.totals().read()).await, Ok(wanted.totals));
    assert_eq!(soon(quotes.totals().best().size().read()).await, Ok(wanted.totals.best.size));
    // More units than are read in memory: the owner answers.
    assert_eq!(soon(quotes.book().read()).await, Ok(wanted.book));
    assert_eq!(soon(quotes.whole().read()).await, Ok(wanted));
}

#[test]
fn every_part_of_every_type_is_read() {
    let _watchdog = Watchdog::new("reading");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            is(&quotes, 1).await;
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            for number in [2, 1000] {
                desk.put(number).await.unwrap();
                is(&quotes, number).await;
            }
        });
    }
}

#[test]
fn a_value_is_read_into_one_that_the_reader_keeps() {
    if !shares_memory("values are read into others where this takes no call") {
        return;
    }
    let _watchdog = Watchdog::new("reading into");
    let stand = Stand::new("shared");
    let quotes = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    let wanted = Quotes::of(1);
    let (mut bytes, mut levels, mut flags) = ([0; 300], [[0.0; 5]; 4], [false; 9]);
    assert_eq!(quotes.bytes().try_read_into(&mut bytes), Ok(()));
    assert_eq!(quotes.levels().try_read_into(&mut levels), Ok(()));
    assert_eq!(quotes.flags().try_read_into(&mut flags), Ok(()));
    assert_eq!((bytes, levels, flags), (wanted.bytes, wanted.levels, wanted.flags));
    let (mut byte, mut totals) = (0, crate::exports::Totals::default());
    assert_eq!(quotes.bytes().index(7).try_read_into(&mut byte), Ok(()));
    assert_eq!(quotes.totals().try_read_into(&mut totals), Ok(()));
    assert_eq!((byte, totals), (wanted.bytes[7], wanted.totals));
    let error = quotes.bytes().index(300).try_read_into(&mut byte);
    assert_eq!(error, Err(ReadError::Index { index: 300 }));
    let mut book = wanted.book;
    assert_eq!(quotes.book().try_read_into(&mut book), Err(ReadError::Busy), "it has many units");
}

/// Reads in memory take no call, and the owner may be stopped.
#[test]
fn a_stopped_owner_is_read() {
    if !shares_memory("a stopped owner answers no call") {
        return;
    }
    let _watchdog = Watchdog::new("a stopped owner");
    let stand = Stand::new("shared");
    let quotes = stand.node.block_on(stand.node.import::<Quotes>("prices/quotes")).unwrap();
    stand.owner.signal(rustix::process::Signal::STOP);
    let wanted = Quotes::of(1);
    assert_eq!(quotes.count().try_read(), Ok(wanted.count));
    assert_eq!(quotes.book().index(3).try_read(), Ok(wanted.book[3]));
    // In any thread, and by many at once.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let quotes = quotes.clone();
            scope.spawn(move || {
                for index in 0..ROWS {
                    assert_eq!(
                        quotes.book().index(index).try_read(),
                        Ok(Row::of(index as u32 + 1))
                    );
                }
            });
        }
    });
    assert_eq!(quotes.book().try_read(), Err(ReadError::Busy), "it has too many units");
    stand.owner.signal(rustix::process::Signal::CONT);
}

/// The owner answers no call, and each read that is one ends at the limit that it was given.
#[test]
fn a_read_that_calls_ends_at_its_limit() {
    let _watchdog = Watchdog::new("limited reads");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            stand.owner.signal(rustix::process::Signal::STOP);
            for _ in 0..100 {
                // The book has too many units for a read in memory.
                let late = upbeat::within(Duration::from_millis(2), quotes.book().read()).await;
                assert!(late.is_err(), "{part}");
            }
            stand.owner.signal(rustix::process::Signal::CONT);
            assert_eq!(soon(quotes.book().read()).await, Ok(Quotes::of(1).book), "{part}");
        });
    }
}

#[test]
fn a_node_reads_its_own_export() {
    let _watchdog = Watchdog::new("an own export");
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("own", &directory.path(), upbeat::Waiting::Adaptive);
    let export = node.export("quotes", Quotes::of(5)).unwrap();
    node.block_on(async {
        let quotes = soon(node.import::<Quotes>("own/quotes")).await.unwrap();
        is(&quotes, 5).await;
        export.count().set(1);
        assert_eq!(soon(quotes.count().read()).await, Ok(1));
        export.book().index(3).update(|row| {
            row.bid().set(1.5);
            row.ask().set(2.5);
        });
        let row = soon(quotes.book().index(3).read()).await.unwrap();
        assert_eq!((row.bid, row.ask), (1.5, 2.5));
        export.bytes().index(299).set(7);
        export.flags().index(8).set(true);
        export.levels().index(1).index(1).set(0.25);
        assert_eq!(soon(quotes.bytes().index(299).read()).await, Ok(7));
        assert_eq!(soon(quotes.bytes().index(298).read()).await, Ok(Quotes::of(5).bytes[298]));
        assert!(soon(quotes.flags().read()).await.unwrap()[8]);
        assert_eq!(soon(quotes.levels().index(1).index(1).read()).await, Ok(0.25));
        assert_eq!(export.whole().get().levels[1][1], 0.25);
    });
}

#[test]
fn an_index_out_of_range_is_an_error_of_its_reader() {
    let _watchdog = Watchdog::new("an index");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
        let error = quotes.book().index(ROWS).bid().read().await.unwrap_err();
        assert_eq!(error, ReadError::Index { index: ROWS });
        assert_eq!(
            quotes.levels().index(9).index(0).try_read(),
            Err(ReadError::Index { index: 9 })
        );
        assert_eq!(
            quotes.bytes().index(usize::MAX).try_read(),
            Err(ReadError::Index { index: usize::MAX })
        );
    });
}
