//! A session between hosts outlives its connection: who makes the next one, when, and for how long.
//!
//! When the connection has gone, the caller makes another at once, and then again and again behind growing
//! delays; the listener waits for a caller that shows the session's [`Ticket`]. Both give up by the shorter of
//! the two times that they have said. Sockets, and what was sent and has not come, are others'; time is an
//! argument. The invariant: a link that is over stays over, and one attempt at most is under way.

use crate::backoff::connect_delay_ns;
use crate::hello::Ticket;

/// What the two sides have said of a session's end when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Which side this is.
    pub role: Role,
    /// What the caller shows.
    pub ticket: Ticket,
    /// Milliseconds for which the session outlives its connection.
    pub within_ms: u32,
}

impl Agreed {
    /// What both sides have agreed upon by the times that they have said; nothing, where one of them does not
    /// keep sessions.
    pub fn new(role: Role, ticket: Ticket, said_ms: [u32; 2]) -> Option<Agreed> {
        let within_ms = said_ms[0].min(said_ms[1]);
        (within_ms != 0).then_some(Agreed { role, ticket, within_ms })
    }
}

/// A side of a session, as far as a new connection is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has opened the session, and connects again.
    Caller,
    /// It waits for that.
    Listener,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Connect again: then say [`Link::resumed`], [`Link::failed`] or [`Link::refused`].
    Connect,
    /// End the session: the time is over.
    GiveUp,
}

/// Whether a session's connection stands, and if not, what is done about it.
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
    /// The connection has gone.
    Down {
        /// When the session is given up.
        until_ns: u64,
        /// Attempts to connect that have failed.
        attempts: u32,
        next: Next,
    },
    Over,
}

/// What a side waits for whose connection has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The time at which it connects.
    At(u64),
    /// What becomes of its attempt.
    Attempt,
    /// The caller.
    Caller,
}

impl Link {
    /// The link of a session that has begun.
    pub fn new(agreed: Agreed) -> Link {
        Link { agreed, state: State::Up }
    }

    /// What the two sides have agreed upon.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The connection has gone. Returns whether this is news.
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

    /// When [`Link::due`] is to be asked again, if it is.
    pub fn next_ns(&self) -> Option<u64> {
        match self.state {
            State::Down { until_ns, next: Next::At(at), .. } => Some(until_ns.min(at)),
            State::Down { until_ns, .. } => Some(until_ns),
            State::Up | State::Over => None,
        }
    }

    /// When the session is given up, if the connection has gone.
    pub fn until_ns(&self) -> Option<u64> {
        match self.state {
            State::Down { until_ns, .. } => Some(until_ns),
            State::Up | State::Over => None,
        }
    }

    /// What is to be done now, if anything is. It is said once.
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

    /// The attempt to connect has failed: there is another, after a delay by a random number. Nothing that
    /// may pass is the end: a host that is not reached now, or a port where nobody listens yet.
    pub fn failed(&mut self, now_ns: u64, random: u64) {
        if let State::Down { attempts, next: next @ Next::Attempt, .. } = &mut self.state {
            *attempts = attempts.saturating_add(1);
            *next = Next::At(now_ns.saturating_add(connect_delay_ns(*attempts, random)));
        }
    }

    /// The listener has no such session any more: it is another incarnation, or has given up. That is the end.
    pub fn refused(&mut self) {
        self.state = State::Over;
    }

    /// The session goes on over another connection. Returns whether it could.
    pub fn resumed(&mut self) -> bool {
        let could = self.state != State::Over;
        if could {
            self.state = State::Up;
        }
        could
    }

    /// Whether a caller that shows this ticket may go on with the session. It may also where this side still
    /// thinks that the old connection stands: it has not heard of its end.
    pub fn takes(&self, ticket: &Ticket) -> bool {
        self.agreed.role == Role::Listener
            && self.state != State::Over
            && self.agreed.ticket.fits(ticket)
    }
}

#[cfg(test)]
mod tests;
