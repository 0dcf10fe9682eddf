//! A node that serves [`Work`](super::work::Work), in another thread or in another process.

use super::process::{Other, input_ends, say};
use super::work::{WorkServer, Worker};
use super::{Signal, node};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{Node, Waiting};

/// How long a server still replies after the order to end.
const GRACE: Duration = Duration::from_secs(1);

/// Where a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    Shared,
}

pub(crate) const KINDS: [Kind; 2] = [Kind::Local, Kind::Shared];

/// A server that runs elsewhere.
pub(crate) enum Server {
    Local(Signal, Option<std::thread::JoinHandle<()>>),
    Shared(Other),
}

impl Server {
    /// Starts one of this file's, and waits until it serves.
    pub(crate) fn start(kind: Kind, name: &str, place: &Path, waiting: Waiting) -> Server {
        let (own, at) = (name.to_owned(), place.to_owned());
        let other = || Other::start(&format!("serve {name} {waiting:?}"), place);
        Server::of(kind, other, move |quit, ready| serve(&own, &at, waiting, quit, ready))
    }

    /// Starts any, and waits until it serves: another process, which says `serving`, or another thread,
    /// which is told when to end, and what to do when it serves.
    pub(crate) fn of(
        kind: Kind,
        other: impl FnOnce() -> Other,
        local: impl FnOnce(Signal, &dyn Fn()) + Send + 'static,
    ) -> Server {
        if kind == Kind::Shared {
            let mut other = other();
            other.expect("serving");
            return Server::Shared(other);
        }
        let stop = Signal::default();
        let quit = stop.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || local(quit, &|| ready.send(()).unwrap()));
        is_ready.recv().unwrap();
        Server::Local(stop, Some(thread))
    }

    pub(crate) fn other(&mut self) -> &mut Other {
        match self {
            Server::Shared(other) => other,
            Server::Local(..) => panic!("a thread"),
        }
    }

    /// Kills its process, or tells its thread to end where it has none of its own.
    pub(crate) fn kill(&mut self) {
        match self {
            Server::Local(stop, _) => stop.give(),
            Server::Shared(other) => other.kill(),
        }
    }

    /// Tells it to end, without waiting for that.
    pub(crate) fn stop(&mut self) {
        match self {
            Server::Local(stop, _) => stop.give(),
            Server::Shared(other) => drop(other.child.stdin.take()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        match self {
            Server::Local(_, thread) => {
                let ended = thread.take().unwrap().join();
                assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
            }
            Server::Shared(other) if std::thread::panicking() => other.kill(),
            Server::Shared(other) => {
                // By itself, or by a signal of the test's.
                let ended = other.child.wait().unwrap();
                assert!(ended.success() || ended.code().is_none(), "the server: {ended}");
            }
        }
    }
}

/// Serves in this thread until `quit` is given.
pub(crate) fn serve(
    name: &str,
    place: &Path,
    waiting: Waiting,
    quit: Signal,
    ready: impl FnOnce(),
) {
    let node = node(name, place, waiting);
    let worker = Rc::new(Worker::new(quit.clone()));
    *worker.node.borrow_mut() = Some(node.clone());
    node.serve(WorkServer::shared(Rc::clone(&worker))).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(GRACE);
    *worker.node.borrow_mut() = None;
}

/// Plays the part `serve NAME WAITING`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let ["serve", name, waiting] = words[..] else { return false };
    let waiting = match waiting {
        "Polling" => Waiting::Polling,
        "Sleeping" => Waiting::Sleeping,
        _ => Waiting::Adaptive,
    };
    serve(name, place, waiting, input_ends(), || say("serving"));
    true
}

/// A client's node beside a server.
pub(crate) struct Stand {
    pub(crate) node: Node,
    pub(crate) server: Server,
    pub(crate) place: PathBuf,
    pub(crate) _directory: super::Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind, waiting: Waiting) -> Stand {
        let directory = super::Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let server = Server::start(kind, &format!("server/{name}"), &place, waiting);
        let node = node(&format!("client/{name}"), &place, waiting);
        Stand { node, server, place, _directory: directory }
    }

    /// The name of the server.
    pub(crate) fn name(&self) -> String {
        self.node.name().replace("client", "server")
    }
}
