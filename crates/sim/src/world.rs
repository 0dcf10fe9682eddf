//! A world, and the processes in it.

use crate::network::{FIRST, FIRST_NUMBER, address};
use crate::outcome::{Ended, Figures, Outcome};
use crate::schedule::{Log, Number, Schedule};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};
use upbeat_core::mutant::{self, Mutant};
use upbeat_environment::process::Resource;
use upbeat_environment::turns::{begin, settle, settle_process};
use upbeat_environment::{
    Awaited, FileNumber, State as Made, Turn, Value, World, WorldIsOver, enter,
};
use upbeat_memory::ended_socket::OwnedElsewhere;

/// The nanoseconds that pass from one reading of the clock to the next.
const READING_NS: u64 = 20;
/// The readings of the clock after which a thread that has not waited meanwhile never will.
const READINGS_MAX: u64 = 5_000_000;

/// Runs a program in a world of this seed, until its last thread has ended.
pub fn run<R: Send>(seed: u64, program: impl FnOnce() -> R + Send) -> Outcome<R> {
    run_logged(seed, u64::MAX, Log::default(), program).0
}

/// Runs a program as [`run`] does, for so many steps at most, and returns its log, which begins as it is given.
pub(crate) fn run_logged<R: Send>(
    seed: u64,
    steps_max: u64,
    log: Log,
    program: impl FnOnce() -> R + Send,
) -> (Outcome<R>, Log) {
    let shared = Arc::new(Shared::new(Schedule::new(seed, steps_max, log)));
    let process = Simulated::in_world(&shared, FIRST, FIRST_NUMBER);
    let first = shared.lock().schedule.start(process.number, FIRST);
    let mut result = None;
    std::thread::scope(|scope| {
        scope.spawn(|| process.run_thread(first, || result = Some(program())));
    });
    let is_left = |state: &mut State| !state.schedule.is_empty();
    let state = shared.emptied.wait_while(shared.lock(), is_left);
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    let Figures { passed, history, steps } = state.figures();
    let ended = match (state.why.take(), result) {
        (None, Some(result)) => Ok(result),
        (Some(why), _) => Err(why),
        // A thread that unwound had to wait, and its panic was contained then.
        (None, None) => Err(Ended::Panicked(Box::new("a thread that panicked had to wait"))),
    };
    let log = std::mem::take(&mut state.schedule.log);
    (Outcome { ended, passed, history, steps }, log)
}

thread_local! {
    /// The process of the thread.
    static CURRENT: RefCell<Option<Arc<Simulated>>> = const { RefCell::new(None) };
    /// The readings of the clock since the thread has last waited.
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the process of the calling thread, if it is in a world.
pub(crate) fn current() -> Option<Arc<Simulated>> {
    CURRENT.with_borrow(Option::clone)
}

/// Returns the number of the host on which the calling thread's process runs.
pub(crate) fn current_host() -> u32 {
    current().map_or(FIRST_NUMBER, |process| process.host)
}

/// A process of a world.
pub(crate) struct Simulated {
    me: Weak<Simulated>,
    number: u32,
    /// The number of its host.
    host: u32,
    shared: Arc<Shared>,
    /// The values of static variables, by their addresses.
    values: Mutex<BTreeMap<usize, &'static Value>>,
}

/// Panics if something is not as it always has to be.
type Invariant = Arc<dyn Fn() + Send + Sync>;

/// The state that the processes of a world share.
struct Shared {
    state: Mutex<State>,
    /// The caller of [`run`] waits here for the end of the last thread.
    emptied: Condvar,
    /// The fault of the thread that runs the world, which all threads of the world have.
    fault: Option<Mutant>,
}

struct State {
    schedule: Schedule,
    /// The sockets of the processes, in the order in which they were made.
    sockets: Vec<(u32, OwnedElsewhere)>,
    /// The files that processes have locked.
    locks: BTreeMap<FileNumber, u32>,
    /// The most accesses to shared memory in a turn; none if turns end at waits alone.
    accesses_max: Option<NonZero<usize>>,
    invariants: Vec<Invariant>,
    /// Whether the running thread checks them.
    is_checking: bool,
    /// The figures at the end of the world. All threads that are left unwind where they wait, in no order.
    end: Option<Figures>,
    /// The cause of an end that did not come by itself.
    why: Option<Ended>,
}

impl Shared {
    fn new(schedule: Schedule) -> Shared {
        let state = State {
            schedule,
            sockets: Vec::new(),
            locks: BTreeMap::new(),
            accesses_max: None,
            invariants: Vec::new(),
            is_checking: false,
            end: None,
            why: None,
        };
        Shared { state: Mutex::new(state), emptied: Condvar::new(), fault: mutant::active() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the invariants after a step of the running thread. One that panics ends the world.
    fn check(&self) {
        let mut state = self.lock();
        if state.end.is_some() || state.invariants.is_empty() {
            return;
        }
        let invariants = state.invariants.clone();
        let waits = std::mem::replace(&mut state.is_checking, true);
        drop(state);
        assert!(!waits, "an invariant waits");
        let checks = AssertUnwindSafe(|| invariants.iter().for_each(|invariant| invariant()));
        let violated = catch_unwind(checks).err();
        let mut state = self.lock();
        state.is_checking = false;
        if let Some(panic) = violated {
            state.is_over_by(Ended::Panicked(panic));
        }
    }

    /// Has the running thread wait, and lets the next one run.
    fn wait(&self, mut state: MutexGuard<'_, State>) {
        let number = state.schedule.running;
        state.pass_turn();
        self.wait_for_turn(number, state);
    }

    /// Blocks the calling thread until it is its turn.
    ///
    /// # Panics
    /// When the world is over.
    fn wait_for_turn<'s>(&'s self, number: Number, mut state: MutexGuard<'s, State>) {
        state.schedule.runs_on(number, std::thread::current());
        loop {
            if state.end.is_some() {
                drop(state);
                resume_unwind(Box::new(WorldIsOver));
            }
            if state.schedule.running == number {
                return;
            }
            drop(state);
            std::thread::park();
            state = self.lock();
        }
    }
}

impl Simulated {
    fn in_world(shared: &Arc<Shared>, name: &str, host: u32) -> Arc<Simulated> {
        static PROCESSES: AtomicU32 = AtomicU32::new(0);
        let number = PROCESSES.fetch_add(1, Ordering::Relaxed);
        shared.lock().schedule.has_process(number, name, host);
        let shared = Arc::clone(shared);
        let values = Mutex::default();
        Arc::new_cyclic(|me| Simulated { me: Weak::clone(me), number, host, shared, values })
    }

    /// Returns whether a thread of the same world runs now.
    pub(crate) fn is_in_turn(&self) -> bool {
        current().is_some_and(|current| Arc::ptr_eq(&current.shared, &self.shared))
    }

    /// Returns a new process of the same world, on a host.
    pub(crate) fn beside(&self, name: &str, host: u32) -> Arc<Simulated> {
        Simulated::in_world(&self.shared, name, host)
    }

    /// Does something with the schedule of the world, which has its network, its time and its chance.
    pub(crate) fn schedule<R>(&self, act: impl FnOnce(&mut Schedule) -> R) -> R {
        act(&mut self.world().schedule)
    }

    /// Has something checked after each step of the world.
    pub(crate) fn always(&self, invariant: impl Fn() + Send + Sync + 'static) {
        self.world().invariants.push(Arc::new(invariant));
    }

    /// Ends the world behind the step of the running thread, which goes on.
    pub(crate) fn ends_world(&self) {
        self.shared.check();
        self.world().is_over();
    }

    /// Has turns end behind so many accesses to shared memory at most, and stores there come late, in this thread and those
    /// that start from then on.
    pub(crate) fn interleave(&self, accesses_max: NonZero<usize>) {
        self.world().accesses_max = Some(accesses_max);
        begin(self.turn());
    }

    /// Returns how a turn goes that begins now; none if it ends when the thread waits.
    fn turn(&self) -> Option<Turn> {
        let mut state = self.world();
        let most = state.accesses_max?.get();
        let random = &mut state.schedule.random;
        Some(Turn { accesses: random.below(most) as u64, stores: random.next() })
    }

    fn world(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Runs a thread of the process, from its first turn to its end.
    fn run_thread(&self, number: Number, body: impl FnOnce()) {
        let Some(me) = self.me.upgrade() else { return };
        CURRENT.set(Some(Arc::clone(&me)));
        mutant::put(self.shared.fault);
        let world: Arc<dyn World> = me;
        let runs = AssertUnwindSafe(|| {
            self.shared.wait_for_turn(number, self.world());
            enter(&world, || {
                begin(self.turn());
                body();
                self.shared.check();
            });
        });
        let panic = catch_unwind(runs).err().filter(|panic| !panic.is::<WorldIsOver>());
        begin(None);
        let mut state = self.world();
        if let Some(panic) = panic {
            state.is_over_by(Ended::Panicked(panic));
        }
        state.schedule.end(number);
        state.pass_turn();
        if state.schedule.is_empty() {
            self.shared.emptied.notify_all();
        }
    }

    /// Stops the process, or has it go on. A thread that stops its own process returns once that goes on.
    pub(crate) fn stops(&self, is_stopped: bool) {
        settle_process(self.number);
        let mut state = self.world();
        if state.end.is_some() {
            return;
        }
        state.schedule.stop(self.number, is_stopped);
        if state.schedule.is_running_stopped() && !std::thread::panicking() {
            self.shared.wait(state);
        }
    }

    /// Returns whether the process lacks a resource.
    pub(crate) fn is_starved(&self) -> bool {
        self.world().schedule.is_starved(self.number)
    }

    /// Ends the process: its threads do not go on, its sockets close, and its locks are free. If the calling thread is one
    /// of them, it does not return.
    pub(crate) fn ends(&self) {
        settle_process(self.number);
        let mut state = self.world();
        if state.end.is_some() {
            // The threads of the process unwind, and close their sockets.
            return;
        }
        state.ends(self.number);
        if !state.schedule.is_running_alive() && !std::thread::panicking() {
            self.shared.wait(state);
        }
    }
}

impl State {
    /// Lets the next thread run. A world ends when only threads of ended processes are left.
    fn pass_turn(&mut self) {
        if self.end.is_some() {
            return;
        }
        if self.schedule.is_over() {
            return self.is_over();
        }
        match self.schedule.next() {
            Ok(()) => self.schedule.wake_running(),
            Err(text) => {
                self.is_over_by(Ended::Stuck(text));
            }
        }
    }

    /// Ends all threads where they wait.
    fn is_over(&mut self) {
        self.end = Some(self.figures());
        self.schedule.wake_all();
    }

    /// Does the same for a cause, unless there was one before.
    fn is_over_by(&mut self, why: Ended) {
        self.is_over();
        self.why.get_or_insert(why);
    }

    /// Ends a process.
    fn ends(&mut self, process: u32) {
        self.schedule.ends(process);
        // No thread of the process runs any more that could close a socket.
        let its = self.sockets.extract_if(.., |(of, _)| *of == process);
        its.for_each(|(_, socket)| socket.end());
        self.locks.retain(|_, of| *of != process);
        self.schedule.network.ends(process);
    }

    fn figures(&self) -> Figures {
        let Schedule { now_ns, history, steps, .. } = self.schedule;
        let passed = Duration::from_nanos(now_ns);
        self.end.unwrap_or(Figures { passed, history, steps })
    }
}

impl World for Simulated {
    fn now_ns(&self) -> u64 {
        let mut state = self.world();
        state.schedule.now_ns += READING_NS;
        let readings = READINGS.get() + 1;
        READINGS.set(readings);
        if readings > READINGS_MAX && state.end.is_none() {
            let name = state.schedule.running_name();
            let text =
                format!("thread `{name}` looks at the clock again and again, and never waits");
            state.is_over_by(Ended::Stuck(text));
            drop(state);
            resume_unwind(Box::new(WorldIsOver));
        }
        state.schedule.now_ns
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn random(&self) -> u64 {
        self.world().schedule.random.next()
    }

    fn wait(&self, awaited: Awaited<'_>, until_ns: Option<u64>) {
        settle();
        if !std::thread::panicking() {
            self.shared.check();
        }
        READINGS.set(0);
        let mut state = self.world();
        if std::thread::panicking() {
            // The thread unwinds, and waits for nobody: all others unwind as well, and its time passes at once.
            state.is_over();
            let now_ns = state.schedule.now_ns + READING_NS;
            state.schedule.now_ns = until_ns.unwrap_or(now_ns).max(now_ns);
            return;
        }
        state.schedule.waits(awaited, until_ns);
        self.shared.wait(state);
    }

    fn end_turn(&self) -> Option<Turn> {
        let mut state = self.world();
        if state.is_checking {
            // The turn ends behind the invariants, which do not see the work of others.
            return Some(Turn { accesses: 0, stores: 0 });
        }
        state.schedule.waits(Awaited::Nothing, Some(0));
        self.shared.wait(state);
        self.turn()
    }

    fn start(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        settle();
        let number = self.world().schedule.start(self.number, name);
        let me = self.me.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        let builder = std::thread::Builder::new().name(name.to_owned());
        let started = builder.spawn(move || me.run_thread(number, body));
        if started.is_err() {
            self.world().schedule.end(number);
        }
        started
    }

    fn state(&self, of: usize, make: &mut dyn FnMut() -> Made) -> &'static Value {
        let values = || self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values().get(&of).copied();
        // One thread runs at a time, so nobody else makes the value meanwhile, unless `make` does.
        known.unwrap_or_else(|| {
            let value: &'static Value = Box::leak(make());
            *values().entry(of).or_insert(value)
        })
    }

    fn set_timer(&self, timer: &Arc<OwnedFd>, at_ns: Option<u64>) {
        self.world().schedule.set_timer(self.number, timer, at_ns);
    }

    fn lacks(&self, resource: Resource) -> Option<Errno> {
        self.world().schedule.lacks(self.number, resource)
    }

    fn is_woken_from_outside(&self) {
        let mut state = self.world();
        if state.end.is_none() {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            let text = format!(
                "thread `{name}` is in no world, and has woken a node: await no future of another runtime, and start \
                 threads by `upbeat_environment::thread::spawn`"
            );
            state.is_over_by(Ended::Stuck(text));
        }
    }

    fn has_socket(&self, socket: BorrowedFd<'_>) {
        if let Ok(noted) = OwnedElsewhere::of(socket) {
            let mut state = self.world();
            state.sockets.retain(|(_, known)| !known.shares_descriptor(noted));
            state.sockets.push((self.number, noted));
        }
    }

    fn connect(&self, to: SocketAddr, patience_ms: u32) -> rustix::io::Result<OwnedFd> {
        let mut state = self.world();
        let now_ns = state.schedule.now_ns;
        let socket = state.schedule.network.connect(self.host, to, patience_ms, now_ns)?;
        drop(state);
        self.has_socket(socket.as_fd());
        Ok(socket)
    }

    fn listen(&self, at: SocketAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
        let listens = self.world().schedule.network.listen((self.number, self.host), at)?;
        self.has_socket(listens.0.as_fd());
        Ok(listens)
    }

    fn accept(&self, listening: BorrowedFd<'_>) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
        self.world().schedule.network.accept(listening)
    }

    fn address(&self) -> IpAddr {
        address(self.host)
    }

    fn address_of(&self, host: &str) -> Option<IpAddr> {
        self.world().schedule.network.number(host).map(address)
    }

    fn lock(&self, file: FileNumber) -> bool {
        *self.world().locks.entry(file).or_insert(self.number) == self.number
    }

    fn unlock(&self, file: FileNumber) {
        self.world().locks.retain(|locked, of| (*locked, *of) != (file, self.number));
    }

    fn is_locked(&self, file: FileNumber) -> bool {
        self.world().locks.get(&file).is_some_and(|of| *of != self.number)
    }

    fn is_observed(&self) -> bool {
        self.world().schedule.log.messages.is_some()
    }

    fn note_message(&self, began_ns: u64, message: Box<dyn fmt::Display + Send>) {
        self.world().schedule.has_message(self.number, began_ns, message);
    }
}
