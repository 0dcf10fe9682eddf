//! The time that handlers have, and the fate of handlers whose callers are gone.
//!
//! A caller bounds its handler by a deadline, and the handler bounds the calls that it makes, so nothing is done
//! for a caller that has stopped waiting. A handler whose caller gave up or died is dropped at its present await,
//! unless its method declares for how long it continues. The runtime drops handlers, counts them and replies.
//! Clocks are arguments, in nanoseconds where this module has a time of its own. Invariant: no time ends later
//! than the one that it is derived from.

use crate::limits::ONEWAY_ORPHAN_MS;
use crate::mutant::{Mutant, mutated};

/// Returns the time of a call that a handler makes: the call's own time, but no more than the handler has left.
///
/// ```
/// use upbeat_core::orphan::inherited;
///
/// assert_eq!(inherited(Some(500), Some(300)), Some(300));
/// assert_eq!(inherited(None, Some(300)), Some(300));
/// assert_eq!(inherited(None, None), None);
/// ```
pub fn inherited(own: Option<u64>, left: Option<u64>) -> Option<u64> {
    if mutated(Mutant::DeadlineNotInherited) {
        return own;
    }
    [own, left].into_iter().flatten().min()
}

/// Returns whether a request's deadline has passed before its handler runs. No deadline is none.
///
/// ```
/// use upbeat_core::orphan::is_too_late;
///
/// assert!(is_too_late(Some(0)) && !is_too_late(Some(1)) && !is_too_late(None));
/// ```
#[inline]
pub fn is_too_late(left: Option<u64>) -> bool {
    match left {
        Some(0) => !mutated(Mutant::DeadlineUnchecked),
        Some(_) => mutated(Mutant::LateAlways),
        None => false,
    }
}

/// Returns until when a handler continues whose caller is gone since `now`, if its method declares how long and
/// its own time ends at `end`. Returns none if the handler is dropped.
///
/// ```
/// use upbeat_core::orphan::expires_at;
///
/// assert_eq!(expires_at(None, 1_000, Some(1_200)), None);
/// assert_eq!(expires_at(Some(500), 1_000, None), Some(1_500));
/// assert_eq!(expires_at(Some(500), 1_000, Some(1_200)), Some(1_200));
/// ```
pub fn expires_at(outlives: Option<u64>, now: u64, end: Option<u64>) -> Option<u64> {
    let last = now.saturating_add(outlives?);
    match end {
        _ if mutated(Mutant::OutlivesUnbounded) => Some(u64::MAX),
        Some(end) if !mutated(Mutant::OutlivesDeadline) => Some(last.min(end)),
        _ => Some(last),
    }
}

/// Returns until when the handler of a one-way message continues whose sender is gone since `now`.
///
/// No caller waits for such a handler, so the end of its sender does not show that its work is useless: the
/// handler expires later, and is not dropped at once. Its method declares after how long; otherwise
/// [`ONEWAY_ORPHAN_MS`] applies.
///
/// ```
/// use upbeat_core::limits::ONEWAY_ORPHAN_MS;
/// use upbeat_core::orphan::oneway_expires_at;
///
/// assert_eq!(oneway_expires_at(Some(500), 1_000), 1_500);
/// assert_eq!(oneway_expires_at(None, 1_000), 1_000 + ONEWAY_ORPHAN_MS * 1_000_000);
/// ```
pub fn oneway_expires_at(outlives_ns: Option<u64>, now_ns: u64) -> u64 {
    now_ns.saturating_add(outlives_ns.unwrap_or(ONEWAY_ORPHAN_MS * 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handler_has_more_time_than_its_caller() {
        for (own, left) in [(Some(500), 300), (Some(100), 300), (None, 300), (None, 0)] {
            let has = inherited(own, Some(left));
            assert_eq!(has, Some(own.unwrap_or(u64::MAX).min(left)));
            assert_eq!(is_too_late(has), left == 0);
        }
        assert!(!is_too_late(inherited(None, None)));
    }

    #[test]
    fn a_handler_outlives_its_caller_by_what_its_method_says_and_not_its_deadline() {
        assert_eq!(expires_at(Some(500), 1_000, None), Some(1_500));
        assert_eq!(expires_at(Some(500), 1_000, Some(1_200)), Some(1_200));
        assert_eq!(expires_at(Some(500), 1_000, Some(9_000)), Some(1_500));
        assert_eq!(expires_at(None, 1_000, Some(9_000)), None);
    }
}
