//! tarpc over sockets, with bincode: a service as its README shows it, on tokio's runtime of one
//! thread. The sockets of TCP are told not to wait for more (`TCP_NODELAY`).

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::Payload;
use crate::tasks::{OnThread, each, runtime};
use crate::values::NO_READ;
use futures::StreamExt;
use serde_bytes::ByteBuf;
use tarpc::context::{self, Context};
use tarpc::serde_transport;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use upbeat_cli::bench::timing::{Round, Work};

/// tarpc over a unix socket, and over TCP.
pub(super) fn ways() -> Vec<Way> {
    let way = |carrier| Way {
        peer: "tarpc",
        carrier,
        mode: Mode::Sleeping,
        about: "calls of a service, bincode, tokio's runtime of one thread",
        absent: &[
            (Op::Stream, "every call of tarpc is answered, there are no streams"),
            (Op::Read, NO_READ),
            (Op::ReadKiB1, NO_READ),
        ],
        burst: 1,
        open: Open::Pair { serve, call },
    };
    vec![way("unix"), way("tcp")]
}

#[tarpc::service]
trait Echo {
    async fn null();
    async fn bytes(bytes: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Service;

impl Echo for Service {
    async fn null(self, _: Context) {}

    async fn bytes(self, _: Context, bytes: ByteBuf) -> ByteBuf {
        bytes
    }
}

const SOCKET: &str = "tarpc";
const PORT: &str = "tarpc.port";

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let served = if place.carrier == "unix" {
        let listener = std::os::unix::net::UnixListener::bind(place.socket(SOCKET))
            .map_err(fault("binding a unix socket"))?;
        listener.set_nonblocking(true).map_err(fault("a unix socket"))?;
        OnThread::start("tarpc", async || {
            let (stream, _) = UnixListener::from_std(listener)?.accept().await?;
            answer(stream).await;
            std::future::pending::<std::io::Result<()>>().await
        })
    } else {
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(fault("binding a TCP socket"))?;
        let port = listener.local_addr().map_err(fault("a TCP socket"))?.port();
        place.tell(PORT, &port.to_string())?;
        listener.set_nonblocking(true).map_err(fault("a TCP socket"))?;
        OnThread::start("tarpc", async || {
            let (stream, _) = TcpListener::from_std(listener)?.accept().await?;
            stream.set_nodelay(true)?;
            answer(stream).await;
            std::future::pending::<std::io::Result<()>>().await
        })
    };
    Ok(Box::new(served?))
}

/// Serves one connection until it ends.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
    let framed = Framed::new(stream, LengthDelimitedCodec::new());
    let transport = serde_transport::new(framed, Bincode::default());
    let responses = BaseChannel::with_defaults(transport).execute(Service.serve());
    let each = |response| async {
        tokio::task::spawn_local(response);
    };
    responses.for_each(each).await;
}

/// A client and the runtime that it lives on.
struct Caller {
    runtime: Runtime,
    client: EchoClient,
    payload: Payload,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let runtime = runtime()?;
    let client = runtime.block_on(async {
        if place.carrier == "unix" {
            let stream = UnixStream::connect(place.socket(SOCKET)).await;
            return Ok(client(stream.map_err(fault("connecting"))?));
        }
        let address = format!("127.0.0.1:{}", place.told(PORT)?);
        let stream = TcpStream::connect(address).await.map_err(fault("connecting"))?;
        stream.set_nodelay(true).map_err(fault("a TCP socket"))?;
        Ok(client(stream))
    })?;
    Ok(Box::new(Caller { runtime, client, payload: Payload::new() }))
}

fn client(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> EchoClient {
    let framed = Framed::new(stream, LengthDelimitedCodec::new());
    let transport = serde_transport::new(framed, Bincode::default());
    EchoClient::new(tarpc::client::Config::default(), transport).spawn()
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { runtime, client, payload } = self;
        match op {
            Op::Null => runtime.block_on(each(work, async || {
                client.null(context::current()).await.map_err(fault("a call"))
            })),
            Op::KiB1 => runtime.block_on(each(work, async || {
                let sent = ByteBuf::from(payload.next());
                let came = client.bytes(context::current(), sent).await.map_err(fault("a call"))?;
                payload.check(&came)
            })),
            Op::Stream | Op::Read | Op::ReadKiB1 => Err(unknown(op)),
        }
    }
}
