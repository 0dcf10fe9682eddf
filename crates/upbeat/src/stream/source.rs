//! Where the items of a stream come from.

use super::Stream;
use super::pulled::Pulled;
use super::pushed::Pushed;
use crate::contain::drop_each;
use crate::error::CallError;
use crate::wire::Wire;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use upbeat_core::limits::{STREAM_BYTES_MAX, STREAM_ITEMS_MAX};

/// Where items come from.
#[derive(Default)]
pub(super) enum Source<T> {
    /// They are made here.
    Here(Pin<Box<dyn futures_core::Stream<Item = T>>>),
    /// Of a result: this side asks for them.
    Pulled(Box<Pulled<T>>),
    /// Of an argument: they are brought.
    Pushed(Pushed<T>),
    /// There are no more, or somebody else has them.
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
    /// Whether it goes on only while a node is driven.
    pub(super) fn needs_node(&self) -> bool {
        match self {
            Source::Pulled(pulled) => pulled.is_of_node(),
            Source::Pushed(_) => true,
            Source::Here(_) | Source::Over => false,
        }
    }

    /// What it is, in words.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Source::Here(_) => "made here",
            Source::Pulled(_) => "of a result",
            Source::Pushed(_) => "of an argument",
            Source::Over => "over, or sent",
        }
    }
}

/// An iterator's items.
struct Items<I>(I);

// Nothing in it is pinned.
impl<I> Unpin for Items<I> {}

impl<I: Iterator> futures_core::Stream for Items<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// A stream of what a closure sends into its sink, until it returns. It runs only while somebody reads,
/// and is dropped where it waits when nobody will.
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

/// Where the closure of a [`stream`] sends its items.
pub struct Sink<T> {
    queue: Rc<RefCell<Queue<T>>>,
}

struct Queue<T> {
    items: VecDeque<T>,
    bytes: usize,
    /// Who waits for room.
    waiting: Vec<Waker>,
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        drop_each(self.items.drain(..));
    }
}

impl<T: Wire> Sink<T> {
    /// Sends an item, when there is room for it: a batch of items, at most, waits to be read.
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
                queue.waiting.push(context.waker().clone());
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

/// What a closure has sent.
struct Written<T, F> {
    queue: Rc<RefCell<Queue<T>>>,
    /// The closure, while it has not returned.
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
        waiting.into_iter().for_each(Waker::wake);
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
