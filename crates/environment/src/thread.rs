//! Threads that the runtime starts, and how they wait for each other.

use crate::time::{nanoseconds, now_ns};
use crate::turns::{Mutex, MutexGuard, of_system, of_turns, settle};
use crate::world::{Awaited, World, current};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A thread that was started.
#[derive(Debug)]
pub struct Thread {
    thread: std::thread::JoinHandle<()>,
    /// 1 once the body has ended, in a world.
    ended: Arc<AtomicU64>,
}

/// Starts a thread, in the world of the calling one.
///
/// # Errors
/// The system's, where it has no thread left.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let ended = Arc::<AtomicU64>::default();
    let thread = match current() {
        Some(world) => {
            let ends = Ends(Arc::clone(&ended));
            world.start(
                name,
                Box::new(move || {
                    let _ends = ends;
                    body();
                }),
            )?
        }
        None => std::thread::Builder::new().name(name.to_owned()).spawn(body)?,
    };
    Ok(Thread { thread, ended })
}

/// Says that a thread has ended, after a panic too.
struct Ends(Arc<AtomicU64>);

impl Drop for Ends {
    fn drop(&mut self) {
        settle();
        self.0.store(1, Ordering::Release);
    }
}

impl Thread {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// The payload of the panic that ended it. In a world such a panic ends the world, and the calling thread with it.
    pub fn join(self) -> std::thread::Result<()> {
        if let Some(world) = current() {
            world.wait(Awaited::Change(&self.ended, 0), None);
        }
        self.thread.join()
    }
}

/// Returns the number of processors: a world has one, since one of its threads runs at a time.
#[must_use]
pub fn processors() -> Option<usize> {
    match current() {
        Some(_) => Some(1),
        None => std::thread::available_parallelism().ok().map(usize::from),
    }
}

/// A condition for which threads wait that hold a mutex.
#[derive(Debug, Default)]
pub struct Condvar {
    system: std::sync::Condvar,
    notified: Arc<AtomicU64>,
}

impl Condvar {
    /// Makes a condition for which nobody waits.
    #[must_use]
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Wakes a thread that waits; in a world, all of them.
    pub fn notify_one(&self) {
        settle();
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.system.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        settle();
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.system.notify_all();
    }

    /// Waits until the thread is woken. Returns the guard of the same mutex, locked again.
    pub fn wait<'m, T>(&self, mutex: &'m Mutex<T>, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        match current() {
            Some(world) => self.wait_in(&*world, mutex, guard, None).0,
            None => {
                let waited = self.system.wait(of_system(guard));
                of_turns(waited.unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Waits until the thread is woken, or for a time. Returns the guard of the same mutex, locked again, and whether
    /// the time has passed.
    pub fn wait_timeout<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        time: Duration,
    ) -> (MutexGuard<'m, T>, bool) {
        if let Some(world) = current() {
            let until_ns = now_ns().saturating_add(nanoseconds(time));
            return self.wait_in(&*world, mutex, guard, Some(until_ns));
        }
        let waited = self.system.wait_timeout(of_system(guard), time);
        let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (of_turns(guard), waited.timed_out())
    }

    /// Waits in a world, until a time if there is one.
    fn wait_in<'m, T>(
        &self,
        world: &dyn World,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        until_ns: Option<u64>,
    ) -> (MutexGuard<'m, T>, bool) {
        let seen = self.notified.load(Ordering::Relaxed);
        drop(guard);
        world.wait(Awaited::Change(&self.notified, seen), until_ns);
        let is_late = self.notified.load(Ordering::Relaxed) == seen;
        (lock(mutex), is_late)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that can be woken while it [parks](Parker::park).
#[derive(Debug)]
pub struct Parker {
    thread: std::thread::Thread,
    woken: Arc<AtomicU64>,
}

impl Parker {
    /// Returns that of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Parker {
        Parker { thread: std::thread::current(), woken: Arc::default() }
    }

    /// Blocks the thread of the parker until it was woken since the last park.
    pub fn park(&self) {
        match current() {
            Some(world) => world.wait(Awaited::Change(&self.woken, 0), None),
            None => {
                while self.woken.load(Ordering::Acquire) == 0 {
                    std::thread::park();
                }
            }
        }
        self.woken.swap(0, Ordering::AcqRel);
    }

    /// Wakes the thread, or spares it the next park.
    pub fn wake(&self) {
        settle();
        self.woken.store(1, Ordering::Release);
        self.thread.unpark();
    }
}
