//! What a caller writes into a message: a value, or arguments of which some are references.

use super::{Built, Carried, MessageContext, Output, Wire, WireError};
use std::rc::Rc;

/// A payload that can be written: every [`Wire`] value, and arguments that a caller passes by
/// reference.
#[doc(hidden)]
pub trait Content {
    /// Whether its receiver wants to read it where it lies.
    const IN_PLACE: bool = false;

    /// Whether streams may stand in it.
    const STREAMS: bool = false;

    /// Whether it is the payload of an operation of a channel other than calls, and no method's arguments.
    const OPERATION: bool = false;

    /// Bytes that it takes, if its type says so.
    const EXACT: Option<usize> = None;

    /// Bytes that it will likely take.
    fn bytes_likely(&self) -> usize;

    /// Writes it.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Shows the streams that stand in it.
    fn streams(&self, _show: &mut dyn FnMut(&Rc<dyn Carried>)) {}

    /// Returns the content as one that was built in place, if it was.
    fn built(&self) -> Option<&Built> {
        None
    }

    /// The context in which its attachments are opened, if it may have any.
    #[inline(always)]
    fn context(&self) -> Option<&MessageContext<'_>> {
        None
    }
}

/// A payload as it is written, whatever its type is.
pub(crate) trait Payload {
    fn bytes_likely(&self) -> usize;

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Returns the payload as one that was built in place, if it was.
    fn built(&self) -> Option<&Built>;

    fn context(&self) -> Option<&MessageContext<'_>>;
}

impl<T: Content> Payload for T {
    #[inline(always)]
    fn bytes_likely(&self) -> usize {
        Content::bytes_likely(self)
    }

    #[inline(always)]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Content::put(self, out)
    }

    fn built(&self) -> Option<&Built> {
        Content::built(self)
    }

    #[inline(always)]
    fn context(&self) -> Option<&MessageContext<'_>> {
        Content::context(self)
    }
}

/// A payload of any type. Code that takes it is compiled once, and not again for each type of a program.
#[derive(Clone, Copy)]
pub(crate) struct AnyContent<'a> {
    pub(crate) payload: &'a dyn Payload,
    /// Whether its receiver wants to read it where it lies.
    pub(crate) in_place: bool,
}

impl<'a> AnyContent<'a> {
    #[inline(always)]
    pub(crate) fn of<T: Content>(content: &'a T) -> AnyContent<'a> {
        AnyContent { payload: content, in_place: T::IN_PLACE }
    }
}

impl<T: Wire> Content for T {
    const IN_PLACE: bool = T::IN_PLACE;
    const STREAMS: bool = T::STREAMS;
    const EXACT: Option<usize> = T::EXACT;

    #[inline(always)]
    fn bytes_likely(&self) -> usize {
        Wire::bytes_likely(self)
    }

    #[inline(always)]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(self, out)
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        Wire::streams(self, show);
    }
}
