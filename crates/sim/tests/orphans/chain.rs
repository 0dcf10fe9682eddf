//! Nodes that call each other, each in a process of its own.

use crate::common::{PATIENCE, remote};
use crate::knot::{ChainClient, ChainHandle, ChainServer, Knot};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use upbeat::{Counter, Node};
use upbeat_environment::time::Instant;
use upbeat_sim::{Sim, check};

/// The seeds of each test and kind.
const SEEDS: u64 = 3;

/// Within this time everything is done that waits for nothing.
pub(crate) const SOON: Duration = ms(200);

/// The time for which a session between hosts is waited for when its connection has ended.
const RESUME_WITHIN: Duration = ms(1_000);

/// The time between two looks at the handlers that stand.
const LOOKS: Duration = ms(20);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Where the nodes of a chain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On one host, so that they share memory.
    Shared,
    /// On a host each.
    Distant,
}

impl Kind {
    /// Returns the time after which the peers of a process know that it has died.
    pub(crate) fn death_is_known_after(self) -> Duration {
        match self {
            Kind::Shared => Duration::ZERO,
            Kind::Distant => RESUME_WITHIN,
        }
    }
}

/// Runs a test in worlds of both kinds.
pub(crate) fn in_worlds(act: impl Fn(&Sim, Kind) + Sync) {
    for kind in [Kind::Shared, Kind::Distant] {
        check(SEEDS, |sim| act(sim, kind));
    }
}

/// A caller's node and a chain of servers. The servers' processes are called 1, 2, and so on.
pub(crate) struct Stand {
    pub(crate) sim: Sim,
    pub(crate) node: Node,
    /// How each server is reached.
    pub(crate) names: Vec<String>,
}

impl Stand {
    pub(crate) fn new(sim: &Sim, kind: Kind, length: usize) -> Stand {
        let names: Vec<_> = (1..=length).map(|at| start(sim, kind, &at.to_string())).collect();
        let stand = Stand { sim: sim.clone(), node: build(sim, "client", None), names };
        stand.node.block_on(async {
            for at in 0..length {
                stand.client(at).await;
            }
        });
        stand
    }

    /// The names behind the first.
    pub(crate) fn behind(&self) -> Vec<String> {
        self.names[1..].to_vec()
    }

    pub(crate) async fn client(&self, at: usize) -> ChainClient {
        connected(&self.node, &self.names[at]).await
    }

    /// Returns a handle of the first.
    pub(crate) fn handle(&self) -> ChainHandle {
        let handles = self.sim.handles().insecure_plaintext().wait_for(PATIENCE);
        handles.connect(&self.names[0]).unwrap()
    }

    /// Waits until so many handlers stand at each of these.
    pub(crate) async fn standing(&self, at: impl IntoIterator<Item = usize>, count: u64) {
        let began = Instant::now();
        for at in at {
            let chain = self.client(at).await;
            while chain.standing().await.unwrap().0 != count {
                assert!(began.elapsed() < ms(20_000), "{at}: {:?}", chain.standing().await);
                upbeat::sleep(LOOKS).await;
            }
        }
    }

    pub(crate) async fn counted(&self, at: usize, counter: Counter) -> u64 {
        self.client(at).await.counted(counter as u64).await.unwrap()
    }

    /// Waits until so many handlers of the first have finished.
    pub(crate) async fn finished(&self, count: u64) {
        let chain = self.client(0).await;
        while chain.finished().await != Ok(count) {
            upbeat::sleep(LOOKS).await;
        }
    }

    /// Starts a process with a node of this name, which connects to the first and does this with it.
    pub(crate) fn caller<F: Future<Output = ()>>(
        &self,
        name: &'static str,
        act: impl Fn(ChainClient) -> F + Send + Sync + 'static,
    ) {
        let first = self.names[0].clone();
        self.sim.start(name, move |sim| {
            let node = build(sim, name, None);
            node.block_on(async { act(connected(&node, &first).await).await });
            Ok::<_, Infallible>(())
        });
    }
}

/// Says that something took this time, or little more.
#[track_caller]
pub(crate) fn took(began: Instant, time: Duration) {
    let elapsed = began.elapsed();
    assert!((time..time + SOON).contains(&elapsed), "{elapsed:?} instead of {time:?}");
}

/// Ends with the first of two futures.
pub(crate) async fn first<A: Future, B: Future>(a: A, b: B) -> Result<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| {
        if let Poll::Ready(value) = a.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        b.as_mut().poll(context).map(Err)
    })
    .await
}

fn build(sim: &Sim, name: &str, listens: Option<&str>) -> Node {
    let mut builder = remote(sim, name, RESUME_WITHIN);
    if let Some(address) = listens {
        builder = builder.listen(address);
    }
    builder.build().unwrap()
}

async fn connected(node: &Node, name: &str) -> ChainClient {
    node.connect(name).wait_for(PATIENCE).await.unwrap()
}

/// Starts a server, and returns how it is reached.
fn start(sim: &Sim, kind: Kind, name: &str) -> String {
    let address = (kind == Kind::Distant).then(|| format!("host-{name}:7000"));
    let (own, listens) = (name.to_owned(), address.clone());
    let body = move |sim: &Sim| {
        let node = build(sim, &own, listens.as_deref());
        let knot = Rc::new(Knot::default());
        *knot.node.borrow_mut() = Some(node.clone());
        node.serve(ChainServer::shared(knot)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    };
    match address {
        None => {
            sim.start(name, body);
            name.to_owned()
        }
        Some(address) => {
            sim.host(&format!("host-{name}")).start(name, body);
            format!("{name}@{address}")
        }
    }
}
