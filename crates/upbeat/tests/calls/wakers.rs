//! Tests that a waker of another executor, which a node's turn wakes, harms nothing but itself.

use crate::common::executor::Panicking;
use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{PROGRAM, Watchdog, until};
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use upbeat::{Counter, Waiting};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

#[test]
fn a_foreign_waker_that_panics_is_no_panic_of_the_main_future() {
    let _watchdog = Watchdog::new("foreign wakers that panic");
    for kind in KINDS {
        let mut stand = Stand::new(kind, Waiting::Adaptive);
        let node = stand.node.clone();
        node.block_on(async {
            let work: WorkClient = node.connect(&stand.name()).await.unwrap();
            let waker = Arc::<Panicking>::default();
            let mut reply = pin!(work.nap(5, 1));
            waker.polls(reply.as_mut());
            until(|| waker.panics() == 1).await;
            let mut timer = pin!(upbeat::sleep(Duration::from_millis(2)));
            waker.polls(timer.as_mut());
            until(|| waker.panics() == 2).await;
            let mut task = node.spawn(upbeat::sleep(Duration::from_millis(2)));
            waker.polls(Pin::new(&mut task));
            until(|| waker.panics() == 3).await;
            let mut lost = pin!(work.forever());
            waker.polls(lost.as_mut());
            stand.server.stop();
            until(|| waker.panics() == 4).await;
            assert_eq!((reply.await, task.await), (Ok(1), Ok(())));
            timer.await;
            until(|| node.counted(Counter::Panics) == 4).await;
        });
    }
}

thread_local! {
    /// The task that [`Drops`] drops.
    static TASK: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(None) };
}

/// A waker that drops its task, since its executor is gone.
#[derive(Default)]
struct Drops(AtomicBool);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(TASK.take());
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_foreign_waker_may_drop_a_call_that_waits_in_line() {
    let _watchdog = Watchdog::new("a waiting call that its waker drops");
    let stand = Stand::new(Kind::Local, Waiting::Adaptive);
    let handle = upbeat::handle::builder().program(PROGRAM).directory(&stand.place);
    let watcher: WorkHandle = handle.connect(&stand.name()).unwrap();
    stand.node.block_on(async {
        let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
        let mut noop = Context::from_waker(Waker::noop());
        let mut open: Vec<_> =
            (0..CALLS_PER_SESSION_MAX).map(|_| Box::pin(work.forever())).collect();
        // Calls that wait for room in the lane have no number yet.
        while watcher.waiting().await.unwrap().1 < CALLS_PER_SESSION_MAX as u64 {
            open.iter_mut().for_each(|call| assert!(call.as_mut().poll(&mut noop).is_pending()));
        }
        let (waiting, drops) = (work.clone(), Arc::<Drops>::default());
        let mut waits: Pin<Box<dyn Future<Output = ()>>> =
            Box::pin(async move { waiting.null().await.unwrap() });
        let waker = Waker::from(Arc::clone(&drops));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        TASK.set(Some(waits));
        open.pop();
        until(|| drops.0.load(Ordering::SeqCst)).await;
        drop(open);
        assert_eq!(work.add(1, 2).await, Ok(3));
    });
}
