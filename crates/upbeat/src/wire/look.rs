//! Tells generated code whether a type may contain streams, even if the type does not travel, and whether serde can
//! carry the type in a message.

use super::Wire;
use std::marker::PhantomData;

/// A type that may or may not travel.
pub struct Look<T>(PhantomData<T>);

impl<T: Wire> Look<T> {
    /// Whether the type may contain streams.
    pub const STREAMS: bool = T::STREAMS;
}

/// The answer for a type that does not travel. The compiler reports that elsewhere.
pub trait NoStreams {
    /// The type contains no streams.
    const STREAMS: bool = false;

    /// The type is not known to describe itself. For a type that does, an inherent constant precedes this one, and its
    /// evaluation fails with an error.
    const HAS_FIXED_FORM: () = ();
}

impl<T> NoStreams for Look<T> {}
