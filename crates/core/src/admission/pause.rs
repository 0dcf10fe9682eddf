//! Pauses: what a node does not do for a while, why, and when it looks again.
//!
//! A node that stops polling a listening socket, or leaves a handshake where it is, has nothing that wakes it for that
//! purpose any more. It therefore keeps a [`Pause`], which has an end, among its [`Pauses`], and never sleeps beyond the
//! first of those ends. Invariant: a pause that has begun is among the pauses until it was taken out, however late the
//! node asks: an end that has passed is due, and not gone.

/// Things of a listening node that can pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Accepting callers of other processes of the host. The listening socket is not polled.
    Processes,
    /// Accepting callers of other hosts. The listening socket is not polled.
    Hosts,
    /// Answering the first messages of callers of other hosts. Their sockets are not polled.
    Answers,
}

/// The number of variants of [`Paused`].
const KINDS: usize = 3;

/// The reason of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// As many handshakes were answered as the rate permits.
    Rate,
    /// As many handshakes are under way as may be, and none gives way yet. The pause is over sooner if one ends.
    Handshakes,
    /// Callers have had their part of the node's time for now.
    Share,
    /// The process has no descriptor left, not even to turn a caller away.
    Descriptors,
    /// The system has no memory to accept a caller.
    Memory,
}

/// A pause with its reason and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pause that is not kept never ends"]
pub struct Pause {
    cause: Cause,
    until_ns: u64,
}

impl Pause {
    /// Creates a pause until a time.
    pub const fn new(cause: Cause, until_ns: u64) -> Pause {
        Pause { cause, until_ns }
    }

    /// Returns the reason.
    pub const fn cause(self) -> Cause {
        self.cause
    }

    /// Returns the end.
    pub const fn until_ns(self) -> u64 {
        self.until_ns
    }

    /// Returns whether the owner looks whether the pause is over: at its end, and at any time where handshakes are the
    /// reason, because each that ends may end the pause too.
    pub const fn is_due(self, now_ns: u64) -> bool {
        self.until_ns <= now_ns || matches!(self.cause, Cause::Handshakes)
    }
}

/// The pauses of a listening node.
///
/// ```
/// use upbeat_core::admission::{Cause, Pause, Paused, Pauses};
///
/// let mut pauses = Pauses::default();
/// assert!(pauses.begin(Paused::Hosts, Pause::new(Cause::Rate, 100)), "it was not paused before");
/// assert_eq!(pauses.next_ns(), Some(100));
/// // A node that comes late still finds it.
/// assert!(pauses.of(Paused::Hosts).unwrap().is_due(900));
/// assert!(pauses.end(Paused::Hosts) && !pauses.end(Paused::Hosts));
/// assert_eq!(pauses.next_ns(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses([Option<Pause>; KINDS]);

impl Pauses {
    /// Begins a pause, or replaces the pause of the same thing. Returns whether there was none.
    pub fn begin(&mut self, what: Paused, pause: Pause) -> bool {
        self.0[what as usize].replace(pause).is_none()
    }

    /// Ends a pause. Returns whether there was one.
    pub fn end(&mut self, what: Paused) -> bool {
        self.0[what as usize].take().is_some()
    }

    /// Returns the pause of a thing.
    pub fn of(&self, what: Paused) -> Option<Pause> {
        self.0[what as usize]
    }

    /// Returns when the node looks again at the latest, if anything pauses. The time may have passed.
    pub fn next_ns(&self) -> Option<u64> {
        self.0.iter().flatten().map(|pause| pause.until_ns).min()
    }
}
