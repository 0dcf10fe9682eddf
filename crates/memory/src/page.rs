//! The node page, which a node's peers read: its incarnation, its state, its polling flag.
//!
//! While the polling flag is set, a sender only writes memory, since the node polls its lanes by
//! itself. Before it sleeps, a node clears its polling flag, executes a fence, and polls everything
//! once more. A sender executes a fence after its write and then reads the polling flag. The later
//! of the two sees the write of the other, so no message is missed by a sleeping node.
//!
//! Invariant: the word of the polling flag grows with every sleep, so a sender knows whether it has
//! rung for this sleep already.

use crate::probe::{Count, Watched};
use crate::region::{Region, Word};
use crate::sync::{FenceProof, fence_full};

/// The number of words in a node page.
pub const PAGE_WORDS: usize = 16;

const INCARNATION: usize = 0;
const STATE: usize = 1;
/// The word of the polling flag has a line of its own, since the rest of the page does not change
/// while the node lives.
const POLLING_FLAG: usize = 8;

/// The state that a node publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The node accepts requests.
    Open,
    /// The node answers the accepted requests and accepts no more.
    Closing,
    /// The node has closed.
    Closed,
    /// A value that no correct node writes.
    Unknown(u64),
}

impl State {
    const fn word(self) -> u64 {
        match self {
            State::Open => 1,
            State::Closing => 2,
            State::Closed => 3,
            State::Unknown(word) => word,
        }
    }

    const fn of(word: u64) -> State {
        match word {
            1 => State::Open,
            2 => State::Closing,
            3 => State::Closed,
            other => State::Unknown(other),
        }
    }
}

/// The owner's side of a node page.
pub struct NodePage {
    region: Region,
    polling_flag: std::cell::Cell<u64>,
}

impl NodePage {
    /// Initialises the page of a node with this incarnation. The node is open and awake.
    #[must_use]
    pub fn new(region: Region, incarnation: u64) -> NodePage {
        region.store(INCARNATION, incarnation);
        region.store(STATE, State::Open.word());
        region.publish(POLLING_FLAG, 1);
        NodePage { region, polling_flag: std::cell::Cell::new(1) }
    }

    /// Publishes the state of the node.
    pub fn set_state(&self, state: State) {
        self.region.publish(STATE, state.word());
    }

    /// Clears the polling flag and executes a fence. The node must poll once more after this call
    /// and before it sleeps.
    pub fn clear_polling(&self) -> FenceProof {
        self.clear_unfenced();
        fence_full()
    }

    /// Clears the polling flag without a fence, which only models do.
    pub(crate) fn clear_unfenced(&self) {
        let flag = (self.polling_flag.get() & !1) + 2;
        self.polling_flag.set(flag);
        self.region.publish(POLLING_FLAG, flag);
    }

    /// Sets the polling flag again.
    #[inline(always)]
    pub fn set_polling(&self) {
        if !self.is_polling() {
            self.set_flag();
        }
    }

    /// Returns whether the polling flag is set.
    #[inline(always)]
    #[must_use]
    pub fn is_polling(&self) -> bool {
        self.polling_flag.get() & 1 != 0
    }

    #[cold]
    fn set_flag(&self) {
        let flag = self.polling_flag.get() | 1;
        self.polling_flag.set(flag);
        self.region.publish(POLLING_FLAG, flag);
    }
}

/// A view of a peer's node page, whose content the peer controls.
pub struct PeerPage {
    region: Region,
    polling_flag: Word,
    watched: Watched,
}

impl PeerPage {
    /// Creates a view of a peer's page.
    ///
    /// # Panics
    /// Panics when the region is smaller than a page.
    #[must_use]
    pub fn new(region: Region) -> PeerPage {
        assert!(region.words() >= PAGE_WORDS);
        PeerPage { polling_flag: region.word_at(POLLING_FLAG), region, watched: Watched::default() }
    }

    /// Returns the region of the page, for another thread.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region.clone()
    }

    /// Returns the incarnation of the node.
    pub fn incarnation(&self) -> u64 {
        self.region.load(INCARNATION)
    }

    /// Returns the state of the node.
    pub fn state(&self) -> State {
        State::of(self.region.load(STATE))
    }

    /// Returns the number of the peer's present sleep, or none while its polling flag is set. The
    /// proof shows that a fence was executed after the write that the peer must see.
    #[inline(always)]
    pub fn asleep(&self, _: FenceProof) -> Option<u64> {
        self.asleep_unfenced()
    }

    /// Returns the number of the peer's sleep without a fence. This may return none although the
    /// peer goes to sleep without seeing an earlier write.
    #[inline(always)]
    pub fn asleep_unfenced(&self) -> Option<u64> {
        let flag = self.polling_flag.load();
        self.watched.loaded(Count::PollingFlagLines, flag);
        if flag & 1 == 1 { None } else { Some(flag) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
