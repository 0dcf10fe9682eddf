//! How what comes in ends: for good, or until the session goes on over another connection.
//!
//! Invariant: what has come whole is kept, and nothing else: the peer ships the rest again.

use super::Incoming;
use crate::heard::{BellFault, Drained};
use rustix::io::Errno;
use upbeat_core::hello::Refusal;

/// What was said, or seen, of the end.
#[derive(Default)]
pub(super) struct Ending {
    /// Whether the session outlives a connection that breaks.
    resumable: bool,
    /// The connection is broken, and the session goes on over another.
    broken: bool,
    /// Nothing more comes.
    closed: bool,
    refusal: Option<Refusal>,
    fault: Option<BellFault>,
}

impl Ending {
    /// Whether nothing more is to be taken in from this connection.
    pub(super) fn is_known(&self) -> bool {
        self.broken || self.is_final()
    }

    fn is_final(&self) -> bool {
        self.closed || self.fault.is_some() || self.refusal.is_some()
    }

    /// The peer has ended the session.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The peer has refused to go on.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.resumable = false;
    }

    pub(super) fn fail(&mut self, fault: BellFault) {
        self.fault = Some(fault);
    }

    /// The connection has ended, without a word or with an error.
    pub(super) fn cut(&mut self, error: Option<Errno>) {
        match error {
            _ if self.resumable => self.broken = true,
            None => self.closed = true,
            Some(error) => self.fail(BellFault::System { act: "recvmsg", error }),
        }
    }
}

impl Incoming {
    /// Whether the session outlives a connection that breaks.
    pub(in super::super) fn set_resumable(&mut self, resumable: bool) {
        self.ending.resumable = resumable;
    }

    pub(in super::super) fn is_resumable(&self) -> bool {
        self.ending.resumable
    }

    /// Whether the session is to end, or to go on over another connection.
    pub(in super::super) fn has_ended(&self) -> bool {
        self.ending.is_known()
    }

    /// Whether the session has ended, over whatever connection.
    pub(in super::super) fn is_over(&self) -> bool {
        self.ending.is_final()
    }

    /// The connection is gone: forgets what of a record has come, and segments that no frame has named.
    pub(in super::super) fn forget(&mut self) {
        (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
        self.taken.buffer = None;
        self.granting.forget();
        self.filling = None;
        self.segments.clear();
        self.ending.broken = false;
    }

    /// What was taken in but frames.
    pub(in super::super) fn drained(&mut self) -> Result<Drained, BellFault> {
        if let Some(fault) = self.ending.fault {
            return Err(fault);
        }
        let segments = std::mem::take(&mut self.named);
        let refusal = self.ending.refusal.take();
        Ok(Drained { segments, refusal, closed: self.ending.closed, ..Drained::default() })
    }
}
