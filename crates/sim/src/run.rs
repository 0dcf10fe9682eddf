//! The run of a world.

use crate::schedule::{Number, Schedule};
use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use upbeat_environment::{Awaited, World, enter};

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
    /// How often a thread has waited.
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
    let world = Arc::new_cyclic(|me| Simulated {
        me: Weak::clone(me),
        state: Mutex::new(State { schedule: Schedule::new(seed), over: None }),
        emptied: Condvar::new(),
    });
    let first = world.state().schedule.start("main");
    let mut result = None;
    std::thread::scope(|scope| {
        scope.spawn(|| world.run_thread(first, || result = Some(program())));
    });
    let emptied = |state: &mut State| !state.schedule.is_empty();
    let state = world.emptied.wait_while(world.state(), emptied);
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    let ended = match (state.over.take(), result) {
        (None, Some(result)) => Ok(result),
        (Some(Ended::Panicked(panic)), _) => Err(Ended::Panicked(panic)),
        (over, _) => {
            Err(over.unwrap_or_else(|| unreachable!("a program without a result has panicked")))
        }
    };
    let Schedule { now_ns, history, steps, .. } = state.schedule;
    Outcome { ended, passed: Duration::from_nanos(now_ns), history, steps }
}

struct Simulated {
    me: Weak<Simulated>,
    state: Mutex<State>,
    /// The caller of [`run`] waits here for the end of the last thread.
    emptied: Condvar,
}

struct State {
    schedule: Schedule,
    /// The cause for which all threads end where they wait.
    over: Option<Ended>,
}

/// The payload with which the threads of a world unwind that is over.
struct WorldIsOver;

impl Simulated {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a thread of the world, from its first turn to its end.
    fn run_thread(&self, number: Number, body: impl FnOnce()) {
        let Some(me) = self.me.upgrade() else { return };
        let world: Arc<dyn World> = me;
        let runs = AssertUnwindSafe(|| {
            self.wait_for_turn(number, self.state());
            enter(&world, body);
        });
        let panic = catch_unwind(runs).err().filter(|panic| !panic.is::<WorldIsOver>());
        let mut state = self.state();
        state.schedule.end(number);
        match panic {
            Some(panic) => state.is_over(Ended::Panicked(panic)),
            None if state.schedule.is_empty() => self.emptied.notify_all(),
            None => state.pass_turn(),
        }
    }

    /// Blocks the calling thread until it is its turn.
    ///
    /// # Panics
    /// When the world is over.
    fn wait_for_turn<'s>(&'s self, number: Number, mut state: MutexGuard<'s, State>) {
        state.schedule.runs_on(number, std::thread::current());
        loop {
            if state.over.is_some() {
                drop(state);
                resume_unwind(Box::new(WorldIsOver));
            }
            if state.schedule.running == number {
                return;
            }
            drop(state);
            std::thread::park();
            state = self.state();
        }
    }
}

impl State {
    /// Lets the next thread run.
    fn pass_turn(&mut self) {
        match self.schedule.next() {
            Ok(()) => self.schedule.wake_running(),
            Err(text) => self.is_over(Ended::Stuck(text)),
        }
    }

    /// Ends all threads where they wait.
    fn is_over(&mut self, why: Ended) {
        self.over.get_or_insert(why);
        self.schedule.wake_all();
    }
}

impl World for Simulated {
    fn now_ns(&self) -> u64 {
        let mut state = self.state();
        state.schedule.now_ns += READING_NS;
        state.schedule.now_ns
    }

    fn random(&self) -> u64 {
        self.state().schedule.random.next()
    }

    fn wait(&self, awaited: Awaited<'_>, until_ns: Option<u64>) {
        let mut state = self.state();
        if std::thread::panicking() {
            // The thread unwinds, and must not wait for others: its time passes at once.
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
        let number = self.state().schedule.start(name);
        let me = self.me.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        let builder = std::thread::Builder::new().name(name.to_owned());
        let started = builder.spawn(move || me.run_thread(number, body));
        if started.is_err() {
            self.state().schedule.end(number);
        }
        started
    }

    fn set_timer(&self, timer: &Arc<OwnedFd>, at_ns: Option<u64>) {
        self.state().schedule.set_timer(timer, at_ns);
    }
}
