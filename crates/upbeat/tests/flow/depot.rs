//! A service whose handlers wait until they are let go, and nodes of small budgets that serve it.

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{KINDS, Kind, Server};
use crate::common::{Directory, PROGRAM, Signal, resident};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use upbeat::{CallError, Counter, InPlace, Node, Stream, Waiting};
use upbeat_core::limits::MESSAGE_BYTES_MAX;

#[upbeat::service]
pub(crate) trait Depot {
    /// Enters the number, waits at the gate, and says what came.
    async fn keep(&self, number: u64, bytes: Vec<u8>) -> (u64, u64);
    /// Enters the number and waits at the gate, without a reply.
    #[oneway]
    async fn put(&self, number: u64, bytes: Vec<u8>);
    /// Works like `put`, while the handler reads in place.
    #[oneway]
    async fn put_in_place(&self, number: u64, bytes: InPlace<u8>);
    /// Enters the number and panics: at once, or behind the gate.
    async fn panics(&self, number: u64, late: bool, bytes: Vec<u8>);
    /// Works like `panics`, while the handler reads in place.
    async fn panics_in_place(&self, number: u64, late: bool, bytes: InPlace<u8>);
    /// Opens the gate, or shuts it.
    async fn open(&self, open: bool);
    /// Lets so many handlers pass the gate while it is shut.
    async fn pass(&self, count: u64);
    /// Handlers of `keep`, `put` and `blank` that have begun, that stand, the most that stood at once, and
    /// numbers that came out of order.
    async fn state(&self) -> (u64, u64, u64, u64);
    async fn counted(&self, counter: u64) -> u64;
    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
    /// Returns texts, which are longer than they look.
    async fn texts(&self, texts: Vec<String>) -> Vec<String>;
    /// So many bytes.
    async fn blob(&self, bytes: u64) -> Vec<u8>;
    /// Stops the whole node for so long.
    async fn stall(&self, ms: u64);
    /// Calls back and forth between the node and another, so many times.
    async fn bounce(&self, from: String, to: String, depth: u64, bytes: Vec<u8>) -> u64;
    /// Keeps what it was lent, and answers at once. Gives how many are kept in their sender's memory;
    /// copies are not.
    async fn lend(&self, bytes: InPlace<u8>) -> u64;
    /// Drops so many of them: here, or in another thread when this node sleeps.
    async fn give_back(&self, count: u64, elsewhere: bool);
    /// Checks the items behind another argument in its sender's memory, waits at the gate, and sends
    /// them on.
    async fn forward(&self, tag: u8, items: InPlace<u32>, to: String) -> u64;
    async fn sum8(&self, tag: u8, items: InPlace<u8>) -> (u64, u64, bool);
    async fn sum16(&self, tag: u8, items: InPlace<u16>) -> (u64, u64, bool);
    async fn sum32(&self, tag: u8, items: InPlace<u32>) -> (u64, u64, bool);
    async fn sum_float(&self, tag: String, items: InPlace<f64>) -> (u64, f64, bool);
    async fn sum_pairs(&self, tag: String, items: InPlace<[u64; 2]>) -> (u64, u64, bool);
    /// Returns the items, in place.
    async fn mirror(&self, items: InPlace<u8>) -> InPlace<u8>;
    /// KiB that the process has resident.
    async fn resident(&self) -> u64;
    /// So many bytes of one value, which take no time to make.
    async fn blank(&self, bytes: u64) -> Vec<u8>;
    /// Returns a blank, to be read in place.
    async fn blank_in_place(&self, bytes: u64) -> InPlace<u8>;
    /// Items of so many bytes each.
    async fn blanks(&self, count: u64, bytes: u64) -> Stream<Vec<u8>>;
}

#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) node: RefCell<Option<Node>>,
    passes: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
    begun: Cell<u64>,
    standing: Rc<Cell<u64>>,
    most: Cell<u64>,
    last: Cell<u64>,
    disorder: Cell<u64>,
    lent: RefCell<Vec<InPlace<u8>>>,
}

struct Standing(Rc<Cell<u64>>);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Keeper {
    fn enter(&self, number: u64) -> Standing {
        self.begun.set(self.begun.get() + 1);
        self.disorder.set(self.disorder.get() + u64::from(number != self.last.get() + 1));
        self.last.set(number);
        self.standing.set(self.standing.get() + 1);
        self.most.set(self.most.get().max(self.standing.get()));
        Standing(Rc::clone(&self.standing))
    }

    async fn gate(&self) {
        std::future::poll_fn(|context| {
            if let left @ 1.. = self.passes.get() {
                self.passes.set(left - u64::from(left != u64::MAX));
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().expect("a node")
    }
}

/// The bytes that a test sends under a number, which differ from run to run and within each. They are copied in runs: a
/// debug build needs seconds for the bytes of a test if it makes each by itself.
pub(crate) fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    const RUN: usize = 251;
    static SEVENS: [u8; 256 + RUN] = {
        let mut sevens = [0; 256 + RUN];
        let mut at = 0;
        while at < sevens.len() {
            sevens[at] = (7 * at) as u8;
            at += 1;
        }
        sevens
    };
    let mut bytes = Vec::with_capacity(len);
    for run in 0..len.div_ceil(RUN) {
        let from = (number as usize + run) % 256;
        let rest = len - bytes.len();
        bytes.extend_from_slice(&SEVENS[from..from + RUN.min(rest)]);
    }
    bytes
}

/// The sum of all bytes. It adds those of a word at once, which a debug build does in a fifth of the time: first each
/// two that stand side by side, then, in the highest 16 bits of a product, the four sums.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const LOW: u64 = 0xff * ONES;
    let (words, rest) = bytes.as_chunks();
    let mut sum = rest.iter().map(|byte| u64::from(*byte)).sum();
    for word in words {
        let word = u64::from_ne_bytes(*word);
        let pairs = (word & LOW) + (word >> 8 & LOW);
        sum += pairs.wrapping_mul(ONES) >> 48;
    }
    sum
}

/// The byte that blanks consist of.
const BLANK: u8 = 7;

/// Whether these are so many bytes of a blank.
pub(crate) fn is_blank(bytes: &[u8], len: usize) -> bool {
    // Not byte by byte, which a debug build does for seconds.
    bytes == vec![BLANK; len]
}

impl Depot for Keeper {
    async fn keep(&self, number: u64, bytes: Vec<u8>) -> (u64, u64) {
        let _standing = self.enter(number);
        self.gate().await;
        (number, sum(&bytes))
    }

    async fn put(&self, number: u64, bytes: Vec<u8>) {
        let _standing = self.enter(number);
        self.gate().await;
        assert_eq!(bytes, bytes_of(number, bytes.len()), "message {number}");
    }

    async fn put_in_place(&self, number: u64, bytes: InPlace<u8>) {
        let _standing = self.enter(number);
        self.gate().await;
        assert_eq!(bytes.to_vec(), bytes_of(number, bytes.len()), "message {number}");
    }

    async fn panics(&self, number: u64, late: bool, _bytes: Vec<u8>) {
        let _standing = self.enter(number);
        if late {
            self.gate().await;
        }
        // As `panic!` does, but without a line on the screen.
        std::panic::resume_unwind(Box::new(format!("{number} panics")));
    }

    async fn panics_in_place(&self, number: u64, late: bool, bytes: InPlace<u8>) {
        let _standing = self.enter(number);
        if late {
            self.gate().await;
        }
        std::panic::resume_unwind(Box::new(format!("{number} panics with {} bytes", bytes.len())));
    }

    async fn open(&self, open: bool) {
        self.pass(if open { u64::MAX } else { 0 }).await;
    }

    async fn pass(&self, count: u64) {
        self.passes.set(count);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    async fn state(&self) -> (u64, u64, u64, u64) {
        (self.begun.get(), self.standing.get(), self.most.get(), self.disorder.get())
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.node().counted(Counter::ALL[counter as usize])
    }

    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn texts(&self, texts: Vec<String>) -> Vec<String> {
        texts
    }

    async fn blob(&self, bytes: u64) -> Vec<u8> {
        bytes_of(bytes, bytes as usize)
    }

    async fn stall(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    async fn bounce(&self, from: String, to: String, depth: u64, bytes: Vec<u8>) -> u64 {
        if depth == 0 {
            return bytes.len() as u64;
        }
        let back: DepotClient = self.node().connect(&from).await.unwrap();
        back.bounce(to, from, depth - 1, bytes).await.unwrap() + 1
    }

    async fn lend(&self, bytes: InPlace<u8>) -> u64 {
        if bytes.is_lent() {
            self.lent.borrow_mut().push(bytes);
        }
        self.lent.borrow().len() as u64
    }

    async fn give_back(&self, count: u64, elsewhere: bool) {
        let mut lent = self.lent.borrow_mut();
        let left = lent.len() - count as usize;
        let back = lent.split_off(left);
        if elsewhere {
            std::thread::spawn(move || {
                // The node has fallen asleep by then.
                std::thread::sleep(Duration::from_millis(100));
                drop(back);
            });
        }
    }

    async fn forward(&self, tag: u8, items: InPlace<u32>, to: String) -> u64 {
        self.gate().await;
        let other: DepotClient = self.node().connect(&to).await.unwrap();
        let (count, sum, _) = other.sum32(tag, items).await.unwrap();
        count + sum
    }

    async fn sum8(&self, _tag: u8, items: InPlace<u8>) -> (u64, u64, bool) {
        let is_lent = items.is_lent();
        let items = std::thread::spawn(move || items.to_vec()).join().unwrap();
        (items.len() as u64, sum(&items), is_lent)
    }

    async fn sum16(&self, _tag: u8, items: InPlace<u16>) -> (u64, u64, bool) {
        (items.len() as u64, items.iter().map(u64::from).sum(), items.is_lent())
    }

    async fn sum32(&self, _tag: u8, items: InPlace<u32>) -> (u64, u64, bool) {
        let each = |at| u64::from(items.get(at).unwrap());
        (items.len() as u64, (0..items.len()).map(each).sum(), items.is_lent())
    }

    async fn sum_float(&self, _tag: String, items: InPlace<f64>) -> (u64, f64, bool) {
        self.gate().await;
        let mut sum = 0.0;
        items.for_each_piece(|piece| sum += piece.iter().sum::<f64>());
        (items.len() as u64, sum, items.is_lent())
    }

    async fn sum_pairs(&self, _tag: String, items: InPlace<[u64; 2]>) -> (u64, u64, bool) {
        let sum = items.iter().map(|[one, two]| one * 3 + two).sum();
        (items.len() as u64, sum, items.is_lent())
    }

    async fn mirror(&self, items: InPlace<u8>) -> InPlace<u8> {
        items
    }

    async fn resident(&self) -> u64 {
        resident()
    }

    async fn blank(&self, bytes: u64) -> Vec<u8> {
        self.begun.set(self.begun.get() + 1);
        vec![BLANK; bytes as usize]
    }

    async fn blank_in_place(&self, bytes: u64) -> InPlace<u8> {
        vec![BLANK; bytes as usize].into()
    }

    async fn blanks(&self, count: u64, bytes: u64) -> Stream<Vec<u8>> {
        Stream::of((0..count).map(move |_| vec![BLANK; bytes as usize]))
    }
}

/// How a node of the tests is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    pub(crate) waiting: Waiting,
    pub(crate) budget: Option<u64>,
    pub(crate) share: Option<u64>,
    pub(crate) conservative: bool,
}

impl Make {
    pub(crate) const fn new(waiting: Waiting) -> Make {
        Make { waiting, budget: None, share: None, conservative: false }
    }

    pub(crate) const fn budget(self, bytes: u64) -> Make {
        Make { budget: Some(bytes), ..self }
    }

    pub(crate) const fn share(self, bytes: u64) -> Make {
        Make { share: Some(bytes), ..self }
    }

    pub(crate) const fn conservative(self) -> Make {
        Make { conservative: true, ..self }
    }

    /// Makes one.
    pub(crate) fn node(self, name: &str, place: &Path) -> Node {
        let Make { waiting, budget, share, conservative } = self;
        let builder = Node::builder(name).program(PROGRAM).directory(place).waiting(waiting);
        let builder = builder.conservative(conservative).max_message_bytes(MESSAGE_BYTES_MAX);
        let builder = match budget {
            Some(bytes) => builder.budget(bytes),
            None => builder,
        };
        let builder = match share {
            Some(bytes) => builder.session_budget(bytes),
            None => builder,
        };
        builder.build().unwrap()
    }

    fn text(self) -> String {
        let Make { waiting, budget, share, conservative } = self;
        let [budget, share] = [budget, share].map(|bytes| bytes.unwrap_or(0));
        format!("{waiting:?} {budget} {share} {conservative}")
    }

    fn parse(words: &[&str]) -> Make {
        let [waiting, budget, share, conservative] = words[..] else { panic!("{words:?}") };
        let waiting = match waiting {
            "Polling" => Waiting::Polling,
            "Sleeping" => Waiting::Sleeping,
            _ => Waiting::Adaptive,
        };
        let bytes = |text: &str| Some(text.parse().unwrap()).filter(|bytes| *bytes != 0);
        let conservative = conservative == "true";
        Make { waiting, budget: bytes(budget), share: bytes(share), conservative }
    }
}

/// Runs a test against a depot with an open gate, once for each kind of pair of nodes.
pub(crate) fn with_each_kind(test: impl AsyncFn(&DepotClient)) {
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make, make);
        stand.open(true);
        stand.node.block_on(async { test(&stand.client().await).await });
    }
}

/// Has a node serve a depot.
pub(crate) fn serve(node: &Node) -> Rc<Keeper> {
    let keeper = Rc::new(Keeper::default());
    *keeper.node.borrow_mut() = Some(node.clone());
    node.serve(DepotServer::shared(Rc::clone(&keeper))).unwrap();
    keeper
}

/// A depot's node that runs elsewhere.
pub(crate) fn started(kind: Kind, name: &str, place: &Path, make: Make) -> Server {
    let (own, at) = (name.to_owned(), place.to_owned());
    let other = || Other::start(&format!("depot {name} {}", make.text()), place);
    Server::of(kind, other, move |quit, ready| run(&own, &at, make, quit, ready))
}

fn run(name: &str, place: &Path, make: Make, quit: Signal, ready: impl FnOnce()) {
    let node = make.node(name, place);
    let keeper = serve(&node);
    ready();
    node.block_on(quit);
    *keeper.node.borrow_mut() = None;
}

/// Plays the part of a depot.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let [what @ ("depot" | "flood"), name, make @ ..] = &words[..] else { return false };
    if *what == "flood" {
        crate::long::flood(name, place, Make::parse(make));
        return true;
    }
    run(name, place, Make::parse(make), input_ends(), || say("serving"));
    true
}

/// A client's node and an observer's beside a depot.
pub(crate) struct Stand {
    pub(crate) node: Node,
    pub(crate) server: Option<Server>,
    pub(crate) place: PathBuf,
    pub(crate) id: String,
    watcher: DepotHandle,
    _directory: Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind, server: Make, client: Make) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let server = started(kind, &format!("depot/{id}"), &place, server);
        let node = client.node(&format!("client/{id}"), &place);
        let watcher = upbeat::handle::builder().program(PROGRAM).directory(&place);
        let watcher = watcher.connect(&format!("depot/{id}")).unwrap();
        Stand { node, server: Some(server), place, id, watcher, _directory: directory }
    }

    pub(crate) fn name(&self) -> String {
        format!("depot/{}", self.id)
    }

    pub(crate) async fn client(&self) -> DepotClient {
        self.node.connect(&self.name()).await.unwrap()
    }

    /// Another who asks, in a session that holds nothing. It blocks its thread, so it asks from
    /// another one than a node's.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(DepotHandle) -> R + Send + 'static,
    ) -> R {
        let watcher = self.watcher.clone();
        std::thread::spawn(move || ask(watcher)).join().unwrap()
    }

    pub(crate) fn state(&self) -> (u64, u64, u64, u64) {
        self.ask(|depot| depot.blocking().state().unwrap())
    }

    pub(crate) fn open(&self, open: bool) {
        self.ask(move |depot| depot.blocking().open(open).unwrap());
    }

    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.ask(move |depot| depot.blocking().counted(counter as u64).unwrap())
    }

    /// Waits until what the depot holds does not change any more.
    pub(crate) async fn settled(&self) -> (u64, u64, u64, u64) {
        let mut before = self.state();
        let mut same = 0;
        while same < 10 {
            upbeat::sleep(Duration::from_millis(5)).await;
            let now = self.state();
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        before
    }
}

/// The peer is lost: what a call may say then.
pub(crate) fn is_lost(error: &CallError) -> bool {
    matches!(error, CallError::Unknown(_) | CallError::NotSent(_))
}
