//! The node page: what a node lets every peer read: its incarnation, its state, its promise.
//!
//! The promise is the contract's: while it stands, whoever sends writes memory and nothing else,
//! for the node looks by itself. Before it sleeps a node takes the promise back, fences, and looks
//! at everything once more; a sender that has written fences and reads the promise. Whoever comes
//! second sees the other, so no message is slept over.
//!
//! Invariant: the promise's number grows with every sleep, so a sender knows whether it has rung
//! for this sleep already.

use crate::probe::{Count, Watched};
use crate::region::{Region, Word};
use crate::sync::{Fenced, fence_full};

/// Words that a node page needs.
pub const PAGE_WORDS: usize = 16;

const INCARNATION: usize = 0;
const STATE: usize = 1;
/// In a line of its own: the rest of the page does not change while the node lives.
const PROMISE: usize = 8;

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes requests.
    Open,
    /// It answers what it has accepted and takes no more.
    Closing,
    /// It is gone, and said so.
    Closed,
    /// Something that no node writes.
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
    promise: std::cell::Cell<u64>,
}

impl NodePage {
    /// Writes a page for a node of this incarnation. It begins open, and awake.
    #[must_use]
    pub fn new(region: Region, incarnation: u64) -> NodePage {
        region.store(INCARNATION, incarnation);
        region.store(STATE, State::Open.word());
        region.publish(PROMISE, 1);
        NodePage { region, promise: std::cell::Cell::new(1) }
    }

    /// Says in what state the node is.
    pub fn set_state(&self, state: State) {
        self.region.publish(STATE, state.word());
    }

    /// Takes the promise back. What has come before must be looked for after this, and before
    /// sleeping.
    pub fn withdraw(&self) -> Fenced {
        self.take_back();
        fence_full()
    }

    /// The same without the fence, which a model leaves out.
    pub(crate) fn take_back(&self) {
        let promise = (self.promise.get() & !1) + 2;
        self.promise.set(promise);
        self.region.publish(PROMISE, promise);
    }

    /// Gives the promise again.
    #[inline(always)]
    pub fn promise(&self) {
        if !self.is_promised() {
            self.give();
        }
    }

    /// Returns whether the promise stands.
    #[inline(always)]
    #[must_use]
    pub fn is_promised(&self) -> bool {
        self.promise.get() & 1 != 0
    }

    #[cold]
    fn give(&self) {
        let promise = self.promise.get() | 1;
        self.promise.set(promise);
        self.region.publish(PROMISE, promise);
    }
}

/// A peer's node page. Everything in it is what the peer says.
pub struct PeerPage {
    region: Region,
    promise: Word,
    watched: Watched,
}

impl PeerPage {
    /// A view of a peer's page.
    ///
    /// # Panics
    /// When the region is too small to be one.
    #[must_use]
    pub fn new(region: Region) -> PeerPage {
        assert!(region.words() >= PAGE_WORDS);
        PeerPage { promise: region.word_at(PROMISE), region, watched: Watched::default() }
    }

    /// What it is a view of, for another thread.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region.clone()
    }

    /// The incarnation of the node.
    pub fn incarnation(&self) -> u64 {
        self.region.load(INCARNATION)
    }

    /// The state of the node.
    pub fn state(&self) -> State {
        State::of(self.region.load(STATE))
    }

    /// The number of the peer's present sleep, or None while it promises to look. The fence stands
    /// behind what was written.
    #[inline(always)]
    pub fn asleep(&self, _: Fenced) -> Option<u64> {
        self.seems_asleep()
    }

    /// The same without a fence: this may still say None where the peer sleeps over what was written.
    #[inline(always)]
    pub fn seems_asleep(&self) -> Option<u64> {
        let promise = self.promise.load();
        self.watched.loaded(Count::PromiseLines, promise);
        if promise & 1 == 1 { None } else { Some(promise) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
