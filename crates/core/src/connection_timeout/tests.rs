//! Tests that compare the decisions with a model of the system's handling of a connection with a closed window.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// The time after which the system sends its first probe.
const RTO_MS: u64 = 200;
/// The longest time between two probes of the system.
const RTO_MAX_MS: u64 = 120_000;

/// The sending side of a connection whose window has closed at time 0, as in Linux's `tcp_probe_timer`.
struct System {
    timeout_ms: u64,
    /// The time of the first probe, from which the timeout counts.
    asked_ms: Option<u64>,
    doublings: u32,
    due_ms: u64,
    heard_ms: u64,
}

impl System {
    /// Sets the time of the next probe, which is no later than the end of the present timeout.
    fn wait(&mut self, now_ms: u64) {
        let wait = RTO_MS.checked_shl(self.doublings).map_or(RTO_MAX_MS, |ms| ms.min(RTO_MAX_MS));
        let left = self.asked_ms.map(|asked| (asked + self.timeout_ms).saturating_sub(now_ms));
        self.due_ms = now_ms + left.map_or(wait, |left| wait.min(left.max(2)));
    }

    /// Handles the timer: sends a probe, which the peer's host answers if it is there. Returns false if the
    /// connection ends.
    fn ask(&mut self, answers: bool) -> bool {
        let now_ms = self.due_ms;
        let asked_ms = *self.asked_ms.get_or_insert(now_ms);
        if now_ms - asked_ms >= self.timeout_ms {
            return false;
        }
        self.doublings = (self.doublings + 1).min(15);
        if answers {
            self.heard_ms = now_ms;
        }
        self.wait(now_ms);
        true
    }
}

/// Returns when the system ends a connection whose window closes at time 0 and whose peer's host vanishes at
/// `vanishes_ms`, or none if the connection lives until `end_ms`. The checks of this side are late by these
/// milliseconds in turn.
fn ends(timeout_ms: u32, vanishes_ms: u64, end_ms: u64, late_ms: &[u64]) -> Option<u64> {
    let mut patience = ConnectionTimeout::new(timeout_ms);
    let mut system = System {
        timeout_ms: timeout_ms.into(),
        asked_ms: None,
        doublings: 0,
        due_ms: RTO_MS,
        heard_ms: 0,
    };
    let mut late_ms = late_ms.iter().cycle();
    let mut look_ms = *late_ms.next().unwrap();
    while look_ms.min(system.due_ms) < end_ms {
        if system.due_ms <= look_ms {
            let at_ms = system.due_ms;
            if !system.ask(at_ms < vanishes_ms) {
                return Some(at_ms);
            }
            continue;
        }
        let silent_ms = (look_ms - system.heard_ms) as u32;
        let seen = Sending { is_closed: true, acked: 1, silent_ms };
        if let Some(ms) = patience.look(look_ms * MS, seen) {
            system.timeout_ms = ms.into();
        }
        look_ms = patience.next_ns().div_ceil(MS) + late_ms.next().unwrap();
    }
    None
}

proptest! {
    /// The checks of this side may be late by up to two intervals.
    #[test]
    fn an_answering_host_is_kept_and_a_vanished_host_is_given_up_in_time(
        timeout_ms in 1_000u32..40_000,
        vanishes_ms in 0u64..400_000,
        late in prop::collection::vec(0u64..=1_000, 1..20),
    ) {
        let interval_ms = u64::from(timeout_ms) / LOOKS;
        let late_ms: Vec<_> = late.iter().map(|part| interval_ms * part / 1_000).collect();
        prop_assert_eq!(ends(timeout_ms, u64::MAX, 400_000, &late_ms), None);

        let ended_ms = ends(timeout_ms, vanishes_ms, u64::MAX, &late_ms).unwrap();
        // The last answer came before the host vanished, and the timeout counts from the first probe on.
        let most_ms = vanishes_ms + u64::from(timeout_ms) + RTO_MS + 2;
        prop_assert!(ended_ms <= most_ms, "{ended_ms} of {most_ms} ms");
    }
}

#[test]
fn acknowledged_bytes_restart_the_timeout() {
    let mut patience = ConnectionTimeout::new(10_000);
    let closed = |acked| Sending { is_closed: true, acked, silent_ms: 10 };
    assert_eq!(patience.look(0, closed(1)), None);
    assert_eq!(patience.look(20_000 * MS, closed(1)), Some(23_750));
    assert_eq!(patience.look(20_600 * MS, closed(2)), Some(10_000));
    assert_eq!(patience.look(40_000 * MS, closed(2)), Some(23_150));
}

#[test]
fn a_silent_host_gets_no_longer_timeout() {
    let mut patience = ConnectionTimeout::new(10_000);
    let closed = |silent_ms| Sending { is_closed: true, acked: 1, silent_ms };
    assert_eq!(patience.look(0, closed(10)), None);
    assert_eq!(patience.look(9_000 * MS, closed(6_249)), Some(12_750));
    assert_eq!(patience.look(10_000 * MS, closed(6_250)), None);
    assert_eq!(patience.look(60_000 * MS, closed(56_250)), None);
    assert_eq!(patience.next_ns(), 60_625 * MS);
}
