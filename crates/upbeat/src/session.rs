//! A session as one side holds it: its carrier, the calls it has open, the calls it serves.
//!
//! A node and a handle hold the same session; what differs is who looks. This file moves frames
//! and keeps the tables; who is polled when an answer comes, and what a request runs, is decided
//! by the one who looks. Invariant: a frame is passed only when what it says has been taken over.

mod front;
mod lent;
mod loans;
mod reply;
mod samples;
mod put;
mod write;
mod flow;
mod pool;
mod kinds;
mod link;
mod queue;
mod send;

pub(crate) use flow::{Kept, Next, Terms};
pub(crate) use front::Extensions;
pub(crate) use loans::{Lent, Served};
pub(crate) use put::Put;
pub(crate) use queue::Admission;
pub(crate) use reply::Answer;

use crate::error::{Lost, Why};
use crate::wake::TaskId;
use crate::wire::Input;
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use upbeat_core::address::NodeAddress;
use upbeat_core::channel::call::Serving;
use upbeat_core::fault::Rule;
use upbeat_core::flow::ReplyBudget;
use upbeat_core::frame::{Flags, Head};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::{FLUSH_MESSAGES, STREAM_OUT_BYTES};
use upbeat_core::quota::Quota;
use upbeat_core::resume::Link;
use upbeat_core::session::{Grant, Growth};
use upbeat_memory::fork::Process;
use upbeat_memory::pool::Key;
use upbeat_memory::ring::Look;
use upbeat_memory::segment::SegmentError;
use upbeat_memory::sync::Fenced;
use upbeat_memory::ticks::Ticks;
use upbeat_transport::carrier::{BellFault, Carrier, Segment as GrownSegment};

/// Slots of messages that are flushed in the middle of a turn over a byte stream: 32 KiB of the shortest.
const STREAM_FLUSH_SLOTS: u64 = 1024;

/// Who is to be polled when an answer comes.
pub(crate) enum Waiter {
    /// A task of the node that looks: polled while the answer lies in the lane.
    Task(TaskId),
    /// Anybody else.
    Waker(Waker),
}

/// Why a session must end, on the heap so that what goes well stays small.
pub(crate) type Fault = Box<Why>;

#[cold]
pub(crate) fn misbehaved(rule: Rule) -> Fault {
    Box::new(Why::Misbehaved(rule))
}

#[cold]
pub(crate) fn broken(what: &dyn std::fmt::Display) -> Fault {
    Box::new(Why::Broken(what.to_string()))
}

/// A segment of the peer's cannot be used.
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
    /// What its node notes of it.
    pub(crate) noted: Noted,
    /// All that it decides.
    core: upbeat_core::session::Session<kinds::Kinds>,
    answers: reply::Answers,
    /// What room it was last told of.
    relieved: Cell<[u64; 3]>,
    /// Slots of our lane that were written when the promise was last looked at.
    flushed: Cell<u64>,
    /// Whether frames or replies wait, or a sender waits.
    pressed: Cell<bool>,
    growth: Growth,
    pool: pool::Pool,
    lent: lent::Lent,
    segments: RefCell<VecDeque<GrownSegment>>,
    samples: RefCell<samples::Samples>,
    /// How it ends.
    pub(crate) ending: Ending,
    /// Wakes who looks at it.
    wake: Arc<dyn Fn() + Send + Sync>,
    /// Where it was made.
    made: Process,
}

/// What a node notes of a session.
#[derive(Default)]
pub(crate) struct Noted {
    /// Where the node keeps it.
    pub(crate) key: Cell<Option<Key>>,
    /// As what this node has opened it, if it has: at the socket, inbox or address of the peer's.
    pub(crate) opened_as: OnceCell<NodeAddress>,
    /// Whether the peer's process is watched for this session.
    pub(crate) watched: Cell<bool>,
    /// Whether the node looks at its lane each turn.
    pub(crate) hot: Cell<bool>,
    /// How much of its lane had been taken when the node last asked who was idle.
    pub(crate) taken: Cell<u64>,
    /// Whether the node looks at it when room is made for requests that wait.
    pub(crate) awaits_turn: Cell<bool>,
    /// Whether the node waits until its socket takes more.
    pub(crate) awaits_output: Cell<bool>,
}

/// How a session ends.
#[derive(Default)]
pub(crate) struct Ending {
    /// Why it must end, found where nobody could be told.
    fault: Cell<Option<Fault>>,
    /// The peer said goodbye.
    pub(crate) goodbye: Cell<bool>,
    /// Whether the connection stands, where the session outlives it.
    link: Cell<Option<Link>>,
    /// Whether it was noticed that it does not.
    is_down: Cell<bool>,
    /// Why the last attempt to connect again has failed.
    failed: RefCell<Option<String>>,
    lost: OnceCell<Lost>,
}

impl Session {
    /// A session that has begun. What a peer on another host makes this side hold is charged to `quota`. `wake` wakes
    /// who looks at it, from any thread.
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
            noted: Noted::default(),
            core: upbeat_core::session::Session::new(&terms.core(), replies),
            answers: reply::Answers::default(),
            relieved: Cell::default(),
            flushed: Cell::new(0),
            pressed: Cell::new(false),
            growth: Growth::new(),
            pool: pool::Pool::default(),
            lent: lent::Lent::new(terms.longest),
            segments: RefCell::new(VecDeque::new()),
            samples: RefCell::default(),
            ending: Ending { link, ..Ending::default() },
            wake,
            made: Process::this(),
        }
    }

    /// Whether a frame of the peer's has come.
    #[inline(always)]
    pub(crate) fn has_frame(&self) -> bool {
        self.carrier.lanes.has_frame()
    }

    /// Looks for the next frame of the peer: its words, of which only the length was held against
    /// the frame's span.
    #[inline(always)]
    pub(crate) fn look(&self) -> Result<Option<[u64; 3]>, Fault> {
        match self.carrier.lanes.look() {
            Ok(None) => Ok(None),
            Ok(Some(words)) => {
                if Head::len_in(&words) as usize > self.carrier.lanes.reader().room() {
                    return Err(self.too_long(Head::len_in(&words)));
                }
                Ok(Some(words))
            }
            Err(fault) => Err(broken(&fault)),
        }
    }

    /// Looks for the next frame of the peer as [`Session::look`] does, by a shorter way for a frame of one
    /// slot.
    #[inline(always)]
    pub(crate) fn look_next(&self) -> Look {
        self.carrier.lanes.reader().look_short()
    }

    /// Looks for the next frame of the peer where it is not of one slot. Padding alone is passed.
    pub(crate) fn look_long(&self) -> Result<Option<[u64; 3]>, Fault> {
        let words = self.look()?;
        if words.is_none() {
            // Its slots are free again, of which no frame behind it tells.
            self.publish_progress();
        }
        Ok(words)
    }

    /// Passes the frame of one slot that lies open.
    #[inline(always)]
    pub(crate) fn advance_short(&self) {
        self.carrier.lanes.reader().advance_short();
    }

    /// Reads nothing more from the peer's lane: the session is lost.
    pub(crate) fn leave_lane(&self) {
        self.carrier.lanes.reader().close();
    }

    #[cold]
    pub(crate) fn too_long(&self, len: u32) -> Fault {
        let span = upbeat_memory::ring::span_of(self.carrier.lanes.reader().room());
        misbehaved(Rule::LengthBeyondSpan { len, span })
    }

    /// Passes the frame that lies open.
    #[inline(always)]
    pub(crate) fn advance(&self) {
        self.carrier.lanes.reader().advance();
    }

    /// The payload of the frame that lies open, behind its extensions.
    #[inline(always)]
    pub(crate) fn payload(&self, head: &Head) -> Input<'_> {
        let reader = self.carrier.lanes.reader();
        let from = head.flags.extension_bytes();
        Input::lane(reader, from as usize, (from + head.body_bytes()) as usize)
    }

    /// The payload of the plain frame that lies open, of `len` bytes.
    #[inline(always)]
    pub(crate) fn plain_payload(&self, len: u32) -> Input<'_> {
        Input::lane(self.carrier.lanes.reader(), 0, len as usize)
    }

    /// The microseconds until the deadline that the open frame carries: of those that it had when it was
    /// written, what is left. This side may have been stopped, or busy, since then. A counter that is
    /// ahead of ours takes nothing away, and another host's no more than is certain.
    pub(crate) fn deadline_us(&self, head: &Head) -> Option<u64> {
        let word = |at: u32| self.carrier.lanes.reader().read_word(at as usize);
        let allowed = word(head.flags.offset_of(Flags::DEADLINE)?);
        let made =
            head.flags.offset_of(Flags::MADE).map(word).and_then(|made| self.at_latest(made));
        let passed = made.map_or(0, |made| Ticks::since(made).nanoseconds() / 1000);
        Some(allowed.saturating_sub(passed))
    }

    /// When a stamp of the peer's was taken, at the latest, by our counter, if that is known.
    fn at_latest(&self, stamp: u64) -> Option<u64> {
        Some(match self.carrier.offset().ok()? {
            None => stamp,
            Some(offset) => {
                let (at, doubt) = offset.ours(stamp);
                at.saturating_add(doubt)
            }
        })
    }

    /// How often the call in the open frame was refused, if it may be.
    pub(crate) fn refusals(&self, head: &Head) -> Option<u64> {
        let at = head.flags.offset_of(Flags::REFUSABLE)?;
        Some(self.carrier.lanes.reader().read_word(at as usize))
    }

    /// The word with which the payload of the open frame of control begins.
    pub(crate) fn first_word(&self) -> u64 {
        self.carrier.lanes.reader().read_word(0)
    }

    /// Tells the peer how far this side has come. Once per drained batch.
    #[inline(always)]
    pub(crate) fn publish_progress(&self) {
        self.carrier.lanes.publish_progress();
        self.show_accepted();
    }

    /// A one-way message of the peer that had become a task is done with.
    pub(crate) fn end_oneway(&self) {
        if self.ended().is_none() {
            self.core.serving().end_oneway();
        }
    }

    /// Gives up what nobody has used for a while: slabs, and grants. Looks at a peer of another host.
    pub(crate) fn tidy(&self) {
        self.retire_unused_slabs();
        self.withdraw_unused_grants();
        self.look_at_peer();
    }

    /// In how many nanoseconds there may be something to [tidy](Session::tidy), if there is.
    pub(crate) fn tidy_in_ns(&self) -> Option<u64> {
        let looks = self.looks_at_peer_in_ns();
        [self.slabs_kept_ns(), self.grants_kept_ns(), looks].into_iter().flatten().min()
    }

    /// Whether something was sent since the promise was last looked at.
    #[inline(always)]
    pub(crate) fn is_unflushed(&self) -> bool {
        self.carrier.lanes.writer().out() != self.flushed.get()
    }

    /// Whether the peer sleeps and was not rung for that. Without a fence this may say no too
    /// early, and the flush at the turn's end makes up for it.
    #[inline(always)]
    pub(crate) fn must_flush(&self) -> bool {
        let slots = self.carrier.lanes.writer().out().wrapping_sub(self.flushed.get());
        slots >= FLUSH_MESSAGES as u64 && self.is_much(slots) || self.carrier.must_ring()
    }

    /// Whether so many slots are worth a flush. Over a byte stream each costs a system call.
    #[cold]
    fn is_much(&self, slots: u64) -> bool {
        let part = || self.carrier.lanes.writer().slots() / 2;
        !self.carrier.is_stream() || slots >= u64::from(part()).min(STREAM_FLUSH_SLOTS)
    }

    /// A long payload was written into a buffer: over a byte stream it is sent while the next one is written.
    pub(super) fn wrote_long(&self, len: usize) {
        if len >= STREAM_OUT_BYTES && self.carrier.is_stream() {
            self.flushed.set(self.flushed.get().wrapping_sub(STREAM_FLUSH_SLOTS));
        }
    }

    /// Whether the peer waits for room in its lane.
    #[inline(always)]
    pub(crate) fn peer_wants_room(&self) -> bool {
        self.carrier.lanes.peer_wants_room()
    }

    /// Whether room was made since this was last asked: otherwise a peer that sleeps over it knows
    /// all that there is to know.
    pub(crate) fn has_made_room(&self) -> bool {
        let shown = self.carrier.lanes.shown();
        self.relieved.replace(shown) != shown
    }

    /// Notes what was written on the peer's board, and rings a peer that sleeps, where the peer
    /// does not look by itself. The fence stands behind the last message. Returns whether the peer
    /// was rung.
    #[inline(always)]
    pub(crate) fn flush(&self, fenced: Fenced) -> bool {
        self.flushed.set(self.carrier.lanes.writer().out());
        self.carrier.flush(fenced)
    }

    /// Takes what has come over the socket: rings, segments, the end.
    pub(crate) fn hear(&self) -> Result<(), Fault> {
        match self.carrier.drain() {
            Ok(drained) => {
                let mut segments = self.segments.borrow_mut();
                for segment in drained.segments {
                    // What was announced before a break and not named is announced again.
                    segments.retain(|other| other.generation != segment.generation);
                    segments.push_back(segment);
                }
                if segments.len() > upbeat_core::limits::PENDING_SEGMENTS_MAX {
                    return Err(broken(&"more segments than lanes and slabs have use for"));
                }
                if let Some(refusal) = drained.refusal {
                    return Err(Box::new(Why::GivenUp { text: refusal.to_string() }));
                }
                match drained.closed {
                    true => Err(self.ending.fault.take().unwrap_or_else(|| Box::new(Why::Died))),
                    false => Ok(()),
                }
            }
            Err(BellFault::System { error, .. }) if self.is_remote() => {
                Err(Box::new(link::unreachable(error)))
            }
            Err(BellFault::System { .. }) => Err(Box::new(Why::Died)),
            Err(BellFault::Descriptors { limit }) => Err(Box::new(Why::Descriptors { limit })),
            Err(fault) => Err(broken(&fault)),
        }
    }

    /// Follows the peer's lane into its next segment. The frame that says so lies open.
    pub(crate) fn follow(&self, generation: u32) -> Result<(), Fault> {
        let segment = self.segment(generation)?;
        let lanes = &self.carrier.lanes;
        let next = lanes.next_peer_growth();
        if next != u8::try_from(generation).ok().map(|next| (next, segment.bytes as usize)) {
            return Err(misbehaved(Rule::SwitchWithoutSegment { generation }));
        }
        let region = segment.open().map_err(unusable)?;
        self.advance();
        lanes.grow_reader(region);
        Ok(())
    }

    /// Closes the socket. The peer is told why, where this side lacks something or the peer broke a rule.
    pub(crate) fn close(&self, why: &Why) {
        let carrier = &self.carrier;
        match why {
            Why::Descriptors { limit } => {
                let text = format!("it has its {limit} descriptors in use (ulimit -n)");
                carrier.refuse(RefusalCode::TooManyDescriptors, &text);
            }
            Why::Unmapped { text } => carrier.refuse(RefusalCode::NoResources, text),
            Why::Misbehaved(rule) => carrier.refuse(RefusalCode::Malformed, &rule.to_string()),
            Why::Broken(text) => carrier.refuse(RefusalCode::Malformed, text),
            _ => {}
        }
        carrier.close();
    }

    /// How the session ended.
    pub(crate) fn lost(&self) -> Lost {
        let still = || Lost { peer: self.peer_text(), why: Why::Died };
        self.ending.lost.get().cloned().unwrap_or_else(still)
    }

    /// Whether this is the process that has made the session, and no child that it has forked.
    pub(crate) fn is_here(&self) -> bool {
        self.made.is_this()
    }

    /// Why the session has ended, if it has.
    #[inline(always)]
    pub(crate) fn ended(&self) -> Option<&Lost> {
        self.ending.lost.get()
    }

    /// Ends the session: whoever waits is told when it is polled, and is woken through `wake`.
    pub(crate) fn end(&self, why: Why, mut wake: impl FnMut(Waiter)) {
        if self.ending.lost.set(Lost { peer: self.peer_text(), why }).is_err() {
            return;
        }
        let callers = self.core.end();
        let waiters = self.answers.others.borrow_mut().end(callers);
        waiters.into_iter().for_each(&mut wake);
        self.wake_senders(&mut wake);
        self.samples.take();
        self.pressed.set(false);
    }

    /// The peer in words.
    pub(crate) fn peer_text(&self) -> String {
        let peer = &self.carrier.peer;
        let process = match (peer.pid, peer.at) {
            (Some(pid), _) => format!("process {pid}"),
            (None, Some(at)) => at.to_string(),
            (None, None) => "a process of another PID namespace".to_owned(),
        };
        match &peer.name {
            Some(name) => format!("{name} ({process})"),
            None => format!("a handle of {process}"),
        }
    }

    /// Whether the peer is on another host.
    pub(crate) fn is_remote(&self) -> bool {
        self.carrier.peer.at.is_some()
    }

    /// Whether every call of the peer was answered and nothing waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.core.serving().is_empty() && self.core.owed().0 == 0 && self.waiting() == 0
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

    /// Whether requests of the peer have become tasks that are not done.
    pub(crate) fn serves(&self) -> bool {
        let serving = self.core.serving();
        !serving.is_empty() || serving.oneways() != 0
    }
}
