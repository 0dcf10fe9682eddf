//! The channels of a session: what two nodes can hold open between them, and the frames of each.
//!
//! A session carries frames, and a channel gives them a meaning. Each channel is one file here, which decides
//! without I/O: its states, the effect of its frames, and what happens to it when the peer withdraws something or
//! is lost. The runtime has one directory for each channel, with the types and futures that a user meets.
//!
//! A call has frames of its own kinds, because it is the common path. All other channels use two kinds:
//!
//! | kind | answered | meaning |
//! |---|---|---|
//! | [`Kind::Operation`](crate::frame::Kind::Operation) | by one reply or failure | a request, in order with calls |
//! | [`Kind::Control`](crate::frame::Kind::Control) | never | a control message, which is never refused |
//!
//! Operations are under the flow control of requests. Both kinds have a code in the place of a method's number. The
//! upper byte of the code is the channel. Invariant: every code is an operation or a control message of exactly one
//! channel, or nothing.

pub mod call;
pub mod export;
pub mod stream;

/// A request of a channel, which is answered as a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A request of a stream.
    Stream(stream::Operation),
}

/// A message of a channel that the receiver does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// A message of a stream. The frame's index is the stream's number.
    Stream(stream::Control),
}

/// The numbers of the channels with operations and control messages, as in their codes.
const STREAM: u16 = 1;

const CHANNEL_SHIFT: u32 = 8;

const fn code(channel: u16, what: u8) -> u16 {
    channel << CHANNEL_SHIFT | what as u16
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 2] =
        [Operation::Stream(stream::Operation::Pull), Operation::Stream(stream::Operation::Push)];

    /// Returns the operation's code, which takes the place of a method's number.
    #[inline]
    pub const fn code(self) -> u16 {
        match self {
            Operation::Stream(operation) => code(STREAM, operation as u8),
        }
    }

    /// Returns the operation with this code, if there is one.
    pub fn from_code(code: u16) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.code() == code)
    }

    /// Returns the operation in words.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Stream(operation) => operation.name(),
        }
    }
}

impl Control {
    /// All control messages.
    pub const ALL: [Control; 2] =
        [Control::Stream(stream::Control::Stop), Control::Stream(stream::Control::Abandon)];

    /// Returns the control message's code, which takes the place of a method's number.
    #[inline]
    pub const fn code(self) -> u16 {
        match self {
            Control::Stream(control) => code(STREAM, control as u8),
        }
    }

    /// Returns the control message with this code, if there is one.
    pub fn from_code(code: u16) -> Option<Control> {
        Control::ALL.into_iter().find(|control| control.code() == code)
    }
}

#[cfg(test)]
mod tests;
