//! The reasons why a message was not sent.
//!
//! Invariant: after such an error nothing was sent, and the message may be sent again.

use super::{Fault, broken};
use crate::error::{CallError, Lost};
use crate::wire::WireError;
use std::fmt::Display;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

/// The reason why a message was not sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// There is no room now.
    Full,
    /// The sender must first ask for room for this many bytes.
    Ask(usize),
    /// The session has the most open calls that it may have.
    Numbers,
    /// The value cannot be encoded.
    Value(Box<WireError>),
    /// The message is longer than messages may be, with this many bytes.
    TooLarge(usize),
    /// There is no memory for the message.
    Memory(Box<NoMemory>),
    /// The session has ended, or ends with this fault.
    Ended(Fault),
}

impl SendError {
    /// Returns the error of an allocation of so many bytes that has failed for this reason.
    pub(super) fn no_memory(bytes: usize, why: impl Display) -> SendError {
        SendError::Memory(Box::new(NoMemory { bytes, text: why.to_string().into() }))
    }
}

/// The size of an allocation that failed, and the reason.
#[derive(Debug)]
pub(crate) struct NoMemory {
    pub(super) bytes: usize,
    /// The system's error, or the allocator that had no memory.
    pub(super) text: Box<str>,
}

// Every message is written with this result, which must fit registers.
const _: () = assert!(size_of::<Result<(), SendError>>() <= 16);

impl SendError {
    /// Returns the error of a message that does not wait for room; `end` ends the session.
    #[cold]
    pub(crate) fn into_error(self, end: impl FnOnce(Fault) -> Lost) -> CallError {
        match self {
            SendError::Full | SendError::Ask(_) => CallError::Full,
            SendError::Numbers => CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX },
            SendError::Value(error) => CallError::value(&error),
            SendError::TooLarge(bytes) => CallError::too_large(bytes),
            SendError::Memory(none) => CallError::NoMemory { bytes: none.bytes, text: none.text },
            SendError::Ended(why) => CallError::at_loss(false, end(why)),
        }
    }
}

#[cold]
pub(super) fn bad_value(error: WireError) -> SendError {
    SendError::Value(Box::new(error))
}

#[cold]
pub(super) fn bad_length(said: usize, is: usize) -> SendError {
    let text = format!(
        "the value took {said} bytes when its length was computed, and {is} bytes when it was written"
    );
    bad_value(WireError::Serde { text })
}

#[cold]
pub(super) fn lost_progress(now: u64, known: u64, out: u64) -> SendError {
    SendError::Ended(broken(&format_args!(
        "its progress went from {known} to {now} of {out} slots"
    )))
}
