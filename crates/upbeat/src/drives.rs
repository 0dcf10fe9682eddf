//! Drives of a node: their number, and the panic where there are none.
//!
//! A future of the node that a foreign executor polls would wait for ever if nobody drives
//! the node. A legitimate loop polls such futures as well, between its calls of `Node::turn`, so a poll
//! outside of a drive proves nothing. But a loop that turns its node does so between two polls that are
//! a period apart. The [`Watchdog`] has the future polled again after a period; after so many of them
//! without any drive the poll panics.
//!
//! Invariant: a poll inside a drive costs nothing here but one look at a word.

use crate::wake::WakeQueue;
use crate::watchdog::Watchdog;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;
use upbeat_environment::time::Instant;

/// How long a node is not driven before its futures are polled again.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Polls in a row, a period apart and without any drive in between, that prove that nobody drives.
const POLLS: u32 = 5;

/// The bit of the word that is set while the thread drives the node: each begin and each end adds one.
const NOW: u64 = 1;

/// A node's record of its drives, and of the polls outside of them.
pub(crate) struct Drives {
    /// How often the node was driven, above the bit that says whether it is driven now. Its thread alone
    /// writes it.
    word: Word,
    roster: Arc<WakeQueue>,
    node: String,
    period: Duration,
    undriven: Cell<Option<Undriven>>,
}

/// The word of a node's drives.
#[derive(Clone, Default)]
pub(crate) struct Word(Arc<AtomicU64>);

impl Word {
    /// A drive begins.
    #[inline]
    pub(crate) fn begins(&self) {
        self.advance(NOW);
    }

    /// A drive ends.
    #[inline]
    pub(crate) fn ends(&self) {
        self.advance(NOW);
    }

    /// Only the node's thread stores the word, so this needs no exchange.
    #[inline]
    fn advance(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }
}

/// Polls outside of drives since the last drive.
#[derive(Clone, Copy)]
struct Undriven {
    seen: u64,
    since: Instant,
    /// When the last poll came that counts.
    last: Instant,
    polls: u32,
}

impl Drives {
    pub(crate) fn new(roster: &Arc<WakeQueue>, node: String, period: Duration) -> Drives {
        let (roster, undriven) = (Arc::clone(roster), Cell::new(None));
        Drives { word: Word::default(), roster, node, period, undriven }
    }

    /// Returns the word for the driver of the node.
    pub(crate) fn word(&self) -> Word {
        self.word.clone()
    }

    /// A loop of the application's own is about to wait for the node: that counts as a drive.
    pub(crate) fn waits_for_node(&self) {
        self.word.advance(2 * NOW);
    }

    /// A future of the node is pending, and has this waker.
    ///
    /// # Panics
    /// When such futures were polled several times, a period apart each, and nobody has driven the node
    /// since the first of these polls.
    #[inline]
    pub(crate) fn is_awaited(&self, waker: &Waker) {
        let seen = self.word.0.load(Ordering::Relaxed);
        if seen & NOW == 0 {
            self.is_awaited_outside(seen, waker);
        }
    }

    #[cold]
    #[inline(never)]
    fn is_awaited_outside(&self, seen: u64, waker: &Waker) {
        let now = Instant::now();
        let known = self.undriven.get().filter(|undriven| undriven.seen == seen);
        let begins = Undriven { seen, since: now, last: now, polls: 0 };
        let mut undriven = known.unwrap_or(begins);
        if now - undriven.last >= self.period {
            undriven = Undriven { last: now, polls: undriven.polls + 1, ..undriven };
            if undriven.polls == POLLS {
                // A program that continues after the panic gets the message once more, but not at once.
                self.undriven.set(None);
                self.refuse(now - undriven.since);
            }
            // A loop that waits for the node's descriptor drives the node now.
            self.roster.ring();
        }
        self.undriven.set(Some(undriven));
        let watchdog = Watchdog::of_process();
        watchdog.watch(&self.word.0, &self.roster, seen, self.period, waker);
    }

    #[cold]
    fn refuse(&self, waited: Duration) -> ! {
        panic!(
            "a future of node `{}` (a call, a one-way message, a `connect`, a stream, a `sleep`, or a task's \
             handle) has been awaited for {waited:.1?} while nobody drove the node, so the future would wait for \
             ever: an executor that knows nothing of the node polls the future. Write `node.block_on(async \
             {{ … }})` and await the future there, or in a task of the node; under tokio await the future inside \
             `upbeat::tokio_runtime::drive(&node, async {{ … }})`; in a loop of your own call `node.turn()` \
             between two polls. Other threads and runtimes call through a handle, which needs no drive: `let \
             counter: CounterHandle = upbeat::handle::connect(\"counter\")?`",
            self.node
        )
    }
}
