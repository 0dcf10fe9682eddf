//! The service with which executions are measured, and the nodes that serve and call it.

use std::cell::{Cell, OnceCell};
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use upbeat::{CallError, Execution, Node, checkpoint, yield_now};
use upbeat_cli::bench::echo::Rest;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::flight::fly;
use upbeat_cli::bench::hosts::{Policy, builder, refused};
use upbeat_cli::bench::message::{Lying, Message, add_up};
use upbeat_cli::bench::timing::{Round, Work};

/// The executions that have a node.
const EXECUTIONS: [Execution; 5] =
    [Execution::Am, Execution::Orpc, Execution::Trpc, Execution::TrpcBack, Execution::Adaptive];

/// The called service.
#[upbeat::service]
pub(crate) trait Chore {
    /// Adds one, as in the paper.
    async fn null(&self);
    /// Adds one, if it lacks nothing or is a task.
    async fn work(&self, lacks: bool);
    /// Adds one, after a wait.
    async fn yields(&self);
    /// Takes bytes, and adds them up.
    async fn take(&self, message: Message);
    /// Adds bytes up where they lie.
    async fn take_there(&self, message: Lying);
    /// Adds one at the second attempt. The first is sent back to the caller.
    #[method(nack)]
    async fn sent_back(&self);
    /// Works, and yields when its budget is spent, until it is stopped.
    #[oneway]
    async fn spin(&self);
    /// Stops that work.
    async fn stop(&self);
    /// Says that the caller no longer needs the node.
    async fn rest(&self);
}

/// The implementation of the service.
#[derive(Default)]
struct Worker {
    count: Cell<u64>,
    spins: Cell<u64>,
    /// Whether the next attempt is a second one.
    second: Cell<bool>,
    spinning: Cell<bool>,
    rest: Rest,
}

impl Worker {
    /// Returns whether this is the second of two attempts.
    fn is_second(&self) -> bool {
        self.second.set(!self.second.get());
        !self.second.get()
    }

    fn add(&self) {
        self.count.set(self.count.get() + 1);
    }
}

#[upbeat::service]
impl Chore for Worker {
    async fn null(&self) {
        self.add();
    }

    #[method(needs(!*lacks))]
    async fn work(&self, lacks: bool) {
        self.add();
    }

    async fn yields(&self) {
        yield_now().await;
        self.add();
    }

    #[method(budget = "10s")]
    async fn take(&self, message: Message) {
        black_box(add_up(0, message.bytes()));
        self.add();
    }

    #[method(budget = "10s")]
    async fn take_there(&self, message: Lying) {
        black_box(message.sum_there());
        self.add();
    }

    #[method(needs(self.is_second()))]
    async fn sent_back(&self) {
        self.add();
    }

    #[method(budget = "100us")]
    async fn spin(&self) {
        self.spins.set(self.spins.get() + 1);
        self.spinning.set(true);
        while self.spinning.get() {
            self.add();
            checkpoint().await;
        }
        self.spins.set(self.spins.get() - 1);
    }

    async fn stop(&self) {
        self.spinning.set(false);
        while self.spins.get() != 0 {
            yield_now().await;
        }
    }

    #[method(execution = "orpc")]
    async fn rest(&self) {
        self.rest.begin();
    }
}

fn name(execution: Execution) -> String {
    format!("bench/execution/{execution}")
}

/// A serving node.
pub(crate) struct ServingNode {
    execution: Execution,
    node: Node,
    rest: Rest,
}

impl ServingNode {
    fn new(execution: Execution, directory: &Path) -> Result<ServingNode, BenchError> {
        let builder = builder(&name(execution), Some(directory), Policy::Polling);
        let node = builder.execution(execution).build().map_err(refused("a node"))?;
        let rest = Rest::default();
        let worker = Worker { rest: rest.clone(), ..Worker::default() };
        node.serve(ChoreServer::new(worker)).map_err(refused("serving"))?;
        Ok(ServingNode { execution, node, rest })
    }

    /// Returns one for each execution, for a second process.
    pub(crate) fn all(directory: &Path) -> Result<Vec<ServingNode>, BenchError> {
        EXECUTIONS.iter().map(|execution| ServingNode::new(*execution, directory)).collect()
    }

    /// Returns the one of an execution.
    pub(crate) fn of(
        nodes: &[ServingNode],
        execution: Execution,
    ) -> Result<&ServingNode, BenchError> {
        let node = nodes.iter().find(|node| node.execution == execution);
        node.ok_or_else(|| BenchError::protocol(format!("nobody serves `{execution}`")))
    }

    /// Waits on a condition until the round is over.
    pub(crate) fn idle_round(&self) {
        self.node.block_on(self.rest.begun());
    }

    /// Polls and yields until the round is over.
    pub(crate) fn busy_round(&self) {
        self.node.block_on(async {
            while !self.rest.has_begun() {
                yield_now().await;
            }
        });
    }
}

/// The nodes that call all of them: one whose calls are timed, and another beside it.
pub(crate) struct Caller {
    first: Node,
    other: Node,
    clients: [OnceCell<ChoreClient>; EXECUTIONS.len()],
    others: [OnceCell<ChoreClient>; EXECUTIONS.len()],
}

/// The client of the node that calls.
pub(crate) type Client = ChoreClient;

impl Caller {
    pub(crate) fn new(directory: &Path) -> Result<Caller, BenchError> {
        let node = |name: &str| {
            let builder = builder(name, Some(directory), Policy::Polling);
            builder.build().map_err(refused("a node"))
        };
        Ok(Caller {
            first: node("bench/execution/caller")?,
            other: node("bench/execution/other")?,
            clients: Default::default(),
            others: Default::default(),
        })
    }

    /// Runs a round: connects if this is the first, calls, and tells the peer to rest.
    pub(crate) fn round(
        &self,
        execution: Execution,
        calls: impl AsyncFnOnce(&Node, &Client) -> Result<Round, CallError>,
    ) -> Result<Round, BenchError> {
        self.first.block_on(async {
            let client = client(&self.first, &self.clients, execution).await?;
            let done = calls(&self.first, client).await.map_err(refused("a call"))?;
            client.rest().await.map_err(refused("a call"))?;
            Ok(done)
        })
    }

    /// Runs a round while a handler works that the other node's session has called.
    pub(crate) fn round_beside(
        &self,
        execution: Execution,
        calls: impl AsyncFnOnce(&Node, &Client) -> Result<Round, CallError>,
    ) -> Result<Round, BenchError> {
        self.other.block_on(async {
            let client = client(&self.other, &self.others, execution).await?;
            client.spin().await.map_err(refused("a message"))
        })?;
        self.round(execution, async |node, client| {
            let done = calls(node, client).await?;
            client.stop().await?;
            Ok(done)
        })
    }
}

/// Returns the client of a node for an execution, which connects if there is none yet.
async fn client<'c>(
    node: &Node,
    clients: &'c [OnceCell<ChoreClient>; EXECUTIONS.len()],
    execution: Execution,
) -> Result<&'c ChoreClient, BenchError> {
    let at = EXECUTIONS.iter().position(|other| *other == execution).unwrap_or(0);
    if let Some(client) = clients[at].get() {
        return Ok(client);
    }
    let client = node.connect(&name(execution)).await.map_err(refused("connecting"))?;
    Ok(clients[at].get_or_init(|| client))
}

/// Keeps many calls open until the round is over, of which `part` in a hundred lose their bets.
pub(crate) async fn calls(
    node: &Node,
    client: &Client,
    work: Work,
    part: u32,
) -> Result<Round, CallError> {
    let (client, random) = (client.clone(), Rc::new(Cell::new(1)));
    fly(node, work, async move || client.work(draws(&random, part)).await).await
}

/// Draws whether the next call is one of `part` in a hundred.
fn draws(random: &Cell<u64>, part: u32) -> bool {
    let next = random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    random.set(next);
    (next >> 33) % 100 < u64::from(part)
}
