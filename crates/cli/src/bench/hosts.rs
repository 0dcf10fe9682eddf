//! Nodes on both sides: serving nodes and calling nodes.
//!
//! A node is driven only during its own rounds, so that the floors between the rounds use the same
//! two threads. The calling side ends a round by a last call, `rest`, and the other side's node then
//! leaves its loop. Sessions last from round to round.

use crate::bench::control::Job;
use crate::bench::echo::{EchoClient, EchoHandle, EchoServer, EchoService, Rest};
use crate::bench::error::BenchError;
use crate::bench::ground::{Ground, MARK_LINE, WAITS_LINE};
use crate::bench::pair::Pair;
use crate::bench::pin;
use crate::bench::timing::{Round, Work};
use crate::bench::waits::{Condition, NodeCounts, Waits};
use crate::keys;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use upbeat::export::ReadError;
use upbeat::{Builder, CallError, Counter, Identity, Node, Waiting};

/// The longest time that a node of the other process may need to start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The program to which all nodes of a benchmark belong.
pub(crate) const PROGRAM: &str = "upbeat-bench";

/// How the nodes of a case wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nodes poll for ever.
    Polling,
    /// Nodes sleep whenever they have no work.
    Sleeping,
    /// Nodes poll for a while, then sleep, which is the default of nodes.
    Adaptive,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 3] = [Policy::Polling, Policy::Sleeping, Policy::Adaptive];

    /// Returns the policy's word in the path of a case.
    pub fn word(self) -> &'static str {
        match self {
            Policy::Polling => "polling",
            Policy::Sleeping => "sleeping",
            Policy::Adaptive => "adaptive",
        }
    }

    /// Returns the condition of operations one after another between nodes of this policy.
    pub fn condition(self) -> Condition {
        match self {
            Policy::Polling => Condition::Polling,
            Policy::Sleeping => Condition::Sleeping,
            Policy::Adaptive => Condition::Any,
        }
    }

    fn waiting(self) -> Waiting {
        match self {
            Policy::Polling => Waiting::Polling,
            Policy::Sleeping => Waiting::Sleeping,
            Policy::Adaptive => Waiting::Adaptive,
        }
    }
}

/// How the nodes of a case send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nodes send without reserving room, which is the default of nodes.
    Optimistic,
    /// Nodes reserve room for every message that is not short.
    Conservative,
}

impl Flow {
    /// Both ways of sending.
    pub const BOTH: [Flow; 2] = [Flow::Optimistic, Flow::Conservative];

    /// Returns the word in the path of a case.
    pub fn word(self) -> &'static str {
        match self {
            Flow::Optimistic => "optimistic",
            Flow::Conservative => "conservative",
        }
    }
}

/// Returns a function for `map_err` that names the failed action `act`.
pub fn refused<E: std::fmt::Display>(act: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Runtime { act, text: error.to_string() }
}

/// Creates a node. Without a directory no other process can reach the node.
pub fn node(name: &str, directory: Option<&Path>, policy: Policy) -> Result<Node, BenchError> {
    builder(name, directory, policy).build().map_err(refused("a node"))
}

/// Returns a builder of a node that sends in this way, regardless of the environment.
fn flowing(name: &str, directory: &Path, policy: Policy, flow: Flow) -> Builder {
    builder(name, Some(directory), policy).conservative(flow == Flow::Conservative)
}

/// The size of the longest message of a benchmark, which has 64 MiB and its count.
const LONGEST: usize = 65 << 20;

/// Returns a builder with the properties of all nodes of benchmarks.
pub fn builder(name: &str, directory: Option<&Path>, policy: Policy) -> Builder {
    let builder = Node::builder(name).program(PROGRAM).waiting(policy.waiting());
    let builder = builder.max_message_bytes(LONGEST);
    match directory {
        Some(directory) => builder.directory(directory),
        None => builder.local_only(),
    }
}

/// Makes an identity of all nodes of a program, in a directory that exists.
pub fn identity(program: &str, directory: &Path) -> Result<Identity, BenchError> {
    let all = "*".parse().map_err(refused("naming nodes"))?;
    let program = program.parse().map_err(refused("naming a program"))?;
    keys::temporary(program, all, directory).map_err(refused("making an identity"))
}

/// Uses TLS between hosts if there is an identity, and plaintext otherwise.
fn secured(builder: Builder, identity: Option<&Identity>) -> Builder {
    match identity {
        Some(identity) => builder.identity(identity.clone()),
        None => builder.insecure_plaintext(),
    }
}

/// A serving node.
pub struct Host {
    /// The node.
    pub node: Node,
    /// The signal that a round is over.
    pub rest: Rest,
}

impl Host {
    /// Creates a node of this name that serves [`crate::bench::echo::Echo`].
    pub fn new(
        name: &str,
        directory: Option<&Path>,
        policy: Policy,
        ground: Option<&Ground>,
    ) -> Result<Host, BenchError> {
        Host::of(builder(name, directory, policy), ground)
    }

    /// Creates a serving node that listens at a port of this host, with TLS if there is an identity.
    pub(crate) fn listening(
        name: &str,
        directory: &Path,
        policy: Policy,
        identity: Option<&Identity>,
    ) -> Result<Host, BenchError> {
        let builder = builder(name, Some(directory), policy).listen("127.0.0.1:0");
        Host::of(secured(builder, identity), None)
    }

    /// Creates a serving node that sends in this way.
    pub fn flowing(
        name: &str,
        directory: &Path,
        policy: Policy,
        flow: Flow,
    ) -> Result<Host, BenchError> {
        Host::of(flowing(name, directory, policy, flow), None)
    }

    /// Creates a node by a builder.
    pub fn of(builder: Builder, ground: Option<&Ground>) -> Result<Host, BenchError> {
        let node = builder.build().map_err(refused("a node"))?;
        let rest = Rest::default();
        let marks = ground.map(|ground| (ground.ours.clone(), MARK_LINE));
        let service = EchoService::new(rest.clone(), marks);
        node.serve(EchoServer::new(service)).map_err(refused("serving"))?;
        Ok(Host { node, rest })
    }

    /// Serves until the caller ends the round. Returns what the node counted meanwhile.
    pub fn round(&self) -> NodeCounts {
        let before = NodeCounts::of(&self.node);
        self.node.block_on(self.rest.begun());
        NodeCounts::of(&self.node).since(before)
    }

    /// Does the second process's side of a [`watched`] round.
    pub fn watched_round(&self, ground: &Ground) {
        publish(self.round(), ground);
    }
}

/// A calling node.
pub struct Caller {
    node: Node,
    peer: String,
    client: OnceCell<EchoClient>,
}

impl Caller {
    /// Creates a node of this name that calls the peer.
    pub fn new(
        name: &str,
        peer: &str,
        directory: Option<&Path>,
        policy: Policy,
    ) -> Result<Caller, BenchError> {
        Ok(Caller::of(node(name, directory, policy)?, peer))
    }

    /// Creates a calling node that shares no memory with its peer.
    pub fn apart(
        name: &str,
        peer: &str,
        directory: &Path,
        policy: Policy,
    ) -> Result<Caller, BenchError> {
        let builder = builder(name, Some(directory), policy).shared_memory(false);
        Ok(Caller::of(builder.build().map_err(refused("a node"))?, peer))
    }

    /// Creates a node that calls its peer at an address, with TLS if there is an identity. A node that shares no
    /// memory connects to an address of its own host over the network, as to any other address.
    pub(crate) fn far(
        name: &str,
        peer: &str,
        directory: &Path,
        policy: Policy,
        identity: Option<&Identity>,
    ) -> Result<Caller, BenchError> {
        let builder = builder(name, Some(directory), policy).shared_memory(false);
        let node = secured(builder, identity).build().map_err(refused("a node"))?;
        Ok(Caller::of(node, peer))
    }

    /// Creates a calling node that sends in this way.
    pub fn flowing(
        name: &str,
        peer: &str,
        directory: &Path,
        policy: Policy,
        flow: Flow,
    ) -> Result<Caller, BenchError> {
        let builder = flowing(name, directory, policy, flow);
        Ok(Caller::of(builder.build().map_err(refused("a node"))?, peer))
    }

    fn of(node: Node, peer: &str) -> Caller {
        Caller { node, peer: peer.to_owned(), client: OnceCell::new() }
    }

    /// Checks that the node's session uses the network, once the node has a session.
    pub(crate) fn check_far(&self) -> Result<(), BenchError> {
        match self.node.counted(Counter::SessionsRemote) {
            0 => {
                Err(BenchError::protocol(format!("memory leads to {}, and no network", self.peer)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Does a round: connects in the first round, makes the calls, and tells the peer to end the round.
    pub fn round<T>(
        &self,
        calls: impl AsyncFnOnce(&EchoClient) -> Result<T, CallError>,
    ) -> Result<T, BenchError> {
        self.node.block_on(async {
            if self.client.get().is_none() {
                let client = self.node.connect(&self.peer).wait_for(PATIENCE).await;
                let _ = self.client.set(client.map_err(refused("connecting"))?);
            }
            let Some(client) = self.client.get() else {
                return Err(BenchError::protocol("a client is lost"));
            };
            let done = calls(client).await.map_err(refused("a call"))?;
            client.rest().await.map_err(refused("a call"))?;
            Ok(done)
        })
    }

    /// Does a round of reads of another node's exports, one after another.
    pub fn reads(
        &self,
        work: Work,
        read: impl AsyncFnMut() -> Result<(), ReadError>,
    ) -> Result<Round, BenchError> {
        // Large values would be several times on the stack, in futures within futures.
        self.round(async |_| Ok(Box::pin(each(work, read)).await))?.map_err(refused("a read"))
    }
}

/// Connects a handle to a node of the second process.
pub fn handle(peer: &str, directory: &Path, policy: Policy) -> Result<EchoHandle, BenchError> {
    upbeat::handle::builder()
        .program(PROGRAM)
        .directory(directory)
        .waiting(policy.waiting())
        .max_message_bytes(LONGEST)
        .wait_for(PATIENCE)
        .connect(peer)
        .map_err(refused("connecting a handle"))
}

/// Makes the calls, or the reads, of a round one after another.
pub async fn each<T, E>(
    work: Work,
    mut call: impl AsyncFnMut() -> Result<T, E>,
) -> Result<Round, E> {
    let mut laps = work.laps();
    for calls in laps.by_ref() {
        for _ in 0..calls {
            call().await?;
        }
    }
    Ok(laps.round())
}

/// A serving node on a thread of this process, on a CPU of its own.
pub struct LocalHost {
    orders: Sender<()>,
    done: Receiver<Result<NodeCounts, BenchError>>,
}

impl LocalHost {
    /// Starts the thread, and waits until its node is ready. No other process can reach the node.
    pub fn start(name: &str, policy: Policy, cpu: usize) -> Result<LocalHost, BenchError> {
        let name = name.to_owned();
        LocalHost::start_as(move || builder(&name, None, policy), cpu)
    }

    /// Starts the thread with a node of the builder that `make` returns there.
    pub fn start_as(
        make: impl FnOnce() -> Builder + Send + 'static,
        cpu: usize,
    ) -> Result<LocalHost, BenchError> {
        let (orders, ordered) = channel::<()>();
        let (say, done) = channel();
        std::thread::spawn(move || {
            let host =
                pin::pin(cpu).map_err(BenchError::from).and_then(|()| Host::of(make(), None));
            let host = match host {
                Ok(host) => host,
                Err(error) => {
                    let _ = say.send(Err(error));
                    return;
                }
            };
            // The loop ends when the benchmark drops its end of a channel.
            let mut counts = NodeCounts::default();
            while say.send(Ok(counts)).is_ok() && ordered.recv().is_ok() {
                counts = host.round();
            }
        });
        let host = LocalHost { orders, done };
        host.wait()?;
        Ok(host)
    }

    /// Does a round: the thread's node serves while `calls` runs. Returns what the node counted as well.
    pub fn round<T>(
        &self,
        calls: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(T, NodeCounts), BenchError> {
        let gone = |_| BenchError::protocol("the thread that serves is gone");
        self.orders.send(()).map_err(gone)?;
        let done = calls()?;
        Ok((done, self.wait()?))
    }

    /// Does a round of calls by a node of this process, and adds how both nodes have waited.
    pub fn watched(
        &self,
        work: Work,
        caller: &Node,
        calls: impl FnOnce() -> Result<Round, BenchError>,
    ) -> Result<Round, BenchError> {
        let before = NodeCounts::of(caller);
        let (round, callee) = self.round(calls)?;
        let caller = Some(NodeCounts::of(caller).since(before));
        let waits = Some(Waits { operations: work.total(), caller, callee, rounds: 1 });
        Ok(Round { waits, ..round })
    }

    /// Does the second process's side of a [`watched`] round.
    pub fn watched_round(&self, ground: &Ground) -> Result<(), BenchError> {
        let ((), counts) = self.round(|| Ok(()))?;
        publish(counts, ground);
        Ok(())
    }

    fn wait(&self) -> Result<NodeCounts, BenchError> {
        self.done.recv().map_err(|_| BenchError::protocol("the thread that serves is gone"))?
    }
}

/// Does a round whose callee is in the second process, and adds how both nodes have waited. A handle has no counts.
pub fn watched(
    pair: &mut Pair,
    job: Job,
    work: Work,
    caller: Option<&Node>,
    calls: impl FnOnce(&mut Ground) -> Result<Round, BenchError>,
) -> Result<Round, BenchError> {
    let before = caller.map(NodeCounts::of);
    let round = pair.round(job, work, calls)?;
    let caller = caller.map(NodeCounts::of).zip(before).map(|(after, before)| after.since(before));
    let waits =
        Waits { operations: work.total(), caller, callee: published(&pair.ground), rounds: 1 };
    let waits = Some(waits);
    Ok(Round { waits, ..round })
}

/// Returns the counts that the second process has published before it ended a round.
pub(crate) fn published(ground: &Ground) -> NodeCounts {
    NodeCounts::of_words(std::array::from_fn(|at| ground.theirs.load(WAITS_LINE + at)))
}

/// Publishes the counts of the second process's node to the first process.
pub(crate) fn publish(counts: NodeCounts, ground: &Ground) {
    for (at, word) in counts.words().into_iter().enumerate() {
        ground.ours.publish(WAITS_LINE + at, word);
    }
}
