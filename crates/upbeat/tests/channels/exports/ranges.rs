//! Expressions over arrays, in memory and by calls.

use crate::common::{Watchdog, soon};
use crate::exports::{DeskClient, Quotes, ROWS, Stand, Stock};
use std::collections::BTreeSet;
use upbeat::export::{Condition, ReadError};

#[test]
fn an_expression_finds_what_a_loop_finds() {
    let _watchdog = Watchdog::new("expressions");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
            let of = Quotes::of(1);
            let sum: u64 = of.book[10..20].iter().map(|row| u64::from(row.size)).sum();
            assert_eq!(
                soon(quotes.book().range(10..20).sum(|row| row.size())).await,
                Ok(sum),
                "{part}"
            );
            let bids: f64 = of.book.iter().map(|row| row.bid).sum();
            assert_eq!(
                soon(quotes.book().range(..).sum(|row| row.bid())).await,
                Ok(bids),
                "{part}"
            );
            let few = quotes.book().range(..=9).filter(|row| row.bid().at_least(5.0));
            assert_eq!(soon(few.max(|row| row.ask())).await, Ok(Some(10.5)), "{part}");
            let few = quotes.book().range(..).filter(|row| row.size().less_than(4));
            assert_eq!(soon(few.count()).await, Ok(3), "{part}");
            let none = quotes.book().range(..).filter(|row| row.size().equal_to(0));
            assert_eq!(soon(none.min(|row| row.bid())).await, Ok(None), "{part}");
            assert_eq!(
                soon(quotes.book().range(5..5).sum(|row| row.size())).await,
                Ok(0),
                "{part}"
            );
            assert_eq!(soon(quotes.book().range(3..).count()).await, Ok(ROWS as u64 - 3), "{part}");
            // Numbers side by side, with a version and without one.
            let sum: u64 = of.bytes[7..300].iter().map(|byte| u64::from(*byte)).sum();
            assert_eq!(
                soon(quotes.bytes().range(7..).sum(|byte| byte.itself())).await,
                Ok(sum),
                "{part}"
            );
            assert_eq!(
                soon(quotes.small().range(1..3).max(|one| one.itself())).await,
                Ok(Some(3)),
                "{part}"
            );
            let flags = of.flags.iter().filter(|flag| **flag).count() as u64;
            let set = quotes.flags().range(..).filter(|flag| flag.equal_to(true));
            assert_eq!(soon(set.count()).await, Ok(flags), "{part}");
            let levels = quotes.levels().range(1..3).sum(|level| level.index(2));
            assert_eq!(
                soon(levels).await,
                Ok(f64::from(of.levels[1][2] + of.levels[2][2])),
                "{part}"
            );
            // A guarded export.
            assert_eq!(soon(stock.rows().range(..).sum(|row| row.size())).await, Ok(50), "{part}");
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            desk.restock(2, 0).await.unwrap();
            assert_eq!(soon(stock.rows().range(..).sum(|row| row.size())).await, Ok(100), "{part}");
        });
    }
}

/// The conditions, each with the rows that it leaves of those which a loop leaves: a different count for each.
#[test]
fn each_condition_leaves_the_elements_that_it_names() {
    let _watchdog = Watchdog::new("conditions");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let rows = Quotes::of(1).book;
            let with = rows[30];
            type Of = fn(&upbeat::export::Path<upbeat::export::Element, u32>, u32) -> Condition;
            type Is = fn(u32, u32) -> bool;
            let all: [(&str, Of, Is); 6] = [
                ("less_than", |size, with| size.less_than(with), |size, with| size < with),
                ("at_most", |size, with| size.at_most(with), |size, with| size <= with),
                ("equal_to", |size, with| size.equal_to(with), |size, with| size == with),
                ("not_equal_to", |size, with| size.not_equal_to(with), |size, with| size != with),
                ("at_least", |size, with| size.at_least(with), |size, with| size >= with),
                ("more_than", |size, with| size.more_than(with), |size, with| size > with),
            ];
            let mut counts = BTreeSet::new();
            for (name, condition, is_so) in all {
                let expected = rows.iter().filter(|row| is_so(row.size, with.size)).count() as u64;
                let range = quotes.book().range(..).filter(|row| condition(&row.size(), with.size));
                assert_eq!(soon(range.count()).await, Ok(expected), "{name}, {part}");
                assert!(counts.insert(expected), "two conditions leave {expected} rows");
            }
            // The highest bid of the first rows that the condition leaves is not that of all.
            let few = quotes.book().range(..=9).filter(|row| row.bid().at_most(rows[4].bid));
            assert_eq!(soon(few.max(|row| row.bid())).await, Ok(Some(rows[4].bid)), "{part}");
            assert!(rows[9].bid > rows[4].bid);
        });
    }
}

#[test]
fn a_wrong_range_is_an_error_of_its_reader() {
    let _watchdog = Watchdog::new("wrong ranges");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let sum = quotes.book().range(..=ROWS).sum(|row| row.size());
            assert_eq!(soon(sum).await, Err(ReadError::Index { index: ROWS }));
            let sum = quotes.book().range(ROWS + 7..ROWS + 9).sum(|row| row.size());
            assert_eq!(soon(sum).await, Err(ReadError::Index { index: ROWS + 7 }));
            let sum = quotes.levels().range(..).sum(|level| level.index(5));
            assert_eq!(soon(sum).await, Err(ReadError::Index { index: 5 }));
            let count = quotes.levels().index(4).range(..).count();
            assert_eq!(soon(count).await, Err(ReadError::Index { index: 4 }));
            let count =
                quotes.levels().range(..).filter(|level| level.index(5).equal_to(0.0)).count();
            assert_eq!(soon(count).await, Err(ReadError::Index { index: 5 }));
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            desk.withdraw().await.unwrap();
            let sum = quotes.book().range(..).sum(|row| row.size());
            assert_eq!(soon(sum).await, Err(ReadError::Ended));
        });
    }
}
