//! Faults that a test can put into this crate and those above it, to check that it detects them.
//!
//! In a build with `RUSTFLAGS="--cfg upbeat_mutants"` a thread may [`put`] a fault in, and a process begins with the one
//! that `UPBEAT_FAULT` names. In all other builds there is none, and the compiler removes every check for one. Programs in
//! simulated worlds and unit tests find the faults: `crates/sim/tests/programs/faults.txt` says which finds which.
//! Invariant: without a fault, the crates behave as in a build without that cfg.

#[cfg(upbeat_mutants)]
pub mod units;

#[cfg(upbeat_mutants)]
use std::cell::Cell;

macro_rules! mutants {
    ($($name:ident, $what:literal;)*) => {
        /// A fault that can be put in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $what] $name,)*
        }

        impl Mutant {
            /// The faults, with their descriptions.
            pub const ALL: &[(Mutant, &'static str)] = &[$((Mutant::$name, $what),)*];
        }
    };
}

mutants! {
    FlagsUnread, "the flags of a call are not read";
    NumberSkipped, "the sender skips a number";
    ReserveForgotten, "the sender forgets that it has asked for room";
    WayNeverWaits, "the sender never waits for progress";
    SafeBeyond, "the sender counts one request too many as accepted";
    SpecialStays, "the sender never removes the state of a request";
    ReservedUnchecked, "progress passes a request that was not sent";
    GrantIgnored, "the sender treats every grant as one of a withdrawn request";
    WithdrawUntold, "a reservation is withdrawn without a message to the receiver";
    NackStray, "a refusal that comes after the progress breaks a rule";
    PlaceForgotten, "a place is counted and its request dropped";
    PlaceInFront, "a request gets a place in front of the waiting ones";
    AcceptUncounted, "a request is accepted and not counted";
    PassUncounted, "a waiting request is accepted and not counted";
    FillKeepsGrant, "a grant stays open although its request has come";
    FillUnbounded, "a request is longer than the room that was granted for it";
    FillUncharged, "a granted request loses its charge";
    VoidKeepsCharge, "a withdrawn granted place keeps its charge";
    VoidReleasesTwice, "a withdrawn granted place releases its charge twice";
    VoidRemoves, "a withdrawn place shifts the places behind it";
    VoidStays, "a withdrawn place is never passed";
    StepIgnoresBudget, "a waiting request is accepted without room";
    StepPassesFront, "a waiting request overtakes those in front of it";
    GrantTwice, "a request is granted twice";
    GrantUncharged, "a grant charges nothing to the budget";
    GrantIgnoresBudget, "a grant is given without room";
    GrantPassesHere, "a grant takes the room of a request that is here and comes first";
    TransferForgotten, "the sender does not record that a granted request was sent";
    ClearKeepsCharge, "a session that ends keeps its charges";
    WentUntold, "requests that were sent on credit are not counted";
    CreditPassesLine, "requests are sent on credit while other senders are queued";
    BarIgnored, "a request is sent before the waiting frames";
    TurnUnchecked, "a request is sent before those of queued senders";
    StandsInFront, "a sender is queued in front of earlier senders";
    NextAsleep, "a sender leaves the queue and the next is not woken";
    TurnKept, "a sender that does not respond keeps its turn";
    ResponseUnheard, "a sender that responds loses its turn";
    BufferUnnoticed, "buffers are returned and no sender is woken";
    PlaceUnnoticed, "requests are accepted and no sender is woken";
    GrantOutOfTurn, "a granted request is sent before those that were granted earlier";
    GrantedAsleep, "the next granted request is not woken";
    GrantKept, "a grant is kept for a sender that does not respond";
    CopiesUncounted, "more requests are in the ring than their receiver copies";
    CopiesUnbounded, "a receiver copies every refused request";
    CopiesStay, "the copy of an accepted request stays counted";
    OpenWhileWaiting, "a request is accepted at once while others wait";
    OpenWhileOwing, "requests are accepted while too many replies wait";
    FrameDropped, "a frame that finds no room is dropped";
    ReplyDropped, "a longer reply that finds no room is dropped";
    ReplyStaysCharged, "a reply that was sent stays charged";
    RepliesUnbounded, "replies wait without regard to their budget";
    EndKeepsReplies, "a session that ends keeps the charges of its replies";
    FullUnnoticed, "the budget is filled and sessions still accept requests at once";
    RoomUnoffered, "released room is offered to no session";
    WaitingCounted, "a handler that waits for another node is counted against the budget";
    CancelIgnored, "a cancel arrives and the handler continues";
    UnreadUnbounded, "unread replies are copied without a bound";
    ReadStaysCounted, "a reply that was read stays counted among the unread ones";
    LostKeepsCalls, "the calls to a dead peer stay open";
    LostKeepsTasks, "tasks of a dead peer's calls continue";
    ExpiryForgotten, "a handler continues after its deadline";
    PostponedEnds, "a handler that was granted more time also ends at its old time";
    WishUnheard, "a receiver does not see that the peer waits for its progress";
    DeadlineUnchecked, "a call whose deadline is past is started";
    GenerationCut, "the generation of a head is not read";
    RefusalsUncounted, "a caller that retries does not count the refusals";
    AdmitsAll, "the budget has no limit";
    NoSpare, "a session that holds nothing waits for the others";
    ShareForgotten, "released bytes are not released from the session's share";
    GenerationReused, "a call's entry is used again with the same number";
    GenerationUnchecked, "a reply is accepted for a later use of its number";
    AnswerTwice, "a call that is answered accepts another reply";
    AnsweredStays, "a call that is dropped with its reply keeps its entry";
    AbandonFrees, "an abandoned call frees its entry before its reply";
    AbandonedStays, "an abandoned call that is answered keeps its entry";
    DrainForgets, "the waiter of a call of a lost session is not returned";
    ServingForgotten, "a call that became a task is not entered";
    ServingStays, "a call that was answered stays entered";
    DuplicateServed, "a call with a number in use is served again";
    RefusedForEver, "a call is refused without a bound";
    DeadlineNotInherited, "a call of a handler has more time than the handler";
    OutlivesUnbounded, "a handler that may outlive its caller does so for ever";
    OutlivesDeadline, "a handler that outlives its caller also outlives its deadline";
    TermBeyondMost, "a call is extended for as long as its callee asks";
    TermAboveUnasked, "a call is extended without a question to the caller's caller";
    TermAboveUnheard, "a call is extended without regard to the answer from above";
    CallerLeaves, "a caller that has granted more time does not wait longer";
    EndedExtended, "a call that has ended is extended";
    QuestionForgotten, "a question for more time is not asked";
    ExtensionUnheard, "a handler that was granted more time ends at its old time";
    CloseGrants, "a handler whose caller is gone grants its callees the caller's time";
    PullTwice, "a reader pulls again before the reply";
    PullAhead, "a reader pulls while a batch waits";
    PullStays, "a reader that got its reply pulls no more";
    ReadUncounted, "a batch that is read stays counted as waiting";
    EndTold, "a reader reports an end to the writer that has sent it";
    StopUntold, "a reader that leaves a stream does not tell the writer";
    DemandTwice, "a pull is accepted while another waits";
    DemandStays, "a writer that has replied accepts no further pull";
    DemandKept, "a stream whose pull is given up stays open";
    LastStays, "a stream whose last batch was sent stays open";
    FeedStops, "a writer stops after its first batch";
    FeedBehindEnd, "a writer continues after its last batch";
    FeedUnwanted, "a writer continues although its reader wants no more";
    AbandonUntold, "a dropped writer does not tell its reader";
    IntakeUnbounded, "a batch is accepted without room";
    IntakeEarly, "a push gets its reply before there is room";
    IntakeUncounted, "a batch that was read to its end stays counted";
    IntakeLeft, "a writer is asked for more although its reader is gone";
    BreakUntold, "a reader is not told that its writer is gone";
    NumberTaken, "a stream gets the number of an open one";
    StopIgnored, "a stream without a reader stays open";
    AbandonIgnored, "a stream without a writer stays open";
    CancelKeepsStreams, "the streams of a cancelled call stay open";
    LostKeepsStreams, "the streams of a lost session stay open";
    ExportNumberAgain, "an export gets the number of one that was withdrawn";
    ExportNumbersAlike, "every node numbers its exports from 0 on";
    ExportNameTwice, "two exports of a node stand under one name";
    ExportTypeUnread, "an export is opened as a value of another type";
    PartUnchecked, "words are read without a check of the part";
    PartOfTwoFields, "words of two fields are taken for a part";
    PartsUnbounded, "any number of parts is read at once";
    AroundUnseen, "the version of the unit around a part is left out";
    InsideUnseen, "the versions of the units inside a part are left out";
    LengthUnlooked, "the version of an option or a vector is not looked at";
    LengthUnread, "an element beyond the length of its vector is read";
    PointerUnchecked, "a pointer may lead out of the value";
    PointerUnlooked, "the version of the unit around a pointer is not looked at";
    EntryUnlooked, "the version of a map is not looked at";
    ExpressionUnchecked, "an expression is evaluated without a check";
    LastElementLeft, "an expression leaves out its last element";
    FilterUnread, "an expression counts elements that its filter leaves out";
    SumCut, "a sum with more than 64 bits is cut off";
    SentToldUnsent, "a call that was sent ends as one that was not sent";
    UnsentToldUnknown, "a call that was not sent ends as one that may have run";
    HintsTrusted, "lanes are polled only after a note";
    SweepPutOff, "a check of the time postpones the next sweep";
    AgainUnread, "over another connection the count of read slots is not sent again";
    AgainUnaccepted, "over another connection the count of accepted requests is not sent again";
    AgainUnwanted, "over another connection a side does not repeat that it waits for room";
    AgainUnreturned, "over another connection returned buffers are not reported again";
    AgainNonzero, "over another connection a word of returns that is 0 is not sent again";
    OnewayUncounted, "a finished one-way message stays counted";
    DeferredPassed, "requests overtake a deferred request";
    DeferredCancelPasses, "a cancel overtakes its deferred call";
    DeferredEarly, "a deferred frame is rewritten before its payload was shipped";
    DeferredForgotten, "deferred frames are dropped when a connection breaks";
    DeferredPartly, "over another connection a payload continues in its middle";
    DeferredBare, "over another connection a rewritten frame is shipped without its payload";
    DeferredTwice, "over another connection a rewritten frame is deferred again";
    DeferredLast, "a deferred frame is rewritten before those that were deferred earlier";
    LateAlways, "every call with a deadline comes too late";
    OverloadedAlways, "no reply may wait";
    DroppedAlways, "every unread reply is dropped";
    GivenUpRuns, "a deferred call that is given up keeps its time";
    RequestUnasked, "a request does not ask the session whether it may go";
    FullUnqueued, "a message that finds no room does not stand in the line";
    LikelyTrusted, "a message that is longer than is likely is not written with its true length";
    RingReplyLost, "a reply that finds no consecutive slots is lost";
    OverloadUntold, "the caller is not told that its reply finds no room";
    SlotsUnnoticed, "free slots of the lane are not noticed";
    SettledAsleep, "room has come and no sender is woken";
    IdleSlabsStay, "idle slabs are not given up for one of another length";
    LackUnrecorded, "a sender that finds no buffer does not note what it lacks";
    GrowthUntold, "a lane continues in a larger segment and the peer is not told";
    SegmentUnheard, "a segment that a frame names is not looked for in the socket";
    SlabUncharged, "the buffers that a peer on another host fills are not charged";
    OnewayUnrung, "a one-way message counts as told, and its sleeping receiver is not woken";
    ClosingUntold, "a node that is closing does not answer a call";
    TurnForgotten, "a session whose requests wait is not looked at when room is made";
    CancelLeavesStreams, "the streams of an answered call that is cancelled go on";
    OrphanEnds, "a handler that may outlive its caller ends with it";
    RefusedForGood, "a call that was sent back is not sent again";
    ExtensionUnnoted, "a handler that has got more time ends at its old time";
    AnswerNotPassed, "an answer from above is not passed on to the callee that has asked";
    LostStaysCounted, "a lost session stays counted for its address";
    LostLeavesHandlers, "the handlers of a lost session go on";
    UnreadForgotten, "a reply that was not read in place is not kept";
    LastLookLeft, "a node sleeps without a last look at what has come";
    CooledUnlooked, "a session that has cooled is not looked at once more";
    EarlierAttemptJoined, "a new call joins an attempt to reconnect that began before it";
    PassingIsFinal, "an attempt to reconnect that has failed is the last one";
    NumberMoved, "a call that goes over another session keeps the number of its method";
    OldUnheard, "messages of the old connection are not heard before a session resumes";
    MendingUnnoted, "a session that has lost its connection is not looked at again";
    FormForgotten, "a reply is not in the form of its call";
    LimitBeforeLayers, "the limit on handlers is taken before the layers";
    EndedListStays, "the segments of a list of readers stay when its exports have ended";
    WatcherStays, "a dropped watcher stays noted at the owner of an export";
    TakenBackCounts, "callers that were taken back from a node still count as waiting for it";
    ClosedWindowOpen, "a closed window of TCP counts as open";
    ReceiveUncharged, "the receive buffer of a stream is not charged";
    AskedForgotten, "a second report of a peer's progress forgets the question in the first";
    AlarmLate, "an earlier alarm of a handle does not set the timer";
    NextAlarmUnset, "the next alarm of a handle is not set after one";
    IdleUnread, "an idle session of a blocking handle is not read before it is used";
    OpenedUntold, "futures that wait for the session of their handle are not woken";
    PutOffUnseen, "a caller does not see that its call has got more time";
    AllKept, "all buffers of a slab may be kept";
    TurnTakenTwice, "a message that has a sample takes the turn of the next one";
    DiversionEnds, "messages are sampled no longer after the first that was diverted";
    ExpiryUnawaited, "a node sleeps beyond the end of its handlers";
    EndUntold, "those that watch an export are not told that it has ended";
    ResumedUnread, "what has come before a session resumes is not looked at";
    OpeningUnarmed, "an opening that has gone a step is not waited for";
    OutputUnawaited, "a socket that takes no more bytes is not waited for";
}

/// Whether faults can be put in. Other builds run without them.
pub const ARE_POSSIBLE: bool = cfg!(upbeat_mutants);

#[cfg(upbeat_mutants)]
thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = Cell::new(named());
}

/// Returns the fault that the environment names, which all threads begin with.
#[cfg(upbeat_mutants)]
fn named() -> Option<Mutant> {
    let name = std::env::var("UPBEAT_FAULT").ok()?;
    let fault = Mutant::ALL.iter().find(|(fault, _)| format!("{fault:?}") == name);
    Some(fault.unwrap_or_else(|| panic!("there is no fault {name}")).0)
}

/// Sets the fault of this thread, in place of the one before.
#[cfg(upbeat_mutants)]
pub fn put(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Does nothing, since this build has no faults.
#[cfg(not(upbeat_mutants))]
pub const fn put(_: Option<Mutant>) {}

/// Returns the fault of this thread.
#[cfg(upbeat_mutants)]
pub fn active() -> Option<Mutant> {
    ACTIVE.get()
}

/// Returns none, since this build has no faults.
#[cfg(not(upbeat_mutants))]
pub const fn active() -> Option<Mutant> {
    None
}

/// Returns whether this thread has the fault.
#[cfg(upbeat_mutants)]
#[inline]
pub fn mutated(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Returns false, since this build has no faults.
#[cfg(not(upbeat_mutants))]
#[inline(always)]
pub const fn mutated(_: Mutant) -> bool {
    false
}
