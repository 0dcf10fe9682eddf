//! Why a message was not sent.
//!
//! Invariant: who is told this has sent nothing, and its message may be sent again.

use super::{Fault, broken};
use crate::error::{CallError, Lost};
use crate::wire::WireError;
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, MESSAGE_BYTES_MAX};

/// Why a message was not sent.
#[derive(Debug)]
pub(crate) enum Put {
    /// There is no room now.
    Full,
    /// It may not go before room was asked for, for so many bytes.
    Ask(usize),
    /// As many calls are open as may be.
    Numbers,
    /// The value cannot be carried.
    Value(Box<WireError>),
    /// It is longer than messages may be.
    TooLarge(usize),
    /// There is no memory for it.
    Memory(Box<NoMemory>),
    /// The session has ended, or ends with this.
    Ended(Fault),
}

/// What there was no memory for.
#[derive(Debug)]
pub(crate) struct NoMemory {
    pub(super) bytes: usize,
    /// The system's error, or which allocator had no memory.
    pub(super) text: Box<str>,
}

// It is what each message is written with, and goes in registers.
const _: () = assert!(size_of::<Result<(), Put>>() <= 16);

impl Put {
    /// The error of a message that does not wait; `end` ends the session.
    #[cold]
    pub(crate) fn into_error(self, end: impl FnOnce(Fault) -> Lost) -> CallError {
        match self {
            Put::Full | Put::Ask(_) => CallError::Full,
            Put::Numbers => CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX },
            Put::Value(error) => CallError::Value { text: error.to_string().into() },
            Put::TooLarge(bytes) => CallError::TooLarge { bytes, most: MESSAGE_BYTES_MAX },
            Put::Memory(none) => CallError::NoMemory { bytes: none.bytes, text: none.text },
            Put::Ended(why) => CallError::at_loss(false, end(why)),
        }
    }
}

#[cold]
pub(super) fn bad_value(error: WireError) -> Put {
    Put::Value(Box::new(error))
}

#[cold]
pub(super) fn bad_length(said: usize, is: usize) -> Put {
    let text = format!("it took {said} bytes when it was counted and {is} when it was written");
    bad_value(WireError::Serde { text })
}

#[cold]
pub(super) fn lost_progress(now: u64, known: u64, out: u64) -> Put {
    Put::Ended(broken(&format_args!("its progress went from {known} to {now} of {out} slots")))
}
