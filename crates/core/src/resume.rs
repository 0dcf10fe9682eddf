//! The reconnection of a session between hosts, which outlives its connection: which side connects, when, how often,
//! and for how long.
//!
//! When the connection is lost, the caller connects again at once. An attempt that gets no answer is not waited for: the
//! next one begins a quarter of a second later, beside it, because the system repeats its own unanswered requests only
//! after one, three and seven seconds. An attempt that the host has answered is waited for until it fails. After an
//! attempt that failed, the next one begins after a growing delay. The
//! listener waits for a caller that shows the session's [`Ticket`]. Both give up after the shorter of the two times
//! that they have announced. Other modules have the sockets and the unacknowledged messages; time is an argument.
//!
//! Invariants: a link that is over stays over. At most one attempt shows the ticket at a time: the owner closes all others
//! when one [is ready](Link::ready), so the position that a caller shows is that of a session without a connection. The
//! attempts of a session are numbered, and a listener accepts no attempt that began before the last one that it has
//! accepted: such a record was delayed, and its caller has given it up.

use crate::backoff::connect_delay_ns;
use crate::hello::Ticket;
use crate::limits::REMOTE_HANDSHAKE_MS_MAX;

/// The terms on which the two sides have agreed when the session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The role of this side.
    pub role: Role,
    /// The ticket that the caller shows.
    pub ticket: Ticket,
    /// The milliseconds for which the session outlives its connection.
    pub within_ms: u32,
}

impl Agreed {
    /// Returns the terms that follow from the times that both sides have announced, or none if one side does not
    /// keep sessions.
    pub fn new(role: Role, ticket: Ticket, said_ms: [u32; 2]) -> Option<Agreed> {
        let within_ms = said_ms[0].min(said_ms[1]);
        (within_ms != 0).then_some(Agreed { role, ticket, within_ms })
    }
}

/// The role of one side when a session reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that has opened the session, and connects again.
    Caller,
    /// The side that waits for the caller.
    Listener,
}

/// The nanoseconds between the beginnings of two attempts of which the first gets no answer.
const OVERLAP_NS: u64 = 250_000_000;
/// The nanoseconds for which no other attempt begins once the host has answered one: TCP repeats what is lost over its
/// connection. A host with many callers accepts them one after another, and an attempt in place of one that waits for
/// that would be the last in the queue.
const ANSWERED_NS: u64 = REMOTE_HANDSHAKE_MS_MAX * 1_000_000;
/// The milliseconds for which an attempt waits for the host's answer. Then the system would repeat its request.
const ATTEMPT_MS: u64 = 1_000;
/// The milliseconds of each [`PATIENT_EVERY`]th attempt, for hosts whose answers take longer.
const PATIENT_MS: u64 = 8_000;
const PATIENT_EVERY: u64 = 8;
/// The most attempts of a session that are under way.
pub const ATTEMPTS_MAX: u32 = 8;

/// An attempt to connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the attempt in the life of the session, from 1 on, which the caller shows with the ticket.
    pub number: u64,
    /// The attempt's number since the loss of the connection, from 0 on: the owner tries the host's addresses in turn.
    pub nth: u64,
    /// The time at which the attempt is given up if the host has not answered.
    pub until_ns: u64,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Begin an attempt to connect, and then call [`Link::answered`], [`Link::ready`], [`Link::resumed`],
    /// [`Link::failed`] or [`Link::unknown_at`] as it proceeds.
    Connect(Attempt),
    /// End the session, because the time is over.
    GiveUp,
}

/// The state of a session's connection, with the next action if it is lost.
///
/// ```
/// use upbeat_core::hello::Ticket;
/// use upbeat_core::resume::{Agreed, Attempt, Due, Link, Role};
///
/// let ticket = Ticket { session: 3, incarnation: 9, key: [7; 16] };
/// let mut link = Link::new(Agreed::new(Role::Caller, ticket, [5_000, 700]).unwrap());
/// assert!(link.broke(1_000));
/// let attempt = Attempt { number: 1, nth: 0, until_ns: 700_001_000 };
/// assert_eq!(link.due(1_000), Some(Due::Connect(attempt)));
/// // The host does not answer: another attempt begins beside the first.
/// assert_eq!((link.due(2_000), link.next_ns()), (None, Some(250_001_000)));
/// let Some(Due::Connect(second)) = link.due(250_001_000) else { panic!() };
/// // The second attempt fails, and the next begins after a short delay.
/// link.failed(&second, 250_001_000, 77);
/// assert!(link.next_ns() < Some(253_000_000));
/// assert_eq!(link.due(700_001_000), Some(Due::GiveUp));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Link {
    agreed: Agreed,
    /// The number of attempts that this side has begun, or of the last one that it has accepted.
    attempts: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// The connection is lost.
    Down {
        /// When the session is given up.
        until_ns: u64,
        /// The attempts of a caller.
        tries: Option<Tries>,
    },
    Over,
}

/// The attempts of a caller since the connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tries {
    /// When the next attempt begins.
    next_ns: u64,
    begun: u64,
    under_way: u32,
    /// The number of attempts that failed before another one had begun.
    failed: u32,
    /// The addresses at which the session is unknown, as bits, of how many.
    unknown: (u64, usize),
}

impl Link {
    /// Creates the link of a session that has begun.
    pub fn new(agreed: Agreed) -> Link {
        Link { agreed, attempts: 0, state: State::Up }
    }

    /// Returns the terms on which the two sides have agreed.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Records the loss of the connection. Returns whether it was connected before.
    pub fn broke(&mut self, now_ns: u64) -> bool {
        if self.state != State::Up {
            return false;
        }
        let until_ns = now_ns.saturating_add(u64::from(self.agreed.within_ms) * 1_000_000);
        let tries = Tries { next_ns: now_ns, begun: 0, under_way: 0, failed: 0, unknown: (0, 0) };
        let tries = (self.agreed.role == Role::Caller).then_some(tries);
        self.state = State::Down { until_ns, tries };
        true
    }

    /// Returns when [`Link::due`] must be called again, if at all.
    pub fn next_ns(&self) -> Option<u64> {
        match self.state {
            State::Down { until_ns, tries: Some(tries) } if tries.under_way < ATTEMPTS_MAX => {
                Some(until_ns.min(tries.next_ns))
            }
            State::Down { until_ns, .. } => Some(until_ns),
            State::Up | State::Over => None,
        }
    }

    /// Returns when the session is given up, if the connection is lost.
    pub fn until_ns(&self) -> Option<u64> {
        match self.state {
            State::Down { until_ns, .. } => Some(until_ns),
            State::Up | State::Over => None,
        }
    }

    /// Returns the next action, once, if there is one.
    pub fn due(&mut self, now_ns: u64) -> Option<Due> {
        let State::Down { until_ns, tries } = &mut self.state else { return None };
        let until_ns = *until_ns;
        if until_ns <= now_ns {
            self.state = State::Over;
            return Some(Due::GiveUp);
        }
        let tries = tries.as_mut()?;
        if tries.next_ns > now_ns || tries.under_way >= ATTEMPTS_MAX {
            return None;
        }
        let nth = tries.begun;
        let lasts_ms = if nth.is_multiple_of(PATIENT_EVERY) { PATIENT_MS } else { ATTEMPT_MS };
        tries.next_ns = now_ns.saturating_add(OVERLAP_NS);
        tries.begun += 1;
        tries.under_way += 1;
        self.attempts += 1;
        let until_ns = until_ns.min(now_ns.saturating_add(lasts_ms * 1_000_000));
        Some(Due::Connect(Attempt { number: self.attempts, nth, until_ns }))
    }

    /// Returns the attempts, if the connection is lost and this side connects.
    fn tries(&mut self) -> Option<&mut Tries> {
        match &mut self.state {
            State::Down { tries, .. } => tries.as_mut(),
            State::Up | State::Over => None,
        }
    }

    /// Records that the host has answered an attempt, which goes on: the next one begins when it has failed.
    pub fn answered(&mut self, now_ns: u64) {
        if let Some(tries) = self.tries() {
            tries.next_ns = tries.next_ns.max(now_ns.saturating_add(ANSWERED_NS));
        }
    }

    /// Records that an attempt is about to show the ticket. The owner closes all others, and calls nothing for them.
    pub fn ready(&mut self, now_ns: u64) {
        self.answered(now_ns);
        if let Some(tries) = self.tries() {
            tries.under_way = 1;
        }
    }

    /// Records a failed attempt to connect. If no other one has begun since, the next follows after a delay, with a
    /// random number; else as if no attempt had been answered. A failure that may pass is not the end, such as an unreachable host or a port without a
    /// listener.
    pub fn failed(&mut self, attempt: &Attempt, now_ns: u64, random: u64) {
        let is_last = attempt.number == self.attempts;
        let Some(tries) = self.tries() else { return };
        tries.under_way = tries.under_way.saturating_sub(1);
        if is_last {
            tries.failed = tries.failed.saturating_add(1);
            tries.next_ns = now_ns.saturating_add(connect_delay_ns(tries.failed, random));
        } else {
            tries.next_ns = tries.next_ns.min(now_ns.saturating_add(OVERLAP_NS));
        }
    }

    /// Records that a node at one of `of` addresses of the host, with this index, does not know the session: an attempt
    /// has failed. The session is over once no address is left at which it may be known. Returns whether it is.
    pub fn unknown_at(&mut self, index: usize, of: usize) -> bool {
        let Some(tries) = self.tries() else { return self.state == State::Over };
        if tries.unknown.1 != of {
            tries.unknown = (0, of);
        }
        tries.unknown.0 |= 1 << (index % 64);
        let is_over = tries.unknown.0.count_ones() as usize >= of.min(64);
        if is_over {
            self.state = State::Over;
        }
        is_over
    }

    /// Records that the session continues over another connection. Returns whether it could.
    pub fn resumed(&mut self) -> bool {
        let could = self.state != State::Over;
        if could {
            self.state = State::Up;
        }
        could
    }

    /// Returns whether a caller that shows this ticket in this attempt may continue the session. It may even if this
    /// side still believes in the old connection, since this side may not have noticed the loss.
    pub fn takes(&self, ticket: &Ticket, attempt: u64) -> bool {
        self.agreed.role == Role::Listener
            && self.state != State::Over
            && self.agreed.ticket.fits(ticket)
            && attempt > self.attempts
    }

    /// Records that the session continues over the connection of this attempt of the caller's.
    pub fn took(&mut self, attempt: u64) {
        if self.resumed() {
            self.attempts = attempt;
        }
    }
}

#[cfg(test)]
mod tests;
