//! Calls that are dropped at any moment while the lanes of their session grow.
//!
//! A lane grows in the first turns of a session and twice at most, so each of many sessions is new. Its
//! first calls are too long for the lane that they find, and so are the replies. Some wait for room, some
//! are in the old ring, in the new one or behind the switch from one to the other when they are dropped.

use crate::common::server::KINDS;
use crate::common::{Random, SOON, Watchdog, alone, node, seed, setting};
use crate::drops::mill::{MillClient, Stand, State, mappings};
use crate::drops::rounds::{Mix, Tally, Worker};
use crate::drops::{LIVE_BYTES, SAMPLED, SHARED_KIB, windows};
use std::time::{Duration, Instant};
use upbeat::{Counter, Waiting};

/// The workers that call at once in a session, and the number of calls that each of them drops.
const WORKERS: u64 = 3;
const DROPS: u64 = 30;

/// How often each direction of a session grows.
const GROWTHS: u64 = 2;

impl Stand {
    /// Has calls dropped in a session of its own, in rounds behind this one.
    fn drop_in_new_session(&self, number: u64, round: u64, random: &mut Random) -> (Tally, u64) {
        let name = format!("grower/{number}/{}", self.name(0).replace('/', "-"));
        let node = node(&name, &self.place, Waiting::Adaptive);
        let tally = node.block_on(async {
            let mill: MillClient = node.connect(&self.name(0)).await.unwrap();
            let workers: Vec<_> = (0..WORKERS)
                .map(|number| {
                    let random = Random::new(random.next());
                    let worker = Worker::new(mill.clone(), number, round, random);
                    node.spawn(worker.with(Mix::Growing).drop_calls(DROPS))
                })
                .collect();
            let mut all = Tally::default();
            for worker in workers {
                all = all.with(worker.await.expect("no task panics"));
            }
            all
        });
        for counter in [Counter::PeerFaults, Counter::SessionsLost, Counter::Panics] {
            assert_eq!(node.counted(counter), 0, "{counter}");
        }
        (tally, node.counted(Counter::LaneGrown))
    }
}

/// By so much a process may have more in memory behind all sessions of a window than before it. The allocator keeps
/// some of what threads have freed: 2 MiB more were seen. Over byte streams, where lanes lie on the heap, it keeps 35 MiB
/// behind a hundred sessions, and no more behind six hundred. What is not freed is bounded by [`LIVE_BYTES`] and by the
/// count of mappings.
const FREE_KIB: u64 = 8 << 10;

#[test]
fn calls_that_are_dropped_while_lanes_grow_leave_nothing_and_do_nothing_more() {
    let _alone = alone();
    let sessions = (setting("UPBEAT_DROPS", 20_000) / 2_000).max(2);
    let seed = seed(1);
    let _watchdog = Watchdog::within("drops while lanes grow", 60 + sessions);
    for kind in KINDS {
        let stand = Stand::new(kind);
        let mut random = Random::new(seed);
        let (mut all, mut replies, mut made) = (Tally::default(), 0, 0);
        let mut drop_until = |until| {
            for number in made..until {
                let (tally, grown) = stand.drop_in_new_session(number, all.rounds, &mut random);
                (all, replies) = (all.with(tally), replies + grown);
                stand.states().iter().for_each(State::is_at_rest);
            }
            made = until;
        };
        drop_until(1);
        let (first, mapped) = (stand.states(), mappings());
        let mut before = first.each_ref().map(|state| state.private_kib);
        for window in 1.. {
            drop_until(window * sessions);
            let after = stand.has_given_back(&first, mapped);
            println!("window {window}: from {before:?} to {after:?} KiB");
            if (0..2).all(|at| after[at] <= before[at] + FREE_KIB) {
                break;
            }
            assert!(window < windows(), "memory grew in each window: {before:?} to {after:?} KiB");
            before = after;
        }
        let requests = stand.node.block_on(stand.counted(0, Counter::LaneGrown));
        println!("{kind:?}, seed {seed}: {made} sessions, {all:?}");
        println!("grown: {requests} times for requests, {replies} for replies");
        for grown in [requests, replies] {
            assert!((made..=GROWTHS * made).contains(&grown), "{grown}");
        }
    }
}

impl Stand {
    /// The servers hold no more than before, and this process has no more mapped. Gives what private memory each
    /// server has now, in KiB.
    fn has_given_back(&self, before: &[State; 2], mapped: u64) -> [u64; 2] {
        self.node.block_on(async {
            let (began, mut private) = (Instant::now(), [0; 2]);
            for (at, before) in before.iter().enumerate() {
                // A server, which may be a thread of this process, learns of a session's end a little later.
                let mut after;
                while {
                    after = [&self.mill, &self.second][at].state().await.unwrap();
                    after.descriptors > before.descriptors + SAMPLED
                        || after.mappings > before.mappings + SAMPLED
                        || mappings() > mapped + SAMPLED
                        || after.live_bytes > before.live_bytes + LIVE_BYTES
                } {
                    assert!(began.elapsed() < SOON, "{before:?}\n{after:?}");
                    upbeat::sleep(Duration::from_millis(1)).await;
                }
                private[at] = after.private_kib;
                assert!(after.shared_kib <= SHARED_KIB);
            }
            private
        })
    }
}
