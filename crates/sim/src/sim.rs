//! A program in a world: its processes by their names, and its chance.

use crate::process::Process;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use upbeat::handle::HandleBuilder;
use upbeat::{Builder, Node};
use upbeat_environment::thread::spawn;
use upbeat_environment::{chance, waiting};

/// The program of the nodes of a world.
const PROGRAM: &str = "sim";

/// The program of a test, as [`check`](crate::check) runs it in a world. Its clones are the same program.
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Inner>,
}

struct Inner {
    /// The directory of the sockets.
    place: PathBuf,
    processes: Mutex<BTreeMap<String, Named>>,
    /// How often each thing that is to happen sometimes has happened.
    reached: Mutex<BTreeMap<&'static str, u64>>,
    is_over: AtomicBool,
}

/// A process that can be started again.
struct Named {
    body: Arc<dyn Fn() + Send + Sync>,
    process: Process,
}

/// How often a process is killed, and when it is started again.
#[derive(Clone, Debug)]
pub struct Kills {
    /// The time from a start to the next kill.
    pub every: Range<Duration>,
    /// The time from a kill to the next start.
    pub restart_after: Range<Duration>,
}

impl Sim {
    pub(crate) fn new() -> Sim {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("upbeat-sim-{}-{number}", std::process::id());
        let inner = Inner {
            place: std::env::temp_dir().join(name),
            processes: Mutex::default(),
            reached: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        Sim { inner: Arc::new(inner) }
    }

    /// Returns the builder of a node that is found in this world.
    pub fn node(&self, name: &str) -> Builder {
        Node::builder(name).program(PROGRAM).directory(&self.inner.place)
    }

    /// Returns the builder of handles that find the nodes of this world.
    pub fn handles(&self) -> HandleBuilder {
        upbeat::handle::builder().program(PROGRAM).directory(&self.inner.place)
    }

    /// Returns the directory of the world, which is removed at its end.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.inner.place
    }

    /// Starts a process, whose first thread runs `body`. At each restart it runs again. An error that it returns ends the
    /// world, as a panic does.
    ///
    /// # Panics
    /// If a process of this name runs.
    pub fn start<E: Display>(
        &self,
        name: &str,
        body: impl Fn(&Sim) -> Result<(), E> + Send + Sync + 'static,
    ) {
        assert!(!self.is_running(name), "a process `{name}` runs already");
        let (sim, called) = (self.clone(), name.to_owned());
        let body = Arc::new(move || {
            if let Err(error) = body(&sim) {
                panic!("process `{called}` has ended: {error}");
            }
        });
        self.begin(name, body);
    }

    /// Kills a process, unless it has ended.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn kill(&self, name: &str) {
        self.process(name).kill();
    }

    /// Breaks the connections that a process has with other hosts.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn break_connections(&self, name: &str) {
        self.process(name).break_connections();
    }

    /// Starts a process again that was killed or has ended.
    ///
    /// # Panics
    /// If no process of this name was started, or if it runs.
    pub fn restart(&self, name: &str) {
        assert!(!self.is_running(name), "the process `{name}` runs");
        let body = self.processes().get(name).map(|named| Arc::clone(&named.body));
        let body = body.unwrap_or_else(|| panic!("no process `{name}` was started"));
        self.begin(name, body);
    }

    /// Returns whether a process of this name runs.
    #[must_use]
    pub fn is_running(&self, name: &str) -> bool {
        self.processes().get(name).is_some_and(|named| named.process.is_running())
    }

    /// Kills a process again and again, and starts it again, until the program ends.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn kills(&self, name: &str, kills: Kills) {
        let (sim, of) = (self.clone(), name.to_owned());
        let body = move || loop {
            sim.pause(sim.between(&kills.every));
            if sim.is_over() {
                return;
            }
            sim.kill(&of);
            sim.pause(sim.between(&kills.restart_after));
            if sim.is_over() {
                return;
            }
            sim.restart(&of);
        };
        spawn(&format!("kills {name}"), body).expect("the system has a thread left");
    }

    /// Has the calling thread do nothing for a time.
    pub fn pause(&self, time: Duration) {
        waiting::sleep(time);
    }

    /// Returns a number below `end`, which follows from the seed.
    ///
    /// # Panics
    /// If `end` is 0, and outside of the world.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        assert!(
            upbeat_environment::is_simulated(),
            "chance follows from the seed in a world alone"
        );
        let drawn = chance::random().expect("a world has random numbers");
        u64::from_le_bytes(drawn) % end
    }

    /// Returns a time of a range, or its start if it is empty.
    #[must_use]
    pub fn between(&self, times: &Range<Duration>) -> Duration {
        let span = times.end.saturating_sub(times.start).as_nanos().max(1);
        times.start + Duration::from_nanos(self.below(u64::try_from(span).unwrap_or(u64::MAX)))
    }

    /// Takes note of something that is to happen under at least one seed. [`check`](crate::check) fails if it never does.
    pub fn sometimes(&self, what: &'static str, happens: bool) {
        let mut reached = self.inner.reached.lock().unwrap_or_else(PoisonError::into_inner);
        *reached.entry(what).or_default() += u64::from(happens);
    }

    pub(crate) fn reached(&self) -> BTreeMap<&'static str, u64> {
        self.inner.reached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all processes of the program, whose first thread ends.
    pub(crate) fn ends(&self) {
        self.inner.is_over.store(true, Ordering::Relaxed);
        let running: Vec<_> =
            self.processes().values().map(|named| named.process.clone()).collect();
        running.iter().for_each(Process::kill);
    }

    /// Removes what the program leaves.
    pub(crate) fn clear(&self) {
        // The bodies of the processes hold this program.
        self.processes().clear();
        let _ = std::fs::remove_dir_all(&self.inner.place);
    }

    /// Starts the process of this name.
    fn begin(&self, name: &str, body: Arc<dyn Fn() + Send + Sync>) {
        let first = Arc::clone(&body);
        let process = Process::start(name, move || first());
        self.processes().insert(name.to_owned(), Named { body, process });
    }

    fn process(&self, name: &str) -> Process {
        let process = self.processes().get(name).map(|named| named.process.clone());
        process.unwrap_or_else(|| panic!("no process `{name}` was started"))
    }

    fn is_over(&self) -> bool {
        self.inner.is_over.load(Ordering::Relaxed)
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Named>> {
        self.inner.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
