//! One side of a session: its carrier, its open calls, and the calls that it serves.
//!
//! Nodes and handles hold sessions alike, and differ in who polls them. This module moves frames and keeps the
//! tables; the owner decides which waiter is polled when a reply comes, and what a request runs. Invariant: a frame
//! is passed only after its contents have been taken over.

mod notes;
mod front;
mod send_error;
mod lent;
mod segments;
mod loans;
mod tolerant;
mod reply;
mod samples;
mod payload;
mod write;
mod built;
mod flow;
mod pool;
mod kinds;
mod link;
mod queue;
mod send;
mod ending;
mod leaving;
mod unsent;

pub(crate) use flow::{KeptRequest, Next, Terms};
pub(crate) use front::{Extensions, Front, Plain};
pub(crate) use leaving::leave_all;
pub(crate) use loans::{Lent, Served};
pub(crate) use notes::NodeNotes;
pub(crate) use queue::{Admission, SenderTurn};
pub(crate) use reply::Answer;
pub(crate) use send_error::SendError;
pub(crate) use unsent::Unsent;

use crate::error::{Lost, Why};
use crate::wake::{ForeignWaker, TaskId};
use crate::wire::Input;
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::sync::Arc;
use upbeat_core::channel::call::Serving;
use upbeat_core::fault::Rule;
use upbeat_core::flow::ReplyBudget;
use upbeat_core::frame::{Flags, Head};
use upbeat_core::limits::{FLUSH_MESSAGES, RING_SLOTS_MAX, STREAM_OUT_BYTES};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::quota::Quota;
use upbeat_core::resume::Link;
use upbeat_core::session::{Grant, Growth};
use upbeat_memory::fork::Process;
use upbeat_memory::ring::Look;
use upbeat_memory::segment::SegmentError;
use upbeat_memory::sync::FenceProof;
use upbeat_memory::ticks::Ticks;
use upbeat_transport::carrier::{Carrier, SocketError};

/// The slots of messages that are flushed in the middle of a turn over a byte stream: 32 KiB of the shortest
/// messages.
const STREAM_FLUSH_SLOTS: u64 = 1024;

/// The waiter that is polled when a reply comes.
pub(crate) enum Waiter {
    /// A task of the owning node, which is polled while the reply lies in the lane.
    Task(TaskId),
    /// Any other waiter.
    Waker(ForeignWaker),
}

/// The reason why a session must end. It is on the heap so that results without an error stay small.
pub(crate) type Fault = Box<Why>;

#[cold]
pub(crate) fn misbehaved(rule: Rule) -> Fault {
    Box::new(Why::Misbehaved(rule))
}

#[cold]
pub(crate) fn broken(what: &dyn std::fmt::Display) -> Fault {
    Box::new(Why::Broken(what.to_string()))
}

/// Returns the fault of a peer's segment that cannot be used.
#[cold]
fn unusable(error: SegmentError) -> Fault {
    match error {
        SegmentError::Mapping { .. } => Box::new(Why::Unmapped { text: error.to_string() }),
        error => broken(&error),
    }
}

/// One side of a session.
pub(crate) struct Session {
    pub(crate) carrier: Carrier,
    /// The node's own notes about the session.
    pub(crate) noted: NodeNotes,
    /// The state machine that makes all decisions.
    core: upbeat_core::session::Session<kinds::Kinds>,
    answers: reply::Answers,
    /// The room that was last announced to the peer.
    relieved: Cell<[u64; 3]>,
    /// The slots of our lane that were written when the peer's polling flag was last read.
    flushed: Cell<u64>,
    /// Whether frames or replies wait in queues, or a sender waits.
    pressed: Cell<bool>,
    growth: Growth,
    pool: pool::Pool,
    lent: lent::PeerSlabs,
    segments: segments::Segments,
    samples: RefCell<samples::Samples>,
    /// The state of the session's end.
    pub(crate) ending: Ending,
    /// Wakes the owner.
    wake: Arc<dyn Fn() + Send + Sync>,
    /// The process in which the session was made.
    made: Process,
}

/// The state of a session's end.
#[derive(Default)]
pub(crate) struct Ending {
    /// The reason why the session must end, found where it could not be returned.
    fault: Cell<Option<Fault>>,
    /// Whether the peer has announced the end.
    pub(crate) goodbye: Cell<bool>,
    /// Whether this side has announced the end.
    said: Cell<bool>,
    /// The state of the connection, if the session outlives it.
    link: Cell<Option<Link>>,
    /// Whether the owner has noticed that the connection is lost.
    is_down: Cell<bool>,
    /// The error of the last attempt to connect again.
    failed: RefCell<Option<String>>,
    lost: OnceCell<Lost>,
}

impl Session {
    /// Returns a session that has begun. The memory that a peer on another host makes this side hold is charged to
    /// `quota`. `wake` wakes the owner from any thread.
    pub(crate) fn new(
        carrier: Carrier,
        terms: Terms,
        replies: ReplyBudget,
        quota: Option<&Quota>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Session {
        carrier.read_at_most(terms.longest);
        quota.into_iter().for_each(|quota| carrier.charge_to(quota));
        let link = Cell::new(carrier.agreed().map(|agreed| Link::new(*agreed)));
        Session {
            carrier,
            noted: NodeNotes::default(),
            core: upbeat_core::session::Session::new(&terms.core(), replies),
            answers: reply::Answers::default(),
            relieved: Cell::default(),
            flushed: Cell::new(0),
            pressed: Cell::new(false),
            growth: Growth::new(),
            pool: pool::Pool::default(),
            lent: lent::PeerSlabs::new(terms.longest),
            segments: segments::Segments::default(),
            samples: RefCell::default(),
            ending: Ending { link, ..Ending::default() },
            wake,
            made: Process::this(),
        }
    }

    /// Returns whether a frame of the peer has come.
    #[inline(always)]
    pub(crate) fn has_frame(&self) -> bool {
        self.carrier.reader().has_frame()
    }

    /// Looks for the peer's next frame, and returns the words of its head. Only the length was compared with the
    /// frame's span.
    #[inline(always)]
    pub(crate) fn look(&self) -> Result<Option<[u64; 3]>, Fault> {
        match self.carrier.reader().look() {
            Ok(None) => Ok(None),
            Ok(Some(words)) => {
                if Head::len_in(&words) as usize > self.carrier.payload().room() {
                    return Err(self.too_long(Head::len_in(&words)));
                }
                Ok(Some(words))
            }
            Err(fault) => Err(broken(&fault)),
        }
    }

    /// Looks for the peer's next frame as [`Session::look`] does, on a shorter path for a frame of one slot.
    #[inline(always)]
    pub(crate) fn look_next(&self) -> Look {
        self.carrier.reader().look_short()
    }

    /// Looks for the peer's next frame if that is not of one slot. Padding is passed.
    pub(crate) fn look_long(&self) -> Result<Option<[u64; 3]>, Fault> {
        match self.look()? {
            None => self.look_behind_padding(),
            words => Ok(words),
        }
    }

    /// Looks for the peer's next frame behind more padding: frames that the peer has deferred leave one behind the other.
    /// A session that ends takes no frame after this has found none.
    #[cold]
    fn look_behind_padding(&self) -> Result<Option<[u64; 3]>, Fault> {
        let (mut words, mut left) = (None, RING_SLOTS_MAX);
        while words.is_none() && left > 0 && self.carrier.reader().has_frame() {
            words = self.look()?;
            left -= 1;
        }
        if words.is_none() {
            // Padding frees its slots, and no later frame reports them.
            self.publish_progress();
        }
        Ok(words)
    }

    /// Passes the open frame of one slot.
    #[inline(always)]
    pub(crate) fn advance_short(&self) {
        self.carrier.reader().advance_short();
    }

    /// Stops reading the peer's lane, because the session is lost.
    pub(crate) fn leave_lane(&self) {
        self.carrier.reader().close();
    }

    #[cold]
    pub(crate) fn too_long(&self, len: u32) -> Fault {
        let span = upbeat_memory::ring::span_of(self.carrier.payload().room());
        misbehaved(Rule::LengthBeyondSpan { len, span })
    }

    /// Passes the open frame.
    #[inline(always)]
    pub(crate) fn advance(&self) {
        self.carrier.reader().advance();
    }

    /// Returns the payload of the open frame, without its extensions.
    #[inline(always)]
    pub(crate) fn payload(&self, head: &Head) -> Input<'_> {
        let from = head.flags.extension_bytes();
        let end = from + head.body_bytes();
        Input::frame(self.carrier.payload(), from as usize, end as usize)
    }

    /// Returns the payload of `len` bytes of an open frame without extensions.
    #[inline(always)]
    pub(crate) fn plain_payload(&self, len: u32) -> Input<'_> {
        Input::frame(self.carrier.payload(), 0, len as usize)
    }

    /// Returns the microseconds until the deadline in the open frame. The time since the frame was written is
    /// subtracted, because this side may have been stopped or busy. A counter ahead of ours subtracts nothing, and
    /// another host's counter subtracts no more than is certain.
    pub(crate) fn deadline_us(&self, head: &Head) -> Option<u64> {
        let word = |at: u32| self.carrier.payload().read_word(at as usize);
        let allowed = word(head.flags.offset_of(Flags::DEADLINE)?);
        let made =
            head.flags.offset_of(Flags::MADE).map(word).and_then(|made| self.at_latest(made));
        let passed = made.map_or(0, |made| Ticks::since(made).nanoseconds() / 1000);
        Some(allowed.saturating_sub(passed))
    }

    /// Returns the latest time, by our counter, at which a stamp of the peer was taken, if that is known.
    fn at_latest(&self, stamp: u64) -> Option<u64> {
        Some(match self.carrier.offset().ok()? {
            None => stamp,
            Some(offset) => {
                let (at, doubt) = offset.ours(stamp);
                at.saturating_add(doubt)
            }
        })
    }

    /// Returns how often the call in the open frame was refused, if the call may be refused.
    pub(crate) fn refusals(&self, head: &Head) -> Option<u64> {
        let at = head.flags.offset_of(Flags::REFUSABLE)?;
        Some(self.carrier.payload().read_word(at as usize))
    }

    /// Returns the first word of the payload of an open control frame.
    pub(crate) fn first_word(&self) -> u64 {
        self.carrier.payload().read_word(0)
    }

    /// Publishes this side's progress to the peer, once for each drained batch.
    #[inline(always)]
    pub(crate) fn publish_progress(&self) {
        self.carrier.reader().publish_progress();
        self.show_accepted();
    }

    /// Notes that a one-way message of the peer is done whose handler had become a task.
    pub(crate) fn end_oneway(&self) {
        if self.ended().is_none() {
            self.core.serving().end_oneway();
        }
    }

    /// Gives up slabs and grants that were unused for a while, and checks a peer on another host.
    pub(crate) fn tidy(&self) {
        self.retire_unused_slabs();
        self.withdraw_unused_grants();
        self.look_at_peer();
    }

    /// Returns in how many nanoseconds the next [`Session::tidy`] is due, if one is.
    pub(crate) fn tidy_in_ns(&self) -> Option<u64> {
        let looks = self.looks_at_peer_in_ns();
        [self.slabs_kept_ns(), self.grants_kept_ns(), looks].into_iter().flatten().min()
    }

    /// Returns whether messages were written since the peer's polling flag was last read.
    #[inline(always)]
    pub(crate) fn is_unflushed(&self) -> bool {
        self.carrier.writer().out() != self.flushed.get()
    }

    /// Returns whether the peer sleeps and was not yet woken. Without a fence the answer may be an outdated no, and
    /// the flush at the turn's end makes up for it.
    #[inline(always)]
    pub(crate) fn must_flush(&self) -> bool {
        if mutated(Mutant::OnewayUnrung) {
            self.flushed.set(self.carrier.writer().out());
            return false;
        }
        let slots = self.carrier.writer().out().wrapping_sub(self.flushed.get());
        slots >= FLUSH_MESSAGES as u64 && self.is_much(slots) || self.carrier.must_ring()
    }

    /// Returns whether this many slots are worth a flush. Over a byte stream each flush costs a system call.
    #[cold]
    fn is_much(&self, slots: u64) -> bool {
        let part = || self.carrier.writer().slots() / 2;
        !self.carrier.caps().is_pumped || slots >= u64::from(part()).min(STREAM_FLUSH_SLOTS)
    }

    /// Notes that a long payload was written into a buffer: a byte stream sends it while the next one is written.
    pub(super) fn wrote_long(&self, len: usize) {
        if len >= STREAM_OUT_BYTES && self.carrier.caps().is_pumped {
            self.flushed.set(self.flushed.get().wrapping_sub(STREAM_FLUSH_SLOTS));
        }
    }

    /// Returns whether the peer waits for room in its lane.
    #[inline(always)]
    pub(crate) fn peer_wants_room(&self) -> bool {
        self.carrier.reader().peer_wants_room()
    }

    /// Returns whether room was made since the last call. If not, a sleeping peer has no news to be woken for.
    pub(crate) fn has_made_room(&self) -> bool {
        let shown = self.carrier.reader().shown();
        self.relieved.replace(shown) != shown
    }

    /// Tells a peer that does not poll of new messages: marks its board, and wakes it if it sleeps. `fenced` proves a
    /// fence after the last message. Returns whether the peer was woken.
    #[inline(always)]
    pub(crate) fn flush(&self, fenced: FenceProof) -> bool {
        let rang = self.carrier.flush(fenced);
        // A byte stream may have written a frame that it had deferred into the lane again, and has sent it.
        self.flushed.set(self.carrier.writer().out());
        rang
    }

    /// Takes events of the socket: wake-ups, segments, the end. Returns whether more may wait.
    pub(crate) fn hear(&self) -> Result<bool, Fault> {
        match self.carrier.drain() {
            Ok(drained) => {
                for segment in drained.segments {
                    if !self.segments.keep(segment) {
                        return Err(broken(&"more segments than rings and slabs can use"));
                    }
                }
                if let Some(refusal) = drained.refusal {
                    return Err(Box::new(Why::GivenUp { text: refusal.to_string() }));
                }
                if drained.in_order {
                    self.ending.goodbye.set(true);
                }
                match drained.closed {
                    true => Err(self.ending.fault.take().unwrap_or_else(|| Box::new(Why::Died))),
                    false => Ok(drained.more),
                }
            }
            Err(SocketError::System { error, .. }) if self.is_remote() => {
                Err(Box::new(link::unreachable(error)))
            }
            Err(SocketError::System { .. }) => Err(Box::new(Why::Died)),
            Err(SocketError::Descriptors { limit }) => Err(Box::new(Why::Descriptors { limit })),
            Err(fault) => Err(broken(&fault)),
        }
    }

    /// Follows the peer's lane into its next segment, which the open frame announces.
    pub(crate) fn follow(&self, generation: u32) -> Result<(), Fault> {
        let segment = self.segment(generation)?;
        let carrier = &self.carrier;
        let next = carrier.reader().next_growth();
        if next != u8::try_from(generation).ok().map(|next| (next, segment.bytes as usize)) {
            return Err(misbehaved(Rule::SwitchWithoutSegment { generation }));
        }
        let region = segment.open().map_err(unusable)?;
        self.advance();
        carrier.reader().grow(region);
        Ok(())
    }

    /// Returns whether this process has made the session, and is not a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.made.is_this()
    }

    /// Returns why the session has ended, if it has.
    #[inline(always)]
    pub(crate) fn ended(&self) -> Option<&Lost> {
        self.ending.lost.get()
    }

    /// Returns whether the session has ended because this node has.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.ended().is_some_and(|lost| lost.why == Why::ShutDown)
    }

    /// Ends the session. Every waiter is woken through `wake`, and gets the error when it is polled.
    pub(crate) fn end(&self, why: Why, mut wake: impl FnMut(Waiter)) {
        if self.ending.lost.set(Lost::new(&self.peer_text(), why)).is_err() {
            return;
        }
        let callers = self.core.end();
        let waiters = self.answers.others.borrow_mut().end(callers);
        waiters.into_iter().for_each(&mut wake);
        self.wake_senders(&mut wake);
        self.samples.take();
        self.pressed.set(false);
    }

    /// Returns whether the peer is on another host.
    pub(crate) fn is_remote(&self) -> bool {
        self.carrier.peer.at.is_some()
    }

    /// Returns whether no request of the peer waits, and everything for the peer has left this node.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting() == 0 && self.core.owed().0 == 0 && !self.carrier.has_unsent()
    }

    /// Returns the handlers of the peer's requests that have become tasks.
    #[inline(always)]
    pub(crate) fn serving(&self) -> RefMut<'_, Serving<TaskId>> {
        self.core.serving()
    }

    /// Returns the handlers of the peer's calls, whose session has ended.
    pub(crate) fn take_served(&self) -> Vec<TaskId> {
        self.core.take_served().into_iter().map(|(_, task)| task).collect()
    }

    /// Returns whether requests of the peer have become tasks that are not done.
    pub(crate) fn serves(&self) -> bool {
        let serving = self.core.serving();
        !serving.is_empty() || serving.oneways() != 0
    }
}
