//! A queue of senders that wait for the same thing, in the order of their arrival.
//!
//! While a sender is queued, no later sender overtakes it: a later request queues behind, so that messages are
//! sent in the order of their first polls, and no sender starves behind quicker ones. A sender that is served, or
//! gives up, wakes the next.
//!
//! A sender that was woken and is not polled loses its turn, since a future may be kept without being polled, or
//! leaked. The sender leaves the queue, so that it blocks no other, and keeps its ticket: when it is polled again,
//! it comes before all later tickets. The queue is checked in rounds, one each time the owner of the session has
//! nothing else to do. A sender that was woken in one round and was not polled two rounds later has lost its turn.
//!
//! Wakers are called while the queue is borrowed for reading, so the code of a waker may read the queue and must
//! not change it.

use crate::limits::FLUSH_MESSAGES;
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;
use core::cell::{Cell, RefCell};

/// The number of senders at the front that are awake at once: as many as one turn may send. Waking more would be
/// useless, since it would not be their turn.
const AWAKE: usize = FLUSH_MESSAGES;

/// The number of senders at the front that are checked for lost turns: all that may have been woken, and those
/// that have come back before them.
const JUDGED: usize = 4 * AWAKE;

/// The number of rounds in which a woken sender must be polled.
const ROUNDS: u64 = 2;

/// The senders of a queue, by their tickets.
///
/// ```
/// use upbeat_core::session::SenderQueue;
///
/// let line = SenderQueue::new();
/// let (first, second) = (line.stand(None, &"first"), line.stand(None, &"second"));
/// line.take_turn(Some(second));
/// assert!(!line.is_in_turn());
/// let mut woken = Vec::new();
/// line.leave(first, |who| woken.push(who));
/// assert!(line.is_in_turn() && woken == ["second"]);
/// ```
#[derive(Debug)]
pub struct SenderQueue<W> {
    standing: RefCell<VecDeque<Sender<W>>>,
    next: Cell<u64>,
    /// The ticket of the sender that tries now.
    turn: Cell<Option<u64>>,
    round: Cell<u64>,
    stands: Cell<bool>,
    /// Whether a queued sender was woken that may not have been polled yet.
    stirred: Cell<bool>,
}

/// A queued sender.
#[derive(Debug)]
struct Sender<W> {
    ticket: u64,
    waiter: W,
    /// The round in which the sender was woken, if it was not polled since.
    woken: Cell<Option<u64>>,
}

impl<W> SenderQueue<W> {
    /// Creates an empty queue.
    pub const fn new() -> SenderQueue<W> {
        SenderQueue {
            standing: RefCell::new(VecDeque::new()),
            next: Cell::new(0),
            turn: Cell::new(None),
            round: Cell::new(0),
            stands: Cell::new(false),
            stirred: Cell::new(false),
        }
    }

    /// Queues a sender at its ticket, or at a new one behind all others. Returns the ticket, with which the sender
    /// must [leave](SenderQueue::leave).
    pub fn stand(&self, ticket: Option<u64>, waiter: &W) -> u64
    where
        W: Clone,
    {
        let ticket = ticket.unwrap_or_else(|| self.next.replace(self.next.get() + 1));
        let mut standing = self.standing.borrow_mut();
        match standing.binary_search_by_key(&ticket, |sender| sender.ticket) {
            Ok(at) => {
                standing[at].waiter.clone_from(waiter);
                if !mutated(Mutant::ResponseUnheard) {
                    standing[at].woken.set(None);
                }
            }
            Err(at) => {
                let at = if mutated(Mutant::StandsInFront) { 0 } else { at };
                let sender = Sender { ticket, waiter: waiter.clone(), woken: Cell::new(None) };
                standing.insert(at, sender);
            }
        }
        self.stands.set(true);
        ticket
    }

    /// Removes a sender. Calls `wake` for the next one, which may have tried before its turn, and for the one that
    /// newly is among the first.
    pub fn leave(&self, ticket: u64, mut wake: impl FnMut(W))
    where
        W: Clone,
    {
        let mut standing = self.standing.borrow_mut();
        let Ok(at) = standing.binary_search_by_key(&ticket, |sender| sender.ticket) else { return };
        standing.remove(at);
        self.stands.set(!standing.is_empty());
        if standing.is_empty() {
            self.stirred.set(false);
        }
        let next = [standing.front(), standing.get(AWAKE - 1)].map(|next| {
            let next = next.filter(|_| at == 0 && !mutated(Mutant::NextAsleep))?;
            self.record_wake(next);
            Some(next.waiter.clone())
        });
        drop(standing);
        next.into_iter().flatten().for_each(&mut wake);
    }

    /// Records that a sender is woken.
    fn record_wake(&self, sender: &Sender<W>) {
        if sender.woken.get().is_none() {
            sender.woken.set(Some(self.round.get()));
        }
        self.stirred.set(true);
    }

    /// Returns the number of queued senders.
    pub fn len(&self) -> usize {
        self.standing.borrow().len()
    }

    /// Returns whether no sender is queued.
    pub fn is_empty(&self) -> bool {
        !self.has_waiters()
    }

    /// Returns whether a sender is queued.
    #[inline(always)]
    pub fn has_waiters(&self) -> bool {
        self.stands.get()
    }

    /// Returns whether the sender with this ticket is queued and has not lost its turn.
    pub fn has(&self, ticket: u64) -> bool {
        self.standing.borrow().binary_search_by_key(&ticket, |sender| sender.ticket).is_ok()
    }

    /// Returns whether a queued sender was woken that may not have been polled yet.
    pub fn has_woken(&self) -> bool {
        self.stirred.get()
    }

    /// Sets the ticket of the sender that tries next, or none for a sender that is not queued.
    pub fn take_turn(&self, ticket: Option<u64>) {
        self.turn.set(ticket);
    }

    /// Returns whether no queued sender comes before the one that tries now.
    pub fn is_in_turn(&self) -> bool {
        let standing = self.standing.borrow();
        let turn = self.turn.get();
        standing.front().is_none_or(|first| turn.is_some_and(|turn| turn <= first.ticket))
            || mutated(Mutant::TurnUnchecked)
    }

    /// Calls `wake` for the first `most` senders, but for no more than may be awake; they stay queued.
    pub fn wake_first(&self, most: usize, mut wake: impl FnMut(&W)) {
        let standing = self.standing.borrow();
        for sender in standing.iter().take(most.min(AWAKE)) {
            self.record_wake(sender);
            wake(&sender.waiter);
        }
    }

    /// Calls `wake` for all senders.
    pub fn wake_all(&self, wake: impl FnMut(&W)) {
        self.standing.borrow().iter().map(|sender| &sender.waiter).for_each(wake);
    }

    /// Begins a round and removes the senders that have lost their turns. Returns whether there were any.
    pub fn skip_unresponsive(&self) -> bool {
        let round = self.round.get() + 1;
        self.round.set(round);
        if !self.stirred.replace(false) || mutated(Mutant::TurnKept) {
            return false;
        }
        let mut standing = self.standing.borrow_mut();
        let before = standing.len();
        for at in (0..before.min(JUDGED)).rev() {
            match standing[at].woken.get() {
                Some(woken) if woken + ROUNDS <= round => drop(standing.remove(at)),
                Some(_) => self.stirred.set(true),
                None => {}
            }
        }
        self.stands.set(!standing.is_empty());
        standing.len() < before
    }
}

impl<W> Default for SenderQueue<W> {
    fn default() -> SenderQueue<W> {
        SenderQueue::new()
    }
}
