//! What both sides of a stream between hosts tell each other of their counters.
//!
//! A record of time stamps goes along with bytes that are sent anyway, never alone: with a sampled message, and in
//! answer to one that came. Invariant: the counter is read for these records, for the writes of sampled messages, and
//! before each read of the socket, which does not know what it will bring.

use super::stamps::Stamped;
use upbeat_core::bill::clock::{Clock, Offset, Timestamps};
use upbeat_core::stream::write_clock;
use upbeat_memory::ticks::ticks;

/// The peer's clock, and whether it is to be told of ours.
pub(super) struct PeerClock {
    clock: Clock,
    /// Something is to be said.
    due: bool,
    /// The peer is asked for the same.
    asks: bool,
    /// None before a message is sampled, so that an idle session keeps no memory for it.
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

    /// Nothing has come for a while: gives back the memory of stamps, unless a message of ours is to be written.
    pub(super) fn cool(&mut self) {
        self.stamped.take_if(|stamped| stamped.writings.is_empty());
    }

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The peer has said this of its counter.
    pub(super) fn heard(&mut self, asks: bool, said: Timestamps) {
        self.clock.heard(said, ticks());
        self.due |= asks;
    }

    /// Encodes what is to be said, which is sent at once.
    #[cold]
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        write_clock(self.asks, self.clock.stamps(ticks()), out);
        (self.due, self.asks) = (false, false);
    }
}
