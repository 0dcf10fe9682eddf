//! Requests that have asked for room, and what becomes of a grant that nobody uses.
//!
//! A grant is kept for its sender, and the receiver passes no later request of the session over it.
//! A future that is kept without being polled, or forgotten, would hold all of them up: after a while
//! its grant is given back.

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;
use upbeat_memory::ticks::{Ticks, nanoseconds, ticks};

/// For how long a grant is kept for a sender that was woken and does not respond. A busy runtime may
/// poll late, and has to ask again if it was too late.
const KEPT: Duration = Duration::from_millis(100);

/// A request that has asked for room.
pub(super) struct Asked {
    waker: Waker,
    pub(super) granted: bool,
    /// Since when it has been woken without having been polled, in ticks; 0 if it has not.
    woken_since: Cell<u64>,
}

/// The state of a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// There is none yet, or others go first.
    Awaited,
    /// The request may go.
    Here,
    /// It was not used in time and is given back: room has to be asked for again.
    Lost,
}

impl Asked {
    pub(super) fn new(waker: Waker) -> Asked {
        Asked { waker, granted: false, woken_since: Cell::new(0) }
    }

    /// Its sender is polled.
    pub(super) fn responds(&mut self, is_first: bool, waker: &Waker) -> Grant {
        self.woken_since.set(0);
        if self.granted && is_first {
            return Grant::Here;
        }
        self.waker.clone_from(waker);
        Grant::Awaited
    }

    /// Wakes its sender.
    pub(super) fn wake(&self) {
        self.note_woken();
        self.waker.wake_by_ref();
    }

    /// Its sender is woken.
    pub(super) fn note_woken(&self) {
        if self.woken_since.get() == 0 {
            self.woken_since.set(ticks());
        }
    }

    /// For how many nanoseconds its grant is still kept, if its sender was woken and has not responded.
    pub(super) fn kept_ns(&self) -> Option<u64> {
        let since = Some(self.woken_since.get()).filter(|since| *since != 0)?;
        Some(nanoseconds(KEPT).saturating_sub(Ticks::since(since).nanoseconds()))
    }

    pub(super) fn into_waker(self) -> Waker {
        self.waker
    }
}
