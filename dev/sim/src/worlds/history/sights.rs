//! The record of the exports of a world, and of what their readers see.

use super::{Failure, Process, Record};
use std::collections::BTreeMap;

/// The numbers of the values of a life of a server, and of each of its exports.
pub(crate) const OF_LIFE: u64 = 1_000_000;
pub(crate) const OF_EXPORT: u64 = 10_000;

/// Returns the number of the export to which the value of a number belongs: that of its first value.
pub(crate) fn export_of(number: u64) -> u64 {
    number - number % OF_EXPORT
}

/// An export of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    /// The number of the last update that has begun.
    pub(crate) begun: u64,
    /// The times at which its values were set, in their order.
    pub(crate) set: Vec<u64>,
    pub(crate) withdrawn: Option<u64>,
}

impl Owned {
    /// Returns the number of the last update that is done.
    fn done(&self) -> Option<u64> {
        Some(export_of(self.begun) + (self.set.len() as u64).checked_sub(1)?)
    }
}

/// A look at an export that begins.
pub(crate) struct Look {
    process: Process,
    server: Process,
    known: Option<u64>,
    from: u64,
    /// The numbers that were set in each export before.
    done: BTreeMap<u64, u64>,
}

impl Look {
    /// The time at which the look has begun.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }
}

/// The end of a look at an export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sight {
    Number(u64),
    /// A watch has found one number, and then another one.
    Changed(u64, u64),
    /// Nothing is read without a call.
    Busy,
    /// A watch has found no other number behind this one.
    Unchanged(u64),
    Failed(Failure, String),
}

impl Sight {
    /// Returns the number of the value that was read last, if one was.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Sight::Number(number) | Sight::Changed(_, number) | Sight::Unchanged(number) => {
                Some(*number)
            }
            Sight::Busy | Sight::Failed(..) => None,
        }
    }
}

/// A look at an export that tells something about its owner.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) process: Process,
    pub(crate) server: Process,
    /// The time at which the client began to import what it reads, if that was before.
    pub(crate) known: Option<u64>,
    pub(crate) from: u64,
    pub(crate) at: u64,
    pub(crate) sight: Sight,
}

impl Record {
    /// An owner begins to set the value of a number, the first one of an export too.
    pub(crate) fn updates(&self, server: Process, number: u64) {
        self.lock().exports.entry((server, export_of(number))).or_default().begun = number;
    }

    /// Readers find the value of a number, or a later one.
    pub(crate) fn updated(&self, server: Process, number: u64) {
        let mut history = self.lock();
        let now = history.now();
        history.exports.entry((server, export_of(number))).or_default().set.push(now);
    }

    /// An owner is about to end an export.
    pub(crate) fn withdraws(&self, server: Process, export: u64) {
        let mut history = self.lock();
        let now = history.now();
        history.exports.entry((server, export)).or_default().withdrawn = Some(now);
    }

    /// A client begins to read an export of a server, where the last number that the client has read is `last`, and the
    /// import began at `known`.
    pub(crate) fn looks(
        &self,
        (process, server): (Process, Process),
        known: Option<u64>,
        last: Option<u64>,
    ) -> Look {
        let history = self.lock();
        let its = history.exports.range((server, 0)..=(server, u64::MAX));
        let done = its.filter_map(|((_, export), owned)| Some((*export, owned.done()?)));
        let mut done: BTreeMap<u64, u64> = done.collect();
        if let Some(last) = last {
            let known = done.entry(export_of(last)).or_default();
            *known = last.max(*known);
        }
        Look { process, server, known, from: history.now(), done }
    }

    /// A client sees a number that the owner has set, none that is older than one that was set or seen before, and by a new
    /// import none of an older export. Returns the number.
    pub(crate) fn sees(&self, look: Look, sight: Sight) -> Option<u64> {
        let mut history = self.lock();
        let Look { process, server, known, from, done } = look;
        let at = history.now();
        if history.is_over {
            return None;
        }
        let number = sight.number();
        if let Some(number) = number {
            let export = export_of(number);
            let begun = history.exports.get(&(server, export)).map(|owned| owned.begun);
            let is_older = number < done.get(&export).copied().unwrap_or(0);
            let newest = done.last_key_value().map_or(0, |(export, _)| *export);
            // The owner has not set a value that a guard has discarded.
            let is_set = begun.is_some_and(|begun| number <= begun);
            if is_older || !is_set || known.is_none() && export < newest {
                history.wrong.push(format!(
                    "{process} reads {number} of {server} at {at}, after {done:?} were set, and before {begun:?}"
                ));
            }
        }
        history.seen.push(Seen { process, server, known, from, at, sight });
        number
    }
}
