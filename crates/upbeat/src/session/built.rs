//! Messages that are built in place: their buffers are reserved before they are sent.
//!
//! Invariant: a slab with a reserved buffer is never idle, so it is not given up.

use super::Session;
use super::front::Header;
use super::send_error::SendError;
use crate::sample::Stamps;
use crate::wire::{Built, Lender, Reserved};
use std::rc::Rc;
use upbeat_core::bill::way::Point;
use upbeat_core::frame::Placed;
use upbeat_core::session::Use;
use upbeat_memory::ring::Claim;
use upbeat_memory::slab::Reservation;

impl Session {
    /// Reserves a buffer for a request of this length, which is built before it is sent.
    pub(crate) fn reserve(self: &Rc<Self>, bytes: usize) -> Result<Reserved, SendError> {
        if let Some(lost) = self.ended() {
            return Err(SendError::Ended(Box::new(lost.why.clone())));
        }
        let number = self.slab_for(Use::Requests, bytes)?;
        let memory = self.pool.memory();
        let buffer = self.buffer(&memory, number)?;
        self.pool.used(number);
        let lender: Rc<dyn Lender> = Rc::<Session>::clone(self);
        Ok(Reserved::new(lender, number, buffer.reserve()))
    }

    /// Sends a message that was built in a buffer of this session.
    pub(super) fn put_built(
        &self,
        front: Header,
        built: &Built,
        claim: Claim<'_>,
        stamps: &mut dyn Stamps,
    ) {
        stamps.at(Point::Claimed);
        let (number, reservation, len) = built.take();
        let memory = self.pool.memory();
        let slab = memory[number].as_ref().expect("a slab of which a buffer is reserved");
        let index = slab.resume(reservation).lend();
        self.pool.used(number);
        stamps.at(Point::Marshalled);
        let placed = Placed { slab: number as u16, index: index as u16, len: len as u32 };
        self.commit_placed(front, placed, claim, stamps);
    }
}

impl Lender for Session {
    fn free(&self, slab: usize, reservation: Reservation) {
        let memory = self.pool.memory();
        let slab = memory[slab].as_ref().expect("a slab of which a buffer is reserved");
        drop(slab.resume(reservation));
        // The peer reports the buffers that it returns, but it never had this one.
        if self.is_pressed() {
            self.pool.clear_missing();
            self.room_came();
        }
    }
}
