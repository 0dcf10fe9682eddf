//! A line of senders that wait for the same thing, in the order in which they came.
//!
//! While a sender stands in a line, nobody passes: a request that comes later stands behind, so
//! that messages are sent in the order in which they were first polled, and none waits for ever
//! because others are quicker. A sender that is served, or gives up, has the next woken.
//!
//! A sender that was woken and is not polled loses its turn: a future may be kept without being
//! polled, or forgotten. It leaves the line, so that it blocks nobody, and keeps its ticket: when it
//! is polled again, it comes before all that have later ones. Lines are looked through in rounds, one
//! each time the session's owner has nothing else to do; a sender that was woken in one round and has
//! not been polled two rounds later has lost its turn.
//!
//! Wakers are called while the line is borrowed for reading, so what a waker does may ask the line and
//! must not change it.

use crate::limits::FLUSH_MESSAGES;
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;
use core::cell::{Cell, RefCell};

/// So many of the first are awake at once: what a turn may send. All of them would only find that it
/// is not their turn.
const AWAKE: usize = FLUSH_MESSAGES;

/// So many of the first are asked whether they have lost their turns: all that may have been woken, and
/// those that have come back before them.
const JUDGED: usize = 4 * AWAKE;

/// Rounds that a sender has to respond.
const ROUNDS: u64 = 2;

/// The senders of a line, by their tickets.
///
/// ```
/// use upbeat_core::session::Line;
///
/// let line = Line::new();
/// let (first, second) = (line.stand(None, &"first"), line.stand(None, &"second"));
/// line.take_turn(Some(second));
/// assert!(!line.is_in_turn());
/// let mut woken = Vec::new();
/// line.leave(first, |who| woken.push(who));
/// assert!(line.is_in_turn() && woken == ["second"]);
/// ```
#[derive(Debug)]
pub struct Line<W> {
    standing: RefCell<VecDeque<Sender<W>>>,
    next: Cell<u64>,
    /// The ticket of the sender that tries now.
    turn: Cell<Option<u64>>,
    round: Cell<u64>,
    stands: Cell<bool>,
    /// Whether a sender was woken that may not have responded yet.
    stirred: Cell<bool>,
}

/// A sender that stands in a line.
#[derive(Debug)]
struct Sender<W> {
    ticket: u64,
    waiter: W,
    /// In which round it was woken, if it was and has not been polled since.
    woken: Cell<Option<u64>>,
}

impl<W> Line<W> {
    /// A line in which nobody stands.
    pub const fn new() -> Line<W> {
        Line {
            standing: RefCell::new(VecDeque::new()),
            next: Cell::new(0),
            turn: Cell::new(None),
            round: Cell::new(0),
            stands: Cell::new(false),
            stirred: Cell::new(false),
        }
    }

    /// Puts a sender into the line at its ticket, or at a new one behind all others. Returns the ticket,
    /// with which the sender must [leave](Line::leave).
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

    /// Takes a sender out of the line. The next may have tried before it was its turn, and one more
    /// comes up to the first ones: both are given to `wake`.
    pub fn leave(&self, ticket: u64, mut wake: impl FnMut(W))
    where
        W: Clone,
    {
        let mut standing = self.standing.borrow_mut();
        let Ok(at) = standing.binary_search_by_key(&ticket, |sender| sender.ticket) else { return };
        standing.remove(at);
        self.stands.set(!standing.is_empty());
        let next = [standing.front(), standing.get(AWAKE - 1)].map(|next| {
            let next = next.filter(|_| at == 0 && !mutated(Mutant::NextAsleep))?;
            self.stir(next);
            Some(next.waiter.clone())
        });
        drop(standing);
        next.into_iter().flatten().for_each(&mut wake);
    }

    /// Notes that a sender is woken.
    fn stir(&self, sender: &Sender<W>) {
        if sender.woken.get().is_none() {
            sender.woken.set(Some(self.round.get()));
        }
        self.stirred.set(true);
    }

    /// Returns the number of senders that stand in the line.
    pub fn len(&self) -> usize {
        self.standing.borrow().len()
    }

    /// Whether nobody stands in the line.
    pub fn is_empty(&self) -> bool {
        !self.stands()
    }

    /// Whether a sender stands in the line.
    #[inline(always)]
    pub fn stands(&self) -> bool {
        self.stands.get()
    }

    /// Whether the sender with this ticket stands there, and has not lost its turn.
    pub fn has(&self, ticket: u64) -> bool {
        self.standing.borrow().binary_search_by_key(&ticket, |sender| sender.ticket).is_ok()
    }

    /// Whether a sender was woken that may not have responded yet.
    pub fn is_stirred(&self) -> bool {
        self.stirred.get()
    }

    /// Says which sender tries next, by its ticket; none is one that does not stand in the line.
    pub fn take_turn(&self, ticket: Option<u64>) {
        self.turn.set(ticket);
    }

    /// Whether no sender that waits comes before the one that tries now.
    pub fn is_in_turn(&self) -> bool {
        let standing = self.standing.borrow();
        let turn = self.turn.get();
        standing.front().is_none_or(|first| turn.is_some_and(|turn| turn <= first.ticket))
            || mutated(Mutant::TurnUnchecked)
    }

    /// Gives so many of the first to `wake`, but no more than may be awake; they keep their places.
    pub fn wake_first(&self, most: usize, mut wake: impl FnMut(&W)) {
        let standing = self.standing.borrow();
        for sender in standing.iter().take(most.min(AWAKE)) {
            self.stir(sender);
            wake(&sender.waiter);
        }
    }

    /// Gives all to `wake`.
    pub fn wake_all(&self, wake: impl FnMut(&W)) {
        self.standing.borrow().iter().map(|sender| &sender.waiter).for_each(wake);
    }

    /// Begins a round: takes those out of the line that have lost their turns. Returns whether there were
    /// any.
    pub fn pass_over(&self) -> bool {
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

impl<W> Default for Line<W> {
    fn default() -> Line<W> {
        Line::new()
    }
}
