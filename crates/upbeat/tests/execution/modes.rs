//! One source, run in each way.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::shop::{ShopClient, Stand, counted, until_counted};
use std::cell::Cell;
use std::rc::Rc;
use upbeat::error::FailCode;
use upbeat::{CallError, Counter, Execution, Node, yield_now};

const ALL: [Execution; 5] =
    [Execution::Am, Execution::Orpc, Execution::Trpc, Execution::TrpcBack, Execution::Adaptive];

/// Makes many calls at a time, some of which wait for each other. Returns how many were ended.
async fn mix(stand: &Stand, shop: &ShopClient, calls: u64) -> u64 {
    let mut tasks = Vec::new();
    for number in 0..calls {
        let shop = shop.clone();
        tasks.push(stand.node.spawn(async move { shop.buy(number, number % 3).await }));
    }
    let mut ended = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(entered) => assert!((1..=calls).contains(&entered)),
            Err(CallError::Failed { code: FailCode::WouldWait, .. }) => ended += 1,
            Err(error) => panic!("{error}"),
        }
    }
    ended
}

#[test]
fn each_call_runs_once_in_each_way() {
    let _watchdog = Watchdog::new("ways");
    for kind in KINDS {
        for execution in ALL {
            let stand = Stand::new(kind, Some(execution));
            stand.node.block_on(async {
                let shop = stand.client().await;
                let ended = mix(&stand, &shop, 300).await;
                assert_eq!(ended > 0, execution == Execution::Am, "{execution}");
                let mut entered = shop.entered().await.unwrap();
                entered.sort_unstable();
                assert_eq!(entered, (0..300).collect::<Vec<_>>(), "{execution}");
                let started = counted(&shop, Counter::StartedAsTasks).await;
                match execution {
                    Execution::Am | Execution::Orpc => assert_eq!(started, 0),
                    // This call counts itself and is one; so is the one before.
                    Execution::Trpc | Execution::TrpcBack => assert!(started >= 302, "{started}"),
                    _ => assert_eq!(execution, Execution::Adaptive),
                }
                let ended_there = counted(&shop, Counter::HandlersEnded).await;
                assert_eq!(ended_there, ended, "{execution}");
            });
        }
    }
}

#[test]
fn an_active_message_that_would_wait_is_an_error_that_says_for_what() {
    let _watchdog = Watchdog::new("active messages");
    for kind in KINDS {
        let stand = Stand::new(kind, Some(Execution::Am));
        stand.node.block_on(async {
            let shop = stand.client().await;
            let (nap, hold) = (shop.nap(1).await, shop.hold(1).await);
            for (answer, waits) in [(nap, "a timer"), (hold, "a timer")] {
                let Err(error) = answer else { panic!("it waits") };
                assert!(error.may_have_run());
                let CallError::Failed { code: FailCode::WouldWait, text, .. } = &error else {
                    panic!("{error}")
                };
                assert_eq!(&**text, waits);
            }
            // The handler was dropped and not left where it stood, so its lock is free.
            assert_eq!(shop.buy(7, 0).await, Ok(1));
            shop.note(8, 1).await.unwrap();
            shop.note(9, 0).await.unwrap();
            assert_eq!(shop.entered().await, Ok(vec![7, 9]));
            assert_eq!(counted(&shop, Counter::HandlersEnded).await, 3);
            assert_eq!(counted(&shop, Counter::PromotedByTimer).await, 0);
        });
    }
}

#[test]
fn tasks_begin_in_the_order_of_their_requests() {
    let _watchdog = Watchdog::new("order");
    for kind in KINDS {
        for execution in [Execution::Trpc, Execution::TrpcBack] {
            let stand = Stand::new(kind, Some(execution));
            stand.node.block_on(async {
                let shop = stand.client().await;
                for number in 0..1000 {
                    shop.note(number, 0).await.unwrap();
                }
                assert_eq!(shop.entered().await, Ok((0..1000).collect()), "{execution}");
            });
        }
    }
}

#[test]
fn a_task_from_the_beginning_is_cancelled_and_panics_like_any() {
    let _watchdog = Watchdog::new("ends of tasks");
    for kind in KINDS {
        let stand = Stand::new(kind, Some(Execution::Trpc));
        stand.node.block_on(async {
            let shop = stand.client().await;
            let late = shop.nap(60_000).deadline(std::time::Duration::from_millis(20)).await;
            assert_eq!(late, Err(CallError::deadline(true)));
            {
                let nap = shop.nap(60_000).try_send().unwrap();
                shop.null().await.unwrap();
                drop(nap);
            }
            let Err(CallError::Failed { code, text, .. }) = shop.panics().await else { panic!() };
            assert_eq!((code, &*text), (FailCode::Panicked, "it panics"));
            until_counted(&shop, Counter::CancelsHonoured, 1).await;
        });
    }
}

#[test]
fn what_mostly_waits_is_run_as_a_task_and_what_does_not_is_not() {
    let _watchdog = Watchdog::new("adaptive");
    for kind in KINDS {
        let stand = Stand::new(kind, Some(Execution::Adaptive));
        stand.node.block_on(async {
            let shop = stand.client().await;
            for number in 0..1000 {
                shop.buy(number, 1).await.unwrap();
                shop.null().await.unwrap();
            }
            let started = counted(&shop, Counter::StartedAsTasks).await;
            assert!((800..1000).contains(&started), "{started}");
            // The handlers wait no more: soon each of them is bet on again.
            for number in 0..1000 {
                shop.buy(number, 0).await.unwrap();
            }
            let since = counted(&shop, Counter::StartedAsTasks).await - started;
            assert!(since < 200, "{since}");
        });
    }
}

#[test]
fn nobody_says_and_handlers_are_run_optimistically() {
    let _watchdog = Watchdog::new("default");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let shop = stand.client().await;
            shop.nap(1).await.unwrap();
            assert_eq!(counted(&shop, Counter::PromotedByTimer).await, 1);
            assert_eq!(counted(&shop, Counter::StartedAsTasks).await, 0);
        });
    }
}

#[upbeat::service]
trait Places {
    async fn front(&self) -> u64;
    async fn back(&self) -> u64;
    /// Lacks something at first.
    async fn again(&self) -> u64;
}

/// Knows how often tasks of its node were polled.
struct Counts(Rc<Cell<u64>>);

#[upbeat::service]
impl Places for Counts {
    #[method(execution = "trpc")]
    async fn front(&self) -> u64 {
        self.0.get()
    }

    #[method(execution = "trpc-back")]
    async fn back(&self) -> u64 {
        self.0.get()
    }

    #[method(needs(false))]
    async fn again(&self) -> u64 {
        self.0.get()
    }
}

#[test]
fn a_task_begins_before_those_that_are_ready_or_behind_them() {
    // More than are polled in a turn.
    const READY: u64 = 100;
    let _watchdog = Watchdog::new("places of tasks");
    let [server, client] = ["places/server", "places/client"]
        .map(|name| Node::builder(name).program("test").local_only().build().unwrap());
    let polls = Rc::new(Cell::new(0));
    server.serve(PlacesServer::new(Counts(Rc::clone(&polls)))).unwrap();
    for _ in 0..READY {
        let polls = Rc::clone(&polls);
        drop(server.spawn(async move {
            loop {
                polls.set(polls.get() + 1);
                yield_now().await;
            }
        }));
    }
    let (way, found) = (client.clone(), Rc::new(Cell::new(None)));
    let (told, so_far) = (Rc::clone(&found), Rc::clone(&polls));
    drop(client.spawn(async move {
        let places: PlacesClient = way.connect("places/server").await.unwrap();
        // Polls of others between the call and its handler.
        let before = so_far.get();
        let front = places.front().await.unwrap() - before;
        let before = so_far.get();
        let back = places.back().await.unwrap() - before;
        let before = so_far.get();
        told.set(Some((front, back, places.again().await.unwrap() - before)));
    }));
    let (front, back, again) = loop {
        server.turn();
        client.turn();
        if let Some(found) = found.take() {
            break found;
        }
    };
    assert_eq!(front, 0, "somebody ran before it");
    assert!(back > 32 && again > 32, "not behind the others: {back}, {again}");
}
