//! The run of a world.

use crate::schedule::{Number, Schedule};
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use upbeat_environment::{Awaited, State as Made, Value, World, enter};

/// The nanoseconds that pass from one reading of the clock to the next.
const READING_NS: u64 = 20;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome<R> {
    /// The end of the program.
    pub ended: Result<R, Ended>,
    /// The simulated time that has passed.
    pub passed: Duration,
    /// A digest of the run: two runs of a seed have the same one, if the program follows from its seed.
    pub history: u64,
    /// How often a thread has waited or ended.
    pub steps: u64,
}

/// The cause for which a program has not ended by itself.
#[derive(Debug)]
pub enum Ended {
    /// A thread has panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// All threads wait, and nothing can happen any more. The text says what each one waits for.
    Stuck(String),
}

/// Runs a program in a world of this seed, until its last thread has ended.
pub fn run<R: Send>(seed: u64, program: impl FnOnce() -> R + Send) -> Outcome<R> {
    static WORLDS: AtomicU32 = AtomicU32::new(0);
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    let world = Arc::new_cyclic(|me| Simulated {
        me: Weak::clone(me),
        number,
        state: Mutex::new(State { schedule: Schedule::new(seed), end: None, why: None }),
        values: Mutex::default(),
        emptied: Condvar::new(),
    });
    let first = world.lock().schedule.start("main");
    let mut result = None;
    std::thread::scope(|scope| {
        scope.spawn(|| world.run_thread(first, || result = Some(program())));
    });
    let is_left = |state: &mut State| !state.schedule.is_empty();
    let state = world.emptied.wait_while(world.lock(), is_left);
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    let Figures { passed, history, steps } = state.figures();
    let ended = match (state.why.take(), result) {
        (None, Some(result)) => Ok(result),
        (Some(why), _) => Err(why),
        (None, None) => unreachable!("a program without a result has panicked"),
    };
    Outcome { ended, passed, history, steps }
}

struct Simulated {
    me: Weak<Simulated>,
    number: u32,
    state: Mutex<State>,
    /// The values of static variables, by their addresses.
    values: Mutex<BTreeMap<usize, &'static Value>>,
    /// The caller of [`run`] waits here for the end of the last thread.
    emptied: Condvar,
}

struct State {
    schedule: Schedule,
    /// The figures at the end of a world that did not end by itself. All threads unwind where they wait, in no order.
    end: Option<Figures>,
    /// The cause of that end.
    why: Option<Ended>,
}

#[derive(Clone, Copy)]
struct Figures {
    passed: Duration,
    history: u64,
    steps: u64,
}

/// The payload with which the threads of a world unwind that is over.
struct WorldIsOver;

impl Simulated {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a thread of the world, from its first turn to its end.
    fn run_thread(&self, number: Number, body: impl FnOnce()) {
        let Some(me) = self.me.upgrade() else { return };
        let world: Arc<dyn World> = me;
        let runs = AssertUnwindSafe(|| {
            self.wait_for_turn(number, self.lock());
            enter(&world, body);
        });
        let panic = catch_unwind(runs).err().filter(|panic| !panic.is::<WorldIsOver>());
        let mut state = self.lock();
        if let Some(panic) = panic {
            state.is_over();
            state.why.get_or_insert(Ended::Panicked(panic));
        }
        state.schedule.end(number);
        match state.schedule.is_empty() {
            true => self.emptied.notify_all(),
            false => state.pass_turn(),
        }
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

impl State {
    /// Lets the next thread run.
    fn pass_turn(&mut self) {
        if self.end.is_some() {
            return;
        }
        match self.schedule.next() {
            Ok(()) => self.schedule.wake_running(),
            Err(text) => {
                self.is_over();
                self.why.get_or_insert(Ended::Stuck(text));
            }
        }
    }

    /// Ends all threads where they wait.
    fn is_over(&mut self) {
        self.end = Some(self.figures());
        self.schedule.wake_all();
    }

    fn figures(&self) -> Figures {
        let Schedule { now_ns, history, steps, .. } = self.schedule;
        let passed = Duration::from_nanos(now_ns);
        self.end.unwrap_or(Figures { passed, history, steps })
    }
}

impl World for Simulated {
    fn now_ns(&self) -> u64 {
        let mut state = self.lock();
        state.schedule.now_ns += READING_NS;
        state.schedule.now_ns
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn random(&self) -> u64 {
        self.lock().schedule.random.next()
    }

    fn wait(&self, awaited: Awaited<'_>, until_ns: Option<u64>) {
        let mut state = self.lock();
        if std::thread::panicking() {
            // The thread unwinds, and waits for nobody: all others unwind as well, and its time passes at once.
            state.is_over();
            let now_ns = state.schedule.now_ns + READING_NS;
            state.schedule.now_ns = until_ns.unwrap_or(now_ns).max(now_ns);
            return;
        }
        let number = state.schedule.running;
        state.schedule.waits(awaited, until_ns);
        state.pass_turn();
        self.wait_for_turn(number, state);
    }

    fn start(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        let number = self.lock().schedule.start(name);
        let me = self.me.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        let builder = std::thread::Builder::new().name(name.to_owned());
        let started = builder.spawn(move || me.run_thread(number, body));
        if started.is_err() {
            self.lock().schedule.end(number);
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
        self.lock().schedule.set_timer(timer, at_ns);
    }
}
