//! Waiting until a value changes.

use crate::common::{Watchdog, soon};
use crate::{DeskClient, Quotes, Row, Stand, Stock};
use std::time::Duration;
use upbeat::export::ReadError;

#[test]
fn a_watch_returns_each_value_that_it_finds_changed() {
    let _watchdog = Watchdog::new("a watch", 60);
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            let row = quotes.book().index(3);
            let mut rows = row.watch();
            assert_eq!(
                soon(rows.changed()).await,
                Ok(Row::of(4)),
                "{part}: the first one is there"
            );
            // A value that has changed before the watch goes on is not missed.
            desk.put(5).await.unwrap();
            assert_eq!(soon(rows.changed()).await, Ok(Row::of(8)), "{part}");
            let node = &stand.node;
            for number in 6..10 {
                let theirs = desk.clone();
                let put = node.spawn(async move {
                    upbeat::sleep(Duration::from_millis(2)).await;
                    theirs.put(number).await
                });
                assert_eq!(soon(rows.changed()).await, Ok(Row::of(number + 3)), "{part}");
                soon(put).await.unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_watch_sleeps_while_other_values_change() {
    let _watchdog = Watchdog::new("a sleeping watch", 60);
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
        let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
        let raw = soon(stand.node.import::<Row>("prices/raw")).await.unwrap();
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        let (row, all, bid) = (quotes.book().index(3), stock.whole(), raw.bid());
        let (mut rows, mut stocks, mut bids) = (row.watch(), all.watch(), bid.watch());
        soon(rows.changed()).await.unwrap();
        soon(bids.changed()).await.unwrap();
        assert_eq!(soon(stocks.changed()).await, Ok(Stock::of(1)));
        desk.restock(2, 0).await.unwrap();
        assert_eq!(soon(stocks.changed()).await, Ok(Stock::of(2)));
        let quiet = upbeat::within(Duration::from_millis(20), rows.changed()).await.is_err();
        assert!(quiet, "the row has not changed");
        let quiet = upbeat::within(Duration::from_millis(20), bids.changed()).await.is_err();
        assert!(quiet, "the raw export has not changed");
        desk.put(2).await.unwrap();
        assert_eq!(soon(rows.changed()).await, Ok(Row::of(5)));
        assert_eq!(soon(bids.changed()).await, Ok(2.0));
    });
}

#[test]
fn a_watch_ends_with_its_export_or_its_owner() {
    let _watchdog = Watchdog::new("the end of a watch", 60);
    let mut stand = Stand::new("shared");
    let (node, owner) = (&stand.node, &mut stand.owner);
    node.block_on(async {
        let quotes = soon(node.import::<Quotes>("prices/quotes")).await.unwrap();
        let stock = soon(node.import::<Stock>("prices/stock")).await.unwrap();
        let desk: DeskClient = node.connect("prices").await.unwrap();
        let (count, sold) = (quotes.count(), stock.sold());
        let (mut counts, mut solds) = (count.watch(), sold.watch());
        soon(counts.changed()).await.unwrap();
        soon(solds.changed()).await.unwrap();
        let withdraw = node.spawn(async move {
            upbeat::sleep(Duration::from_millis(5)).await;
            desk.withdraw().await
        });
        assert_eq!(soon(counts.changed()).await, Err(ReadError::Ended));
        soon(withdraw).await.unwrap().unwrap();
        owner.kill();
        let error = soon(solds.changed()).await.unwrap_err();
        assert!(matches!(error, ReadError::Call(_)), "{error}");
    });
}
