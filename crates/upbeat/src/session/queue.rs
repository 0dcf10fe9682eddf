//! The session's lines of senders: those that wait for room, and calls that wait for a number.
//!
//! Who stands where, and who loses its turn, is decided in [`core::session`](upbeat_core::session); this
//! wakes.

use super::Session;
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

/// The thing that the senders of a line wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Room in the lane or at the receiver.
    Room,
    /// A number for a call. A session has a fixed count of them.
    Number,
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
        match line {
            Line::Room => {
                let ticket = self.core.outbound().stand(ticket, waker);
                self.press();
                ticket
            }
            Line::Number => {
                self.pressed.set(true);
                self.core.numbers().stand(ticket, waker)
            }
        }
    }

    /// A sender waits no more.
    pub(crate) fn leave(&self, line: Line, ticket: u64) {
        match line {
            Line::Room => self.core.outbound().leave(ticket, Waker::wake),
            Line::Number => self.core.numbers().leave(ticket, Waker::wake),
        }
    }

    /// Says which sender tries next, by its place in a line. Without a place, it is one that stands in no line.
    pub(crate) fn take_turn(&self, place: Option<&Standing>) {
        let ticket = |line| place.filter(|place| place.line == line).map(|place| place.ticket);
        self.core.outbound().line().take_turn(ticket(Line::Room));
        self.core.numbers().take_turn(ticket(Line::Number));
    }

    /// Says which call that waits for a number tries next, by its ticket.
    pub(crate) fn take_turn_at(&self, ticket: Option<u64>) {
        self.core.numbers().take_turn(ticket);
    }

    /// Whether senders were woken that may not have responded yet: the session's owner must not
    /// sleep before it knows, for others may wait behind them.
    pub(crate) fn awaits_senders(&self) -> bool {
        self.core.outbound().line().is_stirred() || self.core.numbers().is_stirred()
    }

    /// Begins a round: those that were woken and do not respond lose their turns to the next.
    pub(super) fn pass_over(&self) {
        if self.core.outbound().pass_over() {
            self.core.outbound().line().wake_first(usize::MAX, Waker::wake_by_ref);
        }
        self.core.numbers().pass_over();
    }

    /// Wakes as many calls that wait for numbers as there are numbers.
    pub(super) fn wake_callers(&self) {
        if self.core.numbers().stands() {
            let free = CALLS_PER_SESSION_MAX - self.calls_open();
            self.core.numbers().wake_first(free, Waker::wake_by_ref);
        }
    }
}
