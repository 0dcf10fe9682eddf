//! Blocks a thread until a future is done.

use crate::dispatch::Dispatcher;
use crate::error::CallError;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use upbeat_environment::thread::Parker;

/// Blocks the thread until a call, or the next item of a stream, is done.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    if Dispatcher::is_driving() {
        return Err(CallError::WouldBlockNode);
    }
    let unpark = Arc::new(Unpark(Parker::of_this_thread()));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => unpark.0.park(),
        }
    }
}

struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}
