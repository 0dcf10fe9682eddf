//! Segments that a session receives, and those with a node's exports that it sends.

use super::Session;
use crate::error::Why;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use upbeat_core::limits::EXPORT_GENERATION;
use upbeat_transport::carrier::{OwnSegment, Segment};

/// Segments that the peer has sent, and those that it was sent.
#[derive(Default)]
pub(super) struct Segments {
    /// Segments that have come, and are not mapped yet.
    pub(super) came: RefCell<VecDeque<Segment>>,
    /// The number of segments with exports that were sent.
    exports: Cell<u32>,
}

impl Session {
    /// Sends a segment with exports to the peer. Returns its generation, or 0 if the peer cannot map it.
    pub(crate) fn send_export(&self, segment: &OwnSegment) -> u32 {
        if self.carrier.is_stream() || matches!(segment, OwnSegment::Heap(_)) {
            return 0;
        }
        let sent = self.segments.exports.get();
        let generation = EXPORT_GENERATION | (sent & (EXPORT_GENERATION - 1));
        match self.carrier.send_segment(generation, segment) {
            Ok(()) => {
                self.segments.exports.set(sent.wrapping_add(1));
                generation
            }
            // The reader asks by calls.
            Err(_) => 0,
        }
    }

    /// Returns the segment of this generation, which the peer has sent before the reply that names it, and the peer's
    /// process.
    pub(crate) fn export(&self, generation: u32) -> Result<(Segment, Option<u32>), String> {
        if generation < EXPORT_GENERATION {
            return Err(format!("segment {generation} is none of exports"));
        }
        let segment = self.segment(generation).map_err(|fault| match *fault {
            Why::Misbehaved(rule) => rule.to_string(),
            Why::Broken(text) | Why::Unmapped { text } => text,
            _ => "the session has ended".to_owned(),
        })?;
        Ok((segment, self.carrier.peer.pid))
    }
}
