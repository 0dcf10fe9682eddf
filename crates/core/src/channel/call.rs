//! The calls of a session: those that this side has open, and those that it serves as tasks.
//!
//! A caller [`open`](CallTable::open)s a call and sends its frame with the call's number. Then one of three things
//! happens. The reply comes: [`answer`](CallTable::answer), and [`close`](CallTable::close) once the future has
//! its result, or both at once with [`take`](CallTable::take). Or the future is dropped:
//! [`abandon`](CallTable::abandon), after which the entry stays in use until the callee has replied. Or the
//! session is lost: [`drain`](CallTable::drain). The runtime defines the waiter (`W`) and the served call (`K`),
//! and it has the results, the timers and the sending of cancels.
//!
//! Invariant: a call is answered at most once, and a reply to an earlier use of a number is never taken for one to
//! a later use.

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

/// The index that ends the free list.
const NIL: u32 = u32::MAX;

/// The number of entries that a table has from the beginning.
const FIRST: usize = 32;
/// The number of further runs of entries, each twice as long as the one before.
const RUNS: usize = (CALLS_PER_SESSION_MAX / FIRST).ilog2() as usize;

const _: () = assert!(FIRST << RUNS == CALLS_PER_SESSION_MAX);

/// The open calls of one side of a session. The entries are cells with fixed addresses, so that no caller borrows
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
    /// The number of entries that have been used.
    used: Cell<u32>,
    /// The entry that was freed last, whose line is most likely in the cache.
    free: Cell<u32>,
    len: Cell<u32>,
}

struct Entry<W> {
    /// The number of an open call without a reply, so that one compare finds the call. In all other states this
    /// has the generation of the entry's present or last call, and in place of the entry's own index one of the
    /// states below or, in a free entry, the next free one. An entry that was never used has generation 0.
    number: Cell<CallNumber>,
    /// The waiter of the open call, or of the last one.
    waiter: Cell<W>,
}

impl<W: Default> Default for Entry<W> {
    fn default() -> Entry<W> {
        Entry { number: Cell::new(CallNumber::new(NIL, 0)), waiter: Cell::default() }
    }
}

/// The states of an entry that is in use and waits for no reply. They are greater than every index.
const ANSWERED: u32 = NIL - 2;
const ABANDONED: u32 = NIL - 1;

const _: () = assert!((CALLS_PER_SESSION_MAX as u64) < ANSWERED as u64);

/// An accepted reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered<W> {
    /// The reply is for this waiter, whose call stays in the table until it is closed.
    Waiting(W),
    /// The reply is for an abandoned call, whose entry is free again.
    Abandoned,
}

/// The result of abandoning a call whose future was dropped.
#[derive(Debug, PartialEq, Eq)]
pub enum Abandon<W> {
    /// The call was waiting: send a cancel to the callee. The entry stays in use until the callee replies.
    Cancel(W),
    /// The reply had come, and the entry is free again.
    Answered(W),
    /// There is no such call, or it was abandoned before.
    Gone,
}

/// The error of a table whose entries are all in use.
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
    /// Creates a table without calls. The table allocates when it grows, and never in the steady state.
    pub fn new() -> CallTable<W> {
        CallTable {
            first: array::from_fn(|_| Entry::default()),
            further: [const { OnceCell::new() }; RUNS],
            used: Cell::new(0),
            free: Cell::new(NIL),
            len: Cell::new(0),
        }
    }

    /// Returns the number of entries in use: waiting, answered and not closed, or abandoned and not answered.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len.get() as usize
    }

    /// Returns whether no entry is in use.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// Returns the entry of this index, if it exists.
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
        let (run, at) = run_position(index)?;
        self.further.get(run)?.get()?.get(at)
    }

    /// Opens a call for `waiter`.
    ///
    /// # Errors
    /// Fails when the table is full.
    pub fn open(&self, waiter: W) -> Result<CallNumber, TableFull> {
        if let Some(call) = self.open_first(waiter) {
            return Ok(call);
        }
        let index = self.free.get();
        match self.entry_beyond(index) {
            Some(entry) => Ok(self.reopen(entry, index, waiter)),
            None => self.open_new(waiter),
        }
    }

    /// Opens a call for `waiter` if the next free entry is one of the first entries. In all other cases
    /// [`Self::open`] decides.
    #[inline(always)]
    pub fn open_first(&self, waiter: W) -> Option<CallNumber> {
        let index = self.free.get();
        // The end of the free list is greater than every index, so one check serves both.
        Some(self.reopen(self.first.get(index as usize)?, index, waiter))
    }

    /// Opens a call in an entry of the free list.
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

    /// Opens a call in an entry that was never used.
    #[cold]
    fn open_new(&self, waiter: W) -> Result<CallNumber, TableFull> {
        let index = self.used.get();
        if let Some((run, _)) = run_position(index) {
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

    /// Accepts the reply to a call, once. The waiter stays in the table until [`Self::close`].
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

    /// Accepts the reply to a call, once, and closes the call. This is [`Self::answer`] and [`Self::close`] in one
    /// step, for a waiter that reads the reply in place. Returns none if the call was abandoned.
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

    /// Closes a call that was answered, or whose frame was never sent, and returns its waiter.
    ///
    /// A call whose frame was sent and that is not answered must be abandoned instead, since its reply would be
    /// taken for a fault of the peer. Returns none if there is no such call, or it was abandoned.
    #[inline]
    pub fn close(&self, call: CallNumber) -> Option<W> {
        let entry = self.open_entry(call)?;
        self.release(entry, call.index())
    }

    /// Abandons a call whose frame was sent. The result says what to do next.
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

    /// Returns the waiter of an open call without a reply.
    #[inline(always)]
    pub fn waiting(&self, call: CallNumber) -> Option<W> {
        let entry = self.entry(call.index())?;
        entry.awaits(call).then(|| entry.waiter.get())
    }

    /// Accepts the reply of an open call that is known to [wait](Self::waiting), and closes the call, as
    /// [`Self::take`] does. Returns the waiter.
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

    /// Replaces the waiter of a call that is open or answered, and neither closed nor abandoned. Returns the old
    /// waiter.
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

    /// Returns the waiters of the open calls that have no reply.
    pub fn waiters(&self) -> impl Iterator<Item = W> + '_ {
        let entries = (0..self.used.get()).filter_map(|index| Some((index, self.entry(index)?)));
        let waits = |(index, entry): (u32, &Entry<W>)| {
            let call = CallNumber::new(index, entry.number.get().generation());
            entry.awaits(call).then(|| entry.waiter.get())
        };
        entries.filter_map(waits)
    }

    /// Ends every call without a reply, because no reply can come any more, and yields their waiters.
    ///
    /// Abandoned calls end without a waiter, and answered calls stay until they are closed. Calls that the
    /// iterator has not reached when it is dropped stay open.
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

    /// Frees an entry in use. Returns its waiter, unless the call was abandoned.
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

/// Returns the run of an entry that is none of the first, and its index in the run. Returns none for the first
/// entries.
#[inline]
const fn run_position(index: u32) -> Option<(usize, usize)> {
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
    /// Returns whether this entry has the call, open and without a reply.
    #[inline(always)]
    fn awaits(&self, call: CallNumber) -> bool {
        self.number.get() == call
    }

    /// Returns one of the states, or the index of this entry or of the next free one.
    #[inline(always)]
    fn state(&self) -> u32 {
        self.number.get().index()
    }

    #[inline(always)]
    fn set_state(&self, state: u32) {
        self.number.set(CallNumber::new(state, self.number.get().generation()));
    }

    /// Returns the rule that a reply to `call` breaks.
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

/// Returns the next generation. Generations skip 0, which stands for no call.
#[inline]
const fn next_generation(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// A point on a node's clock, in microseconds, until which a reply is wanted.
///
/// Clocks differ between nodes, so a frame carries the time that remained when it was sent.
///
/// ```
/// use upbeat_core::channel::call::Deadline;
///
/// let deadline = Deadline::after(1_000, 250).min(Deadline::NEVER);
/// assert_eq!(deadline.remaining(1_100), Some(150));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// No deadline, which is later than every other.
    pub const NEVER: Deadline = Deadline(u64::MAX);

    /// Returns the deadline `remaining` ticks after `now`, or [`Deadline::NEVER`] if that is beyond the clock.
    #[inline]
    pub const fn after(now: u64, remaining: u64) -> Deadline {
        Deadline(now.saturating_add(remaining))
    }

    /// Returns the remaining ticks, 0 if the deadline is past, or none if there is no deadline.
    #[inline]
    pub const fn remaining(self, now: u64) -> Option<u64> {
        if self.0 == u64::MAX { None } else { Some(self.0.saturating_sub(now)) }
    }
}

#[cfg(test)]
mod tests;
