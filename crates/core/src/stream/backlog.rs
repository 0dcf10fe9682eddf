//! Two priorities in one lane: frames that nobody orders with requests pass the bytes of long payloads.
//!
//! A side ships the frames of its lane in their order. A frame whose payload is long, or comes while the connection
//! takes no more, is *deferred*: padding takes its place in the lane, the bytes of its payload are shipped in chunks,
//! and behind the last one the frame is written into the lane again. Answers, cancels and credits are shipped between
//! the chunks. Requests, and frames that belong to one, keep their order: while a frame is deferred, they are
//! deferred behind it. A cancel waits for its call, and stamps stay behind their message.
//!
//! A call that is cancelled while it is deferred ships no more of its payload. Its frame still comes, in its turn, for
//! both sides count requests and its buffer is to come back: with no time left, so that its callee refuses it unrun
//! ([`given_up`]).
//!
//! Frames, their payloads and the lane are the owner's. Positions are counts of slots of its lane. The invariant: each
//! frame is shipped once over a connection, requests in the order in which they were written first, and copies of no
//! more than [`DEFERRED_BYTES_MAX`] and a few frames are kept.

use super::Chunk;
use crate::frame::{Flags, Head, Kind, Placed, slots};
use crate::limits::{CHUNK_BYTES_MAX, DEFERRED_BYTES_MAX, EXTENSION_BYTES, SLOT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// When the next frame of the lane is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now, behind the bytes of its payload, where those lie in a buffer.
    Now,
    /// Now: the bytes of its payload have been shipped.
    Bare,
    /// Later: call [`Backlog::defer`].
    Later,
    /// Not yet, nor is what stands behind it: as much is deferred as may be.
    Blocked,
}

/// How the connection and the lane stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The connection has not taken all that was given to it.
    pub busy: bool,
    /// The peer has read all that was shipped: it frees no slot of the lane before more is shipped.
    pub all_read: bool,
}

/// The deferred frames of one side. Ask [`Backlog::turn`] for each frame of the lane; ship the [`Backlog::chunk`]s;
/// write what is [due](Backlog::due) into the lane again. Call [`Backlog::again`] when the connection is gone.
#[derive(Debug)]
pub struct Backlog<F> {
    /// None while nothing is deferred, so that an idle session keeps no memory for it.
    queues: Option<Box<Queues<F>>>,
    /// Up to here frames are shipped where they stand, over whatever connection.
    decided: u64,
    /// Whether the last message was deferred: its stamps follow it.
    last_deferred: bool,
}

#[derive(Debug)]
struct Queues<F> {
    line: VecDeque<Deferred<F>>,
    /// Bytes of slots that the frames of the line took.
    bytes: usize,
    /// Bytes of the first frame's payload that were shipped.
    done: u32,
    /// Frames that were written into the lane again and have not been shipped since.
    back: VecDeque<Back>,
}

#[derive(Debug)]
struct Deferred<F> {
    /// The number of the call that the frame begins.
    call: Option<u64>,
    /// Whether its callee refuses it when no time is left for it.
    expires: bool,
    /// The slot behind the frame where it stood first.
    until: u64,
    /// Where its payload lies: of one that is given up, as much of it as is shipped.
    placed: Option<Placed>,
    given_up: bool,
    bytes: usize,
    frame: F,
}

/// A frame that is to be written into the lane again.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<'a, F> {
    /// The frame, as it was deferred.
    pub frame: &'a F,
    /// Bytes of its payload that were shipped, if its caller has given it up: it is written as [`given_up`] says.
    pub given_up: Option<u32>,
}

#[derive(Debug)]
struct Back {
    position: u64,
    call: Option<u64>,
    until: u64,
    /// Whether the bytes of its payload were shipped over this connection.
    whole: bool,
}

impl<F> Default for Backlog<F> {
    fn default() -> Backlog<F> {
        Backlog { queues: None, decided: 0, last_deferred: false }
    }
}

impl<F> Default for Queues<F> {
    fn default() -> Queues<F> {
        Queues { line: VecDeque::new(), bytes: 0, done: 0, back: VecDeque::new() }
    }
}

impl<F> Queues<F> {
    fn chunk(&self) -> Option<Chunk> {
        Chunk::next(self.line.front()?.placed?, self.done)
    }

    /// Whether all of the first frame's payload was shipped.
    fn is_due(&self) -> bool {
        let has_gone = self.chunk().is_none() || mutated(Mutant::DeferredEarly);
        !self.line.is_empty() && has_gone
    }

    /// Whether the call of this number is deferred, or was written into the lane again and not shipped.
    fn has_call(&self, call: u64) -> bool {
        let calls = self.line.iter().map(|each| each.call);
        let mut calls = calls.chain(self.back.iter().map(|back| back.call));
        calls.any(|each| each == Some(call))
    }
}

impl<F> Backlog<F> {
    /// Returns when the frame with these words is shipped, which stands at this position and whose payload lies in a
    /// buffer if it is `placed`. It is asked once for each frame over a connection, or again after [`Turn::Blocked`].
    #[inline]
    pub fn turn(
        &mut self,
        position: u64,
        words: [u64; 3],
        placed: Option<Placed>,
        load: impl FnOnce() -> Load,
    ) -> Turn {
        if placed.is_none() && self.ships_short(position) {
            return Turn::Now;
        }
        self.rare_turn(position, words, placed, load())
    }

    /// Notes that the frame at this position is shipped now, whose payload lies in no buffer. Returns false where
    /// frames are deferred: then [`Backlog::turn`] says when it is shipped.
    #[inline(always)]
    pub fn ships_short(&mut self, position: u64) -> bool {
        let ships = self.queues.is_none();
        if ships {
            self.decided = self.decided.max(position + 1);
            self.last_deferred = false;
        }
        ships
    }

    #[cold]
    fn rare_turn(
        &mut self,
        position: u64,
        words: [u64; 3],
        placed: Option<Placed>,
        load: Load,
    ) -> Turn {
        // It was shipped where it stands, over a connection that is gone.
        if position < self.decided && !mutated(Mutant::DeferredTwice) {
            return Turn::Now;
        }
        if let Some(whole) = self.take_back(position) {
            self.decided = position + 1;
            return if whole { Turn::Bare } else { Turn::Now };
        }
        if Head::kind_in(&words) == Some(Kind::Cancel) {
            self.cancelled(words[1]);
        }
        let stands = self.queues.is_none();
        let (bytes, is_due) =
            self.queues.as_ref().map_or((0, false), |queues| (queues.bytes, queues.is_due()));
        let is_long =
            placed.is_some_and(|placed| load.busy || placed.len as usize > CHUNK_BYTES_MAX);
        let turn = if self.passes(words, placed) || stands && !is_long {
            Turn::Now
        } else if bytes < DEFERRED_BYTES_MAX || load.all_read && is_due {
            Turn::Later
        } else {
            return Turn::Blocked;
        };
        if Head::kind_in(&words) != Some(Kind::Stamps) {
            self.last_deferred = turn == Turn::Later;
        }
        self.decided = position + 1;
        turn
    }

    /// A call is cancelled: if it is deferred, no more of its payload is shipped.
    fn cancelled(&mut self, call: u64) {
        let Some(Queues { line, done, .. }) = self.queues.as_deref_mut() else { return };
        let mut calls = line.iter_mut().enumerate();
        // Operations are answered by channels, which know no time that is over.
        let is_it = |each: &Deferred<F>| each.call == Some(call) && each.expires;
        if let Some((at, each)) = calls.find(|(_, each)| is_it(each))
            && let Some(placed) = &mut each.placed
        {
            placed.len = if at == 0 { *done } else { 0 };
            each.given_up = true;
        }
    }

    /// Takes out the frame that was written again at this position: whether its payload was shipped.
    fn take_back(&mut self, position: u64) -> Option<bool> {
        let queues = self.queues.as_mut()?;
        let back = queues.back.pop_front_if(|back| back.position == position)?;
        if queues.line.is_empty() && queues.back.is_empty() {
            self.queues = None;
        }
        Some(back.whole)
    }

    /// Whether a frame passes those that are deferred.
    fn passes(&self, words: [u64; 3], placed: Option<Placed>) -> bool {
        match Head::kind_in(&words) {
            Some(Kind::Reply | Kind::Failed) => placed.is_none(),
            Some(Kind::Cancel) => {
                let is_deferred =
                    self.queues.as_ref().is_some_and(|queues| queues.has_call(words[1]));
                !is_deferred || mutated(Mutant::DeferredCancelPasses)
            }
            Some(Kind::Nack | Kind::Grant | Kind::Extend | Kind::Extended) => true,
            // They are about the lane, and what names a slab stands behind its frame.
            Some(Kind::Switch | Kind::Slab | Kind::Retire) => true,
            Some(Kind::Stamps) => !self.last_deferred,
            Some(
                Kind::Call
                | Kind::Oneway
                | Kind::Operation
                | Kind::Reserve
                | Kind::Withdraw
                | Kind::Control
                | Kind::Goodbye,
            )
            | None => mutated(Mutant::DeferredPassed) && placed.is_none(),
        }
    }

    /// Keeps a frame whose turn is [later](Turn::Later). Padding takes its place in the lane.
    pub fn defer(&mut self, words: [u64; 3], placed: Option<Placed>, frame: F) {
        let kind = Head::kind_in(&words);
        let call = kind.is_some_and(Kind::is_answered).then_some(words[1]);
        let expires = kind == Some(Kind::Call);
        let span = slots(Head::len_in(&words));
        // Its turn was asked for last.
        let (bytes, until) = (span as usize * SLOT_BYTES, self.decided - 1 + u64::from(span));
        let queues = self.queues.get_or_insert_default();
        queues.bytes += bytes;
        let each = Deferred { call, expires, until, placed, given_up: false, bytes, frame };
        match mutated(Mutant::DeferredLast) && queues.done == 0 {
            true => queues.line.push_front(each),
            false => queues.line.push_back(each),
        }
    }

    /// Whether the frame that stood before this slot of the lane was deferred and is not shipped.
    pub fn is_deferred(&self, until: u64) -> bool {
        let Some(queues) = &self.queues else { return false };
        let line = queues.line.iter().map(|each| each.until);
        let mut all = line.chain(queues.back.iter().map(|back| back.until));
        all.any(|each| each == until)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.line.is_empty())
    }

    /// Returns the bytes that are shipped next of the first frame's payload: then call [`Backlog::shipped`].
    pub fn chunk(&self) -> Option<Chunk> {
        self.queues.as_ref()?.chunk()
    }

    /// So many bytes of the first frame's payload are shipped.
    pub fn shipped(&mut self, bytes: u32) {
        if let Some(queues) = &mut self.queues {
            queues.done += bytes;
        }
    }

    /// Returns the first frame, if all of its payload was shipped: write it into the lane again, and call
    /// [`Backlog::written`].
    pub fn due(&self) -> Option<Due<'_, F>> {
        let queues = self.queues.as_ref().filter(|queues| queues.is_due())?;
        let first = queues.line.front()?;
        let given_up = first.placed.filter(|_| first.given_up).map(|placed| placed.len);
        Some(Due { frame: &first.frame, given_up })
    }

    /// The frame that was due stands in the lane again, at this position.
    pub fn written(&mut self, position: u64) {
        let Some(queues) = &mut self.queues else { return };
        let Some(Deferred { call, until, bytes, .. }) = queues.line.pop_front() else { return };
        queues.bytes -= bytes;
        queues.done = 0;
        queues.back.push_back(Back { position, call, until, whole: true });
    }

    /// The connection is gone, and bytes of payloads with it. The lane is shipped again from where the peer has got
    /// it, with all bytes of buffers that its frames name.
    pub fn again(&mut self) {
        let Some(queues) = &mut self.queues else { return };
        if !mutated(Mutant::DeferredPartly) {
            queues.done = 0;
        }
        if !mutated(Mutant::DeferredBare) {
            queues.back.iter_mut().for_each(|back| back.whole = false);
        }
        if mutated(Mutant::DeferredForgotten) {
            queues.line.clear();
            queues.bytes = 0;
        }
    }
}

/// Returns the words and the extensions of a call that its caller has given up, and of whose payload so many bytes are
/// shipped: no time is left for it. None if the words are not those of a call whose payload lies in a buffer.
pub fn given_up(words: [u64; 3], extensions: &[u64], shipped: u32) -> Option<([u64; 3], Vec<u64>)> {
    let head = Head::parse(words).ok().filter(|head| head.kind == Kind::Call)?;
    let mut extensions = extensions.to_vec();
    let at = |flags: Flags, of: Flags| Some(flags.offset_of(of)? as usize / EXTENSION_BYTES);
    let placed = extensions.get_mut(at(head.flags, Flags::PLACED)?)?;
    *placed = Placed { len: shipped, ..Placed::from_u64(*placed) }.as_u64();
    match at(head.flags, Flags::DEADLINE) {
        _ if mutated(Mutant::GivenUpRuns) => return Some((words, extensions)),
        Some(at) => *extensions.get_mut(at)? = 0,
        None => extensions.insert(0, 0),
    }
    let flags = head.flags.with(Flags::DEADLINE);
    Some((Head { flags, len: flags.extension_bytes(), ..head }.words(), extensions))
}

#[cfg(test)]
mod tests;
