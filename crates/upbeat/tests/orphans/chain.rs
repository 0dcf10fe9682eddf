//! Nodes that call each other, and what they know of their handlers.

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{Kind, Server};
use crate::common::{Directory, Signal, node};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Node, Waiting, time_left};

pub(crate) const A_WHILE: Duration = Duration::from_secs(20);

#[upbeat::service]
pub(crate) trait Chain {
    /// Calls on through these nodes; the last one's handler never ends by itself.
    async fn reach(&self, through: Vec<String>, waits: bool);
    /// Calls on like `reach`, but the first node stops as a whole for so long when it has called.
    async fn reach_and_stall(&self, through: Vec<String>, ms: u64);
    /// The microseconds that each handler of the chain has left, with so many for the first call.
    async fn left(
        &self,
        through: Vec<String>,
        own_us: Option<u64>,
        waits: bool,
    ) -> Vec<Option<u64>>;
    /// Handlers that stand in these methods here, and those that ever did.
    async fn standing(&self) -> (u64, u64);
    async fn counted(&self, counter: u64) -> u64;
    async fn nap(&self, ms: u64, value: u64) -> u64;
    /// Stops the whole node for so long.
    #[oneway]
    async fn hold_up(&self, ms: u64);
    /// Waits so long and is counted then, also without its caller: for two seconds at most.
    async fn finish(&self, ms: u64);
    /// Works like `finish`, with more time.
    async fn finish_late(&self, ms: u64);
    async fn finished(&self) -> u64;
    /// Waits so long and is counted then: for half a second at most when its sender is gone.
    #[oneway]
    async fn begin(&self, ms: u64);
    /// Waits like `begin`, but the method sets no bound.
    #[oneway]
    async fn begin_unbounded(&self, ms: u64);
    /// The last of the chain asks for so much time, and answers after a while with what it was told. The
    /// others call on with a deadline of their own, if they are given one and how far it goes.
    async fn more(
        &self,
        through: Vec<String>,
        own: Option<(u64, Option<u64>)>,
        wants_ms: u64,
        naps_ms: u64,
    ) -> Result<u64, String>;
}

/// The implementation of `Chain`.
#[derive(Default)]
struct Knot {
    node: RefCell<Option<Node>>,
    standing: Rc<Cell<u64>>,
    begun: Cell<u64>,
    finished: Cell<u64>,
}

/// Counts while it stands.
struct Standing(Rc<Cell<u64>>);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Knot {
    fn stand(&self) -> Standing {
        self.begun.set(self.begun.get() + 1);
        self.standing.set(self.standing.get() + 1);
        Standing(Rc::clone(&self.standing))
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().unwrap()
    }

    /// The next of the chain and those behind it.
    async fn next(&self, mut through: Vec<String>) -> Option<(ChainClient, Vec<String>)> {
        if through.is_empty() {
            return None;
        }
        let next = through.remove(0);
        Some((self.node().connect(&next).await.unwrap(), through))
    }
}

#[upbeat::service]
impl Chain for Knot {
    #[method(budget = "10s")]
    async fn reach(&self, through: Vec<String>, waits: bool) {
        if waits {
            upbeat::sleep(Duration::from_micros(100)).await;
        }
        // A handler that has waited counts as standing when it is polled as a task.
        let _standing = self.stand();
        match self.next(through).await {
            // The callee may report the end of the time first, since it has the same deadline.
            Some((next, rest)) => match next.reach(rest, waits).await {
                Err(CallError::Deadline(_)) => std::future::pending().await,
                other => other.unwrap(),
            },
            None => std::future::pending().await,
        }
    }

    async fn reach_and_stall(&self, through: Vec<String>, ms: u64) {
        let _standing = self.stand();
        let (next, rest) = self.next(through).await.unwrap();
        let call = next.reach(rest, false).try_send().unwrap();
        let stalls = async move {
            // When what was sent is on its way.
            upbeat::sleep(Duration::from_millis(1)).await;
            std::thread::sleep(Duration::from_millis(ms));
        };
        drop(self.node().spawn(stalls));
        let _ = call.await;
        std::future::pending().await
    }

    async fn left(
        &self,
        through: Vec<String>,
        own_us: Option<u64>,
        waits: bool,
    ) -> Vec<Option<u64>> {
        let us = |left: Duration| left.as_micros() as u64;
        let mut all = vec![time_left().map(us)];
        if waits {
            upbeat::sleep(Duration::from_micros(100)).await;
        }
        if let Some((next, rest)) = self.next(through).await {
            let call = next.left(rest, None, waits);
            let behind = match own_us {
                Some(own) => call.deadline(Duration::from_micros(own)).await,
                None => call.await,
            };
            all.extend(behind.unwrap());
        }
        all
    }

    async fn standing(&self) -> (u64, u64) {
        (self.standing.get(), self.begun.get())
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.node().counted(Counter::ALL[counter as usize])
    }

    #[method(outlives = "2s")]
    async fn finish(&self, ms: u64) {
        let _standing = self.stand();
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.finished.set(self.finished.get() + 1);
    }

    #[method(outlives = "20s")]
    async fn finish_late(&self, ms: u64) {
        self.finish(ms).await;
    }

    async fn finished(&self) -> u64 {
        self.finished.get()
    }

    #[method(outlives = "500ms")]
    async fn begin(&self, ms: u64) {
        self.begin_unbounded(ms).await;
    }

    async fn begin_unbounded(&self, ms: u64) {
        let _standing = self.stand();
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.finished.set(self.finished.get() + 1);
    }

    #[method(budget = "10s")]
    async fn more(
        &self,
        through: Vec<String>,
        own: Option<(u64, Option<u64>)>,
        wants_ms: u64,
        naps_ms: u64,
    ) -> Result<u64, String> {
        let _standing = self.stand();
        let Some((next, rest)) = self.next(through).await else {
            let told = upbeat::extend(Duration::from_millis(wants_ms)).await;
            upbeat::sleep(Duration::from_millis(naps_ms)).await;
            let told = told.map_err(|error| error.to_string())?;
            return Ok(told.as_millis() as u64);
        };
        let call = next.more(rest, own, wants_ms, naps_ms);
        let ms = Duration::from_millis;
        let call = match own {
            None => call,
            Some((after, None)) => call.deadline(ms(after)),
            Some((after, Some(most))) => call.deadline(ms(after)).extendable(ms(most)),
        };
        match call.await {
            Ok(left) => Ok(left),
            Err(CallError::Method(text)) => Err(text),
            // The callee may report the end of the time first, since it has the same deadline.
            Err(CallError::Deadline(_)) => std::future::pending().await,
            Err(error) => Err(error.to_string()),
        }
    }

    async fn hold_up(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    async fn nap(&self, ms: u64, value: u64) -> u64 {
        let _standing = self.stand();
        if ms > 0 {
            upbeat::sleep(Duration::from_millis(ms)).await;
        }
        value
    }
}

/// Serves in this thread until `quit` is given.
fn serve(name: &str, place: &Path, quit: Signal, ready: impl FnOnce()) {
    let node = node(name, place, Waiting::Adaptive);
    let knot = Rc::new(Knot::default());
    *knot.node.borrow_mut() = Some(node.clone());
    node.serve(ChainServer::shared(Rc::clone(&knot))).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
    *knot.node.borrow_mut() = None;
}

pub(crate) fn started(kind: Kind, name: &str, place: &Path) -> Server {
    let (own, at) = (name.to_owned(), place.to_owned());
    let other = || Other::start(&format!("serve {name}"), place);
    Server::of(kind, other, move |quit, ready| serve(&own, &at, quit, ready))
}

/// Sends a one-way message as a node of its own, and lives on until its input ends.
fn send(method: &str, ms: &str, server: &str, place: &Path) {
    let node = node("sender", place, Waiting::Adaptive);
    node.block_on(async {
        let chain: ChainClient = node.connect(server).await.unwrap();
        let ms = ms.parse().unwrap();
        match method {
            "begin" => chain.begin(ms).await.unwrap(),
            _ => chain.begin_unbounded(ms).await.unwrap(),
        }
    });
    say("sent");
    node.block_on(std::future::pending::<()>());
}

/// Plays the part `serve NAME`, `send METHOD MS NAME`, or `call NAME THROUGH…`.
pub(crate) fn play(part: &str, place: &Path) {
    let words: Vec<&str> = part.split(' ').collect();
    let quit = input_ends();
    match words[..] {
        ["serve", name] => serve(name, place, quit, || say("serving")),
        ["send", method, ms, name] => send(method, ms, name, place),
        ["call", name, first, ref through @ ..] => {
            let node = node(name, place, Waiting::Adaptive);
            let through: Vec<String> = through.iter().map(|name| (*name).to_owned()).collect();
            node.block_on(async {
                let chain: ChainClient = node.connect(first).await.unwrap();
                say("calling");
                if through == ["finish"] {
                    return chain.finish(1_000).await.unwrap();
                }
                if through == ["more"] {
                    let call = chain.more(vec![], None, 60_000, 60_000).deadline(A_WHILE);
                    let told = call.extendable(3 * A_WHILE).await;
                    panic!("{told:?}");
                }
                chain.reach(through, true).await.unwrap();
            });
        }
        _ => panic!("there is no part {part}"),
    }
}

/// A caller's node and a chain of servers.
pub(crate) struct Stand {
    pub(crate) node: Node,
    pub(crate) servers: Vec<Server>,
    pub(crate) names: Vec<String>,
    pub(crate) place: PathBuf,
    _directory: Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind, length: usize) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let names: Vec<String> = (1..=length).map(|at| format!("{at}/{name}")).collect();
        let servers = names.iter().map(|name| started(kind, name, &place)).collect();
        let node = node(&format!("client/{name}"), &place, Waiting::Adaptive);
        Stand { node, servers, names, place, _directory: directory }
    }

    /// The names behind the first.
    pub(crate) fn behind(&self) -> Vec<String> {
        self.names[1..].to_vec()
    }

    pub(crate) async fn client(&self, at: usize) -> ChainClient {
        self.node.connect(&self.names[at]).await.unwrap()
    }

    /// Waits until so many handlers stand at each of these.
    pub(crate) async fn standing(&self, at: impl IntoIterator<Item = usize>, count: u64) {
        let began = Instant::now();
        for at in at {
            let chain = self.client(at).await;
            while chain.standing().await.unwrap().0 != count {
                assert!(began.elapsed() < A_WHILE, "{at}: {:?}", chain.standing().await);
                upbeat::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    pub(crate) async fn counted(&self, at: usize, counter: Counter) -> u64 {
        self.client(at).await.counted(counter as u64).await.unwrap()
    }
}
