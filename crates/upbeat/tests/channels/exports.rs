//! Exports: variables of a node that other nodes read.

mod anywhere;

mod bounds;

mod consistency;

mod containers;

mod ends;

mod growth;

mod large;

mod memory;

mod mixed;

mod owners;

mod paths;

mod ranges;

mod readers;

mod sharing;

mod snapshots;

mod torn;

mod untyped;

mod values;

mod watching;

use crate::common::process::{Other, input_ends, say};
use crate::common::{Directory, PROGRAM, SOON, Signal, node};
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use upbeat::export::{Export, GuardedExport, Text};
use upbeat::{Node, Shared, Waiting};

const ROWS: usize = 100;

/// One of each type that an export may have.
#[derive(Clone, Debug, PartialEq, Shared)]
pub(crate) struct Quotes {
    count: u64,
    open: bool,
    grade: char,
    change: i8,
    name: Text<16>,
    book: [Row; ROWS],
    /// A unit without a struct.
    bytes: [u8; 300],
    /// A single word.
    small: [u16; 3],
    marks: [char; 2],
    levels: [[f32; 5]; 4],
    flags: [bool; 9],
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Shared)]
pub(crate) struct Row {
    bid: f64,
    ask: f64,
    size: u32,
}

/// Two parts of an export that is consistent as a whole: equal, whenever the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Shared)]
pub(crate) struct Stock {
    bought: u64,
    rows: [Row; 50],
    sold: u64,
}

impl Stock {
    fn of(number: u32) -> Stock {
        Stock { bought: number.into(), rows: [Row::of(number); 50], sold: number.into() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Shared)]
pub(crate) struct Totals {
    sold: i64,
    best: Row,
}

impl Quotes {
    /// A value whose parts all follow from a number.
    fn of(number: u32) -> Quotes {
        let at = |place: usize| number + place as u32;
        Quotes {
            count: u64::MAX - u64::from(number),
            open: number % 2 == 1,
            grade: mark(number),
            change: -(number as i8),
            name: Text::new(&format!("EURUSD {number}")).unwrap(),
            book: std::array::from_fn(|index| Row::of(at(index))),
            bytes: std::array::from_fn(|index| at(index) as u8),
            small: std::array::from_fn(|index| at(index) as u16),
            marks: [mark(number); 2],
            levels: std::array::from_fn(|one| std::array::from_fn(|two| at(10 * one + two) as f32)),
            flags: std::array::from_fn(|index| at(index) % 3 == 0),
            totals: Totals { sold: -i64::from(number), best: Row::of(number) },
        }
    }
}

/// A mark that follows from a number.
fn mark(number: u32) -> char {
    char::from_u32(0x1f600 + number % 16).unwrap()
}

impl Row {
    fn of(number: u32) -> Row {
        Row { bid: f64::from(number), ask: f64::from(number) + 0.5, size: number }
    }
}

/// Tells the owner what to do.
#[upbeat::service]
trait Desk {
    async fn put(&self, number: u32);
    /// Updates the rows for ever, or until the process dies.
    async fn storm(&self);
    /// Changes the stock to this number, one part a time, and waits in between.
    async fn restock(&self, number: u32, wait_ms: u64);
    /// Does the same, and waits until `go_on` is called.
    async fn restock_slowly(&self, number: u32);
    async fn go_on(&self);
    async fn withdraw(&self);
    async fn export_again(&self, number: u32);
}

struct Prices {
    node: Node,
    quotes: RefCell<Option<Export<Quotes>>>,
    stock: GuardedExport<Stock>,
    raw: Export<Row>,
    may_go_on: Signal,
}

impl Prices {
    fn new(node: &Node) -> Prices {
        let stock = node.export_guarded("stock", Stock::of(1)).unwrap();
        let raw = node.export_raw("raw", Row::of(1)).unwrap();
        let (quotes, may_go_on) = (RefCell::default(), Signal::default());
        Prices { node: node.clone(), quotes, stock, raw, may_go_on }
    }

    /// Changes a part of the stock, waits, and changes the others.
    async fn restock_around(&self, number: u32, wait: impl Future<Output = ()>) {
        let stock = self.stock.lock().await;
        stock.bought().set(number.into());
        wait.await;
        stock.rows().set([Row::of(number); 50]);
        stock.sold().set(number.into());
    }

    fn export(&self, number: u32) {
        let quotes = self.node.export("quotes", Quotes::of(number)).unwrap();
        *self.quotes.borrow_mut() = Some(quotes);
    }
}

impl Desk for Prices {
    async fn put(&self, number: u32) {
        self.quotes.borrow().as_ref().unwrap().whole().set(Quotes::of(number));
        self.raw.whole().set(Row::of(number));
    }

    async fn restock(&self, number: u32, wait_ms: u64) {
        self.restock_around(number, upbeat::sleep(Duration::from_millis(wait_ms))).await;
    }

    async fn restock_slowly(&self, number: u32) {
        self.restock_around(number, self.may_go_on.clone()).await;
    }

    async fn go_on(&self) {
        self.may_go_on.give();
    }

    async fn storm(&self) {
        let mut numbers = 0..;
        loop {
            {
                let quotes = self.quotes.borrow();
                let Some(quotes) = &*quotes else { return };
                numbers
                    .by_ref()
                    .take(1000)
                    .for_each(|number| torn::update(quotes, &self.stock, number));
            }
            upbeat::yield_now().await;
        }
    }

    async fn withdraw(&self) {
        *self.quotes.borrow_mut() = None;
    }

    async fn export_again(&self, number: u32) {
        self.export(number);
    }
}

/// Plays the owner's process. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let place = place.to_owned();
    match part.split_once(' ') {
        Some(("limited", shares)) => readers::owner(shares == "shared", place),
        Some(("memory", part)) => memory::other(part, place),
        Some(("containers", shares)) => containers::owner(shares == "shared", place),
        None if matches!(part, "shared" | "apart") => own_prices(part == "shared", &place),
        _ => return false,
    }
    true
}

fn own_prices(shares: bool, place: &Path) {
    let builder = Node::builder("prices").program(PROGRAM).directory(place);
    let node = builder.shared_memory(shares).build().unwrap();
    let prices = Prices::new(&node);
    prices.export(1);
    node.serve(DeskServer::new(prices)).unwrap();
    say("serving");
    node.block_on(input_ends());
    node.shut_down(SOON);
}

/// A process that exports `prices/quotes`, and a node that reads.
pub(crate) struct Stand {
    pub(crate) owner: Other,
    pub(crate) node: Node,
    directory: Directory,
}

impl Stand {
    /// The directory of the processes' sockets.
    pub(crate) fn directory(&self) -> std::path::PathBuf {
        self.directory.path()
    }

    /// The processes share memory, unless `part` is `apart`.
    pub(crate) fn new(part: &str) -> Stand {
        let directory = Directory::new();
        let mut owner = Other::start(part, &directory.path());
        owner.expect("serving");
        // The names of this process's nodes are those of all tests.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("reader/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let node = node(&name, &directory.path(), Waiting::Adaptive);
        Stand { owner, node, directory }
    }

    /// Kills the owner, and starts another one of its name.
    pub(crate) fn kill_and_start(&mut self, part: &str) {
        self.owner.kill();
        self.owner.ended();
        self.owner = Other::start(part, &self.directory.path());
        self.owner.expect("serving");
    }
}
