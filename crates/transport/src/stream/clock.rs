//! The time stamps that the two sides of a stream between hosts exchange.
//!
//! A record of time stamps is sent together with other bytes, never alone: with a sampled message, and in reply to a
//! record that asked for it. Invariant: the counter is read for these records, for the writes of sampled messages,
//! and before each read of the socket, because the read may bring one.

use super::stamps::Stamped;
use upbeat_core::bill::clock::{Clock, Offset, Timestamps};
use upbeat_core::stream::write_clock;
use upbeat_memory::ticks::ticks;

/// The peer's clock, and the state of the exchange.
pub(super) struct PeerClock {
    clock: Clock,
    /// Whether a record is due.
    due: bool,
    /// Whether the record asks the peer for its time stamps.
    asks: bool,
    /// None before a message is sampled, so that an idle session uses no memory for it.
    pub(super) stamped: Option<Box<Stamped>>,
}

impl PeerClock {
    pub(super) fn new(clock: Clock, due: bool) -> PeerClock {
        PeerClock { clock, due, asks: false, stamped: None }
    }

    pub(super) fn offset(&self) -> Option<Offset> {
        self.clock.offset()
    }

    pub(super) fn ask(&mut self) {
        (self.due, self.asks) = (true, true);
    }

    pub(super) fn stamped(&mut self) -> &mut Stamped {
        self.stamped.get_or_insert_default()
    }

    /// Frees the memory of stamps after a quiet while, unless a message of ours waits to be written.
    pub(super) fn cool(&mut self) {
        self.stamped.take_if(|stamped| stamped.writings.is_empty());
    }

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Takes the time stamps in a record of the peer.
    pub(super) fn heard(&mut self, asks: bool, said: Timestamps) {
        self.clock.heard(said, ticks());
        self.due |= asks;
    }

    /// Encodes a record of time stamps, which is sent at once.
    #[cold]
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        write_clock(self.asks, self.clock.stamps(ticks()), out);
        (self.due, self.asks) = (false, false);
    }
}
