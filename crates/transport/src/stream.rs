//! A session over a byte stream: both lanes are on the heap, and what each side writes is shipped.
//!
//! What a session writes into its own lane is encoded as records ([`upbeat_core::stream`]) and sent; what
//! comes is written into a replica of the peer's lane, by the rules of its ring. Buffers' bytes are sent
//! from where they lie, and received into where they will lie. A 1 GiB message goes in chunks, between
//! which the progress of the lanes is shipped; frames keep the order of their ring. What lies beneath is a
//! [`Pipe`]. Invariant: nothing here waits, what is encoded and not sent is bounded, and a peer that breaks a
//! rule has no byte of ours overwritten but its own replica's.

mod pipe;

mod incoming;

mod outgoing;

use crate::heard::{BellFault, Drained, OwnSegment};
use incoming::Incoming;
use outgoing::Outgoing;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::hello::{Record, Refusal};
use upbeat_memory::lane::{LANE_BYTES, Lanes, Mirror};
use upbeat_memory::region::{Region, WORD};

pub(crate) use pipe::Pipe;

/// Looks for the last words of a peer.
const RESTS_MAX: usize = 1024;

/// What is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Frames, and progress that is due.
    Turn,
    /// The same, and buffers that went back: the owner is about to sleep.
    Rest,
}

/// One side of a byte stream.
pub(crate) struct Stream {
    pipe: Pipe,
    mirror: Mirror,
    outgoing: RefCell<Outgoing>,
    incoming: RefCell<Incoming>,
    /// Whether something has come since [`Stream::is_fresh`] was asked.
    fresh: Cell<bool>,
    /// How far the owner had read when something was last looked for.
    read: Cell<u64>,
}

impl Stream {
    /// A stream over a pipe, and the lanes that it mirrors.
    pub(crate) fn new(pipe: Pipe, ours: u64, theirs: u64) -> (Stream, Lanes) {
        let lane = || Region::heap(LANE_BYTES / WORD);
        let (mirror, lanes) = Mirror::new(lane(), ours, lane(), theirs);
        let stream = Stream {
            pipe,
            mirror,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            fresh: Cell::new(false),
            read: Cell::new(u64::MAX),
        };
        (stream, lanes)
    }

    /// Sends what is to be sent, as far as the pipe takes it. False if the peer is gone.
    pub(crate) fn push(&self, why: Why) -> bool {
        let (mut incoming, mut outgoing) = (self.incoming.borrow_mut(), self.outgoing.borrow_mut());
        outgoing.heard(incoming.heard());
        outgoing.push(&self.pipe, &self.mirror, incoming.slabs(), why)
    }

    /// Our side found no room: asks the peer to show what there is.
    pub(crate) fn ask(&self) {
        self.outgoing.borrow_mut().ask();
    }

    /// What has come was read: the next pump may look for more at once.
    pub(crate) fn was_read(&self, lanes: &Lanes) {
        self.read.set(lanes.reader().taken());
    }

    /// Sends what is due, and takes in what has come unless the owner has just read what came before it:
    /// then it answers that first. Returns whether anything came.
    pub(crate) fn pump(&self, lanes: &Lanes) -> bool {
        self.push(Why::Turn);
        let read = lanes.reader().taken();
        // What lies in the pipe wakes nobody: it is taken in at once.
        if self.read.replace(read) != read && !self.pipe.has_input() {
            return false;
        }
        self.pull()
    }

    /// Takes in what has come. Returns whether anything has.
    fn pull(&self) -> bool {
        let came = self.incoming.borrow_mut().pull(&self.pipe, &self.mirror);
        if came {
            self.fresh.set(true);
        }
        came
    }

    /// Takes in all that has come of a peer that is gone.
    pub(crate) fn take_rest(&self) {
        // What it sent fits its socket and its peer's ring.
        for _ in 0..RESTS_MAX {
            if !self.pull() {
                return;
            }
        }
    }

    /// Whether [`Stream::drain`] has something to say but what lies in the lane.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming.borrow().has_ended()
    }

    /// Whether something has come since this was last asked.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.take()
    }

    /// Takes in what has come, and says what it was.
    pub(crate) fn drain(&self) -> Result<Drained, BellFault> {
        let mut incoming = self.incoming.borrow_mut();
        // The end may stand behind what has come.
        while incoming.pull(&self.pipe, &self.mirror) && !incoming.has_ended() {}
        incoming.drained()
    }

    /// Whether something waits until the pipe takes it.
    pub(crate) fn has_output(&self) -> bool {
        self.outgoing.borrow().has_output() || self.pipe.has_output()
    }

    /// The owner has nothing to do: gives back memory that lies idle.
    pub(crate) fn rest(&self) {
        self.push(Why::Rest);
        self.incoming.borrow_mut().shrink();
    }

    /// Ships a segment ahead of the frame that will name it.
    pub(crate) fn send_segment(&self, generation: u32, segment: &OwnSegment) {
        self.outgoing.borrow_mut().segment(generation, segment.region().clone());
    }

    /// Bytes of the longest payload that the owner reads: of a longer one no more is kept.
    pub(crate) fn read_at_most(&self, longest: usize) {
        self.incoming.borrow_mut().read_at_most(longest);
    }

    /// Tells the peer why this side gives the session up, behind what was encoded before.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.outgoing.borrow_mut().refuse(&Record::Refusal(refusal).encode());
    }

    /// Ends it for both sides. What was written and the pipe takes at once still arrives.
    pub(crate) fn close(&self) {
        self.push(Why::Turn);
        self.pipe.close();
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
