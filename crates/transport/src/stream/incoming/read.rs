//! The outcome of one read of the pipe.

/// What reading has brought.
pub(super) enum Read {
    Nothing,
    End,
    Came {
        /// Whether all room was filled, and there may be more.
        all: bool,
    },
}
