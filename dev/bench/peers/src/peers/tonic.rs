//! tonic, gRPC over HTTP/2: unary calls with `bytes` fields, a client's stream for messages, on
//! tokio's runtime of one thread. Nagle's algorithm is off, as tonic has it by default.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::{Payload, Tally};
use crate::tasks::{OnThread, bursts, each, runtime};
use crate::values::NO_READS;
use prost::bytes::Bytes;
use proto::echo_client::EchoClient;
use proto::echo_server::{Echo, EchoServer};
use proto::{Data, Message, Nothing, Sum};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use upbeat_cli::bench::timing::{Round, Work};

/// The code that the compiler of protocol buffers generates from `proto/echo.proto`.
#[allow(clippy::all, missing_docs, unreachable_pub)]
mod proto {
    tonic::include_proto!("echo");
}

/// tonic over a unix socket, and over TCP.
pub(super) fn ways() -> Vec<Way> {
    let way = |carrier| Way {
        peer: "tonic",
        carrier,
        mode: Mode::Sleeping,
        about: "unary calls and a client's stream of gRPC, tokio's runtime of one thread",
        absent: NO_READS,
        burst: 5_000,
        open: Open::Pair { serve, call },
    };
    vec![way("unix"), way("tcp")]
}

struct Service;

#[tonic::async_trait]
impl Echo for Service {
    async fn null(&self, _: Request<Nothing>) -> Result<Response<Nothing>, Status> {
        Ok(Response::new(Nothing {}))
    }

    async fn bytes(&self, request: Request<Data>) -> Result<Response<Data>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn hits(&self, request: Request<Streaming<Message>>) -> Result<Response<Sum>, Status> {
        let (mut messages, mut tally) = (request.into_inner(), Tally::default());
        while let Some(message) = messages.message().await? {
            tally.add(message.n);
        }
        Ok(Response::new(Sum { count: tally.count, sum: tally.sum }))
    }
}

const SOCKET: &str = "tonic";
const PORT: &str = "tonic.port";

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let served = if place.carrier == "unix" {
        let listener = std::os::unix::net::UnixListener::bind(place.socket(SOCKET))
            .map_err(fault("binding a unix socket"))?;
        listener.set_nonblocking(true).map_err(fault("a unix socket"))?;
        OnThread::start("tonic", async || {
            let incoming = UnixListener::from_std(listener).map(UnixListenerStream::new);
            let incoming = incoming.map_err(fault("a unix socket"))?;
            let server = Server::builder().add_service(EchoServer::new(Service));
            server.serve_with_incoming(incoming).await.map_err(fault("gRPC"))
        })
    } else {
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(fault("binding a TCP socket"))?;
        let port = listener.local_addr().map_err(fault("a TCP socket"))?.port();
        place.tell(PORT, &port.to_string())?;
        listener.set_nonblocking(true).map_err(fault("a TCP socket"))?;
        OnThread::start("tonic", async || {
            let listener = TcpListener::from_std(listener).map_err(fault("a TCP socket"))?;
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().add_service(EchoServer::new(Service));
            server.serve_with_incoming(incoming).await.map_err(fault("gRPC"))
        })
    };
    Ok(Box::new(served?))
}

/// A client and its runtime.
struct Caller {
    runtime: Runtime,
    client: EchoClient<Channel>,
    payload: Payload,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let runtime = runtime()?;
    let address = match place.carrier {
        "unix" => format!("unix://{}", place.socket(SOCKET).display()),
        _ => format!("http://127.0.0.1:{}", place.told(PORT)?),
    };
    let endpoint = Endpoint::from_shared(address).map_err(fault("an address"))?.tcp_nodelay(true);
    let channel = runtime.block_on(endpoint.connect()).map_err(fault("connecting"))?;
    Ok(Box::new(Caller { runtime, client: EchoClient::new(channel), payload: Payload::new() }))
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { runtime, client, payload } = self;
        match op {
            Op::Null => runtime.block_on(each(work, async || {
                client.null(Nothing {}).await.map(drop).map_err(fault("a call"))
            })),
            Op::KiB1 => runtime.block_on(each(work, async || {
                let data = Bytes::copy_from_slice(payload.next());
                let came = client.bytes(Data { data }).await.map_err(fault("a call"))?;
                payload.check(&came.get_ref().data)
            })),
            Op::Stream => {
                runtime.block_on(bursts(work, async |messages| burst(client, messages).await))
            }
            Op::Read | Op::ReadKiB1 => Err(unknown(op)),
        }
    }
}

/// Sends a stream of messages and checks the tally in the server's reply.
async fn burst(client: &mut EchoClient<Channel>, messages: u32) -> Result<(), Fault> {
    let all = tokio_stream::iter((0..u64::from(messages)).map(|n| Message { n }));
    let Sum { count, sum } = client.hits(all).await.map_err(fault("a stream"))?.into_inner();
    Tally { count, sum }.check(messages)
}
