//! Each type is compared with a plain model over generated operations: futures are created,
//! polled and dropped, guards are dropped, and the model predicts which waiter holds what and which
//! was woken.

mod monitor;

mod semaphore;

mod signal;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[test]
fn who_has_a_value_alone_reaches_it_without_a_lock() {
    let (mut mutex, mut rwlock) = (crate::Mutex::new(1), crate::RwLock::new(1));
    let mut monitor = crate::Monitor::new(1, ["changed"]);
    *mutex.get_mut() += 1;
    *rwlock.get_mut() += 2;
    *monitor.get_mut() += 3;
    assert_eq!((mutex.into_inner(), rwlock.into_inner(), monitor.into_inner()), (2, 3, 4));
}

/// The number of times that a future was woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future that the test polls by itself.
struct PolledFuture<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    woken: Arc<Woken>,
}

impl<'a, T> PolledFuture<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> PolledFuture<'a, T> {
        PolledFuture { future: Box::pin(future), woken: Arc::default() }
    }

    /// Polls the future with a new waker each time, since only the last waker counts.
    fn poll(&mut self) -> Option<T> {
        self.woken = Arc::default();
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Returns how often the future was woken since its last poll.
    fn woken(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// A generated operation: `act` is its kind, `at` chooses one of the existing futures or guards.
#[derive(Clone, Copy, Debug)]
struct Step {
    act: u8,
    at: usize,
    /// The number of permits, or the priority.
    size: u32,
}

fn steps(acts: u8) -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = (0..acts, any::<proptest::sample::Index>(), 1..4u32);
    let step = step.prop_map(|(act, at, size)| Step { act, at: at.index(1 << 16), size });
    prop::collection::vec(step, 1..120)
}

/// Returns an index below `len`, if there is one.
fn choose(at: usize, len: usize) -> Option<usize> {
    at.checked_rem(len)
}
