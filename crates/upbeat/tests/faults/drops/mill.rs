//! A service whose handlers wait for all that there is to wait for, and notes what they do when.

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{Kind, Server};
use crate::common::{Directory, PROGRAM, Signal, node};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::sync::Mutex;
use upbeat::{Counter, InPlace, Node, Waiting, yield_now};

/// Bytes that a server holds of requests whose handlers wait: so few that others wait for room.
pub(crate) const BUDGET: u64 = 64 << 10;

/// Calls of a worker's round at most.
pub(crate) const ROUND: u64 = 64;

/// The number of a call: a worker's, in a round.
pub(crate) fn ticket(worker: u64, round: u64, number: u64) -> u64 {
    (worker << 48) + round * ROUND + number
}

/// Returns the result of a handler for a ticket.
pub(crate) fn answer(ticket: u64) -> u64 {
    ticket.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[upbeat::service]
pub(crate) trait Mill {
    /// Is done when it is first polled.
    async fn grind(&self, ticket: u64) -> u64;
    async fn nap(&self, ticket: u64, us: u64) -> u64;
    /// Takes the lock and yields so often with it.
    async fn hold(&self, ticket: u64, yields: u64) -> u64;
    /// Takes the lock before anything else of the handler runs, and yields so often with it.
    async fn again(&self, ticket: u64, yields: u64) -> u64;
    /// Works like `again`, but the server sends the request back until the lock is free.
    #[method(nack)]
    async fn back(&self, ticket: u64, yields: u64) -> u64;
    /// Naps elsewhere.
    async fn pass_on(&self, ticket: u64, us: u64) -> u64;
    async fn sack(&self, ticket: u64, us: u64, bytes: Vec<u8>) -> Vec<u8>;
    /// Works like `sack`, but the handler reads the bytes in place.
    async fn in_place(&self, ticket: u64, us: u64, bytes: InPlace<u8>) -> InPlace<u8>;
    /// Never ends by itself.
    async fn stand(&self);
    /// Nothing of this worker's happens any more of this round or one before: those of its calls
    /// that returned have this bit, and those that did so behind another node.
    async fn fence(&self, worker: u64, round: u64, returned: u64, passed: u64);
    async fn state(&self) -> State;
    async fn state_of(&self, node: String) -> State;
    async fn counted(&self, node: Option<String>, counter: u64) -> u64;
}

/// The counts of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct State {
    pub(crate) begun: u64,
    pub(crate) finished: u64,
    /// All that were begun and are no more.
    pub(crate) ended: u64,
    /// Effects of calls that were known to be over.
    pub(crate) late: u64,
    pub(crate) twice: u64,
    /// Calls that returned and never ran.
    pub(crate) missing: u64,
    pub(crate) is_free: bool,
    pub(crate) live_bytes: u64,
    /// Of its own, and of what it shares with peers.
    pub(crate) private_kib: u64,
    pub(crate) shared_kib: u64,
    pub(crate) descriptors: u64,
    /// Of segments.
    pub(crate) mappings: u64,
}

/// The record of a worker's calls.
#[derive(Clone, Copy, Default)]
struct Row {
    /// The round that runs, and those that have begun in it.
    round: u64,
    begun: u64,
    /// The last round that is over.
    over: u64,
}

struct Miller {
    node: RefCell<Option<Node>>,
    next: RefCell<Option<MillClient>>,
    stone: Mutex<()>,
    rows: RefCell<Vec<Row>>,
    seen: RefCell<State>,
    ended: Cell<u64>,
}

/// A handler's work.
struct Work<'m> {
    miller: &'m Miller,
    ticket: u64,
}

impl Work<'_> {
    /// Does something that others may see.
    fn effect(&self) {
        let row = self.miller.row(self.ticket >> 48);
        let round = self.ticket % (1 << 48) / ROUND;
        self.miller.seen.borrow_mut().late += u64::from(round <= row.over);
    }

    fn finish(self) -> u64 {
        self.effect();
        self.miller.seen.borrow_mut().finished += 1;
        answer(self.ticket)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.miller.ended.set(self.miller.ended.get() + 1);
    }
}

impl Miller {
    fn new() -> Rc<Miller> {
        Rc::new(Miller {
            node: RefCell::default(),
            next: RefCell::default(),
            stone: Mutex::named("stone", ()),
            rows: RefCell::default(),
            seen: RefCell::default(),
            ended: Cell::default(),
        })
    }

    fn row(&self, worker: u64) -> Row {
        self.rows.borrow().get(worker as usize).copied().unwrap_or_default()
    }

    fn set_row(&self, worker: u64, row: Row) {
        let mut rows = self.rows.borrow_mut();
        let len = rows.len().max(worker as usize + 1);
        rows.resize(len, Row::default());
        rows[worker as usize] = row;
    }

    fn begin(&self, ticket: u64) -> Work<'_> {
        let (worker, round) = (ticket >> 48, ticket % (1 << 48) / ROUND);
        let mut row = self.row(worker);
        if round > row.round {
            row = Row { round, begun: 0, ..row };
        }
        let bit = 1 << (ticket % ROUND);
        let mut seen = self.seen.borrow_mut();
        seen.begun += 1;
        seen.twice += u64::from(round == row.round && row.begun & bit != 0);
        row.begun |= bit;
        drop(seen);
        self.set_row(worker, row);
        let work = Work { miller: self, ticket };
        work.effect();
        work
    }

    async fn yields(&self, work: &Work<'_>, times: u64) {
        let _held = self.stone.lock().await;
        for _ in 0..times {
            work.effect();
            yield_now().await;
        }
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().expect("a node")
    }

    fn next(&self) -> Option<MillClient> {
        self.next.borrow().clone()
    }

    async fn other(&self, name: &str) -> MillClient {
        self.node().connect(name).await.unwrap()
    }
}

/// Segments that this process has mapped.
pub(crate) fn mappings() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:")).count() as u64
}

async fn nap(us: u64) {
    if us > 0 {
        upbeat::sleep(Duration::from_micros(us)).await;
    }
}

#[upbeat::service]
impl Mill for Miller {
    async fn grind(&self, ticket: u64) -> u64 {
        self.begin(ticket).finish()
    }

    #[method(budget = "1s")]
    async fn nap(&self, ticket: u64, us: u64) -> u64 {
        let work = self.begin(ticket);
        nap(us).await;
        work.finish()
    }

    #[method(budget = "1s")]
    async fn hold(&self, ticket: u64, yields: u64) -> u64 {
        let work = self.begin(ticket);
        self.yields(&work, yields).await;
        work.finish()
    }

    #[method(needs(self.stone), budget = "1s")]
    async fn again(&self, ticket: u64, yields: u64) -> u64 {
        let work = self.begin(ticket);
        self.yields(&work, yields).await;
        work.finish()
    }

    #[method(needs(self.stone), budget = "1s")]
    async fn back(&self, ticket: u64, yields: u64) -> u64 {
        let work = self.begin(ticket);
        self.yields(&work, yields).await;
        work.finish()
    }

    #[method(budget = "1s")]
    async fn pass_on(&self, ticket: u64, us: u64) -> u64 {
        let work = self.begin(ticket);
        let next = self.next().expect("another behind it");
        match next.nap(ticket, us).await {
            Ok(value) => assert_eq!(value, answer(ticket)),
            // Its time is over, and with it this one's.
            Err(_) => std::future::pending().await,
        }
        work.finish()
    }

    #[method(budget = "1s")]
    async fn sack(&self, ticket: u64, us: u64, bytes: Vec<u8>) -> Vec<u8> {
        let work = self.begin(ticket);
        nap(us).await;
        work.finish();
        bytes
    }

    #[method(budget = "1s")]
    async fn in_place(&self, ticket: u64, us: u64, bytes: InPlace<u8>) -> InPlace<u8> {
        let work = self.begin(ticket);
        nap(us).await;
        work.finish();
        bytes
    }

    async fn stand(&self) {
        self.seen.borrow_mut().begun += 1;
        let _work = Work { miller: self, ticket: 0 };
        std::future::pending().await
    }

    #[method(budget = "1s")]
    async fn fence(&self, worker: u64, round: u64, returned: u64, passed: u64) {
        let row = self.row(worker);
        let begun = if row.round == round { row.begun } else { 0 };
        self.set_row(worker, Row { over: round, ..row });
        self.seen.borrow_mut().missing += u64::from((returned & !begun).count_ones());
        if let Some(next) = self.next() {
            next.fence(worker, round, passed, 0).await.unwrap();
        }
    }

    #[method(budget = "1s")]
    async fn state(&self) -> State {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        State {
            ended: self.ended.get(),
            is_free: self.stone.try_lock().is_some(),
            live_bytes: crate::ALLOCATOR.bytes(),
            private_kib: kib("RssAnon:"),
            shared_kib: kib("RssShmem:"),
            descriptors: descriptors(),
            mappings: mappings(),
            ..self.seen.borrow().clone()
        }
    }

    #[method(budget = "1s")]
    async fn state_of(&self, node: String) -> State {
        self.other(&node).await.state().await.unwrap()
    }

    #[method(budget = "1s")]
    async fn counted(&self, node: Option<String>, counter: u64) -> u64 {
        match node {
            None => self.node().counted(Counter::ALL[counter as usize]),
            Some(node) => self.other(&node).await.counted(None, counter).await.unwrap(),
        }
    }
}

/// Returns the number of open descriptors of this process, without those of `/proc`: any thread may have one of them open
/// for a moment, to ask the kernel.
fn descriptors() -> u64 {
    let links = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.unwrap().path().read_link().ok());
    links.filter(|link| !link.starts_with("/proc")).count() as u64
}

/// Serves in this thread until `quit` is given; what it passes on goes to the next, if there is one.
fn serve(name: &str, next: Option<&str>, place: &Path, quit: Signal, ready: impl FnOnce()) {
    let builder = Node::builder(name).program(PROGRAM).directory(place);
    let node = builder.budget(BUDGET).session_budget(BUDGET).build().unwrap();
    let miller = Miller::new();
    *miller.node.borrow_mut() = Some(node.clone());
    if let Some(next) = next {
        *miller.next.borrow_mut() = Some(node.block_on(node.connect(next)).unwrap());
    }
    node.serve(MillServer::shared(Rc::clone(&miller))).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
    miller.next.take();
    miller.node.take();
}

fn started(kind: Kind, name: &str, next: Option<&str>, place: &Path) -> Server {
    let part = format!("mill {name} {}", next.unwrap_or_default());
    let (own, behind, at) = (name.to_owned(), next.map(str::to_owned), place.to_owned());
    let local = move |quit, ready: &dyn Fn()| serve(&own, behind.as_deref(), &at, quit, ready);
    Server::of(kind, || Other::start(part.trim(), place), local)
}

/// Plays the part `mill NAME`, or `mill NAME NEXT`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let ["mill", name, ref next @ ..] = words[..] else { return false };
    serve(name, next.first().copied(), place, input_ends(), || say("serving"));
    true
}

/// A caller's node, a server, and another that is called by that.
pub(crate) struct Stand {
    pub(crate) mill: MillClient,
    pub(crate) second: MillClient,
    pub(crate) node: Node,
    pub(crate) place: PathBuf,
    names: [String; 2],
    _servers: [Server; 2],
    _directory: Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let names = [1, 2].map(|at| format!("{at}/{id}"));
        let second = started(kind, &names[1], None, &place);
        let first = started(kind, &names[0], Some(&names[1]), &place);
        let node = node(&format!("client/{id}"), &place, Waiting::Adaptive);
        let [mill, behind] = [0, 1].map(|at| node.block_on(node.connect(&names[at])).unwrap());
        let _servers = [first, second];
        Stand { mill, second: behind, node, place, names, _servers, _directory: directory }
    }

    pub(crate) fn name(&self, at: usize) -> String {
        self.names[at].clone()
    }

    /// Returns a counter of one server, asked of the second one.
    pub(crate) async fn counted(&self, at: usize, counter: Counter) -> u64 {
        let of = (at == 0).then(|| self.name(0));
        self.second.counted(of, counter as u64).await.unwrap()
    }
}
