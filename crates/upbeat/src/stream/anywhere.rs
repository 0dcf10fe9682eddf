//! A stream of a result that came through a handle, and that may move to another thread.

use super::pulled::{AnyReader, Pulled, Reader};
use super::route::HandleStreamRoute;
use super::source::Source;
use super::{Stream, StreamIter, makes_way};
use crate::error::CallError;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A [`Stream`] of a result that came through a handle, and that may move to any thread if its items may:
/// [`Stream::into_send`] makes it.
///
/// The items are read like those of a stream: by [`next`](HandleStream::next), as a `futures_core::Stream`, or by a
/// thread that blocks. Dropping it tells its writer. It holds the session of the handle, so the handle may be
/// dropped.
///
/// ```
/// # #[upbeat::service]
/// # pub trait Archive {
/// #     async fn lines(&self, file: String) -> upbeat::Stream<String>;
/// # }
/// type Error = Box<dyn std::error::Error + Send + Sync>;
///
/// async fn longest(archive: ArchiveHandle) -> Result<usize, Error> {
///     let mut lines = archive.lines("log".into()).await?.into_send()?;
///     let mut longest = 0;
///     while let Some(line) = lines.next().await {
///         longest = longest.max(line?.len());
///     }
///     Ok(longest)
/// }
///
/// // `tokio::spawn` and the handlers of axum ask for these bounds.
/// fn spawn(_: impl Future<Output = Result<usize, Error>> + Send + 'static) {}
/// # fn of(archive: ArchiveHandle) {
/// spawn(longest(archive));
/// # }
/// ```
#[must_use = "dropping a stream ends its writer"]
pub struct HandleStream<T> {
    /// None after the end.
    reader: Option<Reader<HandleStreamRoute, T>>,
}

// No field is pinned: items are moved out of the lane.
impl<T> Unpin for HandleStream<T> {}

impl<T> HandleStream<T> {
    /// Returns the stream of this source.
    pub(super) fn new(source: Source<T>) -> Result<HandleStream<T>, NotSend> {
        let reader = match source {
            Source::Pulled(pulled) => match *pulled {
                Pulled { tie: Some(_), .. } => return Err(NotSend::WithArguments),
                Pulled { reading: AnyReader::Handle(reader), .. } => Some(reader),
                Pulled { reading: AnyReader::Node(_), .. } => return Err(NotSend::OfNode),
            },
            Source::Pushed(_) => return Err(NotSend::OfNode),
            Source::Here(_) => return Err(NotSend::MadeHere),
            Source::Over => None,
        };
        Ok(HandleStream { reader })
    }

    /// Returns the next item, or `None` after the last. An error is the last item: see [`Stream::next`].
    ///
    /// ```
    /// async fn sum(mut numbers: upbeat::HandleStream<u64>) -> Result<u64, upbeat::CallError> {
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

    /// Returns an iterator over the items, for a thread that blocks for each item: see [`Stream::blocking`].
    ///
    /// ```
    /// fn elsewhere(numbers: upbeat::HandleStream<u64>) -> std::thread::JoinHandle<usize> {
    ///     std::thread::spawn(move || numbers.blocking().count())
    /// }
    /// ```
    pub fn blocking(self) -> StreamIter<T>
    where
        T: 'static,
    {
        Stream::from(self).blocking()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, CallError>>> {
        let Some(reader) = &mut self.reader else { return Poll::Ready(None) };
        if makes_way(context) {
            return Poll::Pending;
        }
        let next = reader.poll_next(context);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.reader = None;
        }
        next
    }
}

impl<T> futures_core::Stream for HandleStream<T> {
    type Item = Result<T, CallError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        self.poll(context)
    }
}

/// Converts it back into a stream of one thread, which may be sent as an argument.
impl<T: 'static> From<HandleStream<T>> for Stream<T> {
    fn from(stream: HandleStream<T>) -> Stream<T> {
        Stream::from_source(match stream.reader {
            Some(reader) => {
                Source::Pulled(Box::new(Pulled { reading: AnyReader::Handle(reader), tie: None }))
            }
            None => Source::Over,
        })
    }
}

impl<T> fmt::Debug for HandleStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.reader.is_some() { "of a result" } else { "over" };
        write!(f, "HandleStream({what})")
    }
}

/// The reason why a stream must stay in its thread: see [`Stream::into_send`].
///
/// ```
/// use upbeat::{NotSend, Stream};
///
/// let error = Stream::of([1, 2]).into_send().unwrap_err();
/// assert_eq!(error, NotSend::MadeHere);
/// assert!(error.to_string().contains("send what it is made of"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSend {
    /// The stream was made in this process.
    MadeHere,
    /// A node reads the stream.
    OfNode,
    /// Streams in the arguments of its call continue while it is read.
    WithArguments,
}

impl fmt::Display for NotSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotSend::MadeHere => {
                "the stream is made in this thread, of values that may have to stay here: send what \
                 it is made of"
            }
            NotSend::OfNode => {
                "the stream is read by a node, which stays on its thread: call the method through a \
                 handle, whose streams go anywhere"
            }
            NotSend::WithArguments => {
                "streams in the arguments of the stream's call must stay in this thread, and continue \
                 while the stream is read: read it in this thread"
            }
        })
    }
}

impl std::error::Error for NotSend {}
