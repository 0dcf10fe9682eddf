//! The service that executions are measured with, who serves it and who calls it.

use crate::bench::call::fly;
use crate::bench::echo::Rest;
use crate::bench::error::BenchError;
use crate::bench::hosts::{Policy, builder, refused};
use crate::bench::timing::{Round, Work};
use std::cell::{Cell, OnceCell};
use std::path::Path;
use std::rc::Rc;
use upbeat::{CallError, Execution, Node, yield_now};

/// The executions that have a node.
pub(super) const EXECUTIONS: [Execution; 5] =
    [Execution::Am, Execution::Orpc, Execution::Trpc, Execution::TrpcBack, Execution::Adaptive];

/// What is called.
#[upbeat::service]
pub(in crate::bench) trait Chore {
    /// Adds one, as in the paper.
    async fn null(&self);
    /// The same, if it lacks nothing or is a task.
    async fn work(&self, lacks: bool);
    /// The same, behind a wait.
    async fn yields(&self);
    /// The caller needs the node no longer.
    async fn rest(&self);
}

/// What serves it.
struct Worker {
    count: Cell<u64>,
    rest: Rest,
}

impl Worker {
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

    #[method(execution = "orpc")]
    async fn rest(&self) {
        self.rest.begin();
    }
}

fn name(execution: Execution) -> String {
    format!("bench/execution/{execution}")
}

/// A node that serves.
pub(super) struct Hall {
    pub(super) execution: Execution,
    node: Node,
    rest: Rest,
}

impl Hall {
    pub(super) fn new(execution: Execution, directory: &Path) -> Result<Hall, BenchError> {
        let builder = builder(&name(execution), Some(directory), Policy::Polling);
        let node = builder.execution(execution).build().map_err(refused("a node"))?;
        let rest = Rest::default();
        node.serve(ChoreServer::new(Worker { count: Cell::new(0), rest: rest.clone() }));
        Ok(Hall { execution, node, rest })
    }

    /// Waits on a condition until the round is over.
    pub(super) fn idle_round(&self) {
        self.node.block_on(self.rest.begun());
    }

    /// Polls and yields until the round is over.
    pub(super) fn busy_round(&self) {
        self.node.block_on(async {
            while !self.rest.has_begun() {
                yield_now().await;
            }
        });
    }
}

/// The node that calls all of them.
pub(super) struct Caller {
    node: Node,
    clients: [OnceCell<ChoreClient>; EXECUTIONS.len()],
}

/// What a round is given: the node that calls, and the way to the one that serves.
pub(super) type Client = ChoreClient;

impl Caller {
    pub(super) fn new(directory: &Path) -> Result<Caller, BenchError> {
        let builder = builder("bench/execution/caller", Some(directory), Policy::Polling);
        let node = builder.build().map_err(refused("a node"))?;
        Ok(Caller { node, clients: Default::default() })
    }

    /// Does a round: connects if this is the first, calls, and tells the peer to rest.
    pub(super) fn round(
        &self,
        execution: Execution,
        calls: impl AsyncFnOnce(&Node, &Client) -> Result<Round, CallError>,
    ) -> Result<Round, BenchError> {
        let at = EXECUTIONS.iter().position(|other| *other == execution).unwrap_or(0);
        self.node.block_on(async {
            let client = match self.clients[at].get() {
                Some(client) => client,
                None => {
                    let client = self.node.connect(&name(execution)).await;
                    let client = client.map_err(refused("connecting"))?;
                    self.clients[at].get_or_init(|| client)
                }
            };
            let done = calls(&self.node, client).await.map_err(refused("a call"))?;
            client.rest().await.map_err(refused("a call"))?;
            Ok(done)
        })
    }
}

/// Keeps many calls open until the round is over, of which so many in a hundred lose their bets.
pub(super) async fn calls(
    node: &Node,
    client: &Client,
    work: Work,
    part: u32,
) -> Result<Round, CallError> {
    let (client, random) = (client.clone(), Rc::new(Cell::new(1)));
    fly(node, work, async move || client.work(draws(&random, part)).await).await
}

/// Whether the next call is one of so many in a hundred.
fn draws(random: &Cell<u64>, part: u32) -> bool {
    let next = random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    random.set(next);
    (next >> 33) % 100 < u64::from(part)
}
