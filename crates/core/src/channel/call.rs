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

mod ending;
mod serving;

use alloc::boxed::Box;
use core::array;
use core::cell::{Cell, OnceCell};
use core::fmt;

use crate::fault::Rule;
use crate::frame::CallNumber;
use crate::limits::CALLS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};

pub use self::ending::Ending;
pub use self::serving::Serving;

/// No place: the end of the free list.
const NIL: u32 = u32::MAX;

/// Places that a table has from the beginning.
const FIRST: usize = 64;
/// Runs of further places, each twice as long as the one before.
const RUNS: usize = (CALLS_PER_SESSION_MAX / FIRST).ilog2() as usize;

const _: () = assert!(FIRST << RUNS == CALLS_PER_SESSION_MAX);

/// The open calls of one side of a session. Its places are cells that stay where they are, so that nobody borrows
/// the table.
///
/// ```
/// use upbeat_core::channel::call::{Answered, CallTable};
///
/// let calls = CallTable::new();
/// let number = calls.open("the future that waits").unwrap();
/// assert!(matches!(calls.answer(number), Ok(Answered::Waiting(_))));
/// assert!(calls.answer(number).is_err());
/// assert_eq!(calls.close(number), Some("the future that waits"));
/// ```
pub struct CallTable<W> {
    first: [Entry<W>; FIRST],
    further: [OnceCell<Box<[Entry<W>]>>; RUNS],
    /// Places that have been used.
    used: Cell<u32>,
    /// The place that was freed last, whose line is the warmest.
    free: Cell<u32>,
    len: Cell<u32>,
}

struct Entry<W> {
    /// The number of an open call that has no answer, so that one compare finds it. Otherwise the generation
    /// of the call that is here, or was here last, and instead of the place's own index the state below, or,
    /// of a free place, the next free one. A place that was never used has no generation.
    number: Cell<CallNumber>,
    /// Of a call that is open, or of the last one that was.
    waiter: Cell<W>,
}

impl<W: Default> Default for Entry<W> {
    fn default() -> Entry<W> {
        Entry { number: Cell::new(CallNumber::new(NIL, 0)), waiter: Cell::default() }
    }
}

/// The states of a place that is taken and waits for no answer. They are above every place's index.
const ANSWERED: u32 = NIL - 2;
const ABANDONED: u32 = NIL - 1;

const _: () = assert!((CALLS_PER_SESSION_MAX as u64) < ANSWERED as u64);

/// An accepted answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered<W> {
    /// To this waiter, whose call stays in the table until it is closed.
    Waiting(W),
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

impl<W: Copy + Default> CallTable<W> {
    /// A table without calls. It allocates when it grows, never in the steady state.
    pub fn new() -> CallTable<W> {
        CallTable {
            first: array::from_fn(|_| Entry::default()),
            further: [const { OnceCell::new() }; RUNS],
            used: Cell::new(0),
            free: Cell::new(NIL),
            len: Cell::new(0),
        }
    }

    /// Calls that take a place: waiting, answered and not closed, abandoned and not answered.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Whether no call takes a place.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// The place of this index, if it has been made.
    #[inline(always)]
    fn entry(&self, index: u32) -> Option<&Entry<W>> {
        match self.first.get(index as usize) {
            None => self.entry_beyond(index),
            first => first,
        }
    }

    #[cold]
    #[inline(never)]
    fn entry_beyond(&self, index: u32) -> Option<&Entry<W>> {
        let (run, at) = beyond(index)?;
        self.further.get(run)?.get()?.get(at)
    }

    /// Opens a call for `waiter`.
    ///
    /// # Errors
    /// When the table is full.
    #[inline(always)]
    pub fn open(&self, waiter: W) -> Result<CallNumber, TableFull> {
        let index = self.free.get();
        // The end of the free list is beyond every place, so one check serves both.
        match self.first.get(index as usize) {
            Some(entry) => Ok(self.reopen(entry, index, waiter)),
            None => self.open_beyond(index, waiter),
        }
    }

    /// Opens a call in a place that was free.
    #[inline(always)]
    fn reopen(&self, entry: &Entry<W>, index: u32, waiter: W) -> CallNumber {
        self.free.set(entry.state());
        self.len.set(self.len.get() + 1);
        let generation = match mutated(Mutant::GenerationReused) {
            true => entry.number.get().generation(),
            false => next_generation(entry.number.get().generation()),
        };
        let number = CallNumber::new(index, generation);
        entry.number.set(number);
        entry.waiter.set(waiter);
        number
    }

    #[cold]
    #[inline(never)]
    fn open_beyond(&self, index: u32, waiter: W) -> Result<CallNumber, TableFull> {
        match self.entry_beyond(index) {
            Some(entry) => Ok(self.reopen(entry, index, waiter)),
            None => self.open_new(waiter),
        }
    }

    /// Opens a call in a place that was never used.
    #[cold]
    fn open_new(&self, waiter: W) -> Result<CallNumber, TableFull> {
        let index = self.used.get();
        if let Some((run, _)) = beyond(index) {
            let made = || (0..FIRST << run).map(|_| Entry::default()).collect();
            self.further.get(run).ok_or(TableFull)?.get_or_init(made);
        }
        let entry = self.entry(index).ok_or(TableFull)?;
        let number = CallNumber::new(index, 1);
        entry.number.set(number);
        entry.waiter.set(waiter);
        self.used.set(index + 1);
        self.len.set(self.len.get() + 1);
        Ok(number)
    }

    /// Takes the answer to a call, once. The waiter stays in the table until [`Self::close`].
    #[inline]
    pub fn answer(&self, call: CallNumber) -> Result<Answered<W>, Rule> {
        let Some(entry) = self.entry(call.index()) else {
            return Err(not_open(call));
        };
        if entry.awaits(call) {
            if !mutated(Mutant::AnswerTwice) {
                entry.set_state(ANSWERED);
            }
            return Ok(Answered::Waiting(entry.waiter.get()));
        }
        if entry.number.get().generation() != call.generation() {
            return Err(entry.refusal(call));
        }
        match entry.state() {
            ABANDONED if mutated(Mutant::AbandonedStays) => Ok(Answered::Abandoned),
            ABANDONED => {
                self.free(entry, call.index());
                Ok(Answered::Abandoned)
            }
            _ => Err(entry.refusal(call)),
        }
    }

    /// Takes the answer to a call, once, and closes it: [`Self::answer`] and [`Self::close`] in
    /// one step, for a waiter that reads the answer where it lies. `None` if it was abandoned.
    #[inline]
    pub fn take(&self, call: CallNumber) -> Result<Option<W>, Rule> {
        let Some(entry) = self.entry(call.index()) else {
            return Err(not_open(call));
        };
        let is_other = entry.number.get().generation() != call.generation();
        if is_other && !mutated(Mutant::GenerationUnchecked)
            || entry.state() != call.index() && entry.state() != ABANDONED
        {
            return Err(entry.refusal(call));
        }
        if entry.state() == ABANDONED && mutated(Mutant::AbandonedStays) {
            return Ok(None);
        }
        Ok(self.release(entry, call.index()))
    }

    /// Closes a call that was answered, or whose frame was never sent, and gives back its waiter.
    ///
    /// A call whose frame was sent and is not answered must be abandoned instead: its answer would
    /// be held against the peer. `None` if there is no such call, or it was abandoned.
    #[inline]
    pub fn close(&self, call: CallNumber) -> Option<W> {
        let entry = self.open_entry(call)?;
        self.release(entry, call.index())
    }

    /// Gives up a call whose frame was sent. What to do next is in the answer.
    #[inline]
    pub fn abandon(&self, call: CallNumber) -> Abandon<W> {
        let Some(entry) = self.entry(call.index()) else {
            return Abandon::Gone;
        };
        let waiter = entry.waiter.get();
        if entry.awaits(call) {
            entry.set_state(ABANDONED);
            if mutated(Mutant::AbandonFrees) {
                self.release(entry, call.index());
            }
            return Abandon::Cancel(waiter);
        }
        match entry.state() {
            ANSWERED if entry.number.get().generation() == call.generation() => {
                entry.set_state(ABANDONED);
                if !mutated(Mutant::AnsweredStays) {
                    self.release(entry, call.index());
                }
                Abandon::Answered(waiter)
            }
            _ => Abandon::Gone,
        }
    }

    /// Returns the waiter of a call that is open and has no answer.
    #[inline(always)]
    pub fn waiting(&self, call: CallNumber) -> Option<W> {
        let entry = self.entry(call.index())?;
        entry.awaits(call).then(|| entry.waiter.get())
    }

    /// Takes the answer of a call that is open and has none, and closes it: [`Self::take`] where it is
    /// known that the call [waits](Self::waiting). Returns who waited.
    #[inline(always)]
    pub fn close_waiting(&self, call: CallNumber) -> Option<W> {
        let entry = self.entry(call.index())?;
        if !entry.awaits(call) {
            return None;
        }
        self.free(entry, call.index());
        Some(entry.waiter.get())
    }

    /// Returns the waiter of a call that is open or answered, and neither closed nor abandoned.
    #[inline]
    pub fn waiter(&self, call: CallNumber) -> Option<W> {
        Some(self.open_entry(call)?.waiter.get())
    }

    /// Puts another waiter in the place of that of a call that is open or answered, and neither closed nor
    /// abandoned. Returns that one.
    #[inline]
    pub fn exchange(&self, call: CallNumber, waiter: W) -> Option<W> {
        Some(self.open_entry(call)?.waiter.replace(waiter))
    }

    #[inline]
    fn open_entry(&self, call: CallNumber) -> Option<&Entry<W>> {
        let entry = self.entry(call.index())?;
        let is_open = entry.state() == call.index() || entry.state() == ANSWERED;
        (is_open && entry.number.get().generation() == call.generation()).then_some(entry)
    }

    /// Ends every call that has no answer, because none can come any more, and yields the waiters.
    ///
    /// Abandoned calls end silently; answered ones stay until they are closed. Calls that were not
    /// reached when the iterator is dropped stay open.
    pub fn drain(&self) -> impl Iterator<Item = (CallNumber, W)> + '_ {
        let mut index = 0;
        core::iter::from_fn(move || {
            while index < self.used.get() {
                let entry = self.entry(index)?;
                let call = CallNumber::new(index, entry.number.get().generation());
                let ends = entry.awaits(call) || entry.state() == ABANDONED;
                index += 1;
                if mutated(Mutant::DrainForgets) && index == 2 {
                    continue;
                }
                if ends && let Some(waiter) = self.release(entry, call.index()) {
                    return Some((call, waiter));
                }
            }
            None
        })
    }

    /// Frees a place that is taken. Returns who waits there, unless the call was abandoned.
    #[inline]
    fn release(&self, entry: &Entry<W>, index: u32) -> Option<W> {
        let old = entry.state();
        self.free(entry, index);
        (old == index || old == ANSWERED).then(|| entry.waiter.get())
    }

    #[inline(always)]
    fn free(&self, entry: &Entry<W>, index: u32) {
        entry.set_state(self.free.replace(index));
        self.len.set(self.len.get() - 1);
    }
}

/// Where a place stands that is none of the first: its run, and where in that. None if it is one of those.
#[inline]
const fn beyond(index: u32) -> Option<(usize, usize)> {
    let index = index as usize;
    if index < FIRST {
        return None;
    }
    let run = (index / FIRST).ilog2() as usize;
    Some((run, index - (FIRST << run)))
}

impl<W> fmt::Debug for CallTable<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTable").field("len", &self.len.get()).finish_non_exhaustive()
    }
}

impl<W: Copy + Default> Default for CallTable<W> {
    fn default() -> CallTable<W> {
        CallTable::new()
    }
}

impl<W> Entry<W> {
    /// Whether the call is here, open and without an answer.
    #[inline(always)]
    fn awaits(&self, call: CallNumber) -> bool {
        self.number.get() == call
    }

    /// One of the states, or the index of this place or of the next free one.
    #[inline(always)]
    fn state(&self) -> u32 {
        self.number.get().index()
    }

    #[inline(always)]
    fn set_state(&self, state: u32) {
        self.number.set(CallNumber::new(state, self.number.get().generation()));
    }

    /// The rule that an answer to `call` breaks here.
    #[cold]
    fn refusal(&self, call: CallNumber) -> Rule {
        let (index, generation) = (call.index(), call.generation());
        let open = self.number.get().generation();
        let is_free = self.state() != index && !matches!(self.state(), ANSWERED | ABANDONED);
        match open == generation {
            _ if is_free => not_open(call),
            false if open == 0 => not_open(call),
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
