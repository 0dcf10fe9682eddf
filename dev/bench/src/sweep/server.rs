//! The servers of a sweep: threads of this process, and other processes.

use super::cells::{CARRIERS, Carrier, Stand, WAITINGS, word};
use super::store::{Checker, StoreServer};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use upbeat::handle::HandleBuilder;
use upbeat::{Builder, Identity, Node};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{identity, refused};

/// The first word of a server's name on the command line of its process.
const SERVER: &str = "sweep";
/// The program of all nodes of a sweep.
const PROGRAM: &str = "upbeat-sweep";

/// The directory of a sweep, for its sockets and its identity.
pub(super) struct Site {
    directory: PathBuf,
}

impl Site {
    pub(super) fn new() -> Result<Site, BenchError> {
        let directory = std::env::temp_dir().join(format!("upbeat-sweep-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(refused("making a directory"))?;
        let site = Site { directory };
        identity(PROGRAM, &site.directory)?;
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where a client meets its server.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) stand: Stand,
    directory: PathBuf,
    /// The name of the server, and its address if it has one.
    pub(super) to: String,
}

impl Meeting {
    fn identity(&self) -> Result<Identity, String> {
        let path = self.directory.join("identity.pem");
        Identity::load(path.to_string_lossy().as_ref()).map_err(|error| error.to_string())
    }

    /// Returns the builder of a node of this sweep.
    pub(super) fn builder(&self, name: &str) -> Result<Builder, String> {
        let builder = Node::builder(name).program(PROGRAM).waiting(self.stand.waiting);
        let sockets = self.directory.join("sockets");
        Ok(match self.stand.carrier {
            Carrier::Local => builder.local_only(),
            Carrier::Shared => builder.directory(sockets),
            Carrier::Stream => builder.directory(sockets).shared_memory(false),
            Carrier::Tcp => builder.directory(sockets).shared_memory(false).insecure_plaintext(),
            Carrier::Tls => {
                builder.directory(sockets).shared_memory(false).identity(self.identity()?)
            }
        })
    }

    /// Returns the builder of a handle of this sweep.
    pub(super) fn handles(&self) -> Result<HandleBuilder, String> {
        let builder = upbeat::handle::builder().program(PROGRAM).waiting(self.stand.waiting);
        let builder = builder.directory(self.directory.join("sockets"));
        Ok(match self.stand.carrier {
            Carrier::Local | Carrier::Shared => builder,
            Carrier::Stream => builder.shared_memory(false),
            Carrier::Tcp => builder.shared_memory(false).insecure_plaintext(),
            Carrier::Tls => builder.shared_memory(false).identity(self.identity()?),
        })
    }

    /// Builds a node that serves.
    fn serve(&self) -> Result<Node, String> {
        let builder = self.builder(&self.to)?;
        let builder = match self.stand.carrier {
            Carrier::Tcp | Carrier::Tls => builder.listen("127.0.0.1:0"),
            _ => builder,
        };
        let node = builder.build().map_err(|error| error.to_string())?;
        node.serve(StoreServer::new(Checker::new())).map_err(|error| error.to_string())?;
        Ok(node)
    }
}

/// A server of one stand.
pub(super) struct Server {
    meeting: Meeting,
    process: Option<Child>,
}

impl Server {
    pub(super) fn start(stand: Stand, site: &Site) -> Result<Server, BenchError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let to = format!("server/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let meeting = Meeting { stand, directory: site.directory.clone(), to };
        match stand.carrier {
            Carrier::Local => Server::here(meeting),
            _ => Server::elsewhere(meeting),
        }
    }

    fn here(meeting: Meeting) -> Result<Server, BenchError> {
        let (tell, told) = channel();
        let own = meeting.clone();
        thread::spawn(move || match own.serve() {
            Ok(node) => {
                let _ = tell.send(Ok(()));
                // The thread ends with this process.
                node.block_on(std::future::pending::<()>());
            }
            Err(text) => drop(tell.send(Err(text))),
        });
        told.recv().map_err(refused("a server"))?.map_err(refused("a server"))?;
        Ok(Server { meeting, process: None })
    }

    fn elsewhere(mut meeting: Meeting) -> Result<Server, BenchError> {
        let Stand { carrier, waiting } = meeting.stand;
        let name = format!("{SERVER}:{}:{}:{}", word(carrier), word(waiting), meeting.to);
        let this = std::env::current_exe().map_err(refused("finding this program"))?;
        let mut command = Command::new(this);
        command
            .args(["bench-peer", "--cpus", "0,1", "--scratch"])
            .arg(&meeting.directory)
            .arg(name);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(refused("starting a server"))?;
        let output = process.stdout.take().ok_or_else(|| BenchError::protocol("no output"))?;
        let mut server = Server { meeting: meeting.clone(), process: Some(process) };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(refused("reading of a server"))?;
        let Some(at) = line.trim().strip_prefix("serving") else {
            return Err(BenchError::protocol(format!("a server does not serve: {line}")));
        };
        if !at.is_empty() {
            meeting.to = format!("{}@{}", meeting.to, at.trim());
        }
        server.meeting = meeting;
        Ok(server)
    }

    pub(super) fn meeting(&self) -> Meeting {
        self.meeting.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Serves in this process, until its input ends, if the word names a server of a sweep.
pub(super) fn serve(bench: &str, scratch: &Path) -> Option<Result<(), BenchError>> {
    let words: Vec<&str> = bench.split(':').collect();
    let [SERVER, carrier, waiting, to] = words[..] else { return None };
    let carrier = CARRIERS.into_iter().find(|of| word(of) == carrier)?;
    let waiting = WAITINGS.into_iter().find(|of| word(of) == waiting)?;
    let stand = Stand { carrier, waiting };
    let meeting = Meeting { stand, directory: scratch.to_owned(), to: to.to_owned() };
    Some(serve_until_the_end(&meeting))
}

fn serve_until_the_end(meeting: &Meeting) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(refused("following a parent"))?;
    let node = meeting.serve().map_err(refused("a server"))?;
    let at = node.listens_at().map(|at| at.to_string()).unwrap_or_default();
    println!("serving {at}");
    std::io::stdout().flush().map_err(refused("telling an address"))?;
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    node.block_on(std::future::pending::<()>());
    Ok(())
}
