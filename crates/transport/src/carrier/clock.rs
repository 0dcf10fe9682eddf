//! Time stamps of sampled messages between hosts: the offset of the peer's clock, and the times at which this side's
//! socket took and gave messages.

use super::{Carrier, Medium};
use upbeat_core::bill::clock::Offset;
use upbeat_core::bill::taken::{Reading, Written};

impl Carrier {
    /// Returns the offset that translates time stamps of a peer on another host into our ticks, or `None` for a peer
    /// of this host. `Err` means that the offset is not known.
    pub fn offset(&self) -> Result<Option<Offset>, NoOffset> {
        match &self.medium {
            Medium::Stream { stream, .. } if self.peer.at.is_some() => {
                stream.offset().map(Some).ok_or(NoOffset)
            }
            _ => Ok(None),
        }
    }

    /// Notes that a sampled message was written: the next output says the time and asks for the peer's. A carrier
    /// within a host ignores this.
    pub fn ask_clock(&self) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.ask_clock();
        }
    }

    /// Starts measuring when the last message written into our lane goes to the socket, for a session between hosts.
    /// Returns the key for [`Carrier::writing`].
    pub fn watch(&self) -> Option<u64> {
        let Medium::Stream { stream, .. } = &self.medium else { return None };
        let until = self.lanes.writer().out();
        stream.watch(until).then_some(until)
    }

    /// Returns when a [watched](Carrier::watch) message was given to the socket. The time is returned once.
    pub fn writing(&self, watched: u64) -> Written {
        let Medium::Stream { stream, .. } = &self.medium else { return Written::Unknown };
        stream.writing(watched)
    }

    /// Returns when the sampled message that lies open in the peer's lane was taken from the socket.
    pub fn reading(&self) -> Option<Reading> {
        let Medium::Stream { stream, .. } = &self.medium else { return None };
        stream.reading(self.lanes.reader().consumed())
    }
}

/// The offset of the peer's clock is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOffset;
