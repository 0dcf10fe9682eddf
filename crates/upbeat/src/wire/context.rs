//! The message that a value is written into or read from, for values with attachments.
//!
//! A plain value needs nothing but its bytes. A stream has to know its session and its call: code that writes or
//! reads a message whose type may have attachments gives a [`MessageContext`] to its
//! [`Output`](super::Output) or [`Input`](super::Input). For every other type there is no such context, which the
//! compiler knows, so that other messages pay nothing for it.

use super::{Carried, Content, Output, WireError};
use std::any::Any;
use std::rc::Rc;
use upbeat_core::frame::CallNumber;

/// The side of a call that writes or reads a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallSide {
    Caller,
    Callee,
}

/// The session and the call of a message.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct MessageContext<'a> {
    pub(crate) side: CallSide,
    /// The call, once it has a number.
    pub(crate) call: CallNumber,
    /// The session of a node or a handle, whose types are on higher floors.
    pub(crate) session: &'a dyn Any,
}

impl<'a> MessageContext<'a> {
    /// Returns the context of a message that this session's caller writes or reads.
    pub(crate) fn caller(session: &'a dyn Any, call: CallNumber) -> MessageContext<'a> {
        MessageContext { side: CallSide::Caller, call, session }
    }

    /// Returns the context of a message that this session's callee reads or writes.
    pub(crate) fn callee(session: &'a dyn Any, call: CallNumber) -> MessageContext<'a> {
        MessageContext { side: CallSide::Callee, call, session }
    }
}

/// A payload whose attachments are opened in this context when it is written.
pub(crate) struct Attaching<'a, C> {
    pub(crate) content: &'a C,
    pub(crate) context: MessageContext<'a>,
}

impl<C: Content> Content for Attaching<'_, C> {
    const IN_PLACE: bool = C::IN_PLACE;
    const STREAMS: bool = C::STREAMS;
    const TOLERANT: bool = C::TOLERANT;
    const OPERATION: bool = C::OPERATION;
    const EXACT: Option<usize> = C::EXACT;

    fn bytes_likely(&self) -> usize {
        self.content.bytes_likely()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.content.put(out)
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        self.content.streams(show);
    }

    fn context(&self) -> Option<&MessageContext<'_>> {
        Some(&self.context)
    }
}
