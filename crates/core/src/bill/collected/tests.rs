use super::*;
use crate::bill::way::{CALL, CALL_TCP, CALL_TLS, ONEWAY, ONEWAY_TCP, ONEWAY_TLS};
use crate::bill::way::{POINTS_MAX, StampMode};

/// The durations of a call's phases and of a stamp in ticks, on a clock of one tick per nanosecond.
const PHASE: u64 = 10;
const STAMP: u64 = 3;

fn stamps(lasts: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut at = 1000;
    (0..CALL.points())
        .map(|point| {
            at += if point == 0 { 0 } else { lasts(point - 1) + STAMP };
            at
        })
        .collect()
}

fn calls() -> CollectedSamples {
    let mut collected = CollectedSamples::new(CALL, 1_000_000_000);
    for _ in 0..PAIRS_MIN {
        for rung in CALL.rungs() {
            collected.pair(rung, STAMP + PHASE * u64::from(rung)).unwrap();
        }
        collected.story(&stamps(|_| PHASE), MessageEvents::default(), 0).unwrap();
    }
    collected
}

#[test]
fn the_cost_of_stamps_cancels_out() {
    let breakdown = calls().breakdown().unwrap();
    assert_eq!((breakdown.from, breakdown.stamp), (MeanSource::Pairs, STAMP as f64));
    for (phase, charged) in CALL.phases.iter().zip(&breakdown.phases) {
        assert!((charged.mean - PHASE as f64).abs() < 1e-6, "{phase:?} {charged:?}");
        assert_eq!(charged.spread.p50, PHASE as f64);
    }
    assert!((breakdown.whole.mean - (PHASE as usize * CALL.phases.len()) as f64).abs() < 1e-6);
}

#[test]
fn items_add_up_to_the_whole() {
    let mut collected = calls();
    // Phases without a rung share the time between two rungs.
    let slow = |at: usize| if CALL.phases[at].item == Item::Lock { 70 } else { PHASE };
    collected.story(&stamps(slow), MessageEvents::PROMOTED, 0).unwrap();
    let breakdown = collected.breakdown().unwrap();
    let bill = breakdown.bill();
    assert!((bill.time() - breakdown.whole.mean).abs() < 1e-6);
    assert!(bill[Item::Lock] > bill[Item::Queue]);
    let places = [Place::Here, Place::Wire, Place::There];
    let wires = places.map(|place| breakdown.at(place, Item::Wire));
    assert_eq!((wires[0], wires[2]), (0.0, 0.0));
    assert!((wires[1] - 2.0 * PHASE as f64).abs() < 1e-6);
}

#[test]
fn long_messages_use_the_means_of_stories() {
    let mut collected = calls();
    let long = |at: usize| if CALL.phases[at].item == Item::Execute { 1_000_000 } else { PHASE };
    (0..PAIRS_MIN).for_each(|_| {
        collected.story(&stamps(long), MessageEvents::default(), 0).unwrap();
    });
    let breakdown = collected.breakdown().unwrap();
    assert_eq!(breakdown.from, MeanSource::Stories);
    let execute = breakdown.bill()[Item::Execute];
    assert!((execute - 1_000_000.0).abs() < 100.0, "{execute}");
}

#[test]
fn the_wait_for_a_busy_node_is_not_charged_to_the_wire() {
    let mut collected = calls();
    let noticed = Point::WokeThere.index();
    let late = |at| if at == noticed { 5_000 } else { PHASE };
    collected.story(&stamps(late), MessageEvents::BUSY_THERE, 7).unwrap();
    let stories = collected.stories();
    let story = stories.iter().find(|story| story.note == 7).unwrap();
    assert!(story.phases[noticed] < 2.0 * (PHASE + STAMP) as f64, "{story:?}");
    assert!(story.phases[noticed + 1] > 4_900.0, "{story:?}");
}

#[test]
fn messages_between_hosts_use_stories_and_their_items_add_up() {
    for way in [CALL_TCP, CALL_TLS, ONEWAY_TCP, ONEWAY_TLS] {
        let mut collected = CollectedSamples::new(way, 1_000_000_000);
        for n in 0..PAIRS_MIN as u64 {
            // Only pairs that the caller alone stamps are added; those that compare two clocks are not taken.
            for rung in way.rungs().filter(|rung| !StampMode::Pair(*rung).compares(way)) {
                let mut stamps = [1_000; POINTS_MAX];
                stamps[way.place(usize::from(rung)).unwrap().max(1)] += STAMP + u64::from(rung);
                let taken =
                    collected.sample(StampMode::Pair(rung), &stamps, MessageEvents::default(), 0);
                assert_eq!(taken, Ok(()));
            }
            // The receiver was busy: a message that was read at once has waited in the lane longer than it was on
            // the wire.
            let stamps: Vec<u64> = (0..way.points() as u64).map(|at| n + at * at * 100).collect();
            assert_eq!(collected.story(&stamps, MessageEvents::BUSY_THERE, 0), Ok(()));
        }
        let breakdown = collected.breakdown().unwrap();
        assert_eq!((breakdown.from, breakdown.stamp), (MeanSource::Stories, STAMP as f64));
        let whole = breakdown.whole.mean;
        assert!((breakdown.bill().time() - whole).abs() < 1e-9 * whole, "{}", way.name);
        let between = |at: usize| ((2 * at + 1) * 100) as f64 - STAMP as f64;
        for (at, (phase, charged)) in way.phases.iter().zip(&breakdown.phases).enumerate() {
            assert!((charged.mean - between(at)).abs() < 1e-6, "{phase:?} {charged:?}");
        }
        let bill = breakdown.bill();
        assert!(bill[Item::Read] > 0.0 && bill[Item::Write] > 0.0);
        assert_eq!(bill[Item::Encrypt] > 0.0, way == CALL_TLS || way == ONEWAY_TLS);
    }
}

#[test]
fn no_samples_give_no_breakdown_and_few_give_stories() {
    let mut collected = CollectedSamples::new(ONEWAY, 1_000_000_000);
    assert_eq!(collected.breakdown(), None);
    collected.pair(0, 3).unwrap();
    assert_eq!(collected.breakdown(), None);
    collected.story(&stamps(|_| PHASE), MessageEvents::default(), 0).unwrap();
    let breakdown = collected.breakdown().unwrap();
    assert_eq!(
        (breakdown.from, breakdown.phases.len()),
        (MeanSource::Stories, ONEWAY.phases.len())
    );
    assert_eq!(collected.counts(), (1, 1));
}

#[test]
fn impossible_samples_are_refused() {
    let mut collected = CollectedSamples::new(CALL, 0);
    let none = MessageEvents::default();
    assert_eq!(collected.story(&[1, 2, 3], none, 0), Err(Refused::Short));
    assert_eq!(collected.story(&[9; POINTS], none, 0), Ok(()));
    let mut backwards = [9; POINTS];
    backwards[4] = 8;
    assert_eq!(collected.story(&backwards, none, 0), Err(Refused::Backwards));
    for rung in [Point::SeenThere as u8, Point::Locked as u8, 26, 255] {
        assert_eq!(collected.pair(rung, 1), Err(Refused::NoSuchRung), "{rung}");
    }
}

const POINTS: usize = CALL.points();

#[test]
fn the_cost_of_a_mark_is_subtracted() {
    let mut collected = calls();
    const MARK: u64 = 8;
    let whole = STAMP + PHASE * CALL.phases.len() as u64;
    let mut marked = CollectedSamples::new(CALL, 1_000_000_000);
    for _ in 0..PAIRS_MIN {
        for rung in CALL.rungs() {
            let noticed = [Point::NoticedThere as u8, Point::NoticedHere as u8];
            let sides = noticed.iter().filter(|point| rung >= **point).count() as u64;
            let sides = if StampMode::Pair(rung).marks() { sides } else { 0 };
            marked.pair(rung, STAMP + PHASE * u64::from(rung) + sides * MARK / 2).unwrap();
        }
        marked.story(&stamps(|_| PHASE), MessageEvents::default(), 0).unwrap();
        let mut stamps = [0; POINTS];
        stamps[Point::Done.index()] = whole + MARK;
        marked.sample(StampMode::Marked, &stamps, MessageEvents::default(), 0).unwrap();
        collected.sample(StampMode::Marked, &stamps, MessageEvents::default(), 0).unwrap();
    }
    let breakdown = marked.breakdown().unwrap();
    assert_eq!((breakdown.mark, collected.mark()), (MARK as f64, MARK as f64));
    for charged in &breakdown.phases {
        assert!((charged.mean - PHASE as f64).abs() < 1e-6, "{charged:?}");
    }
    let bill = breakdown.bill();
    assert!((bill.time() - (whole - STAMP) as f64).abs() < 1e-6);
    assert!((bill[Item::Check] - 2.0 * PHASE as f64).abs() < 1e-6);
}

#[test]
fn recorded_samples_are_added() {
    let mut collected = CollectedSamples::new(CALL, 1_000_000_000);
    let none = MessageEvents::default();
    let stamps = stamps(|_| PHASE);
    for manner in [StampMode::Whole, StampMode::Pair(0), StampMode::Pair(5)] {
        assert_eq!(collected.sample(manner, &stamps, none, 0), Ok(()));
    }
    assert_eq!(collected.stamp(), (stamps[1] - stamps[0]) as f64);
    assert_eq!(collected.pairs[5].values, [(stamps[5] - stamps[0]) as f64]);
    assert_eq!(collected.sample(StampMode::Pair(5), &stamps[..3], none, 0), Err(Refused::Short));
    assert_eq!(collected.sample(StampMode::Pair(1), &[2, 1], none, 0), Err(Refused::Backwards));
}

#[test]
fn only_the_last_are_kept() {
    let mut collected = CollectedSamples::new(CALL, 1_000_000_000);
    for n in 0..PAIRS_MAX as u64 + 10 {
        collected.pair(0, n).unwrap();
    }
    assert_eq!(collected.counts(), (PAIRS_MAX, 0));
    assert!(!collected.pairs[0].values.contains(&0.0));
}

#[test]
fn a_spread_has_the_percentiles_of_single_messages() {
    let spread = Spread::of((1..=1000).map(f64::from));
    assert_eq!((spread.p50, spread.p99, spread.p999, spread.max), (500.0, 990.0, 999.0, 1000.0));
    assert_eq!(Spread::of([]), Spread::default());
    assert_eq!(Spread::of([4.0]).p50, 4.0);
}
