//! A sender's last steps after it has written a message: they ensure that no receiver sleeps over it.
//!
//! The sender writes into its lane, fences, and looks at two flags of the receiver ([`announce`]).
//! A receiver that is about to sleep withdraws its promise ([`NodePage::withdraw`] fences), and then
//! looks at its lanes and its board. Whichever of them comes second sees what the other wrote. The
//! models run these very functions, and are seen to fail without either fence.
//!
//! [`NodePage::withdraw`]: crate::page::NodePage::withdraw

use crate::lane::Lanes;
use crate::page::PeerPage;
use crate::sync::Fenced;

/// Has a note made on the receiver's board that our lane has something, unless the receiver looks at the
/// lane each turn: `mark` is [`Note::mark`](crate::board::Note::mark). Returns the number of the receiver's sleep, if it sleeps: then it is to be rung once.
#[inline(always)]
pub fn announce(
    lanes: &Lanes,
    page: &PeerPage,
    fenced: Fenced,
    mark: impl FnOnce(),
) -> Option<u64> {
    if !lanes.peer_is_attentive(fenced) {
        mark();
    }
    page.asleep(fenced)
}

#[cfg(all(test, loom))]
mod model;
