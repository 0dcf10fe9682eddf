//! The deadline and the context that a caller gives a call, besides its arguments.

use super::Until;
use upbeat_core::context::Context;

/// The deadline and the context that a caller gives a call, besides its arguments.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    pub(crate) until: Option<Until>,
    pub(crate) context: Option<&'a Context>,
}
