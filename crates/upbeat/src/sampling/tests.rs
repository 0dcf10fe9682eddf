//! Tests of which messages are sampled, and in which manner.

use super::*;
use upbeat_core::bill::way::{CALL, ONEWAY};

fn sampling(every: u32) -> Sampling {
    Sampling::new(every, 7, SampleSink::Own(Box::new(Pages::new(String::new(), false))))
}

#[test]
fn one_message_in_every_n_is_sampled_and_none_at_zero() {
    for every in [1, 2, 10, 1000] {
        let sampling = self::sampling(every);
        let messages = 2000 * every;
        let sampled =
            (0..messages).filter(|_| sampling.is_due() && sampling.next(CALL, false).is_some());
        let sampled = sampled.count() as u32;
        let about = if every == 1 { 2000..=2000 } else { 1600..=2400 };
        assert!(about.contains(&sampled), "{sampled} of {messages}, one in {every}");
    }
    let sampling = self::sampling(0);
    assert!(!(0..100_000).any(|_| sampling.is_due()));
    sampling.set(1);
    assert!(sampling.is_due() && sampling.next(CALL, false).is_some());
}

#[test]
fn samples_come_in_runs_whose_first_ones_warm_up() {
    let sampling = self::sampling(1000);
    let mut due = 0;
    while !sampling.is_due() {
        due += 1;
        assert!(due < 2 * 1000 * RUN, "a run must begin");
    }
    let run: Vec<_> = std::iter::from_fn(|| {
        let sample = sampling.next(CALL, false)?;
        sampling.is_due();
        Some(sample)
    })
    .collect();
    assert_eq!(run.len(), RUN as usize);
    assert!(run.iter().all(|(manner, _)| *manner == run[0].0));
    let warming = run.iter().take_while(|(_, warms)| *warms).count() as u32;
    assert_eq!(warming, WARMING);
}

#[test]
fn diverted_messages_are_sampled_as_often() {
    let sampling = self::sampling(10);
    sampling.divert(true);
    let sampled = (0..20_000).filter(|_| {
        assert!(sampling.is_due());
        sampling.next(CALL, false).is_some()
    });
    let sampled = sampled.count();
    assert!((1600..=2400).contains(&sampled), "{sampled} of 20000, one in 10");
    sampling.divert(false);
    let due = (0..20_000).filter(|_| sampling.is_due() && sampling.next(CALL, false).is_some());
    let due = due.count();
    assert!((1600..=2400).contains(&due), "{due} of 20000, one in 10");
}

#[test]
fn a_message_that_has_a_sample_takes_no_turn() {
    let sampling = self::sampling(1);
    assert!(sampling.is_due());
    sampling.put_off();
    assert!(sampling.is_due() && sampling.next(CALL, false).is_some());
}

#[test]
fn full_samples_and_every_pair_have_their_turns() {
    let sampling = self::sampling(1);
    let mut manners = Vec::new();
    let pairs = CALL.pairs().count();
    for _ in 0..2 * RUN as usize * pairs {
        assert!(sampling.is_due());
        let (manner, warms) = sampling.next(CALL, false).unwrap();
        assert!(!warms, "if every message is sampled, all are warm");
        manners.push(manner);
    }
    let wholes = manners.iter().filter(|manner| **manner == StampMode::Whole).count();
    assert_eq!(wholes, RUN as usize * pairs);
    assert!(CALL.pairs().all(|pair| manners.contains(&pair)));
}

#[test]
fn no_pair_compares_the_clocks_of_two_hosts() {
    for (way, own) in [(CALL, 14), (ONEWAY, 7)] {
        let sampling = sampling(1);
        let mut manners = Vec::new();
        for _ in 0..2 * RUN as usize * way.pairs().count() {
            assert!(sampling.is_due());
            manners.push(sampling.next(way, true).unwrap().0);
        }
        assert!(!manners.iter().any(|manner| manner.compares(way)));
        manners.retain(|manner| *manner != StampMode::Whole);
        manners.dedup();
        assert_eq!(manners.len(), own, "{manners:?}");
    }
}
