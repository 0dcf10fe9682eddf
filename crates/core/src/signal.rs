//! The bytes on the socket after the handshake: doorbells, and segments for lanes that grow.
//!
//! A doorbell is a byte 0; a segment is a [`Record::Segment`] with one descriptor beside it. The transport reads
//! the socket and keeps the descriptors, and the session knows in which segment a lane continues. Invariant: for
//! any bytes, at most a part of one record is kept.

use crate::fault::Rule;
use crate::hello::{Parsed, Record, Segment};
use crate::limits::RECORD_HEADER_BYTES;

/// The byte that rings the doorbell of a sleeping peer.
pub const BELL: u8 = 0;

/// The bytes of a segment's record, the only record that may come in pieces here.
const SEGMENT_BYTES: usize = RECORD_HEADER_BYTES + 8;

/// A signal that was read from the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// One bell or several.
    Bell,
    /// A segment was passed.
    Segment(Segment),
}

/// A parser of signals from the bytes of a socket, in pieces of any size.
///
/// ```
/// use upbeat_core::signal::{BELL, Signal, Signals};
///
/// let mut signals = Signals::new();
/// let mut bytes: &[u8] = &[BELL, BELL];
/// assert_eq!(signals.next(&mut bytes), Ok(Some(Signal::Bell)));
/// assert_eq!(signals.next(&mut bytes), Ok(None));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Signals {
    partial: [u8; SEGMENT_BYTES],
    len: usize,
}

impl Signals {
    /// Creates a parser at a boundary between signals.
    pub const fn new() -> Signals {
        Signals { partial: [0; SEGMENT_BYTES], len: 0 }
    }

    /// Returns the next signal and removes its bytes from the front. If the result is none, all bytes were
    /// consumed, and the caller calls again when more have come. After an error the session has ended.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Signal>, Rule> {
        if self.len == 0 {
            let bells = bytes.iter().take_while(|&&byte| byte == BELL).count();
            *bytes = &bytes[bells..];
            if bells > 0 {
                return Ok(Some(Signal::Bell));
            }
        }
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.partial[self.len] = byte;
            self.len += 1;
            match Record::parse(&self.partial[..self.len])? {
                Parsed::Complete(Record::Segment(segment), _) => {
                    self.len = 0;
                    return Ok(Some(Signal::Segment(segment)));
                }
                Parsed::Complete(record, _) => {
                    return Err(Rule::RecordOutOfPlace { kind: record.kind().name() });
                }
                Parsed::NeedMore(missing) if self.len + missing > SEGMENT_BYTES => {
                    let len = (self.len + missing - RECORD_HEADER_BYTES) as u32;
                    let max = (SEGMENT_BYTES - RECORD_HEADER_BYTES) as u32;
                    return Err(Rule::RecordTooLong { len, max });
                }
                Parsed::NeedMore(_) => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::LANE_BYTES_FIRST;

    fn hear(signals: &mut Signals, mut bytes: &[u8], heard: &mut Vec<Signal>) -> Result<(), Rule> {
        while let Some(signal) = signals.next(&mut bytes)? {
            // Several doorbells in a row count as one, in whatever pieces they come.
            if signal != Signal::Bell || heard.last() != Some(&Signal::Bell) {
                heard.push(signal);
            }
        }
        assert!(bytes.is_empty());
        Ok(())
    }

    proptest! {
        #[test]
        fn signals_are_parsed_from_pieces_of_any_size(
            sent in prop::collection::vec(prop::option::of(1..9u32), 0..20),
            cut in 1..30usize,
        ) {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for signal in sent {
                if let Some(pages) = signal {
                    let lane = (LANE_BYTES_FIRST + 4096 * pages as usize) as u32;
                    let segment = Segment { generation: pages, bytes: lane };
                    Record::Segment(segment).write(&mut bytes);
                    expected.push(Signal::Segment(segment));
                } else {
                    bytes.push(BELL);
                    if expected.last() != Some(&Signal::Bell) {
                        expected.push(Signal::Bell);
                    }
                }
            }
            let (mut signals, mut heard) = (Signals::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                hear(&mut signals, piece, &mut heard)?;
            }
            prop_assert_eq!(heard, expected);
        }

        #[test]
        fn any_bytes_give_signals_or_a_rule(
            start in 0..17usize,
            tail in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = Vec::new();
            Record::Segment(Segment { generation: 1, bytes: 8192 }).write(&mut bytes);
            bytes.truncate(start);
            bytes.extend(tail);
            let _ = hear(&mut Signals::new(), &bytes, &mut Vec::new());
        }
    }

    #[test]
    fn other_records_are_refused() {
        let mut bytes = Vec::new();
        Record::Ready.write(&mut bytes);
        let rule = Rule::RecordOutOfPlace { kind: "ready" };
        assert_eq!(hear(&mut Signals::new(), &bytes, &mut Vec::new()), Err(rule));
    }

    #[test]
    fn a_long_record_is_refused_at_its_header() {
        let mut bytes = Vec::new();
        Record::Ready.write(&mut bytes);
        bytes[12] = 9;
        let rule = Rule::RecordTooLong { len: 9, max: 8 };
        assert_eq!(hear(&mut Signals::new(), &bytes, &mut Vec::new()), Err(rule));
    }
}
