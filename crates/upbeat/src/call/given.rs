//! What a caller gives a call beside its arguments.

use super::Until;
use upbeat_core::context::Context;

/// What a caller gives a call beside its arguments.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    pub(crate) until: Option<Until>,
    pub(crate) context: Option<&'a Context>,
}
