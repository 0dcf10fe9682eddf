//! The bytes that a receiver has to copy of requests that lie in the ring and that it refuses.
//!
//! Both sides count: the sender what may come to that, the receiver what has.

use crate::flow::Sender;
use crate::mutant::{Mutant, mutated};

/// Marks by which it is known how much of what went in the ring was accepted.
const MARKS: usize = 16;

/// Bytes of our requests in the ring that are not known to be accepted. The peer copies those that
/// it refuses, and no more than so many.
#[derive(Debug)]
pub(super) struct Copies {
    most: u64,
    sent: u64,
    accepted: u64,
    /// Now and then, a request and what had been sent with it: the first so many.
    marks: [(u64, u64); MARKS],
    marked: usize,
}

impl Copies {
    pub(super) const fn new(most: usize) -> Copies {
        Copies { most: most as u64, sent: 0, accepted: 0, marks: [(0, 0); MARKS], marked: 0 }
    }

    /// The request of this number has gone in the ring.
    pub(super) fn went(&mut self, number: u64, bytes: usize) {
        self.sent += bytes as u64;
        let marks = &self.marks[..self.marked];
        let last = marks.last().map_or(self.accepted, |(_, sent)| *sent);
        if self.marked < MARKS && self.sent - last >= self.most / MARKS as u64 {
            self.marks[self.marked] = (number, self.sent);
            self.marked += 1;
        }
    }

    /// More may have been accepted.
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
