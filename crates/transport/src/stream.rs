//! A session over a byte stream: both lanes are on the heap, and each side's frames are sent to the other.
//!
//! Frames that a session writes into its own lane are encoded as records ([`upbeat_core::stream`]) and sent. Received
//! frames are written into a replica of the peer's lane, by the rules of its ring. The bytes of a buffer are sent
//! from the buffer, and received into the peer's replica of it. A long message, for example of 1 GiB, goes in chunks.
//! Between the chunks go progress, and replies, cancels and credits that were written after the message. A [`Pipe`]
//! transfers the bytes. Invariant: no function blocks, the data that is encoded and not sent is bounded, and a peer
//! that breaks a rule overwrites only its own replica.

mod pipe;

mod stamps;

mod clock;

mod peer_check;

mod incoming;

mod outgoing;

use crate::events::{Leaving, OwnSegment, SocketError, SocketEvents};
use clock::PeerClock;
use incoming::{Incoming, Pulled, READ_BYTES};
use outgoing::Outgoing;
use peer_check::PeerCheck;
use std::cell::{Cell, Ref, RefCell};
use upbeat_core::bill::clock::{Clock, Offset};
use upbeat_core::bill::taken::{Reading, Written};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{self, Refusal};
use upbeat_core::limits::{SLOT_BYTES, STREAM_WHOLE_BYTES};
use upbeat_core::quota::Quota;
use upbeat_core::stream::{Permission, SegmentRequest};
use upbeat_memory::lane::{LANE_BYTES, Lanes, Mirror};
use upbeat_memory::region::{Region, WORD};

pub use pipe::Connection;
pub(crate) use pipe::Pipe;

// The code that quotes a message's cost relies on this.
const _: () = assert!(STREAM_WHOLE_BYTES + SLOT_BYTES < READ_BYTES);

/// The most reads of the remaining data of a peer that is gone.
const RESTS_MAX: usize = 1024;

/// The most looks for data, each of which took all that had come, before other sessions have their turn: a peer may
/// write records that cost it no credit as fast as they are read.
const DRAINS_MAX: usize = 16;

/// The occasion of a push, which decides which progress is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushReason {
    /// The end of a turn: sends frames and due progress, but no small progress while the owner still reads.
    Turn,
    /// The owner finds nothing to read: also sends all progress that the peer waits for.
    Idle,
    /// The owner is about to sleep: also reports buffers that were given back.
    Rest,
}

/// One side of a byte stream.
pub(crate) struct Stream {
    /// The connection, or None while the session is suspended.
    pipe: RefCell<Option<Pipe>>,
    /// The connection that has broken, until [`Stream::take_broken`] takes it.
    broken: Cell<Option<Pipe>>,
    mirror: Mirror,
    outgoing: RefCell<Outgoing>,
    incoming: RefCell<Incoming>,
    /// The peer's clock, if the peer is on another host.
    clock: RefCell<Option<PeerClock>>,
    /// Whether data has come since the last call of [`Stream::is_fresh`].
    fresh: Cell<bool>,
    /// The position up to which the owner had read at the last pump.
    read: Cell<u64>,
    /// The state of the checks of the connection, if the peer is on another host.
    peer_check: RefCell<Option<PeerCheck>>,
}

impl Stream {
    /// Returns a stream over a pipe, and the lanes that it mirrors.
    pub(crate) fn new(pipe: Pipe) -> (Stream, Lanes) {
        let lane = || Region::pages(LANE_BYTES / WORD);
        // With the number 0 a ring begins directly behind its lane's header, so an idle lane uses one page.
        let (mirror, lanes) = Mirror::new(lane(), 0, lane(), 0);
        let stream = Stream {
            peer_check: RefCell::new(PeerCheck::of(&pipe)),
            pipe: RefCell::new(Some(pipe)),
            broken: Cell::new(None),
            mirror,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            clock: RefCell::default(),
            fresh: Cell::new(false),
            read: Cell::new(u64::MAX),
        };
        (stream, lanes)
    }

    /// Sends the data that waits, as far as the pipe takes it; nothing while the session is suspended. Returns false
    /// if the peer is gone.
    pub(crate) fn push(&self, lanes: &Lanes, why: PushReason) -> bool {
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

    /// Asks the peer to report its room, because our side found none.
    pub(crate) fn ask(&self) {
        self.outgoing.borrow_mut().ask();
    }

    /// Notes that the received data was read: the next pump may receive more at once.
    pub(crate) fn was_read(&self, lanes: &Lanes) {
        self.read.set(lanes.reader().consumed());
    }

    /// Sends the data that is due, and receives new data unless the owner has just read the previous data and answers
    /// it first. Returns whether any data came.
    pub(crate) fn pump(&self, lanes: &Lanes) -> bool {
        let read = lanes.reader().consumed();
        let has_read = self.read.replace(read) != read;
        self.push(lanes, if has_read { PushReason::Turn } else { PushReason::Idle });
        // Data in the pipe's own buffer does not make the socket readable, so it is received at once.
        if has_read && !self.has_input() {
            return false;
        }
        let came = self.pull();
        if came {
            self.outgoing.borrow_mut().write_all_again(lanes);
        }
        came
    }

    /// Receives the data that has come. Returns whether there was any.
    fn pull(&self) -> bool {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return false };
        let clock = &mut *self.clock.borrow_mut();
        let came = self.incoming.borrow_mut().pull(pipe, &self.mirror, clock) != Pulled::Nothing;
        if came {
            self.fresh.set(true);
        }
        came
    }

    /// Receives all remaining data of a peer that is gone.
    pub(crate) fn take_rest(&self) {
        // The remaining data fits into the socket and the peer's ring.
        for _ in 0..RESTS_MAX {
            if !self.pull() {
                return;
            }
        }
    }

    /// Returns whether something has come that does not make the socket readable.
    pub(crate) fn has_input(&self) -> bool {
        self.pipe.borrow().as_ref().is_some_and(Pipe::has_input)
    }

    /// Returns whether [`Stream::drain`] has an event to report besides frames in the lane.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming.borrow().has_ended() || self.is_broken()
    }

    /// Returns whether sending has found the connection broken, for a session that outlives that.
    fn is_broken(&self) -> bool {
        self.incoming.borrow().is_resumable() && self.outgoing.borrow().is_broken()
    }

    /// Returns whether data has come since the last call.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.take()
    }

    /// Receives data, and returns the events in it. If the connection is broken and the session resumable, the session
    /// is suspended.
    pub(crate) fn drain(&self) -> Result<SocketEvents, SocketError> {
        let more = self.take_some();
        // Sending may have failed before everything of a peer was read that has ended the session in order.
        let is_broken = !more && self.has_ended() && !self.incoming.borrow().is_over();
        if is_broken {
            self.let_go();
        }
        let drained = self.incoming.borrow_mut().drained()?;
        Ok(SocketEvents { suspended: self.is_suspended(), more, ..drained })
    }

    /// Receives data that has come, as much as a peer may have taken in one turn. The end may follow it. Returns
    /// whether more may wait.
    fn take_some(&self) -> bool {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return false };
        let mut incoming = self.incoming.borrow_mut();
        let clock = &mut *self.clock.borrow_mut();
        // The end may lie behind data that has come just now.
        for _ in 0..DRAINS_MAX {
            match incoming.pull(pipe, &self.mirror, clock) {
                Pulled::All if !incoming.has_ended() => {}
                pulled => return pulled == Pulled::Part,
            }
        }
        true
    }

    /// Sets whether the session outlives a broken connection.
    pub(crate) fn set_resumable(&self, resumable: bool) {
        self.incoming.borrow_mut().set_resumable(resumable);
    }

    /// Sets the clock of a peer on another host, as far as the handshake has told it. The side that opened the
    /// session reports in its first bytes when the peer's record came, so that the peer knows as much.
    pub(crate) fn set_clock(&self, clock: Clock, opened: bool) {
        self.clock.replace(Some(PeerClock::new(clock, opened)));
    }

    /// Returns how to translate the peer's time stamps, if that is known.
    pub(crate) fn offset(&self) -> Option<Offset> {
        self.clock.borrow().as_ref()?.offset()
    }

    /// Sends this side's time stamps with the next bytes, and asks the peer for its own.
    pub(crate) fn ask_clock(&self) {
        if let Some(clock) = &mut *self.clock.borrow_mut() {
            clock.ask();
        }
    }

    /// Starts measuring the writing of the message that ends before slot `until` of our lane. Returns whether that is
    /// possible, which it is between hosts.
    pub(crate) fn watch(&self, until: u64) -> bool {
        let mut clock = self.clock.borrow_mut();
        clock.iter_mut().for_each(|clock| clock.stamped().writings.watch(until));
        clock.is_some()
    }

    /// Returns when the message was written that ends before slot `until` of our lane, if it was watched.
    pub(crate) fn writing(&self, until: u64) -> Written {
        let mut clock = self.clock.borrow_mut();
        let stamped = clock.as_mut().and_then(|clock| clock.stamped.as_mut());
        stamped.map_or(Written::Unknown, |stamped| stamped.writings.take(until))
    }

    /// Returns when the message in this slot of the peer's lane was read, if the read was stamped.
    pub(crate) fn reading(&self, slot: u64) -> Option<Reading> {
        self.clock.borrow().as_ref()?.stamped.as_ref()?.readings.of(slot)
    }

    /// Returns whether there is no connection, and the session waits for another.
    pub(crate) fn is_suspended(&self) -> bool {
        self.pipe.borrow().is_none()
    }

    /// Drops the connection, unless the data that has come over it ends the session. The peer sends again what is left
    /// unread.
    pub(crate) fn suspend(&self) {
        self.take_some();
        if !self.incoming.borrow().is_over() {
            self.let_go();
        }
    }

    /// Takes the connection that has broken, whose socket the owner may still poll.
    pub(crate) fn take_broken(&self) -> Option<Pipe> {
        self.broken.take()
    }

    fn let_go(&self) {
        if let Some(pipe) = self.pipe.take() {
            // Another process may hold a duplicate of the descriptor.
            pipe.close();
            self.broken.set(Some(pipe));
        }
        self.incoming.borrow_mut().forget();
        self.outgoing.borrow_mut().forget();
        self.read.set(u64::MAX);
    }

    /// Returns the number of slots of the peer's lane that have come.
    pub(crate) fn position(&self) -> u64 {
        self.mirror.received()
    }

    /// Resumes over another pipe with a peer that has received `theirs` slots of our lane.
    pub(crate) fn resume(&self, lanes: &Lanes, pipe: Pipe, theirs: u64) -> Result<(), Rule> {
        assert!(self.is_suspended(), "a session was resumed that still has a connection");
        self.outgoing.borrow_mut().again(theirs, &self.mirror)?;
        *self.peer_check.borrow_mut() = PeerCheck::of(&pipe);
        *self.pipe.borrow_mut() = Some(pipe);
        self.push(lanes, PushReason::Rest);
        Ok(())
    }

    /// Returns whether output waits until the pipe takes it.
    pub(crate) fn has_output(&self) -> bool {
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return false };
        self.outgoing.borrow().has_output() || pipe.has_output()
    }

    /// Checks whether the peer's host answers, if a check is due.
    pub(crate) fn look_at_peer(&self, lanes: &Lanes, now_ns: impl Fn() -> u64) {
        let (pipe, mut peer_check) = (self.pipe.borrow(), self.peer_check.borrow_mut());
        if let (Some(pipe), Some(peer_check)) = (&*pipe, &mut *peer_check) {
            peer_check.look(pipe, lanes.writer().out(), now_ns(), self.has_output());
        }
    }

    /// Returns in how many nanoseconds the next check of the peer's host is due, if data may be under way to it.
    pub(crate) fn looks_at_peer_in_ns(
        &self,
        lanes: &Lanes,
        now_ns: impl Fn() -> u64,
    ) -> Option<u64> {
        let (pipe, peer_check) = (self.pipe.borrow(), self.peer_check.borrow());
        pipe.as_ref().and(peer_check.as_ref())?.due_in_ns(lanes.writer().out(), now_ns())
    }

    /// Returns whether the peer's host has acknowledged everything, or this side does not check for that.
    pub(crate) fn is_calm(&self, lanes: &Lanes, now_ns: impl Fn() -> u64) -> bool {
        let (pipe, mut peer_check) = (self.pipe.borrow(), self.peer_check.borrow_mut());
        let (Some(pipe), Some(peer_check)) = (&*pipe, &mut *peer_check) else { return true };
        peer_check.is_calm(pipe, lanes.writer().out(), now_ns(), self.has_output())
    }

    /// Frees idle memory, because the owner has nothing to do.
    pub(crate) fn rest(&self, lanes: &Lanes) {
        self.push(lanes, PushReason::Rest);
        self.incoming.borrow_mut().shrink(READ_BYTES);
    }

    /// Frees all idle memory, because no data has come for a while.
    pub(crate) fn cool(&self, lanes: &Lanes) {
        self.outgoing.borrow_mut().asking().withdraw();
        self.push(lanes, PushReason::Rest);
        self.free_buffers();
        self.clock.borrow_mut().iter_mut().for_each(PeerClock::cool);
    }

    /// Frees the buffers that are empty.
    pub(crate) fn free_buffers(&self) {
        self.outgoing.borrow_mut().shrink();
        self.incoming.borrow_mut().shrink(0);
    }

    /// Sends a segment ahead of the frame that will name it.
    pub(crate) fn send_segment(&self, announced: hello::Segment, segment: &OwnSegment) {
        self.outgoing.borrow_mut().segment(announced, segment.region().clone());
    }

    /// Limits the payloads that the owner reads: no longer payload is kept.
    pub(crate) fn read_at_most(&self, longest: usize) {
        self.incoming.borrow_mut().read_at_most(longest);
    }

    /// Charges the memory whose size the peer chooses to a quota.
    pub(crate) fn charge_to(&self, quota: &Quota) {
        self.incoming.borrow_mut().charge_to(quota);
    }

    /// Returns whether a segment may be announced to the peer, which is asked if that is not known.
    pub(crate) fn permission(&self, wish: SegmentRequest) -> Permission {
        self.outgoing.borrow_mut().asking().permission(wish)
    }

    /// Returns whether the peer has said which segments it permits, since [`Stream::was_heard`].
    pub(crate) fn has_news(&self) -> bool {
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.heard(self.incoming.borrow_mut().heard());
        outgoing.asking().has_news()
    }

    /// Returns whether an asker for permission was put off since the last call.
    pub(crate) fn was_put_off(&self) -> bool {
        self.outgoing.borrow_mut().asking().was_put_off()
    }

    /// Notes that everyone who waits for the peer's permission was told.
    pub(crate) fn was_heard(&self) {
        self.outgoing.borrow_mut().asking().was_heard();
    }

    /// Tells the peer why this side ends the session, after the data that was encoded before.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        if !self.is_suspended() {
            self.outgoing.borrow_mut().refuse(refusal);
        }
    }

    /// Ends the session for both sides. Frames that were written and that the pipe takes at once still arrive.
    pub(crate) fn close(&self, lanes: &Lanes) {
        self.set_resumable(false);
        self.push(lanes, PushReason::Turn);
        if let Some(pipe) = &*self.pipe.borrow() {
            self.outgoing.borrow_mut().end(pipe);
            pipe.close();
        }
    }

    /// Returns whether messages of our side wait until the system takes them or, while the session is suspended, are
    /// not known to have come.
    pub(crate) fn has_unsent(&self, lanes: &Lanes) -> bool {
        let outgoing = self.outgoing.borrow();
        let is_shipped = match &*self.pipe.borrow() {
            Some(pipe) => !outgoing.is_broken() && self.has_encoded_all(&outgoing, pipe),
            None => self.mirror.peer_shown().taken == lanes.writer().out(),
        };
        !is_shipped || outgoing.defers()
    }

    /// Returns whether every frame of our lane was encoded, and the pipe has taken everything.
    fn has_encoded_all(&self, outgoing: &Outgoing, pipe: &Pipe) -> bool {
        !self.mirror.has_more() && !outgoing.has_output() && !pipe.has_output()
    }

    /// Returns whether the peer's host has everything that was sent. After a reset nobody knows.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let pipe = self.pipe.borrow();
        pipe.as_ref().is_none_or(|pipe| pipe.is_acknowledged() && !pipe.is_closed())
    }

    /// Ends the session in order: sends everything that waits, then says that nothing follows, and receives no more
    /// frames.
    pub(crate) fn leave(&self, lanes: &Lanes) -> Leaving {
        self.set_resumable(false);
        let pipe = self.pipe.borrow();
        let Some(pipe) = &*pipe else { return Leaving::Lost };
        if !self.outgoing.borrow().has_written_end() {
            // Deferred frames need the slots that the peer's reports free.
            self.pull();
            self.outgoing.borrow_mut().write_all_again(lanes);
        }
        let mut is_connected = self.push(lanes, PushReason::Turn);
        if is_connected && !self.has_unsent(lanes) && self.outgoing.borrow_mut().write_end() {
            // The end goes the same way as the records before it.
            is_connected = self.push(lanes, PushReason::Turn);
        }
        let (has_ended, is_sent) = (self.incoming.borrow().has_ended(), !self.has_unsent(lanes));
        if !is_connected || has_ended && !is_sent {
            return Leaving::Lost;
        }
        if !self.outgoing.borrow().has_written_end() {
            return Leaving::Sending;
        }
        if !is_sent {
            // A peer that leaves at the same time takes nothing before its own output is read.
            return pipe.discard().map_or(Leaving::Lost, |()| Leaving::Ending);
        }
        pipe.finish();
        // A reset drops what was not confirmed, after which nothing seems to be under way.
        let is_acknowledged = pipe.is_acknowledged();
        match pipe.discard() {
            Err(_) => Leaving::Lost,
            Ok(()) if is_acknowledged => Leaving::Done,
            Ok(()) => Leaving::Confirming,
        }
    }

    /// Returns the pipe, for its socket.
    pub(crate) fn pipe(&self) -> Option<Ref<'_, Pipe>> {
        Ref::filter_map(self.pipe.borrow(), Option::as_ref).ok()
    }
}

#[cfg(test)]
mod tests;
