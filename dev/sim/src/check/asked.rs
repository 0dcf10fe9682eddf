//! The record of one request.

/// The number of a request.
pub(crate) type Id = u32;

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Replied,
    /// The callee says that nobody wanted the result any more, or that the request came too late.
    Failed,
    Deadline,
    Dropped,
    Unknown,
    NotSent,
    /// The caller's node died.
    CallerDied,
}

/// How far a request ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Not,
    Running,
    Finished,
    /// The request was cancelled, or its node died.
    Ended,
}

/// The record of one request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) oneway: bool,
    pub(super) lies: Lies,
    pub(super) way: Way,
    pub(super) time: Time,
    pub(super) end: Option<End>,
    pub(super) run: Run,
    /// The handler that made the request.
    pub(super) parent: Option<Id>,
    pub(super) needs: bool,
    pub(super) refusals: u64,
}

/// How the liar may affect a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lies {
    /// The caller or the callee is the liar, so the request may run any number of times.
    pub(super) of: bool,
    /// The caller is the liar, so any result is allowed.
    pub(super) by: bool,
    /// The liar set the deadline of this request or of one that led to it, so the time may end sooner than recorded.
    pub(super) vague: bool,
}

/// How far a request is on its way to the callee.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// The session, and the place in the order of the requests that were sent there.
    pub(super) sent: Option<(u64, u64)>,
    /// The frame was written, and the request was not sent back since.
    pub(super) written: bool,
    /// The sender has lost its turn.
    pub(super) passed: bool,
    /// The caller was told that the request was not sent, or was withdrawn before it was.
    pub(super) never: bool,
    /// The session was lost, so a one-way message may not have arrived.
    pub(super) lost: bool,
    /// The place of the first request of the session that is sent after the cancel. None while the caller wants the
    /// result.
    pub(super) given_up: Option<u64>,
}

impl Way {
    /// Returns whether the request was sent in this session.
    pub(super) fn is_in(&self, session: u64) -> bool {
        self.sent.is_some_and(|(its, _)| its == session)
    }
}

/// The time of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    /// The time at which the request ends for its caller, which the caller may extend.
    pub(super) until: Option<u64>,
    pub(super) most: Option<u64>,
    /// The time at which the request ends for its handler, which learns of it later.
    pub(super) over: Option<u64>,
    /// Whether the handler waits for the answer to its question for more time.
    pub(super) question: bool,
    /// How long the handler may continue without its caller.
    pub(super) outlives: Option<u64>,
    /// When the callee's node learned that the request was given up.
    pub(super) told: Option<u64>,
}

impl Time {
    /// Returns the time by which the handler must have stopped.
    pub(super) fn bound(&self) -> Option<u64> {
        let told = self.told.and_then(|told| Some(told + self.outlives?));
        [self.over, told].into_iter().flatten().min()
    }
}

/// The properties of a request, apart from its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// The handler that makes the request.
    pub(crate) parent: Option<Id>,
    /// The time at which the request ends, and the latest time to which that may be extended.
    pub(crate) until: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) outlives: Option<u64>,
    /// Whether the handler needs the exclusive resource of its node.
    pub(crate) needs: bool,
    /// How often the request was refused before.
    pub(crate) refusals: u64,
}
