//! What carries a session: one direction each. A lane is a ring of slots whose last ones are for
//! replies and control, beside words that are read at any time; a byte stream brings what was
//! written after a while. Neither loses, doubles or reorders what is in it.

use std::collections::VecDeque;

use upbeat_core::frame::{FailCode, Head, Kind};
use upbeat_core::limits::{CONTROL_SLOTS, HEAD_BYTES};

use crate::check::Id;
use crate::mutant::{Own, mutated};

/// What stands behind a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// Arguments, or their place in their sender's buffers.
    Request(Id),
    Result(Id),
    Failure(FailCode),
    /// Of what its caller gives up.
    Cancel(Id),
    /// Of what needs more time, and of what is given it, since when.
    Extend(Id),
    Extended(Id, u64),
}

/// A frame as it is on the way: words, the extensions in the order of their flags, the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) words: [u64; 3],
    pub(crate) extensions: [u64; 5],
    pub(crate) body: Body,
    /// When it was written, which nobody reads but the checker.
    pub(crate) written: u64,
}

/// What goes over a wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Frame(Frame),
    /// Asks for progress beyond this number. Of byte streams alone, and the world's own.
    Inquiry(u64),
    /// The answer; the progress itself rides on everything.
    Progress,
}

impl What {
    /// Whether it must leave the last room to others.
    pub(crate) fn is_request(&self) -> bool {
        match self {
            What::Frame(frame) => {
                Kind::from_byte((frame.words[0] >> 8) as u8).is_some_and(Kind::is_request)
            }
            _ => false,
        }
    }

    /// Whether it answers who has asked for time.
    pub(crate) fn is_extended(&self) -> bool {
        matches!(self, What::Frame(Frame { body: Body::Extended(..), .. }))
    }

    fn cost(&self, stream: bool) -> usize {
        let len = match self {
            What::Frame(frame) => Head::len_in(&frame.words),
            _ => 8,
        };
        match stream {
            true => HEAD_BYTES + len as usize,
            false => upbeat_core::frame::slots(len) as usize,
        }
    }
}

/// One direction of a session.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) session: u64,
    pub(crate) stream: bool,
    /// What is in it, with the progress that rides on it.
    pub(crate) packets: VecDeque<(What, u64)>,
    /// How many of them have arrived; in a lane all.
    pub(crate) arrived: usize,
    /// Slots or bytes that are taken.
    taken: usize,
    /// Of those, what was read and is not said to be free yet.
    read: usize,
    room: usize,
    /// What the *reader* says: how many requests it has accepted. Memory, seen at once.
    pub(crate) accepted: u64,
    /// What the *writer* says: that it waits for progress.
    pub(crate) wants: bool,
    /// Buffers of the *writer's*: what is in each, and whether the reader has returned it.
    pub(crate) buffers: Vec<Buffer>,
    /// Others, for answers, which must not wait behind requests.
    pub(crate) answers: Vec<Buffer>,
}

/// A buffer of a sender's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) content: Id,
    pub(crate) lent: bool,
    pub(crate) returned: bool,
}

impl Wire {
    pub(crate) fn new(session: u64, stream: bool, room: usize, buffers: usize) -> Wire {
        Wire {
            session,
            stream,
            packets: VecDeque::new(),
            arrived: 0,
            taken: 0,
            read: 0,
            room,
            accepted: 0,
            wants: false,
            buffers: vec![Buffer::default(); buffers],
            answers: vec![Buffer::default(); buffers],
        }
    }

    /// Whether there is room for it.
    pub(crate) fn fits(&self, what: &What) -> bool {
        let kept = match (what.is_request(), self.stream) {
            (true, false) => CONTROL_SLOTS,
            // A writer may always write on while nothing is under way.
            (_, true) if self.packets.is_empty() => return true,
            _ => 0,
        };
        self.taken + what.cost(self.stream) + kept <= self.room
    }

    pub(crate) fn write(&mut self, what: What, progress: u64) {
        self.taken += what.cost(self.stream);
        self.packets.push_back((what, progress));
        if !self.stream {
            self.arrived = self.packets.len();
        }
    }

    /// What comes next, if it has arrived.
    pub(crate) fn read(&mut self) -> Option<(What, u64)> {
        self.arrived = self.arrived.checked_sub(1)?;
        let (what, progress) = self.packets.pop_front()?;
        self.read += what.cost(self.stream);
        Some((what, progress))
    }

    /// The reader says how far it is: in the ring at once, of what it has accepted when that is
    /// so much, or when the writer waits for it. Gives whether the writer sees anything new.
    pub(crate) fn publish(&mut self, accepted: u64, much: u64) -> bool {
        let read = std::mem::take(&mut self.read);
        self.taken -= read;
        let wanted = self.wants && !mutated(Own::WishUnheard);
        let shown = wanted || accepted.abs_diff(self.accepted) >= much;
        let before = if shown { std::mem::replace(&mut self.accepted, accepted) } else { accepted };
        read != 0 || before != accepted
    }

    pub(crate) fn overfull(&self) -> bool {
        !self.stream && self.taken > self.room
    }

    /// A buffer that is free, as far as is known; looks for returned ones only when none is.
    pub(crate) fn borrow(&mut self, content: Id, shared: bool) -> Option<usize> {
        borrow(&mut self.buffers, content, shared)
    }

    /// The same for an answer.
    pub(crate) fn borrow_answer(&mut self, content: Id) -> Option<usize> {
        borrow(&mut self.answers, content, false)
    }

    /// A buffer of its own for a long payload.
    pub(crate) fn borrow_long(&mut self, content: Id, keep: usize) -> usize {
        let free = |buffer: &Buffer| !buffer.lent || buffer.returned;
        let at = match self.buffers.iter().skip(keep).position(free) {
            Some(at) => keep + at,
            None => {
                self.buffers.push(Buffer::default());
                self.buffers.len() - 1
            }
        };
        self.buffers[at] = Buffer { content, lent: true, returned: false };
        at
    }

    /// Buffers that are lent and have not come back.
    pub(crate) fn lent(&self) -> usize {
        let buffers = self.buffers.iter().chain(&self.answers);
        buffers.filter(|buffer| buffer.lent && !buffer.returned).count()
    }
}

fn borrow(buffers: &mut [Buffer], content: Id, shared: bool) -> Option<usize> {
    let free = |buffers: &[Buffer]| buffers.iter().position(|buffer| !buffer.lent);
    let at = match free(buffers) {
        Some(at) => at,
        None => {
            for buffer in buffers.iter_mut().filter(|buffer| buffer.returned || shared) {
                buffer.lent = false;
            }
            free(buffers)?
        }
    };
    buffers[at] = Buffer { content, lent: true, returned: false };
    Some(at)
}
