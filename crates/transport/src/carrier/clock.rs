//! Translates time stamps of a peer of another host, by the offset of the peer's clock from ours.

use super::{Carrier, Way};
use upbeat_core::bill::clock::Offset;

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
}

/// The offset of the peer's clock is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOffset;
