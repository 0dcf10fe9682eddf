//! Optimistic flow control: a request is sent at once, and its sender asks for room only after a refusal.
//!
//! One direction of a session has a [`Sender`] and a [`Receiver`]. Both number the requests by counting them,
//! since carriers keep their order. A sender sends without asking while fewer requests than a threshold are not
//! yet accepted. Beyond the threshold a short request goes into room that is reserved for short requests, and a
//! longer one asks first. A receiver without room for a request keeps a *place* for it, an entry in its queue: a
//! short request waits in the place itself, a longer one in its sender's buffer, from which the receiver fetches
//! it. A byte stream mirrors lanes and buffers, so the same rules hold there. Requests are accepted in the order
//! of their numbers, so all later requests of the session wait too; replies and control frames are not held up.
//! The order is per session: the paper has one queue per node, in which a refused sender delays all others.
//!
//! Payloads are a parameter here, and frames and waiters belong to other modules. Invariant: whatever the peer
//! sends, a request is accepted at most once and in its turn. The places are bounded by
//! [`PLACES_MAX`](crate::limits::PLACES_MAX), and a sender's records by its requests on their way. Each charge to
//! a budget is released once.

mod budget;
mod shared_budget;
mod sender;
mod receiver;

pub use self::budget::{Budget, Share};
pub use self::receiver::{Receiver, ReceiverAction};
pub use self::sender::Sender;
pub use self::shared_budget::{ReplyBudget, SharedBudget};

use crate::fault::Rule;
use crate::frame::Kind;

/// How a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// The request may be sent at once.
    Go,
    /// The sender must ask for room first.
    Reserve,
    /// The request must wait: too many are on their way.
    Wait,
}

#[cold]
fn stray_place(kind: Kind, number: u64) -> Rule {
    Rule::StrayPlace { kind: kind.byte(), number }
}

#[cfg(test)]
mod tests;
