//! The carriers of a session, one direction each. A lane is a ring of slots whose last ones are for
//! replies and control, beside words that each side writes for the other.
//!
//! In memory, a reader sees frames at once, and words at once or late. Over a byte stream both sides keep
//! replicas of ring and words: records arrive in the order in which they were shipped, after a
//! while. Such a connection may break, which loses the records that have not arrived. When the connection is resumed,
//! both sides say how many slots they have, the missing slots are shipped again, and all words are shown again, as the
//! product shows them then. So neither side loses or doubles frames.

mod ship;

use std::collections::VecDeque;

use upbeat_core::frame::{FailCode, Head, Kind, slots};
use upbeat_core::limits::CONTROL_SLOTS;
use upbeat_core::stream::{Chunk, SentHeader, Words};

use crate::check::Id;
use ship::Outgoing;
pub(crate) use ship::Shipped;

/// The content of a frame behind its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// The arguments, or their place in their sender's buffers.
    Request(Id),
    Result(Id),
    Failure(FailCode),
    /// A cancel of this request.
    Cancel(Id),
    /// A question for more time for this request, or the answer to one, and when it was written.
    Extend(Id),
    Extended(Id, u64),
}

/// A frame on its way: head, the extensions in the order of their flags, and body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) words: [u64; 3],
    pub(crate) extensions: [u64; 5],
    pub(crate) body: Body,
    /// When the frame was written, for the checker alone.
    pub(crate) written: u64,
}

impl Frame {
    /// Returns whether the frame must leave the last slots to others.
    fn is_request(&self) -> bool {
        Head::kind_in(&self.words).is_some_and(Kind::is_request)
    }

    /// Returns whether the frame is a reply with a result.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.body, Body::Result(_))
    }

    /// Returns the bytes of the result.
    pub(crate) fn answer_bytes(&self) -> usize {
        Head::len_in(&self.words) as usize
    }

    /// Returns whether the frame answers a handler that has asked for time.
    pub(crate) fn is_extended(&self) -> bool {
        matches!(self.body, Body::Extended(..))
    }

    pub(crate) fn slots(&self) -> u64 {
        u64::from(slots(Head::len_in(&self.words)))
    }
}

/// A word that one side writes for the other. Only the last value counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// Slots of the other side's ring that this side has read.
    Read(u64),
    /// Requests of the other side that this side has accepted.
    Accepted(u64),
    /// Whether this side has returned a buffer of the other side an odd number of times.
    Returned(Use, usize, bool),
    /// Whether this side waits for the other to read.
    Wants(bool),
}

/// A record on its way. Padding and bytes of payloads exist only over byte streams.
#[derive(Clone, Copy, Debug)]
enum Packet {
    Frame(Frame),
    /// Slots that hold no frame: their number.
    Padding(u64),
    Chunk(Chunk),
    Word(Word),
}

impl Packet {
    fn slots(&self) -> u64 {
        match self {
            Packet::Frame(frame) => frame.slots(),
            Packet::Padding(slots) => *slots,
            Packet::Chunk(_) | Packet::Word(_) => 0,
        }
    }
}

/// The record that a reader finds next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Came {
    Frame(Frame),
    /// A frame whose payload has not arrived whole.
    Torn(Frame),
    Word(Word),
}

/// The use of a buffer. Replies must not wait behind requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Requests,
    /// Requests for which room was granted. Requests that wait behind them must not take their buffers.
    Granted,
    Answers,
}

/// The uses, each with a slab of its own, by the number of the slab.
const USES: [Use; 3] = [Use::Requests, Use::Granted, Use::Answers];

/// A buffer of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) content: Id,
    /// How often the buffer was lent, was returned, and is known to its sender to have been returned.
    lent: u32,
    returned: u32,
    seen: u32,
    /// Bytes of the payload in the buffer that have arrived over a byte stream.
    came: u32,
}

impl Buffer {
    const fn is_free(&self) -> bool {
        self.lent == self.seen
    }

    /// Returns whether the reader has returned the buffer.
    pub(crate) const fn is_back(&self) -> bool {
        self.lent == self.returned
    }
}

/// One direction of a session.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) session: u64,
    pub(crate) stream: bool,
    /// Whether the reader sees words of memory late.
    late: bool,
    /// The records on their way; in memory, only frames.
    packets: VecDeque<Packet>,
    /// How many of the records have arrived; in memory, all.
    arrived: usize,
    /// Words in memory that the reader has not seen yet.
    words: VecDeque<Word>,
    broken: bool,
    /// The lane that is shipped over a byte stream.
    outgoing: Outgoing,
    ring: Ring,
    /// Requests that the reader has said to have accepted, and the number that the writer has seen.
    said: u64,
    pub(crate) accepted: u64,
    wants: Wish,
    buffers: [Vec<Buffer>; 3],
}

/// Whether the writer says that it waits for the reader, and whether the reader knows that.
#[derive(Debug, Default)]
struct Wish {
    said: bool,
    known: bool,
}

/// The slots of a ring.
#[derive(Debug, Default)]
struct Ring {
    slots: u64,
    /// Slots that were written, slots that were read, and slots that the writer knows to have been read.
    taken: u64,
    read: u64,
    said_read: u64,
    seen: u64,
}

impl Ring {
    /// Returns the number of slots that the writer does not know to have been read.
    fn holds(&self) -> u64 {
        self.taken - self.seen
    }
}

impl Wire {
    pub(crate) fn new(session: u64, stream: bool, late: bool, slots: usize, count: usize) -> Wire {
        let buffers = || vec![Buffer::default(); count];
        Wire {
            session,
            stream,
            late,
            packets: VecDeque::new(),
            arrived: 0,
            words: VecDeque::new(),
            broken: false,
            outgoing: Outgoing::default(),
            ring: Ring { slots: slots as u64, ..Ring::default() },
            said: 0,
            accepted: 0,
            wants: Wish::default(),
            buffers: [buffers(), buffers(), buffers()],
        }
    }

    /// Returns whether there is room for the frame.
    pub(crate) fn fits(&self, frame: &Frame) -> bool {
        let kept = if frame.is_request() { CONTROL_SLOTS as u64 } else { 0 };
        self.ring.holds() + frame.slots() + kept <= self.ring.slots
    }

    pub(crate) fn write(&mut self, frame: Frame) {
        self.ring.taken += frame.slots();
        match self.stream {
            true => self.outgoing.write(self.ring.taken, frame),
            false => self.push(Packet::Frame(frame)),
        }
    }

    fn push(&mut self, packet: Packet) {
        if !self.broken {
            self.packets.push_back(packet);
        }
        if !self.stream {
            self.arrived = self.packets.len();
        }
    }

    /// Takes a word that the writer of this direction has written. Returns whether the other side sees it at once.
    pub(crate) fn say(&mut self, word: Word) -> bool {
        match (self.stream, self.late) {
            (true, _) => self.push(Packet::Word(word)),
            (false, true) => self.words.push_back(word),
            (false, false) => {}
        }
        !self.stream && !self.late
    }

    /// Takes the next record, if it has arrived.
    pub(crate) fn next(&mut self) -> Option<Came> {
        loop {
            self.arrived = self.arrived.checked_sub(1)?;
            let packet = self.packets.pop_front()?;
            self.ring.read += packet.slots();
            match packet {
                Packet::Frame(frame) if self.has_payload(&frame) => {
                    return Some(Came::Frame(frame));
                }
                Packet::Frame(frame) => return Some(Came::Torn(frame)),
                Packet::Padding(_) => {}
                Packet::Chunk(chunk) => self.take(chunk),
                Packet::Word(word) => return Some(Came::Word(word)),
            }
        }
    }

    /// Returns whether a record has arrived that was not read.
    pub(crate) fn has_next(&self) -> bool {
        self.arrived > 0
    }

    /// Returns the number of records and words on their way.
    pub(crate) fn under_way(&self) -> usize {
        self.packets.len() - self.arrived + self.words.len()
    }

    /// Has `many` of them arrive. Returns the words in memory that the reader sees now.
    pub(crate) fn arrive(&mut self, many: usize) -> Vec<Word> {
        let packets = many.min(self.packets.len() - self.arrived);
        self.arrived += packets;
        let words = (many - packets).min(self.words.len());
        self.words.drain(..words).collect()
    }

    /// Takes a word of the other side about this direction.
    pub(crate) fn hear(&mut self, word: Word) {
        match word {
            Word::Read(read) => {
                self.ring.seen = read;
                self.outgoing.pass(read);
            }
            Word::Accepted(accepted) => self.accepted = accepted,
            Word::Returned(usage, at, odd) => {
                if let Some(buffer) = self.buffers[usage as usize].get_mut(at) {
                    // The buffer is not lent again before the writer sees this word.
                    buffer.seen += u32::from(odd == buffer.seen.is_multiple_of(2));
                }
            }
            Word::Wants(_) => {}
        }
    }

    /// The reader sees whether the writer waits.
    pub(crate) fn hear_wish(&mut self, wants: bool) {
        self.wants.known = wants;
    }

    /// Sets whether the writer waits for the reader. Returns whether that is a change.
    pub(crate) fn wish(&mut self, wants: bool) -> bool {
        wants != std::mem::replace(&mut self.wants.said, wants)
    }

    /// Returns whether the reader knows that the writer waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wants.known
    }

    /// Returns the slots that were read, if the reader has not said so yet, and notes that it has.
    pub(crate) fn read_unsaid(&mut self) -> Option<u64> {
        let Ring { read, said_read, .. } = &mut self.ring;
        (*read != std::mem::replace(said_read, *read)).then_some(*read)
    }

    /// The reader says how many requests it has accepted.
    pub(crate) fn say_accepted(&mut self, accepted: u64) {
        self.said = accepted;
    }

    /// Breaks the connection: of the records on their way, `many` still arrive.
    pub(crate) fn break_off(&mut self, many: usize) {
        self.packets.truncate(self.arrived + many);
        self.arrived = self.packets.len();
        self.broken = true;
        self.outgoing.forget();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Resumes the connection: slots that the reader does not have are shipped again. None if
    /// the writer no longer has them.
    pub(crate) fn resume(&mut self) -> Option<()> {
        self.broken = false;
        let arrived: u64 = self.packets.iter().map(Packet::slots).sum();
        self.outgoing.again(self.ring.read + arrived)
    }

    /// Returns all words of the reader, for a new connection. `wants_room` says whether it waits for room of its own.
    pub(crate) fn words_of_reader(&self, wants_room: bool) -> Vec<Word> {
        let (taken, accepted) = (self.ring.read, self.said);
        let mut told = SentHeader::default();
        told.again();
        let shown = told.show(Words { taken, accepted, wants_room }, 0, |slab| self.returned(slab));
        let mut words = vec![Word::Wants(shown.wants_room)];
        words.extend(shown.taken.map(Word::Read));
        words.extend(shown.accepted.map(Word::Accepted));
        for (slab, returned) in shown.returned() {
            let Some(usage) = USES.get(slab) else { continue };
            let odd = |at: &usize| returned >> at & 1 == 1;
            let buffers = 0..self.buffers[slab].len();
            words.extend(buffers.map(|at| Word::Returned(*usage, at, odd(&at))));
        }
        words
    }

    /// Returns the word of returns for one use: a bit for each buffer, which flips with each return.
    fn returned(&self, usage: usize) -> u64 {
        let buffers = self.buffers.get(usage).into_iter().flatten().enumerate();
        buffers.fold(0, |word, (at, buffer)| word | u64::from(buffer.returned % 2) << at)
    }

    /// Returns whether the writer says that it waits for room.
    pub(crate) const fn says_wanted(&self) -> bool {
        self.wants.said
    }

    pub(crate) fn overfull(&self) -> bool {
        self.ring.taken - self.ring.read > self.ring.slots
    }

    /// Returns a buffer; a frame of the liar may name one that does not exist.
    pub(crate) fn buffer(&self, usage: Use, at: usize) -> Option<&Buffer> {
        self.buffers[usage as usize].get(at)
    }

    /// Takes a buffer that the writer knows to be free.
    pub(crate) fn borrow(&mut self, usage: Use, content: Id) -> Option<usize> {
        let buffers = &mut self.buffers[usage as usize];
        let at = buffers.iter().position(Buffer::is_free)?;
        buffers[at].lend(content);
        Some(at)
    }

    /// Returns whether the writer knows of a free buffer.
    pub(crate) fn has_free(&self, usage: Use) -> bool {
        self.buffers[usage as usize].iter().any(Buffer::is_free)
    }

    /// Returns whether the slots are free that senders want, by the size of the ring and the most that it can have free.
    pub(crate) fn has_slots(&self, wanted: impl FnOnce(u32, u32) -> u32) -> bool {
        let (slots, kept) = (self.ring.slots, CONTROL_SLOTS as u64);
        let wanted = wanted(slots as u32, (slots - kept) as u32);
        self.ring.holds() + u64::from(wanted) + kept <= slots
    }

    /// Takes back a buffer that was not lent after all.
    pub(crate) fn unlend(&mut self, usage: Use, at: usize) {
        self.buffers[usage as usize][at].lent -= 1;
    }

    /// Returns a buffer for the reader, if the reader had it: whether it has been returned an odd number of times.
    pub(crate) fn give_back(&mut self, usage: Use, at: usize) -> Option<bool> {
        let buffer = self.buffers[usage as usize].get_mut(at).filter(|buffer| !buffer.is_back())?;
        buffer.returned += 1;
        Some(!buffer.returned.is_multiple_of(2))
    }

    /// Returns the number of buffers that are lent and not known to be returned.
    pub(crate) fn lent(&self) -> usize {
        self.buffers.iter().flatten().filter(|buffer| !buffer.is_free()).count()
    }
}

impl Buffer {
    const fn lend(&mut self, content: Id) {
        self.content = content;
        self.lent += 1;
    }
}
