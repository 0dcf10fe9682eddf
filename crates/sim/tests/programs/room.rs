//! Room that is short, held by others, and given back.

use crate::common::{ms, remote};
use crate::flood::{DepotServer, Place, Shelves, connected, is_done, is_whole, parcel};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use upbeat_environment::time::Instant;
use upbeat_sim::{Fault, Faults, Sim, check};

/// Callers that stop for a while get all replies, or are told that their callee has no room for them.
pub(crate) fn unheard(sim: &Sim) {
    Place::Host.start(sim, 20_000, &Arc::default());
    sim.start("client", |sim| {
        let node = sim.node("client").build().unwrap();
        node.block_on(async {
            let depot = connected(&node, Place::Host).await;
            for _ in 0..5 {
                let (count, bytes) = [(150, 1_000), (100, 6_000), (200, 60_000), (16, 300_000)]
                    [sim.below(4) as usize];
                let pause = sim.below(2);
                let calls: Vec<_> = (0..count)
                    .map(|_| {
                        let (depot, time) = (depot.clone(), pause * (1 + sim.below(20)));
                        node.spawn(async move { depot.fetch(bytes, time).await })
                    })
                    .collect();
                for call in calls {
                    let fetched = is_done(call.await.unwrap());
                    assert!(fetched.is_none_or(|parcel| is_whole(&parcel, bytes)));
                }
            }
        });
        Ok::<_, Infallible>(())
    });
    let faults = Faults::of([Fault::Stop]).on("client").every(ms(0)..ms(10)).lasts(ms(0)..ms(60));
    let siege = sim.faults(faults);
    while sim.is_running("client") {
        sim.pause(ms(20));
    }
    siege.end();
}

#[test]
fn callers_that_stop_get_their_replies() {
    check(10, unheard);
}

/// A node counts what its peers on other hosts make it hold, and no longer than it holds that.
pub(crate) fn charged(sim: &Sim) {
    let held = Arc::<Mutex<u64>>::default();
    let of = Arc::clone(&held);
    sim.host("vienna").start("depot", move |sim| {
        let node = remote(sim, "depot", ms(100)).listen("vienna:7000").build().unwrap();
        node.serve(DepotServer::new(Shelves::default())).unwrap();
        node.block_on(async {
            loop {
                upbeat::sleep(ms(10)).await;
                *of.lock().unwrap() = node.remote_bytes();
            }
        });
        Ok::<_, Infallible>(())
    });
    let node = remote(sim, "client", ms(100)).build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Network).await;
        for number in 0..2_000 {
            depot.leave(0, number, Vec::new()).await.unwrap();
        }
        assert_eq!(depot.take(parcel(200_000), 0).await, Ok(200_000));
        upbeat::sleep(ms(50)).await;
        assert!(*held.lock().unwrap() >= 200_000, "the parcel has a buffer");
    });
    node.shut_down(ms(100));
    sim.pause(ms(500));
    assert_eq!(*held.lock().unwrap(), 0);
}

#[test]
fn a_node_counts_what_it_holds_for_other_hosts() {
    check(5, charged);
}

/// A caller that holds what lies in buffers, and a callee that does, hold up no other message.
pub(crate) fn held(sim: &Sim) {
    Place::Host.start(sim, 64 << 20, &Arc::default());
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Host).await;
        for bytes in [400, 6_000, 60_000] {
            let mut all = Vec::new();
            for _ in 0..120 {
                let lent = upbeat::within(ms(2_000), depot.lend(bytes)).await;
                all.push(lent.unwrap_or_else(|_| panic!("buffers are left")).unwrap());
            }
            assert!(all.iter().all(|parcel| is_whole(&parcel.to_vec(), bytes)));
            let calls: Vec<_> = (0..100)
                .map(|_| {
                    let (depot, time) = (depot.clone(), sim.below(10));
                    node.spawn(async move { depot.look(parcel(bytes).into(), time).await })
                })
                .collect();
            for call in calls {
                assert_eq!(call.await.unwrap(), Ok(bytes));
            }
            // Handlers that keep messages in place leave buffers to those that come behind.
            let slow: Vec<_> = (0..300)
                .map(|_| {
                    let depot = depot.clone();
                    node.spawn(async move { depot.look(parcel(bytes).into(), 2_000).await })
                })
                .collect();
            upbeat::sleep(ms(100)).await;
            let behind = upbeat::within(ms(1_000), depot.look(parcel(bytes).into(), 0)).await;
            assert_eq!(behind.expect("it waits for no handler"), Ok(bytes));
            for call in slow {
                assert_eq!(call.await.unwrap(), Ok(bytes));
            }
        }
    });
}

/// Long messages of many lengths follow each other without a pause.
pub(crate) fn lengths(sim: &Sim) {
    Place::Host.start(sim, 64 << 20, &Arc::default());
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Host).await;
        for nth in 0..12 {
            let bytes = (100_000 << (nth % 6)) + sim.below(10_000);
            let began = Instant::now();
            assert_eq!(depot.take(parcel(bytes), 0).await, Ok(bytes));
            assert!(depot.fetch(bytes, 0).await.is_ok_and(|parcel| is_whole(&parcel, bytes)));
            let took = began.elapsed();
            assert!(took < ms(500), "{bytes} bytes take {took:?}");
        }
    });
}

/// A message that nothing follows arrives, although its receiver sleeps.
fn alone(sim: &Sim, place: Place) {
    let shelves = Shelves::default();
    let taken = Arc::clone(&shelves.taken);
    let serve = move |sim: &Sim| {
        let builder = place.node(sim, "depot");
        let builder = if place == Place::Network { builder.listen("vienna:7000") } else { builder };
        let node = builder.build().unwrap();
        let shelves = Shelves { taken: Arc::clone(&taken), ..Shelves::default() };
        node.serve(DepotServer::new(shelves)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    };
    match place {
        Place::Host => sim.start("depot", serve),
        Place::Network => sim.host("vienna").start("depot", serve),
    }
    let node = place.node(sim, "client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, place).await;
        for number in 0..30 {
            upbeat::sleep(Duration::from_micros(sim.below(9_000))).await;
            depot.leave(0, number, parcel(sim.below(3) * 100)).await.unwrap();
            upbeat::sleep(ms(10)).await;
            assert_eq!(shelves.taken.load(Relaxed), number + 1, "the message has come");
        }
    });
}

pub(crate) fn alone_on_a_host(sim: &Sim) {
    alone(sim, Place::Host);
}

pub(crate) fn alone_beyond_a_network(sim: &Sim) {
    alone(sim, Place::Network);
}

/// Calls that wait for their callee's room and are given up leave their numbers to others.
pub(crate) fn given_up(sim: &Sim) {
    let is_full = sim.below(2) == 0;
    Place::Host.start(sim, if is_full { 4_000 } else { 64 << 20 }, &Arc::default());
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Host).await;
        let fills: Vec<_> = (0..40)
            .map(|_| {
                let depot = depot.clone();
                node.spawn(async move { depot.take(Vec::new(), 20_000).await })
            })
            .collect();
        upbeat::sleep(ms(10)).await;
        for _ in 0..4_300 {
            let short = Duration::from_micros(20 + sim.below(200));
            drop(upbeat::within(short, depot.take(Vec::new(), 50)).await);
        }
        for fill in fills {
            assert_eq!(fill.await.unwrap(), Ok(0));
        }
        assert_eq!(upbeat::within(ms(60_000), depot.take(Vec::new(), 0)).await.ok(), Some(Ok(0)));
    });
}

/// A task reads its replies in another order than that in which they come.
pub(crate) fn unread(sim: &Sim) {
    Place::Host.start(sim, 64 << 20, &Arc::default());
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Host).await;
        for _ in 0..20 {
            let bytes = [50, 1_000, 30_000][sim.below(3) as usize];
            let mut first = pin!(depot.take(Vec::new(), sim.below(9)));
            let mut second = pin!(depot.fetch(bytes, 0));
            let both = poll_fn(|context| {
                let is_open = second.as_mut().poll(context).is_pending();
                Poll::Ready(is_open && first.as_mut().poll(context).is_pending())
            });
            assert!(both.await, "both are called");
            assert_eq!(first.await, Ok(0));
            assert!(second.await.is_ok_and(|parcel| is_whole(&parcel, bytes)));
        }
    });
}

#[test]
fn replies_wait_until_they_are_read() {
    check(10, unread);
}

/// Callers that die while they wait for room, or have got it, leave it to others.
pub(crate) fn inherited(sim: &Sim) {
    Place::Host.start(sim, 100_000, &Arc::default());
    sim.start("dies", |sim| {
        let node = sim.node("dies").conservative(true).build().unwrap();
        node.block_on(async {
            let depot = connected(&node, Place::Host).await;
            let calls: Vec<_> = (0..12)
                .map(|_| {
                    let (depot, bytes) = (depot.clone(), 20_000 + sim.below(25_000));
                    node.spawn(async move { depot.take(parcel(bytes), 3).await })
                })
                .collect();
            for call in calls {
                call.await.unwrap().unwrap();
            }
            std::future::pending::<()>().await;
        });
        Ok::<_, Infallible>(())
    });
    let node = sim.node("client").build().unwrap();
    let depot = node.block_on(connected(&node, Place::Host));
    for _ in 0..12 {
        sim.pause(Duration::from_micros(sim.below(9_000)));
        sim.stop("dies");
        sim.pause(ms(sim.below(20)));
        sim.kill("dies");
        let began = Instant::now();
        node.block_on(async {
            let other = depot.clone();
            let other = node.spawn(async move { other.take(parcel(20_000), 30).await });
            assert_eq!(depot.take(parcel(20_000), 30).await, Ok(20_000));
            assert_eq!(other.await.unwrap(), Ok(20_000));
        });
        let took = began.elapsed();
        assert!(took < ms(55), "there is room for both: {took:?}");
        sim.restart("dies");
    }
}

#[test]
fn callers_that_die_leave_their_room() {
    check(10, inherited);
}

#[test]
fn held_buffers_hold_up_nobody() {
    check(5, held);
}

#[test]
fn messages_of_many_lengths_follow_each_other() {
    check(5, lengths);
}

#[test]
fn messages_that_nothing_follows_arrive() {
    check(10, alone_on_a_host);
    check(10, alone_beyond_a_network);
}

#[test]
fn calls_that_are_given_up_leave_their_numbers() {
    check(2, given_up);
}
