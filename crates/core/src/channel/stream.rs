//! Streams: items that go one after another from their writer to their reader, over one session.
//!
//! A stream stands in the result of a call or in its arguments, and is a number there. The callee holds the table of
//! a session's streams ([`Streams`]); the caller does what keeps them going. A result is written by the callee, and
//! its reader, the caller, [pulls](Operation::Pull) items, a batch at a time. An argument is written by the caller,
//! which [pushes](Operation::Push) batches to the callee; the answer to a push is the credit for the next. So at
//! most one operation of a stream is under way, and order, deadlines and the room that a batch needs are those of
//! requests.
//!
//! | | at the caller | at the callee |
//! |---|---|---|
//! | a result | reads: [`Lookahead`] | writes: [`Demand`] |
//! | an argument | writes: [`Feed`] | reads: [`Intake`] |
//!
//! | what happens | a result's writer (callee) | an argument's reader (callee) |
//! |---|---|---|
//! | the last batch went or came | ends | reads to the end |
//! | [`Control::Stop`], or the cancel of the call that opened it | is dropped | - |
//! | [`Control::Abandon`] | - | reads an error |
//! | the session is lost, or either node ends | is dropped | reads an error |
//!
//! Items, wakers and futures are the runtime's. The invariant: a number means one stream of one session, and nothing
//! after its end; a writer is never further ahead than the batches that these states admit.

mod batch;
mod intake;
mod lookahead;
mod demand;
mod feed;

pub use batch::{BatchSize, Tail};
pub use demand::{AskedAlready, Demand};
pub use feed::Feed;
pub use intake::{Intake, NoCredit, Wanted};
pub use lookahead::{BATCHES_AHEAD, Lookahead};

use crate::frame::CallNumber;
use crate::limits::STREAMS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::fmt;

/// A request of one end of a stream, which the other end answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Asks for the next items of a result. It is answered when there are some.
    Pull = 1,
    /// Brings the next items of an argument. It is answered when there is room for more.
    Push = 2,
}

impl Operation {
    /// The operation in words.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Pull => "pull",
            Operation::Push => "push",
        }
    }
}

/// A message of one end of a stream, which the other end does not answer. The codes follow those of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Control {
    /// The reader of a result wants no more of it.
    Stop = 3,
    /// The writer of an argument gives it up before its end.
    Abandon = 4,
}

/// The caller's end of a stream.
pub trait CallerEnd {
    /// The end is dropped. Returns what the callee is told, if it does not know already that the stream has ended.
    fn leave(&mut self) -> Option<Control>;
}

/// Why a stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many streams of the session are open as may be.
    TooMany,
    /// The number is that of another stream in the arguments of an open call.
    Taken,
}

impl Refusal {
    /// The refusal in words.
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
    /// The call in whose result or arguments it stands.
    call: CallNumber,
    end: E,
}

/// The streams of a session that are open at the callee: its ends of results, which write (`W`), and its ends of
/// arguments, which read (`R`).
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
    /// The number of the result that was opened last. Numbers are not used again soon, so that what the peer still
    /// says of an ended stream means no other.
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
    /// Those that wrote: nobody reads them any more.
    pub results: Vec<W>,
    /// Those that read: nobody writes them any more.
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
    /// Where as many are open as may be. The end is dropped.
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
    /// Where as many are open as may be, or another argument has the number. The end is dropped.
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

    /// Closes a result, whose last items went or whose writer is gone.
    pub fn close_result(&mut self, number: u32) -> Option<W> {
        close(&mut self.results, number)
    }

    /// Closes an argument, whose last items came or whose reader is gone.
    pub fn close_argument(&mut self, number: u32) -> Option<R> {
        close(&mut self.arguments, number)
    }

    /// The caller takes back the stream of this number. One that has ended already is nothing to it: the control
    /// and the last items cross.
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

    /// The caller takes back a call that was answered, whose result nobody took: all streams in it end. Those in
    /// its arguments are the caller's to end, one by one.
    pub fn handle_cancel(&mut self, call: CallNumber) -> Ended<W, R> {
        if mutated(Mutant::CancelKeepsStreams) {
            return Ended::default();
        }
        let results = self.results.extract_if(.., |open| open.call == call);
        Ended { results: results.map(|open| open.end).collect(), arguments: Vec::new() }
    }

    /// The session is lost, or closed: all of its streams end.
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
