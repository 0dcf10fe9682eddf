//! Threads that compute: one small pool for all nodes of the process.
//!
//! A thread is started when there is work and no thread is free, up to the number of processors, and ends when it has
//! been idle for a while. Work for which no thread is free waits, and is started in the order of its arrival. Other
//! modules decide what a closure computes, and who gets its result.
//!
//! Invariant: accepted work is done once, whatever the work before it did.

use crate::contain::panics;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use upbeat_environment::thread::{Condvar, processors, spawn};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::fork::PerProcess;

/// The time for which a thread waits for more work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// A piece of work.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// A pool of threads that compute.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    /// The most threads of the pool.
    most: usize,
    patience: Duration,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    /// The number of threads that wait for work.
    free: usize,
}

impl Workers {
    /// Returns the pool of the process that runs.
    pub(crate) fn of_process() -> &'static Workers {
        static WORKERS: PerProcess<Workers> = PerProcess::new();
        WORKERS.get(|| Workers::new(processors().unwrap_or(1), PATIENCE))
    }

    fn new(most: usize, patience: Duration) -> Workers {
        let (state, more) = (Mutex::default(), Condvar::new());
        Workers { shared: Arc::new(Shared { most, patience, state, more }) }
    }

    /// Accepts work. Returns an error if there is no thread and none can be started.
    pub(crate) fn begin(&self, work: Work) -> io::Result<()> {
        let mut state = self.shared.state();
        if state.queue.len() >= state.free && state.threads < self.shared.most {
            let shared = Arc::clone(&self.shared);
            let started = spawn("upbeat-compute", move || shared.run());
            match started {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                // The existing threads will do the work in its turn.
                Err(_) => {}
            }
        }
        state.queue.push_back(work);
        drop(state);
        self.shared.more.notify_one();
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a thread of the pool.
    fn run(&self) {
        let mut state = self.state();
        loop {
            while let Some(work) = state.queue.pop_front() {
                drop(state);
                // The waiter of the work has got a panic of its closure; this one comes from the drop of a value.
                panics(work);
                state = self.state();
            }
            state.free += 1;
            let is_late;
            (state, is_late) = self.more.wait_timeout(&self.state, state, self.patience);
            state.free -= 1;
            if is_late && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);
    /// A time that no busy machine takes.
    const SOON: Duration = Duration::from_secs(20);

    /// Returns the next value that is received in time.
    fn next<T>(said: &Receiver<T>) -> T {
        said.recv_timeout(SOON).expect("no thread did the work in time")
    }

    /// Waits until a condition holds.
    fn until(workers: &Workers, is_so: impl Fn(&State) -> bool) {
        let begun = Instant::now();
        while !is_so(&workers.shared.state()) {
            assert!(begun.elapsed() < SOON, "the condition never held");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_free_thread_does_the_next_work_and_no_other_is_started() {
        let workers = Workers::new(2, LONG);
        for number in 0..10 {
            let (say, said) = channel();
            workers.begin(Box::new(move || say.send(number).unwrap())).unwrap();
            assert_eq!(next(&said), number);
            until(&workers, |state| state.free == 1);
            assert_eq!(workers.shared.state().threads, 1);
        }
    }

    #[test]
    fn one_thread_works_in_order_and_survives_a_panic() {
        let workers = Workers::new(1, LONG);
        let (say, said) = channel();
        for number in 0..100 {
            let say = say.clone();
            let work = move || {
                say.send(number).unwrap();
                assert_ne!(number, 50, "this one panics");
            };
            workers.begin(Box::new(work)).unwrap();
        }
        drop(say);
        assert!(said.iter().eq(0..100));
        assert_eq!(workers.shared.state().threads, 1);
    }

    #[test]
    fn the_pool_grows_with_the_work_up_to_its_limit() {
        let workers = Workers::new(2, LONG);
        let (say, said) = channel();
        let releases: Vec<_> = (0..4)
            .map(|number| {
                let (say, (release, released)) = (say.clone(), channel::<()>());
                let work = move || {
                    say.send(number).unwrap();
                    released.recv().unwrap();
                };
                workers.begin(Box::new(work)).unwrap();
                release
            })
            .collect();
        let mut first = [next(&said), next(&said)];
        first.sort_unstable();
        assert_eq!(first, [0, 1]);
        assert_eq!(workers.shared.state().threads, 2);
        assert_eq!(workers.shared.state().queue.len(), 2, "no thread is free for them");
        for (release, then) in releases.iter().zip([Some(2), Some(3), None, None]) {
            release.send(()).unwrap();
            if then.is_some() {
                assert_eq!(said.recv_timeout(SOON).ok(), then);
            }
        }
    }

    #[test]
    fn idle_threads_end_and_are_started_again() {
        let workers = Workers::new(2, Duration::from_millis(1));
        for _ in 0..3 {
            let (say, said) = channel();
            workers.begin(Box::new(move || say.send(()).unwrap())).unwrap();
            next(&said);
            until(&workers, |state| state.threads == 0);
        }
    }
}
