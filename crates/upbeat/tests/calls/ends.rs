//! How calls end before their time: dropped, at a deadline, at a shutdown.

use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::WorkClient;
use crate::common::{BEGINS, Watchdog, at_once, first, yield_now};
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Node, Waiting, Why, within};
use upbeat_core::frame::FailCode;

const A_WHILE: Duration = Duration::from_secs(20);

async fn client(stand: &Stand) -> WorkClient {
    stand.node.connect(&stand.name()).await.unwrap()
}

/// Waits until so many handlers stand there.
async fn standing(work: &WorkClient, count: u64) {
    let began = Instant::now();
    while work.waiting().await.unwrap().0 != count {
        assert!(began.elapsed() < A_WHILE, "{:?}", work.waiting().await);
        upbeat::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn dropping_a_call_drops_its_handler() {
    let _watchdog = Watchdog::new("dropping");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work = client(&stand).await;
                for _ in 0..20 {
                    // A late result is given back to the caller's node, and dropped there.
                    assert!(within(Duration::from_millis(2), work.forever()).await.is_err());
                    standing(&work, 0).await;
                }
                // More at a time than a session has places would be, one after the other.
                for _ in 0..500 {
                    assert!(first(work.forever(), yield_now()).await.is_err());
                }
                standing(&work, 0).await;
                assert_eq!(work.add(1, 1).await, Ok(2));
                // All but those that were dropped while they waited for room.
                assert!((20..=520).contains(&stand.node.counted(Counter::CancelsSent)));
            });
        }
    }
}

/// Calls with long arguments are dropped in all states of being sent, some behind others. Their buffers come back:
/// they are more than a session may have.
#[test]
fn dropped_calls_give_their_long_arguments_back() {
    let _watchdog = Watchdog::new("dropping long ones");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            for turns in (0..6).cycle().take(72) {
                let calls: Vec<_> = (0..3)
                    .map(|_| {
                        let work = work.clone();
                        stand.node.spawn(async move { work.bytes(vec![7; 2 << 20]).await })
                    })
                    .collect();
                for _ in 0..turns {
                    yield_now().await;
                }
                calls.iter().rev().for_each(|call| call.cancel());
            }
            let sent = vec![5; 2 << 20];
            assert!(work.bytes(sent.clone()).await.unwrap() == sent);
            assert_eq!(work.add(1, 1).await, Ok(2));
        });
    }
}

#[test]
fn a_call_that_the_driving_future_leaves_open_is_cancelled() {
    let _watchdog = Watchdog::new("left open");
    let stand = Stand::new(Kind::Shared, Waiting::Sleeping);
    let work = stand.node.block_on(client(&stand));
    // The future is done while it still holds the call.
    let mut call = Some(Box::pin(work.forever()));
    let mut polled = 0;
    stand.node.block_on(std::future::poll_fn(move |context| {
        polled += 1;
        assert!(call.as_mut().unwrap().as_mut().poll(context).is_pending());
        context.waker().wake_by_ref();
        if polled > 5 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    }));
    // Another node's session asks, so that it is not this one's next message that wakes.
    let other = crate::common::node("asks", &stand.place, Waiting::Sleeping);
    other.block_on(async {
        let work: WorkClient = other.connect(&stand.name()).await.unwrap();
        standing(&work, 0).await;
        assert_eq!(work.waiting().await, Ok((0, 1)));
    });
}

#[test]
fn a_deadline_ends_the_call_on_both_sides() {
    let _watchdog = Watchdog::new("deadline");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work = client(&stand).await;
                let began = Instant::now();
                let after = Duration::from_millis(30);
                let calls: Vec<_> = (0..5)
                    .map(|_| {
                        let work = work.clone();
                        stand.node.spawn(async move { work.forever().deadline(after).await })
                    })
                    .collect();
                for call in calls {
                    let late = call.await.unwrap().unwrap_err();
                    assert_eq!(late, CallError::deadline(true));
                    let text = late.to_string();
                    assert!(
                        late.may_have_run() && text.contains("`forever` of service `Work` at "),
                        "{text}"
                    );
                }
                assert!((after..A_WHILE).contains(&began.elapsed()));
                standing(&work, 0).await;
                // A deadline that is met has no consequence.
                assert_eq!(work.nap(1, 5).deadline(A_WHILE).await, Ok(5));
                assert_eq!(
                    work.add(1, 5).deadline(Duration::ZERO).await,
                    Err(CallError::deadline(true))
                );
                assert_eq!(work.divide(4, 2).deadline(A_WHILE).await, Ok(2));
            });
        }
    }
}

#[test]
fn the_callee_ends_by_itself_at_the_deadline() {
    let _watchdog = Watchdog::new("deadline travels");
    let stand = Stand::new(Kind::Shared, Waiting::Sleeping);
    let work = stand.node.block_on(client(&stand));
    let other = crate::common::node("asks", &stand.place, Waiting::Sleeping);
    for (at_once, ended) in [(false, 1), (true, 2)] {
        // The caller's node is not driven, so it cannot be the one that ends the call.
        let call = work.forever().deadline(BEGINS);
        let call = if at_once { call.try_send().unwrap() } else { call };
        let mut call = Box::pin(call);
        stand.node.block_on(std::future::poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        }));
        other.block_on(async {
            let work: WorkClient = other.connect(&stand.name()).await.unwrap();
            while work.waiting().await != Ok((0, ended)) {
                upbeat::sleep(Duration::from_millis(1)).await;
            }
        });
        assert_eq!(stand.node.block_on(call), Err(CallError::deadline(true)));
    }
}

#[test]
fn timers_fire_in_order_and_within_ends_in_time() {
    let _watchdog = Watchdog::new("timers");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping, Waiting::Polling] {
        let node = Node::builder("timers").local_only().waiting(waiting).build().unwrap();
        let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let began = Instant::now();
        node.block_on(async {
            let tasks = [30_u64, 10, 20, 0, 10].map(|ms| {
                let order = std::rc::Rc::clone(&order);
                node.spawn(async move {
                    upbeat::sleep(Duration::from_millis(ms)).await;
                    assert!(began.elapsed() >= Duration::from_millis(ms));
                    order.borrow_mut().push(ms);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            let after = Duration::from_millis(5);
            assert_eq!(within(after, std::future::pending::<()>()).await.unwrap_err().after, after);
            assert_eq!(within(A_WHILE, async { 4 }).await.ok(), Some(4));
        });
        assert_eq!(*order.borrow(), [0, 10, 10, 20, 30]);
        assert!(began.elapsed() < A_WHILE);
    }
}

#[test]
fn shutting_down_answers_what_was_accepted_and_then_says_so() {
    let _watchdog = Watchdog::new("shutdown");
    let cases =
        KINDS.map(|kind| [Waiting::Adaptive, Waiting::Sleeping].map(|waiting| (kind, waiting)));
    at_once(cases.into_iter().flatten(), |(kind, waiting)| {
        let mut stand = Stand::new(kind, waiting);
        let name = stand.name();
        let work = stand.node.block_on(client(&stand));
        let slow = work.clone();
        let accepted = stand.node.spawn(async move { slow.nap(500, 9).await });
        let slow = work.clone();
        let endless = stand.node.spawn(async move { slow.forever().await });
        stand.node.block_on(standing(&work, 2));
        stand.server.stop();
        let node = stand.node.clone();
        stand.node.block_on(async {
            // From some moment on it takes no more.
            let error = loop {
                if let Err(error) = work.add(1, 1).await {
                    break error;
                }
            };
            let closing = matches!(error, CallError::Failed { code: FailCode::Closing, .. });
            assert!(closing && !error.may_have_run(), "{error}");
            assert_eq!(accepted.await.unwrap(), Ok(9));
            // The caller of the method that never ends gets an error: the peer has closed its node.
            match endless.await.unwrap() {
                Err(CallError::Unknown(lost)) => {
                    assert!(lost.peer.contains(&name), "{lost}");
                    assert_eq!(lost.why, Why::Closed, "{lost}");
                }
                other => panic!("{other:?}"),
            }
            match work.add(1, 1).await {
                Err(CallError::NotConnected { text, .. }) => {
                    assert!(text.contains("was shut down"), "{text}");
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(node.sessions(), 0);
        });
    });
}

#[test]
fn what_was_sent_one_way_before_a_shutdown_is_heard() {
    let _watchdog = Watchdog::new("last words");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            for round in 1..=20 {
                let sender = crate::common::node("sender", &stand.place, waiting);
                sender.block_on(async {
                    let work: WorkClient = sender.connect(&stand.name()).await.unwrap();
                    for number in 1..=50 {
                        work.note(50 * (round - 1) + number).await.unwrap();
                    }
                });
                sender.shut_down(A_WHILE);
                drop(sender);
                stand.node.block_on(async {
                    let work = client(&stand).await;
                    let began = Instant::now();
                    while work.noted().await != Ok((50 * round, 50 * round, 0)) {
                        assert!(began.elapsed() < A_WHILE, "{round}: {:?}", work.noted().await);
                    }
                });
            }
        }
    }
}
