//! The number of a call whose frame is being written.

use super::Session;
use std::mem;
use upbeat_core::frame::CallNumber;

/// An open call whose frame is not sent yet. Dropped, also by a panic while the arguments are encoded, it closes the
/// call, and its number is free again.
pub(crate) struct Unsent<'a> {
    session: &'a Session,
    call: CallNumber,
}

impl<'a> Unsent<'a> {
    #[inline(always)]
    pub(crate) fn new(session: &'a Session, call: CallNumber) -> Unsent<'a> {
        Unsent { session, call }
    }

    /// Notes that the frame was sent. Returns the number of the call, which stays open.
    #[inline(always)]
    pub(crate) fn sent(self) -> CallNumber {
        let call = self.call;
        mem::forget(self);
        call
    }
}

impl Drop for Unsent<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // A waker is the application's code, which may call this session: it is dropped while nothing is borrowed.
        drop(self.session.close_call(self.call));
    }
}
