//! Faults that a test can put into this crate, to check that it detects them.
//!
//! With the feature `mutants`, which only tests use, a thread may `put` a fault in. Without the feature there is
//! none, and the compiler removes every check for one. The simulator (`dev/sim`) runs histories with each fault.
//! Invariant: without a fault, the crate behaves as it does without the feature.

#[cfg(feature = "mutants")]
use std::cell::Cell;

macro_rules! mutants {
    ($($name:ident, $what:literal;)*) => {
        /// A fault that can be put in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $what] $name,)*
        }

        impl Mutant {
            /// All faults, with their descriptions.
            pub const ALL: &[(Mutant, &'static str)] = &[$((Mutant::$name, $what),)*];
        }
    };
}

mutants! {
    FlagsUnread, "the flags of a call are not read";
    NumberSkipped, "the sender skips a number";
    ReserveForgotten, "the sender forgets that it has asked for room";
    WayNeverWaits, "the sender never waits for progress";
    SafeBeyond, "the sender takes one request too many for accepted";
    SpecialStays, "the sender never forgets what it knows of a request";
    ReservedUnchecked, "progress passes a request that has not gone";
    GrantIgnored, "the sender takes every grant for one of a withdrawn request";
    WithdrawUntold, "a reservation is taken back and the receiver not told";
    NackStray, "a nack that comes after the progress is taken for a fault";
    PlaceForgotten, "a place is counted and what is in it forgotten";
    PlaceInFront, "a place is taken in front of those that wait";
    AcceptUncounted, "a request is accepted and not counted";
    PassUncounted, "a request that waited is accepted and not counted";
    FillKeepsGrant, "a grant stays open though its request has come";
    FillUnbounded, "a request is longer than the room that was granted for it";
    FillUncharged, "a request that was granted forgets its charge";
    VoidKeepsCharge, "a granted place that is given up keeps its charge";
    VoidReleasesTwice, "a granted place that is given up gives its charge back twice";
    VoidRemoves, "a place that is given up moves those behind it";
    VoidStays, "a place that was given up is never passed";
    StepIgnoresBudget, "what waits is accepted without room";
    StepPassesFront, "what waits passes those in front of it";
    GrantTwice, "a request is granted twice";
    GrantUncharged, "a grant takes nothing of the budget";
    GrantIgnoresBudget, "a grant is given without room";
    GrantPassesHere, "a grant takes the room of a request that is here and comes first";
    TransferForgotten, "the sender forgets that a granted request has gone";
    ClearKeepsCharge, "a session that ends keeps what it was charged";
    WentUntold, "what went without a question is not told to the sender";
    CreditPassesLine, "requests go without a question while others stand in line";
    BarIgnored, "a request goes before the frames that wait";
    TurnUnchecked, "a request goes before those that stand in line";
    StandsInFront, "a sender stands in front of those that came before it";
    NextAsleep, "a sender leaves the line and the next is not woken";
    TurnKept, "a sender that does not respond keeps its turn";
    ResponseUnheard, "a sender that responds loses its turn";
    BufferUnnoticed, "buffers come back and no sender is woken";
    PlaceUnnoticed, "requests are accepted and no sender is woken";
    GrantOutOfTurn, "a granted request goes before those that were granted earlier";
    GrantedAsleep, "the next granted request is not woken";
    GrantKept, "a grant is kept for a sender that does not respond";
    CopiesUncounted, "more requests lie in the ring than their receiver copies";
    CopiesUnbounded, "a receiver copies whatever is refused";
    CopiesStay, "what was copied and is accepted stays counted";
    OpenWhileWaiting, "a request is accepted while others wait";
    OpenWhileOwing, "requests are accepted while too many replies wait";
    FrameDropped, "a frame that finds no room is dropped";
    ReplyDropped, "a longer reply that finds no room is dropped";
    ReplyStaysCharged, "a reply that has gone stays charged";
    RepliesUnbounded, "replies wait whatever the budget for them says";
    EndKeepsReplies, "a session that ends keeps what its replies were charged";
    FullUnnoticed, "the budget is filled and sessions go on accepting at once";
    RoomUnoffered, "room that is given back is offered to nobody";
    WaitingCounted, "a handler that waits for another node is counted against the budget";
    CancelIgnored, "a cancel is heard, and the handler goes on";
    UnreadUnbounded, "replies that nobody reads are copied whatever is kept already";
    ReadStaysCounted, "a reply that was read stays counted among the unread";
    LostKeepsCalls, "the calls to a dead peer stay open";
    LostKeepsTasks, "tasks on a dead peer's behalf go on";
    ExpiryForgotten, "a handler goes on behind its deadline";
    PostponedEnds, "a handler that was granted more time ends when it would have, too";
    WishUnheard, "a receiver does not see that its progress is waited for";
    DeadlineUnchecked, "a call whose deadline is past is begun";
    GenerationCut, "the generation of a head is not read";
    RefusalsUncounted, "a caller that sends again does not say how often it was refused";
    AdmitsAll, "the budget has no limit";
    NoSpare, "a session that holds nothing waits for the others";
    ShareForgotten, "what is given back is not given back to the session";
    GenerationReused, "a call's place is used again under the same number";
    GenerationUnchecked, "an answer is taken for a later use of its number";
    AnswerTwice, "a call that is answered takes another answer";
    AnsweredStays, "a call that is dropped with its answer keeps its place";
    AbandonFrees, "an abandoned call gives up its place before its answer";
    AbandonedStays, "an abandoned call that is answered keeps its place";
    DrainForgets, "a call of a lost session is forgotten";
    ServingForgotten, "a call that became a task is not entered";
    ServingStays, "a call that was answered stays entered";
    DuplicateServed, "a call whose number is being served is served again";
    RefusedForEver, "a call is refused however often it was";
    DeadlineNotInherited, "what a handler calls has more time than the handler";
    OutlivesUnbounded, "a handler that may outlive its caller does so for ever";
    OutlivesDeadline, "a handler that outlives its caller outlives its deadline too";
    TermBeyondMost, "a call is extended for as long as its callee wants";
    TermAboveUnasked, "a call is extended without asking for whom it is made";
    TermAboveUnheard, "a call is extended whatever was said above";
    CallerLeaves, "a caller that has granted more time waits no longer than before";
    EndedExtended, "a call that has ended is extended";
    QuestionForgotten, "a question for more time is not asked";
    ExtensionUnheard, "a handler that was granted more time ends when it would have";
    CloseGrants, "a handler whose caller is gone lets what it calls have its caller's time";
    PullTwice, "a reader asks again before it is answered";
    PullAhead, "a reader asks for more while a batch waits";
    PullStays, "a reader that was answered asks no more";
    ReadUncounted, "a batch that is read stays counted among those that wait";
    EndTold, "a reader tells its writer of an end that the writer has sent";
    StopUntold, "a reader that leaves a stream does not say so";
    DemandTwice, "a pull is taken while another waits";
    DemandStays, "a writer that has answered takes no further pull";
    DemandKept, "a stream whose pull is given up stays open";
    LastStays, "a stream whose last batch went stays open";
    FeedStops, "a writer stops after its first batch";
    FeedBehindEnd, "a writer goes on behind its last batch";
    FeedUnwanted, "a writer goes on though nobody wants more";
    AbandonUntold, "a writer that is dropped does not say so";
    IntakeUnbounded, "a batch is taken for which there is no room";
    IntakeEarly, "a push is answered before there is room";
    IntakeUncounted, "a batch that was read to its end stays counted";
    IntakeLeft, "a writer is told to go on though its reader is gone";
    BreakUntold, "a reader does not hear that its writer is gone";
    NumberTaken, "a stream gets the number of one that is open";
    StopIgnored, "a stream that nobody reads stays open";
    AbandonIgnored, "a stream that nobody writes stays open";
    CancelKeepsStreams, "the streams of a call that is given up stay open";
    LostKeepsStreams, "the streams of a lost session stay open";
    SentToldUnsent, "a call that was sent ends as one that was not";
    UnsentToldUnknown, "a call that was not sent ends as one that may have run";
    HintsTrusted, "lanes are looked at only where a hint says so";
    SweepPutOff, "a look at the time puts off the look at every lane";
    AgainUnread, "over another connection the slots that were read are not shown again";
    AgainUnaccepted, "over another connection the accepted requests are not shown again";
    AgainUnwanted, "over another connection a side does not say that it waits for room";
    AgainUnreturned, "over another connection returned buffers are not shown again";
    AgainNonzero, "over another connection a word of returns that is 0 is not shown again";
    OnewayUncounted, "a one-way message that is finished stays counted";
    DeferredPassed, "requests pass a request that was deferred";
    DeferredCancelPasses, "a cancel passes its call, which was deferred";
    DeferredEarly, "a deferred frame is written again before its payload was shipped";
    DeferredForgotten, "frames that were deferred when a connection breaks are forgotten";
    DeferredPartly, "over another connection a payload goes on where it was";
    DeferredBare, "over another connection a frame that was written again goes without its payload";
    DeferredTwice, "over another connection a frame that was written again is deferred again";
    DeferredLast, "a deferred frame is written again before those that were deferred earlier";
    GivenUpRuns, "a deferred call that is given up keeps its time";
}

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Sets the fault of this thread, in place of the one before.
#[cfg(feature = "mutants")]
pub fn put(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Returns whether this thread has the fault.
#[cfg(feature = "mutants")]
#[inline]
pub(crate) fn mutated(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Returns false, since there are no faults without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn mutated(_: Mutant) -> bool {
    false
}
