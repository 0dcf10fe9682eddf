//! The contract where the application computes: on another thread, or in loops with poll points.

use crate::common::executor::Panicking;
use crate::common::{Directory, SOON, Signal, Watchdog, node, soon, until, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use upbeat::{CallError, Compute, Counter, Node, TaskEnded, Waiting, poll_point};
use upbeat_core::frame::FailCode;
use upbeat_memory::counters;

#[upbeat::service]
trait Sums {
    async fn null(&self);
    /// Adds up on another thread.
    async fn sum(&self, upto: u64) -> u64;
    async fn computes_and_panics(&self);
    /// Passes so many poll points.
    async fn points(&self, count: u64);
    async fn counted(&self, counter: u64) -> u64;
}

struct Adder(Node);

impl Sums for Adder {
    async fn null(&self) {}

    async fn sum(&self, upto: u64) -> u64 {
        upbeat::compute(move || (1..=upto).sum()).await
    }

    async fn computes_and_panics(&self) {
        upbeat::compute(|| panic!("the sum is wrong")).await
    }

    async fn points(&self, count: u64) {
        for _ in 0..count {
            poll_point().await;
        }
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.0.counted(Counter::ALL[counter as usize])
    }
}

/// The main future of a server: computes beside its node until the signal is given.
type Drive = Box<dyn FnOnce(&Node, Signal) + Send>;

/// A server in another thread, and a client's node in this one.
struct Stand {
    node: Node,
    name: String,
    quit: Signal,
    thread: Option<JoinHandle<()>>,
    _directory: Directory,
}

impl Stand {
    fn new(waiting: Waiting, drive: Drive) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let (quit, (ready, is_ready)) = (Signal::default(), channel());
        let thread = {
            let (name, place, quit) = (format!("server/{name}"), place.clone(), quit.clone());
            std::thread::spawn(move || serve(&name, &place, waiting, quit, &ready, drive))
        };
        is_ready.recv().unwrap();
        let client = node(&format!("client/{name}"), &place, Waiting::Adaptive);
        let (name, thread) = (format!("server/{name}"), Some(thread));
        Stand { node: client, name, quit, thread, _directory: directory }
    }

    /// A server that is driven until it may end.
    fn plain(waiting: Waiting) -> Stand {
        Stand::new(waiting, Box::new(|node, quit| node.block_on(quit)))
    }

    async fn client(&self) -> SumsClient {
        self.node.connect(&self.name).await.unwrap()
    }

    /// Returns the value that the server shows of a counter.
    fn shown(&self, counter: Counter) -> u64 {
        let pages = counters::observe(std::process::id()).unwrap();
        let page = pages.iter().find(|page| page.node() == self.name).expect("the server's");
        page.get(counter.index()).unwrap()
    }

    fn sleeps(&self) -> bool {
        self.shown(Counter::Sleeps) > self.shown(Counter::Wakes)
    }
}

fn serve(
    name: &str,
    place: &Path,
    waiting: Waiting,
    quit: Signal,
    ready: &Sender<()>,
    drive: Drive,
) {
    let node = node(name, place, waiting);
    node.serve(SumsServer::new(Adder(node.clone()))).unwrap();
    ready.send(()).unwrap();
    drive(&node, quit);
    node.shut_down(Duration::from_secs(1));
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.quit.give();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

/// A closure that is under way until this is dropped.
fn held() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (release, released): (_, Receiver<()>) = channel();
    (release, move || released.recv().unwrap_or_default())
}

fn local(name: &str) -> Node {
    Node::builder(&format!("compute/{name}")).local_only().build().unwrap()
}

#[test]
fn what_is_computed_comes_back_and_panics_go_on_where_it_is_awaited() {
    let _watchdog = Watchdog::new("values");
    let stand = Stand::plain(Waiting::Adaptive);
    stand.node.block_on(async {
        let sums = stand.client().await;
        assert_eq!(soon(sums.sum(1000)).await, Ok(500_500));
        match soon(sums.computes_and_panics()).await {
            Err(CallError::Failed { code: FailCode::Panicked, text, .. }) => {
                assert_eq!(&*text, "the sum is wrong");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(soon(sums.sum(10)).await, Ok(55), "it serves on, and computes on");
        assert_eq!(sums.counted(Counter::Computations as u64).await, Ok(3));
    });
    let node = local("panics");
    let task = node.spawn(node.compute(|| -> u64 { panic!("in a task") }));
    let panicked = Err(TaskEnded::Panicked { text: "in a task".into() });
    assert_eq!(node.block_on(async { soon(task).await }), panicked);
    let panics = node.compute(|| panic!("in the main future"));
    let panic =
        catch_unwind(AssertUnwindSafe(|| node.block_on(async { soon(panics).await }))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"in the main future"));
    assert_eq!(node.block_on(async { soon(node.compute(|| 7)).await }), 7);
}

#[test]
fn more_computations_than_threads_are_all_done() {
    let _watchdog = Watchdog::new("many");
    let node = local("many");
    let all: Vec<Compute<u64>> = (0..1000).map(|n| node.compute(move || n)).collect();
    node.block_on(async {
        for (n, one) in all.into_iter().enumerate() {
            assert_eq!(soon(one).await, n as u64);
        }
    });
    assert_eq!(node.counted(Counter::Computations), 1000);
}

#[test]
fn who_asked_last_is_woken_when_it_is_computed() {
    let _watchdog = Watchdog::new("asked last");
    let node = local("last");
    let (release, hold) = held();
    let mut compute = Box::pin(node.compute(hold));
    node.block_on(async {
        // One task asks, and another one has it from there.
        let asked = node.spawn(async move {
            let polled = poll_fn(|context| Poll::Ready(compute.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            (compute,)
        });
        let (compute,) = asked.await.unwrap();
        let waits = node.spawn(compute);
        yield_now().await;
        drop(release);
        soon(waits).await.unwrap();
    });
}

#[test]
fn who_is_dropped_lets_the_closure_run_on_and_leaves_nothing() {
    let _watchdog = Watchdog::new("dropped");
    let node = local("dropped");
    let leftovers: Vec<(Sender<()>, Weak<()>)> = (0..2)
        .map(|at| {
            let (value, (release, hold)) = (Arc::new(()), held());
            let left = Arc::downgrade(&value);
            let compute = node.compute(move || {
                hold();
                value
            });
            let task = node.spawn(compute);
            if at == 0 {
                // Dropped before it was polled, the other with its node.
                drop(task);
            }
            (release, left)
        })
        .collect();
    while node.turn() {}
    node.shut_down(Duration::ZERO);
    drop(node);
    for (release, left) in leftovers {
        assert!(left.upgrade().is_some(), "it runs on");
        drop(release);
        let begun = Instant::now();
        while left.upgrade().is_some() {
            assert!(begun.elapsed() < SOON, "it is never dropped");
            std::thread::yield_now();
        }
    }
}

#[test]
fn beside_a_computation_every_node_sleeps_and_a_message_wakes_it() {
    let _watchdog = Watchdog::new("upcall");
    for waiting in [Waiting::Polling, Waiting::Adaptive, Waiting::Sleeping] {
        let (release, hold) = held();
        let drive: Drive = Box::new(|node, quit| {
            // The computation is not awaited, and its end still wakes the node.
            drop(node.compute(hold));
            node.block_on(quit);
        });
        let stand = Stand::new(waiting, drive);
        stand.node.block_on(async {
            let sums = stand.client().await;
            // The page that the node shows may be older than a reply, so the node itself counts.
            let before = sums.counted(Counter::MessagesWoken as u64).await.unwrap();
            for _ in 0..19 {
                let slept = stand.shown(Counter::Sleeps);
                sums.null().await.unwrap();
                until(|| stand.shown(Counter::Sleeps) > slept).await;
            }
            let upcalls = sums.counted(Counter::MessagesWoken as u64).await.unwrap() - before;
            // The question before them may have woken the node as well. A message that comes just before the sleep is
            // found by the last look.
            assert!((10..=20).contains(&upcalls), "{waiting:?}: {upcalls} of 20");
            until(|| stand.sleeps()).await;
            drop(release);
            if waiting != Waiting::Polling {
                return;
            }
            // The node polls again, and nothing wakes it any more.
            until(|| !stand.sleeps()).await;
            let woken = || stand.shown(Counter::MessagesWoken);
            let (sleeps, before) = (stand.shown(Counter::Sleeps), woken());
            let polled = sums.counted(Counter::MessagesPolled as u64).await.unwrap();
            for _ in 0..100 {
                sums.null().await.unwrap();
            }
            let now = sums.counted(Counter::MessagesPolled as u64).await.unwrap();
            assert_eq!(now - polled, 101);
            assert_eq!((stand.shown(Counter::Sleeps), woken()), (sleeps, before));
        });
    }
}

/// Loops until `stop` is set, with poll points or without.
fn looping(stop: &Arc<AtomicBool>, begun: Sender<()>, with_points: bool) -> Drive {
    let stop = Arc::clone(stop);
    Box::new(move |node, quit| {
        node.block_on(async {
            begun.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                if with_points {
                    poll_point().await;
                }
                std::hint::spin_loop();
            }
            quit.await;
        });
    })
}

#[test]
fn a_loop_with_poll_points_answers_and_lets_peers_in_and_one_without_does_not() {
    let _watchdog = Watchdog::new("loops");
    for with_points in [true, false] {
        let (stop, (begun, has_begun)) = (Arc::new(AtomicBool::new(false)), channel());
        let stand = Stand::new(Waiting::Adaptive, looping(&stop, begun, with_points));
        has_begun.recv().unwrap();
        stand.node.block_on(async {
            let calls = async {
                let sums = stand.client().await;
                for _ in 0..100 {
                    sums.null().await.unwrap();
                }
            };
            let mut calls = pin!(calls);
            if with_points {
                // The handshake too: sockets have their turn.
                calls.await;
                stop.store(true, Ordering::Relaxed);
                return;
            }
            let early = upbeat::within(Duration::from_millis(50), calls.as_mut()).await.is_ok();
            stop.store(true, Ordering::Relaxed);
            assert!(!early, "nobody could have answered");
            calls.await;
        });
    }
}

#[test]
fn timers_and_tasks_have_their_turn_at_poll_points() {
    let _watchdog = Watchdog::new("turns");
    let node = local("turns");
    let (slept, met) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let sleeper = Rc::clone(&slept);
    drop(node.spawn(async move {
        upbeat::sleep(Duration::from_millis(2)).await;
        sleeper.set(true);
    }));
    // Each goes on when the other has been there: they stand in the list together.
    let tasks = [0, 1].map(|at| {
        let met = Rc::clone(&met);
        node.spawn(async move {
            for round in 0..100 {
                while met.get() != 2 * round + at {
                    poll_point().await;
                }
                met.set(met.get() + 1);
            }
        })
    });
    node.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(met.get(), 200);
        while !slept.get() {
            poll_point().await;
        }
    });
}

/// Polls once.
fn once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn where_nothing_has_come_a_poll_point_does_not_wait() {
    let _watchdog = Watchdog::new("nothing");
    let node = local("nothing");
    let points = async |count: u32| {
        for _ in 0..count {
            poll_point().await;
        }
    };
    node.block_on(async {
        assert!(once(points(500)).is_ready());
        // Something that wants to run is something that has come.
        let task = node.spawn(async {});
        assert!(once(points(1)).is_pending());
        yield_now().await;
        assert!(once(points(1)).is_ready());
        task.await.unwrap();
        // So are those that the dispatcher has on its list behind the one that it polls.
        let first = node.spawn(async { once(poll_point()).is_pending() });
        let behind = node.spawn(async {});
        assert_eq!((first.await, behind.await), (Ok(true), Ok(())));
    });
}

#[test]
fn a_handler_makes_way_for_what_lies_behind_its_message_and_not_for_that() {
    let _watchdog = Watchdog::new("behind");
    let stand = Stand::plain(Waiting::Sleeping);
    stand.node.block_on(async {
        let sums = stand.client().await;
        for _ in 0..10 {
            sums.points(10).await.unwrap();
        }
        let promoted = async || sums.counted(Counter::PromotedByOther as u64).await.unwrap();
        assert_eq!(promoted().await, 0);
        // Both are sent before the server is rung.
        until(|| stand.sleeps()).await;
        let order = RefCell::new(Vec::new());
        let long = async {
            sums.points(100).await.unwrap();
            order.borrow_mut().push("long");
        };
        let short = async {
            sums.null().await.unwrap();
            order.borrow_mut().push("short");
        };
        let (mut long, mut short) = (pin!(long), pin!(short));
        let (mut a, mut b) = (false, false);
        poll_fn(|context| {
            a = a || long.as_mut().poll(context).is_ready();
            b = b || short.as_mut().poll(context).is_ready();
            if a && b { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(*order.borrow(), ["short", "long"]);
        assert_eq!(promoted().await, 1);
    });
}

#[test]
fn what_a_task_has_sent_goes_on_its_way_at_its_next_poll_point() {
    let _watchdog = Watchdog::new("sent");
    let stand = Stand::plain(Waiting::Sleeping);
    stand.node.block_on(async {
        let sums = stand.client().await;
        until(|| stand.sleeps()).await;
        assert!(once(poll_point()).is_ready());
        let mut call = pin!(sums.null());
        assert!(once(call.as_mut()).is_pending());
        assert!(once(poll_point()).is_pending(), "the server is not rung yet");
        call.await.unwrap();
    });
}

#[test]
fn outside_of_a_node_there_is_no_poll_point_and_nothing_to_compute_for() {
    let refused = catch_unwind(|| once(poll_point())).unwrap_err();
    let text = refused.downcast_ref::<String>().map_or("", String::as_str);
    assert!(text.contains("drives no node: write `node.block_on(async { … })`"), "{text}");
    assert!(catch_unwind(|| drop(upbeat::compute(|| 1))).is_err());
}

/// The thread of the computation wakes its waiter.
#[test]
fn the_panic_of_a_waker_that_the_computing_thread_wakes_is_counted() {
    let _watchdog = Watchdog::new("wakers of computations");
    let node = Node::builder("compute/waker").local_only().build().unwrap();
    node.block_on(async {
        let (ends, end) = channel();
        let mut computes = pin!(node.compute(move || end.recv().unwrap()));
        let waker = Arc::<Panicking>::default();
        waker.polls(computes.as_mut());
        ends.send(()).unwrap();
        until(|| waker.panics() == 1).await;
        computes.await;
        until(|| node.counted(Counter::Panics) == 1).await;
    });
}
