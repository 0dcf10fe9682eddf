//! How tasks end, and what their joiners are told.

use super::{Gate, local, settle};
use crate::common::{SOON, Watchdog, alone};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use upbeat::{Counter, JoinHandle, Node, TaskEnded, yield_now};

/// Says when it is dropped.
struct OnDrop(Rc<Cell<u32>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// A task that holds something, waits at a gate, and gives 7.
fn waiting(node: &Node, gate: &Gate, dropped: &Rc<Cell<u32>>) -> JoinHandle<u32> {
    let (gate, held) = (gate.clone(), OnDrop(Rc::clone(dropped)));
    node.spawn(async move {
        let _held = held;
        gate.pass().await;
        7
    })
}

#[test]
fn one_that_is_cancelled_is_dropped_at_once_in_every_state() {
    let (_alone, node) = local("cancel");
    let (gate, dropped) = (Gate::default(), Rc::new(Cell::new(0)));
    // Never polled.
    let task = waiting(&node, &gate, &dropped);
    task.cancel();
    assert_eq!((dropped.get(), gate.polls()), (1, 0));
    assert_eq!(node.block_on(task), Err(TaskEnded::Cancelled));
    // Waiting.
    let task = waiting(&node, &gate, &dropped);
    settle(&node);
    task.cancel();
    task.cancel();
    assert_eq!((dropped.get(), gate.polls()), (2, 1));
    assert_eq!(node.block_on(task), Err(TaskEnded::Cancelled));
    // Woken, and not polled yet.
    let task = waiting(&node, &gate, &dropped);
    settle(&node);
    gate.wake();
    task.cancel();
    settle(&node);
    assert_eq!((dropped.get(), gate.polls()), (3, 2));
    assert_eq!(node.block_on(task), Err(TaskEnded::Cancelled));
    // Done: it has its value still.
    gate.open();
    let task = waiting(&node, &gate, &dropped);
    settle(&node);
    task.cancel();
    assert_eq!((dropped.get(), node.block_on(task)), (4, Ok(7)));
}

#[test]
fn one_that_cancels_itself_is_dropped_at_its_next_await() {
    let (_alone, node) = local("cancel/self");
    for waits in [true, false] {
        let dropped = Rc::new(Cell::new(0));
        let handle: Rc<RefCell<Option<JoinHandle<u32>>>> = Rc::default();
        let (own, held) = (Rc::clone(&handle), OnDrop(Rc::clone(&dropped)));
        let task = node.spawn(async move {
            let own = own.take().unwrap();
            own.cancel();
            drop(own);
            assert_eq!(held.0.get(), 0, "it runs on to its next await");
            if waits {
                pending::<()>().await;
            }
            drop(held);
            7
        });
        *handle.borrow_mut() = Some(task);
        settle(&node);
        assert_eq!(dropped.get(), 1, "waits: {waits}");
        assert_eq!(node.block_on(node.spawn(async { 1 })), Ok(1));
    }
}

#[test]
fn one_that_is_cancelled_while_it_is_polled_says_so_to_its_joiner() {
    let (_alone, node) = local("cancel/polled");
    let handle: Rc<RefCell<Option<JoinHandle<u32>>>> = Rc::default();
    for (waits, expected) in [(true, Err(TaskEnded::Cancelled)), (false, Ok(7))] {
        let own = Rc::clone(&handle);
        let task = node.spawn(async move {
            own.borrow().as_ref().unwrap().cancel();
            if waits {
                yield_now().await;
            }
            7
        });
        *handle.borrow_mut() = Some(task);
        settle(&node);
        assert_eq!(node.block_on(handle.take().unwrap()), expected);
    }
}

#[test]
fn a_joiner_is_woken_once_and_whoever_drops_the_handle_lets_the_task_run() {
    let (_alone, node) = local("join");
    let (gate, dropped) = (Gate::default(), Rc::new(Cell::new(0)));
    let task = waiting(&node, &gate, &dropped);
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let joiner = node.spawn(async move {
        let mut task = std::pin::pin!(task);
        poll_fn(|context| {
            counted.set(counted.get() + 1);
            task.as_mut().poll(context)
        })
        .await
    });
    drop(waiting(&node, &gate, &dropped));
    settle(&node);
    assert_eq!((polls.get(), dropped.get()), (1, 0));
    gate.open();
    settle(&node);
    assert_eq!((polls.get(), dropped.get()), (2, 2));
    assert_eq!(node.block_on(joiner), Ok(Ok(7)));
}

#[test]
fn a_value_that_nobody_takes_is_dropped_with_the_handle_or_the_task() {
    let (_alone, node) = local("values");
    let dropped = Rc::new(Cell::new(0));
    let gives = || {
        let value = OnDrop(Rc::clone(&dropped));
        node.spawn(async move { value })
    };
    let kept = gives();
    drop(gives());
    settle(&node);
    assert_eq!(dropped.get(), 1, "nobody has its handle");
    drop(kept);
    assert_eq!(dropped.get(), 2);
    // The value of one whose handle goes while it is polled.
    let handle: Rc<RefCell<Option<JoinHandle<OnDrop>>>> = Rc::default();
    let (own, value) = (Rc::clone(&handle), OnDrop(Rc::clone(&dropped)));
    let task = node.spawn(async move {
        drop(own.take());
        value
    });
    *handle.borrow_mut() = Some(task);
    settle(&node);
    assert_eq!(dropped.get(), 3);
    // The value of a task that waits after its handle was dropped is dropped as well.
    let (own, value) = (Rc::clone(&handle), OnDrop(Rc::clone(&dropped)));
    let task = node.spawn(async move {
        drop(own.take());
        yield_now().await;
        value
    });
    *handle.borrow_mut() = Some(task);
    settle(&node);
    assert_eq!(dropped.get(), 4);
}

#[test]
fn a_panic_costs_its_task_alone_and_its_joiner_is_told() {
    let (_alone, node) = local("panics");
    let dropped = Rc::new(Cell::new(0));
    let held = OnDrop(Rc::clone(&dropped));
    let bad: JoinHandle<()> = node.spawn(async move {
        let _held = held;
        yield_now().await;
        panic!("on purpose");
    });
    let good = node.spawn(async { 1 });
    let panicked = || Err(TaskEnded::Panicked { text: "on purpose".into() });
    assert_eq!(node.block_on(async { (bad.await, good.await) }), (panicked(), Ok(1)));
    assert_eq!((dropped.get(), node.counted(Counter::Panics)), (1, 1));
    // A task panics although it was cancelled meanwhile.
    let handle: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
    let own = Rc::clone(&handle);
    let task = node.spawn(async move {
        own.borrow().as_ref().unwrap().cancel();
        panic!("on purpose");
    });
    *handle.borrow_mut() = Some(task);
    settle(&node);
    assert_eq!(node.block_on(handle.take().unwrap()), panicked());
    // A panic without a message has none.
    let mute: JoinHandle<()> = node.spawn(async { std::panic::resume_unwind(Box::new(7)) });
    assert_eq!(node.block_on(mute).unwrap_err().to_string(), "the task panicked");
}

#[test]
fn a_node_that_is_shut_down_tells_every_joiner() {
    let (_alone, node) = local("ends");
    let (gate, dropped) = (Gate::default(), Rc::new(Cell::new(0)));
    let (waits, done) = (waiting(&node, &gate, &dropped), node.spawn(async { 1 }));
    drop(waiting(&node, &gate, &dropped));
    settle(&node);
    node.shut_down(Duration::ZERO);
    assert_eq!(dropped.get(), 2);
    let ends = node.block_on(async { (waits.await, done.await) });
    assert_eq!(ends, (Err(TaskEnded::ShutDown), Ok(1)));
}

#[test]
fn what_a_task_drops_at_its_end_may_spawn_cancel_and_join() {
    struct Spawns(Node, Rc<Cell<u32>>);

    impl Drop for Spawns {
        fn drop(&mut self) {
            let ran = Rc::clone(&self.1);
            let other = self.0.spawn(pending::<()>());
            other.cancel();
            drop(other);
            drop(self.0.spawn(async move { ran.set(ran.get() + 1) }));
        }
    }

    let (_alone, node) = local("drops");
    let ran = Rc::new(Cell::new(0));
    let spawns = || Spawns(node.clone(), Rc::clone(&ran));
    // With its future, with its value, with a cancel, and with the handle.
    let (one, two, three) = (spawns(), spawns(), spawns());
    drop(node.spawn(async move { drop(one) }));
    let value = node.spawn(async move { two });
    let cancelled = node.spawn(async move {
        let _three = three;
        pending::<()>().await;
    });
    settle(&node);
    drop(value);
    cancelled.cancel();
    settle(&node);
    assert_eq!(ran.get(), 3);
}

#[test]
fn a_task_starts_in_the_slot_of_the_one_that_ended_last() {
    let (_alone, node) = local("slots");
    let counted = || {
        let new = node.counted(Counter::TasksInNewSlots);
        (new, node.counted(Counter::TasksInKeptSlots))
    };
    let same = |gate: &Gate| {
        let gate = gate.clone();
        node.spawn(async move { gate.pass().await })
    };
    let (shut, open) = (Gate::default(), Gate::default());
    open.open();
    for round in 1..=100 {
        assert_eq!(node.block_on(same(&open)), Ok(()));
        assert_eq!(counted(), (1, round - 1));
    }
    // As many slots as there are tasks at once, and each serves again however its task ended.
    let tasks: Vec<_> = (0..10).map(|_| same(&shut)).collect();
    assert_eq!(counted(), (10, 100));
    settle(&node);
    tasks.iter().for_each(JoinHandle::cancel);
    drop(tasks);
    drop((0..10).map(|_| same(&open)).collect::<Vec<_>>());
    assert_eq!(counted(), (10, 110));
    settle(&node);
    // Of another type none has ended.
    assert_eq!(node.block_on(node.spawn(async { 1 })), Ok(1));
    assert_eq!(counted(), (11, 110));
}

#[test]
fn a_waker_of_one_that_has_ended_wakes_nobody_to_harm() {
    let (_alone, node) = local("stale");
    let kept = Rc::new(RefCell::new(None));
    let given = Rc::clone(&kept);
    let spawn = |given: Rc<RefCell<Option<Waker>>>| {
        node.spawn(async move {
            poll_fn(|context| {
                let first = given.borrow().is_none();
                if first {
                    *given.borrow_mut() = Some(context.waker().clone());
                }
                Poll::Ready(first)
            })
            .await
        })
    };
    assert_eq!(node.block_on(spawn(Rc::clone(&given))), Ok(true));
    let stale = kept.borrow().clone().unwrap();
    // Between two tasks, while one waits for its first poll, and when it has ended.
    stale.wake_by_ref();
    settle(&node);
    let next = spawn(given);
    stale.wake_by_ref();
    assert_eq!(node.counted(Counter::TasksInKeptSlots), 1);
    settle(&node);
    stale.wake_by_ref();
    settle(&node);
    assert_eq!(node.block_on(next), Ok(false));
}

#[test]
fn a_child_that_is_awaited_after_its_scope_says_so() {
    let (_alone, node) = local("child");
    let kept = Rc::new(RefCell::new(None));
    let ended = node.block_on(upbeat::try_scope(async |s| {
        *kept.borrow_mut() = Some(s.spawn(pending::<Result<(), &str>>()));
        Err::<(), _>("ended")
    }));
    assert_eq!(ended, Err("ended"));
    let child = kept.take().unwrap();
    let awaits = || node.block_on(async { upbeat::within(SOON, child).await.is_ok() });
    let panic = catch_unwind(AssertUnwindSafe(awaits)).unwrap_err();
    let text = panic.downcast_ref::<&str>().unwrap();
    assert!(text.contains("its scope has ended"), "{text}");
}

#[test]
fn who_awaits_a_child_is_told_that_its_scope_ended_also_where_its_drop_panics() {
    struct PanicsAsItIsDropped;
    impl Drop for PanicsAsItIsDropped {
        fn drop(&mut self) {
            resume_unwind(Box::new("in a drop"));
        }
    }
    let (_alone, node) = local("broken");
    let inner = node.clone();
    let joiner = Rc::new(RefCell::new(None));
    let started = Rc::clone(&joiner);
    let ended = node.block_on(upbeat::try_scope(async move |s| {
        let child = s.spawn(async {
            let _value = PanicsAsItIsDropped;
            pending::<Result<(), &str>>().await
        });
        *started.borrow_mut() = Some(inner.spawn(child));
        // The joiner waits when a task that was started after it has run.
        inner.spawn(async {}).await.unwrap();
        Err::<(), _>("ended")
    }));
    assert_eq!(ended, Err("ended"));
    let joiner = joiner.take().unwrap();
    let ended = node.block_on(async { upbeat::within(SOON, joiner).await.unwrap() });
    let told = ended.unwrap_err().to_string();
    assert!(told.contains("its scope has ended"), "{told}");
}

thread_local! {
    static KEPT: RefCell<Option<JoinHandle<()>>> = const { RefCell::new(None) };
}

/// A waker that, as it is dropped, awaits what is kept, and wakes another.
#[derive(Default)]
struct ActsAsItIsDropped(Mutex<Option<Waker>>);

impl Wake for ActsAsItIsDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for ActsAsItIsDropped {
    fn drop(&mut self) {
        if let Some(mut kept) = KEPT.take() {
            let _ = Pin::new(&mut kept).poll(&mut Context::from_waker(Waker::noop()));
        }
        self.0.lock().unwrap().take().into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_waker_that_is_replaced_may_do_anything_as_it_is_dropped() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("replaced wakers"));
    let node = Node::builder("replaced").local_only().build().unwrap();
    let polls_by_two = |mut future: Pin<&mut dyn Future<Output = ()>>, waker: Waker| {
        node.block_on(async {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
    };
    // The waker of a joiner awaits another task of the node.
    KEPT.set(Some(node.spawn(pending())));
    let task = node.spawn(pending::<()>());
    polls_by_two(pin!(async { drop(task.await) }), Arc::<ActsAsItIsDropped>::default().into());
    assert!(KEPT.take().is_none());
    // The waker of a scope's owner wakes a child of the scope.
    let acts = Arc::<ActsAsItIsDropped>::default();
    let given = Arc::clone(&acts);
    let scope = upbeat::scope(async move |s| {
        s.spawn(poll_fn(move |context| {
            *given.0.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }))
        .await;
    });
    polls_by_two(pin!(scope), acts.into());
}
