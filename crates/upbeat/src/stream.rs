//! Streams: results whose items come one after another, and such arguments.
//!
//! A stream is a number of a session, at the node that serves. The reader of a result's stream asks for items by a
//! call, which is answered when there are some. The writer of an argument's stream brings items by a call, which is
//! answered when there is room for more. Order, deadlines, budgets, cancelling and the death of either side are
//! therefore those of calls. At most one such call of a stream is under way, and it carries all items that are ready.
//! Items go through [`Wire`] into the lane, and the runtime allocates nothing for an item but what the item owns.
//! Invariant: a writer is never further ahead than a few batches, and the writer is dropped with its reader.

mod batch;
mod route;
mod pulled;
mod pushed;
mod source;
mod fed;
mod served;
mod anywhere;

pub use anywhere::{HandleStream, NotSend};
pub use source::{Sink, stream};

use crate::dispatch::{Dispatcher, NodeSession};
use crate::error::CallError;
use crate::handle;
use crate::wire::{
    Arguments, CallSide, CalledMethod, Carried, Describe, Input, MessageContext, Output, Wire,
    WireError,
};
use fed::FeedFuture;
use pulled::Pulled;
use route::AnyRoute;
use served::Outgoing;
use source::Source;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use upbeat_memory::local::Local;

const NOWHERE: WireError = WireError::Stream {
    why: "a stream cannot be sent inside of this type: make it an argument or a result of a method, \
          or put it into an `Option`, a `Result`, a tuple or a `Vec` there",
};

/// A sequence of items that come one after another, as the result or an argument of a method.
///
/// A method returns a stream, or a `Result` of one, or takes streams as arguments. Backpressure holds the writer
/// back: the writer waits while a few batches of items are unread. Each item that is read is `Ok`. An error is the
/// last item; it says why the stream broke off, so that not all items have come. A method reports its own error for
/// an item inside the item: `Stream<Result<T, E>>`.
///
/// Dropping a stream before its end drops its writer at the writer's current await. A stream that is never read costs
/// the memory of a few batches, and ends with its session. Streams in the arguments continue while their call is
/// awaited or, if its result is a stream too, while that stream is read. A session may have 256 open streams at the
/// node that serves.
///
/// ```
/// use upbeat::Stream;
///
/// #[upbeat::service]
/// pub trait Archive {
///     /// Returns the lines of a file.
///     async fn lines(&self, file: String) -> Result<Stream<String>, String>;
///
///     /// Returns the sum of all numbers.
///     async fn sum(&self, numbers: Stream<u64>) -> Result<u64, String>;
/// }
///
/// struct Shelf;
///
/// impl Archive for Shelf {
///     async fn lines(&self, file: String) -> Result<Stream<String>, String> {
///         if file.is_empty() {
///             return Err("a file has a name".into());
///         }
///         Ok(upbeat::stream(async move |sink| {
///             for line in 0..1000 {
///                 sink.send(format!("{file}: line {line}")).await;
///             }
///         }))
///     }
///
///     async fn sum(&self, mut numbers: Stream<u64>) -> Result<u64, String> {
///         let mut sum = 0;
///         while let Some(number) = numbers.next().await {
///             sum += number.map_err(|error| error.to_string())?;
///         }
///         Ok(sum)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let over = std::sync::atomic::AtomicBool::new(false);
/// # std::thread::scope(|scope| {
/// # let (is_over, (up, came)) = (&over, std::sync::mpsc::channel());
/// # scope.spawn(move || {
/// #     let node = upbeat::Node::builder("doc/archive").local_only().build().unwrap();
/// #     node.serve(ArchiveServer::new(Shelf)).unwrap();
/// #     up.send(()).unwrap();
/// #     node.block_on(async {
/// #         while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
/// #             upbeat::sleep(std::time::Duration::from_millis(1)).await;
/// #         }
/// #     });
/// # });
/// # came.recv().unwrap();
/// # let node = upbeat::Node::builder("doc/reader").local_only().build()?;
/// # node.block_on(async {
/// let archive: ArchiveClient = node.connect("doc/archive").await?;
/// let mut lines = archive.lines("log".into()).await?;
/// let mut count = 0;
/// while let Some(line) = lines.next().await {
///     assert_eq!(line?, format!("log: line {count}"));
///     count += 1;
/// }
/// assert_eq!(count, 1000);
///
/// assert_eq!(archive.sum(Stream::of(1..=1000)).await?, 500_500);
/// # over.store(true, std::sync::atomic::Ordering::Relaxed);
/// # Ok(())
/// # })
/// # })
/// # }
/// ```
#[must_use = "dropping a stream ends its writer"]
pub struct Stream<T> {
    inner: Local<Rc<Inner<T>>>,
}

struct Inner<T> {
    source: RefCell<Source<T>>,
    /// The number under which the stream is sent, if it is.
    number: Cell<Option<u32>>,
    /// The route on which the stream is sent as an argument.
    way: RefCell<Option<AnyRoute>>,
    fed: RefCell<Option<FeedFuture>>,
}

/// The numbers of streams of arguments, which differ at least within a session.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

impl<T: 'static> Stream<T> {
    fn from_source(source: Source<T>) -> Stream<T> {
        let (number, way, fed) = (Cell::new(None), RefCell::default(), RefCell::default());
        let inner = Inner { source: RefCell::new(source), number, way, fed };
        Stream { inner: Local::from(Rc::new(inner)) }
    }

    /// Makes a stream of these items. Each item is taken from the iterator when it is wanted.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/stream-of").local_only().build()?;
    /// let mut squares = upbeat::Stream::of((1..=3).map(|n| n * n));
    /// node.block_on(async {
    ///     for square in [1, 4, 9] {
    ///         assert_eq!(squares.next().await, Some(Ok(square)));
    ///     }
    ///     assert_eq!(squares.next().await, None);
    /// });
    /// # Ok(()) }
    /// ```
    pub fn of(items: impl IntoIterator<Item = T, IntoIter: 'static>) -> Stream<T> {
        Stream::from_source(Source::of(items.into_iter()))
    }

    /// Makes a stream of the items of another crate's stream.
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll};
    ///
    /// struct Down(u64);
    ///
    /// impl futures_core::Stream for Down {
    ///     type Item = u64;
    ///
    ///     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
    ///         self.0 = self.0.saturating_sub(1);
    ///         Poll::Ready(Some(self.0).filter(|n| *n > 0))
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/stream-from").local_only().build()?;
    /// let mut down = upbeat::Stream::from_stream(Down(3));
    /// assert_eq!(node.block_on(down.next()), Some(Ok(2)));
    /// # Ok(()) }
    /// ```
    pub fn from_stream(stream: impl futures_core::Stream<Item = T> + 'static) -> Stream<T> {
        Stream::from_source(Source::Here(Box::pin(stream)))
    }

    /// Returns the next item, or `None` after the last. An error is the last item.
    ///
    /// The reader lets other tasks run as at a [`checkpoint`](crate::checkpoint), even if items are ready. Dropping
    /// this future loses no item: the next call returns it. [`within`](crate::within) sets a timeout.
    ///
    /// ```
    /// async fn sum(mut numbers: upbeat::Stream<u64>) -> Result<u64, upbeat::CallError> {
    ///     let mut sum = 0;
    ///     while let Some(number) = numbers.next().await {
    ///         sum += number?;
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, CallError>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns an iterator over the items, for a thread that blocks for each item. The stream must have come through
    /// a handle, or be made in this thread. An error says if the stream needs a driven node.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Archive {
    /// #     async fn lines(&self, file: String) -> upbeat::Stream<String>;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let archive: ArchiveHandle = upbeat::handle::connect("archive")?;
    /// for line in archive.blocking().lines("log".into())?.blocking() {
    ///     println!("{}", line?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn blocking(self) -> StreamIter<T> {
        StreamIter { stream: Some(self) }
    }

    /// Makes the stream `Send` if it came through a handle, for multi-threaded runtimes whose tasks are `Send`. A
    /// stream that must stay in its thread is refused and dropped.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Archive {
    /// #     async fn lines(&self, file: String) -> upbeat::Stream<String>;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let archive: ArchiveHandle = upbeat::handle::connect("archive")?;
    /// let lines = archive.blocking().lines("log".into())?.into_send()?;
    /// std::thread::spawn(move || lines.blocking().count());
    /// # Ok(()) }
    /// ```
    pub fn into_send(self) -> Result<HandleStream<T>, NotSend> {
        HandleStream::new(self.inner.source.take())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, CallError>>> {
        if makes_way(context) {
            return Poll::Pending;
        }
        self.inner.source.borrow_mut().poll_next(context)
    }
}

/// Returns whether the reader lets others run: a stream that is ahead of its reader would starve them.
fn makes_way(context: &Context<'_>) -> bool {
    let is_time_over = Dispatcher::if_driving(|node| node.is_time_over()) == Some(true);
    if is_time_over {
        context.waker().wake_by_ref();
    }
    is_time_over
}

impl<T: 'static> futures_core::Stream for Stream<T> {
    type Item = Result<T, CallError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        self.poll(context)
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.inner.source.borrow().what())
    }
}

impl<T: Wire> Stream<T> {
    const ITEMS_ARE_NONE: () = assert!(
        !T::STREAMS,
        "the items of a stream cannot be streams: let a method return each of them"
    );

    /// Returns the number under which the stream is written into a message.
    fn number(&self, context: &MessageContext<'_>) -> Result<u32, WireError> {
        let inner = &self.inner;
        // A message that did not fit, or had to wait, is written again with the number that it has.
        let known = inner.number.get();
        let number = match (context.side, known) {
            (CallSide::Caller, known) => {
                *inner.way.borrow_mut() = Some(AnyRoute::new(context).ok_or(NOWHERE)?);
                known.unwrap_or_else(|| NUMBERS.fetch_add(1, Ordering::Relaxed))
            }
            (CallSide::Callee, Some(number)) => number,
            (CallSide::Callee, None) => {
                let NodeSession { node, session } = callee(context)?;
                served::serve(node);
                let outgoing = Rc::new(Outgoing::new(inner.source.take()));
                node.open_outlet(session, context.call, outgoing)?
            }
        };
        inner.number.set(Some(number));
        Ok(number)
    }
}

/// Returns the session of the callee that reads or writes a message.
fn callee<'a>(context: &MessageContext<'a>) -> Result<&'a NodeSession, WireError> {
    context.session.downcast_ref::<NodeSession>().ok_or(NOWHERE)
}

impl<T: Wire> Wire for Stream<T> {
    const STREAMS: bool = true;
    const BYTES_LIKELY: usize = 8;

    fn describe(out: &mut Describe) {
        out.text("Stream<");
        out.exact(Describe::of::<T>);
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let () = Self::ITEMS_ARE_NONE;
        let number = self.number(out.context().ok_or(NOWHERE)?)?;
        number.put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let () = Self::ITEMS_ARE_NONE;
        let number = u32::take(input)?;
        let context = input.context().ok_or(NOWHERE)?;
        let source = match context.side {
            CallSide::Caller => {
                let way = AnyRoute::new(context).ok_or(NOWHERE)?;
                Source::Pulled(Box::new(Pulled::new(way, number)))
            }
            CallSide::Callee => {
                let NodeSession { node, session } = callee(context)?;
                served::serve(node);
                Source::Pushed(pushed::open(node, session, number, context.call)?)
            }
        };
        Ok(Stream::from_source(source))
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        let inner: Rc<dyn Carried> = Rc::<Inner<T>>::clone(&self.inner);
        show(&inner);
    }
}

impl<T: Wire> Carried for Inner<T> {
    fn sent(&self) {
        if let (Some(way), Some(number)) = (self.way.take(), self.number.get()) {
            *self.fed.borrow_mut() = Some(fed::feed(way, number, self.source.take()));
        }
    }

    fn received(&self, of: CalledMethod) {
        if let Source::Pulled(pulled) = &mut *self.source.borrow_mut() {
            pulled.received(of);
        }
    }

    fn feed(&self, context: &mut Context<'_>) {
        let mut fed = self.fed.borrow_mut();
        if let Some(going) = &mut *fed
            && going.as_mut().poll(context).is_ready()
        {
            *fed = None;
        }
    }

    fn adopt(&self, arguments: &Rc<Arguments>) {
        if let Source::Pulled(pulled) = &mut *self.source.borrow_mut() {
            pulled.adopt(arguments);
        }
    }
}

/// An iterator over the items of a stream, for a thread that blocks for each item: see [`Stream::blocking`].
#[must_use = "an iterator does nothing until it is polled for items"]
pub struct StreamIter<T> {
    stream: Option<Stream<T>>,
}

impl<T: 'static> Iterator for StreamIter<T> {
    type Item = Result<T, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut()?;
        let needs_node = stream.inner.source.borrow().needs_node();
        let next = match needs_node {
            true => Err(CallError::WouldBlockNode),
            false => handle::wait(async { Ok(stream.next().await) }),
        };
        let next = next.unwrap_or_else(|error| Some(Err(error)));
        if !matches!(next, Some(Ok(_))) {
            self.stream = None;
        }
        next
    }
}
