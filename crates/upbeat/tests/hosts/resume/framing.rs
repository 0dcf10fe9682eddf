//! Where one record of a connection ends and the next begins, and what a proxy does there.

use super::proxy::How;
use crate::common::Random;
use std::time::Duration;
use upbeat_core::hello::{Parsed, Record};
use upbeat_core::stream::{self, Head};

/// The fault that the proxy makes at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is cut.
    Cut,
    /// Nothing goes either way for a while.
    Stall,
    /// A bit of the next record is another.
    Flip,
}

/// How often something is done, and how often it still is.
pub(crate) struct Faults {
    pub(crate) fault: Fault,
    pub(crate) left: u64,
    /// Records until the next.
    until: u64,
    random: Random,
}

/// A record, in the bytes that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Greeting,
    Frame,
    /// A record of TLS that is not encrypted.
    Clear,
    Encrypted,
}

/// The kind of TLS records that are encrypted, and the bytes before the body of one.
const ENCRYPTED: u8 = 23;
const TLS_HEAD: usize = 5;

impl Faults {
    pub(crate) fn new(fault: Fault, times: u64, seed: u64) -> Faults {
        Faults { fault, left: times, until: 0, random: Random::new(seed) }
    }

    /// Returns the fault to make at this record, of those that are passed on.
    pub(crate) fn next(&mut self, whole: Whole, record: &mut [u8]) -> Option<How> {
        let applies = match self.fault {
            Fault::Cut | Fault::Stall => true,
            // A greeting may be made longer, so that each side waits for the other until its time is over.
            Fault::Flip => matches!(whole.kind, Kind::Frame | Kind::Encrypted),
        };
        if self.left == 0 || !applies {
            return None;
        }
        if self.until > 0 {
            self.until -= 1;
            return None;
        }
        self.left -= 1;
        match self.fault {
            Fault::Cut => {
                // A few frames go over each connection.
                self.until = 4 + self.random.below(12);
                Some(if self.random.below(2) == 0 { How::End } else { How::Reset })
            }
            Fault::Stall => {
                let ms = if self.left.is_multiple_of(50) { 50 } else { self.random.below(2) };
                std::thread::sleep(Duration::from_millis(ms));
                None
            }
            Fault::Flip => {
                self.until = 4 + self.random.below(30);
                let at = match whole.kind {
                    // Neither the version, which nobody looks at, nor the length, behind which both would wait.
                    Kind::Encrypted => match self.random.below(record.len() as u64) as usize {
                        at @ 1..TLS_HEAD => at + TLS_HEAD - 1,
                        at => at,
                    },
                    _ => self.random.below(record.len() as u64) as usize,
                };
                record[at] ^= 1 << self.random.below(8);
                None
            }
        }
    }
}

/// The framing of the bytes in one direction of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    Tls,
    /// Records of the greeting that are still to come, and then frames.
    Plain {
        greetings: u8,
    },
    /// Bytes without a meaning.
    Lost,
}

impl Framing {
    /// The first record of these bytes, once it is whole.
    pub(crate) fn whole(&mut self, bytes: &[u8]) -> Option<Whole> {
        let whole = match *self {
            Framing::Lost => Some((bytes.len(), Kind::Clear)),
            Framing::Tls => bytes.get(..TLS_HEAD).map(|head| {
                let body = u16::from_be_bytes([head[3], head[4]]);
                let kind = if head[0] == ENCRYPTED { Kind::Encrypted } else { Kind::Clear };
                (TLS_HEAD + usize::from(body), kind)
            }),
            Framing::Plain { greetings: 0 } => match stream::parse(bytes) {
                Ok(Parsed::Complete(head, len)) => Some((len + behind(&head), Kind::Frame)),
                Ok(Parsed::NeedMore(_)) => None,
                Err(rule) => panic!("a node wrote what breaks a rule: {rule}"),
            },
            Framing::Plain { greetings } => match Record::parse(bytes) {
                Ok(Parsed::Complete(Record::Refusal(_), _)) | Err(_) => {
                    *self = Framing::Lost;
                    return self.whole(bytes);
                }
                Ok(Parsed::Complete(_, len)) => {
                    *self = Framing::Plain { greetings: greetings - 1 };
                    Some((len, Kind::Greeting))
                }
                Ok(Parsed::NeedMore(_)) => None,
            },
        };
        let (len, kind) = whole?;
        (len > 0 && len <= bytes.len()).then_some(Whole { bytes: len, kind })
    }
}

impl Whole {
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}

/// Bytes of a payload behind the head of a record.
fn behind(head: &Head) -> usize {
    match head {
        Head::Frame { payload, .. } => *payload as usize,
        Head::Buffer(chunk) => chunk.bytes as usize,
        Head::Refusal { bytes } => *bytes as usize,
        Head::Padding { .. }
        | Head::Progress(_)
        | Head::Segment(_)
        | Head::Clock { .. }
        | Head::End => 0,
    }
}
