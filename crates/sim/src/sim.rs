//! A program in a world: its processes by their names, and its chance.

use crate::happened::{FaultNumber, FaultNumbers, Happened};
use crate::process::Process;
use crate::random::{mix, within};
use crate::real::{Real, STARVED};
use crate::schedule::Schedule;
use crate::world::{Simulated, current, current_host};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::DirBuilder;
use std::mem::take;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use upbeat::handle::HandleBuilder;
use upbeat::{Builder, Node};
use upbeat_environment::process::Resource;
use upbeat_environment::thread::{Thread, spawn};
use upbeat_environment::{World, chance, is_simulated, waiting};

/// The program of the nodes of a world.
const PROGRAM: &str = "sim";

/// The program of a test, as [`check`](crate::check) runs it in a world. Its clones are the same program.
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    /// The only faults that are to happen, if not all are.
    kept: Option<FaultNumbers>,
    happened: Mutex<Vec<Happened>>,
    /// The number of sieges that have begun.
    sieges: AtomicU32,
    /// The directory of the sockets.
    place: PathBuf,
    processes: Mutex<BTreeMap<String, Named>>,
    /// How often each thing that is to happen sometimes has happened.
    reached: Mutex<BTreeMap<&'static str, u64>>,
    /// The part of this process, where the processes of the program are real ones.
    real: Option<Real>,
}

/// A process that can be started again.
struct Named {
    body: Arc<dyn Fn() + Send + Sync>,
    host: u32,
    process: Process,
}

impl Sim {
    pub(crate) fn new(seed: u64, kept: Option<FaultNumbers>) -> Sim {
        Sim::of(seed, kept, new_place(), None)
    }

    /// Returns the program of a test whose processes are real ones.
    pub(crate) fn of_processes(seed: u64, real: Real) -> Sim {
        Sim::of(seed, None, real.place().to_owned(), Some(real))
    }

    fn of(seed: u64, kept: Option<FaultNumbers>, place: PathBuf, real: Option<Real>) -> Sim {
        let inner = Inner {
            seed,
            kept,
            happened: Mutex::default(),
            sieges: AtomicU32::new(0),
            place,
            processes: Mutex::default(),
            reached: Mutex::default(),
            real,
        };
        Sim { inner: Arc::new(inner) }
    }

    /// Returns the part of this process, if the processes of the program are real ones.
    pub(crate) fn real(&self) -> Option<&Real> {
        self.inner.real.as_ref()
    }

    /// Returns whether something cannot be done because the processes are real ones, and takes note of it.
    pub(crate) fn leaves_out(&self, what: &'static str) -> bool {
        let processes = self.real().and_then(Real::processes);
        processes.inspect(|processes| processes.leave_out(what));
        self.real().is_some()
    }

    /// Returns the builder of a node, which is found on the calling thread's host of this world.
    ///
    /// # Panics
    /// Outside of the world.
    pub fn node(&self, name: &str) -> Builder {
        match self.real() {
            Some(real) => real.acts("build a node"),
            None => schedule(|world| world.has_node(name)),
        }
        Node::builder(name).program(PROGRAM).directory(self.directory())
    }

    /// Returns the builder of handles that find the nodes of the calling thread's host.
    pub fn handles(&self) -> HandleBuilder {
        self.real().inspect(|real| real.acts("build a handle"));
        upbeat::handle::builder().program(PROGRAM).directory(self.directory())
    }

    /// Returns the directory of the world, which is removed at its end.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.inner.place
    }

    /// Starts a process on the calling thread's host. Its first thread runs `body`, at each restart again. An error that it
    /// returns ends the world, as a panic does, unless the process is [starved](Sim::starve).
    ///
    /// # Panics
    /// If a process of this name runs. With real processes, also behind anything else that the test does.
    pub fn start<E: Display>(
        &self,
        name: &str,
        body: impl Fn(&Sim) -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.start_on(self.own_host(), name, body);
    }

    /// Starts a process on a host.
    pub(crate) fn start_on<E: Display>(
        &self,
        host: u32,
        name: &str,
        body: impl Fn(&Sim) -> Result<(), E> + Send + Sync + 'static,
    ) {
        let (sim, called) = (self.clone(), name.to_owned());
        let body = move || {
            if let Err(error) = body(&sim)
                && !current().is_some_and(|process| process.is_starved())
            {
                panic!("process `{called}` has ended: {error}");
            }
        };
        if let Some(real) = self.real() {
            return real.start(host, name, body);
        }
        assert!(!self.is_running(name), "a process `{name}` runs already");
        let body = Arc::new(body);
        self.begin(host, name, body);
    }

    /// Kills a process, unless it has ended.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn kill(&self, name: &str) {
        match self.real() {
            Some(real) => real.drive("kill a process", |processes| processes.kill(name)),
            None => self.process(name).kill(),
        }
    }

    /// Stops a process where its threads wait, as SIGSTOP does. What is sent to it waits.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn stop(&self, name: &str) {
        match self.real() {
            Some(real) => real.drive("stop a process", |processes| processes.stop(name)),
            None => self.process(name).stop(),
        }
    }

    /// Has a stopped process go on.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn go_on(&self, name: &str) {
        match self.real() {
            Some(real) => real.drive("have a process go on", |processes| processes.go_on(name)),
            None => self.process(name).go_on(),
        }
    }

    /// Has a process lack a resource: memory and room are refused to its nodes, and most descriptors, with the system's error.
    /// Several may be lacking.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn starve(&self, name: &str, resource: Resource) {
        if !self.leaves_out(STARVED) {
            self.process(name).starve(Some(resource));
        }
    }

    /// Has a starved process lack nothing any more.
    ///
    /// # Panics
    /// If no process of this name was started.
    pub fn supply(&self, name: &str) {
        if self.real().is_none() {
            self.process(name).starve(None);
        }
    }

    /// Starts a process again that was killed or has ended.
    ///
    /// # Panics
    /// If no process of this name was started, or if it runs.
    pub fn restart(&self, name: &str) {
        if let Some(real) = self.real() {
            return real.drive("start a process again", |processes| processes.restart(name));
        }
        assert!(!self.is_running(name), "the process `{name}` runs");
        let named = self.processes().get(name).map(|named| (named.host, Arc::clone(&named.body)));
        let (host, body) = named.unwrap_or_else(|| panic!("no process `{name}` was started"));
        self.begin(host, name, body);
    }

    /// Returns whether a process of this name runs.
    #[must_use]
    pub fn is_running(&self, name: &str) -> bool {
        match self.real() {
            Some(real) => real.drive("look at a process", |processes| processes.is_running(name)),
            None => self.processes().get(name).is_some_and(|named| named.process.is_running()),
        }
    }

    /// Drives a future in the calling thread, on a node that no other one reaches: `upbeat::sleep` and calls of handles
    /// are awaited there.
    ///
    /// # Panics
    /// If the node cannot be built.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let node = || {
            let node = Node::builder("test").program(PROGRAM).local_only().build();
            node.expect("a node needs little")
        };
        match self.real() {
            Some(real) => real.block_on(future, |future| node().block_on(future)),
            None => node().block_on(future),
        }
    }

    /// Has the calling thread do nothing for a time.
    pub fn pause(&self, time: Duration) {
        self.real().inspect(|real| real.acts("pause"));
        waiting::sleep(time);
    }

    /// Returns the time that has passed since the world began.
    ///
    /// # Panics
    /// Outside of the world.
    #[must_use]
    pub fn time(&self) -> Duration {
        let in_world = || Duration::from_nanos(process().now_ns());
        self.real().map_or_else(in_world, Real::time)
    }

    /// Returns how often a turn has ended: seldom, while the nodes of the world have nothing to do. There are no turns with real
    /// processes.
    ///
    /// # Panics
    /// Outside of the world.
    #[must_use]
    pub fn steps(&self) -> u64 {
        if self.real().is_some() { 0 } else { schedule(|world| world.steps) }
    }

    /// Acts in a thread of its own, so long after the beginning of the world, unless the program ends before.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn at(&self, time: Duration, act: impl FnOnce(&Sim) + Send + 'static) {
        let acts = move |sim: &Sim| {
            waiting::sleep(time.saturating_sub(sim.time()));
            if !sim.is_over() {
                act(sim);
            }
        };
        self.run_beside(&format!("at {time:?}"), acts);
    }

    /// Checks something whenever a thread waits or ends. The world is over when `invariant` panics. It may not wait, and a value
    /// that it looks at is one that no thread keeps locked while that waits.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use std::time::Duration;
    ///
    /// upbeat_sim::check(5, |sim| {
    ///     let stock = Arc::new(AtomicU64::new(9));
    ///     let of = Arc::clone(&stock);
    ///     sim.always(move || assert!(of.load(Relaxed) < 10, "there is room for nine"));
    ///     sim.at(Duration::from_secs(5), move |_| stock.store(3, Relaxed));
    ///     sim.pause(Duration::from_secs(9));
    /// });
    /// ```
    ///
    /// # Panics
    /// Outside of the world.
    pub fn always(&self, invariant: impl Fn() + Send + Sync + 'static) {
        match self.real() {
            Some(real) => {
                let processes = real.of_test_alone("have something checked always");
                if let Some(processes) = processes {
                    processes.always(invariant);
                }
            }
            None => process().always(invariant),
        }
    }

    /// Has turns of this thread and of later ones end also between two accesses to shared memory, behind so many at most:
    /// others see work half done and stores late, and may kill it there. Only builds with
    /// `RUSTFLAGS="--cfg upbeat_mutants"` do so.
    ///
    /// # Panics
    /// Outside of the world.
    pub fn interleave(&self, accesses_max: NonZero<usize>) {
        if !self.leaves_out("turns that end between accesses to shared memory") {
            process().interleave(accesses_max);
        }
    }

    /// Returns a number below `end`, which follows from the seed.
    ///
    /// # Panics
    /// If `end` is 0, and outside of the world.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        assert!(
            self.real().is_some() || is_simulated(),
            "chance follows from the seed in a world alone"
        );
        let drawn = chance::random().expect("a world, or the system, has random numbers");
        u64::from_le_bytes(drawn) % end
    }

    /// Returns a time of a range, or its start if it is empty.
    #[must_use]
    pub fn between(&self, times: &Range<Duration>) -> Duration {
        within(times, self.below(u64::MAX))
    }

    /// Takes note of something that is to happen under at least one seed. [`check`](crate::check) fails if it never does.
    pub fn sometimes(&self, what: &'static str, happens: bool) {
        *lock(&self.inner.reached).entry(what).or_default() += u64::from(happens);
    }

    /// Ends all processes of the program, whose first thread ends, and the world with them.
    pub(crate) fn ends(&self) {
        let running: Vec<_> =
            self.processes().values().map(|named| named.process.clone()).collect();
        running.iter().for_each(Process::kill);
        process().ends_world();
    }

    /// Removes what the program leaves. Returns the faults that have happened, and how often each thing has that is to
    /// happen sometimes.
    pub(crate) fn clear(&self) -> (Vec<Happened>, BTreeMap<&'static str, u64>) {
        // The bodies of the processes hold this program.
        self.processes().clear();
        let _ = std::fs::remove_dir_all(&self.inner.place);
        (take(&mut lock(&self.inner.happened)), take(&mut lock(&self.inner.reached)))
    }

    /// Starts the process of this name.
    fn begin(&self, host: u32, name: &str, body: Arc<dyn Fn() + Send + Sync>) {
        let first = Arc::clone(&body);
        let process = Process::start_on(host, name, move || first());
        // A body that is replaced is dropped when others can ask for processes again.
        let _old = self.processes().insert(name.to_owned(), Named { body, host, process });
    }

    /// Returns the directory of the calling thread's host.
    fn directory(&self) -> PathBuf {
        // A node makes its own directory alone, and says what is wrong if it cannot.
        let _ = DirBuilder::new().mode(0o700).create(&self.inner.place);
        self.inner.place.join(self.own_host().to_string())
    }

    /// Returns the number of the calling thread's host.
    fn own_host(&self) -> u32 {
        self.real().map_or_else(current_host, Real::own_host)
    }

    /// Returns the number of a new siege, and a seed that depends on nothing which happens in the world.
    pub(crate) fn siege(&self) -> (u32, u64) {
        let number = self.inner.sieges.fetch_add(1, Ordering::Relaxed);
        (number, mix(self.inner.seed ^ mix(1 + u64::from(number))))
    }

    /// Runs something in a thread of its own.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub(crate) fn run_beside(&self, name: &str, act: impl FnOnce(&Sim) + Send + 'static) -> Thread {
        self.real().inspect(|real| real.drive("act beside itself", |_| ()));
        let sim = self.clone();
        let body = move || match sim.real() {
            Some(real) => real.run(|| act(&sim)),
            None => act(&sim),
        };
        spawn(name, body).expect("the system has a thread left")
    }

    /// Returns whether the test has returned. A world ends with it.
    pub(crate) fn is_over(&self) -> bool {
        let processes = self.real().and_then(Real::processes);
        processes.is_some_and(|processes| processes.is_over())
    }

    /// Returns whether a fault is to happen.
    pub(crate) fn is_kept(&self, fault: FaultNumber) -> bool {
        self.inner.kept.as_ref().is_none_or(|kept| kept.0.contains(&fault))
    }

    /// Takes note of a fault that happens now.
    pub(crate) fn happens(&self, number: FaultNumber, what: String) {
        lock(&self.inner.happened).push(Happened { number, at: self.time(), what });
    }

    /// Returns the names of the processes that run.
    pub(crate) fn running(&self) -> Vec<String> {
        if let Some(real) = self.real() {
            return real.drive("look at processes", |processes| processes.running());
        }
        let all = self.processes();
        let running = all.iter().filter(|(_, named)| named.process.is_running());
        running.map(|(name, _)| name.clone()).collect()
    }

    fn process(&self, name: &str) -> Process {
        let process = self.processes().get(name).map(|named| named.process.clone());
        process.unwrap_or_else(|| panic!("no process `{name}` was started"))
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Named>> {
        lock(&self.inner.processes)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the process of the calling thread.
fn process() -> Arc<Simulated> {
    current().expect("a world is reached by its own threads")
}

/// Does something with the schedule of the calling thread's world.
pub(crate) fn schedule<R>(act: impl FnOnce(&mut Schedule) -> R) -> R {
    process().schedule(act)
}

/// Returns the directory of a new program.
pub(crate) fn new_place() -> PathBuf {
    static PLACES: AtomicU32 = AtomicU32::new(0);
    let number = PLACES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("upbeat-sim-{}-{number}", std::process::id()))
}
