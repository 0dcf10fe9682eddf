//! A session over a byte stream: both lanes are on the heap, and what each side writes is shipped.
//!
//! What a session writes into its own lane is encoded as records ([`upbeat_core::stream`]) and sent; what
//! comes is written into a replica of the peer's lane, by the rules of its ring. Buffers' bytes are sent
//! from where they lie, and received into where they will lie. A 1 GiB message goes in chunks, between
//! which progress is shipped, and answers, cancels and credits that were written behind it. What lies beneath is a
//! [`Pipe`]. Invariant: nothing here waits, what is encoded and not sent is bounded, and a peer that breaks a
//! rule has no byte of ours overwritten but its own replica's.

mod pipe;

mod stamps;

mod clock;

mod silence;

mod incoming;

mod outgoing;

use crate::heard::{BellFault, Drained, OwnSegment};
use clock::PeerClock;
use incoming::{Incoming, READ_BYTES};
use outgoing::Outgoing;
use silence::Silence;
use std::cell::{Cell, Ref, RefCell};
use upbeat_core::bill::clock::{Clock, Offset};
use upbeat_core::bill::taken::{Reading, Written};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Record, Refusal};
use upbeat_core::limits::{SLOT_BYTES, STREAM_WHOLE_BYTES};
use upbeat_core::quota::Quota;
use upbeat_core::stream::{Permission, Wish};
use upbeat_memory::lane::{LANE_BYTES, Lanes, Mirror};
use upbeat_memory::region::{Region, WORD};

pub use pipe::Connection;
pub(crate) use pipe::Pipe;

// A quote relies on it.
const _: () = assert!(STREAM_WHOLE_BYTES + SLOT_BYTES < READ_BYTES);

/// Looks for the last words of a peer.
const RESTS_MAX: usize = 1024;

/// What is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Frames, and progress that is due: none that is small while the owner still reads.
    Turn,
    /// The same, and all progress that the peer waits for: the owner finds nothing to read.
    Idle,
    /// The same, and buffers that went back: the owner is about to sleep.
    Rest,
}

/// One side of a byte stream.
pub(crate) struct Stream {
    /// None while the session is suspended.
    pipe: RefCell<Option<Pipe>>,
    mirror: Mirror,
    outgoing: RefCell<Outgoing>,
    incoming: RefCell<Incoming>,
    /// The peer's clock, where it is another host's.
    clock: RefCell<Option<PeerClock>>,
    /// Whether something has come since [`Stream::is_fresh`] was asked.
    fresh: Cell<bool>,
    /// How far the owner had read when something was last looked for.
    read: Cell<u64>,
    /// Looks at the connection, where the peer is on another host.
    silence: RefCell<Option<Silence>>,
}

impl Stream {
    /// A stream over a pipe, and the lanes that it mirrors.
    pub(crate) fn new(pipe: Pipe) -> (Stream, Lanes) {
        let lane = || Region::pages(LANE_BYTES / WORD);
        // A ring begins beside its lane's header, and not where its number says: an idle lane then has one page.
        let (mirror, lanes) = Mirror::new(lane(), 0, lane(), 0);
        let stream = Stream {
            silence: RefCell::new(Silence::of(&pipe)),
            pipe: RefCell::new(Some(pipe)),
            mirror,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            clock: RefCell::default(),
            fresh: Cell::new(false),
            read: Cell::new(u64::MAX),
        };
        (stream, lanes)
    }

    /// Sends what is to be sent, as far as the pipe takes it; nothing while the session is suspended. False if the
    /// peer is gone.
    pub(crate) fn push(&self, lanes: &Lanes, why: Why) -> bool {
        let (mut incoming, mut outgoing) = (self.incoming.borrow_mut(), self.outgoing.borrow_mut());
        outgoing.heard(incoming.heard());
        match &*self.pipe.borrow() {
            Some(pipe) => {
                let clock = &mut *self.clock.borrow_mut();
                outgoing.push(pipe, (&self.mirror, lanes), incoming.slabs(), clock, why)
            }
            None => true,
        }
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
        let read = lanes.reader().taken();
        let has_read = self.read.replace(read) != read;
        self.push(lanes, if has_read { Why::Turn } else { Why::Idle });
        // What lies in the pipe wakes nobody: it is taken in at once.
        if has_read && !self.has_input() {
            return false;
        }
        let came = self.pull();
        if came {
            self.outgoing.borrow_mut().write_all_again(lanes);
        }
        came
    }

    /// Takes in what has come. Returns whether anything has.
    fn pull(&self) -> bool {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return false };
        let clock = &mut *self.clock.borrow_mut();
        let came = self.incoming.borrow_mut().pull(pipe, &self.mirror, clock);
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

    fn has_input(&self) -> bool {
        self.pipe.borrow().as_ref().is_some_and(Pipe::has_input)
    }

    /// Whether [`Stream::drain`] has something to say but what lies in the lane.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming.borrow().has_ended() || self.is_broken()
    }

    /// Whether the connection is broken, as sending has found, of a session that outlives that.
    fn is_broken(&self) -> bool {
        self.incoming.borrow().is_resumable() && self.outgoing.borrow().is_broken()
    }

    /// Whether something has come since this was last asked.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.take()
    }

    /// Takes in what has come, and says what it was. Where the connection is broken and the session resumable, it
    /// is suspended.
    pub(crate) fn drain(&self) -> Result<Drained, BellFault> {
        self.take_all();
        let is_broken = self.has_ended() && !self.incoming.borrow().is_over();
        if is_broken {
            self.let_go();
        }
        let drained = self.incoming.borrow_mut().drained()?;
        Ok(Drained { suspended: self.is_suspended(), ..drained })
    }

    /// Takes in all that has come. The end may stand behind it.
    fn take_all(&self) {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return };
        let mut incoming = self.incoming.borrow_mut();
        let clock = &mut *self.clock.borrow_mut();
        while incoming.pull(pipe, &self.mirror, clock) && !incoming.has_ended() {}
    }

    /// Whether the session outlives a connection that breaks.
    pub(crate) fn set_resumable(&self, resumable: bool) {
        self.incoming.borrow_mut().set_resumable(resumable);
    }

    /// The peer is on another host, of whose clock the handshake has told so much. A side that has opened the session
    /// says in its first bytes when the peer's word came, so that the peer knows as much.
    pub(crate) fn set_clock(&self, clock: Clock, opened: bool) {
        self.clock.replace(Some(PeerClock::new(clock, opened)));
    }

    /// How to translate the peer's time stamps, if that is known.
    pub(crate) fn offset(&self) -> Option<Offset> {
        self.clock.borrow().as_ref()?.offset()
    }

    /// Has the next bytes carry this side's time stamps, and ask the peer for its own.
    pub(crate) fn ask_clock(&self) {
        if let Some(clock) = &mut *self.clock.borrow_mut() {
            clock.ask();
        }
    }

    /// Has the writing of the message stamped that ends before this slot of our lane.
    /// Returns whether that can be, as between hosts.
    pub(crate) fn watch(&self, until: u64) -> bool {
        let mut clock = self.clock.borrow_mut();
        clock.iter_mut().for_each(|clock| clock.stamped().writings.watch(until));
        clock.is_some()
    }

    /// When the message was written that ends before this slot of our lane, if somebody has watched it.
    pub(crate) fn writing(&self, until: u64) -> Written {
        let mut clock = self.clock.borrow_mut();
        let stamped = clock.as_mut().and_then(|clock| clock.stamped.as_mut());
        stamped.map_or(Written::Unknown, |stamped| stamped.writings.take(until))
    }

    /// When the message in this slot of the peer's lane was read, if that was stamped.
    pub(crate) fn reading(&self, slot: u64) -> Option<Reading> {
        self.clock.borrow().as_ref()?.stamped.as_ref()?.readings.of(slot)
    }

    /// Whether there is no connection, and the session waits for another.
    pub(crate) fn is_suspended(&self) -> bool {
        self.pipe.borrow().is_none()
    }

    /// Lets go of the connection, once what has come over it was taken in, unless the session has ended by that.
    pub(crate) fn suspend(&self) {
        self.take_all();
        if !self.incoming.borrow().is_over() {
            self.let_go();
        }
    }

    fn let_go(&self) {
        if let Some(pipe) = self.pipe.take() {
            // Others may have duplicates of its descriptor.
            pipe.close();
        }
        self.incoming.borrow_mut().forget();
        self.outgoing.borrow_mut().forget();
        self.read.set(u64::MAX);
    }

    /// Slots of the peer's lane that have come.
    pub(crate) fn position(&self) -> u64 {
        self.mirror.received()
    }

    /// Goes on over another pipe with a peer that has received so many slots of our lane.
    pub(crate) fn resume(&self, lanes: &Lanes, pipe: Pipe, theirs: u64) -> Result<(), Rule> {
        assert!(self.is_suspended(), "a session goes on over another connection while one stands");
        self.outgoing.borrow_mut().again(theirs, &self.mirror)?;
        *self.silence.borrow_mut() = Silence::of(&pipe);
        *self.pipe.borrow_mut() = Some(pipe);
        self.push(lanes, Why::Rest);
        Ok(())
    }

    /// Whether something waits until the pipe takes it.
    pub(crate) fn has_output(&self) -> bool {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return false };
        self.outgoing.borrow().has_output() || pipe.has_output()
    }

    /// Looks whether the peer's host is there, if it is time.
    pub(crate) fn look_at_peer(&self, lanes: &Lanes, now_ns: impl Fn() -> u64) {
        let (pipe, mut silence) = (self.pipe.borrow(), self.silence.borrow_mut());
        if let (Some(pipe), Some(silence)) = (&*pipe, &mut *silence) {
            silence.look(pipe, lanes.writer().out(), now_ns(), self.has_output());
        }
    }

    /// In how many nanoseconds to look whether the peer's host is there, if something may be under way.
    pub(crate) fn looks_at_peer_in_ns(
        &self,
        lanes: &Lanes,
        now_ns: impl Fn() -> u64,
    ) -> Option<u64> {
        let silence = self.silence.borrow();
        silence.as_ref()?.due_in_ns(lanes.writer().out(), now_ns())
    }

    /// Whether the peer's host has acknowledged everything, or this side does not look after that.
    pub(crate) fn is_calm(&self, lanes: &Lanes, now_ns: impl Fn() -> u64) -> bool {
        let (pipe, mut silence) = (self.pipe.borrow(), self.silence.borrow_mut());
        let (Some(pipe), Some(silence)) = (&*pipe, &mut *silence) else { return true };
        silence.is_calm(pipe, lanes.writer().out(), now_ns(), self.has_output())
    }

    /// The owner has nothing to do: gives back memory that lies idle.
    pub(crate) fn rest(&self, lanes: &Lanes) {
        self.push(lanes, Why::Rest);
        self.incoming.borrow_mut().shrink(READ_BYTES);
    }

    /// Nothing has come for a while: gives back all memory that lies idle.
    pub(crate) fn cool(&self, lanes: &Lanes) {
        self.outgoing.borrow_mut().asking().withdraw();
        self.push(lanes, Why::Rest);
        self.outgoing.borrow_mut().shrink();
        self.incoming.borrow_mut().shrink(0);
        self.clock.borrow_mut().iter_mut().for_each(PeerClock::cool);
    }

    /// Ships a segment ahead of the frame that will name it.
    pub(crate) fn send_segment(&self, generation: u32, segment: &OwnSegment) {
        self.outgoing.borrow_mut().segment(generation, segment.region().clone());
    }

    /// Bytes of the longest payload that the owner reads: of a longer one no more is kept.
    pub(crate) fn read_at_most(&self, longest: usize) {
        self.incoming.borrow_mut().read_at_most(longest);
    }

    /// Has memory whose size the peer chooses charged to a quota.
    pub(crate) fn charge_to(&self, quota: &Quota) {
        self.incoming.borrow_mut().charge_to(quota);
    }

    /// Whether a segment may be announced to the peer, which is asked where that is not known.
    pub(crate) fn permission(&self, wish: Wish) -> Permission {
        self.outgoing.borrow_mut().asking().permission(wish)
    }

    /// Whether the peer has said which segments it permits, since [`Stream::was_heard`].
    pub(crate) fn has_news(&self) -> bool {
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.heard(self.incoming.borrow_mut().heard());
        outgoing.asking().has_news()
    }

    /// Those who wait for that were told.
    pub(crate) fn was_heard(&self) {
        self.outgoing.borrow_mut().asking().was_heard();
    }

    /// Tells the peer why this side gives the session up, behind what was encoded before.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        if !self.is_suspended() {
            self.outgoing.borrow_mut().refuse(&Record::Refusal(refusal).encode());
        }
    }

    /// Ends it for both sides. What was written and the pipe takes at once still arrives.
    pub(crate) fn close(&self, lanes: &Lanes) {
        self.set_resumable(false);
        self.push(lanes, Why::Turn);
        if let Some(pipe) = &*self.pipe.borrow() {
            self.outgoing.borrow_mut().end(pipe);
            pipe.close();
        }
    }

    /// The pipe, for its socket.
    pub(crate) fn pipe(&self) -> Option<Ref<'_, Pipe>> {
        Ref::filter_map(self.pipe.borrow(), Option::as_ref).ok()
    }
}
