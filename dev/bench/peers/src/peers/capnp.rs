//! Cap'n Proto RPC over sockets, with buffers before them as its documentation advises, on tokio's
//! runtime of one thread. Messages are calls of a streaming method, which flow without an answer
//! each as far as its window goes.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::{Payload, Tally};
use crate::tasks::{OnThread, bursts, each, runtime};
use crate::values::NO_READS;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, new_client, twoparty};
use echo_capnp::echo;
use futures::io::{BufReader, BufWriter};
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use upbeat_cli::bench::timing::{Round, Work};

/// The code that the compiler of Cap'n Proto generates from `schema/echo.capnp`.
#[allow(clippy::all, missing_docs, unreachable_pub, dead_code)]
pub(crate) mod echo_capnp {
    include!(concat!(env!("OUT_DIR"), "/echo_capnp.rs"));
}

/// Cap'n Proto RPC over a unix socket, and over TCP.
pub(super) fn ways() -> Vec<Way> {
    let way = |carrier| Way {
        peer: "capnp-rpc",
        carrier,
        mode: Mode::Sleeping,
        about: "calls and streaming calls of an interface, tokio's runtime of one thread",
        absent: NO_READS,
        burst: 2_000,
        open: Open::Pair { serve, call },
    };
    vec![way("unix"), way("tcp")]
}

#[derive(Default)]
struct Service {
    tally: Cell<Tally>,
}

impl echo::Server for Service {
    async fn null(
        self: Rc<Self>,
        _: echo::NullParams,
        _: echo::NullResults,
    ) -> Result<(), capnp::Error> {
        Ok(())
    }

    async fn bytes(
        self: Rc<Self>,
        params: echo::BytesParams,
        mut results: echo::BytesResults,
    ) -> Result<(), capnp::Error> {
        results.get().set_data(params.get()?.get_data()?);
        Ok(())
    }

    async fn hit(self: Rc<Self>, params: echo::HitParams) -> Result<(), capnp::Error> {
        let mut tally = self.tally.get();
        tally.add(params.get()?.get_n());
        self.tally.set(tally);
        Ok(())
    }

    async fn tally(
        self: Rc<Self>,
        _: echo::TallyParams,
        mut results: echo::TallyResults,
    ) -> Result<(), capnp::Error> {
        let Tally { count, sum } = self.tally.take();
        results.get().set_count(count);
        results.get().set_sum(sum);
        Ok(())
    }
}

const SOCKET: &str = "capnp";
const PORT: &str = "capnp.port";

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let served = if place.carrier == "unix" {
        let listener = std::os::unix::net::UnixListener::bind(place.socket(SOCKET))
            .map_err(fault("binding a unix socket"))?;
        listener.set_nonblocking(true).map_err(fault("a unix socket"))?;
        OnThread::start("capnp-rpc", async || {
            let (stream, _) = UnixListener::from_std(listener)?.accept().await?;
            answer(stream).await
        })
    } else {
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(fault("binding a TCP socket"))?;
        let port = listener.local_addr().map_err(fault("a TCP socket"))?.port();
        place.tell(PORT, &port.to_string())?;
        listener.set_nonblocking(true).map_err(fault("a TCP socket"))?;
        OnThread::start("capnp-rpc", async || {
            let (stream, _) = TcpListener::from_std(listener)?.accept().await?;
            stream.set_nodelay(true)?;
            answer(stream).await
        })
    };
    Ok(Box::new(served?))
}

/// Serves one connection until it ends, and then waits for the end of the process.
async fn answer(stream: impl AsyncRead + AsyncWrite + 'static) -> Result<(), capnp::Error> {
    let service: echo::Client = new_client(Service::default());
    RpcSystem::new(Box::new(network(stream, Side::Server)), Some(service.client)).await?;
    std::future::pending().await
}

type Network = twoparty::VatNetwork<Box<dyn futures::io::AsyncRead + Unpin>>;

fn network(stream: impl AsyncRead + AsyncWrite + 'static, side: Side) -> Network {
    let (reader, writer) = tokio::io::split(stream);
    let reader = Box::new(BufReader::new(reader.compat()));
    let writer = BufWriter::new(writer.compat_write());
    twoparty::VatNetwork::new(reader, writer, side, Default::default())
}

/// A client, with the runtime and the tasks that move what it says.
struct Caller {
    client: echo::Client,
    tasks: LocalSet,
    runtime: Runtime,
    payload: Payload,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let (runtime, tasks) = (runtime()?, LocalSet::new());
    let client = tasks.block_on(&runtime, async {
        if place.carrier == "unix" {
            let stream = UnixStream::connect(place.socket(SOCKET)).await;
            return Ok(client(stream.map_err(fault("connecting"))?));
        }
        let address = format!("127.0.0.1:{}", place.told(PORT)?);
        let stream = TcpStream::connect(address).await.map_err(fault("connecting"))?;
        stream.set_nodelay(true).map_err(fault("a TCP socket"))?;
        Ok(client(stream))
    })?;
    Ok(Box::new(Caller { client, tasks, runtime, payload: Payload::new() }))
}

fn client(stream: impl AsyncRead + AsyncWrite + 'static) -> echo::Client {
    let mut system = RpcSystem::new(Box::new(network(stream, Side::Client)), None);
    let client = system.bootstrap(Side::Server);
    tokio::task::spawn_local(system);
    client
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { client, tasks, runtime, payload } = self;
        match op {
            Op::Null => tasks.block_on(
                runtime,
                each(work, async || {
                    client.null_request().send().promise.await.map(drop).map_err(fault("a call"))
                }),
            ),
            Op::KiB1 => tasks.block_on(runtime, each(work, async || bytes(client, payload).await)),
            Op::Stream => {
                tasks.block_on(runtime, bursts(work, async |count| burst(client, count).await))
            }
            Op::Read | Op::ReadKiB1 => Err(unknown(op)),
        }
    }
}

async fn bytes(client: &echo::Client, payload: &mut Payload) -> Result<(), Fault> {
    let mut request = client.bytes_request();
    request.get().set_data(payload.next());
    let came = request.send().promise.await.map_err(fault("a call"))?;
    let came = came.get().and_then(|came| came.get_data()).map_err(fault("an answer"))?;
    payload.check(came)
}

async fn burst(client: &echo::Client, messages: u32) -> Result<(), Fault> {
    for n in 0..u64::from(messages) {
        let mut request = client.hit_request();
        request.get().set_n(n);
        request.send().await.map_err(fault("a message"))?;
    }
    let tally = client.tally_request().send().promise.await.map_err(fault("the call behind"))?;
    let tally = tally.get().map_err(fault("an answer"))?;
    Tally { count: tally.get_count(), sum: tally.get_sum() }.check(messages)
}
