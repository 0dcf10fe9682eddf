//! Senders that wait: for room, in a line or under the number of a request for room, and calls that wait for a
//! number.
//!
//! [`core::session`](upbeat_core::session) decides the order of the waiters and who loses its turn; this module wakes
//! them.

use super::send_error::SendError;
use super::{Grant, Session};
use crate::wake::{ForeignWaker, HoldWakers};
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::bill::Counter;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::sync::fence_full;

/// The resource for which the senders of a line wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Room in the lane or at the receiver.
    Room,
    /// A number for a call. A session has a fixed count of them.
    Number,
}

/// The place of a message that waits in a session. A sender that gives the message up, or has sent it, must
/// [withdraw](Session::withdraw_admission) it.
#[derive(Default)]
pub(crate) struct Admission {
    /// The number under which room was asked for.
    room: Option<u64>,
    /// The line in which the sender stands, and its ticket there.
    place: Option<(Line, u64)>,
}

impl Admission {
    /// Returns whether there is something to withdraw.
    pub(crate) fn is_any(&self) -> bool {
        self.room.is_some() || self.place.is_some()
    }

    /// Returns the number under which room was asked for.
    pub(crate) fn room(&self) -> Option<u64> {
        self.room
    }
}

/// The turn of a sender, which ends with this value: also where an argument panics while it is written.
pub(crate) struct SenderTurn(Rc<Session>);

impl SenderTurn {
    /// Begins the turn of a message that has this place, or of one that stands in no line.
    pub(crate) fn begin(session: &Rc<Session>, admission: Option<&Admission>) -> SenderTurn {
        session.take_turn(admission);
        SenderTurn(Rc::clone(session))
    }
}

impl Drop for SenderTurn {
    fn drop(&mut self) {
        self.0.take_turn(None);
    }
}

impl Session {
    /// Returns whether a message still waits for room that it has asked for; then the waker is woken when there is.
    pub(crate) fn awaits_grant(&self, admission: &mut Admission, waker: &Waker) -> bool {
        let grant = admission.room.map(|number| self.grant_of(number, waker));
        if grant == Some(Grant::Lost) {
            admission.room = None;
        }
        grant == Some(Grant::Awaited)
    }

    /// Returns whether a grant, or a number for a call, is still to come for a message of a thread that blocks.
    pub(crate) fn still_waits(&self, admission: &mut Admission) -> bool {
        let awaits_number = matches!(admission.place, Some((Line::Number, _)));
        self.awaits_grant(admission, Waker::noop())
            || awaits_number && self.calls_open() >= CALLS_PER_SESSION_MAX
    }

    /// Makes a message wait that was not sent: it asks for room, or its sender stands in a line. Returns the counter
    /// for that, if there is one. Fails if the message cannot wait.
    #[cold]
    pub(crate) fn wait(
        &self,
        put: SendError,
        admission: &mut Admission,
        waker: &Waker,
    ) -> Result<Option<Counter>, SendError> {
        let put = match put {
            SendError::Ask(bytes) => {
                // Room that was granted to a shorter message is given back.
                self.withdraw_room(admission);
                match self.ask(bytes, waker) {
                    Ok(number) => {
                        admission.room = Some(number);
                        self.leave_line(admission);
                        return Ok(Some(Counter::RoomAsked));
                    }
                    Err(put) => put,
                }
            }
            put => put,
        };
        match put {
            SendError::Full => {
                match admission.room {
                    // The message has its place by its number, before the senders in the line.
                    Some(_) => self.wait_for_room(waker),
                    None if mutated(Mutant::FullUnqueued) => {}
                    None => self.stand(Line::Room, admission, waker),
                }
                Ok(Some(Counter::LaneFull))
            }
            SendError::Numbers => {
                // Room that was granted must not wait for a number: others wait behind it.
                self.withdraw_room(admission);
                self.stand(Line::Number, admission, waker);
                Ok(None)
            }
            put => Err(put),
        }
    }

    /// Withdraws everything that a message waits for. Returns whether there is a message to the peer about that.
    pub(crate) fn withdraw_admission(&self, admission: &mut Admission) -> bool {
        let tells = self.withdraw_room(admission);
        self.leave_line(admission);
        tells
    }

    fn withdraw_room(&self, admission: &mut Admission) -> bool {
        admission.room.take().is_some_and(|number| self.withdraw(number))
    }

    /// Makes a sender wait in a line, at the place that it has there, or at a new one. A place in the other line is
    /// given up.
    fn stand(&self, line: Line, admission: &mut Admission, waker: &Waker) {
        if admission.place.is_some_and(|(at, _)| at != line) {
            self.leave_line(admission);
        }
        let ticket = admission.place.map(|(_, ticket)| ticket);
        let waker = &ForeignWaker::from(waker);
        let _hold = HoldWakers::begin();
        let ticket = match line {
            Line::Room => {
                let ticket = self.core.outbound().stand(ticket, waker);
                self.press();
                ticket
            }
            Line::Number => {
                self.pressed.set(true);
                self.core.numbers().stand(ticket, waker)
            }
        };
        admission.place = Some((line, ticket));
    }

    fn leave_line(&self, admission: &mut Admission) {
        let Some((line, ticket)) = admission.place.take() else { return };
        let _hold = HoldWakers::begin();
        match line {
            Line::Room => self.core.outbound().leave(ticket, ForeignWaker::wake),
            Line::Number => self.core.numbers().leave(ticket, ForeignWaker::wake),
        }
    }

    /// Sends a message of a handle that waits, in its turn. A message of which an argument panics waits no more.
    pub(crate) fn send_in_turn<T>(
        &self,
        admission: &mut Admission,
        send: impl FnOnce(&Session, Option<u64>) -> T,
    ) -> T {
        struct Gone<'s>(&'s Session, &'s mut Admission);
        impl Drop for Gone<'_> {
            fn drop(&mut self) {
                self.0.take_turn(None);
                if self.0.withdraw_admission(self.1) {
                    self.0.flush(fence_full());
                }
            }
        }
        self.take_turn(Some(admission));
        let room = admission.room();
        let gone = Gone(self, admission);
        let sent = send(self, room);
        // The message keeps its turn, because it may have to ask for room now.
        std::mem::forget(gone);
        sent
    }

    /// Says which sender tries next, by the place of its message. Without one, the sender stands in no line.
    pub(crate) fn take_turn(&self, admission: Option<&Admission>) {
        let place = admission.and_then(|admission| admission.place);
        let ticket = |line| place.filter(|(at, _)| *at == line).map(|(_, ticket)| ticket);
        self.core.outbound().line().take_turn(ticket(Line::Room));
        self.core.numbers().take_turn(ticket(Line::Number));
    }

    /// Returns whether senders were woken that may not have responded yet. The session's owner must not sleep before
    /// it knows, because others may wait behind them.
    pub(crate) fn awaits_senders(&self) -> bool {
        self.core.outbound().line().has_woken() || self.core.numbers().has_woken()
    }

    /// Begins a round: woken senders that did not respond lose their turns to the next.
    pub(super) fn skip_unresponsive(&self) {
        let _hold = HoldWakers::begin();
        if self.core.outbound().skip_unresponsive() {
            self.core.outbound().line().wake_first(usize::MAX, ForeignWaker::wake_by_ref);
        }
        self.core.numbers().skip_unresponsive();
    }

    /// Wakes as many calls that wait for numbers as there are numbers.
    pub(super) fn wake_callers(&self) {
        if self.core.numbers().has_waiters() {
            let _hold = HoldWakers::begin();
            let free = CALLS_PER_SESSION_MAX - self.calls_open();
            self.core.numbers().wake_first(free, ForeignWaker::wake_by_ref);
        }
    }
}
