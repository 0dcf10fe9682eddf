//! A node on a tokio runtime, driven through its descriptor beside the other work of the runtime.
//!
//! No other module of this crate uses tokio.

use crate::dispatch::UnderWay;
use crate::node::Node;
use rustix::event::PollFlags;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use upbeat_environment::waiting::poll;

/// The number of turns after which other tasks of the runtime have their turn.
const TURNS: usize = 64;

/// Drives a node until a future is done, on the tokio runtime that polls this: in `block_on`, or in a
/// task of a `LocalSet`, since a node stays on its thread. In the future, and in tasks of the node,
/// clients can be awaited beside anything of tokio's. Other tasks of the runtime use handles for that
/// ([`handle`](crate::handle)).
///
/// The runtime needs its I/O driver. If this future is dropped before its end, `future` is dropped inside the node, and
/// another call may drive the node on. Other tasks of the thread may start tasks of the node, and await its futures, between
/// two polls of this one. As long as it is not dropped, blocking calls of handles in the thread are refused
/// ([`WouldBlockNode`](crate::CallError::WouldBlockNode)), because they would stop the node.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let node = upbeat::Node::builder("doc/tokio").local_only().build()?;
/// let sum = runtime.block_on(upbeat::tokio_runtime::drive(&node, async {
///     let task = node.spawn(async {
///         upbeat::sleep(Duration::from_millis(1)).await;
///         40
///     });
///     tokio::task::yield_now().await;
///     task.await.map(|forty| forty + 2)
/// }))?;
/// assert_eq!(sum, Ok(42));
/// # Ok(()) }
/// ```
pub async fn drive<F: Future>(node: &Node, future: F) -> io::Result<F::Output> {
    if Handle::try_current().is_err() {
        let text =
            "no tokio runtime polls this: `block_on` of a runtime, or a task of a `LocalSet`, does";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let descriptor = node.as_fd().try_clone_to_owned()?;
    #[expect(
        deprecated,
        reason = "what took its place is unsafe: it asks for what an `OwnedFd` is"
    )]
    let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    let future = pin!(Some(future));
    let mut drive = Drive { node, future, under_way: UnderWay::begin() };
    poll_fn(|context| drive.poll(&descriptor, context)).await
}

/// A drive that is under way. Its drop ends the future inside the node, and leaves the node.
struct Drive<'n, 'f, F> {
    node: &'n Node,
    future: Pin<&'f mut Option<F>>,
    under_way: UnderWay,
}

impl<F: Future> Drive<'_, '_, F> {
    fn poll(
        &mut self,
        descriptor: &AsyncFd<OwnedFd>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<F::Output>> {
        let Drive { node, future, under_way } = self;
        under_way.poll(|| {
            if let Some(future) = future.as_mut().as_pin_mut()
                && let Poll::Ready(value) = node.inside(|| future.poll(context))
            {
                return Poll::Ready(Ok(value));
            }
            node.driven(|| turn(node, descriptor, context)).map(Err)
        })
    }
}

impl<F> Drop for Drive<'_, '_, F> {
    fn drop(&mut self) {
        let Drive { node, future, under_way } = self;
        under_way.poll(|| node.leave(|| future.set(None)));
    }
}

/// Turns the node until nothing more has come. Ready with an error alone.
fn turn(node: &Node, descriptor: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> Poll<io::Error> {
    for _ in 0..TURNS {
        if node.turn() || !node.may_wait() {
            continue;
        }
        // The runtime tells of a change, and what has come before it looked is none.
        while let Poll::Ready(ready) = descriptor.poll_read_ready(context) {
            match ready {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return Poll::Ready(error),
            }
        }
        let [came] = poll([(descriptor.get_ref().as_fd(), PollFlags::IN)], Some(0));
        if !came {
            return Poll::Pending;
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
