//! Tests that wakers of any executor may use the handle, and that their panics end nothing.

use crate::common::executor::{InPlace, Orphan, Panicking};
use crate::common::server::{KINDS, Kind};
use crate::common::wait_until;
use crate::common::work::WorkHandle;
use crate::common::{Watchdog, alone, block_on};
use crate::handles::Stand;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::task::{Context, Waker};
use std::time::Duration;
use upbeat::{CallError, Waiting};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

/// Checks that the session's thread still delivers replies, and ends calls at their deadlines.
fn goes_on(handle: &WorkHandle) {
    assert_eq!(block_on(handle.nap(5, 7)), Ok(7));
    let late = block_on(handle.forever().deadline(Duration::from_millis(5)));
    assert_eq!(late, Err(CallError::deadline(true)));
}

#[test]
fn a_waker_that_drops_its_task_locks_nobody_out() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("tasks that their wakers drop"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        block_on(handle.null()).unwrap();
        let (gone, is_gone) = channel::<()>();
        let other = handle.clone();
        Orphan::leave(async move {
            let _gone = gone;
            let mut open = pin!(other.forever());
            assert!(open.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(other.nap(5, 1).await, Ok(1));
        });
        assert!(is_gone.recv().is_err(), "the reply has dropped the task");
        goes_on(&handle);
    }
}

#[test]
fn a_waiting_call_that_its_waker_drops_locks_nobody_out() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("waiting tasks that wakers drop"));
    let stand = Stand::new(Kind::Local);
    let handle = stand.handle(Waiting::Adaptive).unwrap();
    let mut noop = Context::from_waker(Waker::noop());
    block_on(handle.null()).unwrap();
    let mut open: Vec<_> = (0..CALLS_PER_SESSION_MAX).map(|_| Box::pin(handle.forever())).collect();
    let watcher = handle.blocking();
    while watcher.waiting().unwrap().1 < CALLS_PER_SESSION_MAX as u64 {
        open.iter_mut().for_each(|call| assert!(call.as_mut().poll(&mut noop).is_pending()));
    }
    let (gone, is_gone) = channel::<()>();
    let other = handle.clone();
    Orphan::leave(async move {
        let _gone = gone;
        other.null().await.unwrap();
    });
    open.pop();
    assert!(is_gone.recv().is_err(), "the free number has dropped the task");
    drop(open);
    goes_on(&handle);
}

#[test]
fn a_waker_may_poll_its_task_in_place() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("polls in place"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        block_on(handle.null()).unwrap();
        let (done, is_done) = sync_channel(1);
        let other = handle.clone();
        InPlace::start(async move {
            let sum = other.nap(5, 1).await.unwrap() + other.nap(5, 2).await.unwrap();
            done.send(sum).unwrap();
        });
        assert_eq!(is_done.recv(), Ok(3));
        goes_on(&handle);
    }
}

#[test]
fn a_waker_that_panics_ends_nothing() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("wakers that panic"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        block_on(handle.null()).unwrap();
        let waker = Arc::<Panicking>::default();
        let mut answered = pin!(handle.nap(5, 1));
        waker.polls(answered.as_mut());
        wait_until(|| waker.panics() == 1);
        let mut late = pin!(handle.forever().deadline(Duration::from_millis(5)));
        waker.polls(late.as_mut());
        wait_until(|| waker.panics() >= 2);
        goes_on(&handle);
        assert_eq!(block_on(answered), Ok(1));
        assert_eq!(block_on(late), Err(CallError::deadline(true)));
    }
}
