//! Quotes: the countable part of an operation's bill, before the operation is done.
//!
//! A [`Quote`] describes the steady state: the session is open, its lanes and buffers exist and have room, the
//! callee has room for requests, the handler finishes in its first poll, and the caller reads the result in place.
//! The quote is equal for every lane, on the heap or shared, and for a node and a blocking handle; for a stream,
//! it holds on a node whose writer is ahead of its reader. A quote counts, for both sides together:
//!
//! - *cache lines*: lines of frames and buffers that their writer stores and their reader loads. Head and payload
//!   share the first line, and a payload of more than 64 KiB has the lines of its buffer. A sleeping reader adds
//!   the line of its polling flag, which it has written since the last read.
//! - *bytes*: the payload, including counts, the gaps up to whole words, and the place of a payload in a buffer;
//!   heads are not counted.
//! - *copies*: one pass over a payload into the lane or buffer and one out of it, for any number of arguments.
//!   Moves of values within a program are not counted.
//! - *allocations*: the memory that the received values own.
//! - *system calls* and *wakes*: those of ringing a sleeping reader, on both sides.
//!
//! Over a byte stream ([`quote_over`], [`Carrier::Stream`]) no line moves between the cores of the two sides, and
//! a quote counts in addition:
//!
//! - *system calls*: a message alone is one write and one read that returns data; the wait of a sleeping reader is
//!   one more. Messages that are sent in one turn share a write, and then cost less than their quotes.
//! - *copies*: into the sender's lane and out of it, into the kernel and out of it, into the receiver's replica of
//!   the lane and out of it.
//!
//! A quote over a byte stream does not count reads that find nothing, which a polling node repeats; the progress
//! that the receiver of one-way messages reports once per quarter of the ring, in its own write and read, and
//! otherwise along with replies; and the memory and the passes of rustls.
//!
//! No quote counts work that depends on time (looks at the sockets while a side is awake) or on laps of the
//! ring (padding, see [`Lap`], and the line of the reader's progress, loaded when the known room runs out). No
//! quote counts the line of returned buffers, which is loaded once in as many messages as there are buffers of a
//! size, and with every message of more than 64 KiB; such a long buffer, which is given up and created again when
//! it is unused for a while; the word that is wiped where messages of different lengths follow each other; values
//! that are read in place, which lie in a buffer unless they fit a slot; and values that go through serde, whose
//! length is unknown before they are written. Invariant: the tests run every operation in every size, count, and
//! find these numbers.

use crate::bill::Item;
use crate::frame::slots;
use crate::limits::{
    EXTENSION_BYTES, HEAD_BYTES, IN_RING_BYTES_MAX, LINE_BYTES, MESSAGE_BYTES_MAX,
    STREAM_WHOLE_BYTES,
};
use core::fmt;

/// The lines that a sender loads to see that a reader sleeps.
const POLLING_FLAG_LINES: u64 = 1;

/// The system calls for a doorbell: one that rings, the end of the sleeper's wait, one that reads the doorbell,
/// and one that finds no other.
const BELL_SYSTEM_CALLS: u64 = 4;

/// The system calls for a message over a byte stream: the write, and the read that returns its bytes. The wait of
/// a sleeping reader is one more.
const STREAM_SYSTEM_CALLS: u64 = 2;

/// The copies of a payload over a byte stream: each side copies it twice in user space, and its kernel copies it
/// once.
const STREAM_COPIES: u64 = 6;

/// The state of a message's reader when the message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reader {
    /// The reader polls its lanes, and its polling flag is set.
    Polls,
    /// The reader sleeps, and the sender rings its doorbell.
    Sleeps,
}

/// The carrier of an operation's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carrier {
    /// Lanes in memory that both sides have, within a host.
    Memory,
    /// A byte stream: a unix socket, TCP, or TLS over TCP.
    Stream,
}

/// An operation with a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A call and its reply.
    Call {
        /// The state of the node that reads the request.
        callee: Reader,
        /// The state of the node that reads the reply.
        caller: Reader,
    },
    /// A one-way message.
    Oneway {
        /// The state of the node that reads the message.
        receiver: Reader,
    },
    /// A batch of items of a stream in a result: the call that asks for them, and its reply, which has them as a
    /// [`batch`](Payload::batch). Up to 256 items or about 32 KiB share the cost.
    Pull {
        /// The state of the node that writes the stream, and reads the pull.
        writer: Reader,
        /// The state of the node that reads the stream.
        reader: Reader,
    },
    /// A batch of items of a stream in an argument: the call that brings them as its arguments, and its reply.
    Push {
        /// The state of the node that reads the stream.
        reader: Reader,
        /// The state of the node that writes the stream, and reads the reply.
        writer: Reader,
    },
}

/// The payload of a message: the bytes of its values, and the memory that they own when received.
///
/// ```
/// use upbeat_core::quote::Payload;
///
/// // `async fn put(&self, key: u32, value: Vec<u8>)` with a value of 100 bytes.
/// let arguments = Payload::plain(4).and(Payload::sequence(100));
/// assert_eq!((arguments.bytes, arguments.allocations), (8 + 8 + 100, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload {
    /// The bytes in the lane.
    pub bytes: usize,
    /// The number of allocations of the receiver.
    pub allocations: u64,
}

impl Payload {
    /// The payload without values.
    pub const NONE: Payload = Payload::plain(0);

    /// Returns the payload of a value of plain data: a number, an array of numbers, a `#[wire(plain)]` struct.
    pub const fn plain(bytes: usize) -> Payload {
        Payload { bytes, allocations: 0 }
    }

    /// Returns the payload of a `String`, or of a `Vec` of plain data, whose elements take `bytes` bytes. A count
    /// precedes the elements; an empty sequence owns nothing.
    pub const fn sequence(bytes: usize) -> Payload {
        let bytes_all = size_of::<u64>().saturating_add(bytes);
        Payload { bytes: bytes_all, allocations: (bytes != 0) as u64 }
    }

    /// Returns the payload of a sequence as a result that its caller writes into its own buffer.
    ///
    /// ```
    /// use upbeat_core::quote::Payload;
    ///
    /// let (owned, filled) = (Payload::sequence(100), Payload::filled(100));
    /// assert_eq!((owned.bytes, owned.allocations), (filled.bytes, filled.allocations + 1));
    /// ```
    pub const fn filled(bytes: usize) -> Payload {
        Payload::plain(Payload::sequence(bytes).bytes)
    }

    /// Returns the payload of a batch of items of a stream, of plain data that takes `bytes` bytes.
    ///
    /// ```
    /// use upbeat_core::quote::{Operation, Payload, Reader, quote};
    ///
    /// // A whole batch of `Stream<u64>`, as the result of a method.
    /// let pull = Operation::Pull { writer: Reader::Polls, reader: Reader::Polls };
    /// let batch = quote(pull, Payload::NONE, Payload::batch(256 * 8)).unwrap();
    /// assert_eq!((batch.cache_lines, batch.allocations, batch.system_calls), (34, 1, 0));
    /// ```
    pub const fn batch(bytes: usize) -> Payload {
        Payload::plain(size_of::<u64>()).and(Payload::sequence(bytes))
    }

    /// Returns the payload of these values followed by others, which begin at a whole word.
    pub const fn and(self, next: Payload) -> Payload {
        let start = self.bytes.div_ceil(size_of::<u64>()).saturating_mul(size_of::<u64>());
        let bytes = if next.bytes == 0 { self.bytes } else { start.saturating_add(next.bytes) };
        Payload { bytes, allocations: self.allocations + next.allocations }
    }
}

/// The countable items of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quote {
    /// The cache lines that move from one core to another.
    pub cache_lines: u64,
    /// The bytes of payload sent.
    pub bytes: u64,
    /// The passes that move payload from one place in memory to another.
    pub copies: u64,
    /// The calls to the allocator for memory.
    pub allocations: u64,
    /// The calls into the kernel.
    pub system_calls: u64,
    /// The sleeping nodes whose doorbell was rung.
    pub wakes: u64,
}

/// Returns the quote of an operation in the steady state, as the module describes, or none if one of its messages
/// is too long. The result of a one-way message, the arguments of a pull and the result of a push are ignored,
/// since the wire format fixes them.
///
/// ```
/// use upbeat_core::quote::{Operation, Payload, Quote, Reader, quote};
///
/// let call = Operation::Call { callee: Reader::Polls, caller: Reader::Polls };
/// let null = Quote { cache_lines: 2, ..Quote::default() };
/// assert_eq!(quote(call, Payload::NONE, Payload::NONE), Some(null));
///
/// let page = quote(call, Payload::sequence(4096), Payload::NONE).unwrap();
/// assert_eq!((page.cache_lines, page.copies, page.allocations), (66, 2, 1));
/// ```
pub const fn quote(operation: Operation, arguments: Payload, result: Payload) -> Option<Quote> {
    quote_over(Carrier::Memory, operation, arguments, result)
}

/// Returns the quote of an operation over a carrier, as [`quote()`] does over memory. Over a byte stream it is
/// none also if a payload is longer than [`STREAM_WHOLE_BYTES`], since the number of reads then depends on how the
/// network splits it.
///
/// ```
/// use upbeat_core::quote::{Carrier, Operation, Payload, Reader, quote_over};
///
/// let call = Operation::Call { callee: Reader::Polls, caller: Reader::Polls };
/// let null = quote_over(Carrier::Stream, call, Payload::NONE, Payload::NONE).unwrap();
/// // Each side writes once and reads once.
/// assert_eq!((null.system_calls, null.copies, null.cache_lines), (4, 0, 0));
/// ```
pub const fn quote_over(
    carrier: Carrier,
    operation: Operation,
    arguments: Payload,
    result: Payload,
) -> Option<Quote> {
    match operation {
        Operation::Oneway { receiver } => message(carrier, arguments, receiver),
        Operation::Call { callee, caller } => call(carrier, (arguments, callee), (result, caller)),
        Operation::Pull { writer, reader } => call(carrier, (STREAM, writer), (result, reader)),
        Operation::Push { reader, writer } => {
            call(carrier, (STREAM.and(arguments), reader), (WANTED, writer))
        }
    }
}

/// The number of a stream, as a payload.
const STREAM: Payload = Payload::plain(size_of::<u32>());

/// The reply to a push: whether more items are wanted.
const WANTED: Payload = Payload::plain(1);

/// Returns the quote of a request and its reply, each with the state of its reader.
const fn call(
    carrier: Carrier,
    request: (Payload, Reader),
    answer: (Payload, Reader),
) -> Option<Quote> {
    match (message(carrier, request.0, request.1), message(carrier, answer.0, answer.1)) {
        (Some(request), Some(answer)) => Some(request.and(answer)),
        _ => None,
    }
}

const fn message(carrier: Carrier, payload: Payload, reader: Reader) -> Option<Quote> {
    match carrier {
        Carrier::Memory => message_in_memory(payload, reader),
        Carrier::Stream => message_over_stream(payload, reader),
    }
}

/// Returns the quote of a message that one write sends and one read returns.
const fn message_over_stream(payload: Payload, reader: Reader) -> Option<Quote> {
    if payload.bytes > STREAM_WHOLE_BYTES {
        return None;
    }
    let wakes = match reader {
        Reader::Polls => 0,
        Reader::Sleeps => 1,
    };
    Some(Quote {
        bytes: payload.bytes as u64,
        copies: if payload.bytes == 0 { 0 } else { STREAM_COPIES },
        allocations: payload.allocations,
        system_calls: STREAM_SYSTEM_CALLS + wakes,
        wakes,
        ..Quote::NONE
    })
}

/// Returns the quote of a message whose payload follows its head, or lies in a buffer that its frame names.
const fn message_in_memory(payload: Payload, reader: Reader) -> Option<Quote> {
    if payload.bytes > MESSAGE_BYTES_MAX {
        return None;
    }
    let quote = match payload.bytes <= IN_RING_BYTES_MAX {
        true => frame(payload.bytes, reader),
        false => {
            let buffer = Quote {
                cache_lines: payload.bytes.div_ceil(LINE_BYTES) as u64,
                bytes: payload.bytes as u64,
                ..Quote::NONE
            };
            frame(EXTENSION_BYTES, reader).and(buffer)
        }
    };
    let copies = if payload.bytes == 0 { 0 } else { 2 };
    Some(Quote { copies, allocations: payload.allocations, ..quote })
}

/// Returns the quote of a frame with `bytes` bytes behind its head.
const fn frame(bytes: usize, reader: Reader) -> Quote {
    let bells = match reader {
        Reader::Polls => 0,
        Reader::Sleeps => 1,
    };
    Quote {
        cache_lines: (HEAD_BYTES + bytes).div_ceil(LINE_BYTES) as u64 + bells * POLLING_FLAG_LINES,
        bytes: bytes as u64,
        system_calls: bells * BELL_SYSTEM_CALLS,
        wakes: bells,
        ..Quote::NONE
    }
}

impl Quote {
    /// The quote of nothing.
    const NONE: Quote =
        Quote { cache_lines: 0, bytes: 0, copies: 0, allocations: 0, system_calls: 0, wakes: 0 };

    /// Returns the amount of one item, or none for a time, which is measured and not quoted.
    pub const fn of(&self, item: Item) -> Option<u64> {
        match item {
            Item::CacheLines => Some(self.cache_lines),
            Item::Bytes => Some(self.bytes),
            Item::Copies => Some(self.copies),
            Item::Allocations => Some(self.allocations),
            Item::SystemCalls => Some(self.system_calls),
            Item::Wakes => Some(self.wakes),
            _ => None,
        }
    }

    /// Iterates over the countable items and their amounts.
    ///
    /// ```
    /// use upbeat_core::quote::Quote;
    ///
    /// let quote = Quote { wakes: 1, ..Quote::default() };
    /// assert_eq!(quote.items().map(|(_, amount)| amount).sum::<u64>(), 1);
    /// ```
    pub fn items(&self) -> impl Iterator<Item = (Item, u64)> + '_ {
        Item::ALL.iter().filter_map(|item| Some((*item, self.of(*item)?)))
    }

    /// Returns the sum of both quotes.
    #[must_use]
    pub const fn and(self, other: Quote) -> Quote {
        Quote {
            cache_lines: self.cache_lines + other.cache_lines,
            bytes: self.bytes + other.bytes,
            copies: self.copies + other.copies,
            allocations: self.allocations + other.allocations,
            system_calls: self.system_calls + other.system_calls,
            wakes: self.wakes + other.wakes,
        }
    }

    /// Returns the quote of `count` such operations.
    #[must_use]
    pub const fn times(self, count: u64) -> Quote {
        Quote {
            cache_lines: self.cache_lines * count,
            bytes: self.bytes * count,
            copies: self.copies * count,
            allocations: self.allocations * count,
            system_calls: self.system_calls * count,
            wakes: self.wakes * count,
        }
    }
}

/// Prints one line for each item.
impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items().try_for_each(|(item, amount)| writeln!(f, "{item:<14}{amount:>12}"))
    }
}

/// One lap of a ring with messages of one length.
///
/// ```
/// use upbeat_core::quote::Lap;
///
/// // 1 KiB takes 9 slots, of which 6 times as many fit a ring of 60.
/// assert_eq!(Lap::of(60, 1024), Lap { messages: 6, padding_lines: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    /// The number of messages in a lap.
    pub messages: u64,
    /// The number of lines with padding for the rest of the ring.
    pub padding_lines: u64,
}

impl Lap {
    /// Returns the lap of a ring of `ring_slots` slots, with messages of `payload` bytes that fit the ring.
    pub const fn of(ring_slots: u32, payload: u32) -> Lap {
        let span = slots(payload);
        Lap {
            messages: (ring_slots / span) as u64,
            padding_lines: (!ring_slots.is_multiple_of(span)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Operation = Operation::Call { callee: Reader::Polls, caller: Reader::Polls };

    #[test]
    fn a_quote_has_every_counted_item() {
        let quote = quote(CALL, Payload::plain(41), Payload::sequence(1)).unwrap();
        let items: Vec<Item> = quote.items().map(|(item, _)| item).collect();
        let counted: Vec<Item> = Item::ALL.iter().copied().filter(|item| !item.is_time()).collect();
        assert_eq!(items, counted);
        assert_eq!(quote.to_string().lines().count(), counted.len());
        assert_eq!(quote.and(quote), quote.times(2));
    }

    #[test]
    fn a_stream_quotes_one_write_and_one_read_for_a_short_message() {
        let quote = |bytes, callee| {
            let call = Operation::Call { callee, caller: Reader::Polls };
            quote_over(Carrier::Stream, call, Payload::plain(bytes), Payload::NONE)
        };
        let one = quote(1, Reader::Polls).unwrap();
        assert_eq!((one.system_calls, one.copies, one.bytes, one.wakes), (4, 6, 1, 0));
        let asleep = quote(0, Reader::Sleeps).unwrap();
        assert_eq!((asleep.system_calls, asleep.copies, asleep.wakes), (5, 0, 1));
        assert!(quote(STREAM_WHOLE_BYTES, Reader::Polls).is_some());
        assert_eq!(quote(STREAM_WHOLE_BYTES + 1, Reader::Polls), None);
    }

    #[test]
    fn a_payload_takes_one_more_line_at_each_boundary() {
        let lines = |bytes| quote(CALL, Payload::plain(bytes), Payload::NONE).unwrap().cache_lines;
        let sizes =
            [0, 40, 41, 104, 105, IN_RING_BYTES_MAX, IN_RING_BYTES_MAX + 1, MESSAGE_BYTES_MAX];
        assert_eq!(sizes.map(lines), [2, 2, 3, 3, 4, 1026, 1027, 16_777_218]);
        assert_eq!(quote(CALL, Payload::NONE, Payload::plain(MESSAGE_BYTES_MAX + 1)), None);
        assert_eq!(quote(CALL, Payload::sequence(usize::MAX), Payload::NONE), None);
    }

    #[test]
    fn a_sleeping_reader_is_rung() {
        let quote = |callee, caller| {
            quote(Operation::Call { callee, caller }, Payload::NONE, Payload::NONE).unwrap()
        };
        let looks = quote(Reader::Polls, Reader::Polls);
        let both = quote(Reader::Sleeps, Reader::Sleeps);
        assert_eq!((looks.wakes, looks.system_calls, looks.cache_lines), (0, 0, 2));
        assert_eq!((both.wakes, both.system_calls, both.cache_lines), (2, 8, 4));
    }

    #[test]
    fn further_values_begin_at_a_whole_word() {
        let two = Payload::plain(1).and(Payload::plain(1));
        assert_eq!((two.bytes, Payload::plain(1).and(Payload::NONE).bytes), (9, 1));
        let texts = Payload::sequence(0).and(Payload::sequence(5));
        assert_eq!((texts.bytes, texts.allocations), (8 + 8 + 5, 1));
        assert_eq!(Lap::of(60, 0), Lap { messages: 60, padding_lines: 0 });
    }

    #[test]
    fn items_of_a_stream_share_a_call() {
        let looks = Reader::Polls;
        let pull = Operation::Pull { writer: looks, reader: looks };
        let push = Operation::Push { reader: looks, writer: looks };
        let one = quote(pull, Payload::NONE, Payload::batch(8)).unwrap();
        assert_eq!((one.bytes, one.copies, one.allocations), (4 + 8 + 8 + 8, 4, 1));
        let one = quote(push, Payload::batch(8), Payload::NONE).unwrap();
        assert_eq!((one.bytes, one.copies, one.allocations), (8 + 8 + 8 + 8 + 1, 4, 1));
        let end = quote(pull, Payload::NONE, Payload::batch(0)).unwrap();
        assert_eq!((end.bytes, end.allocations), (4 + 8 + 8, 0));
        let sleeps = Operation::Pull { writer: Reader::Sleeps, reader: looks };
        assert_eq!(quote(sleeps, Payload::NONE, Payload::batch(8)).unwrap().wakes, 1);
        assert_eq!(quote(push, Payload::batch(MESSAGE_BYTES_MAX), Payload::NONE), None);
    }

    #[test]
    fn a_long_payload_has_a_buffer_that_its_frame_names() {
        let long = Payload::plain(IN_RING_BYTES_MAX + 1);
        let short = quote(CALL, Payload::plain(IN_RING_BYTES_MAX), Payload::NONE).unwrap();
        let more = Quote { cache_lines: 1, bytes: 1 + 8, ..Quote::NONE };
        assert_eq!(quote(CALL, long, Payload::NONE).unwrap(), short.and(more));
        assert_eq!(quote(CALL, Payload::NONE, long).unwrap(), short.and(more));
    }
}
