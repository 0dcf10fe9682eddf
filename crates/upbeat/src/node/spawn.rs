//! How the application starts tasks.

use super::Node;
use crate::dispatch::Dispatcher;
use crate::task::JoinHandle;
use crate::wake::Start;
use std::future::Future;

impl Node {
    /// Runs a future as a task of this node, beside others.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/spawn").local_only().build()?;
    /// let task = node.spawn(async { 6 * 7 });
    /// assert_eq!(node.block_on(task), Ok(42));
    /// # Ok(()) }
    /// ```
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.inner.spawn(future, Start::default())
    }

    /// Runs a future as a task of this node with a [`Priority`](crate::Priority), if wanted ahead of other tasks of it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Node, Priority};
    ///
    /// let node = Node::builder("doc/spawn-with").local_only().build()?;
    /// let tidying = node.spawn_with(Priority::Low, async { "what may take its time" });
    /// let urgent = node.spawn_with(Priority::High.first(), async { "ahead of all others" });
    /// assert!(node.block_on(async { tidying.await.is_ok() && urgent.await.is_ok() }));
    /// # Ok(()) }
    /// ```
    pub fn spawn_with<F: Future + 'static>(
        &self,
        start: impl Into<Start>,
        future: F,
    ) -> JoinHandle<F::Output> {
        self.inner.spawn(future, start.into())
    }
}

/// Runs a future as a task of the node that this is called in, as [`Node::spawn`] does.
///
/// # Panics
/// Outside of a node's tasks and handlers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/spawn-free").local_only().build()?;
/// let answer = node.block_on(async {
///     let task = upbeat::spawn(async { 6 * 7 });
///     task.await
/// });
/// assert_eq!(answer, Ok(42));
/// # Ok(()) }
/// ```
pub fn spawn<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    // The future is not in the closure: a refused future is dropped here, and its drop may use the node.
    Dispatcher::current("upbeat::spawn").spawn(future, Start::default())
}
