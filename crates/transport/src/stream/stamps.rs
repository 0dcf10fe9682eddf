//! When sampled messages of a stream were given to its socket and taken from it.
//!
//! Messages are known by their slots, which have the same numbers on both sides. Invariant: what is kept is bounded,
//! and nothing is kept of messages that nobody samples.

use std::collections::VecDeque;
use std::ops::Range;
use upbeat_core::bill::taken::{Reading, Writing, Written};
use upbeat_memory::ticks::ticks;

/// The most messages of ours whose writing is kept.
const WRITINGS_MAX: usize = 16;

/// The most reads that are kept: those of messages that the owner has yet to take over, where each is sampled.
const READINGS: usize = 64;

/// The messages of ours and of the peer of which something is known.
#[derive(Default)]
pub(super) struct Stamped {
    pub(super) writings: Writings,
    pub(super) readings: Readings,
}

/// The writing of messages of ours that somebody watches.
#[derive(Default)]
pub(super) struct Writings(VecDeque<Watched>);

/// A message that is watched.
struct Watched {
    /// The slot behind it where it was written first.
    until: u64,
    /// None before the first write.
    began: Option<u64>,
    encrypting: u64,
    /// None before all of it was written.
    ended: Option<u64>,
}

impl Writings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Watches the message before this slot, which was not shipped yet. Beyond the most the oldest is forgotten.
    pub(super) fn watch(&mut self, until: u64) {
        self.0.reserve_exact(WRITINGS_MAX - self.0.len());
        if self.0.len() == WRITINGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Watched { until, began: None, encrypting: 0, ended: None });
    }

    /// When the message before this slot was written. Once all of it was, it is watched no more.
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

    /// A write has returned. `has_gone` says whether the message before a slot was written by it, or before.
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
    /// Ticks that encrypting took.
    pub(super) encrypting: u64,
}

/// The reads that have brought sampled messages of late.
#[derive(Default)]
pub(super) struct Readings {
    /// The head of a sampled message has come, and no read was kept for it yet.
    came: bool,
    last: VecDeque<(Range<u64>, Reading)>,
}

impl Readings {
    /// The head of a sampled message has come.
    pub(super) fn sample_came(&mut self) {
        self.came = true;
    }

    /// A read has ended that began then: this side has taken the messages in these slots into the lane. `goes_on`
    /// says whether the last message has come in part.
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

    /// The read that brought the sampled message in this slot, if it is still kept.
    pub(super) fn of(&self, slot: u64) -> Option<Reading> {
        let read = self.last.iter().find(|(slots, _)| slots.contains(&slot));
        read.map(|(_, reading)| *reading)
    }
}

#[cfg(test)]
mod tests;
