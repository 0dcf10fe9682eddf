//! Processes of a world.

use crate::world::{Simulated, current, current_host};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use upbeat_environment::process::Resource;
use upbeat_environment::{Awaited, World};

/// How far a process has come.
const RUNS: u64 = 0;
const ENDED: u64 = 1;
const KILLED: u64 = 2;

/// A process of the world: its nodes reach those of other processes through shared memory and sockets, as real ones do.
///
/// ```
/// use std::time::Duration;
/// use upbeat::Node;
/// use upbeat_sim::Process;
///
/// # let place = std::env::temp_dir().join(format!("upbeat-sim-doc-{}", std::process::id()));
/// let world = upbeat_sim::run(7, || {
///     let build = |name| Node::builder(name).directory(&place).build().unwrap();
///     let place = place.clone();
///     let server = Process::start("server", move || {
///         let node = Node::builder("doc/server").directory(&place).build().unwrap();
///         node.block_on(std::future::pending::<()>());
///     });
///     let client = build("doc/client");
///     client.block_on(upbeat::sleep(Duration::from_secs(1)));
///     server.kill();
///     assert!(!server.is_running());
/// });
/// assert!(world.ended.is_ok());
/// # std::fs::remove_dir_all(&place).unwrap();
/// ```
#[derive(Clone)]
pub struct Process {
    process: Arc<Simulated>,
    state: Arc<AtomicU64>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("number", &self.process.number()).finish_non_exhaustive()
    }
}

impl Process {
    /// Starts a process on the host of the calling thread. It ends when its first thread does, with all others.
    ///
    /// # Panics
    /// In no world, and where the system has no thread left.
    pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Process {
        Process::start_on(current_host(), name, body)
    }

    /// Starts a process on a host.
    pub(crate) fn start_on(host: u32, name: &str, body: impl FnOnce() + Send + 'static) -> Process {
        let process =
            current().expect("a process of a world is started in a world").beside(name, host);
        let state = Arc::new(AtomicU64::new(RUNS));
        let (of, its) = (Arc::clone(&process), Arc::clone(&state));
        let first = Box::new(move || {
            body();
            its.store(ENDED, Ordering::Release);
            of.ends();
        });
        // The thread's handle is not needed: the world waits for it.
        drop(process.start(name, first).expect("the system has a thread left"));
        Process { process, state }
    }

    /// Kills the process, where each of its threads waits: none goes on, nothing of theirs is dropped before the end of
    /// the world, the sockets of its nodes and handles end, and their names are free.
    ///
    /// # Panics
    /// Outside of the world.
    pub fn kill(&self) {
        assert!(self.process.is_in_turn(), "a process of a world is killed in that world");
        if self.is_running() {
            self.state.store(KILLED, Ordering::Release);
            self.process.ends();
        }
    }

    /// Stops the process where its threads wait, as SIGSTOP does. Its sockets stay open, and what comes waits there.
    ///
    /// # Panics
    /// Outside of the world.
    pub fn stop(&self) {
        assert!(self.process.is_in_turn(), "a process of a world is stopped in that world");
        if self.is_running() {
            self.process.stops(true);
        }
    }

    /// Has the process lack a resource, or none.
    pub(crate) fn starve(&self, resource: Option<Resource>) {
        let number = self.process.number();
        self.process.schedule(|world| world.starve(number, resource));
    }

    /// Has a stopped process go on.
    ///
    /// # Panics
    /// Outside of the world.
    pub fn go_on(&self) {
        assert!(self.process.is_in_turn(), "a process of a world goes on in that world");
        self.process.stops(false);
    }

    /// Returns whether the process has neither ended nor been killed.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNS
    }

    /// Waits for the end of the process. Returns false if it was killed.
    #[must_use]
    pub fn join(self) -> bool {
        assert!(self.process.is_in_turn(), "a process of a world is joined in that world");
        let world = &self.process;
        world.wait(Awaited::Change(&self.state, RUNS), None);
        self.state.load(Ordering::Acquire) == ENDED
    }
}
