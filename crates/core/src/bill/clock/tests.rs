//! Tests with simulated counters: their owners are wrong about their rates, delays are unequal, and peers lie.

use super::*;
use proptest::prelude::*;

/// A counter whose owner announces `pace` ticks per second.
#[derive(Clone, Copy, Debug)]
pub(in crate::bill) struct Counter {
    began: u64,
    pub(in crate::bill) pace: u64,
    /// How much faster the counter runs than announced, in parts per million.
    fast_ppm: i64,
}

impl Counter {
    /// Returns the counter's value after `ns` true nanoseconds.
    pub(in crate::bill) fn at(self, ns: u64) -> u64 {
        let true_pace = i128::from(self.pace) * (1_000_000 + i128::from(self.fast_ppm));
        self.began + (i128::from(ns) * true_pace / 1_000_000_000_000_000) as u64
    }
}

pub(in crate::bill) fn counter() -> impl Strategy<Value = Counter> {
    let paces =
        prop_oneof![Just(24_000_000_u64), Just(1_000_000_000), 1_900_000_000_u64..4_000_000_000];
    // An echo of 0 means that no message has arrived, so no counter begins at 0.
    (1..1_u64 << 60, paces, -90_i64..=90).prop_map(|(began, pace, fast_ppm)| Counter {
        began,
        pace,
        fast_ppm,
    })
}

/// Generates exchanges: the nanoseconds before each, of the way there, of the peer's work, and of the way back.
fn exchanges() -> impl Strategy<Value = Vec<[u64; 4]>> {
    let delay = || prop_oneof![0..2_000_u64, 1_000..1_000_000_u64, 0..5_000_000_000_u64];
    prop::collection::vec((0..20_000_000_000_u64, delay(), delay(), delay()), 1..20)
        .prop_map(|all| all.into_iter().map(|(a, b, c, d)| [a, b, c, d]).collect())
}

proptest! {
    #[test]
    fn the_true_time_is_within_the_doubt(
        (us, them) in (counter(), counter()),
        exchanges in exchanges(),
        later in prop::collection::vec(0..60_000_000_000_u64, 1..4),
    ) {
        let mut ours = Clock::new(us.pace, them.pace).unwrap();
        let mut theirs = Clock::new(them.pace, us.pace).unwrap();
        let mut now = 0;
        let check = |clock: &Clock, (us, them): (Counter, Counter), at: u64| {
            let Some(offset) = clock.offset() else { return Ok(()) };
            let (told, doubt) = offset.ours(them.at(at));
            prop_assert!(told.abs_diff(us.at(at)) <= doubt, "{told} {} {doubt}", us.at(at));
            Ok(())
        };
        for [pause, there, work, back] in exchanges {
            now += pause;
            let asked = ours.stamps(us.at(now));
            now += there;
            theirs.heard(asked, them.at(now));
            check(&theirs, (them, us), now)?;
            now += work;
            let answered = theirs.stamps(them.at(now));
            now += back;
            ours.heard(answered, us.at(now));
            check(&ours, (us, them), now)?;
            // The best exchange so far bounds the doubt: half of the time without the peer's work, and the drift.
            let (_, doubt) = ours.offset().unwrap().ours(them.at(now));
            let way = u128::from(there + back) * u128::from(us.pace) / 2_000_000_000;
            let drift = u128::from(there + work + back) * u128::from(us.pace) / 2_500_000_000_000;
            let grain = u128::from(us.pace / them.pace);
            prop_assert!(u128::from(doubt) <= way + drift + 2 * grain + 12, "{doubt} {way} {drift}");
        }
        for pause in later {
            now += pause;
            check(&ours, (us, them), now)?;
            check(&theirs, (them, us), now)?;
        }
    }

    #[test]
    fn any_stamps_of_a_peer_give_a_clock_and_no_panic(
        paces in any::<(u64, u64)>(),
        said in prop::collection::vec((any::<[u64; 3]>(), any::<u64>()), 0..20),
        stamps in any::<[u64; 4]>(),
    ) {
        for paces in [paces, (1_000_000, 100_000_000_000), (100_000_000_000, 1_000_000)] {
            let Some(mut clock) = Clock::new(paces.0, paces.1) else { continue };
            for ([sent, echo, heard], now) in &said {
                clock.heard(Timestamps { sent: *sent, echo: *echo, heard: *heard }, *now);
                for theirs in stamps.iter().chain(&[0, u64::MAX]) {
                    let _ = clock.offset().map(|offset| offset.ours(*theirs));
                }
                let next = clock.stamps(*now);
                prop_assert_eq!((next.echo, next.heard), (*sent, *now));
            }
        }
    }

    #[test]
    fn one_offset_keeps_the_distances_of_stamps(
        (us, them) in (counter(), counter()),
        [one, more] in any::<[u32; 2]>(),
    ) {
        let mut clock = Clock::new(us.pace, them.pace).unwrap();
        let echo = us.at(1_000);
        clock.heard(Timestamps { sent: them.at(9_000), echo, heard: them.at(5_000) }, us.at(12_000));
        let offset = clock.offset().unwrap();
        let [from, to] = [u64::from(one), u64::from(one) + u64::from(more)].map(|ns| them.at(ns));
        let took = offset.ours(to).0 - offset.ours(from).0;
        let told = u128::from(to - from) * u128::from(us.pace) / u128::from(them.pace);
        prop_assert!(u128::from(took).abs_diff(told) <= 1);
    }
}

#[test]
fn unequal_delays_narrow_the_bounds_together() {
    let mut clock = Clock::new(1_000_000_000, 1_000_000_000).unwrap();
    // The counters are equal. One delay in each direction is 1, and the other is 1,000,000.
    clock.heard(Timestamps { sent: 10_000_001, echo: 10_000_000, heard: 10_000_001 }, 11_000_001);
    assert!(clock.offset().unwrap().ours(11_000_001).1 >= 500_000);
    clock.heard(Timestamps { sent: 13_000_000, echo: 12_000_000, heard: 13_000_000 }, 13_000_001);
    let (ours, doubt) = clock.offset().unwrap().ours(13_000_000);
    assert!(doubt < 1_000 && ours.abs_diff(13_000_000) <= doubt, "{ours} {doubt}");
}

#[test]
fn the_doubt_includes_drift_at_the_time_of_the_bounds() {
    let counter = |fast_ppm| Counter { began: 1_000_000_000_000, pace: 1_000_000_000, fast_ppm };
    let (us, them) = (counter(90), counter(-90));
    let (asked, answered, away) = (1_000_000_000, 11_000_000_000, 5_000_000_000);
    // One direction takes no time and the other 10 s: the truth is on an edge of the bounds, 5 s from their
    // middle.
    for heard in [asked, answered] {
        let mut ours = Clock::new(us.pace, them.pace).unwrap();
        let [sent, echo] = [them.at(heard), us.at(asked)];
        ours.heard(Timestamps { sent, echo, heard: sent }, us.at(answered));
        for at in [answered - away, answered, answered + away] {
            let (told, doubt) = ours.offset().unwrap().ours(them.at(at));
            assert!(told.abs_diff(us.at(at)) <= doubt, "{told} {} {doubt}", us.at(at));
        }
    }
}

#[test]
fn a_counter_that_jumps_gets_new_bounds() {
    let mut clock = Clock::new(1_000_000_000, 1_000_000_000).unwrap();
    clock.heard(Timestamps { sent: 5_010, echo: 5_000, heard: 5_010 }, 5_020);
    clock.heard(Timestamps { sent: 9_005_010, echo: 6_000, heard: 9_005_010 }, 6_020);
    let (ours, doubt) = clock.offset().unwrap().ours(9_005_010);
    assert!(ours.abs_diff(6_010) <= doubt && doubt <= 20, "{ours} {doubt}");
}

#[test]
fn an_implausible_rate_gives_no_clock() {
    for pace in [0, 1, 999_999, 100_000_000_001, u64::MAX] {
        assert!(Clock::new(1_000_000_000, pace).is_none());
        assert!(Clock::new(pace, 1_000_000_000).is_none());
    }
}
