//! Upbeat, used as any user of it would.

mod reads;

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::{Payload, Tally};
use crate::run::{OURS, SHARED};
use crate::tasks::{bursts, each};
use reads::{Exports, Imports};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::{Node, Waiting};
use upbeat_cli::bench::timing::{Round, Work};

/// The program that both nodes belong to.
const PROGRAM: &str = "upbeat-bench-peers";

/// The serving side, in the names of nodes.
const HOST: &str = "host";

/// The carrier of nodes that call each other as if they were on two hosts, in plaintext like the peers.
const TCP: &str = "tcp";

const IN_MEMORY: &[(Op, &str)] = &[(Op::Read, NO_WAIT), (Op::ReadKiB1, NO_WAIT)];
const NO_WAIT: &str = "a read in memory does not depend on how the nodes wait";
const BY_CALL: &[(Op, &str)] = &[(Op::Read, A_CALL), (Op::ReadKiB1, A_CALL)];
const A_CALL: &str = "a read from another host is a call of the owner";

/// Returns Upbeat over each carrier and with every kind of waiting.
pub(super) fn ways() -> Vec<Way> {
    let way = |carrier, mode, about| Way {
        peer: OURS,
        carrier,
        mode,
        about,
        absent: match (carrier, mode) {
            (SHARED, Mode::Polling) => &[],
            (SHARED, _) => IN_MEMORY,
            _ => BY_CALL,
        },
        burst: 50_000,
        open: Open::Pair { serve, call },
    };
    let waits = [
        (Mode::Polling, "calls and one-way calls of a service, nodes told to poll; exports"),
        (Mode::Sleeping, "calls and one-way calls of a service, nodes told to sleep"),
        (Mode::Adaptive, "calls and one-way calls of a service, nodes as they come"),
    ];
    let over = |carrier| waits.into_iter().map(move |(mode, about)| way(carrier, mode, about));
    over(SHARED).chain(over(TCP)).collect()
}

#[upbeat::service]
trait Echo {
    /// Does nothing.
    async fn null(&self);
    /// Returns the bytes.
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    /// Takes a message.
    #[oneway]
    async fn hit(&self, n: u64);
    /// Returns the tally of the messages since the last call.
    async fn tally(&self) -> [u64; 2];
    /// Says that the caller does not need the node for now.
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

/// The flag that a caller's round is over.
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

    /// Waits for the flag, and clears it.
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
    let builder = Node::builder(&name(place, side))
        .program(PROGRAM)
        .directory(place.scratch)
        .waiting(waiting);
    let builder = match (place.carrier, side) {
        (TCP, HOST) => builder.listen("127.0.0.1:0").insecure_plaintext(),
        // A node without shared memory uses the network even to its own host.
        (TCP, _) => builder.shared_memory(false).insecure_plaintext(),
        _ => builder,
    };
    builder.build().map_err(fault("making a node"))
}

fn name(place: &Place<'_>, side: &str) -> String {
    format!("{side}/{}/{}", place.carrier, place.mode.word())
}

/// Returns the name of the note with the address at which the host of this way listens.
fn address_note(place: &Place<'_>) -> String {
    format!("upbeat.{}.{}", place.carrier, place.mode.word())
}

/// A node that serves. It is driven during rounds.
struct Host {
    node: Node,
    rest: Rc<Rest>,
    /// The exports, from the first round of reads on.
    exports: Option<Exports>,
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let (node, service) = (node(place, HOST)?, Service::default());
    if let Some(address) = node.listens_at() {
        place.tell(&address_note(place), &address.to_string())?;
    }
    let rest = Rc::clone(&service.rest);
    node.serve(EchoServer::new(service)).map_err(fault("serving"))?;
    Ok(Box::new(Host { node, rest, exports: None }))
}

impl Serve for Host {
    fn round(&mut self, op: Op, _: Work) -> Result<(), Fault> {
        if op.is_read() {
            let exports = match &mut self.exports {
                Some(exports) => exports,
                None => self.exports.insert(Exports::new(&self.node)?),
            };
            // The owner is driven while its exports are opened, and never while they are read.
            if !exports.set() {
                return Ok(());
            }
        }
        self.node.block_on(self.rest.begun());
        Ok(())
    }
}

/// A node that calls. It connects in its first round, since the other node is not driven before.
struct Caller {
    node: Node,
    host: String,
    client: Option<EchoClient>,
    payload: Payload,
    imports: Option<Imports>,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let node = node(place, "caller")?;
    let mut host = name(place, HOST);
    if place.carrier == TCP {
        host = format!("{host}@{}", place.told(&address_note(place))?);
    }
    Ok(Box::new(Caller { node, host, client: None, payload: Payload::new(), imports: None }))
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        if op.is_read() {
            return self.imports()?.round(op, work);
        }
        let Caller { node, host, client, payload, .. } = self;
        node.block_on(async {
            let client = connected(client, node, host).await?;
            let round = match op {
                Op::Null => {
                    each(work, async || client.null().await.map_err(fault("a call"))).await?
                }
                Op::KiB1 => each(work, async || bytes(client, payload).await).await?,
                Op::Stream => bursts(work, async |messages| burst(client, messages).await).await?,
                Op::Read | Op::ReadKiB1 => return Err(unknown(op)),
            };
            client.rest().await.map_err(fault("the last call"))?;
            Ok(round)
        })
    }
}

impl Caller {
    /// Returns the host's exports, which the first round of reads imports.
    fn imports(&mut self) -> Result<&mut Imports, Fault> {
        let Caller { node, host, client, imports, .. } = self;
        if let Some(imports) = imports {
            return Ok(imports);
        }
        let new = node.block_on(async {
            let client = connected(client, node, host).await?;
            let new = Imports::new(node, host).await?;
            client.rest().await.map_err(fault("the last call"))?;
            Ok(new)
        })?;
        Ok(imports.insert(new))
    }
}

/// Returns the client, which is connected when it is needed first.
async fn connected<'c>(
    client: &'c mut Option<EchoClient>,
    node: &Node,
    host: &str,
) -> Result<&'c EchoClient, Fault> {
    Ok(match client {
        Some(client) => client,
        None => client.insert(node.connect(host).await.map_err(fault("connecting"))?),
    })
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
