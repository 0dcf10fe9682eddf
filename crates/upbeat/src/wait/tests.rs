//! Tests of a node's decisions while it waits.

use super::neighbours::*;
use super::*;

fn adaptive() -> IdlePolicy {
    IdlePolicy { alone: false, tick_per_us: 1, ..IdlePolicy::new(Waiting::Adaptive) }
}

#[test]
fn short_waits_are_spun_through_and_long_ones_are_slept_through() {
    let mut pace = adaptive();
    (0..32).for_each(|_| pace.learn(10));
    assert!((24..=60).contains(&pace.spin()), "{}", pace.spin());
    (0..32).for_each(|_| pace.learn(1_000_000));
    let spins: Vec<u64> = (0..8)
        .map(|_| {
            pace.learn(1_000_000);
            pace.spin()
        })
        .collect();
    // A trial is due at every eighth wait.
    assert_eq!(spins.iter().filter(|spin| **spin == 0).count(), 7, "{spins:?}");
}

#[test]
fn a_node_on_a_single_processor_does_not_spin() {
    let mut pace = IdlePolicy { alone: true, ..adaptive() };
    assert_eq!((pace.looks(false), pace.idle(false)), (1, Idle::Sleep));
}

/// Waits from this time on until the node sleeps, and returns its acts before that.
fn wait(pace: &mut IdlePolicy, mut now: u64, yield_us: u64) -> Vec<Idle> {
    let mut acts = Vec::new();
    loop {
        acts.push(pace.consider_at(now));
        match acts.last() {
            Some(Idle::Sleep) => break,
            Some(Idle::Yield) => {
                now += yield_us;
                pace.came_back(now);
            }
            _ => now += 1,
        }
    }
    pace.learn(10);
    acts
}

#[test]
fn a_node_that_shares_a_processor_sleeps_and_probes_less_and_less_often() {
    let mut pace = adaptive();
    let mut now = 1_000_000;
    assert_eq!((wait(&mut pace, now, 0).len(), pace.looks(false)), (4, LOOKS_PER_TICK));
    // This yield takes long.
    wait(&mut pace, now, YIELD_US + 1);
    let mut spans = Vec::new();
    for _ in 0..8 {
        assert_eq!(pace.looks(false), 1);
        let NeighbourState::Others { until } = pace.neighbours.company else {
            panic!("{:?}", pace.neighbours.company)
        };
        spans.push((until - now) / 1000);
        assert_eq!(wait(&mut pace, until - 1, 0), [Idle::Sleep]);
        now = until;
        assert_eq!(wait(&mut pace, now, YIELD_US + 1), [Idle::Yield, Idle::Sleep]);
    }
    assert_eq!(spans, [5, 10, 20, 40, 80, 160, 320, 640]);
    // The neighbours are gone.
    let NeighbourState::Others { until } = pace.neighbours.company else {
        panic!("{:?}", pace.neighbours.company)
    };
    now = until;
    for _ in 1..PROBES {
        assert_eq!(wait(&mut pace, now, 0), [Idle::Yield, Idle::Sleep]);
        assert_eq!(pace.looks(false), 1);
    }
    assert_eq!(wait(&mut pace, now, 0)[..2], [Idle::Yield, Idle::Tick]);
    assert_eq!(
        (pace.neighbours.company, pace.looks(false)),
        (NeighbourState::None, LOOKS_PER_TICK)
    );
    // A gap at once means that the neighbours were there all the time; a later gap means new ones.
    pace.consider_at(now);
    assert_eq!(pace.consider_at(now + GAP_US + 1), Idle::Sleep);
    assert_eq!(pace.neighbours.crowded_us, CROWDED_US_MAX);
    now += 2 * CROWDED_US_MAX;
    pace.neighbours.company = NeighbourState::None;
    pace.neighbours.noticed(now, YIELD_US + 1, 1);
    assert_eq!(pace.neighbours.crowded_us, CROWDED_US);
    // Neighbours that keep the processor for a time slice are not probed again soon.
    pace.neighbours.noticed(now, 3_000, 1);
    assert_eq!(pace.neighbours.crowded_us, 3_000 * CROWDED_FACTOR);
}

#[test]
fn a_busy_node_learns_of_neighbours_from_the_kernel() {
    let mut pace = adaptive();
    let mut now = 1_000_000;
    let mut tick = |pace: &mut IdlePolicy, us, delayed_us: u64| {
        now += us;
        let asked = std::cell::Cell::new(false);
        pace.neighbours.tick(now, 1, || {
            asked.set(true);
            Some(delayed_us * 1000)
        });
        (asked.get(), pace.neighbours.company == NeighbourState::None)
    };
    // The kernel is asked less and less often, as long as this thread runs.
    let asked = (0..1000).filter(|_| tick(&mut pace, 1000, 90).0).count();
    assert!((14..=18).contains(&asked), "{asked}");
    assert_eq!(tick(&mut pace, ASK_US_MAX, 90 + ASK_US_MAX / DELAYED_PART), (true, true));
    // The delay of a thread that is woken does not count.
    pace.slept();
    assert_eq!(tick(&mut pace, 1000, 60_000), (false, true));
    assert_eq!(tick(&mut pace, ASK_US_MAX, 60_000), (true, true));
    assert_eq!(tick(&mut pace, ASK_US_MAX, 90_000), (true, false));
    assert_eq!(
        (pace.neighbours.ask_us, pace.neighbours.crowded_us),
        (ASK_US, 30_000 * CROWDED_FACTOR)
    );
}

#[test]
fn each_strategy_waits_as_documented() {
    assert_eq!(IdlePolicy::new(Waiting::Sleeping).idle(false), Idle::Sleep);
    assert_eq!(IdlePolicy::new(Waiting::Sleeping).looks(false), 1);
    let mut polling = IdlePolicy::new(Waiting::Polling);
    assert!((0..1000).all(|_| polling.idle(false) == Idle::Tick));
    // An adaptive node that gets no message yields, and then sleeps.
    let acts = wait(&mut adaptive(), 1, 0);
    assert_eq!(acts[acts.len() - 3..], [Idle::Tick, Idle::Yield, Idle::Sleep]);
}

#[test]
fn a_node_neither_spins_beside_a_computation_nor_learns_from_it() {
    for policy in [Waiting::Polling, Waiting::Adaptive, Waiting::Sleeping] {
        let mut pace = IdlePolicy::new(policy);
        assert_eq!((pace.looks(true), pace.idle(true)), (1, Idle::Sleep), "{policy:?}");
        pace.slept();
        assert_eq!((pace.usual, pace.began), (0, 0), "{policy:?}");
        assert_eq!(pace.idle(false) == Idle::Sleep, policy == Waiting::Sleeping);
    }
}

#[test]
fn a_count_ends_after_as_many_turns_however_often_it_is_interrupted() {
    let ticker = Ticker::new();
    for part in 1..50 {
        let (mut turns, mut passed) = (0, 0);
        loop {
            turns += 1;
            if turns % part == 0 {
                ticker.interrupt();
            }
            if turns % 11 == 0 {
                ticker.set_stride(turns % part);
            }
            if ticker.turn() {
                let goes_on = ticker.goes_on();
                if !goes_on {
                    ticker.restart();
                }
                passed += ticker.passed();
                assert_eq!(passed, turns);
                if !goes_on {
                    break;
                }
            }
        }
        assert_eq!(turns, TURNS_PER_TICK);
        ticker.hurry();
        assert!(ticker.turn() && !ticker.goes_on());
        ticker.restart();
        assert_eq!(ticker.passed(), 1);
    }
}
