//! The end of the incoming half: for good, or until the session is resumed over another connection.
//!
//! Invariant: records that have come whole are kept, and no others: the peer sends the rest again.

use super::Incoming;
use crate::events::{SocketError, SocketEvents};
use rustix::io::Errno;
use upbeat_core::hello::Refusal;

/// The state of the end.
#[derive(Default)]
pub(super) struct Ending {
    /// Whether the session outlives a connection that breaks.
    resumable: bool,
    /// The connection is broken, and the session can be resumed over another.
    broken: bool,
    /// No more data comes.
    closed: bool,
    /// The peer has said that it ends the session.
    in_order: bool,
    refusal: Option<Refusal>,
    fault: Option<SocketError>,
}

impl Ending {
    /// Returns whether no more data is to be received from this connection.
    pub(super) fn is_known(&self) -> bool {
        self.broken || self.is_final()
    }

    fn is_final(&self) -> bool {
        self.closed || self.fault.is_some() || self.refusal.is_some()
    }

    /// Notes that the peer has ended the session.
    pub(super) fn close(&mut self) {
        (self.closed, self.in_order) = (true, true);
    }

    /// Notes that the peer has refused the session.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.resumable = false;
    }

    pub(super) fn fail(&mut self, fault: SocketError) {
        self.fault = Some(fault);
    }

    /// Notes that the connection has ended without the peer's notice, or with an error.
    pub(super) fn cut(&mut self, error: Option<Errno>) {
        match error {
            _ if self.resumable => self.broken = true,
            None => self.closed = true,
            Some(error) => self.fail(SocketError::System { act: "recvmsg", error }),
        }
    }
}

impl Incoming {
    /// Sets whether the session outlives a broken connection.
    pub(in super::super) fn set_resumable(&mut self, resumable: bool) {
        self.ending.resumable = resumable;
    }

    pub(in super::super) fn is_resumable(&self) -> bool {
        self.ending.resumable
    }

    /// Returns whether the session has ended, or waits to be resumed over another connection.
    pub(in super::super) fn has_ended(&self) -> bool {
        self.ending.is_known()
    }

    /// Returns whether the session has ended for good.
    pub(in super::super) fn is_over(&self) -> bool {
        self.ending.is_final()
    }

    /// Forgets incomplete records, and segments that no frame has named, of a lost connection.
    pub(in super::super) fn forget(&mut self) {
        (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
        self.taken.buffer = None;
        self.granting.forget();
        self.filling = None;
        self.segments.clear();
        self.ending.broken = false;
    }

    /// Returns the received events besides frames.
    pub(in super::super) fn drained(&mut self) -> Result<SocketEvents, SocketError> {
        if let Some(fault) = self.ending.fault {
            return Err(fault);
        }
        let segments = std::mem::take(&mut self.named);
        let refusal = self.ending.refusal.take();
        Ok(SocketEvents {
            segments,
            refusal,
            closed: self.ending.closed,
            in_order: self.ending.in_order,
            ..SocketEvents::default()
        })
    }
}
