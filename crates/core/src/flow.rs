//! Optimistic flow control: a request goes first, and room is asked for only when it was refused.
//!
//! One direction of a session has a [`Sender`] and a [`Receiver`]. Both number its requests by counting
//! them, for carriers keep order. Requests go without asking while fewer than a threshold of them are
//! not yet accepted; past it a short one goes into room that is reserved for such, and a longer one asks
//! first. A receiver without room for a request keeps its *place*: the request waits there itself if it
//! is short, else in its sender's buffer, from which the receiver fetches it. A byte stream mirrors lanes
//! and buffers, so it is no different from memory. Requests are accepted in the order of their numbers,
//! so all later ones of the session wait too; replies and control frames pass by all of this. Order is
//! per session: the paper keeps one queue per node, in which a refused sender delays all others.
//!
//! Payloads, which are a parameter here, frames and waiters are left to others. Invariant:
//! whatever the peer says, a request is accepted at most once and in its turn, places are bounded by
//! [`PLACES_MAX`](crate::limits::PLACES_MAX), what a sender knows of its requests by those that are on
//! their way, and what was charged to a budget is released once.

mod budget;
mod purse;
mod sender;
mod receiver;

pub use self::budget::{Budget, Share};
pub use self::purse::{Purse, ReplyBudget};
pub use self::receiver::{Receiver, Step};
pub use self::sender::Sender;

use crate::fault::Rule;
use crate::frame::Kind;

/// How a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// At once.
    Go,
    /// Room is to be asked for first.
    Reserve,
    /// Not now: too many are on their way.
    Wait,
}

#[cold]
fn stray(kind: Kind, number: u64) -> Rule {
    Rule::StrayPlace { kind: kind.byte(), number }
}

#[cfg(test)]
mod tests;
