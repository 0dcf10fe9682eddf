//! The strangers: connections that no node has opened.

use super::desk::{Door, NAME, PROGRAM};
use super::{Carrier, Case, Kind, Rate, clients};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, send,
    shutdown, socket_with, sockopt,
};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use upbeat::Identity;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::refused;
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_transport::local;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::Opening;
use upbeat_transport::tls::TlsStream;

/// The strangers that are there at a time: the oldest leave before others come.
const THERE_MAX: usize = 3_000;
/// The youngest strangers, whose handshakes go on.
const SHAKING_MAX: usize = 256;
/// How often strangers come.
const BEAT: Duration = Duration::from_millis(1);

/// The time within which a client has sent its first message.
const HEARING: Duration = Duration::from_millis(200);

/// The beginning of a first message, in plaintext and under TLS.
const BEGINNING: &[u8] = b"upbe";
const TLS_BEGINNING: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
/// Bytes that are no first message; the second are a whole record of TLS.
const GARBAGE: [&[u8]; 2] = [
    b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n",
    b"\x16\x03\x01\x00\x10\x01\x00\x00\x0c\x03\x03garbage...",
];

/// The counts of strangers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// Strangers that connected.
    pub(super) came: u64,
    /// Strangers that found the queue of the listener full.
    pub(super) turned_back: u64,
}

/// A thread that has strangers come.
pub(super) struct Crowd {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Count, BenchError>>,
}

impl Crowd {
    pub(super) fn start(door: &Door, case: Case) -> Result<Crowd, BenchError> {
        let over = Arc::new(AtomicBool::new(false));
        let mut source = Source::new(door, case)?;
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (began, mut count) = (Instant::now(), Count::default());
            let mut there = VecDeque::new();
            while !told.load(Relaxed) {
                let (due, tried) = match case.rate {
                    // Strangers that find the queue full come again.
                    Rate::AtOnce(number) => (u64::from(number), count.came),
                    Rate::PerSecond(number) => {
                        let due = began.elapsed().as_secs_f64() * f64::from(number);
                        (due as u64, count.came + count.turned_back)
                    }
                };
                for _ in tried..due {
                    let Some(stranger) = source.stranger()? else {
                        count.turned_back += 1;
                        break;
                    };
                    there.push_back(stranger);
                    count.came += 1;
                    if there.len() > THERE_MAX {
                        there.pop_front();
                    }
                    if told.load(Relaxed) {
                        break;
                    }
                }
                there.iter_mut().rev().take(SHAKING_MAX).for_each(Stranger::go_on);
                std::thread::sleep(BEAT);
            }
            Ok(count)
        });
        Ok(Crowd { over, thread })
    }

    /// Has all strangers leave.
    pub(super) fn stop(self) -> Result<Count, BenchError> {
        self.over.store(true, Relaxed);
        match self.thread.join() {
            Ok(count) => count,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Returns what a client sends first, to a listener that does not answer.
fn greeting(door: &Door) -> Result<Vec<u8>, BenchError> {
    let listening = || -> std::io::Result<_> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        Ok((listener.local_addr()?, listener))
    };
    let (at, listener) = listening().map_err(refused("listening"))?;
    let door = door.elsewhere(at);
    let client = std::thread::spawn(move || clients::connect(&door));
    let mut bytes = Vec::new();
    let mut hear = || -> std::io::Result<()> {
        let (mut caller, _) = listener.accept()?;
        caller.set_read_timeout(Some(HEARING))?;
        match caller.read_to_end(&mut bytes) {
            // The client waits for an answer.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            ended => ended.map(drop),
        }
    };
    hear().map_err(refused("hearing a client"))?;
    drop(listener);
    // The client fails, because nobody has answered.
    client.join().map(drop).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok(bytes)
}

/// A stranger that is there, until it is dropped.
#[expect(dead_code, reason = "a stranger is there as long as its connection")]
enum Stranger {
    Socket(OwnedFd),
    Request(Option<Opening>),
    /// A client under TLS, until the node has refused its certificate.
    Client(Option<Box<TlsStream>>),
}

impl Stranger {
    /// Goes on with the handshake of a client.
    fn go_on(&mut self) {
        if let Stranger::Client(client) = self
            && client.as_ref().is_some_and(|client| client.handshake().is_err())
        {
            *client = None;
        }
    }
}

/// The place from where strangers come.
struct Source {
    case: Case,
    door: Door,
    /// The home of strangers within the process.
    home: LocalNode,
    name: NodeName,
    /// The first message of a client, for strangers that send one.
    greeting: Vec<u8>,
    /// The identity of clients that the node does not trust.
    foreign: Option<Identity>,
    made: usize,
}

impl Source {
    fn new(door: &Door, case: Case) -> Result<Source, BenchError> {
        let program = ProgramId::named(PROGRAM.parse().map_err(refused("naming a program"))?);
        let home = LocalNode::local(program, None).map_err(refused("a node"))?;
        let name = NAME.parse().map_err(refused("naming a node"))?;
        let greeting = match case.kind {
            Kind::Greeting => greeting(door)?,
            _ => Vec::new(),
        };
        let foreign = match case.kind {
            Kind::Foreign => door.foreign()?,
            _ => None,
        };
        Ok(Source { case, door: door.clone(), home, name, greeting, foreign, made: 0 })
    }

    /// Has one more stranger come. Returns `None` if the queue is full.
    fn stranger(&mut self) -> Result<Option<Stranger>, BenchError> {
        self.made += 1;
        if self.case.carrier == Carrier::Memory {
            return self.request();
        }
        let Some(socket) = self.connect()? else { return Ok(None) };
        if let Some(foreign) = &self.foreign {
            let client = TlsStream::client(socket, foreign).map_err(refused("a client"))?;
            return Ok(Some(Stranger::Client(Some(Box::new(client)))));
        }
        let bytes = match (self.case.kind, self.door.is_secured()) {
            (Kind::Silent | Kind::Foreign, _) => None,
            (Kind::Partial, false) => Some(BEGINNING),
            (Kind::Partial, true) => Some(TLS_BEGINNING),
            (Kind::Greeting, _) => Some(self.greeting.as_slice()),
            (Kind::Garbage, _) => Some(GARBAGE[self.made % GARBAGE.len()]),
            (Kind::HalfClosed, _) => {
                // The node may be gone again.
                let _ = shutdown(&socket, Shutdown::Write);
                None
            }
        };
        if let Some(bytes) = bytes {
            let _ = send(&socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        Ok(Some(Stranger::Socket(socket)))
    }

    fn connect(&self) -> Result<Option<OwnedFd>, BenchError> {
        let (family, kind) = match self.door.at {
            Some(_) => (AddressFamily::INET, SocketType::STREAM),
            None => (AddressFamily::UNIX, SocketType::SEQPACKET),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(family, kind, flags, None).map_err(BenchError::system("a socket"))?;
        let connected = match self.door.at {
            Some(at) => {
                // The ports of strangers that have left can be used again at once.
                let reset = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
                reset.and_then(|()| connect(&socket, &at))
            }
            None => SocketAddrUnix::new(self.door.socket()).and_then(|at| connect(&socket, &at)),
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::ADDRNOTAVAIL) => Ok(None),
            Err(error) => Err(BenchError::System { act: "connecting a stranger", error }),
        }
    }

    fn request(&self) -> Result<Option<Stranger>, BenchError> {
        match local::connect(&self.home, &self.name, 0, 0) {
            Ok(opening) => {
                let is_kept = self.case.kind == Kind::Silent;
                Ok(Some(Stranger::Request(is_kept.then_some(opening))))
            }
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(refused("connecting a stranger")(error)),
        }
    }
}
