//! Calls that are dropped at any moment: nothing of them is left, and nothing of them happens once
//! their drop was acknowledged.
//!
//! How a caller knows that it was: a cancel is control, and no request of a session is sent while
//! control is owed. So when a later call of the same session returns, its callee has heard of every
//! drop before it; and a handler that was dropped has dropped the calls that it had made, so the same
//! holds for what it asked of others, in its node's sessions with them.
//!
//! `UPBEAT_DROPS` says how many are dropped, `UPBEAT_SEED` which and when.

mod growth;
pub(crate) mod mill;
mod rounds;

use crate::common::server::KINDS;
use crate::common::{Random, Watchdog, alone, over_streams, seed, setting};
use mill::{BUDGET, Stand, State};
use rounds::{Tally, Worker, is_crowded};
use std::time::Duration;
use upbeat::{CallError, Counter};
use upbeat_core::flow::Budget;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

/// The workers that call at once, each with some dozens of calls.
const WORKERS: u64 = 8;

/// By so much a node's memory may grow between a tenth of the calls and all of them.
const LIVE_BYTES: u64 = 128 << 10;
const PRIVATE_KIB: u64 = 2 << 10;
/// Rings and buffers are bounded, and touched when they are first needed: two rings of 2 MiB, buffers of
/// the usual lengths for requests, granted ones and answers, and of 100 KiB for the same.
const SHARED_KIB: u64 = 48 << 10;

/// Returns in how many windows, of calls or of sessions, the memory of a server may grow beyond its bound, but for the
/// last. Over byte streams rings and buffers lie on the heap. They are bounded, but in one window 4 MiB of a ring that
/// grows late look like a leak. A leak grows in every window.
fn windows() -> u64 {
    if over_streams() { 4 } else { 1 }
}

/// Each of the nodes that may share a process has a page of samples from its first one on.
const SAMPLED: u64 = 3;

#[test]
fn calls_that_are_dropped_at_any_moment_leave_nothing_and_do_nothing_more() {
    let _alone = alone();
    let drops = setting("UPBEAT_DROPS", 20_000) / KINDS.len() as u64;
    let seed = seed(1);
    let _watchdog = Watchdog::within("drops", 120 + drops / 1_000);
    for kind in KINDS {
        println!("{kind:?}");
        let stand = Stand::new(kind);
        let mut random = Random::new(seed);
        // Tables and buffers have grown as far as they ever will.
        stand.fill();
        stand.fill_buffers();
        let few = stand.drop_calls(0, drops / 10, &mut random);
        let first = stand.states();
        let (mut before, mut rounds) = (first.clone(), few.rounds);
        println!("{few:?}\n{first:?}");
        for window in 1.. {
            let many = stand.drop_calls(rounds, drops - drops / 10, &mut random);
            let after = stand.states();
            println!("{many:?}\n{after:?}");
            assert!(few.dropped + many.dropped >= drops && many.returned > 0);
            for (first, (before, after)) in first.iter().zip(before.iter().zip(&after)) {
                after.is_at_rest();
                assert!(after.dropped() > before.dropped());
                assert!(after.shared_kib <= SHARED_KIB);
                assert!(after.descriptors <= first.descriptors + SAMPLED);
            }
            let grown = before.iter().zip(&after).any(|(before, after)| {
                after.live_bytes > before.live_bytes + LIVE_BYTES
                    || after.private_kib > before.private_kib + PRIVATE_KIB
            });
            if !grown {
                break;
            }
            assert!(window < windows(), "memory grew in each window:\n{before:?}\n{after:?}");
            (before, rounds) = (after, many.rounds);
        }
        stand.fill();
        stand.has_met_everything();
    }
}

impl State {
    /// Nothing stands, nothing came late, and nothing has run twice or was made up.
    fn is_at_rest(&self) {
        assert_eq!((self.late, self.twice, self.missing), (0, 0, 0), "late, twice, missing");
        assert_eq!(self.begun, self.ended, "each handler has ended");
        assert!(self.is_free, "nobody holds the lock");
    }

    fn dropped(&self) -> u64 {
        self.ended - self.finished
    }

    fn standing(&self) -> u64 {
        self.begun - self.ended
    }
}

impl Stand {
    /// Has so many calls dropped by all workers, in rounds behind this one.
    fn drop_calls(&self, round: u64, drops: u64, random: &mut Random) -> Tally {
        self.node.block_on(async {
            let workers: Vec<_> = (0..WORKERS)
                .map(|number| {
                    let (mill, random) = (self.mill.clone(), Random::new(random.next()));
                    let worker = Worker::new(mill, number, round, random);
                    self.node.spawn(worker.drop_calls(drops.div_ceil(WORKERS)))
                })
                .collect();
            let mut all = Tally::default();
            for worker in workers {
                all = all.with(worker.await.expect("no task panics"));
            }
            all
        })
    }

    /// Returns the state of both servers, at once: every drop is known by then.
    fn states(&self) -> [State; 2] {
        self.node.block_on(async {
            [self.mill.state().await.unwrap(), self.second.state().await.unwrap()]
        })
    }

    /// As many calls as a session may have are open at once, of which the budget lets as many begin
    /// as if there had been none before. Then they are dropped.
    fn fill(&self) {
        let all = CALLS_PER_SESSION_MAX as u64;
        let admitted = BUDGET.div_ceil(Budget::price(0));
        self.node.block_on(async {
            let refused = async || self.counted(0, Counter::RefusedHere).await;
            let before = refused().await;
            let mut calls = Vec::new();
            while calls.len() < CALLS_PER_SESSION_MAX {
                match self.mill.stand().try_send() {
                    Ok(call) => calls.push(call),
                    Err(CallError::Full) => upbeat::sleep(Duration::from_micros(100)).await,
                    Err(other) => panic!("{} are open: {other}", calls.len()),
                }
            }
            let more = self.mill.stand().try_send().map(drop);
            assert_eq!(more, Err(CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX }));
            // All have come, and wait for room or are begun.
            let mut standing = 0;
            while standing + refused().await - before < all {
                standing = self.second.state_of(self.name(0)).await.unwrap().standing();
            }
            assert_eq!(standing, admitted, "what was held was given back");
            drop(calls);
            // A place in the table is free when the callee has answered the drop.
            self.mill.fence(WORKERS, 0, 0, 0).await.unwrap();
            self.mill.state().await.unwrap().is_at_rest();
        });
    }

    /// Long ones fill all buffers that there may be of their lengths.
    fn fill_buffers(&self) {
        self.node.block_on(async {
            for (round, len) in [(1, 4 << 10), (2, 100 << 10)] {
                let calls: Vec<_> = (0..mill::ROUND)
                    .map(|number| {
                        let (mill, ticket) =
                            (self.mill.clone(), mill::ticket(WORKERS, round, number));
                        self.node.spawn(async move { mill.sack(ticket, 1_000, vec![0; len]).await })
                    })
                    .collect();
                for call in calls {
                    match call.await.unwrap() {
                        Ok(bytes) => assert_eq!(bytes.len(), len),
                        Err(error) => assert!(is_crowded(&error), "{error}"),
                    }
                }
            }
        });
    }

    /// The calls took every way, no session was lost, and no rule broken.
    fn has_met_everything(&self) {
        self.node.block_on(async {
            for counter in [
                Counter::HandlersInline,
                Counter::HandlersRefused,
                Counter::PromotedByCall,
                Counter::PromotedByLock,
                Counter::PromotedByTimer,
                Counter::RefusedHere,
                Counter::CancelsHonoured,
                Counter::OrphansEnded,
            ] {
                assert!(self.counted(0, counter).await > 0, "{counter}");
            }
            assert!(self.counted(1, Counter::OrphansEnded).await > 0);
            for counter in [Counter::PeerFaults, Counter::SessionsLost, Counter::Panics] {
                let ours = self.node.counted(counter);
                let theirs = [self.counted(0, counter).await, self.counted(1, counter).await];
                assert_eq!((ours, theirs), (0, [0, 0]), "{counter}");
            }
            let honoured = self.counted(0, Counter::CancelsHonoured).await;
            assert!(honoured <= self.node.counted(Counter::CancelsSent), "{honoured}");
        });
    }
}
