//! What is known of a message while it is written or read in which streams may stand.
//!
//! A value's form knows nothing of sessions, and a stream has to know its own. So who writes or reads
//! a message whose type has streams in it says here whose it is; for all others nothing is said, and
//! it costs nothing. Invariant: what is open here is open for the length of one message.

use crate::dispatch::Dispatcher;
use crate::session::Session;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::frame::CallNumber;

/// Which side of a call writes or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Caller,
    Callee,
}

/// What carries the message.
#[derive(Clone)]
pub(crate) enum Carrier {
    Node(Rc<Dispatcher>, Rc<Session>),
    /// The session of a handle, whose type stands on a higher floor.
    Handle(Arc<dyn Any + Send + Sync>),
}

/// A message that is written or read.
#[derive(Clone)]
pub(crate) struct Passage {
    pub(crate) side: Side,
    pub(crate) carrier: Carrier,
    /// The call, once it has a number.
    pub(crate) call: CallNumber,
}

thread_local! {
    static OPEN: RefCell<Option<Passage>> = const { RefCell::new(None) };
}

/// Writes or reads a message.
pub(crate) fn within<R>(passage: Passage, act: impl FnOnce() -> R) -> R {
    struct Close(Option<Passage>);

    impl Drop for Close {
        fn drop(&mut self) {
            let outer = self.0.take();
            let inner = OPEN.with(|open| std::mem::replace(&mut *open.borrow_mut(), outer));
            drop(inner);
        }
    }

    let outer = OPEN.with(|open| open.borrow_mut().replace(passage));
    let _close = Close(outer);
    act()
}

/// The same at the callee, if streams may stand in the message.
#[inline(always)]
pub(crate) fn at_callee<R>(
    streams: bool,
    (node, session, call): (&Rc<Dispatcher>, &Rc<Session>, CallNumber),
    act: impl FnOnce() -> R,
) -> R {
    if !streams {
        return act();
    }
    let carrier = Carrier::Node(Rc::clone(node), Rc::clone(session));
    within(Passage { side: Side::Callee, carrier, call }, act)
}

/// The message that is written or read.
pub(crate) fn open() -> Option<Passage> {
    OPEN.with(|open| open.borrow().clone())
}

/// Whether one is.
pub(crate) fn is_open() -> bool {
    OPEN.with(|open| open.borrow().is_some())
}
