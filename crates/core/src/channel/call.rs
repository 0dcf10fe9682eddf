//! The calls of a session: those that this side has open and those that it serves as tasks.
//!
//! A caller [`open`](CallTable::open)s a call and sends its frame under the number. Then either the
//! answer comes ([`answer`](CallTable::answer), and [`close`](CallTable::close) once the future has
//! its result; or both at once, [`take`](CallTable::take)), or the future is dropped
//! ([`abandon`](CallTable::abandon); the place stays taken until the callee has answered), or the
//! session is lost ([`drain`](CallTable::drain)). What waits (`W`) and what a served call is (`K`)
//! are the runtime's; so are results, timers and the sending of cancels.
//!
//! The invariant: a call is answered at most once, and an answer to an earlier use of a number is
//! never taken for one to a later use.

mod serving;

use alloc::vec::Vec;
use core::fmt;

use crate::fault::Rule;
use crate::frame::CallNumber;
use crate::limits::CALLS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};

pub use self::serving::Serving;

/// No place: the end of the free list.
const NIL: u32 = u32::MAX;

/// The open calls of one side of a session.
///
/// ```
/// use upbeat_core::channel::call::{Answered, CallTable};
///
/// let mut calls = CallTable::new();
/// let number = calls.open("the future that waits").unwrap();
/// assert!(matches!(calls.answer(number), Ok(Answered::Waiting(_))));
/// assert!(calls.answer(number).is_err());
/// assert_eq!(calls.close(number), Some("the future that waits"));
/// ```
#[derive(Debug)]
pub struct CallTable<W> {
    entries: Vec<Entry<W>>,
    /// The place that was freed last, whose line is the warmest.
    free: u32,
    len: u32,
}

#[derive(Debug)]
struct Entry<W> {
    /// The number of an open call that has no answer, so that one compare finds it. Otherwise the generation
    /// of the call that is here, or was here last, and instead of the place's own index the state below, or,
    /// of a free place, the next free one.
    number: CallNumber,
    /// Of a call that is open, or of the last one that was.
    waiter: W,
}

/// The states of a place that is taken and waits for no answer. They are above every place's index.
const ANSWERED: u32 = NIL - 2;
const ABANDONED: u32 = NIL - 1;

const _: () = assert!((CALLS_PER_SESSION_MAX as u64) < ANSWERED as u64);

/// An accepted answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered<'a, W> {
    /// To this waiter, whose call stays in the table until it is closed.
    Waiting(&'a mut W),
    /// To a call that was abandoned; its place is free again.
    Abandoned,
}

/// The remains of a call whose future was dropped.
#[derive(Debug, PartialEq, Eq)]
pub enum Abandon<W> {
    /// It was waiting: send the callee a cancel. The place stays taken until the callee answers.
    Cancel(W),
    /// Its answer had come; the place is free again.
    Answered(W),
    /// There is no such call, or it was abandoned before.
    Gone,
}

/// Every place of the table is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

impl fmt::Display for TableFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{CALLS_PER_SESSION_MAX} calls are open in this session, as many as may be: \
             wait for answers before calling again"
        )
    }
}

impl core::error::Error for TableFull {}

/// How a call ends that has no reply when its session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was never sent, so it has not run.
    NotSent,
    /// It was sent, so it may have run.
    Unknown,
}

impl Ending {
    /// Returns how a call ends that was sent or not.
    ///
    /// ```
    /// use upbeat_core::channel::call::Ending;
    ///
    /// assert_eq!(Ending::of(true), Ending::Unknown);
    /// assert_eq!(Ending::of(false), Ending::NotSent);
    /// ```
    pub fn of(is_sent: bool) -> Ending {
        match is_sent {
            true if mutated(Mutant::SentToldUnsent) => Ending::NotSent,
            false if mutated(Mutant::UnsentToldUnknown) => Ending::Unknown,
            true => Ending::Unknown,
            false => Ending::NotSent,
        }
    }
}

impl<W: Copy> CallTable<W> {
    /// A table without calls. It allocates when it grows, never in the steady state.
    pub const fn new() -> CallTable<W> {
        CallTable { entries: Vec::new(), free: NIL, len: 0 }
    }

    /// Calls that take a place: waiting, answered and not closed, abandoned and not answered.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no call takes a place.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Opens a call for `waiter`. The waiter is dropped if the table is full.
    #[inline]
    pub fn open(&mut self, waiter: W) -> Result<CallNumber, TableFull> {
        let index = self.free;
        // The end of the free list is beyond every place, so one check serves both.
        let Some(entry) = self.entries.get_mut(index as usize) else {
            return self.open_new(waiter);
        };
        self.free = entry.state();
        self.len += 1;
        let generation = match mutated(Mutant::GenerationReused) {
            true => entry.number.generation(),
            false => next_generation(entry.number.generation()),
        };
        *entry = Entry { number: CallNumber::new(index, generation), waiter };
        Ok(entry.number)
    }

    #[cold]
    #[inline(never)]
    fn open_new(&mut self, waiter: W) -> Result<CallNumber, TableFull> {
        let index = self.entries.len();
        if index >= CALLS_PER_SESSION_MAX {
            return Err(TableFull);
        }
        let number = CallNumber::new(index as u32, 1);
        self.entries.push(Entry { number, waiter });
        self.len += 1;
        Ok(number)
    }

    /// Takes the answer to a call, once. The waiter stays in the table until [`Self::close`].
    #[inline]
    pub fn answer(&mut self, call: CallNumber) -> Result<Answered<'_, W>, Rule> {
        let Some(entry) = self.entries.get_mut(call.index() as usize) else {
            return Err(not_open(call));
        };
        if entry.awaits(call) {
            if !mutated(Mutant::AnswerTwice) {
                entry.set_state(ANSWERED);
            }
            return Ok(Answered::Waiting(&mut entry.waiter));
        }
        if entry.number.generation() != call.generation() {
            return Err(entry.refusal(call));
        }
        match entry.state() {
            ABANDONED if mutated(Mutant::AbandonedStays) => Ok(Answered::Abandoned),
            ABANDONED => {
                entry.set_state(self.free);
                self.free = call.index();
                self.len -= 1;
                Ok(Answered::Abandoned)
            }
            _ => Err(entry.refusal(call)),
        }
    }

    /// Takes the answer to a call, once, and closes it: [`Self::answer`] and [`Self::close`] in
    /// one step, for a waiter that reads the answer where it lies. `None` if it was abandoned.
    #[inline]
    pub fn take(&mut self, call: CallNumber) -> Result<Option<W>, Rule> {
        let Some(entry) = self.entries.get_mut(call.index() as usize) else {
            return Err(not_open(call));
        };
        let is_other = entry.number.generation() != call.generation();
        if is_other && !mutated(Mutant::GenerationUnchecked)
            || entry.state() != call.index() && entry.state() != ABANDONED
        {
            return Err(entry.refusal(call));
        }
        if entry.state() == ABANDONED && mutated(Mutant::AbandonedStays) {
            return Ok(None);
        }
        Ok(self.release(call.index()))
    }

    /// Closes a call that was answered, or whose frame was never sent, and gives back its waiter.
    ///
    /// A call whose frame was sent and is not answered must be abandoned instead: its answer would
    /// be held against the peer. `None` if there is no such call, or it was abandoned.
    #[inline]
    pub fn close(&mut self, call: CallNumber) -> Option<W> {
        self.waiter_mut(call)?;
        self.release(call.index())
    }

    /// Gives up a call whose frame was sent. What to do next is in the answer.
    #[inline]
    pub fn abandon(&mut self, call: CallNumber) -> Abandon<W> {
        let Some(entry) = self.entries.get_mut(call.index() as usize) else {
            return Abandon::Gone;
        };
        let waiter = entry.waiter;
        if entry.awaits(call) {
            entry.set_state(ABANDONED);
            if mutated(Mutant::AbandonFrees) {
                self.release(call.index());
            }
            return Abandon::Cancel(waiter);
        }
        match entry.state() {
            ANSWERED if entry.number.generation() == call.generation() => {
                entry.set_state(ABANDONED);
                if !mutated(Mutant::AnsweredStays) {
                    self.release(call.index());
                }
                Abandon::Answered(waiter)
            }
            _ => Abandon::Gone,
        }
    }

    /// Returns the waiter of a call that is open and has no answer.
    #[inline(always)]
    pub fn waiting(&self, call: CallNumber) -> Option<W> {
        let entry = self.entries.get(call.index() as usize)?;
        entry.awaits(call).then_some(entry.waiter)
    }

    /// Takes the answer of a call that is open and has none, and closes it: [`Self::take`] where it is
    /// known that the call [waits](Self::waiting). Returns who waited.
    #[inline(always)]
    pub fn close_waiting(&mut self, call: CallNumber) -> Option<W> {
        let entry = self.entries.get_mut(call.index() as usize)?;
        if !entry.awaits(call) {
            return None;
        }
        entry.set_state(self.free);
        self.free = call.index();
        self.len -= 1;
        Some(entry.waiter)
    }

    /// The waiter of a call that is open or answered, and neither closed nor abandoned.
    #[inline]
    pub fn waiter_mut(&mut self, call: CallNumber) -> Option<&mut W> {
        let entry = self.entries.get_mut(call.index() as usize)?;
        let is_open = entry.state() == call.index() || entry.state() == ANSWERED;
        (is_open && entry.number.generation() == call.generation()).then_some(&mut entry.waiter)
    }

    /// Ends every call that has no answer, because none can come any more, and yields the waiters.
    ///
    /// Abandoned calls end silently; answered ones stay until they are closed. Calls that were not
    /// reached when the iterator is dropped stay open.
    pub fn drain(&mut self) -> impl Iterator<Item = (CallNumber, W)> + '_ {
        let mut index = 0;
        core::iter::from_fn(move || {
            loop {
                let entry = self.entries.get(index as usize)?;
                let call = CallNumber::new(index, entry.number.generation());
                let ends = entry.awaits(call) || entry.state() == ABANDONED;
                index += 1;
                if mutated(Mutant::DrainForgets) && index == 2 {
                    continue;
                }
                if ends && let Some(waiter) = self.release(call.index()) {
                    return Some((call, waiter));
                }
            }
        })
    }

    /// Frees a place that is taken.
    #[inline]
    fn release(&mut self, index: u32) -> Option<W> {
        let entry = &mut self.entries[index as usize];
        let old = entry.state();
        entry.set_state(self.free);
        self.free = index;
        self.len -= 1;
        (old == index || old == ANSWERED).then_some(entry.waiter)
    }
}

impl<W: Copy> Default for CallTable<W> {
    fn default() -> CallTable<W> {
        CallTable::new()
    }
}

impl<W> Entry<W> {
    /// Whether the call is here, open and without an answer.
    #[inline(always)]
    fn awaits(&self, call: CallNumber) -> bool {
        self.number == call
    }

    /// One of the states, or the index of this place or of the next free one.
    #[inline(always)]
    fn state(&self) -> u32 {
        self.number.index()
    }

    #[inline(always)]
    fn set_state(&mut self, state: u32) {
        self.number = CallNumber::new(state, self.number.generation());
    }

    /// The rule that an answer to `call` breaks here.
    #[cold]
    fn refusal(&self, call: CallNumber) -> Rule {
        let (index, generation) = (call.index(), call.generation());
        let open = self.number.generation();
        let is_free = self.state() != index && !matches!(self.state(), ANSWERED | ABANDONED);
        match open == generation {
            _ if is_free => not_open(call),
            true => Rule::AnsweredTwice { index, generation },
            false => Rule::StaleGeneration { index, seen: generation, open },
        }
    }
}

#[cold]
fn not_open(call: CallNumber) -> Rule {
    Rule::NotOpen { index: call.index(), generation: call.generation() }
}

/// Generations go round without 0, which stands for no call.
#[inline]
const fn next_generation(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// A point on a node's clock, in its ticks (microseconds), until which an answer is wanted.
///
/// Clocks differ between nodes, so what travels is the time that remained when the frame was sent.
///
/// ```
/// use upbeat_core::channel::call::Deadline;
///
/// let deadline = Deadline::after(1_000, 250).min(Deadline::NEVER);
/// assert_eq!(deadline.remaining(1_100), Some(150));
/// assert!(deadline.is_past(1_250) && !Deadline::NEVER.is_past(1_250));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// No deadline; later than every other.
    pub const NEVER: Deadline = Deadline(u64::MAX);

    /// The deadline `remaining` ticks after `now`; never, if that is beyond the clock.
    #[inline]
    pub const fn after(now: u64, remaining: u64) -> Deadline {
        Deadline(now.saturating_add(remaining))
    }

    /// Ticks that remain, 0 if it is past; `None` if there is no deadline.
    #[inline]
    pub const fn remaining(self, now: u64) -> Option<u64> {
        if self.0 == u64::MAX { None } else { Some(self.0.saturating_sub(now)) }
    }

    /// Whether it has come.
    #[inline]
    pub const fn is_past(self, now: u64) -> bool {
        self.0 != u64::MAX && self.0 <= now
    }
}

#[cfg(test)]
mod tests;
