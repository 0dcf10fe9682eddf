//! Optimistic flow control: a request goes first, and room is asked for only when it was refused.
//!
//! One direction of a session has a [`Sender`] and a [`Receiver`]. Requests are numbered in the order
//! in which the receiver hears of them, by both sides for themselves, for carriers keep order. Short
//! and medium requests go without asking while the receiver has not yet accepted less than a
//! threshold of them; past it a short one goes into room that is reserved for such, a longer one
//! asks first, and a long one always does. A receiver without room for a request keeps its *place*:
//! a short one waits there itself, a longer one waits at its sender, in a buffer from which the
//! receiver fetches it (memory) or from which it is sent again when it was granted (byte stream).
//! Requests are accepted in the order of their numbers, so all later ones of the session wait too;
//! replies and control frames pass by all of this. Order is per session: the paper keeps one queue
//! per node, in which a refused sender delays all others.
//!
//! What it leaves to others: payloads, which are a parameter here, frames, and who waits. Invariant:
//! whatever the peer says, a request is accepted at most once and in its turn, places are bounded by
//! [`PLACES_MAX`](crate::limits::PLACES_MAX), and what was charged to a budget is released once.

mod budget;
mod sender;
mod receiver;

pub use self::budget::{Budget, Share};
pub use self::receiver::{Receiver, Step};
pub use self::sender::{Granted, Sender};

use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{MEDIUM_BYTES_MAX, SHORT_BYTES};

/// How flow control sees the length of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It fits a slot, and a place.
    Short,
    /// It may be refused, and then waits at its sender.
    Medium,
    /// It is never sent without asking: a refused one would have been carried in vain.
    Long,
}

impl Size {
    /// The size of a request of so many payload bytes, extensions included.
    #[inline]
    pub const fn of(bytes: usize) -> Size {
        if bytes <= SHORT_BYTES {
            Size::Short
        } else if bytes <= MEDIUM_BYTES_MAX {
            Size::Medium
        } else {
            Size::Long
        }
    }

    /// The size where payloads stay in their sender's memory until they are accepted: none is long,
    /// for nothing is carried in vain.
    #[inline]
    pub const fn in_memory(bytes: usize) -> Size {
        if bytes <= SHORT_BYTES { Size::Short } else { Size::Medium }
    }
}

/// How a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// At once, and the receiver may refuse it.
    Optimistic,
    /// At once, into room that is reserved for short requests.
    Direct,
    /// Room is to be asked for first.
    Reserve,
    /// Not now: too many are on their way. Where progress does not come by itself, it is to be
    /// inquired after, once: [`Sender::inquire`].
    Wait,
}

#[cold]
fn stray(kind: Kind, number: u64) -> Rule {
    Rule::StrayPlace { kind: kind.byte(), number }
}

#[cfg(test)]
mod tests;
