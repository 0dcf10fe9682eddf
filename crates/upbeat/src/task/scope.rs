//! Scopes: child tasks that borrow from their parent, and none of which outlives it.
//!
//! The module `children` polls and wakes the children.

use super::children::{Handle, Inner, Run};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A handle on which the children of a scope are spawned; the body of [`scope`] gets it. Cloning is cheap: a child
/// that spawns other children of its scope has a clone.
#[derive(Clone)]
pub struct Scope<'env> {
    inner: Rc<Inner<'env>>,
}

impl<'env> Scope<'env> {
    /// Runs a future concurrently with the others of the scope. The future may borrow what the scope itself borrows.
    /// A future that is spawned after the end of the scope is dropped.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/scope-spawn").local_only().build()?;
    /// let words = ["a".to_owned(), "bc".to_owned()];
    /// let letters = node.block_on(upbeat::scope(async |s| {
    ///     let one = s.spawn(async { words[0].len() });
    ///     let two = s.spawn(async { words[1].len() });
    ///     one.await + two.await
    /// }));
    /// assert_eq!(letters, 3);
    /// # Ok(()) }
    /// ```
    pub fn spawn<F: Future + 'env>(&self, future: F) -> Child<'env, F::Output> {
        Child { of: self.inner.spawn(future, Some) }
    }
}

/// A handle like [`Scope`] for children that may fail; the body of [`try_scope`] gets it.
pub struct TryScope<'env, E> {
    inner: Rc<Inner<'env>>,
    first: Rc<Cell<Option<E>>>,
}

impl<E> Clone for TryScope<'_, E> {
    fn clone(&self) -> Self {
        TryScope { inner: Rc::clone(&self.inner), first: Rc::clone(&self.first) }
    }
}

impl<'env, E: 'env> TryScope<'env, E> {
    /// Runs a future concurrently with the others of the scope. If the future fails, the scope ends with its error.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/try-spawn").local_only().build()?;
    /// let texts = ["4", "2"];
    /// let sum = node.block_on(upbeat::try_scope(async |s| {
    ///     let one = s.spawn(async { texts[0].parse::<u8>() });
    ///     let two = s.spawn(async { texts[1].parse::<u8>() });
    ///     Ok(one.await + two.await)
    /// }))?;
    /// assert_eq!(sum, 6);
    /// # Ok(()) }
    /// ```
    pub fn spawn<T, F>(&self, future: F) -> Child<'env, T>
    where
        T: 'env,
        F: Future<Output = Result<T, E>> + 'env,
    {
        let (inner, first) = (Rc::downgrade(&self.inner), Rc::clone(&self.first));
        let of = self.inner.spawn(future, move |result: Result<T, E>| match result {
            Ok(value) => Some(value),
            Err(error) => {
                first.set(Some(error));
                inner.upgrade()?.end();
                None
            }
        });
        Child { of }
    }
}

/// A future of the value of a child. Dropping it lets the child run on until its scope ends.
///
/// # Panics
/// If it is awaited after the child was dropped with its scope, or after its value was taken.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/child").local_only().build()?;
/// let answer = node.block_on(upbeat::scope(async |s| {
///     let child: upbeat::Child<'_, i32> = s.spawn(async { 6 * 7 });
///     child.await
/// }));
/// assert_eq!(answer, 42);
/// # Ok(()) }
/// ```
pub struct Child<'env, T> {
    of: Handle<'env, T>,
}

impl<T> Future for Child<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let joined = self.of.as_ref().map_or(Poll::Ready(None), |child| child.join(context));
        let Poll::Ready(value) = joined else { return Poll::Pending };
        self.of = None;
        let Some(value) = value else {
            panic!("a child has no value: its scope has ended, or the value was taken")
        };
        Poll::Ready(value)
    }
}

/// Runs a body and the tasks that it spawns, which may borrow what the body borrows. Returns the body's output when
/// all of them are done.
///
/// Dropping this future drops all of them: none outlives it. They are polled as part of the task that awaits the
/// scope, and exclude each other between their awaits like all tasks of a node. The panic of a child is the panic of
/// the task.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::cell::Cell;
///
/// let node = upbeat::Node::builder("doc/scope").local_only().build()?;
/// let sum = node.block_on(async {
///     let numbers = vec![1, 2, 3, 4];
///     let sum = Cell::new(0);
///     upbeat::scope(async |s| {
///         for part in numbers.chunks(2) {
///             let sum = &sum;
///             s.spawn(async move {
///                 for number in part {
///                     upbeat::yield_now().await;
///                     sum.set(sum.get() + number);
///                 }
///             });
///         }
///     })
///     .await;
///     sum.get()
/// });
/// assert_eq!(sum, 10);
/// # Ok(()) }
/// ```
pub async fn scope<'env, T>(body: impl AsyncFnOnce(Scope<'env>) -> T) -> T {
    let inner = Inner::new();
    let body = body(Scope { inner: Rc::clone(&inner) });
    match Run::new(&inner, body).await {
        Some(value) => value,
        None => unreachable!("this scope never ends before its body is done"),
    }
}

/// Runs a body and its tasks as [`scope`] does, and ends with the first error of the body or of a child: the others
/// are dropped then.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/try-scope").local_only().build()?;
/// let failed: Result<(), &str> = node.block_on(upbeat::try_scope(async |s| {
///     s.spawn(std::future::pending::<Result<(), &str>>());
///     let bad = s.spawn(async { Err::<u8, _>("there is none left") });
///     println!("{}", bad.await);
///     Ok(())
/// }));
/// assert_eq!(failed, Err("there is none left"));
/// # Ok(()) }
/// ```
pub async fn try_scope<'env, T, E: 'env>(
    body: impl AsyncFnOnce(TryScope<'env, E>) -> Result<T, E>,
) -> Result<T, E> {
    let (inner, first) = (Inner::new(), Rc::new(Cell::new(None)));
    let scope = TryScope { inner: Rc::clone(&inner), first: Rc::clone(&first) };
    let ended = Rc::clone(&inner);
    let body = async move {
        let result = body(scope).await;
        if result.is_err() {
            ended.end();
        }
        result
    };
    match (Run::new(&inner, body).await, first.take()) {
        (_, Some(error)) => Err(error),
        (Some(result), None) => result,
        (None, None) => unreachable!("only a failed child ends this scope before its body is done"),
    }
}

/// Runs futures concurrently, and returns their outputs in their order when all are done.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::builder("doc/all").local_only().build()?;
/// let slowest_first = [3, 2, 1].map(|ms| async move {
///     upbeat::sleep(Duration::from_millis(ms)).await;
///     ms
/// });
/// assert_eq!(node.block_on(upbeat::all(slowest_first)), [3, 2, 1]);
/// # Ok(()) }
/// ```
pub async fn all<'env, F: Future + 'env>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    scope(async |s: Scope<'env>| {
        let children: Vec<_> = futures.into_iter().map(|future| s.spawn(future)).collect();
        let mut values = Vec::with_capacity(children.len());
        for child in children {
            values.push(child.await);
        }
        values
    })
    .await
}

/// Runs futures that may fail as [`all`] does: with the first error the others are dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/try-all").local_only().build()?;
/// let parse = |text: &'static str| async move { text.parse::<u8>() };
/// assert_eq!(node.block_on(upbeat::try_all(["1", "2"].map(parse))), Ok(vec![1, 2]));
/// assert!(node.block_on(upbeat::try_all(["1", "two"].map(parse))).is_err());
/// # Ok(()) }
/// ```
pub async fn try_all<'env, T: 'env, E: 'env, F: Future<Output = Result<T, E>> + 'env>(
    futures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, E> {
    try_scope(async |s: TryScope<'env, E>| {
        let children: Vec<_> = futures.into_iter().map(|future| s.spawn(future)).collect();
        let mut values = Vec::with_capacity(children.len());
        for child in children {
            values.push(child.await);
        }
        Ok(values)
    })
    .await
}

/// Runs futures concurrently until the first is done, and returns its output; the others are dropped. Futures of
/// several types take part as `Pin<Box<dyn Future<Output = T>>>`.
///
/// # Panics
/// If there are no futures.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::builder("doc/race").local_only().build()?;
/// let first = upbeat::race([2000, 1, 3000].map(|ms| async move {
///     upbeat::sleep(Duration::from_millis(ms)).await;
///     ms
/// }));
/// assert_eq!(node.block_on(first), 1);
/// # Ok(()) }
/// ```
pub async fn race<'env, F: Future + 'env>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let (inner, winner) = (Inner::new(), Rc::new(Cell::new(None)));
    for future in futures {
        let (inner_of, first) = (Rc::downgrade(&inner), Rc::clone(&winner));
        inner.spawn(future, move |value| {
            first.set(Some(value));
            inner_of.upgrade()?.end();
            None::<()>
        });
    }
    assert!(!inner.is_empty(), "`race` needs at least one future");
    let _: Option<()> = Run::new(&inner, std::future::pending()).await;
    match winner.take() {
        Some(value) => value,
        None => unreachable!("a race ends only when a future is done"),
    }
}
