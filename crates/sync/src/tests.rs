//! Each type against a plain model, over operations in any order: futures are begun, polled and
//! dropped, guards are dropped, and the model says who has what, and who was woken.

mod monitor;

mod room;

mod signal;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// How often a future was woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future, polled by hand.
struct Hand<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    woken: Arc<Woken>,
}

impl<'a, T> Hand<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Hand<'a, T> {
        Hand { future: Box::pin(future), woken: Arc::default() }
    }

    /// Polls it with a waker that is new each time: the last one counts.
    fn poll(&mut self) -> Option<T> {
        self.woken = Arc::default();
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// How often it was woken since it was polled.
    fn woken(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// What a generated operation does; `at` chooses among those that there are.
#[derive(Clone, Copy, Debug)]
struct Step {
    act: u8,
    at: usize,
    /// How many, or how urgent.
    size: u32,
}

fn steps(acts: u8) -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = (0..acts, any::<proptest::sample::Index>(), 1..4u32);
    let step = step.prop_map(|(act, at, size)| Step { act, at: at.index(1 << 16), size });
    prop::collection::vec(step, 1..120)
}

/// One of so many, if there is one.
fn choose(at: usize, len: usize) -> Option<usize> {
    at.checked_rem(len)
}
