//! Tests that late replies to abandoned calls reach no caller, also after their callee has been started anew.

use crate::common::server::Kind;
use crate::common::{Random, Watchdog, first, yield_now};
use crate::orphans::chain::{Stand, started};
use crate::orphans::knot::ChainClient;
use rustix::process::Signal;
use std::time::Duration;
use upbeat::{CallError, Counter};

/// Calls, and gives up about half of them; each that returns must return its own value.
async fn call_and_give_up(chain: &ChainClient, random: &mut Random, calls: u64) {
    for _ in 0..calls {
        let value = random.next();
        let nap = chain.nap(value % 2, value);
        match first(nap, yield_now()).await {
            Ok(answer) => assert_eq!(answer, Ok(value)),
            Err(()) => {
                let other = random.next();
                assert_eq!(chain.nap(other % 2, other).await, Ok(other));
            }
        }
    }
}

#[test]
fn late_answers_of_a_callee_that_was_started_anew_are_not_heard() {
    let _watchdog = Watchdog::new("restarts");
    let mut stand = Stand::new(Kind::Shared, 1);
    let (node, mut random) = (stand.node.clone(), Random::new(7));
    for round in 0..4 {
        let chain = node.block_on(stand.client(0));
        node.block_on(call_and_give_up(&chain, &mut random, 200));
        // The server stops with calls in its lane, which are given up before it goes on.
        stand.servers[0].other().signal(Signal::STOP);
        node.block_on(async {
            let mut calls: Vec<_> = (0..20).map(|at| Box::pin(chain.nap(at % 2, at))).collect();
            let mut late = 0;
            for (call, value) in calls.iter_mut().zip(0..) {
                match upbeat::within(Duration::from_millis(1), call.as_mut()).await {
                    // The server had not quite stopped.
                    Ok(answer) => assert_eq!(answer, Ok(value)),
                    Err(_) => late += 1,
                }
            }
            assert!(late >= 15, "{late}");
        });
        match round % 2 {
            // The server's replies now reach no caller, although the next calls have the same numbers.
            0 => {
                stand.servers[0].other().signal(Signal::CONT);
                node.block_on(call_and_give_up(&chain, &mut random, 200));
            }
            // The server never goes on. Another one comes under its name, whose numbers begin anew.
            _ => {
                stand.servers[0].other().kill();
                let lost = node.block_on(chain.nap(0, 1)).unwrap_err();
                let is_lost =
                    matches!(lost, CallError::Unknown(_) | CallError::NotConnected { .. });
                assert!(is_lost, "{lost}");
                stand.servers.clear();
                stand.servers.push(started(Kind::Shared, &stand.names[0], &stand.place));
                let next = node.block_on(stand.client(0));
                node.block_on(call_and_give_up(&next, &mut random, 200));
                // The old client reaches the new server as well.
                node.block_on(call_and_give_up(&chain, &mut random, 200));
            }
        }
        assert_eq!(node.counted(Counter::PeerFaults), 0);
        node.block_on(stand.standing([0], 0));
    }
}
