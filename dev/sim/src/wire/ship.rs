//! What goes over ordered bytes: the slots of a lane in their order, and the bytes of payloads before the frames that
//! name them.
//!
//! Which frames let others pass is decided by the product's own [`Backlog`]. A frame stays in the lane until its
//! reader is known to have read it.

use std::collections::VecDeque;

use upbeat_core::frame::{Flags, Head, Placed};
use upbeat_core::stream::{Backlog, Chunk, Due, Load, Turn, given_up};

use super::{Frame, Packet, Wire};
use crate::random::Random;

/// Bytes of the longest payload that is shipped; who names a longer one lies.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

/// What stands in slots of a lane.
#[derive(Clone, Copy, Debug)]
enum Slots {
    Frame(Frame),
    /// Of a frame that was deferred: so many.
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

/// What a step of shipping did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shipped {
    /// There is nothing to ship, or no connection.
    Nothing,
    Something,
    /// A frame was deferred.
    Deferred,
    /// A frame passed those that are deferred.
    Passed,
    /// A deferred call was written again that its caller has given up.
    GivenUp,
}

impl Shipped {
    /// What comes of one way, or else of another.
    fn or(self, other: impl FnOnce() -> Shipped) -> Shipped {
        if self == Shipped::Nothing { other() } else { self }
    }

    /// The same, or else nothing in so many cases of a thousand.
    fn unless(random: &mut Random, times: u64, what: impl FnOnce() -> Shipped) -> Shipped {
        if random.permille(times) { Shipped::Nothing } else { what() }
    }
}

/// A lane that is shipped.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// What its reader is not known to have read, each with the slots up to its end.
    lane: VecDeque<(u64, Slots)>,
    /// Slots that were shipped.
    shipped: u64,
    backlog: Backlog<Frame>,
    /// Where the payload of the next frame lies, and how many bytes of it were shipped.
    lent: Option<(Placed, u32)>,
}

impl Frame {
    /// The frame that stands for it if its caller has given it up, and so many bytes of its payload are shipped.
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
    /// A frame is written that ends at this slot.
    pub(super) fn write(&mut self, end: u64, frame: Frame) {
        self.lane.push_back((end, Slots::Frame(frame)));
    }

    /// So many slots were read.
    pub(super) fn pass(&mut self, read: u64) {
        while self.lane.front().is_some_and(|(end, _)| *end <= read) {
            self.lane.pop_front();
        }
    }

    /// The connection is gone.
    pub(super) fn forget(&mut self) {
        self.backlog.again();
        self.lent = None;
    }

    /// Goes on behind so many slots. None if what stands behind them is not there any more.
    pub(super) fn again(&mut self, position: u64) -> Option<()> {
        let first = self.lane.front().map(|(end, slots)| end - slots.count());
        let has = position <= self.shipped && first.is_none_or(|first| first <= position);
        self.shipped = position;
        has.then_some(())
    }
}

impl Wire {
    /// Ships what comes next, as the product does: bytes of a payload, or slots. A connection that is `busy` has not
    /// taken what it was given.
    pub(crate) fn ship(&mut self, busy: bool, random: &mut Random) -> Shipped {
        if !self.stream || self.broken {
            return Shipped::Nothing;
        }
        // When something comes of the peer, deferred frames are written again before the lane is shipped.
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
        // A push ends behind so many bytes of frames, or at a payload.
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

    /// Ships the slots that come next, or finds out where their payload lies. Nothing if there are none, or as much
    /// is deferred as may be.
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
                let load = Load { busy, all_read: self.ring.seen == *shipped };
                match backlog.turn(*shipped, frame.words, placed, || load) {
                    Turn::Now if placed.is_some() => {
                        *lent = placed.map(|placed| (placed, 0));
                        return done;
                    }
                    Turn::Now => Packet::Frame(frame),
                    Turn::Bare => {
                        done = Shipped::Something;
                        Packet::Frame(frame)
                    }
                    Turn::Later => {
                        done = Shipped::Deferred;
                        backlog.defer(frame.words, placed, frame);
                        *slots = Slots::Padding(frame.slots());
                        Packet::Padding(frame.slots())
                    }
                    Turn::Blocked => return Shipped::Nothing,
                }
            }
        };
        *shipped = *end;
        self.push(packet);
        done
    }

    /// Writes the first deferred frame into the lane again, if its turn has come and there is room.
    fn write_again(&mut self) -> Shipped {
        let Some(Due { frame, given_up }) = self.outgoing.backlog.due() else {
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

    /// Whether the payload of a frame has come, where it goes over ordered bytes. It is read once.
    pub(super) fn has_payload(&mut self, frame: &Frame) -> bool {
        let Some(placed) = placed(frame).filter(|_| self.stream) else { return true };
        let buffer = self.place(placed.slab, placed.index.into());
        buffer.is_some_and(|buffer| std::mem::take(&mut buffer.came) >= placed.len)
    }

    fn place(&mut self, slab: u16, index: u32) -> Option<&mut super::Buffer> {
        self.buffers.get_mut(usize::from(slab))?.get_mut(index as usize)
    }
}

/// Where the payload of a frame lies that has none of its own.
fn placed(frame: &Frame) -> Option<Placed> {
    let at = Head::parse(frame.words).ok()?.flags.offset_of(Flags::PLACED)?;
    Some(Placed::from_u64(frame.extensions[at as usize / 8]))
}
