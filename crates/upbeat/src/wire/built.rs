//! A payload that its sender builds in place, in a buffer of the session, before the message is sent.
//!
//! Invariant: a reserved buffer is lent with its message, or is free again once the payload is dropped.

use super::{Content, Output, WireError};
use std::cell::RefCell;
use std::rc::Rc;
use upbeat_memory::slab::Reservation;

/// The session in which a buffer is reserved.
pub(crate) trait Lender {
    /// Frees a buffer of a slab that was not sent.
    fn free(&self, slab: usize, reservation: Reservation);
}

/// A buffer that is reserved in a session. Dropping it frees the buffer again.
pub(crate) struct Reserved {
    lender: Rc<dyn Lender>,
    slab: usize,
    /// The reservation; none once the buffer was taken.
    reservation: Option<Reservation>,
}

impl Reserved {
    pub(crate) fn new(lender: Rc<dyn Lender>, slab: usize, reservation: Reservation) -> Reserved {
        Reserved { lender, slab, reservation: Some(reservation) }
    }

    /// Returns whether the buffer is one of this session.
    pub(crate) fn is_of<L: Lender>(&self, lender: &L) -> bool {
        std::ptr::addr_eq(Rc::as_ptr(&self.lender), std::ptr::from_ref(lender))
    }

    /// Takes the buffer to lend it. Returns the number of its slab, and the buffer.
    pub(crate) fn take(mut self) -> (usize, Reservation) {
        (self.slab, self.reservation.take().expect(RESERVED))
    }

    fn buffer(&self) -> &Reservation {
        self.reservation.as_ref().expect(RESERVED)
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.reservation.as_mut().expect(RESERVED).write(at, bytes);
    }
}

const RESERVED: &str = "a reservation is taken once, by value";

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.lender.free(self.slab, reservation);
        }
    }
}

/// The arguments of a message that was built in place, as bytes of a message.
pub struct Built {
    /// The buffer; none once the message was sent.
    reserved: RefCell<Option<Reserved>>,
    /// The message, once its buffer was freed.
    own: RefCell<Vec<u8>>,
    bytes: usize,
}

impl Built {
    pub(crate) fn new(reserved: Reserved, bytes: usize) -> Built {
        Built { reserved: RefCell::new(Some(reserved)), own: RefCell::default(), bytes }
    }

    /// Writes bytes at `at`, counted from the beginning of the message.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at);
        self.reserved.get_mut().as_mut().expect(BUILT).write(at, bytes);
    }
}

const BUILT: &str = "a message that is built in place is sent once";

/// The bytes that are copied at a time where a message cannot be lent.
const PIECE_BYTES: usize = 4096;

impl Content for Built {
    const IN_PLACE: bool = true;

    fn bytes_likely(&self) -> usize {
        self.bytes
    }

    /// Copies the message: a short one into its slot, or any message into another session.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let reserved = self.reserved.borrow();
        let Some(reserved) = &*reserved else {
            out.bytes(&self.own.borrow());
            return Ok(());
        };
        let buffer = reserved.buffer();
        let (mut piece, mut at) = ([0; PIECE_BYTES], 0);
        while at < self.bytes {
            let piece = &mut piece[..PIECE_BYTES.min(self.bytes - at)];
            buffer.read(at, piece);
            out.bytes(piece);
            at += piece.len();
        }
        Ok(())
    }

    fn built(&self) -> Option<&Built> {
        Some(self)
    }
}

impl Built {
    /// Returns whether the message lies in a buffer of this session.
    pub(crate) fn lies_in<L: Lender>(&self, lender: &L) -> bool {
        self.reserved.borrow().as_ref().is_some_and(|reserved| reserved.is_of(lender))
    }

    /// Frees the buffer, and keeps a copy of the message. A message that is not alone in its buffer is copied, and
    /// must not hold this buffer while it waits for another.
    pub(crate) fn detach(&self) -> Result<(), WireError> {
        let mut reserved = self.reserved.borrow_mut();
        let Some(buffer) = reserved.as_ref().map(Reserved::buffer) else { return Ok(()) };
        let mut own = super::reserved(self.bytes)?;
        own.resize(self.bytes, 0);
        buffer.read(0, &mut own);
        *self.own.borrow_mut() = own;
        *reserved = None;
        Ok(())
    }

    /// Takes the buffer to lend it. Returns the number of its slab, the buffer, and the bytes in it.
    pub(crate) fn take(&self) -> (usize, Reservation, usize) {
        let (slab, reservation) = self.reserved.borrow_mut().take().expect(BUILT).take();
        (slab, reservation, self.bytes)
    }
}
