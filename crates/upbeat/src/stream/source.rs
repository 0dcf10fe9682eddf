//! The sources of a stream's items.

use super::Stream;
use super::pulled::Pulled;
use super::pushed::Pushed;
use crate::contain::{drop_each, wake};
use crate::error::CallError;
use crate::wire::Wire;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use upbeat_core::limits::{STREAM_BYTES_MAX, STREAM_ITEMS_MAX};

/// The source of a stream's items.
#[derive(Default)]
pub(super) enum Source<T> {
    /// The items are made in this process.
    Here(Pin<Box<dyn futures_core::Stream<Item = T>>>),
    /// The items come in a result: this side asks for them.
    Pulled(Box<Pulled<T>>),
    /// The items come in an argument: the caller brings them.
    Pushed(Pushed<T>),
    /// The stream is over, or was given to another owner.
    #[default]
    Over,
}

impl<T: 'static> Source<T> {
    pub(super) fn of(items: impl Iterator<Item = T> + 'static) -> Source<T> {
        Source::Here(Box::pin(Items(items)))
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        let next = match self {
            Source::Here(items) => items.as_mut().poll_next(context).map(|item| item.map(Ok)),
            Source::Pulled(pulled) => pulled.poll_next(context),
            Source::Pushed(pushed) => pushed.poll_next(context),
            Source::Over => Poll::Ready(None),
        };
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            *self = Source::Over;
        }
        next
    }
}

impl<T> Source<T> {
    /// Returns whether the stream continues only while a node is driven.
    pub(super) fn needs_node(&self) -> bool {
        match self {
            Source::Pulled(pulled) => pulled.is_of_node(),
            Source::Pushed(_) => true,
            Source::Here(_) | Source::Over => false,
        }
    }

    /// Returns the kind of source, for messages.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Source::Here(_) => "made here",
            Source::Pulled(_) => "of a result",
            Source::Pushed(_) => "of an argument",
            Source::Over => "over, or sent",
        }
    }
}

/// The items of an iterator.
struct Items<I>(I);

// No field is pinned.
impl<I> Unpin for Items<I> {}

impl<I: Iterator> futures_core::Stream for Items<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// Makes a stream of the items that a closure sends into its sink, until the closure returns. The closure runs only
/// while the stream is read, and is dropped at its current await when nobody will read the stream.
///
/// ```
/// use upbeat::Stream;
///
/// fn ticks(every: std::time::Duration) -> Stream<u64> {
///     upbeat::stream(async move |sink| {
///         for tick in 0.. {
///             upbeat::sleep(every).await;
///             sink.send(tick).await;
///         }
///     })
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/stream").local_only().build()?;
/// let mut ticks = ticks(std::time::Duration::from_millis(1));
/// assert_eq!(node.block_on(ticks.next()), Some(Ok(0)));
/// # Ok(()) }
/// ```
pub fn stream<T: Wire>(write: impl AsyncFnOnce(&Sink<T>) + 'static) -> Stream<T> {
    let queue =
        Rc::new(RefCell::new(Queue { items: VecDeque::new(), bytes: 0, waiting: Vec::new() }));
    let sink = Sink { queue: Rc::clone(&queue) };
    let writes = Box::pin(async move { write(&sink).await });
    Stream::from_stream(Written { queue, writes: Some(writes) })
}

/// The sender for the closure of a [`stream`].
pub struct Sink<T> {
    queue: Rc<RefCell<Queue<T>>>,
}

struct Queue<T> {
    items: VecDeque<T>,
    bytes: usize,
    /// The wakers of senders that wait for room.
    waiting: Vec<Waker>,
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        drop_each(self.items.drain(..));
    }
}

impl<T: Wire> Sink<T> {
    /// Sends an item when there is room for it: at most a batch of items waits to be read.
    ///
    /// ```
    /// let words: upbeat::Stream<String> = upbeat::stream(async |sink| {
    ///     for word in ["one", "two", "three"] {
    ///         sink.send(word.to_owned()).await;
    ///     }
    /// });
    /// # drop(words);
    /// ```
    pub async fn send(&self, item: T) {
        let mut item = Some(item);
        poll_fn(|context| {
            let mut queue = self.queue.borrow_mut();
            if queue.items.len() >= STREAM_ITEMS_MAX || queue.bytes >= STREAM_BYTES_MAX {
                drop(queue);
                let waker = context.waker().clone();
                self.queue.borrow_mut().waiting.push(waker);
                return Poll::Pending;
            }
            if let Some(item) = item.take() {
                queue.bytes += size_of::<T>().max(item.bytes_likely());
                queue.items.push_back(item);
            }
            Poll::Ready(())
        })
        .await;
    }
}

/// The items that a closure has sent.
struct Written<T, F> {
    queue: Rc<RefCell<Queue<T>>>,
    /// The closure's future, or None after it has returned.
    writes: Option<Pin<Box<F>>>,
}

// The future is behind a pointer.
impl<T, F> Unpin for Written<T, F> {}

impl<T, F: Future<Output = ()>> futures_core::Stream for Written<T, F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        if let Some(item) = this.queue.borrow_mut().items.pop_front() {
            return Poll::Ready(Some(item));
        }
        let waiting = {
            let mut queue = this.queue.borrow_mut();
            queue.bytes = 0;
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(wake);
        if let Some(writes) = &mut this.writes
            && writes.as_mut().poll(context).is_ready()
        {
            this.writes = None;
        }
        match this.queue.borrow_mut().items.pop_front() {
            None if this.writes.is_some() => Poll::Pending,
            item => Poll::Ready(item),
        }
    }
}
