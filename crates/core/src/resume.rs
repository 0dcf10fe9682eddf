//! The reconnection of a session between hosts, which outlives its connection: which side connects, when, and for
//! how long.
//!
//! When the connection is lost, the caller connects again at once, and then repeatedly after growing delays. The
//! listener waits for a caller that shows the session's [`Ticket`]. Both give up after the shorter of the two
//! times that they have announced. Other modules have the sockets and the unacknowledged messages; time is an
//! argument. Invariant: a link that is over stays over, and at most one attempt is under way.

use crate::backoff::connect_delay_ns;
use crate::hello::Ticket;

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

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Connect again, and then call [`Link::resumed`], [`Link::failed`] or [`Link::refused`].
    Connect,
    /// End the session, because the time is over.
    GiveUp,
}

/// The state of a session's connection, with the next action if it is lost.
///
/// ```
/// use upbeat_core::hello::Ticket;
/// use upbeat_core::resume::{Agreed, Due, Link, Role};
///
/// let ticket = Ticket { session: 3, incarnation: 9, key: [7; 16] };
/// let mut link = Link::new(Agreed::new(Role::Caller, ticket, [5_000, 300]).unwrap());
/// assert!(link.broke(1_000));
/// assert_eq!(link.due(1_000), Some(Due::Connect));
/// link.failed(2_000, 77);
/// assert_eq!(link.due(2_000), None);
/// assert_eq!(link.due(300_001_000), Some(Due::GiveUp));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Link {
    agreed: Agreed,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// The connection is lost.
    Down {
        /// When the session is given up.
        until_ns: u64,
        /// The number of failed attempts to connect.
        attempts: u32,
        next: Next,
    },
    Over,
}

/// The event for which a side without a connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The time of the next attempt.
    At(u64),
    /// The outcome of its attempt.
    Attempt,
    /// A connection of the caller.
    Caller,
}

impl Link {
    /// Creates the link of a session that has begun.
    pub fn new(agreed: Agreed) -> Link {
        Link { agreed, state: State::Up }
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
        let next = match self.agreed.role {
            Role::Caller => Next::At(now_ns),
            Role::Listener => Next::Caller,
        };
        self.state = State::Down { until_ns, attempts: 0, next };
        true
    }

    /// Returns when [`Link::due`] must be called again, if at all.
    pub fn next_ns(&self) -> Option<u64> {
        match self.state {
            State::Down { until_ns, next: Next::At(at), .. } => Some(until_ns.min(at)),
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
        let State::Down { until_ns, next, .. } = &mut self.state else { return None };
        if *until_ns <= now_ns {
            self.state = State::Over;
            return Some(Due::GiveUp);
        }
        match *next {
            Next::At(at) if at <= now_ns => {
                *next = Next::Attempt;
                Some(Due::Connect)
            }
            _ => None,
        }
    }

    /// Records a failed attempt to connect: another one follows after a delay, with a random number. A failure
    /// that may pass is not the end, such as an unreachable host or a port without a listener.
    pub fn failed(&mut self, now_ns: u64, random: u64) {
        if let State::Down { attempts, next: next @ Next::Attempt, .. } = &mut self.state {
            *attempts = attempts.saturating_add(1);
            *next = Next::At(now_ns.saturating_add(connect_delay_ns(*attempts, random)));
        }
    }

    /// Records that the listener no longer has the session: it is another incarnation, or has given up. The
    /// session is over.
    pub fn refused(&mut self) {
        self.state = State::Over;
    }

    /// Records that the session continues over another connection. Returns whether it could.
    pub fn resumed(&mut self) -> bool {
        let could = self.state != State::Over;
        if could {
            self.state = State::Up;
        }
        could
    }

    /// Returns whether a caller with this ticket may continue the session. It may even if this side still believes
    /// in the old connection, since this side may not have noticed the loss.
    pub fn takes(&self, ticket: &Ticket) -> bool {
        self.agreed.role == Role::Listener
            && self.state != State::Over
            && self.agreed.ticket.fits(ticket)
    }
}

#[cfg(test)]
mod tests;
