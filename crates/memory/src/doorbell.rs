//! The last steps of a sender after it has written a message, which ensure that no sleeping
//! receiver misses it.
//!
//! The sender writes into its lane, executes a fence, and reads two flags of the receiver
//! ([`announce`]). A receiver that is about to sleep clears its polling flag
//! ([`NodePage::clear_polling`] executes the fence), and then polls its lanes and its board. The later
//! of the two sees the write of the other. A receiver that awaits nothing may leave its flag set instead
//! ([`may_leave`]). The models run these functions, and fail without either fence.
//!
//! [`NodePage::clear_polling`]: crate::page::NodePage::clear_polling

use crate::lane::Lanes;
use crate::page::{NodePage, PeerPage};
use crate::sync::FenceProof;

/// Calls `mark` ([`Note::mark`](crate::board::Note::mark)) to note the lane on the receiver's
/// board, unless the receiver polls the lane each turn. Returns the number of the receiver's sleep
/// if it sleeps; the sender must then ring once for that sleep.
#[inline(always)]
pub fn announce(
    lanes: &Lanes,
    page: &PeerPage,
    fenced: FenceProof,
    mark: impl FnOnce(),
) -> Option<u64> {
    if !lanes.peer_is_attentive(fenced) {
        mark();
    }
    page.asleep(fenced)
}

/// Returns whether a thread that polls a lane no more may leave the polling flag as it is, although another thread sleeps
/// until the doorbell rings: the flag is cleared already, or the receiver awaits neither a reply nor room. A message
/// that then arrives unannounced waits until the lane is polled again. If this returns false, the thread must see to it
/// that the receiver [may sleep](Lanes::may_sleep).
#[inline]
pub fn may_leave(page: &NodePage, awaits: bool) -> bool {
    !page.is_polling() || !awaits
}

#[cfg(all(test, loom))]
mod model;
