//! Lines of senders: those that wait for room, and calls that wait for a number.
//!
//! While a sender stands in a line, nobody passes: a request that comes later stands behind, so
//! that messages are sent in the order in which they were first polled, and none waits for ever
//! because others are quicker. A sender that is served, or gives up, wakes the next.
//!
//! A sender that was woken and is not polled loses its turn: a future may be kept without being
//! polled, or forgotten. It leaves the line, so that it blocks nobody, and keeps its ticket: when it
//! is polled again, it comes before all that have later ones. Lines are looked through in rounds, one
//! each time the session's owner has nothing else to do; a sender that was woken in one round and has
//! not been polled two rounds later has lost its turn.

use super::Session;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, FLUSH_MESSAGES};

/// So many of the first are awake at once: what a turn may send. All of them would only find that it
/// is not their turn.
const AWAKE: usize = FLUSH_MESSAGES;

/// So many of the first are asked whether they have lost their turns: all that may have been woken, and
/// those that have come back before them.
const JUDGED: usize = 4 * AWAKE;

/// Rounds that a sender has to respond.
const ROUNDS: u64 = 2;

/// The thing that the senders of a line wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Room in the lane or at the receiver.
    Room,
    /// A number for a call. A session has a fixed count of them.
    Number,
}

/// The senders of one line, by their tickets.
#[derive(Default)]
pub(super) struct Queue {
    standing: RefCell<VecDeque<Sender>>,
    next: Cell<u64>,
    /// The ticket of the sender that tries now.
    turn: Cell<Option<u64>>,
    round: Cell<u64>,
    /// Whether a sender stands in the line.
    stands: Cell<bool>,
    /// Whether a sender was woken that may not have responded yet.
    stirred: Cell<bool>,
}

/// A sender that stands in a line.
struct Sender {
    ticket: u64,
    waker: Waker,
    /// In which round it was woken, if it was and has not been polled since.
    woken: Cell<Option<u64>>,
}

impl Queue {
    /// Puts a sender into the line at its ticket, or at a new one behind all others. Returns the ticket.
    fn stand(&self, ticket: Option<u64>, waker: &Waker) -> u64 {
        let ticket = ticket.unwrap_or_else(|| self.next.replace(self.next.get() + 1));
        let mut standing = self.standing.borrow_mut();
        match standing.binary_search_by_key(&ticket, |sender| sender.ticket) {
            Ok(at) => {
                standing[at].waker.clone_from(waker);
                standing[at].woken.set(None);
            }
            Err(at) => {
                let sender = Sender { ticket, waker: waker.clone(), woken: Cell::new(None) };
                standing.insert(at, sender);
            }
        }
        self.stands.set(true);
        ticket
    }

    /// Takes a sender out of the line. The next may have tried before it was its turn, and one more
    /// comes up to the first ones: both are woken.
    fn leave(&self, ticket: u64) {
        let mut standing = self.standing.borrow_mut();
        let Ok(at) = standing.binary_search_by_key(&ticket, |sender| sender.ticket) else { return };
        standing.remove(at);
        self.stands.set(!standing.is_empty());
        let next = [standing.front(), standing.get(AWAKE - 1)].map(|next| {
            let next = next.filter(|_| at == 0)?;
            self.stir(next);
            Some(next.waker.clone())
        });
        drop(standing);
        next.into_iter().flatten().for_each(Waker::wake);
    }

    /// Notes that a sender is woken.
    fn stir(&self, sender: &Sender) {
        if sender.woken.get().is_none() {
            sender.woken.set(Some(self.round.get()));
        }
        self.stirred.set(true);
    }

    /// Whether a sender stands in the line.
    #[inline(always)]
    pub(super) fn stands(&self) -> bool {
        self.stands.get()
    }

    /// Whether a sender was woken that may not have responded yet.
    pub(super) fn is_stirred(&self) -> bool {
        self.stirred.get()
    }

    /// Whether no sender that waits comes before the one that tries now.
    pub(super) fn is_in_turn(&self) -> bool {
        let standing = self.standing.borrow();
        let turn = self.turn.get();
        standing.front().is_none_or(|first| turn.is_some_and(|turn| turn <= first.ticket))
    }

    /// Wakes so many of the first; they keep their places.
    fn wake_first(&self, most: usize) {
        let standing = self.standing.borrow();
        for sender in standing.iter().take(most.min(AWAKE)) {
            self.stir(sender);
            sender.waker.wake_by_ref();
        }
    }

    /// Takes those out of the line that have lost their turns. Returns whether there were any.
    fn pass_over(&self) -> bool {
        let round = self.round.get() + 1;
        self.round.set(round);
        if !self.stirred.replace(false) {
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

/// A sender's place in a line of a node's session, given up when it is dropped.
pub(crate) struct Standing {
    session: Rc<Session>,
    line: Line,
    ticket: u64,
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.session.leave(self.line, self.ticket);
    }
}

impl Session {
    fn line(&self, line: Line) -> &Queue {
        match line {
            Line::Room => &self.queue,
            Line::Number => &self.numbers,
        }
    }

    /// Has a sender of a node wait in a line, at the place that it has there, or at a new one. A place
    /// in the other line is given up.
    pub(crate) fn stand(self: &Rc<Self>, line: Line, place: &mut Option<Standing>, waker: &Waker) {
        let old = place.take_if(|place| place.line != line);
        let ticket = self.stand_at(line, place.as_ref().map(|place| place.ticket), waker);
        place.get_or_insert_with(|| Standing { session: Rc::clone(self), line, ticket });
        drop(old);
    }

    /// Has a sender wait in a line. Returns its ticket, with which it must [leave](Session::leave).
    pub(crate) fn stand_at(&self, line: Line, ticket: Option<u64>, waker: &Waker) -> u64 {
        let ticket = self.line(line).stand(ticket, waker);
        match line {
            Line::Room => {
                self.hold_flow();
                self.press();
            }
            Line::Number => self.pressed.set(true),
        }
        ticket
    }

    /// A sender waits no more.
    pub(crate) fn leave(&self, line: Line, ticket: u64) {
        self.line(line).leave(ticket);
        self.release_flow_if_idle();
    }

    /// Says which sender tries next, by its place in a line. Without a place, it is one that stands in no line.
    pub(crate) fn take_turn(&self, place: Option<&Standing>) {
        let ticket = |line| place.filter(|place| place.line == line).map(|place| place.ticket);
        self.queue.turn.set(ticket(Line::Room));
        self.numbers.turn.set(ticket(Line::Number));
    }

    /// Says which call that waits for a number tries next, by its ticket.
    pub(crate) fn take_turn_at(&self, ticket: Option<u64>) {
        self.numbers.turn.set(ticket);
    }

    /// Whether senders were woken that may not have responded yet: the session's owner must not
    /// sleep before it knows, for others may wait behind them.
    pub(crate) fn awaits_senders(&self) -> bool {
        self.queue.is_stirred() || self.numbers.is_stirred()
    }

    /// Begins a round: those that were woken and do not respond lose their turns to the next.
    pub(super) fn pass_over(&self) {
        if self.queue.pass_over() {
            self.release_flow_if_idle();
            self.wake_first();
        }
        self.numbers.pass_over();
    }

    fn release_flow_if_idle(&self) {
        if !self.queue.stands() {
            self.release_flow();
        }
    }

    /// Wakes the first that wait for room; they keep their places.
    pub(super) fn wake_first(&self) {
        self.queue.wake_first(AWAKE);
    }

    /// Wakes as many calls that wait for numbers as there are numbers.
    pub(super) fn wake_callers(&self) {
        if self.numbers.stands() {
            self.numbers.wake_first(CALLS_PER_SESSION_MAX - self.calls_open());
        }
    }

    /// Wakes all that stand in lines, for the session has ended.
    pub(super) fn wake_standing(&self, mut wake: impl FnMut(&Waker)) {
        for queue in [&self.queue, &self.numbers] {
            queue.standing.borrow().iter().for_each(|sender| wake(&sender.waker));
        }
    }
}
