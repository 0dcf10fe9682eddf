//! Wakers of executors that do what no other executor of these tests does: they drop a task, poll it in place, or
//! panic.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task whose wakers own it, and whose executor is gone: the first wake drops it.
pub(crate) struct Orphan(Mutex<Option<Body>>);

impl Orphan {
    /// Polls a task once, and leaves it to its wakers.
    pub(crate) fn leave(body: impl Future<Output = ()> + Send + 'static) {
        let orphan = Arc::new(Orphan(Mutex::new(Some(Box::pin(body)))));
        let waker = Waker::from(Arc::clone(&orphan));
        let mut body = orphan.0.lock().unwrap();
        let polled = body.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
}

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {}
}

/// A task that its wakers poll in place.
pub(crate) struct InPlace(Mutex<Option<Body>>);

impl InPlace {
    pub(crate) fn start(body: impl Future<Output = ()> + Send + 'static) {
        Arc::new(InPlace(Mutex::new(Some(Box::pin(body))))).wake();
    }
}

impl Wake for InPlace {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut body = self.0.lock().unwrap();
        let polled = body.as_mut().map(|body| body.as_mut().poll(&mut Context::from_waker(&waker)));
        if polled.is_some_and(|polled| polled.is_ready()) {
            *body = None;
        }
    }
}

/// A waker that panics, and counts that.
#[derive(Default)]
pub(crate) struct Panicking(AtomicU64);

impl Panicking {
    pub(crate) fn panics(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Polls a future that is not done yet.
    pub(crate) fn polls<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) {
        let waker = Waker::from(Arc::clone(self));
        assert!(matches!(future.poll(&mut Context::from_waker(&waker)), Poll::Pending));
    }
}

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the queue of an executor is full");
    }
}
