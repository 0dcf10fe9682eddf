//! The part of a node's time that callers of other hosts take before they have sessions.

use super::{Cause, Pause};
use crate::limits::PAUSE_MS_MAX;

/// While its sessions have messages, a node works for callers of other hosts for one part in so many of its time.
pub(super) const PART: u64 = 3;

/// Nanoseconds for which a node works for such callers at once.
pub(super) const AT_ONCE_NS_MAX: u64 = 1_000_000;

/// The time in which the work of [`AT_ONCE_NS_MAX`] is made up for.
const AT_ONCE_SPAN_NS: u64 = AT_ONCE_NS_MAX * PART;

/// The time that callers owe at most: a part of their work is not bounded by any pause.
const OWED_NS_MAX: u64 = PAUSE_MS_MAX * 1_000_000;

/// The account of the time that a node works for callers of other hosts: it accepts them, answers their first messages,
/// and verifies their certificates. While sessions of the node have messages, callers get one part in
/// [`PART`] of its time, and [`AT_ONCE_NS_MAX`] at once. A node whose sessions are silent pauses for
/// callers only to look at its sessions: each pause is short, and a look that finds no message clears what they owe.
///
/// Answers go before the acceptance of further callers, which has only half of the time at once: callers that say nothing
/// leave time for those that do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// When all the work is made up for. It lies in the future while callers wait.
    even_at_ns: u64,
    /// The time of all the work so far.
    worked_ns: u64,
    /// The messages of sessions at the last look.
    messages: u64,
}

/// Work for a caller that has begun, with any work that begins and ends within it.
#[derive(Clone, Copy, Debug)]
#[must_use = "work that is not charged counts for nobody"]
pub struct Work {
    /// The processor time of the thread at the beginning.
    began_ns: u64,
    /// The time of all the work before.
    worked_ns: u64,
}

impl Share {
    /// Takes note of the messages that the node's sessions have had so far.
    pub(super) fn look(&mut self, messages: u64) {
        if self.messages == messages {
            self.even_at_ns = 0;
        }
        self.messages = messages;
    }

    pub(super) fn work(&self, thread_ns: u64) -> Work {
        Work { began_ns: thread_ns, worked_ns: self.worked_ns }
    }

    /// Charges work that has ended now, without the work within it, which is charged already.
    pub(super) fn charge(&mut self, work: Work, thread_ns: u64, now_ns: u64) {
        let within_ns = self.worked_ns - work.worked_ns;
        let took_ns = thread_ns.saturating_sub(work.began_ns).saturating_sub(within_ns);
        self.worked_ns += took_ns;
        let from_ns = self.even_at_ns.max(now_ns.saturating_sub(AT_ONCE_SPAN_NS));
        let even_at_ns = from_ns.saturating_add(took_ns.saturating_mul(PART));
        self.even_at_ns = even_at_ns.min(now_ns.saturating_add(OWED_NS_MAX));
    }

    /// Permits an answer now, or returns the pause after which it is permitted.
    pub(super) fn answer(&self, now_ns: u64) -> Result<(), Pause> {
        permit(self.even_at_ns, now_ns)
    }

    /// Permits the acceptance of a caller now, or returns the pause after which it is permitted.
    pub(super) fn accept(&self, now_ns: u64) -> Result<(), Pause> {
        permit(self.even_at_ns.saturating_add(AT_ONCE_SPAN_NS / 2), now_ns)
    }
}

fn permit(from_ns: u64, now_ns: u64) -> Result<(), Pause> {
    let look_ns = now_ns.saturating_add(AT_ONCE_SPAN_NS);
    if from_ns <= now_ns { Ok(()) } else { Err(Pause::new(Cause::Share, from_ns.min(look_ns))) }
}
