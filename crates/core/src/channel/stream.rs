//! Streams: items that go one after another from a writer to a reader, over one session.
//!
//! A stream is part of the result of a call or of its arguments, where it is a number. The callee has the table of
//! a session's streams ([`Streams`]), and the caller drives each stream. The callee writes a result, whose reader,
//! the caller, [pulls](Operation::Pull) one batch of items at a time. The caller writes an argument and
//! [pushes](Operation::Push) batches to the callee; the reply to a push is the credit for the next. At most one
//! operation of a stream is therefore under way, and order, deadlines and room for a batch are those of requests.
//!
//! | | at the caller | at the callee |
//! |---|---|---|
//! | a result | reads: [`ResultReader`] | writes: [`ResultWriter`] |
//! | an argument | writes: [`ArgumentWriter`] | reads: [`ArgumentReader`] |
//!
//! | what happens | a result's writer (callee) | an argument's reader (callee) |
//! |---|---|---|
//! | the last batch went or came | ends | reads to the end |
//! | [`Control::Stop`], or the cancel of the call that opened it | is dropped | - |
//! | [`Control::Abandon`] | - | reads an error |
//! | the session is lost, or either node ends | is dropped | reads an error |
//!
//! Items, wakers and futures belong to the runtime. Invariant: a number means one stream of one session, and
//! nothing after the stream's end. A writer is never further ahead than the batches that these states admit.

mod batch;
mod argument_reader;
mod result_reader;
mod result_writer;
mod argument_writer;

pub use argument_reader::{ArgumentReader, NoCredit, Wanted};
pub use argument_writer::ArgumentWriter;
pub use batch::{BatchSize, BatchTail};
pub use result_reader::{BATCHES_AHEAD, ResultReader};
pub use result_writer::{AskedAlready, ResultWriter};

use crate::frame::CallNumber;
use crate::limits::STREAMS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::fmt;

/// A request of one end of a stream, which the other end answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Asks for the next items of a result. The reply comes when there are some.
    Pull = 1,
    /// Brings the next items of an argument. The reply comes when there is room for more.
    Push = 2,
}

impl Operation {
    /// Returns the operation in words.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Pull => "pull",
            Operation::Push => "push",
        }
    }
}

/// A message of one end of a stream that the other end does not answer. Its codes follow those of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Control {
    /// The reader of a result wants no more items.
    Stop = 3,
    /// The writer of an argument gives it up before its end.
    Abandon = 4,
}

/// The caller's end of a stream.
pub trait CallerEnd {
    /// Handles the drop of this end. Returns the message to the callee, unless the callee knows that the stream
    /// has ended.
    fn leave(&mut self) -> Option<Control>;
}

/// The reason why a stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session has as many open streams as it may have.
    TooMany,
    /// Another stream in the arguments of an open call has the number.
    Taken,
}

impl Refusal {
    /// Returns the refusal in words.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::TooMany => {
                "256 of this session are open, as many as may be: read some to their ends, or drop them"
            }
            Refusal::Taken => "its number is another's",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refusal {}

#[derive(Debug)]
struct Open<E> {
    number: u32,
    /// The call in whose result or arguments the stream is.
    call: CallNumber,
    end: E,
}

/// The streams of a session that are open at the callee: its writing ends of results (`W`), and its reading ends
/// of arguments (`R`).
///
/// ```
/// use upbeat_core::channel::stream::{Control, Streams};
/// use upbeat_core::frame::CallNumber;
///
/// let call = CallNumber::new(4, 1);
/// let mut streams: Streams<&str, &str> = Streams::default();
/// let number = streams.open_result(call, "writes items").unwrap();
/// assert_eq!(streams.result(number), Some(&"writes items"));
/// assert_eq!(streams.handle_control(Control::Stop, number).results, ["writes items"]);
/// assert_eq!(streams.result(number), None);
/// ```
#[derive(Debug)]
pub struct Streams<W, R> {
    results: Vec<Open<W>>,
    arguments: Vec<Open<R>>,
    /// The number of the result that was opened last. Numbers are not reused soon, so that late messages of the
    /// peer about an ended stream name no other.
    last: u32,
}

impl<W, R> Default for Streams<W, R> {
    fn default() -> Streams<W, R> {
        Streams { results: Vec::new(), arguments: Vec::new(), last: 0 }
    }
}

/// The ends of streams that have ended before their last items.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended<W, R> {
    /// The writing ends, which have lost their readers.
    pub results: Vec<W>,
    /// The reading ends, which have lost their writers.
    pub arguments: Vec<R>,
}

impl<W, R> Default for Ended<W, R> {
    fn default() -> Ended<W, R> {
        Ended { results: Vec::new(), arguments: Vec::new() }
    }
}

impl<W, R> Streams<W, R> {
    /// Returns the number of open streams.
    pub fn len(&self) -> usize {
        self.results.len() + self.arguments.len()
    }

    /// Returns whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a stream in the result of this call, and returns its number.
    ///
    /// # Errors
    /// Fails when too many streams are open, and drops the end.
    pub fn open_result(&mut self, call: CallNumber, end: W) -> Result<u32, Refusal> {
        self.check_room()?;
        let mut number = self.last.wrapping_add(u32::from(!mutated(Mutant::NumberTaken)));
        while !mutated(Mutant::NumberTaken) && self.results.iter().any(|open| open.number == number)
        {
            number = number.wrapping_add(1);
        }
        self.last = number;
        self.results.push(Open { number, call, end });
        Ok(number)
    }

    /// Opens a stream in the arguments of this call, whose number the caller has chosen.
    ///
    /// # Errors
    /// Fails when too many streams are open, or another argument has the number, and drops the end.
    pub fn open_argument(&mut self, call: CallNumber, number: u32, end: R) -> Result<(), Refusal> {
        self.check_room()?;
        if self.argument(number).is_some() {
            return Err(Refusal::Taken);
        }
        self.arguments.push(Open { number, call, end });
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        match self.len() < STREAMS_PER_SESSION_MAX {
            true => Ok(()),
            false => Err(Refusal::TooMany),
        }
    }

    /// Returns the writing end of the result of this number.
    pub fn result(&self, number: u32) -> Option<&W> {
        self.results.iter().find(|open| open.number == number).map(|open| &open.end)
    }

    /// Returns the reading end of the argument of this number.
    pub fn argument(&self, number: u32) -> Option<&R> {
        self.arguments.iter().find(|open| open.number == number).map(|open| &open.end)
    }

    /// Closes a result whose last items were sent or whose writer is gone.
    pub fn close_result(&mut self, number: u32) -> Option<W> {
        close(&mut self.results, number)
    }

    /// Closes an argument whose last items came or whose reader is gone.
    pub fn close_argument(&mut self, number: u32) -> Option<R> {
        close(&mut self.arguments, number)
    }

    /// Handles the caller's message that ends the stream of this number. The message has no effect on a stream
    /// that has ended already, since the message and the last items may cross.
    pub fn handle_control(&mut self, control: Control, number: u32) -> Ended<W, R> {
        let mut ended = Ended::default();
        match control {
            Control::Stop if mutated(Mutant::StopIgnored) => {}
            Control::Abandon if mutated(Mutant::AbandonIgnored) => {}
            Control::Stop => ended.results.extend(self.close_result(number)),
            Control::Abandon => ended.arguments.extend(self.close_argument(number)),
        }
        ended
    }

    /// Handles the caller's cancel of a call that was answered and whose result was not taken: all streams in the
    /// result end. The caller ends the streams in the arguments one by one.
    pub fn handle_cancel(&mut self, call: CallNumber) -> Ended<W, R> {
        if mutated(Mutant::CancelKeepsStreams) {
            return Ended::default();
        }
        let results = self.results.extract_if(.., |open| open.call == call);
        Ended { results: results.map(|open| open.end).collect(), arguments: Vec::new() }
    }

    /// Handles the loss or the end of the session: all its streams end.
    pub fn handle_lost(self) -> Ended<W, R> {
        if mutated(Mutant::LostKeepsStreams) {
            return Ended::default();
        }
        Ended {
            results: self.results.into_iter().map(|open| open.end).collect(),
            arguments: self.arguments.into_iter().map(|open| open.end).collect(),
        }
    }
}

fn close<E>(streams: &mut Vec<Open<E>>, number: u32) -> Option<E> {
    let at = streams.iter().position(|open| open.number == number)?;
    Some(streams.swap_remove(at).end)
}

#[cfg(test)]
mod tests;
