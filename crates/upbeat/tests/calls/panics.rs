//! Tests that a panic costs one call, or one task, and nothing else.

use crate::common::server::{KINDS, Stand};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, SOON, Signal, Watchdog, node, yield_now};
use serde::{Deserialize, Serialize, Serializer};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use upbeat::wire::Serde;
use upbeat::{CallError, Counter, Node, TaskEnded, Waiting};
use upbeat_core::frame::FailCode;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

async fn client(stand: &Stand) -> WorkClient {
    stand.node.connect(&stand.name()).await.unwrap()
}

#[test]
fn a_handler_that_panics_fails_its_call() {
    let _watchdog = Watchdog::new("panics");
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
    let _watchdog = Watchdog::new("long text");
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
    let _watchdog = Watchdog::new("nested");
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
    let _watchdog = Watchdog::new("a task's panic");
    let node = Node::builder("panicker").local_only().build().unwrap();
    let other = Node::builder("panicker/other").local_only().build().unwrap();
    node.block_on(async {
        let bad = node.spawn(async { panic!("on purpose") });
        let good = node.spawn(async {
            yield_now().await;
            5
        });
        assert_eq!(bad.await.unwrap_err().to_string(), "the task panicked: on purpose");
        assert_eq!(good.await, Ok(5));
        let inner = other.clone();
        let nested = node.spawn(async move { inner.block_on(async {}) });
        assert!(matches!(nested.await, Err(TaskEnded::Panicked { .. })));
        assert_eq!(node.counted(Counter::Panics), 2);
    });
    assert_eq!(other.block_on(async { 7 }), 7);
}

#[test]
fn the_driving_future_may_panic_and_the_node_can_be_driven_again() {
    let _watchdog = Watchdog::new("main panics");
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
        assert!(panicked.is_err());
        // The peer may have sent something more.
        while !stand.node.may_wait() {
            stand.node.turn();
        }
    }
}

/// A value that panics while it is written, if it is broken.
#[derive(Deserialize)]
struct Fragile {
    broken: bool,
}

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.broken {
            resume_unwind(Box::new("broken"));
        }
        serializer.serialize_bool(self.broken)
    }
}

#[upbeat::service]
trait Scales {
    async fn weigh(&self, what: Serde<Fragile>) -> bool;
    async fn hold(&self);
}

/// Holds what it is given until a signal.
struct Balance(Signal);

impl Scales for Balance {
    async fn hold(&self) {
        self.0.clone().await;
    }

    async fn weigh(&self, what: Serde<Fragile>) -> bool {
        what.0.broken
    }
}

/// A session has a fixed count of numbers for calls: none is lost with arguments that panic.
#[test]
fn arguments_that_panic_while_they_are_written_cost_no_number() {
    let _watchdog = Watchdog::new("fragile");
    let (directory, quit) = (Directory::new(), Signal::default());
    let place = directory.path();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stop = quit.clone();
        let server_place = place.clone();
        scope.spawn(move || {
            let server = node("scales", &server_place, Waiting::Adaptive);
            server.serve(ScalesServer::new(Balance(Signal::default()))).unwrap();
            ready.send(()).unwrap();
            server.block_on(stop);
        });
        is_ready.recv().unwrap();
        let fragile = |broken| Serde(Fragile { broken });
        let own = node("scales/client", &place, Waiting::Adaptive);
        own.block_on(async {
            let scales: ScalesClient = own.connect("scales").await.unwrap();
            for _ in 0..=CALLS_PER_SESSION_MAX {
                let mut call = pin!(scales.weigh(fragile(true)));
                let panicked = poll_fn(|context| {
                    let poll = AssertUnwindSafe(|| call.as_mut().poll(context).is_ready());
                    Poll::Ready(catch_unwind(poll))
                });
                assert_eq!(panicked.await.unwrap_err().downcast_ref(), Some(&"broken"));
            }
            assert_eq!(scales.weigh(fragile(false)).await, Ok(false));
        });
        let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
        let scales: ScalesHandle = handle.connect("scales").unwrap();
        let blocking = scales.blocking().deadline(Duration::from_secs(10));
        for _ in 0..=CALLS_PER_SESSION_MAX {
            let panicked = catch_unwind(AssertUnwindSafe(|| blocking.weigh(fragile(true))));
            assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"broken"));
        }
        assert_eq!(blocking.weigh(fragile(false)), Ok(false));
        quit.give();
    });
}

/// A blocking call that has waited for a number gives up its place and its turn when an argument panics.
#[test]
fn arguments_that_panic_in_their_turn_hold_up_no_other_call() {
    let _watchdog = Watchdog::new("fragile in turn");
    let (directory, quit, opens) = (Directory::new(), Signal::default(), Signal::default());
    let place = directory.path();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (stop, opened, server_place) = (quit.clone(), opens.clone(), place.clone());
        scope.spawn(move || {
            let server = node("scales/turn", &server_place, Waiting::Adaptive);
            server.serve(ScalesServer::new(Balance(opened))).unwrap();
            ready.send(()).unwrap();
            server.block_on(stop);
        });
        is_ready.recv().unwrap();
        let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
        let scales: ScalesHandle = handle.connect("scales/turn").unwrap();
        let weighs = |scales: &ScalesHandle, broken| {
            scales.blocking().deadline(SOON).weigh(Serde(Fragile { broken }))
        };
        let mut held: Vec<_> =
            (0..CALLS_PER_SESSION_MAX).map(|_| Box::pin(scales.hold())).collect();
        for call in &mut held {
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let beside = scales.clone();
        let waits = scope.spawn(move || {
            let panicked = catch_unwind(AssertUnwindSafe(|| weighs(&beside, true)));
            panicked.unwrap_err().downcast_ref() == Some(&"broken")
        });
        // The call waits by now. If it does not, it panics all the same.
        std::thread::sleep(Duration::from_millis(100));
        opens.give();
        assert!(waits.join().unwrap());
        assert_eq!(weighs(&scales, false), Ok(false));
        drop(held);
        quit.give();
    });
}

/// Some calls of one client panic in every turn of their node, at once and as tasks. Another client has its answer
/// meanwhile, and a timer fires.
#[test]
fn panics_in_a_row_hold_up_nothing_else() {
    let _watchdog = Watchdog::new("panics in a row");
    let directory = Directory::new();
    let make = |name| node(name, &directory.path(), Waiting::Adaptive);
    let [server, panics, calls] = ["row", "row/panics", "row/calls"].map(make);
    server.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
    let turn_all = || {
        [&panics, &calls, &server].iter().for_each(|node| {
            node.turn();
        });
    };
    let connected = |node: &Node| {
        let found = Rc::new(RefCell::new(None));
        let (node, finds) = (node.clone(), Rc::clone(&found));
        drop(node.clone().spawn(async move {
            *finds.borrow_mut() = Some(node.connect::<WorkClient>("row").await.unwrap());
        }));
        loop {
            if let Some(work) = found.take() {
                break work;
            }
            turn_all();
        }
    };
    let (fails, work) = (connected(&panics), connected(&calls));
    for at in 0..16 {
        let fails = fails.clone();
        let calls = async move { while fails.panics("no".into(), at % 2 == 1).await.is_err() {} };
        drop(panics.spawn(calls));
    }
    let before = server.counted(Counter::Panics);
    while server.counted(Counter::Panics) < before + 100 {
        turn_all();
    }
    let done = Rc::new(Cell::new(0));
    let [answered, slept, ended, accepted] = [(); 4].map(|()| Rc::clone(&done));
    let late = work.clone();
    drop(calls.spawn(async move {
        assert_eq!(work.add(1, 1).await, Ok(2));
        answered.set(answered.get() + 1);
    }));
    drop(calls.spawn(async move {
        let late = late.forever().deadline(Duration::from_millis(5)).await;
        assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
        ended.set(ended.get() + 1);
    }));
    let other = make("row/other");
    let connects = other.clone();
    drop(other.spawn(async move {
        let work: WorkClient = connects.connect("row").await.unwrap();
        assert_eq!(work.add(1, 2).await, Ok(3));
        accepted.set(accepted.get() + 1);
    }));
    drop(server.spawn(async move {
        upbeat::sleep(Duration::from_millis(1)).await;
        slept.set(slept.get() + 1);
    }));
    let begun = Instant::now();
    while done.get() < 4 {
        turn_all();
        other.turn();
        assert!(begun.elapsed() < SOON, "{} of 4 are done", done.get());
    }
}

#[upbeat::service]
trait Hopper {
    async fn stay(&self);
    #[oneway]
    async fn fall(&self, panics: bool);
}

#[derive(Default)]
struct Funnel {
    stays: Cell<bool>,
    fallen: Rc<Cell<u32>>,
}

impl Hopper for Funnel {
    async fn stay(&self) {
        self.stays.set(true);
        std::future::pending().await
    }

    async fn fall(&self, panics: bool) {
        self.fallen.set(self.fallen.get() + 1);
        if panics {
            resume_unwind(Box::new("it breaks"));
        }
    }
}

/// Accepted messages wait for room behind a handler. They run when their sender has gone, each behind one that panics.
#[test]
fn accepted_messages_behind_one_that_panics_run_at_the_end_of_their_session() {
    let _watchdog = Watchdog::new("panics at the end");
    let directory = Directory::new();
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let builder = Node::builder("hopper").program(PROGRAM).directory(directory.path());
        let server = builder.waiting(waiting).session_budget(1).build().unwrap();
        let funnel = Rc::new(Funnel::default());
        let fallen = Rc::clone(&funnel.fallen);
        server.serve(HopperServer::shared(Rc::clone(&funnel))).unwrap();
        let client = node("hopper/client", &directory.path(), waiting);
        let (to, sent) = (client.clone(), Rc::new(Cell::new(false)));
        let is_sent = Rc::clone(&sent);
        drop(client.spawn(async move {
            let hopper: HopperClient = to.connect("hopper").await.unwrap();
            let mut stays = pin!(hopper.stay());
            poll_fn(|context| Poll::Ready(stays.as_mut().poll(context).is_pending())).await;
            for at in 0..4 {
                hopper.fall(at % 2 == 0).await.unwrap();
            }
            is_sent.set(true);
            assert!(stays.await.is_err());
        }));
        let have_come = || server.counted(Counter::RefusedHere) == 4;
        while !(sent.get() && funnel.stays.get() && have_come()) {
            client.turn();
            server.turn();
        }
        assert_eq!(fallen.get(), 0, "the messages do not wait");
        client.shut_down(Duration::ZERO);
        drop(client);
        server.block_on(crate::common::until(|| server.sessions() == 0));
        assert_eq!((fallen.get(), server.counted(Counter::Panics)), (4, 2));
    }
}
