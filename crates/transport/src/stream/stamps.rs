//! When sampled messages of a stream were given to its socket and taken from it.
//!
//! Messages are known by their slots, which have the same numbers on both sides. Invariant: where nobody asks, the
//! counter is not read, and what is kept is bounded.

use std::collections::VecDeque;
use std::ops::Range;
use upbeat_core::bill::taken::{Reading, Writing};
use upbeat_memory::ticks::ticks;

/// The most messages of ours whose writing is kept.
const WRITINGS_MAX: usize = 16;

/// The reads that are stamped once the peer has said that it samples, or this side has asked it for its clock: those
/// of a run of samples, and of some messages in between.
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
    /// The slot behind it.
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

    /// When the message before this slot was written, once all of it was. It is watched no more.
    pub(super) fn take(&mut self, until: u64) -> Option<Writing> {
        let at = self.0.iter().position(|watched| watched.until == until)?;
        let Watched { began, encrypting, ended, .. } = self.0.remove(at)?;
        Some(Writing { began: began?, encrypting, ended: ended? })
    }

    /// Begins a write, if a message waits for one.
    pub(super) fn begin(&self) -> Option<Write> {
        let waits = self.0.iter().any(|watched| watched.ended.is_none());
        waits.then(|| Write { began: ticks(), encrypting: 0 })
    }

    /// A write has returned. Behind it every message up to the slot `gone` was written, if that is known.
    pub(super) fn end(&mut self, write: &Write, gone: Option<u64>) {
        let ended = ticks();
        for watched in self.0.iter_mut().filter(|watched| watched.ended.is_none()) {
            watched.began.get_or_insert(write.began);
            watched.encrypting += write.encrypting;
            watched.ended = gone.filter(|gone| *gone >= watched.until).map(|_| ended);
        }
    }
}

/// A write that is stamped.
pub(super) struct Write {
    began: u64,
    /// Ticks that encrypting took.
    pub(super) encrypting: u64,
}

/// The reads that have brought messages of late.
#[derive(Default)]
pub(super) struct Readings {
    /// So many more are stamped.
    left: usize,
    last: VecDeque<(Range<u64>, Reading)>,
}

impl Readings {
    /// Messages of a sample may come.
    pub(super) fn expect(&mut self) {
        self.last.reserve_exact(READINGS - self.last.len());
        self.left = READINGS;
    }

    /// Begins a read: when, if it is stamped.
    pub(super) fn begin(&self) -> Option<u64> {
        (self.left != 0).then(ticks)
    }

    /// A read has ended: this side has taken the messages in these slots into the lane.
    pub(super) fn end(&mut self, began: u64, slots: Range<u64>) {
        self.left = self.left.saturating_sub(1);
        if slots.is_empty() {
            return;
        }
        if self.last.len() == READINGS {
            self.last.pop_front();
        }
        self.last.push_back((slots, Reading { began, ended: ticks() }));
    }

    /// The read that brought the message in this slot, if it was stamped.
    pub(super) fn of(&self, slot: u64) -> Option<Reading> {
        let read = self.last.iter().find(|(slots, _)| slots.contains(&slot));
        read.map(|(_, reading)| *reading)
    }
}

#[cfg(test)]
mod tests;
