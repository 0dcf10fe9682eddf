//! Who waits to send, in the order in which they came.
//!
//! While somebody stands in the queue, nobody passes: a request that comes later stands behind, so
//! that messages are sent in the order in which they were first polled, and none waits for ever
//! because others are quicker. Whoever is served, or gives up, wakes the next.

use super::Session;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::limits::FLUSH_MESSAGES;

/// So many of the first are awake at once: what a turn may send. All of them would only find that it
/// is not their turn.
const AWAKE: usize = FLUSH_MESSAGES;

/// The queue of a session.
#[derive(Default)]
pub(super) struct Queue {
    standing: RefCell<VecDeque<(u64, Waker)>>,
    next: Cell<u64>,
    /// Who tries now.
    turn: Cell<Option<u64>>,
}

/// A place in the queue, given up when it is dropped.
pub(crate) struct Standing {
    session: Rc<Session>,
    ticket: u64,
}

impl Drop for Standing {
    fn drop(&mut self) {
        let queue = &self.session.queue;
        let mut standing = queue.standing.borrow_mut();
        let was_first = standing.front().is_some_and(|(ticket, _)| *ticket == self.ticket);
        match was_first {
            true => drop(standing.pop_front()),
            false => standing.retain(|(ticket, _)| *ticket != self.ticket),
        }
        // The next may have tried before it was its turn; and one more comes up to the first ones.
        let next = [standing.front(), standing.get(AWAKE - 1)].map(|next| {
            let next = next.filter(|_| was_first);
            next.map(|(_, waker)| waker.clone())
        });
        let is_empty = standing.is_empty();
        drop(standing);
        if is_empty {
            self.session.release_flow();
        }
        next.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Session {
    /// Has somebody wait until there may be room, in the place that he has, or a new one.
    pub(crate) fn stand(self: &Rc<Self>, place: &mut Option<Standing>, waker: &Waker) {
        let queue = &self.queue;
        let ticket = place.as_ref().map_or_else(|| queue.next.get(), |place| place.ticket);
        let mut standing = queue.standing.borrow_mut();
        match standing.iter_mut().find(|(other, _)| *other == ticket) {
            Some((_, old)) => old.clone_from(waker),
            None => {
                standing.push_back((ticket, waker.clone()));
                queue.next.set(ticket + 1);
                *place = Some(Standing { session: Rc::clone(self), ticket });
            }
        }
        drop(standing);
        self.hold_flow();
        self.press();
    }

    /// Who tries next, from his place in the queue; nobody of those who stand in it, if there is none.
    pub(crate) fn take_turn(&self, place: Option<&Standing>) {
        self.queue.turn.set(place.map(|place| place.ticket));
    }

    /// Whether who tries now need not stand behind others.
    pub(super) fn is_in_turn(&self) -> bool {
        let standing = self.queue.standing.borrow();
        standing.front().is_none_or(|(ticket, _)| self.queue.turn.get() == Some(*ticket))
    }

    /// Whether nobody stands in the queue.
    pub(super) fn nobody_stands(&self) -> bool {
        self.queue.standing.borrow().is_empty()
    }

    /// Wakes the first who stand in the queue; they keep their places.
    pub(super) fn wake_first(&self) {
        let standing = self.queue.standing.borrow();
        standing.iter().take(AWAKE).for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Wakes all who stand in the queue, for the session has ended.
    pub(super) fn wake_standing(&self, wake: impl FnMut(&Waker)) {
        self.queue.standing.borrow().iter().map(|(_, waker)| waker).for_each(wake);
    }
}
