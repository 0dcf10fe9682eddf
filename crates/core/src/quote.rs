//! Quotes: what of an operation's bill can be counted, said before it is done.
//!
//! A [`Quote`] is of the steady state: the session is open, its lanes and its buffers are those that its
//! messages need and have room, the callee has room for requests, the handler is done when first
//! polled, and the caller takes the result where it lies. It is the same over every lane, on the heap
//! or shared, from a node or from a blocking handle; of a stream, from a node, where its writer is ahead of
//! its reader. What it counts, on both sides together:
//!
//! - *cache lines*: of frames and buffers, that their writer stored and their reader loads; head and
//!   payload share the first, a payload of more than 64 KiB has its buffer's. Of a sleeper one more:
//!   its promise, which it has written since the last look.
//! - *bytes*: of payload, counts and the gaps up to whole words included, and what a frame says where
//!   a payload lies; heads are not.
//! - *copies*: one pass over a payload into lane or buffer and one out of it, however many arguments
//!   it has. What a program moves by value on its own side is its own.
//! - *allocations*: what values own where they are received.
//! - *system calls* and *wakes*: of ringing a sleeper, and of hearing that.
//!
//! Over a byte stream ([`quote_over`], [`Carrier::Stream`]) no line goes from one side's core to the other's, and
//! a quote counts besides:
//!
//! - *system calls*: a message that goes alone is one write and one read that returns data; a sleeping reader's
//!   wait is one more. Messages that are sent in one turn share a write, and then cost less than their quotes.
//! - *copies*: into the sender's lane and out of it, into the kernel and out of it, into the receiver's replica of
//!   the lane and out of it.
//!
//! Left to others there: reads that find nothing, which a polling node tries again and again; what the receiver of
//! one-way messages says of its progress, once in a quarter of the ring, in a write and a read of its own, and along
//! with answers otherwise; the memory that rustls takes for a record, and its own passes over it.
//!
//! Left to others: what is due by time and not by message (a look at the sockets, once in a
//! millisecond awake); what is due once in a lap of the ring (padding: [`Lap`]; the line of the
//! reader's progress, loaded when the room that the writer knows of runs out); the line of the buffers
//! that the reader has returned, loaded when the writer knows of none that is free: once in as many
//! messages as there are buffers of their size, and with every message that has a buffer of its
//! own, which are those of more than 64 KiB; such a buffer, which is given up when nobody used it for
//! a while, and made again; the word that is wiped where messages of different
//! lengths follow each other; what is read in place, which lies in a buffer however short it is if
//! it does not fit a slot; what goes through serde, whose length nobody knows before it is written.
//! Invariant: the tests run every operation in every size, count, and find this.

use crate::bill::Item;
use crate::frame::slots;
use crate::limits::{
    EXTENSION_BYTES, HEAD_BYTES, IN_RING_BYTES_MAX, LINE_BYTES, MESSAGE_BYTES_MAX,
    STREAM_WHOLE_BYTES,
};
use core::fmt;

/// Lines that are loaded to see that a reader sleeps.
const PROMISE_LINES: u64 = 1;

/// Calls into the kernel for a bell: one that rings, the sleeper's wait that ends, one that takes
/// the ring and one that finds no other.
const BELL_SYSTEM_CALLS: u64 = 4;

/// Calls into the kernel for a message over a byte stream: the write, and the read that returns its bytes. The wait of
/// a reader that sleeps is one more.
const STREAM_SYSTEM_CALLS: u64 = 2;

/// Copies of a payload that goes over a byte stream: each side copies it twice in user space, and its kernel once.
const STREAM_COPIES: u64 = 6;

/// The state of a message's reader when the message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// It looks at its lanes: its promise stands.
    Looks,
    /// It sleeps, and is rung.
    Sleeps,
}

/// What carries the messages of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Lanes that both sides have in memory: within a host.
    Memory,
    /// A byte stream: a unix socket, TCP, or TLS over TCP.
    Stream,
}

/// An operation that has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A call and its answer.
    Call {
        /// Who reads the request.
        callee: Reader,
        /// Who reads the answer.
        caller: Reader,
    },
    /// A one-way message.
    Oneway {
        /// Who reads it.
        receiver: Reader,
    },
    /// Items of a stream of a result that go together: the call that asks for them, and its answer, which
    /// has them as a [`batch`](Payload::batch). As many items share what this costs as are there, up to
    /// 256 or about 32 KiB.
    Pull {
        /// Who writes the stream, and reads that it is asked for.
        writer: Reader,
        /// Who reads the stream.
        reader: Reader,
    },
    /// Items of a stream of an argument that go together: the call that brings them, and its answer. The
    /// batch is its arguments.
    Push {
        /// Who reads the stream.
        reader: Reader,
        /// Who writes the stream, and reads that there is room for more.
        writer: Reader,
    },
}

/// The payload of a message: how many bytes its values take, and what they own when received.
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
    /// Bytes in the lane.
    pub bytes: usize,
    /// Pieces of memory that its receiver asks for.
    pub allocations: u64,
}

impl Payload {
    /// No values.
    pub const NONE: Payload = Payload::plain(0);

    /// A value of plain data: a number, an array of numbers, a `#[wire(plain)]` struct.
    pub const fn plain(bytes: usize) -> Payload {
        Payload { bytes, allocations: 0 }
    }

    /// A `String`, or a `Vec` of plain data, whose elements take so many bytes together. A count
    /// stands before them; an empty one owns nothing.
    pub const fn sequence(bytes: usize) -> Payload {
        let bytes_all = size_of::<u64>().saturating_add(bytes);
        Payload { bytes: bytes_all, allocations: (bytes != 0) as u64 }
    }

    /// The same sequence, as a result that its caller has written into a buffer of its own.
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

    /// Items of a stream that go together, of plain data that takes so many bytes together.
    ///
    /// ```
    /// use upbeat_core::quote::{Operation, Payload, Reader, quote};
    ///
    /// // A whole batch of `Stream<u64>`, as the result of a method.
    /// let pull = Operation::Pull { writer: Reader::Looks, reader: Reader::Looks };
    /// let batch = quote(pull, Payload::NONE, Payload::batch(256 * 8)).unwrap();
    /// assert_eq!((batch.cache_lines, batch.allocations, batch.system_calls), (34, 1, 0));
    /// ```
    pub const fn batch(bytes: usize) -> Payload {
        Payload::plain(size_of::<u64>()).and(Payload::sequence(bytes))
    }

    /// These values and then others, which begin at a whole word.
    pub const fn and(self, next: Payload) -> Payload {
        let start = self.bytes.div_ceil(size_of::<u64>()).saturating_mul(size_of::<u64>());
        let bytes = if next.bytes == 0 { self.bytes } else { start.saturating_add(next.bytes) };
        Payload { bytes, allocations: self.allocations + next.allocations }
    }
}

/// The countable items of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quote {
    /// Cache lines that go from one core to another.
    pub cache_lines: u64,
    /// Bytes of payload sent.
    pub bytes: u64,
    /// Times that payload is moved from one place in memory to another.
    pub copies: u64,
    /// Pieces of memory asked of the allocator.
    pub allocations: u64,
    /// Calls into the kernel.
    pub system_calls: u64,
    /// Sleepers whose bell was rung.
    pub wakes: u64,
}

/// Returns the cost of an operation in the steady state, as the module says. None if one of its messages is longer
/// than messages may be. It ignores the result of a one-way message, the arguments of an operation that asks for items
/// of a stream, and the result of an operation that brings them: the wire format fixes these.
///
/// ```
/// use upbeat_core::quote::{Operation, Payload, Quote, Reader, quote};
///
/// let call = Operation::Call { callee: Reader::Looks, caller: Reader::Looks };
/// let null = Quote { cache_lines: 2, ..Quote::default() };
/// assert_eq!(quote(call, Payload::NONE, Payload::NONE), Some(null));
///
/// let page = quote(call, Payload::sequence(4096), Payload::NONE).unwrap();
/// assert_eq!((page.cache_lines, page.copies, page.allocations), (66, 2, 1));
/// ```
pub const fn quote(operation: Operation, arguments: Payload, result: Payload) -> Option<Quote> {
    quote_over(Carrier::Memory, operation, arguments, result)
}

/// Returns the cost of an operation over a carrier, as [`quote()`] does over memory. None over a byte stream also if a
/// payload is longer than [`STREAM_WHOLE_BYTES`]: how many reads it takes depends on how the network cuts it.
///
/// ```
/// use upbeat_core::quote::{Carrier, Operation, Payload, Reader, quote_over};
///
/// let call = Operation::Call { callee: Reader::Looks, caller: Reader::Looks };
/// let null = quote_over(Carrier::Stream, call, Payload::NONE, Payload::NONE).unwrap();
/// // Either side writes once and reads once.
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

/// The answer to an operation that brings items: whether more are wanted.
const WANTED: Payload = Payload::plain(1);

/// A request and its answer, each with who reads it.
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

/// Returns the cost of a message that one write sends and one read returns.
const fn message_over_stream(payload: Payload, reader: Reader) -> Option<Quote> {
    if payload.bytes > STREAM_WHOLE_BYTES {
        return None;
    }
    let wakes = match reader {
        Reader::Looks => 0,
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

/// A message whose payload lies behind its head, or in a buffer that its frame names.
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

/// A frame with so many bytes behind its head.
const fn frame(bytes: usize, reader: Reader) -> Quote {
    let bells = match reader {
        Reader::Looks => 0,
        Reader::Sleeps => 1,
    };
    Quote {
        cache_lines: (HEAD_BYTES + bytes).div_ceil(LINE_BYTES) as u64 + bells * PROMISE_LINES,
        bytes: bytes as u64,
        system_calls: bells * BELL_SYSTEM_CALLS,
        wakes: bells,
        ..Quote::NONE
    }
}

impl Quote {
    /// Nothing.
    const NONE: Quote =
        Quote { cache_lines: 0, bytes: 0, copies: 0, allocations: 0, system_calls: 0, wakes: 0 };

    /// The quote of one item; None of a time, which is measured and not quoted.
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

    /// Every countable item and its amount.
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

    /// Both.
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

    /// So many of them.
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

/// A line for each item.
impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items().try_for_each(|(item, amount)| writeln!(f, "{item:<14}{amount:>12}"))
    }
}

/// A lap of a ring through which messages of one length go.
///
/// ```
/// use upbeat_core::quote::Lap;
///
/// // 1 KiB takes 9 slots, of which 6 times as many fit a ring of 60.
/// assert_eq!(Lap::of(60, 1024), Lap { messages: 6, padding_lines: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    /// Messages in a lap.
    pub messages: u64,
    /// Lines that say that what is left of the ring stays empty.
    pub padding_lines: u64,
}

impl Lap {
    /// Of a ring of so many slots, and messages of so many bytes of payload, no more than fit.
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

    const CALL: Operation = Operation::Call { callee: Reader::Looks, caller: Reader::Looks };

    #[test]
    fn a_quote_has_every_item_that_is_counted() {
        let quote = quote(CALL, Payload::plain(41), Payload::sequence(1)).unwrap();
        let items: Vec<Item> = quote.items().map(|(item, _)| item).collect();
        let counted: Vec<Item> = Item::ALL.iter().copied().filter(|item| !item.is_time()).collect();
        assert_eq!(items, counted);
        assert_eq!(quote.to_string().lines().count(), counted.len());
        assert_eq!(quote.and(quote), quote.times(2));
    }

    #[test]
    fn a_stream_writes_and_reads_each_message_that_a_read_returns_whole() {
        let quote = |bytes, callee| {
            let call = Operation::Call { callee, caller: Reader::Looks };
            quote_over(Carrier::Stream, call, Payload::plain(bytes), Payload::NONE)
        };
        let one = quote(1, Reader::Looks).unwrap();
        assert_eq!((one.system_calls, one.copies, one.bytes, one.wakes), (4, 6, 1, 0));
        let asleep = quote(0, Reader::Sleeps).unwrap();
        assert_eq!((asleep.system_calls, asleep.copies, asleep.wakes), (5, 0, 1));
        assert!(quote(STREAM_WHOLE_BYTES, Reader::Looks).is_some());
        assert_eq!(quote(STREAM_WHOLE_BYTES + 1, Reader::Looks), None);
    }

    #[test]
    fn a_line_more_begins_where_a_line_ends() {
        let lines = |bytes| quote(CALL, Payload::plain(bytes), Payload::NONE).unwrap().cache_lines;
        let sizes =
            [0, 40, 41, 104, 105, IN_RING_BYTES_MAX, IN_RING_BYTES_MAX + 1, MESSAGE_BYTES_MAX];
        assert_eq!(sizes.map(lines), [2, 2, 3, 3, 4, 1026, 1027, 16_777_218]);
        assert_eq!(quote(CALL, Payload::NONE, Payload::plain(MESSAGE_BYTES_MAX + 1)), None);
        assert_eq!(quote(CALL, Payload::sequence(usize::MAX), Payload::NONE), None);
    }

    #[test]
    fn whoever_sleeps_is_rung() {
        let quote = |callee, caller| {
            quote(Operation::Call { callee, caller }, Payload::NONE, Payload::NONE).unwrap()
        };
        let looks = quote(Reader::Looks, Reader::Looks);
        let both = quote(Reader::Sleeps, Reader::Sleeps);
        assert_eq!((looks.wakes, looks.system_calls, looks.cache_lines), (0, 0, 2));
        assert_eq!((both.wakes, both.system_calls, both.cache_lines), (2, 8, 4));
    }

    #[test]
    fn values_that_follow_begin_at_a_whole_word() {
        let two = Payload::plain(1).and(Payload::plain(1));
        assert_eq!((two.bytes, Payload::plain(1).and(Payload::NONE).bytes), (9, 1));
        let texts = Payload::sequence(0).and(Payload::sequence(5));
        assert_eq!((texts.bytes, texts.allocations), (8 + 8 + 5, 1));
        assert_eq!(Lap::of(60, 0), Lap { messages: 60, padding_lines: 0 });
    }

    #[test]
    fn items_of_a_stream_share_a_call() {
        let looks = Reader::Looks;
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
    fn a_long_payload_has_a_buffer_and_its_frame_says_where() {
        let long = Payload::plain(IN_RING_BYTES_MAX + 1);
        let short = quote(CALL, Payload::plain(IN_RING_BYTES_MAX), Payload::NONE).unwrap();
        let more = Quote { cache_lines: 1, bytes: 1 + 8, ..Quote::NONE };
        assert_eq!(quote(CALL, long, Payload::NONE).unwrap(), short.and(more));
        assert_eq!(quote(CALL, Payload::NONE, long).unwrap(), short.and(more));
    }
}
