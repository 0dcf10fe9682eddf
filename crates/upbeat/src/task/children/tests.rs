//! Tests of scopes that are polled by hand.

use crate::task::{Child, Scope, all, race, scope, try_scope, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts how often the parent is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll<F: Future>(future: Pin<&mut F>, woken: &Arc<Woken>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken)))) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Polls a future until it is done or waits for an event outside of it.
fn settle<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let woken = Arc::new(Woken::default());
    loop {
        let value = poll(future.as_mut(), &woken);
        if value.is_some() || woken.0.swap(0, Ordering::Relaxed) == 0 {
            return value;
        }
    }
}

/// A wait that a test ends, with the number of its polls.
#[derive(Default)]
struct Gate {
    polls: Cell<u32>,
    open: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Gate {
    async fn pass(&self) {
        poll_fn(|context| {
            self.polls.set(self.polls.get() + 1);
            *self.waker.borrow_mut() = Some(context.waker().clone());
            if self.open.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn open(&self) {
        self.open.set(true);
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

struct OnDrop<'a>(&'a Cell<u32>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn only_woken_children_are_polled() {
    let gates: Vec<Gate> = (0..100).map(|_| Gate::default()).collect();
    let mut scope = pin!(scope(async |s: Scope<'_>| {
        for gate in &gates {
            s.spawn(gate.pass());
        }
    }));
    assert!(settle(scope.as_mut()).is_none());
    let woken = Arc::new(Woken::default());
    assert!(poll(scope.as_mut(), &woken).is_none());
    gates[7].open();
    gates[40].open();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "the parent is woken once");
    assert!(poll(scope.as_mut(), &woken).is_none());
    let polls = |gate: &Gate| gate.polls.get();
    assert_eq!(gates.iter().map(polls).sum::<u32>(), 102);
    assert_eq!([polls(&gates[7]), polls(&gates[40])], [2, 2]);
    gates.iter().for_each(Gate::open);
    assert_eq!(settle(scope), Some(()));
}

#[test]
fn children_borrow_and_change_what_their_parent_has() {
    let (mut left, mut right) = (1, 2);
    let log = RefCell::new(Vec::new());
    let sum = settle(pin!(scope(async |s: Scope<'_>| {
        let (left, right, log) = (&mut left, &mut right, &log);
        let inner = s.clone();
        let one = s.spawn(async move {
            *left += 10;
            // This child spawns another child of the scope.
            inner.spawn(async move { log.borrow_mut().push("grandchild") });
            *left
        });
        let two = s.spawn(async move {
            yield_now().await;
            *right += 20;
            log.borrow_mut().push("child");
            *right
        });
        two.await + one.await
    })));
    assert_eq!((sum, left, right), (Some(33), 11, 22));
    assert_eq!(log.into_inner(), ["grandchild", "child"]);
}

#[test]
fn a_nested_scope_that_is_dropped_midway_drops_all_its_children() {
    let (dropped, gate) = (&Cell::new(0), &Gate::default());
    let waits = move || {
        let held = OnDrop(dropped);
        async move {
            let _held = held;
            gate.pass().await;
        }
    };
    {
        let mut outer = pin!(scope(async |s: Scope<'_>| {
            s.spawn(scope(async move |s: Scope<'_>| {
                s.spawn(waits());
                s.spawn(waits());
            }));
            s.spawn(waits());
            // A child that holds its own scope does not keep it alive.
            let (own, waits) = (s.clone(), waits());
            s.spawn(async move {
                waits.await;
                drop(own);
            });
        }));
        assert!(settle(outer.as_mut()).is_none());
        assert_eq!((dropped.get(), gate.polls.get()), (0, 4));
    }
    assert_eq!(dropped.get(), 4);
}

#[test]
fn the_first_error_drops_the_others_and_is_the_result() {
    let dropped = Cell::new(0);
    let waits = async || {
        let _held = OnDrop(&dropped);
        pending::<Result<(), &str>>().await
    };
    let by_child = pin!(try_scope(async |s: crate::task::TryScope<'_, &str>| {
        s.spawn(waits());
        let bad = s.spawn(async {
            yield_now().await;
            Err::<u32, _>("child")
        });
        s.spawn(async {
            yield_now().await;
            yield_now().await;
            Err::<u32, _>("later")
        });
        Ok(bad.await)
    }));
    assert_eq!((settle(by_child), dropped.get()), (Some(Err("child")), 1));
    let by_body = pin!(try_scope(async |s: crate::task::TryScope<'_, &str>| {
        s.spawn(waits());
        yield_now().await;
        Err::<(), _>("body")
    }));
    assert_eq!((settle(by_body), dropped.get()), (Some(Err("body")), 2));
    // The body is done when a child fails for which the body did not wait.
    let behind = pin!(try_scope(async |s: crate::task::TryScope<'_, &str>| {
        s.spawn(async {
            yield_now().await;
            Err::<(), _>("behind")
        });
        Ok(())
    }));
    assert_eq!(settle(behind), Some(Err("behind")));
    let good = pin!(try_scope(async |s: crate::task::TryScope<'_, &str>| {
        let one = s.spawn(async { Ok(1) });
        Ok(one.await + 1)
    }));
    assert_eq!(settle(good), Some(Ok(2)));
}

#[test]
fn race_drops_the_losers_and_all_keeps_the_order() {
    let dropped = Cell::new(0);
    let turns = |turns: u32| {
        let held = OnDrop(&dropped);
        async move {
            let _held = held;
            for _ in 0..turns {
                yield_now().await;
            }
            turns
        }
    };
    assert_eq!(settle(pin!(race([3, 1, 2].map(turns)))), Some(1));
    assert_eq!(dropped.get(), 3);
    assert_eq!(settle(pin!(all([3, 0, 2].map(turns)))), Some(vec![3, 0, 2]));
    let none: [std::future::Ready<()>; 0] = [];
    assert_eq!(settle(pin!(all(none))), Some(vec![]));
}

#[test]
fn a_child_that_always_wakes_itself_lets_others_run() {
    let (gate, turns) = (Gate::default(), Cell::new(0));
    let mut scope = pin!(scope(async |s: Scope<'_>| {
        s.spawn(async {
            loop {
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        });
        s.spawn(gate.pass());
    }));
    let woken = Arc::new(Woken::default());
    for round in 1..=3 {
        assert!(poll(scope.as_mut(), &woken).is_none(), "a poll has an end");
        assert_eq!(woken.0.load(Ordering::Relaxed), round, "the parent is woken for the rest");
        assert!(turns.get() <= 32 * round, "a poll is bounded: {turns:?} in {round}");
    }
    assert_eq!(gate.polls.get(), 1);
}

#[test]
fn the_panic_of_a_child_is_the_panic_of_its_parent() {
    let dropped = Cell::new(0);
    let mut scope = Box::pin(scope(async |s: Scope<'_>| {
        let _held = OnDrop(&dropped);
        s.spawn(async {
            let _held = OnDrop(&dropped);
            pending::<()>().await;
        });
        s.spawn(async { panic!("in a child") });
        pending::<()>().await;
    }));
    let panicked = catch_unwind(AssertUnwindSafe(|| settle(scope.as_mut()))).unwrap_err();
    assert_eq!(panicked.downcast_ref(), Some(&"in a child"));
    drop(scope);
    assert_eq!(dropped.get(), 2);
}

#[test]
fn a_hundred_thousand_children_end_one_after_another() {
    const CHILDREN: usize = if cfg!(miri) { 100 } else { 100_000 };
    let gates: Vec<Gate> = (0..CHILDREN).map(|_| Gate::default()).collect();
    let mut all = pin!(all(gates.iter().map(Gate::pass)));
    assert!(settle(all.as_mut()).is_none());
    for gate in &gates {
        assert!(settle(all.as_mut()).is_none());
        gate.open();
    }
    assert_eq!(settle(all).map(|values| values.len()), Some(CHILDREN));
    assert!(gates.iter().all(|gate| gate.polls.get() == 2), "each was polled twice");
}

#[test]
fn a_child_spawned_after_the_scope_is_dropped() {
    let dropped = Cell::new(0);
    let kept = RefCell::new(None);
    settle(pin!(scope(async |s: Scope<'_>| *kept.borrow_mut() = Some(s)))).unwrap();
    let late = kept.take().unwrap();
    let held = OnDrop(&dropped);
    let child: Child<'_, ()> = late.spawn(async move { drop(held) });
    assert_eq!(dropped.get(), 1);
    let awaited = catch_unwind(AssertUnwindSafe(|| settle(pin!(child))));
    assert!(awaited.is_err());
}

#[test]
fn a_child_kept_beyond_its_scope_holds_nothing() {
    let (dropped, kept) = (&Cell::new(0), RefCell::new(None));
    let failed = settle(pin!(try_scope(async |s: crate::task::TryScope<'_, &str>| {
        let held = OnDrop(dropped);
        let waits = s.spawn(async move {
            let _held = held;
            pending::<Result<(), &str>>().await
        });
        *kept.borrow_mut() = Some(waits);
        yield_now().await;
        Err::<(), _>("over")
    })));
    assert_eq!((failed, dropped.get()), (Some(Err("over")), 1));
    assert!(kept.take().is_some());
}

#[test]
fn the_last_joiner_of_a_child_is_woken_at_its_end() {
    let (gate, joined) = (Gate::default(), Cell::new(false));
    let mut scope = pin!(scope(async |s: Scope<'_>| {
        let mut child = Box::pin(s.spawn(gate.pass()));
        // One task polls the child's handle, and then passes it on to another task.
        let asked = s.spawn(async move {
            let polled = poll_fn(|context| Poll::Ready(child.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            (child,)
        });
        let ((child,), joined) = (asked.await, &joined);
        s.spawn(async move {
            child.await;
            joined.set(true);
        });
        pending::<()>().await;
    }));
    assert!(settle(scope.as_mut()).is_none() && !joined.get());
    gate.open();
    assert!(settle(scope.as_mut()).is_none());
    assert!(joined.get(), "the joiner was not woken");
}

#[test]
fn a_child_that_is_spawned_while_the_parent_waits_wakes_it() {
    let kept: Rc<RefCell<Option<Scope<'_>>>> = Rc::default();
    let given = Rc::clone(&kept);
    let ran = Rc::new(Cell::new(false));
    let mut scope = pin!(scope(async move |s: Scope<'_>| {
        *given.borrow_mut() = Some(s);
        pending::<()>().await;
    }));
    let woken = Arc::new(Woken::default());
    assert!(poll(scope.as_mut(), &woken).is_none());
    let seen = Rc::clone(&ran);
    let late = kept.borrow_mut().take().unwrap();
    late.spawn(async move { seen.set(true) });
    assert_eq!((woken.0.load(Ordering::Relaxed), ran.get()), (1, false));
    assert!(poll(scope.as_mut(), &woken).is_none());
    assert!(ran.get());
}
