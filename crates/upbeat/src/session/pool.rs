//! Our slabs: buffers for payloads that are too long for a slot.
//!
//! A slab is made when a message needs it, handed over on the socket and announced in the lane.
//! [`core::session`](upbeat_core::session::Slabs) decides which slab a payload uses, and which are made, kept and
//! given up; this module holds their memory. Buffers that have come back are noticed when a buffer is wanted and none
//! is known to be free.

use super::Session;
use super::flow::now_ns;
use super::send_error::SendError;
use std::cell::{Cell, Ref, RefCell};
use upbeat_core::frame::Head;
use upbeat_core::limits::{CONTROL_SLOTS, SLAB_GENERATION};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::{MissingResource, Slabs, Use};
use upbeat_core::stream::{Permission, SegmentRequest};
use upbeat_memory::slab::Slab;
use upbeat_transport::carrier::FrameWriter;

/// The error of a sender whose peer holds as many bytes as it may.
const NO_ROOM_THERE: &str = "the peer on another host already holds as many bytes for its peers as \
                             its `Builder::remote_bytes` allows";

/// The slabs, by their numbers.
#[derive(Default)]
pub(super) struct Pool {
    slabs: RefCell<Slabs>,
    memory: RefCell<Vec<Option<Slab>>>,
    /// The number of slabs made so far.
    made: Cell<u32>,
}

impl Pool {
    /// Returns the memory of the slabs, for claiming a buffer.
    pub(super) fn memory(&self) -> Ref<'_, Vec<Option<Slab>>> {
        self.memory.borrow()
    }

    /// Notes that a buffer of this slab was used.
    pub(super) fn used(&self, number: usize) {
        self.slabs.borrow().used(number);
    }

    /// Returns a slab that has a free buffer for a payload of this length.
    fn find(&self, usage: Use, len: usize, writer: FrameWriter<'_>) -> Option<usize> {
        let memory = self.memory.borrow();
        let slab = |number: usize| memory.get(number)?.as_ref();
        let has_free = |number| {
            slab(number).is_some_and(|slab| slab.has_free(|| writer.peer_returned(number)))
        };
        self.slabs.borrow().find(usage, len, has_free)
    }

    /// Notes that no sender waits for a buffer any more.
    pub(super) fn clear_missing(&self) {
        self.slabs.borrow_mut().clear_missing();
    }

    /// Returns whether buffers have come back since none was free: a good part of a slab, or any if `part` is false.
    pub(super) fn has_more(&self, part: bool, writer: FrameWriter<'_>) -> bool {
        self.slabs.borrow().has_more(part, |number| writer.peer_returned(number))
    }
}

impl Session {
    /// Returns the number of one of our slabs that has a free buffer for a payload of this length, or of a new slab
    /// if there may be one more.
    pub(super) fn slab_for(&self, usage: Use, len: usize) -> Result<usize, SendError> {
        match self.pool.find(usage, len, self.carrier.writer()) {
            Some(number) => Ok(number),
            None => self.make_slab(usage, len),
        }
    }

    #[cold]
    fn make_slab(&self, usage: Use, len: usize) -> Result<usize, SendError> {
        let (pool, writer) = (&self.pool, self.carrier.writer());
        let mut next = pool.slabs.borrow().next(usage, len);
        if next.is_none() && Slabs::makes_way(len) && !mutated(Mutant::IdleSlabsStay) {
            // Idle slabs of other lengths are given up to make room.
            self.retire_slabs(|slabs| slabs.idle(Some(usage), |number| self.lies_idle(number)));
            next = pool.slabs.borrow().next(usage, len);
        }
        let Some((number, shape)) = next else {
            if !mutated(Mutant::LackUnrecorded) {
                pool.slabs
                    .borrow_mut()
                    .record_missing(usage, |number| writer.peer_returned(number));
            }
            // A buffer that came back before the lack was noted would not be reported again.
            let free = pool.find(usage, len, writer);
            return free.ok_or_else(|| self.missing(MissingResource::Buffer));
        };
        let bytes = shape.bytes();
        let wish = SegmentRequest { each: shape.each as u32, count: shape.count };
        match self.carrier.permission(wish) {
            Permission::Granted => {}
            // Buffers of the existing slabs will come back.
            Permission::Declined if !pool.slabs.borrow().serves(usage, len) => {
                return Err(SendError::no_memory(bytes, NO_ROOM_THERE));
            }
            Permission::Declined | Permission::Awaited => {
                pool.slabs
                    .borrow_mut()
                    .record_missing(usage, |number| writer.peer_returned(number));
                return Err(self.missing(MissingResource::Buffer));
            }
        }
        let segment = self.carrier.make_segment("upbeat-slab", bytes);
        let segment = segment.map_err(|error| SendError::no_memory(bytes, error))?;
        let no_slot =
            || self.missing_slots(1, if usage == Use::Replies { 0 } else { CONTROL_SLOTS as u32 });
        // No slab is made for a value that is being written at this moment.
        let Ok(mut memory) = pool.memory.try_borrow_mut() else { return Err(no_slot()) };
        // The slot is claimed first, because a segment that has been sent must be announced.
        let Ok(mut claim) = writer.claim(1, 0) else { return Err(no_slot()) };
        let made = pool.made.get();
        let sent = self.carrier.send_segment(SLAB_GENERATION + made, &segment);
        sent.map_err(|fault| self.growth_error(bytes, fault))?;
        pool.made.set(made + 1);
        claim.write_word(0, shape.each as u64 | u64::from(shape.count) << 32);
        claim.commit(Head::slab(number as u32).words(), 8);
        let returned = writer.peer_returned(number);
        let slab = Slab::new(segment.into_region(), shape.each, shape.count, returned);
        if number >= memory.len() {
            memory.resize_with(number + 1, || None);
        }
        memory[number] = Some(slab);
        pool.slabs.borrow_mut().made(number, usage, shape);
        Ok(number)
    }

    /// Gives up slabs for long payloads that were unused for a while.
    pub(super) fn retire_unused_slabs(&self) {
        self.retire_slabs(|slabs| slabs.unused(now_ns(), |number| self.lies_idle(number)));
    }

    /// Gives up all idle slabs for long payloads.
    pub(crate) fn retire_all_slabs(&self) {
        self.retire_slabs(|slabs| slabs.idle(None, |number| self.lies_idle(number)));
    }

    /// Returns for how many nanoseconds an idle slab for long payloads is still kept, if there is one.
    pub(super) fn slabs_kept_ns(&self) -> Option<u64> {
        self.pool.slabs.borrow().kept(now_ns(), |number| self.lies_idle(number))
    }

    /// Returns whether no buffer of a slab is in use.
    fn lies_idle(&self, number: usize) -> bool {
        let memory = self.pool.memory.borrow();
        let slab = memory.get(number).and_then(Option::as_ref);
        slab.is_some_and(|slab| slab.is_idle(self.carrier.writer().peer_returned(number)))
    }

    /// Gives up the chosen slabs, as far as there are slots to announce it.
    fn retire_slabs(&self, choose: impl Fn(&Slabs) -> Vec<usize>) {
        let unwanted = choose(&self.pool.slabs.borrow());
        for number in unwanted {
            // A slab is not given up while a value is written into a buffer.
            let Ok(mut memory) = self.pool.memory.try_borrow_mut() else { return };
            let Ok(claim) = self.carrier.writer().claim(1, 0) else { return };
            claim.commit(Head::retire(number as u32).words(), 0);
            memory[number] = None;
            self.pool.slabs.borrow_mut().retired(number);
        }
    }
}
