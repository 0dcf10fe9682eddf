//! What one side of a session decides: which request may go, how, and in whose turn; which request of the
//! peer's is accepted; what waits.
//!
//! Whoever drives a session calls this and does what it says: a node, a handle, the simulator. It does no
//! I/O, holds no payload and reads no clock; time is an argument. `W` is a waiter, a waker or a simulated
//! one, and `P` is a request of the peer's that waits, or a hold on one.
//!
//! On the common path two plain cells stand for all of it. *Credit* is how many requests may go without a
//! question ([`Outbound::may_go`]); it is 0 whenever anything is unusual. *Open* says that a request may
//! be accepted at once ([`Inbound::is_clear`]). Every other method first takes back what was counted
//! there. Invariant: what waits is bounded by what the peer, or a caller of this side, may have open.

mod line;
mod asked;
mod copies;
mod outbound;
mod inbound;
mod owed;

pub use self::asked::Grant;
pub use self::inbound::{Inbound, Placed};
pub use self::line::Line;
pub use self::outbound::{Bounds, Lack, Outbound, Room};
pub use self::owed::{CLASSES, Owed, Waiting, class_of};

#[cfg(test)]
mod tests;
