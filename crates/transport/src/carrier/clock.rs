//! Time stamps of sampled messages between hosts: how to translate the peer's, and when this side's socket took and
//! gave messages.

use super::{Carrier, Way};
use upbeat_core::bill::clock::Offset;
use upbeat_core::bill::taken::{Reading, Written};

impl Carrier {
    /// How to translate the peer's time stamps into our ticks, where they are another host's; `Err` where that is
    /// not known.
    pub fn offset(&self) -> Result<Option<Offset>, NoOffset> {
        match &self.way {
            Way::Stream { stream, .. } if self.peer.at.is_some() => {
                stream.offset().map(Some).ok_or(NoOffset)
            }
            _ => Ok(None),
        }
    }

    /// A message that is sampled was written: what goes out with it says the time, and asks the peer's. Between
    /// processes of a host nothing does.
    pub fn ask_clock(&self) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.ask_clock();
        }
    }

    /// Between hosts: has the writing of the message stamped that was written into our lane last. Returns by what to
    /// [ask for that](Carrier::writing).
    pub fn watch(&self) -> Option<u64> {
        let Way::Stream { stream, .. } = &self.way else { return None };
        let until = self.lanes.writer().out();
        stream.watch(until).then_some(until)
    }

    /// Between hosts: when a message that was [watched](Carrier::watch) was given to the socket. That is told once.
    pub fn writing(&self, watched: u64) -> Written {
        let Way::Stream { stream, .. } = &self.way else { return Written::Unknown };
        stream.writing(watched)
    }

    /// Between hosts: when the sampled message was taken from the socket that lies open in the peer's lane.
    pub fn reading(&self) -> Option<Reading> {
        let Way::Stream { stream, .. } = &self.way else { return None };
        stream.reading(self.lanes.reader().taken())
    }
}

/// The offset of the peer's clock is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOffset;
