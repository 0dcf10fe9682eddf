//! The times at which sampled messages of a stream were given to its socket and taken from it.
//!
//! Messages are identified by their slots, which have the same numbers on both sides. Invariant: the memory is
//! bounded, and no memory is used for messages that are not sampled.

use std::collections::VecDeque;
use std::ops::Range;
use upbeat_core::bill::taken::{Reading, Writing, Written};
use upbeat_memory::ticks::ticks;

/// The most messages of ours whose writing is measured at a time.
const WRITINGS_MAX: usize = 16;

/// The most reads that are kept, for messages that the owner has not yet taken over, if each one is sampled.
const READINGS: usize = 64;

/// The measured messages of both sides.
#[derive(Default)]
pub(super) struct Stamped {
    pub(super) writings: Writings,
    pub(super) readings: Readings,
}

/// The writing of our messages that are watched.
#[derive(Default)]
pub(super) struct Writings(VecDeque<Watched>);

/// A message whose writing is measured.
struct Watched {
    /// The slot behind the message in its first position.
    until: u64,
    /// The time of the first write, or None before it.
    began: Option<u64>,
    encrypting: u64,
    /// The time at which all of the message was written, or None before that.
    ended: Option<u64>,
}

impl Writings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Watches the message before this slot, which was not sent yet. If there are too many, the oldest is dropped.
    pub(super) fn watch(&mut self, until: u64) {
        self.0.reserve_exact(WRITINGS_MAX - self.0.len());
        if self.0.len() == WRITINGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Watched { until, began: None, encrypting: 0, ended: None });
    }

    /// Returns when the message before this slot was written, and stops watching it once all of it was.
    pub(super) fn take(&mut self, until: u64) -> Written {
        let Some(at) = self.0.iter().position(|watched| watched.until == until) else {
            return Written::Unknown;
        };
        let Watched { began: Some(began), encrypting, ended: Some(ended), .. } = self.0[at] else {
            return Written::NotYet;
        };
        self.0.remove(at);
        Written::All(Writing { began, encrypting, ended })
    }

    /// Begins a write, if a message waits for one.
    pub(super) fn begin(&self) -> Option<Write> {
        let waits = self.0.iter().any(|watched| watched.ended.is_none());
        waits.then(|| Write { began: ticks(), encrypting: 0 })
    }

    /// Ends a write. `has_gone` returns whether the message before a slot was written by now.
    pub(super) fn end(&mut self, write: &Write, has_gone: impl Fn(u64) -> bool) {
        let ended = ticks();
        for watched in self.0.iter_mut().filter(|watched| watched.ended.is_none()) {
            watched.began.get_or_insert(write.began);
            watched.encrypting += write.encrypting;
            watched.ended = has_gone(watched.until).then_some(ended);
        }
    }
}

/// A write that is stamped.
pub(super) struct Write {
    began: u64,
    /// The ticks that encrypting took.
    pub(super) encrypting: u64,
}

/// The recent reads that have brought sampled messages.
#[derive(Default)]
pub(super) struct Readings {
    /// Whether the head of a sampled message has come for which no read was stored yet.
    came: bool,
    last: VecDeque<(Range<u64>, Reading)>,
}

impl Readings {
    /// Notes that the head of a sampled message has come.
    pub(super) fn sample_came(&mut self) {
        self.came = true;
    }

    /// Ends a read that began at `began` and brought the messages in `slots`. `goes_on` says whether the last message
    /// is still incomplete.
    pub(super) fn end(&mut self, began: u64, slots: Range<u64>, goes_on: bool) {
        if !self.came || slots.is_empty() {
            return;
        }
        self.came = goes_on;
        self.last.reserve_exact(READINGS - self.last.len());
        if self.last.len() == READINGS {
            self.last.pop_front();
        }
        self.last.push_back((slots, Reading { began, ended: ticks() }));
    }

    /// Returns the read that brought the sampled message in this slot, if it is still kept.
    pub(super) fn of(&self, slot: u64) -> Option<Reading> {
        let read = self.last.iter().find(|(slots, _)| slots.contains(&slot));
        read.map(|(_, reading)| *reading)
    }
}

#[cfg(test)]
mod tests;
