//! A service whose handlers wait for all that there is to wait for, and nodes that serve it.

use crate::bank::{BankServer, Clerk, DeskServer, Vault};
use crate::common::process::{Other, input_ends, say};
use crate::common::server::{Kind, Server};
use crate::common::{Directory, PROGRAM, SOON, Signal, yield_now};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat::{Counter, Execution, Mutex, Node, Waiting};

#[upbeat::service]
pub(crate) trait Shop {
    async fn null(&self);
    /// Enters the number, takes the lock, yields so many times, and says how many were entered.
    async fn buy(&self, number: u64, yields: u64) -> u64;
    /// Holds the lock for so long.
    async fn hold(&self, ms: u64);
    async fn nap(&self, ms: u64);
    /// Waits for an answer of its own node's, which is this one.
    async fn relay(&self, node: String);
    /// Computes for so long at least, with checkpoints or without, behind a yield or not.
    async fn spin(&self, us: u64, checkpoints: bool, late: bool);
    async fn panics(&self);
    /// Notes how long this call, sent at that time of this node's, has waited.
    async fn mark(&self, sent_ns: u64);
    /// The numbers that were entered, in order.
    async fn entered(&self) -> Vec<u64>;
    #[oneway]
    async fn note(&self, number: u64, yields: u64);
    async fn counted(&self, counter: u64) -> u64;
    /// Methods that ran beyond their budgets, and how often.
    async fn over_runs(&self) -> Vec<(String, u64)>;
}

pub(crate) struct Keeper {
    node: RefCell<Option<Node>>,
    entered: RefCell<Vec<u64>>,
    till: Mutex<()>,
    pub(crate) waited: RefCell<Vec<u64>>,
}

impl Default for Keeper {
    fn default() -> Keeper {
        let till = Mutex::named("till", ());
        Keeper {
            node: RefCell::default(),
            entered: RefCell::default(),
            till,
            waited: RefCell::default(),
        }
    }
}

/// Arithmetic for a microsecond or a few.
pub(crate) fn grind() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(1) {
        show_time();
    }
}

/// The processor's time of the thread that computes, in nanoseconds: what it does not have while
/// others have the processor does not count.
pub(crate) static TIME: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread shows its own: one does.
    pub(crate) static SHOWS: Cell<bool> = const { Cell::new(false) };
}

/// Shows this thread's.
fn show_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let time = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    if SHOWS.get() {
        TIME.store(time, Ordering::SeqCst);
    }
    time
}

impl Keeper {
    fn node(&self) -> Node {
        self.node.borrow().clone().expect("a node")
    }

    async fn yields(&self, times: u64) {
        for _ in 0..times {
            yield_now().await;
        }
    }
}

impl Shop for Keeper {
    async fn null(&self) {}

    async fn buy(&self, number: u64, yields: u64) -> u64 {
        self.entered.borrow_mut().push(number);
        let _held = self.till.lock().await;
        self.yields(yields).await;
        self.entered.borrow().len() as u64
    }

    async fn hold(&self, ms: u64) {
        let _held = self.till.lock().await;
        upbeat::sleep(Duration::from_millis(ms)).await;
    }

    async fn nap(&self, ms: u64) {
        upbeat::sleep(Duration::from_millis(ms)).await;
    }

    async fn relay(&self, node: String) {
        let shop: ShopClient = self.node().connect(&node).await.unwrap();
        shop.null().await.unwrap();
    }

    async fn spin(&self, us: u64, checkpoints: bool, late: bool) {
        self.yields(u64::from(late)).await;
        for _ in 0..us {
            if checkpoints {
                upbeat::checkpoint().await;
            }
            grind();
        }
    }

    async fn panics(&self) {
        // As `panic!` does, but without a line on the screen.
        std::panic::resume_unwind(Box::new("it panics"));
    }

    async fn mark(&self, sent_ns: u64) {
        self.waited.borrow_mut().push(show_time().saturating_sub(sent_ns));
    }

    async fn entered(&self) -> Vec<u64> {
        self.entered.borrow().clone()
    }

    async fn note(&self, number: u64, yields: u64) {
        self.yields(yields).await;
        self.entered.borrow_mut().push(number);
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.node().counted(Counter::ALL[counter as usize])
    }

    async fn over_runs(&self) -> Vec<(String, u64)> {
        let named = |one: upbeat::OverRun| (format!("{}.{}", one.service, one.method), one.count);
        self.node().over_runs().into_iter().map(named).collect()
    }
}

/// A shop's node that runs elsewhere.
fn started(kind: Kind, name: &str, place: &Path, execution: Option<Execution>) -> Server {
    let (own, at) = (name.to_owned(), place.to_owned());
    // The environment says it there, and the builder here.
    let mut under = Command::new("env");
    under.args(execution.map(|execution| format!("UPBEAT_EXECUTION={execution}")));
    let other = || Other::start_under(under, &format!("shop {name}"), place);
    Server::of(kind, other, move |quit, ready| run(&own, &at, execution, quit, ready))
}

/// Has a node serve a shop.
pub(crate) fn serve(node: &Node) -> Rc<Keeper> {
    let keeper = Rc::new(Keeper::default());
    *keeper.node.borrow_mut() = Some(node.clone());
    node.serve(ShopServer::shared(Rc::clone(&keeper))).unwrap();
    node.serve(BankServer::new(Vault::default())).unwrap();
    node.serve(DeskServer::new(Clerk::default())).unwrap();
    keeper
}

fn run(name: &str, place: &Path, execution: Option<Execution>, quit: Signal, ready: impl FnOnce()) {
    let builder = Node::builder(name).program(PROGRAM).directory(place);
    let builder = builder.waiting(Waiting::Adaptive).sampling(0);
    let builder = match execution {
        Some(execution) => builder.execution(execution),
        None => builder,
    };
    let node = builder.build().unwrap();
    let keeper = serve(&node);
    ready();
    node.block_on(quit);
    *keeper.node.borrow_mut() = None;
}

/// Plays the part of a shop.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let ["shop", name] = words[..] else { return false };
    run(name, place, None, input_ends(), || say("serving"));
    true
}

/// A client's node beside a shop.
pub(crate) struct Stand {
    pub(crate) node: Node,
    pub(crate) place: PathBuf,
    id: String,
    _server: Server,
    _directory: Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind, execution: Option<Execution>) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let server = started(kind, &format!("shop/{id}"), &place, execution);
        let node = crate::common::node(&format!("client/{id}"), &place, Waiting::Adaptive);
        Stand { node, place, id, _server: server, _directory: directory }
    }

    pub(crate) fn name(&self) -> String {
        format!("shop/{}", self.id)
    }

    pub(crate) async fn client(&self) -> ShopClient {
        self.node.connect(&self.name()).await.unwrap()
    }
}

/// Waits until a shop has counted so many.
#[track_caller]
pub(crate) fn until_counted(
    shop: &ShopClient,
    counter: Counter,
    least: u64,
) -> impl Future<Output = ()> {
    let (at, begun) = (std::panic::Location::caller(), Instant::now());
    async move {
        while counted(shop, counter).await < least {
            assert!(begun.elapsed() < SOON, "what is waited for at {at} is never counted");
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Returns a counter of the shop.
pub(crate) async fn counted(shop: &ShopClient, counter: Counter) -> u64 {
    shop.counted(counter as u64).await.unwrap()
}
