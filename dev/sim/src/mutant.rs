//! Faults that are put in, to see that the checker finds them: those of `upbeat-core`, and those of
//! decisions that are the runtime's, which the world makes in its stead.

use std::cell::Cell;
use std::fmt;

use upbeat_core::mutant as core;

/// A fault in a decision of the runtime's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    WithdrawDropped,
    BufferEarly,
    BufferForgotten,
    BufferShared,
    WaitingCounted,
    RoomUnoffered,
    DeadlineUnchecked,
    IncarnationUnchecked,
    LostKeepsTasks,
    LostKeepsCalls,
    NotSentForSent,
    HintsTrusted,
    ReplyTwice,
    GenerationCut,
    RoomUnchecked,
    LentWhileCalling,
    AnswerForgotten,
    WishUnheard,
    CancelIgnored,
    CancelStops,
    LossOrphans,
    ExpiryForgotten,
    RefusedBegins,
    RefusedRuns,
    RefusalsUncounted,
    AgainAnyway,
    LockKept,
    LackIgnored,
    OrphanAnswers,
    LateTaken,
}

impl Own {
    pub(crate) const ALL: [(Own, &'static str); 30] = [
        (Own::WithdrawDropped, "a withdrawal is not sent"),
        (Own::BufferEarly, "a buffer is returned before it was read"),
        (Own::BufferForgotten, "the buffer of a request that was cancelled is not returned"),
        (Own::BufferShared, "a buffer is used again before it was returned"),
        (Own::WaitingCounted, "who waits for another node is counted against the budget"),
        (Own::RoomUnoffered, "room that is given back is offered to nobody"),
        (Own::DeadlineUnchecked, "a call whose deadline is past is begun"),
        (Own::IncarnationUnchecked, "a session goes on with another incarnation"),
        (Own::LostKeepsTasks, "tasks on a dead peer's behalf go on"),
        (Own::LostKeepsCalls, "the calls to a dead peer stay open"),
        (Own::NotSentForSent, "a call that was sent to a dead peer is said not to have been"),
        (Own::HintsTrusted, "what no hint has told of is never looked at"),
        (Own::ReplyTwice, "a call that is cancelled is answered twice"),
        (Own::GenerationCut, "the generation of a head is not read"),
        (Own::RoomUnchecked, "a frame is written where there is no room"),
        (Own::LentWhileCalling, "a handler keeps its buffer while it waits for another node"),
        (Own::AnswerForgotten, "the buffer of an answer that nobody waits for is not returned"),
        (Own::WishUnheard, "a receiver does not see that its progress is waited for"),
        (Own::CancelIgnored, "a cancel is heard, and the handler goes on"),
        (Own::CancelStops, "a handler that is dropped does not drop what it has called"),
        (Own::LossOrphans, "a handler whose caller died and that may outlive it has no bound"),
        (Own::ExpiryForgotten, "a handler goes on behind its deadline"),
        (Own::RefusedBegins, "a handler begins before it is found that it lacks what it needs"),
        (Own::RefusedRuns, "a call is sent back, and runs later nevertheless"),
        (Own::RefusalsUncounted, "who comes again does not say how often it was refused"),
        (Own::AgainAnyway, "a call that was dropped between two refusals comes again"),
        (Own::LockKept, "a handler that is dropped keeps what it had"),
        (Own::LackIgnored, "a handler that may not wait, and has to, is run"),
        (Own::OrphanAnswers, "a handler that outlived its caller answers it"),
        (Own::LateTaken, "the answer to a call that was abandoned is taken for another"),
    ];
}

thread_local! {
    static ACTIVE: Cell<Option<Own>> = const { Cell::new(None) };
}

/// Whether this fault is in.
pub(crate) fn mutated(own: Own) -> bool {
    ACTIVE.get() == Some(own)
}

/// A fault of either home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    Core(core::Mutant),
    World(Own),
}

impl Mutant {
    /// Every one, with what it does.
    pub(crate) fn all() -> Vec<(Mutant, &'static str)> {
        let core = core::Mutant::ALL.iter().map(|&(it, what)| (Mutant::Core(it), what));
        core.chain(Own::ALL.iter().map(|&(it, what)| (Mutant::World(it), what))).collect()
    }

    /// Puts it into what this thread runs from now on, alone; none takes out what is in.
    pub(crate) fn put(mutant: Option<Mutant>) {
        core::put(match mutant {
            Some(Mutant::Core(it)) => Some(it),
            _ => None,
        });
        ACTIVE.set(match mutant {
            Some(Mutant::World(it)) => Some(it),
            _ => None,
        });
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutant::Core(it) => write!(f, "core {it:?}"),
            Mutant::World(it) => write!(f, "world {it:?}"),
        }
    }
}
