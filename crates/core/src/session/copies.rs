//! The bytes of refused requests in the ring that a receiver has to copy.
//!
//! Both sides count: the sender the bytes that the receiver may have to copy, the receiver the bytes that it has
//! copied.

use crate::flow::Sender;
use crate::mutant::{Mutant, mutated};

/// The number of marks that tell how many of the bytes in the ring were accepted.
const MARKS: usize = 16;

/// The bytes of this side's requests in the ring that are not known to be accepted. The peer copies those that it
/// refuses, up to a bound.
#[derive(Debug)]
pub(super) struct Copies {
    most: u64,
    sent: u64,
    accepted: u64,
    /// Some requests, each with the number of bytes sent up to it. The first `marked` entries are valid.
    marks: [(u64, u64); MARKS],
    marked: usize,
}

impl Copies {
    pub(super) const fn new(most: usize) -> Copies {
        Copies { most: most as u64, sent: 0, accepted: 0, marks: [(0, 0); MARKS], marked: 0 }
    }

    /// Records that the request of this number was written to the ring.
    pub(super) fn went(&mut self, number: u64, bytes: usize) {
        self.sent += bytes as u64;
        let marks = &self.marks[..self.marked];
        let last = marks.last().map_or(self.accepted, |(_, sent)| *sent);
        if self.marked < MARKS && self.sent - last >= self.most / MARKS as u64 {
            self.marks[self.marked] = (number, self.sent);
            self.marked += 1;
        }
    }

    /// Updates the count of accepted bytes.
    pub(super) fn heard(&mut self, sender: &Sender) {
        let marks = &self.marks[..self.marked];
        let past = marks.iter().take_while(|(number, _)| *number < sender.safe()).count();
        if let Some((_, sent)) = marks[..past].last() {
            self.accepted = *sent;
            self.marks.copy_within(past..self.marked, 0);
            self.marked -= past;
        }
        if sender.open() == 0 {
            self.accepted = self.sent;
            self.marked = 0;
        }
    }

    pub(super) fn takes(&self, bytes: usize) -> bool {
        self.sent - self.accepted + bytes as u64 <= self.most || mutated(Mutant::CopiesUncounted)
    }
}
