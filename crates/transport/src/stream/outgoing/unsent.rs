//! The encoded records that were not sent yet, and the payloads between them.
//!
//! A payload is sent from the region in which it lies. One system call sends the head of its record, the payload and
//! the records behind it. The next call sends what the system has not taken, together with what is encoded by then.
//! Invariant: every byte is sent once, in the order in which the records were encoded.

use std::collections::VecDeque;
use upbeat_core::limits::STREAM_OUT_BYTES;
use upbeat_memory::region::Region;
use upbeat_memory::socket::{PARTS_MAX, Part, Span};

/// The most payloads that one system call sends from where they lie. Records may follow the last one.
const BULKS_MAX: usize = PARTS_MAX - 1;
/// If fewer bytes than these are left over, more records are encoded and sent along with them.
const LEFT_OVER_BYTES: usize = 16 << 10;

/// The encoded records, and the payloads that go between them.
#[derive(Default)]
pub(super) struct Unsent {
    /// Encoded records, whose first `sent` bytes were sent.
    pub(super) encoded: Vec<u8>,
    sent: usize,
    bulks: VecDeque<Bulk>,
}

/// A payload, or the rest of one, that is sent from its region.
struct Bulk {
    region: Region,
    at: usize,
    left: usize,
    /// The number of bytes of `encoded` that go before the payload.
    behind: usize,
}

/// The parts that one system call sends, and their number.
pub(super) struct Parts<'a>([Part<'a>; PARTS_MAX], usize);

impl<'a> Parts<'a> {
    pub(super) fn as_slice(&self) -> &[Part<'a>] {
        &self.0[..self.1]
    }
}

impl Unsent {
    /// Returns whether there is nothing to send.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.encoded.len() && self.bulks.is_empty()
    }

    /// Returns the number of bytes to be sent.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let bulks = self.bulks.iter().map(|bulk| bulk.left);
        self.encoded.len() - self.sent + bulks.sum::<usize>()
    }

    /// Returns the number of payloads that are sent from where they lie.
    #[inline]
    pub(super) fn bulks(&self) -> usize {
        self.bulks.len()
    }

    /// Returns whether so few bytes are left over that more records are encoded before they are sent.
    #[inline]
    pub(super) fn takes_more(&self) -> bool {
        self.bytes() < LEFT_OVER_BYTES && self.bulks.len() < BULKS_MAX
    }

    /// Returns whether no more records are encoded before the payloads are sent.
    pub(super) fn is_full(&self) -> bool {
        self.bulks.len() == BULKS_MAX || self.bytes() >= 2 * STREAM_OUT_BYTES
    }

    /// Adds a payload behind the records that are encoded: `left` bytes of a region, from byte `at` on.
    pub(super) fn bulk(&mut self, region: Region, at: usize, left: usize) {
        debug_assert!(self.bulks.len() < BULKS_MAX, "one system call sends no more payloads");
        let behind = self.encoded.len();
        self.bulks.push_back(Bulk { region, at, left, behind });
    }

    /// Removes the records that were sent.
    pub(super) fn make_room(&mut self) {
        self.encoded.drain(..self.sent);
        self.bulks.iter_mut().for_each(|bulk| bulk.behind -= self.sent);
        self.sent = 0;
    }

    /// Returns the parts that are to be sent.
    pub(super) fn parts(&self) -> Parts<'_> {
        let mut parts = Parts([Part::default(); PARTS_MAX], 0);
        let mut from = self.sent;
        let mut add = |part| {
            parts.0[parts.1] = part;
            parts.1 += 1;
        };
        for Bulk { region, at, left, behind } in &self.bulks {
            let then = Some(Span { region, at: *at, bytes: *left });
            add(Part { first: &self.encoded[from..*behind], then });
            from = *behind;
        }
        if from < self.encoded.len() {
            add(Part { first: &self.encoded[from..], then: None });
        }
        parts
    }

    /// Notes that the system has taken this many bytes.
    pub(super) fn went(&mut self, mut bytes: usize) {
        while let Some(bulk) = self.bulks.front_mut() {
            let records = bytes.min(bulk.behind - self.sent);
            self.sent += records;
            bytes -= records;
            let taken = bytes.min(bulk.left);
            bulk.at += taken;
            bulk.left -= taken;
            bytes -= taken;
            if bulk.left != 0 {
                return;
            }
            self.bulks.pop_front();
        }
        self.sent += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::{BULKS_MAX, Unsent};
    use upbeat_memory::region::Region;

    /// Returns a copy of all bytes to be sent.
    fn bytes_of(unsent: &Unsent) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in unsent.parts().as_slice() {
            bytes.extend_from_slice(part.first);
            if let Some(then) = part.then {
                let mut whole = vec![0; then.at + then.bytes];
                then.region.read(0, &mut whole);
                bytes.extend_from_slice(&whole[then.at..]);
            }
        }
        bytes
    }

    /// Payloads may be so short that many of them are left over together.
    #[test]
    fn at_most_one_system_call_of_payloads_is_left_over() {
        let (mut unsent, region) = (Unsent::default(), Region::heap(1));
        for taken in [0, 8] {
            while unsent.takes_more() {
                unsent.encoded.push(1);
                unsent.bulk(region.clone(), 0, 8);
            }
            unsent.encoded.push(2);
            assert_eq!(unsent.parts().as_slice().len(), BULKS_MAX + 1);
            unsent.went(taken);
        }
    }

    /// The system may take any number of bytes at a time, of records and payloads of many lengths.
    #[test]
    fn bytes_are_sent_in_order_wherever_the_system_stops() {
        let payload: Vec<u8> = (0..80).collect();
        let region = Region::heap(payload.len() / 8);
        region.write(0, &payload);
        for step in 1..120 {
            let (mut unsent, mut expected, mut sent) = (Unsent::default(), Vec::new(), Vec::new());
            for round in 0..40_usize {
                unsent.make_room();
                while unsent.bulks() < BULKS_MAX {
                    let (record, from) = (vec![round as u8; round % 7], round % 30);
                    unsent.encoded.extend_from_slice(&record);
                    unsent.bulk(region.clone(), from, payload.len() - from);
                    expected.extend_from_slice(&record);
                    expected.extend_from_slice(&payload[from..]);
                }
                unsent.encoded.push(round as u8);
                expected.push(round as u8);
                let bytes = bytes_of(&unsent);
                assert_eq!(bytes.len(), unsent.bytes());
                let taken = bytes.len().min(step);
                sent.extend_from_slice(&bytes[..taken]);
                unsent.went(taken);
            }
            sent.extend_from_slice(&bytes_of(&unsent));
            assert!(sent == expected, "{step} bytes at a time");
            unsent.went(unsent.bytes());
            assert!(unsent.is_empty());
        }
    }
}
