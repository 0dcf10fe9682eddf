//! Nodes that call each other, in other threads and processes.

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{Kind, Server};
use crate::common::{Directory, Signal, node};
use crate::orphans::knot::{ChainClient, ChainServer, Knot};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{Counter, Node, Waiting};

pub(crate) const A_WHILE: Duration = Duration::from_secs(20);

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
    let other = || Other::start(&format!("chain serve {name}"), place);
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

/// Plays the part `chain serve NAME`, `chain send METHOD MS NAME`, or `chain call NAME THROUGH…`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(part) = part.strip_prefix("chain ") else { return false };
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
    true
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
