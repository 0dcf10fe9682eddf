//! Shipping over a byte stream: the slots of a lane in their order, and the bytes of payloads before the frames that
//! name them.
//!
//! The product's own [`Backlog`] decides which frames let others pass. A frame stays in the lane until its
//! reader is known to have read it.

use std::collections::VecDeque;

use upbeat_core::frame::{Flags, Head, Placed};
use upbeat_core::stream::{Backlog, Chunk, RewrittenFrame, ShipTime, StreamLoad, given_up};

use super::{Frame, Packet, Wire};
use crate::random::Random;

/// Bytes of the longest payload that is shipped; only a liar names a longer one.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

/// The content of consecutive slots of a lane.
#[derive(Clone, Copy, Debug)]
enum Slots {
    Frame(Frame),
    /// The slots of a frame that was deferred: their number.
    Padding(u64),
}

impl Slots {
    fn count(&self) -> u64 {
        match self {
            Slots::Frame(frame) => frame.slots(),
            Slots::Padding(count) => *count,
        }
    }
}

/// The result of one step of shipping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shipped {
    /// There is nothing to ship, or no connection.
    Nothing,
    Something,
    /// A frame was deferred.
    Deferred,
    /// A frame passed the deferred ones.
    Passed,
    /// A deferred call was written again although its caller has given it up.
    GivenUp,
}

impl Shipped {
    /// Returns this result, or that of `other` if this step did nothing.
    fn or(self, other: impl FnOnce() -> Shipped) -> Shipped {
        if self == Shipped::Nothing { other() } else { self }
    }

    /// Takes a step, except in `times` cases of a thousand.
    fn unless(random: &mut Random, times: u64, what: impl FnOnce() -> Shipped) -> Shipped {
        if random.permille(times) { Shipped::Nothing } else { what() }
    }
}

/// A lane that is shipped.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The slots that the reader is not known to have read, with the position of the end of each entry.
    lane: VecDeque<(u64, Slots)>,
    /// Slots that were shipped.
    shipped: u64,
    backlog: Backlog<Frame>,
    /// The place of the next frame's payload, and how many bytes of it were shipped.
    lent: Option<(Placed, u32)>,
}

impl Frame {
    /// Returns the frame that replaces this one if its caller has given it up and `shipped` bytes of its payload are
    /// shipped.
    fn given_up(&self, shipped: u32) -> Frame {
        let Some((words, given)) = given_up(self.words, &self.extensions, shipped) else {
            return *self;
        };
        let mut extensions = [0; 5];
        extensions.iter_mut().zip(given).for_each(|(to, from)| *to = from);
        Frame { words, extensions, ..*self }
    }
}

impl Outgoing {
    /// Writes a frame that ends at slot `end`.
    pub(super) fn write(&mut self, end: u64, frame: Frame) {
        self.lane.push_back((end, Slots::Frame(frame)));
    }

    /// Drops the first slots, of which `read` were read in all.
    pub(super) fn pass(&mut self, read: u64) {
        while self.lane.front().is_some_and(|(end, _)| *end <= read) {
            self.lane.pop_front();
        }
    }

    /// Forgets the connection.
    pub(super) fn forget(&mut self) {
        self.backlog.again();
        self.lent = None;
    }

    /// Continues behind `position` slots. None if the slots behind them are gone.
    pub(super) fn again(&mut self, position: u64) -> Option<()> {
        let first = self.lane.front().map(|(end, slots)| end - slots.count());
        let has = position <= self.shipped && first.is_none_or(|first| first <= position);
        self.shipped = position;
        has.then_some(())
    }
}

impl Wire {
    /// Ships the next bytes of a payload, or the next slots, as the product does. A connection that is `busy` has not
    /// taken the bytes that it was given.
    pub(crate) fn ship(&mut self, busy: bool, random: &mut Random) -> Shipped {
        if !self.stream || self.broken {
            return Shipped::Nothing;
        }
        // A record of the peer's has deferred frames written again before the lane is shipped.
        let first = Shipped::unless(random, 700, || self.write_again());
        if first != Shipped::Nothing {
            return first;
        }
        if let Some((placed, done)) = self.outgoing.lent
            && let Some(chunk) = Chunk::next(placed, done)
        {
            self.outgoing.lent = Some((placed, done + chunk.bytes));
            self.push(Packet::Chunk(chunk));
            return Shipped::Something;
        }
        // One push of the product ends after a number of bytes, or at a payload.
        let first = match self.outgoing.lent {
            None => Shipped::unless(random, 700, || self.ship_deferred()),
            Some(_) => Shipped::Nothing,
        };
        first.or(|| self.ship_slots(busy)).or(|| self.write_again()).or(|| self.ship_deferred())
    }

    /// Whether frames are deferred.
    pub(crate) fn defers(&self) -> bool {
        self.outgoing.backlog.chunk().is_some() || self.outgoing.backlog.due().is_some()
    }

    /// Ships the next slots, or finds the place of their payload. Does nothing if there are none, or if
    /// no more may be deferred.
    fn ship_slots(&mut self, busy: bool) -> Shipped {
        let mut done = if self.defers() { Shipped::Passed } else { Shipped::Something };
        let Outgoing { lane, shipped, backlog, lent } = &mut self.outgoing;
        let at = lane.partition_point(|(end, _)| *end <= *shipped);
        let Some((end, slots)) = lane.get_mut(at) else { return Shipped::Nothing };
        let packet = match *slots {
            Slots::Padding(count) => {
                done = Shipped::Something;
                Packet::Padding(count)
            }
            Slots::Frame(frame) if lent.take().is_some() => Packet::Frame(frame),
            Slots::Frame(frame) => {
                let placed = placed(&frame).filter(|placed| placed.len <= PAYLOAD_BYTES_MAX);
                let load = StreamLoad { busy, all_read: self.ring.seen == *shipped };
                match backlog.turn(*shipped, frame.words, placed, || load) {
                    ShipTime::Now if placed.is_some() => {
                        *lent = placed.map(|placed| (placed, 0));
                        return done;
                    }
                    ShipTime::Now => Packet::Frame(frame),
                    ShipTime::Bare => {
                        done = Shipped::Something;
                        Packet::Frame(frame)
                    }
                    ShipTime::Later => {
                        done = Shipped::Deferred;
                        backlog.defer(frame.words, placed, frame);
                        *slots = Slots::Padding(frame.slots());
                        Packet::Padding(frame.slots())
                    }
                    ShipTime::Blocked => return Shipped::Nothing,
                }
            }
        };
        *shipped = *end;
        self.push(packet);
        done
    }

    /// Writes the first deferred frame into the lane again, if its turn has come and there is room.
    fn write_again(&mut self) -> Shipped {
        let Some(RewrittenFrame { frame, given_up }) = self.outgoing.backlog.due() else {
            return Shipped::Nothing;
        };
        let frame = given_up.map_or(*frame, |shipped| frame.given_up(shipped));
        let shipped = if given_up.is_some() { Shipped::GivenUp } else { Shipped::Something };
        if !self.fits(&frame) {
            return Shipped::Nothing;
        }
        self.outgoing.backlog.written(self.ring.taken);
        self.write(frame);
        shipped
    }

    /// Ships bytes of the first deferred frame's payload.
    fn ship_deferred(&mut self) -> Shipped {
        let Some(chunk) = self.outgoing.backlog.chunk() else { return Shipped::Nothing };
        self.outgoing.backlog.shipped(chunk.bytes);
        self.push(Packet::Chunk(chunk));
        Shipped::Something
    }

    /// Bytes of a buffer have come.
    pub(super) fn take(&mut self, chunk: Chunk) {
        let Some(buffer) = self.place(chunk.slab, chunk.index) else { return };
        if chunk.at == 0 || chunk.at == buffer.came {
            buffer.came = chunk.at + chunk.bytes;
        }
    }

    /// Returns whether the payload of a frame has arrived, if it goes over a byte stream. The payload is read once.
    pub(super) fn has_payload(&mut self, frame: &Frame) -> bool {
        let Some(placed) = placed(frame).filter(|_| self.stream) else { return true };
        let buffer = self.place(placed.slab, placed.index.into());
        buffer.is_some_and(|buffer| std::mem::take(&mut buffer.came) >= placed.len)
    }

    fn place(&mut self, slab: u16, index: u32) -> Option<&mut super::Buffer> {
        self.buffers.get_mut(usize::from(slab))?.get_mut(index as usize)
    }
}

/// Returns the place of a frame's payload, if the frame does not carry it.
fn placed(frame: &Frame) -> Option<Placed> {
    let at = Head::parse(frame.words).ok()?.flags.offset_of(Flags::PLACED)?;
    Some(Placed::from_u64(frame.extensions[at as usize / 8]))
}
