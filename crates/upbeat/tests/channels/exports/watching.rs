//! Waiting until a value changes.

use crate::common::{Directory, Watchdog, node, soon};
use crate::exports::{DeskClient, Quotes, Row, Stand, Stock};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use upbeat::export::{Export, ReadError, Ref};
use upbeat::{Node, Shared, Waiting};

#[test]
fn a_watch_returns_each_value_that_it_finds_changed() {
    let _watchdog = Watchdog::new("a watch");
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
    let _watchdog = Watchdog::new("a sleeping watch");
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
    let _watchdog = Watchdog::new("the end of a watch");
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

#[derive(Clone, Debug, PartialEq, Shared)]
struct Book {
    count: u64,
    head: Ref<Job>,
    jobs: [Job; 2],
    lines: Vec<u64>,
    groups: Vec<Vec<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Shared)]
struct Job {
    number: u64,
}

/// Reads a book of this process in another thread, and lets `act` change it between the reader's steps.
fn beside(
    name: &str,
    read: impl AsyncFnOnce(&Node, &str, &Receiver<()>, &dyn Fn()) + Send + 'static,
    act: impl Fn(&Export<Book>, u32),
) {
    let directory = Directory::new();
    let place = directory.path();
    let owner = node(&format!("owner/{name}"), &place, Waiting::Adaptive);
    let book = Book {
        count: 0,
        head: Ref::null(),
        jobs: [Job { number: 0 }; 2],
        lines: vec![1, 2, 3],
        groups: vec![vec![1], vec![2, 3]],
    };
    let book = owner.export("book", book).unwrap();
    let (step, steps) = channel();
    let (done, is_done) = channel();
    let whole = format!("owner/{name}/book");
    let reader = std::thread::spawn({
        let name = format!("reader/{name}");
        move || {
            let node = node(&name, &place, Waiting::Adaptive);
            node.block_on(read(&node, &whole, &is_done, &|| step.send(()).unwrap()));
        }
    });
    owner.block_on(async {
        let mut number = 0;
        while !reader.is_finished() {
            if steps.try_recv().is_ok() {
                act(&book, number);
                number += 1;
                done.send(()).unwrap();
            }
            upbeat::yield_now().await;
        }
    });
    reader.join().unwrap();
}

/// Returns whether a watch finds nothing changed for a while.
async fn is_quiet<T: upbeat::export::Readable>(watch: &mut upbeat::export::Watch<'_, T>) -> bool {
    upbeat::within(Duration::from_millis(30), watch.changed()).await.is_err()
}

#[test]
fn a_watch_sleeps_while_other_parts_of_an_export_with_vectors_change() {
    let _watchdog = Watchdog::new("a watch beside vectors");
    beside(
        "vectors",
        async |node, name, done, step| {
            let book = soon(node.import::<Book>(name)).await.unwrap();
            let (count, lines, groups) = (book.count(), book.lines(), book.groups());
            let (line, whole) = (book.lines().index(1), book.whole());
            let mut counts = count.watch();
            let (mut all, mut each, mut lists) = (lines.watch(), line.watch(), groups.watch());
            let mut wholes = whole.watch();
            soon(counts.changed()).await.unwrap();
            assert_eq!(soon(all.changed()).await, Ok(vec![1, 2, 3]));
            assert_eq!(soon(each.changed()).await, Ok(2));
            soon(lists.changed()).await.unwrap();
            soon(wholes.changed()).await.unwrap();
            let go = || {
                step();
                done.recv().unwrap();
            };
            // Another part changes: the groups.
            go();
            assert!(is_quiet(&mut counts).await && is_quiet(&mut all).await);
            assert!(is_quiet(&mut each).await);
            assert_eq!(soon(lists.changed()).await, Ok(vec![vec![1], vec![2, 3, 4]]));
            assert_eq!(soon(wholes.changed()).await.unwrap().lines, [1, 2, 3]);
            // The lines change.
            go();
            assert!(is_quiet(&mut counts).await && is_quiet(&mut lists).await);
            assert_eq!(soon(all.changed()).await, Ok(vec![1, 2, 3, 9]));
            soon(each.changed()).await.unwrap();
            // The count changes.
            go();
            assert!(is_quiet(&mut all).await && is_quiet(&mut lists).await);
            assert!(is_quiet(&mut each).await);
            assert_eq!(soon(counts.changed()).await, Ok(5));
        },
        |book, number| match number {
            0 => book.groups().index(1).push(4).unwrap(),
            1 => book.lines().push(9).unwrap(),
            _ => book.count().set(5),
        },
    );
}

/// A pointer that is led elsewhere changes the value, whatever the versions there are.
#[test]
fn a_watch_through_a_pointer_sees_it_led_elsewhere() {
    let _watchdog = Watchdog::new("a watch through a pointer");
    beside(
        "pointers",
        async |node, name, done, step| {
            let go = || {
                step();
                done.recv().unwrap();
            };
            go();
            let book = soon(node.import::<Book>(name)).await.unwrap();
            let number = book.head().target().number();
            let mut numbers = number.watch();
            assert_eq!(soon(numbers.changed()).await, Ok(11));
            go();
            assert_eq!(soon(numbers.changed()).await, Ok(0));
        },
        |book, number| match number {
            0 => {
                book.jobs().index(0).number().set(11);
                book.head().point_to(&book.jobs().index(0));
            }
            _ => book.head().point_to(&book.jobs().index(1)),
        },
    );
}

#[test]
fn a_watch_of_a_guarded_part_sleeps_while_other_parts_change() {
    let _watchdog = Watchdog::new("a watch of a guarded part");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        let bought = stock.bought();
        let mut changes = bought.watch();
        assert_eq!(soon(changes.changed()).await, Ok(1));
        // The lock is given back with the values that were there.
        desk.restock(1, 0).await.unwrap();
        assert!(is_quiet(&mut changes).await);
        desk.restock(2, 0).await.unwrap();
        assert_eq!(soon(changes.changed()).await, Ok(2));
    });
}
