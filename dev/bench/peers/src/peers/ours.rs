//! Upbeat, used as any of its users would.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault};
use crate::payload::{Payload, Tally};
use crate::run::OURS;
use crate::tasks::{bursts, each};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::{Node, Waiting};
use upbeat_cli::bench::timing::{Round, Work};

/// The program that both nodes belong to.
const PROGRAM: &str = "upbeat-bench-peers";

/// Ours, in every way in which nodes wait.
pub(super) fn ways() -> Vec<Way> {
    let way = |mode, about| Way {
        peer: OURS,
        carrier: "shared",
        mode,
        about,
        absent: &[],
        burst: 50_000,
        open: Open::Pair { serve, call },
    };
    vec![
        way(Mode::Polling, "calls and one-way calls of a service, nodes told to poll"),
        way(Mode::Sleeping, "calls and one-way calls of a service, nodes told to sleep"),
        way(Mode::Adaptive, "calls and one-way calls of a service, nodes as they come"),
    ]
}

#[upbeat::service]
trait Echo {
    /// Nothing at all.
    async fn null(&self);
    /// Bytes there and back.
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    /// A message.
    #[oneway]
    async fn hit(&self, n: u64);
    /// What the messages since the last time were.
    async fn tally(&self) -> [u64; 2];
    /// The caller needs the node no longer for now.
    async fn rest(&self);
}

#[derive(Default)]
struct Service {
    tally: Cell<Tally>,
    rest: Rc<Rest>,
}

impl Echo for Service {
    async fn null(&self) {}

    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn hit(&self, n: u64) {
        let mut tally = self.tally.get();
        tally.add(n);
        self.tally.set(tally);
    }

    async fn tally(&self) -> [u64; 2] {
        let Tally { count, sum } = self.tally.take();
        [count, sum]
    }

    async fn rest(&self) {
        self.rest.begin();
    }
}

/// A caller's word that its round is over.
#[derive(Default)]
struct Rest {
    said: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Rest {
    fn begin(&self) {
        self.said.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits for the word, and takes it.
    async fn begun(&self) {
        poll_fn(|context| {
            if self.said.replace(false) {
                return Poll::Ready(());
            }
            self.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

fn node(place: &Place<'_>, side: &str) -> Result<Node, Fault> {
    let waiting = match place.mode {
        Mode::Polling => Waiting::Polling,
        Mode::Sleeping => Waiting::Sleeping,
        Mode::Adaptive => Waiting::Adaptive,
    };
    Node::builder(&name(place, side))
        .program(PROGRAM)
        .directory(place.scratch)
        .waiting(waiting)
        .build()
        .map_err(fault("making a node"))
}

fn name(place: &Place<'_>, side: &str) -> String {
    format!("{side}/{}", place.mode.word())
}

/// A node that serves, driven during rounds.
struct Host {
    node: Node,
    rest: Rc<Rest>,
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let (node, service) = (node(place, "host")?, Service::default());
    let rest = Rc::clone(&service.rest);
    node.serve(EchoServer::new(service));
    Ok(Box::new(Host { node, rest }))
}

impl Serve for Host {
    fn round(&mut self, _: Op, _: Work) -> Result<(), Fault> {
        self.node.block_on(self.rest.begun());
        Ok(())
    }
}

/// A node that calls. It connects in its first round: before, nobody drives the other node.
struct Caller {
    node: Node,
    host: String,
    client: Option<EchoClient>,
    payload: Payload,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let (node, host) = (node(place, "caller")?, name(place, "host"));
    Ok(Box::new(Caller { node, host, client: None, payload: Payload::new() }))
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { node, host, client, payload } = self;
        node.block_on(async {
            let client = match client {
                Some(client) => client,
                None => client.insert(node.connect(host).await.map_err(fault("connecting"))?),
            };
            let round = match op {
                Op::Null => {
                    each(work, async || client.null().await.map_err(fault("a call"))).await?
                }
                Op::KiB1 => each(work, async || bytes(client, payload).await).await?,
                Op::Stream => bursts(work, async |messages| burst(client, messages).await).await?,
            };
            client.rest().await.map_err(fault("the last call"))?;
            Ok(round)
        })
    }
}

async fn bytes(client: &EchoClient, payload: &mut Payload) -> Result<(), Fault> {
    let sent = payload.next().to_vec();
    let came = client.bytes(sent).await.map_err(fault("a call"))?;
    payload.check(&came)
}

async fn burst(client: &EchoClient, messages: u32) -> Result<(), Fault> {
    for n in 0..u64::from(messages) {
        client.hit(n).await.map_err(fault("a message"))?;
    }
    let [count, sum] = client.tally().await.map_err(fault("the call behind"))?;
    Tally { count, sum }.check(messages)
}
