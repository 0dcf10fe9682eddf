//! Whether streams stand in a type, asked by generated code that does not know whether it travels.

use super::Wire;
use std::marker::PhantomData;

/// A type that is looked at.
pub struct Look<T>(PhantomData<T>);

impl<T: Wire> Look<T> {
    /// Whether streams may stand in it.
    pub const STREAMS: bool = T::STREAMS;
}

/// What holds of one that does not travel, of which the compiler tells elsewhere.
pub trait NoStreams {
    /// There are none.
    const STREAMS: bool = false;
}

impl<T> NoStreams for Look<T> {}
