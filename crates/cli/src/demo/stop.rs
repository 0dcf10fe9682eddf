//! Ctrl-c: cancels the running work, so that the program cleans up before it ends.

use crate::demo::error::DemoError;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::Node;

/// Whether ctrl-c was pressed. A task of the node waits for the signal. While the node is not driven, the signal
/// is kept until the node is driven again.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    asked: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Stop {
    /// Starts to wait for ctrl-c on this node.
    pub(crate) fn on(node: &Node) -> Stop {
        let stop = Stop::default();
        let asked = stop.clone();
        drop(node.spawn(async move {
            // If the signal cannot be awaited, ctrl-c ends this process, and the system ends the others.
            if upbeat::ctrl_c().await.is_ok() {
                asked.inner.asked.set(true);
                if let Some(waker) = asked.inner.waiting.take() {
                    waker.wake();
                }
            }
        }));
        // The sleep lets the task run for the first time.
        node.block_on(upbeat::sleep(std::time::Duration::from_micros(1)));
        stop
    }

    /// Returns whether ctrl-c was pressed.
    pub(crate) fn is_asked(&self) -> bool {
        self.inner.asked.get()
    }

    /// Awaits a future unless ctrl-c is pressed.
    pub(crate) async fn unless<T>(
        &self,
        future: impl Future<Output = Result<T, DemoError>>,
    ) -> Result<T, DemoError> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.is_asked() {
                return Poll::Ready(Err(DemoError::Interrupted));
            }
            let mut waiting = self.inner.waiting.borrow_mut();
            if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waiting = Some(context.waker().clone());
            }
            drop(waiting);
            future.as_mut().poll(context)
        })
        .await
    }
}
