//! What streams of a handle go on by: calls over the session in which they were opened, and a thread that
//! waits for them and does nothing else.

use super::Side;
use super::caller::To;
use super::side::Asked;
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::wire::{Content, Input, Wire, WireError};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use upbeat_core::channel::Operation;
use upbeat_core::frame::CallNumber;

/// An operation of a channel over a session that is known. Polled again after its answer, it asks again. It stays in no
/// thread, if its arguments do not.
pub(crate) struct SideCall<A, R> {
    side: Arc<Side>,
    to: To,
    arguments: A,
    asked: Option<Asked>,
    sent: Option<CallNumber>,
    take: fn(&mut Input<'_>) -> Result<R, WireError>,
}

// Nothing in it is pinned, as in any call.
impl<A, R> Unpin for SideCall<A, R> {}

impl<A: Content, R: Wire> SideCall<A, R> {
    /// Asks for an operation of a channel.
    pub(crate) fn new(side: &Arc<Side>, operation: Operation, arguments: A) -> SideCall<A, R> {
        const { assert!(A::OPERATION, "the arguments are those of an operation") };
        let (index, method) = (usize::from(operation.code()), operation.name());
        let (side, to) = (Arc::clone(side), To { index, method });
        SideCall { side, to, arguments, asked: None, sent: None, take: R::take }
    }
}

impl<A: Content, R> Future for SideCall<A, R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (this, waker) = (&mut *self, context.waker());
        let call = match this.sent {
            Some(call) => call,
            None => {
                let (to, asked) = (this.to, &mut this.asked);
                let sent = this.side.send_call(to, &this.arguments, asked, None, waker);
                let Some(call) = sent? else { return Poll::Pending };
                *this.sent.insert(call)
            }
        };
        let Some(result) = this.side.poll(call, waker, this.take) else { return Poll::Pending };
        this.sent = None;
        Poll::Ready(result)
    }
}

impl<A, R> Drop for SideCall<A, R> {
    fn drop(&mut self) {
        if let Some(call) = self.sent {
            self.side.abandon(call, false);
        }
    }
}

/// Waits for a call, or for the next of a stream, in a thread that does nothing else.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    if Dispatcher::is_driving() {
        return Err(CallError::WouldBlockNode);
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
