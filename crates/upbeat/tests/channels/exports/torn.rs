//! Readers beside an owner that writes at full speed find no torn value.

use crate::common::{Watchdog, setting, shares_memory, soon, until};
use crate::exports::{DeskClient, Quotes, ROWS, Row, Stand, Stock};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use upbeat::export::{Export, GuardedExport, ReadError};

/// Updates a row, the totals and the bytes, and the parts of the stock. All parts of each follow from the number.
pub(crate) fn update(quotes: &Export<Quotes>, stock: &GuardedExport<Stock>, number: u64) {
    if let Some(stock) = stock.try_lock() {
        stock.bought().set(number);
        stock.rows().index(number as usize % 50).set(Row::of(number as u32));
        stock.sold().set(number);
    }
    let row = Row { size: number as u32, ..Row::of(number as u32) };
    quotes.book().index(number as usize % ROWS).update(|place| {
        place.bid().set(row.bid);
        place.ask().set(row.ask);
        place.size().set(row.size);
    });
    quotes.small().set([number as u16; 3]);
    quotes.marks().set([crate::exports::mark(number as u32); 2]);
    if number.is_multiple_of(8) {
        quotes.bytes().set([number as u8; 300]);
        quotes.totals().set(crate::exports::Totals { sold: number as i64, best: row });
        quotes.count().set(number);
    }
}

/// Checks that the parts of a row belong together.
pub(crate) fn check(row: &Row) {
    assert_eq!(*row, Row::of(row.size), "a torn row");
}

/// The short reads for each of the others.
const SHORT: u64 = 200;

#[test]
fn no_torn_value_is_read() {
    if !shares_memory("a value that a call reads is never torn") {
        return;
    }
    let _watchdog = Watchdog::new("torn values");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        let _storm = stand.node.spawn(async move { desk.storm().await });
        until(|| quotes.count().try_read() != Ok(Quotes::of(1).count)).await;
        let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
        let (mut reads, mut busy) = (0_u64, 0_u64);
        // The numbers of the copies that were read: more than one says that the owner has made others meanwhile.
        let mut copies = BTreeSet::new();
        let until = Instant::now() + Duration::from_millis(setting("UPBEAT_TORN_MS", 500));
        // A read that finds its struct busy was beside an update.
        while Instant::now() < until || reads == busy || busy == 0 || copies.len() < 2 {
            for index in 0..ROWS {
                // Most reads are short ones, of a struct that the owner may be writing.
                let place = quotes.book().index(index);
                for _ in 0..SHORT {
                    // A single word has no version.
                    let small = quotes.small().try_read().unwrap();
                    let first = Quotes::of(1).small;
                    assert!(small == first || small == [small[0]; 3], "torn: {small:?}");
                    let marks = quotes.marks().try_read().unwrap();
                    assert_eq!(marks[0], marks[1], "torn");
                    match place.try_read() {
                        Ok(row) => check(&row),
                        Err(error) => {
                            assert_eq!(error, ReadError::Busy);
                            busy += 1;
                        }
                    }
                }
                reads += SHORT;
                let row = place.try_read();
                let bytes = quotes.bytes().try_read();
                let totals = quotes.totals().try_read();
                for error in [row.as_ref().err(), bytes.as_ref().err(), totals.as_ref().err()] {
                    assert!(matches!(error, None | Some(ReadError::Busy)), "{error:?}");
                    busy += u64::from(error.is_some());
                    reads += 1;
                }
                row.iter().for_each(check);
                match stock.whole().try_read() {
                    Ok(stock) => {
                        assert_eq!(stock.bought, stock.sold, "torn copies");
                        stock.rows.iter().for_each(check);
                        if copies.len() < 2 {
                            copies.insert(stock.bought);
                        }
                    }
                    Err(error) => assert_eq!(error, ReadError::Busy),
                }
                let both =
                    stock.try_snapshot(|of| Ok((of.bought().try_read()?, of.sold().try_read()?)));
                assert!(
                    both == Err(ReadError::Busy) || both.is_ok_and(|(bought, sold)| bought == sold)
                );
                let two = quotes.try_snapshot(|of| {
                    Ok((
                        of.totals().sold().try_read()?,
                        of.totals().best().size().try_read()?,
                        of.count().try_read()?,
                    ))
                });
                match two {
                    // The totals are set before the count.
                    Ok((sold, size, count)) if sold > 0 => {
                        assert_eq!(sold as u32, size, "two parts of two moments");
                        assert!([sold, sold - 8].contains(&(count as i64)), "{sold} {count}");
                    }
                    Ok(_) => {}
                    Err(error) => assert_eq!(error, ReadError::Busy),
                }
                if let Ok(bytes) = bytes {
                    // Before the first update, the bytes differ.
                    assert!(bytes == Quotes::of(1).bytes || bytes == [bytes[0]; 300], "torn bytes");
                }
                if let Ok(totals) = totals {
                    assert_eq!(totals.sold.unsigned_abs() as u32, totals.best.size, "torn totals");
                    check(&totals.best);
                }
            }
        }
        println!("{reads} reads, {busy} of which met an update at each attempt");
        // A read that loses its bet becomes a call.
        check(&soon(quotes.book().index(0).read()).await.unwrap());
    });
}
