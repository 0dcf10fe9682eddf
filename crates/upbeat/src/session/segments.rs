//! Segments that a session receives and sends.

use super::send_error::SendError;
use super::{Fault, Session, broken};
use crate::error::Why;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use upbeat_core::limits::{EXPORT_GENERATION, EXPORT_SEGMENTS_WAITING_MAX, PENDING_SEGMENTS_MAX};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::MissingResource;
use upbeat_transport::carrier::{OwnSegment, Segment, SocketError};

/// The most looks at the socket for a segment that a frame names.
const HEARS_MAX: usize = 16;

/// Segments that the peer has sent, and those that it was sent.
#[derive(Default)]
pub(super) struct Segments {
    /// Segments of the lane and of slabs that have come, and that no frame has named yet.
    came: RefCell<VecDeque<Segment>>,
    /// Segments with exports that have come, and that no import has mapped yet. A reply may name one and never be read.
    exports_came: RefCell<VecDeque<Segment>>,
    /// The number of segments with exports that were sent.
    exports: Cell<u32>,
}

impl Segments {
    /// Keeps a segment that has come. Returns false if more wait than lanes and slabs can use.
    pub(super) fn keep(&self, segment: Segment) -> bool {
        if segment.generation >= EXPORT_GENERATION {
            let mut exports = self.exports_came.borrow_mut();
            exports.push_back(segment);
            if exports.len() > EXPORT_SEGMENTS_WAITING_MAX {
                exports.pop_front();
            }
            return true;
        }
        let mut came = self.came.borrow_mut();
        // A segment that was announced but not named before a connection broke is announced again.
        came.retain(|other| other.generation != segment.generation);
        came.push_back(segment);
        came.len() <= PENDING_SEGMENTS_MAX
    }

    /// Takes the segment of this generation, if it has come.
    pub(super) fn take(&self, generation: u32) -> Option<Segment> {
        let of = if generation >= EXPORT_GENERATION { &self.exports_came } else { &self.came };
        let mut segments = of.borrow_mut();
        let at = segments.iter().position(|segment| segment.generation == generation)?;
        segments.remove(at)
    }
}

impl Session {
    /// Sends a segment with exports to the peer. Returns its generation, or 0 if the peer cannot map it.
    pub(crate) fn send_export(&self, segment: &OwnSegment) -> u32 {
        if !self.carrier.caps().shares_memory || matches!(segment, OwnSegment::Heap(_)) {
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
    /// process. None if it gave way to later ones.
    pub(crate) fn export(&self, generation: u32) -> Result<Option<(Segment, Option<u32>)>, String> {
        if generation < EXPORT_GENERATION {
            return Err(format!("segment {generation} is none of exports"));
        }
        let segment = self.segment_came(generation).map_err(|fault| match *fault {
            Why::Misbehaved(rule) => rule.to_string(),
            Why::Broken(text) | Why::Unmapped { text } => text,
            _ => "the session has ended".to_owned(),
        })?;
        Ok(segment.map(|segment| (segment, self.carrier.peer.pid)))
    }

    /// Returns the segment of this generation, if the peer has sent it over the socket.
    pub(super) fn segment_came(&self, generation: u32) -> Result<Option<Segment>, Fault> {
        let mut heard = Ok(true);
        for _ in 0..=HEARS_MAX {
            // A segment that came before the end of the socket is valid; the end is reported again.
            if let Some(segment) = self.segments.take(generation) {
                self.ending.fault.set(self.ending.fault.take().or(heard.err()));
                return Ok(Some(segment));
            }
            if !heard? || mutated(Mutant::SegmentUnheard) {
                break;
            }
            heard = self.hear();
        }
        Ok(None)
    }

    /// Returns the error of a message whose segment of so many bytes could not be sent.
    #[cold]
    pub(super) fn growth_error(&self, bytes: usize, fault: SocketError) -> SendError {
        match fault {
            SocketError::System { error: Errno::AGAIN | Errno::NOBUFS, .. } => {
                self.missing(MissingResource::Slot)
            }
            // A peer that has closed its end has told the reason in its lane. Senders wait until the owner reads the end.
            SocketError::System { error: Errno::PIPE | Errno::CONNRESET, .. } => {
                self.ended_or_full()
            }
            SocketError::Descriptors { .. } | SocketError::System { error: Errno::NOMEM, .. } => {
                SendError::no_memory(bytes, fault)
            }
            SocketError::System { .. } => SendError::Ended(Box::new(Why::Died)),
            SocketError::Rule(_) => SendError::Ended(broken(&fault)),
        }
    }
}
