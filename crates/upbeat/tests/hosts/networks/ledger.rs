//! A service that notices what is lost, doubled or out of order, and its server on another host.

use crate::common::process::{Other, input_ends, say};
use crate::common::{Directory, PROGRAM, Signal, counted_in_order};
use crate::networks::namespaces::Host;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use upbeat::{Counter, Identity, InPlace, Node, Stream};

/// Writers enter numbers, each from 1 on.
#[upbeat::service]
pub(crate) trait Ledger {
    /// Enters a writer's next number. Gives the last that was entered, if none was missing, doubled or out of order.
    async fn enter(&self, writer: u64, number: u64) -> Result<u64, String>;
    #[oneway]
    async fn note(&self, writer: u64, number: u64);
    /// The last number of a writer's.
    async fn entered(&self, writer: u64) -> Result<u64, String>;
    /// The numbers below this one.
    async fn count(&self, to: u64) -> Stream<u64>;
    /// How many there were, if they were in order.
    async fn in_order(&self, numbers: Stream<u64>) -> Result<u64, String>;
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    async fn length(&self, bytes: InPlace<u8>) -> u64;
    /// Never ends by itself.
    async fn forever(&self);
    /// Waits.
    async fn nap(&self, ms: u64) -> u64;
    /// How many handlers stand in `forever` or `nap`.
    async fn open(&self) -> u64;
    /// Sessions that were suspended, resumed and lost.
    async fn sessions(&self) -> (u64, u64, u64);
}

#[derive(Default)]
struct Book {
    node: RefCell<Option<Node>>,
    last: RefCell<HashMap<u64, u64>>,
    wrong: RefCell<Option<String>>,
    open: Rc<Cell<u64>>,
}

struct Open(Rc<Cell<u64>>);

impl Open {
    fn new(open: &Rc<Cell<u64>>) -> Open {
        open.set(open.get() + 1);
        Open(Rc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Book {
    fn write(&self, writer: u64, number: u64) -> Result<u64, String> {
        let mut last = self.last.borrow_mut();
        let last = last.entry(writer).or_default();
        if number != *last + 1 {
            let wrong = format!("writer {writer}: {number} behind {last}");
            self.wrong.borrow_mut().get_or_insert(wrong);
        }
        *last = number;
        match &*self.wrong.borrow() {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(number),
        }
    }
}

impl Ledger for Book {
    async fn enter(&self, writer: u64, number: u64) -> Result<u64, String> {
        self.write(writer, number)
    }

    async fn note(&self, writer: u64, number: u64) {
        let _ = self.write(writer, number);
    }

    async fn entered(&self, writer: u64) -> Result<u64, String> {
        match &*self.wrong.borrow() {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(self.last.borrow().get(&writer).copied().unwrap_or(0)),
        }
    }

    async fn count(&self, to: u64) -> Stream<u64> {
        Stream::of(0..to)
    }

    async fn in_order(&self, numbers: Stream<u64>) -> Result<u64, String> {
        counted_in_order(numbers).await
    }

    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn length(&self, bytes: InPlace<u8>) -> u64 {
        bytes.len() as u64
    }

    async fn forever(&self) {
        let _open = Open::new(&self.open);
        std::future::pending::<()>().await;
    }

    async fn nap(&self, ms: u64) -> u64 {
        let _open = Open::new(&self.open);
        upbeat::sleep(Duration::from_millis(ms)).await;
        ms
    }

    async fn open(&self) -> u64 {
        self.open.get()
    }

    async fn sessions(&self) -> (u64, u64, u64) {
        let node = self.node.borrow();
        let counted = |counter| node.as_ref().map_or(0, |node| node.counted(counter));
        let [suspended, resumed, lost] =
            [Counter::SessionsSuspended, Counter::SessionsResumed, Counter::SessionsLost];
        (counted(suspended), counted(resumed), counted(lost))
    }
}

/// Longer than any test lasts: the client's time counts.
const LONG: Duration = Duration::from_secs(600);

/// Plays the server: `ledger ADDRESS PEER_TIMEOUT_MS [IDENTITY]`. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(words) = part.strip_prefix("ledger ") else { return false };
    let [at, peer_timeout, identity] = words.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let builder = Node::builder("ledger").program(PROGRAM).directory(place).listen(at);
    let builder = builder.resume_within(LONG);
    let builder = builder.peer_timeout(Duration::from_millis(peer_timeout.parse().unwrap()));
    let node = match identity {
        "" => builder.insecure_plaintext(),
        path => builder.identity(Identity::load(path).unwrap()),
    };
    let node = node.build().unwrap();
    let quit: Signal = input_ends();
    let book = Rc::new(Book::default());
    *book.node.borrow_mut() = Some(node.clone());
    node.serve(LedgerServer::shared(Rc::clone(&book))).unwrap();
    let _tally = node.export("tally", 7_u64).unwrap();
    say(&format!("serving {}", node.listens_at().unwrap()));
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
    *book.node.borrow_mut() = None;
    true
}

/// A server in a process of its own on a host.
pub(crate) struct Server {
    pub(crate) process: Other,
    /// The name to which a client connects.
    pub(crate) to: String,
    _directory: Directory,
}

impl Server {
    /// Starts one that takes a silent peer for lost after this time. An identity is the path of its file, or empty.
    pub(crate) fn start(host: &Host, peer_timeout: Duration, identity: &str) -> Server {
        let directory = Directory::new();
        let part = format!("ledger {}:0 {} {identity}", host.address, peer_timeout.as_millis());
        let mut process = host.run(|| Other::start(&part, &directory.path()));
        let to = format!("ledger@{}", process.expect("serving"));
        Server { process, to, _directory: directory }
    }
}
