//! Messages that are built in place: a buffer of the session is loaned, filled, and sent without a copy.

use super::node::NodeRare;
use super::open::Route;
use super::reconnect::{Reconnect, may_reconnect};
use super::waits::{not_sent, not_waiting};
use super::{
    Bound, Call, CallFuture, MISSING, NodeRoute, Send, SendFuture, Split, To, TryCall, Whole,
};
use crate::error::CallError;
use crate::session::SendError;
use crate::wire::{Built, Content, Output, Plain, Wire};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use upbeat_core::limits::MESSAGE_BYTES_MAX;
use upbeat_core::method::TOLERANT;
use zerocopy::IntoBytes;

/// A future that waits for a buffer in which a message is built in place. Its output is a [`Loan`].
///
/// `A` is the arguments before the items, `T` is the type of an item, `K` is the kind of the method's result.
#[must_use = "nothing is loaned until it is awaited"]
#[doc(hidden)]
pub struct Loaning<'c, A, T, K> {
    bound: &'c Bound,
    to: To,
    /// The arguments before the items.
    before: A,
    items: usize,
    rare: NodeRare,
    kind: PhantomData<fn() -> (T, K)>,
}

// The arguments are written by reference: nothing in the future is pinned.
impl<A, T, K> Unpin for Loaning<'_, A, T, K> {}

impl<'c, A: Content, T: Plain, K> Loaning<'c, A, T, K> {
    pub(super) fn new(bound: &'c Bound, to: To, before: A, items: usize) -> Self {
        Loaning { bound, to, before, items, rare: NodeRare::default(), kind: PhantomData }
    }

    /// Returns the message up to its items, and the bytes of the whole message.
    fn beginning(&self) -> Result<(Vec<u8>, usize), CallError> {
        let is_tolerant = self.to.number & TOLERANT != 0;
        let mut out = Output::own(MESSAGE_BYTES_MAX).tolerating(is_tolerant);
        let written = self.before.put(&mut out).and_then(|()| {
            out.align();
            Wire::put(&(self.items as u64), &mut out)
        });
        written.map_err(|error| CallError::value(&error))?;
        let begin = out.len();
        let bytes = self.items.saturating_mul(size_of::<T>()).saturating_add(begin);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(CallError::too_large(bytes));
        }
        let text = "the allocator has none";
        let beginning = out.into_bytes();
        let beginning = beginning.ok_or(CallError::NoMemory { bytes: begin, text: text.into() })?;
        Ok((beginning, bytes))
    }
}

impl<'c, A: Content, T: Plain, K> Future for Loaning<'c, A, T, K> {
    type Output = Result<Loan<'c, T, K>, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const { assert!(!A::STREAMS, "a message that is built in place carries no streams") };
        let polled = self.poll_loan(context);
        polled.map_err(|error| {
            let method = self.to.method;
            error.at(|| NodeRoute(self.bound).callee(Some(&self.rare), method))
        })
    }
}

impl<'c, A: Content, T: Plain, K> Loaning<'c, A, T, K> {
    fn poll_loan(&mut self, context: &mut Context<'_>) -> Poll<Result<Loan<'c, T, K>, CallError>> {
        let client = NodeRoute(self.bound);
        loop {
            let Loaning { to, rare, .. } = self;
            if rare.reconnect.as_ref().is_some_and(Reconnect::waits) {
                to.number = ready!(client.poll_reconnect(rare, to.method, context))?;
            }
            if to.number == MISSING {
                let moved = rare.reconnect.as_ref().and_then(Reconnect::moved);
                return Poll::Ready(Err(moved.unwrap_or(client.0).unbound(to.method)));
            }
            // The number says in which form the session takes the arguments, and each session has its own.
            let (beginning, bytes) = self.beginning()?;
            let Loaning { to, rare, items, .. } = self;
            let NodeRare { waits, reconnect, .. } = rare;
            let bound = reconnect.as_ref().and_then(Reconnect::moved).unwrap_or(client.0);
            match bound.session.reserve(bytes) {
                Ok(reserved) => {
                    let mut built = Built::new(reserved, bytes);
                    built.write(0, &beginning);
                    let NodeRare { reconnect, .. } = std::mem::take(rare);
                    let (bound, to, items, begin) = (client.0, *to, *items, beginning.len());
                    let kind = PhantomData;
                    let loan = Loan { bound, reconnect, to, built, begin, items, at: 0, kind };
                    return Poll::Ready(Ok(loan));
                }
                Err(put @ SendError::Ended(_)) => {
                    let error = not_waiting(&bound.node, &bound.session, put);
                    if waits.is_any() || !may_reconnect(client.0) {
                        return Poll::Ready(Err(error));
                    }
                    to.number = ready!(client.poll_reconnect(rare, to.method, context))?;
                }
                Err(put) => {
                    not_sent(bound, put, waits, context)?;
                    bound.node.awaits_room();
                    return Poll::Pending;
                }
            }
        }
    }
}

/// A message that is built in place: items are written where their reader finds them, with no copy in between.
///
/// A client has a `loan_…` method beside each method whose last argument is an [`InPlace`](crate::InPlace):
/// `loan_put` beside `put`. A method with another argument by reference has none, nor has a method under
/// `#[method(nack)]`, nor a handle. Until a loan is sent or dropped, it holds one of the session's buffers, which
/// messages of about its length cannot use meanwhile. While a loan is awaited, later messages of its session wait
/// behind it, as they do behind a message that waits for room. Items that are not written have the bytes of earlier
/// messages to the same node, or zeros.
///
/// ```
/// use upbeat::InPlace;
///
/// #[upbeat::service]
/// pub trait Store {
///     async fn put(&self, key: u64, page: InPlace<u8>) -> u64;
/// }
///
/// async fn write(store: &StoreClient, rows: &[[u8; 512]]) -> Result<u64, upbeat::CallError> {
///     let mut page = store.loan_put(7, rows.len() * 512).await?;
///     for (at, row) in rows.iter().enumerate() {
///         page.write_at(at * 512, row);
///     }
///     page.send().await
/// }
/// ```
#[must_use = "a loan that is dropped sends nothing"]
pub struct Loan<'c, T, K> {
    bound: &'c Bound,
    /// The session in whose buffer the message is built, if the client has lost its own.
    reconnect: Option<Reconnect>,
    to: To,
    built: Built,
    /// The byte of the message at which the items begin.
    begin: usize,
    items: usize,
    /// The item that [`io::Write`] writes next.
    at: usize,
    kind: PhantomData<fn() -> (T, K)>,
}

impl<T: Plain, K> Loan<'_, T, K> {
    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items
    }

    /// Returns whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Writes items, beginning at item `first`.
    ///
    /// # Panics
    /// When the loan ends before them.
    pub fn write_at(&mut self, first: usize, items: &[T]) {
        assert!(
            first <= self.items && items.len() <= self.items - first,
            "items {first}..+{} of a loan of {}",
            items.len(),
            self.items
        );
        self.built.write(self.begin + first * size_of::<T>(), items.as_bytes());
    }
}

impl<'c, T, R: Wire> Loan<'c, T, Whole<R>> {
    /// Sends the message as a call of the method.
    pub fn send(self) -> Call<'c, Built, R> {
        let call = CallFuture::new(NodeRoute(self.bound), self.to, self.built, Whole::default());
        call.over(self.reconnect)
    }
}

impl<'c, T, V: Wire, E: Wire> Loan<'c, T, Split<V, E>> {
    /// Sends the message as a call of the method.
    pub fn send(self) -> TryCall<'c, Built, V, E> {
        let call = CallFuture::new(NodeRoute(self.bound), self.to, self.built, Split::default());
        call.over(self.reconnect)
    }
}

impl<'c, T> Loan<'c, T, ()> {
    /// Sends the message as the one-way method does.
    pub fn send(self) -> Send<'c, Built> {
        SendFuture::new(NodeRoute(self.bound), self.to, self.built).over(self.reconnect)
    }
}

/// Writes bytes one after another, from the first item on. A full loan accepts none.
impl<K> io::Write for Loan<'_, u8, K> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.items - self.at);
        self.write_at(self.at, &bytes[..taken]);
        self.at += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
