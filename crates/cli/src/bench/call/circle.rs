//! Several nodes in a ring on two CPUs, each of which makes calls to the next as fast as replies come.
//!
//! Neighbours are in different processes, so every call uses shared memory. Each node has
//! a thread, and all threads may run on both CPUs. A round lasts a fixed time; then each node
//! tells the next that its calls have ended, and serves until the node before it has ended its calls.

use crate::bench::echo::EchoClient;
use crate::bench::error::BenchError;
use crate::bench::ground::{Ground, RING_LINE};
use crate::bench::hosts::{self, Host, Policy, refused};
use crate::bench::pin::{self, Cpus};
use crate::bench::timing::Round;
use crate::bench::waits::{NodeCounts, Waits};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use upbeat::{CallError, ConnectError};
use upbeat_memory::ticks::{Ticks, ticks};

/// The number of calls that are reported as one batch.
pub(super) const BURST: u32 = 1000;
/// The time for which the nodes make calls in a round.
const ROUND: Duration = Duration::from_millis(20);
/// The longest time that a node may need to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The results of a node in a round.
struct Tally {
    /// The ticks of each call.
    calls: Vec<u64>,
    /// The node's counts.
    counts: NodeCounts,
}

/// A node on a thread of its own.
struct RingNode {
    orders: Sender<()>,
    tallies: Receiver<Result<Tally, BenchError>>,
}

/// The nodes of a ring that are in this process.
pub(super) struct Circle {
    nodes: Vec<RingNode>,
}

/// The arguments of a thread.
struct Place {
    name: String,
    next: String,
    scratch: PathBuf,
    policy: Policy,
    cpus: Cpus,
}

impl Circle {
    /// Starts every second node of the ring, from `first` on; the other process has the others.
    pub(super) fn start(
        nodes: usize,
        policy: Policy,
        scratch: &Path,
        cpus: Cpus,
        first: usize,
    ) -> Result<Circle, BenchError> {
        let name = |at: usize| format!("bench-ring{nodes}-{}/{}", policy.word(), at % nodes);
        let start = |at| {
            let scratch = scratch.to_owned();
            RingNode::start(Place { name: name(at), next: name(at + 1), scratch, policy, cpus })
        };
        let nodes = (first..nodes).step_by(2).map(start).collect::<Result<Vec<_>, _>>()?;
        Ok(Circle { nodes })
    }

    /// Does the measuring side of a round.
    pub(super) fn round(&self, ground: &Ground) -> Result<Round, BenchError> {
        self.order()?;
        let (mut singles, mut counts) = (Vec::new(), Vec::new());
        let mut caller = NodeCounts::default();
        for tally in self.tallies() {
            let tally = tally?;
            caller += tally.counts;
            counts.push(tally.calls.len() as u64);
            singles.extend(tally.calls);
        }
        // The other process has as many nodes, and publishes their results at the end of the round.
        let others = (0..self.nodes.len()).map(|at| {
            let told = || ground.theirs.load(RING_LINE + at);
            while told() == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
            told() - 1
        });
        counts.extend(others);
        let total: u64 = counts.iter().sum();
        let least = counts.iter().copied().min().unwrap_or(0);
        let ticks = Ticks::from(ROUND).0;
        let batch = ticks.saturating_mul(u64::from(BURST)) / total.max(1);
        let least_per_second = Some(least as f64 / ROUND.as_secs_f64());
        Ok(Round {
            size: BURST,
            operations: total,
            batches: vec![batch],
            singles,
            least_per_second,
            ratio_to_load: None,
            waits: Some(Waits {
                operations: total,
                caller: Some(caller),
                rounds: 1,
                ..Waits::default()
            }),
        })
    }

    /// Does the second process's side.
    pub(super) fn answer(&self, ground: &Ground) -> Result<(), BenchError> {
        (0..self.nodes.len()).for_each(|at| ground.ours.publish(RING_LINE + at, 0));
        self.order()?;
        let mut all = NodeCounts::default();
        for (at, tally) in self.tallies().enumerate() {
            let tally = tally?;
            all += tally.counts;
            ground.ours.publish(RING_LINE + at, tally.calls.len() as u64 + 1);
        }
        hosts::publish(all, ground);
        Ok(())
    }

    fn order(&self) -> Result<(), BenchError> {
        self.nodes.iter().try_for_each(|node| node.orders.send(()).map_err(|_| gone()))
    }

    fn tallies(&self) -> impl Iterator<Item = Result<Tally, BenchError>> {
        self.nodes.iter().map(|node| node.tallies.recv().map_err(|_| gone())?)
    }
}

fn gone() -> BenchError {
    BenchError::protocol("the thread of a node in the ring is gone")
}

impl RingNode {
    fn start(place: Place) -> Result<RingNode, BenchError> {
        let (orders, ordered) = channel::<()>();
        let (say, tallies) = channel();
        std::thread::spawn(move || {
            if let Err(error) = place.run(&ordered, &say) {
                // A closed channel means that the benchmark has ended.
                let _ = say.send(Err(error));
            }
        });
        let node = RingNode { orders, tallies };
        node.tallies.recv().map_err(|_| gone())??;
        Ok(node)
    }
}

impl Place {
    /// Serves rounds until the benchmark closes its channel. The first tally reports that the node is ready.
    fn run(
        &self,
        ordered: &Receiver<()>,
        say: &Sender<Result<Tally, BenchError>>,
    ) -> Result<(), BenchError> {
        pin::keep_on(&[self.cpus.client, self.cpus.server])?;
        let host = Host::new(&self.name, Some(&self.scratch), self.policy, None)?;
        let mut client = None;
        let mut tally = Tally { calls: Vec::new(), counts: NodeCounts::default() };
        while say.send(Ok(tally)).is_ok() && ordered.recv().is_ok() {
            tally = host.node.block_on(self.round(&host, &mut client))?;
        }
        Ok(())
    }

    async fn round(
        &self,
        host: &Host,
        client: &mut Option<EchoClient>,
    ) -> Result<Tally, BenchError> {
        let client = match client {
            Some(client) => client,
            None => client.insert(self.connect(host).await?),
        };
        let before = NodeCounts::of(&host.node);
        let calls = calls(client).await.map_err(refused("a call"))?;
        host.rest.begun().await;
        Ok(Tally { calls, counts: NodeCounts::of(&host.node).since(before) })
    }

    /// Connects to the next node, which may not have started yet.
    async fn connect(&self, host: &Host) -> Result<EchoClient, BenchError> {
        let begun = Instant::now();
        loop {
            let client: Result<EchoClient, ConnectError> = host.node.connect(&self.next).await;
            match client {
                Err(_) if begun.elapsed() < PATIENCE => {
                    upbeat::sleep(Duration::from_millis(2)).await;
                }
                client => return client.map_err(refused("connecting")),
            }
        }
    }
}

/// Makes calls until the time is over, then tells the callee.
async fn calls(client: &EchoClient) -> Result<Vec<u64>, CallError> {
    let mut calls = Vec::with_capacity(1 << 12);
    let end = ticks() + Ticks::from(ROUND).0;
    let mut before = ticks();
    while before < end {
        client.null().await?;
        let now = ticks();
        calls.push(now.saturating_sub(before));
        before = now;
    }
    client.rest().await?;
    Ok(calls)
}
