//! Calls: the futures that a client's methods return.
//!
//! Nothing happens before the first poll, which writes the request into the lane. If the call is dropped before
//! its reply, it is cancelled at the callee. Where the lane is full, the call waits for room.

mod until;

mod given;

mod take;

mod open;

mod reconnect;

mod waits;

mod again;

mod node;

mod terms;

mod moved;

mod future;

mod oneway;

mod options;

mod loan;

pub use future::CallFuture;
pub(crate) use given::Given;
pub use loan::{Loan, Loaning};
pub use node::NodeRoute;
pub use oneway::SendFuture;
pub(crate) use open::{Open, Reads, Route, State, To};
pub use options::CallOptions;
pub(crate) use reconnect::{Connecting, Reconnector};
pub(crate) use take::By;
pub use take::{Fill, Split, Take, TryFill, Whole};
pub(crate) use until::Until;

use crate::dispatch::Dispatcher;
use crate::error::{CallError, Called, Clash};
use crate::session::Session;
use crate::wire::{Content, Plain, Wire};
use std::rc::Rc;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_memory::local::Local;

/// The number of a method that the callee does not have, or has with another signature.
pub(crate) const MISSING: u16 = u16::MAX;

/// A client's way to its callee: a session, and the numbers that the methods have there.
#[derive(Clone)]
#[doc(hidden)]
pub struct Bound {
    pub(crate) node: Local<Rc<Dispatcher>>,
    pub(crate) session: Local<Rc<Session>>,
    pub(crate) service: &'static str,
    pub(crate) numbers: Local<Rc<[u16]>>,
    /// The methods that the callee has with other signatures.
    pub(crate) clashes: Local<Rc<[Clash]>>,
    /// How calls go on when the session is lost. None if they do not.
    pub(crate) reconnector: Local<Option<Rc<Reconnector>>>,
}

/// A call of a method that returns `R`.
pub type Call<'c, A, R> = CallFuture<NodeRoute<&'c Bound>, A, Whole<R>>;

/// A call of a method that returns the user's own `Result<T, E>`.
pub type TryCall<'c, A, T, E> = CallFuture<NodeRoute<&'c Bound>, A, Split<T, E>>;

/// A one-way message on its way into the lane.
pub type Send<'c, A> = SendFuture<NodeRoute<&'c Bound>, A>;

impl Bound {
    /// Calls the method at `index` in the service.
    #[inline(always)]
    pub fn call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Call<'_, A, R> {
        CallFuture::new(NodeRoute(self), self.to(index, method), arguments, Whole::default())
    }

    /// Calls a method that returns the user's own `Result`.
    #[inline(always)]
    pub fn try_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> TryCall<'_, A, T, E> {
        CallFuture::new(NodeRoute(self), self.to(index, method), arguments, Split::default())
    }

    /// Calls a method that may send the call back. The caller then sends it again.
    pub fn nack_call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Call<'_, A, R> {
        const { assert!(!A::STREAMS, "a method under `nack` has no streams in its arguments") };
        self.call(index, method, arguments).refusable()
    }

    /// Calls a method that may send the call back, and that returns the user's own `Result`.
    pub fn try_nack_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> TryCall<'_, A, T, E> {
        const { assert!(!A::STREAMS, "a method under `nack` has no streams in its arguments") };
        self.try_call(index, method, arguments).refusable()
    }

    /// Sends a one-way message.
    #[inline(always)]
    pub fn send<A: Content>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Send<'_, A> {
        const { assert!(!A::STREAMS, "nobody goes on with the streams of a one-way message") };
        SendFuture::new(NodeRoute(self), self.to(index, method), arguments)
    }

    /// Loans a buffer for a message whose last argument is `items` items of plain data.
    pub fn loan<A: Content, T: Plain, K>(
        &self,
        index: usize,
        method: &'static str,
        before: A,
        items: usize,
    ) -> Loaning<'_, A, T, K> {
        Loaning::new(self, self.to(index, method), before, items)
    }

    /// Returns the error of a call whose method has no number.
    #[cold]
    pub(crate) fn unbound(&self, method: &'static str) -> CallError {
        unbound(&self.clashes, method)
    }

    #[inline(always)]
    fn to(&self, index: usize, method: &'static str) -> To {
        To { number: self.numbers.get(index).copied().unwrap_or(MISSING), method }
    }
}

/// Returns the error of a call whose method has no number, where these methods clash.
#[cold]
pub(crate) fn unbound(clashes: &[Clash], method: &'static str) -> CallError {
    match clashes.iter().find(|clash| clash.method() == method) {
        Some(clash) => CallError::Clash(Box::new(clash.clone())),
        None => CallError::NoSuchMethod { method, called: Called::default() },
    }
}

/// Returns the head of a request: a call, or an operation of another channel, depending on the arguments.
#[inline(always)]
pub(crate) fn request_head<A: Content>(number: u16, call: CallNumber) -> Head {
    match A::OPERATION {
        false => Head::call(number, call, 0),
        true => Head::operation(number, call, 0),
    }
}
