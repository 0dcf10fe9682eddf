//! What is known of one request.

/// The number of a request.
pub(crate) type Id = u32;

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Replied,
    /// The callee says that nobody wanted it any more, or that it was too late.
    Failed,
    Deadline,
    Dropped,
    Unknown,
    NotSent,
    /// The caller itself is no more.
    CallerDied,
}

/// What came of running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Not,
    Running,
    Finished,
    /// It was cancelled, or its node died.
    Ended,
}

/// What is known of one request.
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
    /// The handler that asked.
    pub(super) parent: Option<Id>,
    pub(super) needs: bool,
    pub(super) refusals: u64,
}

/// What a request has to do with the liar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lies {
    /// Its caller or its callee says things twice: how often it runs is their affair.
    pub(super) of: bool,
    /// Its caller does, so that what it gets is its own affair too.
    pub(super) by: bool,
    /// A liar bounds it, or somebody for whom it was asked: its time may be over sooner than is known.
    pub(super) vague: bool,
}

/// The way of a request to its callee.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// The session and its place in the order of what was sent there.
    pub(super) sent: Option<(u64, u64)>,
    /// Its frame was written, and it was not sent back since.
    pub(super) written: bool,
    /// Its sender has lost its turn.
    pub(super) passed: bool,
    /// It was told that this has not been sent, or taken back before it was.
    pub(super) never: bool,
    /// The session was lost: a one-way message may not have come.
    pub(super) lost: bool,
    /// Its caller gave it up: whatever has this place in its session's order, or a later one, comes
    /// behind the cancel.
    pub(super) given_up: Option<u64>,
}

impl Way {
    /// Returns whether it was sent in this session.
    pub(super) fn is_in(&self, session: u64) -> bool {
        self.sent.is_some_and(|(its, _)| its == session)
    }
}

/// The time of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    /// When it is over for its caller, and how far that may be put off by the caller's own word.
    pub(super) until: Option<u64>,
    pub(super) most: Option<u64>,
    /// When it is over for its handler, who hears of it later.
    pub(super) over: Option<u64>,
    /// Whether its handler waits to be told whether it has more.
    pub(super) question: bool,
    /// For how long its handler may go on without its caller.
    pub(super) outlives: Option<u64>,
    /// When its callee's node heard that nobody wants it any more.
    pub(super) told: Option<u64>,
}

impl Time {
    /// Returns when its handler must have stopped by.
    pub(super) fn bound(&self) -> Option<u64> {
        let told = self.told.and_then(|told| Some(told + self.outlives?));
        [self.over, told].into_iter().flatten().min()
    }
}

/// What was said of a request, beside its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// The handler that asks.
    pub(crate) parent: Option<Id>,
    /// When its time is over, and when in any case.
    pub(crate) until: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) outlives: Option<u64>,
    /// Whether its handler needs what its node has once.
    pub(crate) needs: bool,
    /// How often it was refused before.
    pub(crate) refusals: u64,
}
