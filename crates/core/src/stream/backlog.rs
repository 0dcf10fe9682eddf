//! Two priorities in one lane: frames without an order against requests overtake the bytes of long payloads.
//!
//! A side ships the frames of its lane in order. A frame with a long payload, or one that comes while the
//! connection accepts no more bytes, is *deferred*: padding replaces it in the lane, its payload is shipped in
//! chunks, and after the last chunk the frame is written into the lane again. Replies, cancels and credits are
//! shipped between the chunks. Requests, and frames that belong to a request, keep their order: while a frame is
//! deferred, they are deferred behind it. A cancel waits for its call, and stamps stay behind their message.
//!
//! A call that is cancelled while it is deferred ships no more of its payload. Its frame is still shipped in its
//! turn, since both sides count requests and the buffer must be returned. The frame then has no time left, so its
//! callee refuses it without running it ([`given_up`]).
//!
//! The owner has the frames, their payloads and the lane. Positions are counts of slots of its lane. Invariant:
//! each frame is shipped once over a connection, and requests in the order in which they were first written. The
//! backlog keeps copies of at most [`DEFERRED_BYTES_MAX`] and a few frames.

use super::Chunk;
use crate::frame::{Flags, Head, Kind, Placed, slots};
use crate::limits::{CHUNK_BYTES_MAX, DEFERRED_BYTES_MAX, EXTENSION_BYTES, SLOT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The time at which the next frame of the lane is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipTime {
    /// The frame is shipped now, after the bytes of its payload if those lie in a buffer.
    Now,
    /// The frame is shipped now; the bytes of its payload were shipped before.
    Bare,
    /// The frame is shipped later: call [`Backlog::defer`].
    Later,
    /// Neither the frame nor any behind it is shipped now, because too much is deferred.
    Blocked,
}

/// The state of the connection and of the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLoad {
    /// Whether the connection has not yet accepted all bytes that were given to it.
    pub busy: bool,
    /// Whether the peer has read all that was shipped, so that it frees no slot before more is shipped.
    pub all_read: bool,
}

/// The deferred frames of one side. The owner asks [`Backlog::turn`] for each frame of the lane, ships the
/// [`Backlog::chunk`]s, and writes the frame that is [due](Backlog::due) into the lane again. It calls
/// [`Backlog::again`] when the connection is lost.
#[derive(Debug)]
pub struct Backlog<F> {
    /// The queues, or none while nothing is deferred, so that an idle session needs no memory for them.
    queues: Option<Box<Queues<F>>>,
    /// The position up to which frames are shipped in place over any connection.
    decided: u64,
    /// Whether the last message was deferred, so that its stamps follow it.
    last_deferred: bool,
}

#[derive(Debug)]
struct Queues<F> {
    line: VecDeque<Deferred<F>>,
    /// The bytes of the slots that the queued frames took.
    bytes: usize,
    /// The bytes of the first frame's payload that were shipped.
    done: u32,
    /// The frames that were written into the lane again and not shipped since.
    back: VecDeque<Rewritten>,
}

#[derive(Debug)]
struct Deferred<F> {
    /// The number of the call that the frame begins.
    call: Option<u64>,
    /// Whether the callee refuses the frame when no time is left.
    expires: bool,
    /// The slot behind the frame at its first position.
    until: u64,
    /// The place of the payload; for a call that is given up, of the shipped part.
    placed: Option<Placed>,
    given_up: bool,
    bytes: usize,
    frame: F,
}

/// A frame that must be written into the lane again.
#[derive(Debug, PartialEq, Eq)]
pub struct RewrittenFrame<'a, F> {
    /// The deferred frame.
    pub frame: &'a F,
    /// The shipped bytes of the payload if the caller has given up the call. The frame is then rewritten by
    /// [`given_up`].
    pub given_up: Option<u32>,
}

#[derive(Debug)]
struct Rewritten {
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

    /// Returns whether all of the first frame's payload was shipped.
    fn is_due(&self) -> bool {
        let has_gone = self.chunk().is_none() || mutated(Mutant::DeferredEarly);
        !self.line.is_empty() && has_gone
    }

    /// Returns whether the call of this number is deferred, or was written into the lane again and not shipped.
    fn has_call(&self, call: u64) -> bool {
        let calls = self.line.iter().map(|each| each.call);
        let mut calls = calls.chain(self.back.iter().map(|back| back.call));
        calls.any(|each| each == Some(call))
    }
}

impl<F> Backlog<F> {
    /// Returns when the frame at this position is shipped. Its payload lies in a buffer if it is `placed`. The
    /// owner asks once for each frame over a connection, and again after [`ShipTime::Blocked`].
    #[inline]
    pub fn turn(
        &mut self,
        position: u64,
        words: [u64; 3],
        placed: Option<Placed>,
        load: impl FnOnce() -> StreamLoad,
    ) -> ShipTime {
        if placed.is_none() && self.ships_short(position) {
            return ShipTime::Now;
        }
        self.rare_turn(position, words, placed, load())
    }

    /// Records that the frame at this position, whose payload lies in no buffer, is shipped now. Returns false if
    /// frames are deferred; the owner must then ask [`Backlog::turn`].
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
        load: StreamLoad,
    ) -> ShipTime {
        // The frame was shipped at this position over a lost connection.
        if position < self.decided && !mutated(Mutant::DeferredTwice) {
            return ShipTime::Now;
        }
        if let Some(whole) = self.take_rewritten(position) {
            self.decided = position + 1;
            return if whole { ShipTime::Bare } else { ShipTime::Now };
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
            ShipTime::Now
        } else if bytes < DEFERRED_BYTES_MAX || load.all_read && is_due {
            ShipTime::Later
        } else {
            return ShipTime::Blocked;
        };
        if Head::kind_in(&words) != Some(Kind::Stamps) {
            self.last_deferred = turn == ShipTime::Later;
        }
        self.decided = position + 1;
        turn
    }

    /// Handles the cancel of a call: if the call is deferred, no more of its payload is shipped.
    fn cancelled(&mut self, call: u64) {
        let Some(Queues { line, done, .. }) = self.queues.as_deref_mut() else { return };
        let mut calls = line.iter_mut().enumerate();
        // Channels answer operations, and know no expired time.
        let is_it = |each: &Deferred<F>| each.call == Some(call) && each.expires;
        if let Some((at, each)) = calls.find(|(_, each)| is_it(each))
            && let Some(placed) = &mut each.placed
        {
            placed.len = if at == 0 { *done } else { 0 };
            each.given_up = true;
        }
    }

    /// Removes the frame that was written again at this position, and returns whether its payload was shipped.
    fn take_rewritten(&mut self, position: u64) -> Option<bool> {
        let queues = self.queues.as_mut()?;
        let back = queues.back.pop_front_if(|back| back.position == position)?;
        if queues.line.is_empty() && queues.back.is_empty() {
            self.queues = None;
        }
        Some(back.whole)
    }

    /// Returns whether a frame overtakes the deferred ones.
    fn passes(&self, words: [u64; 3], placed: Option<Placed>) -> bool {
        match Head::kind_in(&words) {
            Some(Kind::Reply | Kind::Failed) => placed.is_none(),
            Some(Kind::Cancel) => {
                let is_deferred =
                    self.queues.as_ref().is_some_and(|queues| queues.has_call(words[1]));
                !is_deferred || mutated(Mutant::DeferredCancelPasses)
            }
            Some(Kind::Nack | Kind::Grant | Kind::Extend | Kind::Extended) => true,
            // These frames concern the lane, and a frame that names a slab comes after its announcement.
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

    /// Keeps a frame whose turn is [later](ShipTime::Later). Padding replaces it in the lane.
    pub fn defer(&mut self, words: [u64; 3], placed: Option<Placed>, frame: F) {
        let kind = Head::kind_in(&words);
        let call = kind.is_some_and(Kind::is_answered).then_some(words[1]);
        let expires = kind == Some(Kind::Call);
        let span = slots(Head::len_in(&words));
        // The last call of `turn` was about this frame.
        let (bytes, until) = (span as usize * SLOT_BYTES, self.decided - 1 + u64::from(span));
        let queues = self.queues.get_or_insert_default();
        queues.bytes += bytes;
        let each = Deferred { call, expires, until, placed, given_up: false, bytes, frame };
        match mutated(Mutant::DeferredLast) && queues.done == 0 {
            true => queues.line.push_front(each),
            false => queues.line.push_back(each),
        }
    }

    /// Returns whether the frame before this slot of the lane was deferred and is not shipped.
    pub fn is_deferred(&self, until: u64) -> bool {
        let Some(queues) = &self.queues else { return false };
        let line = queues.line.iter().map(|each| each.until);
        let mut all = line.chain(queues.back.iter().map(|back| back.until));
        all.any(|each| each == until)
    }

    /// Returns whether every frame that was deferred is in the lane again.
    pub fn is_empty(&self) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.line.is_empty())
    }

    /// Returns the next chunk of the first frame's payload. The owner ships it and calls [`Backlog::shipped`].
    pub fn chunk(&self) -> Option<Chunk> {
        self.queues.as_ref()?.chunk()
    }

    /// Records that `bytes` bytes of the first frame's payload are shipped.
    pub fn shipped(&mut self, bytes: u32) {
        if let Some(queues) = &mut self.queues {
            queues.done += bytes;
        }
    }

    /// Returns the first frame if all of its payload was shipped. The owner writes it into the lane again and
    /// calls [`Backlog::written`].
    pub fn due(&self) -> Option<RewrittenFrame<'_, F>> {
        let queues = self.queues.as_ref().filter(|queues| queues.is_due())?;
        let first = queues.line.front()?;
        let given_up = first.placed.filter(|_| first.given_up).map(|placed| placed.len);
        Some(RewrittenFrame { frame: &first.frame, given_up })
    }

    /// Records that the frame that was due is in the lane again, at this position.
    pub fn written(&mut self, position: u64) {
        let Some(queues) = &mut self.queues else { return };
        let Some(Deferred { call, until, bytes, .. }) = queues.line.pop_front() else { return };
        queues.bytes -= bytes;
        queues.done = 0;
        queues.back.push_back(Rewritten { position, call, until, whole: true });
    }

    /// Handles the loss of the connection, and of the payload bytes on it. The lane is shipped again from the
    /// position that the peer has received, with all bytes of buffers that its frames name.
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

/// Returns the words and the extensions of a call that its caller has given up after `shipped` bytes of its
/// payload were shipped, with no time left. Returns none if the words are not those of a call with a payload in a
/// buffer.
pub fn given_up(words: [u64; 3], extensions: &[u64], shipped: u32) -> Option<([u64; 3], Vec<u64>)> {
    let head = Head::parse(words).ok().filter(|head| head.kind == Kind::Call)?;
    let mut extensions = extensions.to_vec();
    let at = |flags: Flags, of: Flags| Some(flags.offset_of(of)? as usize / EXTENSION_BYTES);
    let placed = extensions.get_mut(at(head.flags, Flags::PLACED)?)?;
    *placed = Placed { len: shipped, ..Placed::from_u64(*placed) }.as_u64();
    // Its context may not be shipped: nobody reads it.
    if let Some(at) = at(head.flags, Flags::CONTEXT) {
        *extensions.get_mut(at)? = 0;
    }
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
