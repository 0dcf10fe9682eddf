//! Services whose handlers ask who calls.
//!
//! Invariant: during each poll of a handler of such a service, and at no other time, [`Caller::current`] is the caller of
//! that handler.

use super::rules::Rule;
use super::{From, Methods, Serve, Wraps};
use crate::dispatch::Dispatcher;
use crate::session::Session;
use crate::wire::{Incoming, Wire};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use upbeat_core::name::NodeName;

thread_local! {
    static CURRENT: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// The other side of the session over which a call has come.
#[derive(Clone)]
pub(crate) struct Caller {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
}

impl Caller {
    /// Returns the caller of the handler that is being polled, if its service is served [`WithCaller`].
    pub(crate) fn current() -> Option<Caller> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the name that the caller says it has. A handle has none.
    pub(crate) fn name(&self) -> Option<&NodeName> {
        self.session.carrier.peer.name.as_ref()
    }

    /// Returns whether the caller may map segments of this process.
    pub(crate) fn shares_memory(&self) -> bool {
        self.session.carrier.caps().shares_memory
    }

    /// Returns whether the caller has that name for sure.
    pub(crate) fn is_proved(&self) -> bool {
        self.node.has_proved(&self.session)
    }
}

/// Makes a caller the current one, until it is dropped.
struct Current(Option<Caller>);

impl Current {
    fn new(caller: &Caller) -> Current {
        Current(CURRENT.replace(Some(caller.clone())))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let before = self.0.take();
        drop(CURRENT.replace(before));
    }
}

/// A service whose handlers may ask for the current [`Caller`].
pub(crate) struct WithCaller<S>(pub(crate) S);

impl<S: Serve> Serve for WithCaller<S> {
    const SERVICE: &'static str = S::SERVICE;

    /// Replaces `W`: the runtime's own services have no layers.
    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
        let Methods { service, enter, node, execution, statistics, .. } = methods;
        let (enter, execution): (&mut dyn FnMut(_), _) = (&mut **enter, *execution);
        self.0.methods(&mut Methods { service, enter, node, execution, statistics, wraps: Asking });
    }
}

/// Enters methods whose handlers may ask for their caller.
struct Asking;

impl Wraps for Asking {
    fn enter<A, R, F, const ONEWAY: bool>(
        methods: &mut Methods<'_, Asking>,
        name: &'static str,
        rule: Rule,
        make: impl Fn(A) -> F + 'static,
    ) where
        A: Incoming,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        let make = move |from: From<'_>, arguments: A| {
            let (node, session) = (Rc::clone(from.node), Rc::clone(from.session));
            let (caller, handler) = (Caller { node, session }, make(arguments));
            async move {
                let mut handler = pin!(handler);
                poll_fn(|context| {
                    let _current = Current::new(&caller);
                    handler.as_mut().poll(context)
                })
                .await
            }
        };
        methods.enter_as::<A, R, _, _, ONEWAY>(name, rule, make);
    }
}
