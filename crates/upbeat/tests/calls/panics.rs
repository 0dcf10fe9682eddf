//! Tests that a panic costs one call, or one task, and nothing else.

use crate::common::server::{KINDS, Stand};
use crate::common::work::WorkClient;
use crate::common::{Watchdog, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use upbeat::{CallError, Counter, Node, TaskEnded, Waiting};
use upbeat_core::frame::FailCode;

async fn client(stand: &Stand) -> WorkClient {
    stand.node.connect(&stand.name()).await.unwrap()
}

#[test]
fn a_handler_that_panics_fails_its_call() {
    let _watchdog = Watchdog::new("panics", 60);
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work = client(&stand).await;
                let beside = work.clone();
                let beside = stand.node.spawn(async move { beside.nap(50, 3).await });
                yield_now().await;
                for late in [false, true, true, false] {
                    match work.panics("the moon is full".into(), late).await {
                        Err(CallError::Failed { code: FailCode::Panicked, text, .. }) => {
                            assert_eq!(&*text, "the moon is full");
                        }
                        other => panic!("{other:?}"),
                    }
                    assert_eq!(work.add(1, 1).await, Ok(2));
                    work.note_panics(late).await.unwrap();
                    assert_eq!(work.add(1, 2).await, Ok(3));
                }
                assert_eq!(beside.await.unwrap(), Ok(3));
                let panics = || work.counted(Counter::Panics as u64);
                while panics().await != Ok(8) {
                    upbeat::sleep(Duration::from_millis(1)).await;
                }
            });
        }
    }
}

#[test]
fn a_long_text_of_a_panic_is_cut() {
    let _watchdog = Watchdog::new("long text", 60);
    let stand = Stand::new(KINDS[0], Waiting::Adaptive);
    stand.node.block_on(async {
        let work = client(&stand).await;
        let error = work.panics("ä".repeat(100_000), false).await.unwrap_err();
        assert!(error.to_string().contains("äää"), "{error}");
        assert_eq!(work.add(1, 1).await, Ok(2));
    });
}

#[test]
fn driving_a_node_inside_its_own_handler_is_refused() {
    let _watchdog = Watchdog::new("nested", 60);
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            for shut_down in [false, true] {
                match work.block(shut_down).await {
                    Err(CallError::Failed { code: FailCode::Panicked, text, .. }) => {
                        assert!(text.contains("await"), "{text}");
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(work.add(1, 1).await, Ok(2), "it serves on");
            }
        });
    }
}

#[test]
fn a_task_that_panics_ends_and_says_so() {
    let _watchdog = Watchdog::new("a task's panic", 60);
    let node = Node::builder("panicker").local_only().build().unwrap();
    let other = Node::builder("panicker/other").local_only().build().unwrap();
    node.block_on(async {
        let bad = node.spawn(async { panic!("on purpose") });
        let good = node.spawn(async {
            yield_now().await;
            5
        });
        assert_eq!(bad.await, Err::<(), _>(TaskEnded::Panicked));
        assert_eq!(good.await, Ok(5));
        let inner = other.clone();
        let nested = node.spawn(async move { inner.block_on(async {}) });
        assert_eq!(nested.await, Err(TaskEnded::Panicked));
        assert_eq!(node.counted(Counter::Panics), 2);
    });
    assert_eq!(other.block_on(async { 7 }), 7);
}

#[test]
fn the_driving_future_may_panic_and_the_node_can_be_driven_again() {
    let _watchdog = Watchdog::new("main panics", 60);
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Sleeping);
        let work = stand.node.block_on(client(&stand));
        for round in 0..3 {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                stand.node.block_on(async {
                    // With the answer in hand, or without.
                    if round != 0 {
                        work.add(1, round).await.unwrap();
                    }
                    panic!("it goes through");
                })
            }));
            assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"it goes through"));
            assert_eq!(stand.node.block_on(work.add(3, round)), Ok(3 + round));
        }
        // The polling flag of a node that nobody drives is cleared: its callers ring the doorbell.
        let panicked = catch_unwind(AssertUnwindSafe(|| stand.node.block_on(async { panic!() })));
        assert!(panicked.is_err() && stand.node.may_wait());
    }
}
