//! The content that a caller writes into a message: a value, or arguments of which some are references.

use super::{Built, Carried, MessageContext, Output, Wire, WireError};
use std::rc::Rc;

/// A payload that can be written: every [`Wire`] value, and arguments that a caller passes by
/// reference.
#[doc(hidden)]
pub trait Content {
    /// Whether the receiver wants to read the content in place.
    const IN_PLACE: bool = false;

    /// Whether the content may contain streams.
    const STREAMS: bool = false;

    /// Whether the content may contain a struct that has gained or lost fields on the other side.
    const TOLERANT: bool = false;

    /// Whether the content is the payload of an operation of a channel other than calls.
    const OPERATION: bool = false;

    /// The bytes of the content, if its type tells them.
    const EXACT: Option<usize> = None;

    /// Returns an estimate of the content's bytes.
    fn bytes_likely(&self) -> usize;

    /// Writes the content.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Passes the streams in the content to `_show`.
    fn streams(&self, _show: &mut dyn FnMut(&Rc<dyn Carried>)) {}

    /// Returns the content as one that was built in place, if it was.
    fn built(&self) -> Option<&Built> {
        None
    }

    /// Returns the context in which attachments are opened, if the content may have any.
    #[inline(always)]
    fn context(&self) -> Option<&MessageContext<'_>> {
        None
    }
}

/// A payload of any type, as it is written.
pub(crate) trait Payload {
    fn bytes_likely(&self) -> usize;

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Returns the payload as one that was built in place, if it was.
    fn built(&self) -> Option<&Built>;

    fn context(&self) -> Option<&MessageContext<'_>>;

    /// Returns whether the payload may contain a struct that has gained or lost fields on the other side.
    fn is_tolerant(&self) -> bool;
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

    #[inline(always)]
    fn is_tolerant(&self) -> bool {
        T::TOLERANT
    }
}

/// A payload of any type. Code that takes it is compiled once, and not for each type of a program.
#[derive(Clone, Copy)]
pub(crate) struct AnyContent<'a> {
    pub(crate) payload: &'a dyn Payload,
    /// Whether the receiver wants to read the payload in place.
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
    const TOLERANT: bool = T::TOLERANT;
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
