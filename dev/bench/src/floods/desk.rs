//! The node that is flooded: its service, its process or thread, and its processor time.

use super::Carrier;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use upbeat::handle::HandleBuilder;
use upbeat::{Builder, Identity, Node};
use upbeat_cli::bench::control::Control;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{identity, refused};
use upbeat_cli::bench::pair::{self, Pair, Server};
use upbeat_cli::bench::pin::{self, Cpus};
use upbeat_cli::bench::timing::Work;

/// The program of all nodes, and the name of the node.
pub(super) const PROGRAM: &str = "bench-floods";
pub(super) const NAME: &str = "desk";

/// The service of the node.
#[upbeat::service]
pub(super) trait Greeter {
    /// Does nothing.
    async fn null(&self);
}

struct Quiet;

impl Greeter for Quiet {
    async fn null(&self) {}
}

/// How the node is reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Door {
    /// The directory of the sockets.
    pub(super) directory: PathBuf,
    /// The port, if other hosts can reach the node.
    pub(super) at: Option<SocketAddr>,
    /// The file of the identity of all nodes, under TLS.
    identity: Option<PathBuf>,
    /// The process and the thread of the node.
    process: u32,
    thread: i32,
    /// Whether the node is in the process of its clients.
    is_here: bool,
}

impl Door {
    /// Returns the path of the socket at which other processes of the host call.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(PROGRAM).join(format!("{NAME}.sock"))
    }

    /// Returns the name to which clients connect.
    pub(super) fn name(&self) -> String {
        self.at.map_or(NAME.to_owned(), |at| format!("{NAME}@{at}"))
    }

    /// Returns the way of the same clients to another listener.
    pub(super) fn elsewhere(&self, at: SocketAddr) -> Door {
        Door { at: Some(at), ..self.clone() }
    }

    /// Makes an identity of another authority, which trusts that of the node. Returns `None` without TLS.
    pub(super) fn foreign(&self) -> Result<Option<Identity>, BenchError> {
        const END: &str = "-----END CERTIFICATE-----\n";
        let Some(ours) = &self.identity else { return Ok(None) };
        let directory = self.directory.join("foreign");
        let make = || -> std::io::Result<PathBuf> {
            std::fs::create_dir_all(&directory)?;
            Ok(directory.join("both.pem"))
        };
        let path = make().map_err(refused("a directory"))?;
        let foreign = identity(PROGRAM, &directory)?;
        let write = || -> std::io::Result<()> {
            // The first certificate in the file is that of the authority.
            let ours = std::fs::read_to_string(ours)?;
            let authority = ours.split_inclusive(END).next().unwrap_or_default();
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(&std::fs::read(foreign.path())?)?;
            file.write_all(authority.as_bytes())
        };
        write().map_err(refused("writing an identity"))?;
        loaded(&path).map(Some)
    }

    /// Returns whether clients speak TLS.
    pub(super) fn is_secured(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns the builder of a client.
    pub(super) fn client(&self) -> Result<HandleBuilder, BenchError> {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(&self.directory);
        let builder = builder.shared_memory(self.is_here).sampling(0);
        Ok(match &self.identity {
            Some(path) => builder.identity(loaded(path)?),
            None => builder.insecure_plaintext(),
        })
    }
}

fn loaded(path: &Path) -> Result<Identity, BenchError> {
    Identity::load(path).map_err(refused("loading an identity"))
}

/// The flooded node.
pub(super) struct Desk {
    door: Door,
    /// The node's process, unless it is this one.
    pair: Option<Pair>,
}

impl Desk {
    pub(super) fn start(carrier: Carrier, cpus: Cpus) -> Result<Desk, BenchError> {
        if carrier == Carrier::Memory {
            pin::pin(cpus.client)?;
            let directory = std::env::temp_dir().join(format!("floods-{}", std::process::id()));
            return Ok(Desk { door: open(carrier, cpus, &directory)?, pair: None });
        }
        let pair = Pair::start(&format!("floods-{}", carrier.word()), cpus)?;
        let door = pair.control().receive()?;
        Ok(Desk { door, pair: Some(pair) })
    }

    pub(super) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Returns the time for which the node's thread has had a processor.
    pub(super) fn cpu_ns(&self) -> Result<u64, BenchError> {
        let Door { process, thread, .. } = self.door;
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
        first.ok_or_else(|| BenchError::protocol(format!("{path} has no processor time: {text}")))
    }

    pub(super) fn end(self) -> Result<(), BenchError> {
        self.pair.map_or(Ok(()), Pair::end)
    }
}

/// Opens the node on a thread of its own, which ends with the process.
fn open(carrier: Carrier, cpus: Cpus, directory: &Path) -> Result<Door, BenchError> {
    let identity = match carrier {
        Carrier::Tls => Some(identity(PROGRAM, directory)?.path().to_owned()),
        _ => None,
    };
    let (say, said) = channel();
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        if let Err(error) = stand(carrier, cpus, directory, identity, &say) {
            let _ = say.send(Err(error));
        }
    });
    said.recv().map_err(|_| BenchError::protocol("the node is gone"))?
}

fn stand(
    carrier: Carrier,
    cpus: Cpus,
    directory: PathBuf,
    identity: Option<PathBuf>,
    say: &Sender<Result<Door, BenchError>>,
) -> Result<(), BenchError> {
    pin::pin(cpus.server)?;
    let is_here = carrier == Carrier::Memory;
    let builder = Node::builder(NAME).program(PROGRAM).directory(&directory).sampling(0);
    let builder = listening(builder.shared_memory(is_here), carrier, identity.as_deref())?;
    let node = builder.build().map_err(refused("a node"))?;
    node.serve(GreeterServer::new(Quiet)).map_err(refused("serving"))?;
    let (process, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get());
    let at = node.listens_at();
    let _ = say.send(Ok(Door { directory, at, identity, process, thread, is_here }));
    node.block_on(std::future::pending::<()>());
    Ok(())
}

fn listening(
    builder: Builder,
    carrier: Carrier,
    identity: Option<&Path>,
) -> Result<Builder, BenchError> {
    let listens = matches!(carrier, Carrier::Tcp | Carrier::Tls);
    let builder = if listens { builder.listen("127.0.0.1:0") } else { builder };
    Ok(match identity {
        Some(path) => builder.identity(loaded(path)?),
        None => builder.insecure_plaintext(),
    })
}

/// Returns the carrier of the node's process of this name.
pub(super) fn carrier_of(name: &str) -> Option<Carrier> {
    let word = name.strip_prefix("floods-")?;
    Carrier::ALL.into_iter().find(|carrier| carrier.word() == word)
}

/// Runs the node's process.
pub(super) fn serve(carrier: Carrier, cpus: Cpus, scratch: &Path) -> Result<(), BenchError> {
    pair::serve(cpus, |control: &Control, _| {
        control.send(&open(carrier, cpus, scratch)?)?;
        Ok(Standing)
    })
}

/// The node's process, which does nothing but let the node run.
struct Standing;

impl Server for Standing {
    fn round(&mut self, case: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        Err(BenchError::protocol(format!("the node is told {case}")))
    }
}
