//! Buffers that are returned to waiting senders, and replies that nobody takes.

use crate::common::server::KINDS;
use crate::common::{SOON, Watchdog, at_once, first, on_one_host};
use crate::depot::{Make, Stand, bytes_of};
use crate::lent::all_of;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Waiting};
use upbeat_core::limits;

/// So many buffers are given back: less than a good part of them, for which alone a sender that is
/// awake is woken.
const BACK: u64 = 5;

/// More bytes of answers than a lane's longest ring has.
const BLOBS_BYTES: u64 = 2 * limits::LANE_BYTES_MAX as u64;

/// Begins so many calls, one after another.
async fn begin<C>(count: u64, call: impl Fn(u64) -> Result<C, CallError>) -> Vec<C> {
    let mut calls = Vec::new();
    for at in 0..count {
        // A lane that has refused some grows, over a byte stream once the peer permits it.
        let begun = Instant::now();
        let call = loop {
            match (0..20).find_map(|_| call(at).ok()) {
                Some(call) => break call,
                None => upbeat::sleep(Duration::from_millis(1)).await,
            }
            assert!(begun.elapsed() < SOON, "there are too few buffers");
        };
        calls.push(call);
    }
    calls
}

/// All buffers of a size are with the receiver: half of them kept in place, the others under requests
/// that wait for their turn. Senders wait for a buffer, and continue when some are returned, by
/// a handler, or by another thread while its node sleeps.
#[test]
fn who_waits_for_a_buffer_is_told_when_one_comes_back() {
    if !on_one_host("senders that take every buffer without asking") {
        return;
    }
    let _watchdog = Watchdog::new("buffers");
    at_once(KINDS, |kind| {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for elsewhere in [false, true] {
                for (size, len) in [(2, 5000), (2, 8000), (3, 65_000)] {
                    let make = Make::new(waiting);
                    let stand = Stand::new(kind, make.share(1), make);
                    stand.node.block_on(wait_for_buffers(&stand, all_of(size), len, elsewhere));
                }
            }
        }
    });
}

async fn wait_for_buffers(stand: &Stand, all: u64, len: usize, elsewhere: bool) {
    let depot = stand.client().await;
    // Nothing comes back before all are lent.
    let stall = depot.stall(100).try_send().unwrap();
    let lends = begin(all, |_| depot.lend(vec![1; len].into()).try_send()).await;
    stall.await.unwrap();
    let mut kept = 0;
    for lend in lends {
        kept = lend.await.unwrap();
    }
    assert_eq!(kept, all / 2, "of {len} bytes");
    // One begins and has a copy, for no more may be kept; the others hold what is left.
    let placed = all - kept + 1;
    for number in 1..=placed {
        depot.put_in_place(number, bytes_of(number, len).into()).await.unwrap();
    }
    assert_eq!(stand.settled().await.0, 1);
    let sent = Rc::new(Cell::new(0));
    let late: Vec<_> = (1..=BACK)
        .map(|at| {
            let (depot, sent, number) = (depot.clone(), Rc::clone(&sent), placed + at);
            stand.node.spawn(async move {
                depot.put_in_place(number, bytes_of(number, len).into()).await.unwrap();
                sent.set(sent.get() + 1);
            })
        })
        .collect();
    stand.settled().await;
    assert_eq!(sent.get(), 0, "there were more buffers");
    // By another session, so that nothing comes in the one that waits.
    stand.ask(move |depot| depot.blocking().give_back(BACK, elsewhere).unwrap());
    for late in late {
        late.await.unwrap();
    }
    stand.open(true);
    let (began, standing, _, disorder) = depot.state().await.unwrap();
    assert_eq!((began, standing, disorder), (placed + BACK, 0, 0));
    depot.give_back(kept - BACK, false).await.unwrap();
    for number in 0..3 * all {
        let bytes = bytes_of(number, len);
        let mirrored = depot.mirror(bytes.clone().into()).await.unwrap();
        assert!(mirrored.is_lent() && mirrored.to_vec() == bytes);
    }
}

/// A caller keeps answers in place, does not take others, and does not look at all: its callee
/// serves everybody else meanwhile, and itself what it asks for further.
#[test]
fn answers_that_are_not_taken_hold_up_nobody_else() {
    if !on_one_host("calls and answers that take every buffer without asking") {
        return;
    }
    let _watchdog = Watchdog::new("answers");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for (size, len) in [(2, 8000), (3, 65_000)] {
                let make = Make::new(waiting);
                let stand = Stand::new(kind, make, make);
                let others_are_served = || {
                    let began = Instant::now();
                    stand.ask(move |depot| {
                        let depot = depot.blocking();
                        for number in 0..20 {
                            let bytes = bytes_of(number, len);
                            let answer = depot.mirror(bytes.clone().into()).unwrap();
                            assert!(answer.is_lent() && answer.to_vec() == bytes);
                        }
                    });
                    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
                };
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    let mirror = |number| depot.mirror(bytes_of(number, len).into()).try_send();
                    let nap = || upbeat::sleep(Duration::from_millis(60));
                    let all = all_of(size);
                    let calls = begin(all, mirror).await;
                    nap().await;
                    let mut kept = Vec::new();
                    for (number, call) in (0..).zip(calls) {
                        let answer = call.await.unwrap();
                        assert_eq!(answer.to_vec(), bytes_of(number, len));
                        kept.extend(Some((number, answer)).filter(|(_, answer)| answer.is_lent()));
                    }
                    assert_eq!(kept.len() as u64, all / 2);
                    // These have come and are not taken: they hold all other buffers.
                    let unread = begin(all, mirror).await;
                    nap().await;
                    let last = first(
                        depot.mirror(bytes_of(7, len).into()),
                        Box::pin(async {
                            upbeat::sleep(Duration::from_secs(5)).await;
                        }),
                    );
                    let Ok(Ok(last)) = last.await else { panic!("{len} bytes: no answer") };
                    assert!(!last.is_lent() && last.to_vec() == bytes_of(7, len));
                    // More answers than there are buffers and slots for, while nobody looks.
                    let blobs =
                        begin(BLOBS_BYTES / len as u64, |_| depot.blob(len as u64).try_send())
                            .await;
                    others_are_served();
                    for blob in blobs {
                        assert_eq!(blob.await, Ok(bytes_of(len as u64, len)));
                    }
                    for (number, call) in (0..).zip(unread) {
                        assert_eq!(call.await.unwrap().to_vec(), bytes_of(number, len));
                    }
                    for (number, answer) in &kept {
                        assert_eq!(answer.to_vec(), bytes_of(*number, len));
                    }
                    drop(kept);
                    let answer = depot.mirror(bytes_of(9, len).into()).await.unwrap();
                    assert!(answer.is_lent() && answer.to_vec() == bytes_of(9, len));
                });
            }
        }
    }
}
