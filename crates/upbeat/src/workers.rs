//! Threads that compute: one small set for all nodes of the process.
//!
//! A thread is started when there is work that none of those there are is free for, as far as there
//! are processors, and ends when it has had nothing to do for a while. What nobody is free for
//! waits, and is begun in the order in which it came. What a closure computes, and who is told, is
//! left to others.
//!
//! Invariant: work that was taken in is done once, whatever the work before it did.

use crate::contain::panics;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, available_parallelism};
use std::time::Duration;

/// How long a thread waits for more work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Threads that compute.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    /// The most threads that there may be.
    most: usize,
    patience: Duration,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    /// Threads that wait for work.
    free: usize,
}

impl Workers {
    /// Those of this process.
    pub(crate) fn of_process() -> &'static Workers {
        static WORKERS: LazyLock<Workers> = LazyLock::new(|| {
            Workers::new(available_parallelism().map_or(1, usize::from), PATIENCE)
        });
        &WORKERS
    }

    fn new(most: usize, patience: Duration) -> Workers {
        let (state, more) = (Mutex::default(), Condvar::new());
        Workers { shared: Arc::new(Shared { most, patience, state, more }) }
    }

    /// Takes work in. An error if there is no thread and none can be started.
    pub(crate) fn begin(&self, work: Work) -> io::Result<()> {
        let mut state = self.shared.state();
        if state.queue.len() >= state.free && state.threads < self.shared.most {
            let shared = Arc::clone(&self.shared);
            let started = Builder::new().name("upbeat-compute".into()).spawn(move || shared.run());
            match started {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                // Those that there are come to it in its turn.
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

    /// What a thread does.
    fn run(&self) {
        let mut state = self.state();
        loop {
            while let Some(work) = state.queue.pop_front() {
                drop(state);
                // Who waits for it has been told of a panic; this one is of a value's own drop.
                panics(work);
                state = self.state();
            }
            state.free += 1;
            let waited = self.more.wait_timeout(state, self.patience);
            let (woken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.free -= 1;
            if waited.timed_out() && state.queue.is_empty() {
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
    /// So long that no busy machine takes it.
    const SOON: Duration = Duration::from_secs(20);

    /// What is said soon.
    fn next<T>(said: &Receiver<T>) -> T {
        said.recv_timeout(SOON).expect("nobody does the work")
    }

    /// Waits until something is so.
    fn until(workers: &Workers, is_so: impl Fn(&State) -> bool) {
        let begun = Instant::now();
        while !is_so(&workers.shared.state()) {
            assert!(begun.elapsed() < SOON, "what is waited for never is");
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_is_free_does_the_next_and_nobody_is_started() {
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
    fn one_thread_begins_everything_in_its_order_and_a_panic_ends_nothing() {
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
    fn there_are_as_many_threads_as_there_is_work_for_and_no_more_than_allowed() {
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
        assert_eq!(workers.shared.state().queue.len(), 2, "nobody is free for them");
        for (release, then) in releases.iter().zip([Some(2), Some(3), None, None]) {
            release.send(()).unwrap();
            if then.is_some() {
                assert_eq!(said.recv_timeout(SOON).ok(), then);
            }
        }
    }

    #[test]
    fn threads_end_when_there_is_nothing_to_do_and_are_started_again() {
        let workers = Workers::new(2, Duration::from_millis(1));
        for _ in 0..3 {
            let (say, said) = channel();
            workers.begin(Box::new(move || say.send(()).unwrap())).unwrap();
            next(&said);
            until(&workers, |state| state.threads == 0);
        }
    }
}
