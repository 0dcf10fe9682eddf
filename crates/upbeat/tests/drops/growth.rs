//! Calls that are dropped at any moment while the lanes of their session grow.
//!
//! A lane grows in the first turns of a session and twice at most, so each of many sessions is new. Its
//! first calls are too long for the lane that they find, and so are the replies. Some wait for room, some
//! are in the old ring, in the new one or behind the switch from one to the other when they are dropped.

use crate::common::server::KINDS;
use crate::common::{Random, SOON, Watchdog, alone, node, setting};
use crate::mill::{MillClient, Stand, State, mappings};
use crate::rounds::{Mix, Tally, Worker};
use crate::{LIVE_BYTES, SAMPLED, SHARED_KIB};
use std::time::{Duration, Instant};
use upbeat::{Counter, Waiting};

/// Who calls at once in a session, and how many calls each drops.
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

/// By so much a process may have more in memory behind all sessions than behind the first. The allocator keeps some
/// of what threads have freed: 2 MiB more were seen. What is not freed is bounded by [`LIVE_BYTES`] and by the
/// count of mappings.
const FREE_KIB: u64 = 8 << 10;

#[test]
fn calls_that_are_dropped_while_lanes_grow_leave_nothing_and_do_nothing_more() {
    let _alone = alone();
    let sessions = (setting("UPBEAT_DROPS", 20_000) / 2_000).max(2);
    let seed = setting("UPBEAT_SEED", 1);
    let _watchdog = Watchdog::new("drops while lanes grow", 60 + sessions);
    for kind in KINDS {
        let stand = Stand::new(kind);
        let mut random = Random::new(seed);
        let (mut all, mut replies) = (Tally::default(), 0);
        let mut before = None;
        for number in 0..sessions {
            let (tally, grown) = stand.drop_in_new_session(number, all.rounds, &mut random);
            (all, replies) = (all.with(tally), replies + grown);
            let states = stand.states();
            states.iter().for_each(State::is_at_rest);
            before.get_or_insert((states, mappings()));
        }
        let (before, mapped) = before.expect("a session");
        let requests = stand.node.block_on(stand.counted(0, Counter::LaneGrown));
        println!("{kind:?}, seed {seed}: {sessions} sessions, {all:?}");
        println!("grown: {requests} times for requests, {replies} for replies");
        for grown in [requests, replies] {
            assert!((sessions..=GROWTHS * sessions).contains(&grown), "{grown}");
        }
        stand.has_given_back(&before, mapped);
    }
}

impl Stand {
    /// The servers hold no more than before, and this process has no more mapped.
    fn has_given_back(&self, before: &[State; 2], mapped: u64) {
        self.node.block_on(async {
            let began = Instant::now();
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
                let most = before.private_kib + FREE_KIB;
                assert!(after.private_kib <= most, "{before:?}\n{after:?}");
                assert!(after.shared_kib <= SHARED_KIB);
            }
        });
    }
}
