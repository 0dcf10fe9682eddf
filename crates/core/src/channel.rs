//! The channels of a session: what the two nodes can hold open between them, and by which frames they speak of it.
//!
//! A session carries frames; a channel gives them a meaning. Each channel is one file here, which decides without
//! any I/O: its states, what its frames do to them, and what becomes of them when the peer takes something back or
//! is lost. The runtime has one directory for each, with the types and futures that a user meets.
//!
//! A call has frames of its own kinds, because it is the common path. Every other channel speaks by two kinds:
//!
//! | kind | answered | what it is |
//! |---|---|---|
//! | [`Kind::Operation`](crate::frame::Kind::Operation) | by one reply or failure | a request, in order with calls and under the same flow control |
//! | [`Kind::Control`](crate::frame::Kind::Control) | never | control, which is never refused |
//!
//! Both name their channel and what is to be done in a code, in the place of a method's number: the channel in its
//! upper byte. The invariant: every code is an operation or a control of exactly one channel, or nothing.

pub mod call;
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

/// The channels that speak by operations and control, as a code names them.
const STREAM: u16 = 1;

const CHANNEL_SHIFT: u32 = 8;

const fn code(channel: u16, what: u8) -> u16 {
    channel << CHANNEL_SHIFT | what as u16
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 2] =
        [Operation::Stream(stream::Operation::Pull), Operation::Stream(stream::Operation::Push)];

    /// The code of the operation, which stands in the place of a method's number.
    #[inline]
    pub const fn code(self) -> u16 {
        match self {
            Operation::Stream(operation) => code(STREAM, operation as u8),
        }
    }

    /// The operation of a code, if there is one.
    pub fn from_code(code: u16) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.code() == code)
    }

    /// The operation in words.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Stream(operation) => operation.name(),
        }
    }
}

impl Control {
    /// Every control.
    pub const ALL: [Control; 2] =
        [Control::Stream(stream::Control::Stop), Control::Stream(stream::Control::Abandon)];

    /// The code of the control, which stands in the place of a method's number.
    #[inline]
    pub const fn code(self) -> u16 {
        match self {
            Control::Stream(control) => code(STREAM, control as u8),
        }
    }

    /// The control of a code, if there is one.
    pub fn from_code(code: u16) -> Option<Control> {
        Control::ALL.into_iter().find(|control| control.code() == code)
    }
}

#[cfg(test)]
mod tests;
