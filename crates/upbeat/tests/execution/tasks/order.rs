//! Priorities, yields, and that nobody is kept waiting for ever.

use super::{Gate, local, settle};
use crate::common::{Directory, PROGRAM, Watchdog, alone};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use upbeat::{CallError, Execution, Node, Priority, Start, yield_now};

#[upbeat::service]
trait Null {
    async fn null(&self);
}

struct Here;

impl Null for Here {
    async fn null(&self) {}
}

#[upbeat::service]
trait Slow {
    async fn compute(&self);
}

/// Computes for 100 us, and counts.
struct Computes(Rc<Cell<u32>>);

impl Slow for Computes {
    async fn compute(&self) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(100) {}
        self.0.set(self.0.get() + 1);
    }
}

/// The log of events, in order.
type Log = Rc<RefCell<Vec<u32>>>;

fn note(node: &Node, log: &Log, start: impl Into<Start>, what: u32) {
    let log = Rc::clone(log);
    drop(node.spawn_with(start, async move { log.borrow_mut().push(what) }));
}

#[test]
fn the_higher_run_first_equals_in_order_and_the_first_ahead_of_them() {
    let (_alone, node) = local("order");
    let log = Log::default();
    note(&node, &log, Priority::Low, 5);
    note(&node, &log, Priority::Low, 6);
    note(&node, &log, Priority::Normal, 3);
    note(&node, &log, Priority::Normal, 4);
    note(&node, &log, Priority::Normal.first(), 2);
    note(&node, &log, Priority::High, 1);
    note(&node, &log, Priority::High.first(), 0);
    settle(&node);
    assert_eq!(*log.borrow(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn one_that_is_woken_by_another_goes_before_those_that_were_ready_of_a_lower_priority() {
    let (_alone, node) = local("overtakes");
    let (log, gate) = (Log::default(), Gate::default());
    drop(node.spawn_with(Priority::High, {
        let (log, gate) = (Rc::clone(&log), gate.clone());
        async move {
            gate.pass().await;
            log.borrow_mut().push(1);
        }
    }));
    settle(&node);
    drop(node.spawn({
        let (log, gate) = (Rc::clone(&log), gate.clone());
        async move {
            log.borrow_mut().push(0);
            gate.open();
        }
    }));
    note(&node, &log, Priority::Normal, 2);
    note(&node, &log, Priority::Low, 3);
    settle(&node);
    assert_eq!(*log.borrow(), [0, 1, 2, 3]);
}

#[test]
fn nobody_is_starved_by_those_that_never_wait() {
    let (_alone, node) = local("starved");
    let polls = Rc::new(Cell::new(0_u32));
    let endless = |priority| {
        let polls = Rc::clone(&polls);
        node.spawn_with(priority, async move {
            loop {
                polls.set(polls.get() + 1);
                yield_now().await;
            }
        })
    };
    // More than are polled in a turn.
    let _high: Vec<_> = (0..40).map(|_| endless(Priority::High)).collect();
    let normal = node.spawn({
        let polls = Rc::clone(&polls);
        async move { polls.get() }
    });
    let normal = node.block_on(normal).unwrap();
    assert!(normal <= 16, "a normal task waited for {normal} polls of others");
    let _normal: Vec<_> = (0..40).map(|_| endless(Priority::Normal)).collect();
    let before = polls.get();
    let low = node.spawn_with(Priority::Low, {
        let polls = Rc::clone(&polls);
        async move { polls.get() }
    });
    // This future itself is one of the normal ones, and has to be woken as well.
    let low = node.block_on(low).unwrap() - before;
    assert!(low <= 64, "a low task waited for {low} polls of others");
}

#[test]
fn one_that_yields_goes_behind_those_that_are_ready() {
    let (_alone, node) = local("yields");
    let log = Log::default();
    for task in 0..3 {
        let log = Rc::clone(&log);
        drop(node.spawn(async move {
            for round in 0..3 {
                log.borrow_mut().push(10 * round + task);
                yield_now().await;
            }
        }));
    }
    settle(&node);
    assert_eq!(*log.borrow(), [0, 1, 2, 10, 11, 12, 20, 21, 22]);
}

#[test]
fn messages_go_before_one_that_yields_and_between_a_few_polls_of_many() {
    let (_alone, server) = local("order/server");
    let client = Node::builder("order/client").program("tasks").local_only().build().unwrap();
    server.serve(NullServer::new(Here)).unwrap();
    let polls = Rc::new(Cell::new(0_u32));
    for _ in 0..1000 {
        let polls = Rc::clone(&polls);
        drop(server.spawn(async move {
            loop {
                polls.set(polls.get() + 1);
                yield_now().await;
            }
        }));
    }
    let calls = client.spawn({
        let (client, polls) = (client.clone(), Rc::clone(&polls));
        async move {
            let service: NullClient = client.connect("order/server").await.unwrap();
            let mut worst = 0;
            for _ in 0..20 {
                let before = polls.get();
                service.null().await.unwrap();
                worst = worst.max(polls.get() - before);
            }
            worst
        }
    });
    let mut calls = std::pin::pin!(calls);
    let mut context = Context::from_waker(Waker::noop());
    let worst = loop {
        server.turn();
        client.turn();
        if let Poll::Ready(worst) = calls.as_mut().poll(&mut context) {
            break worst;
        }
    };
    // The client's turn, then the server's, each of which looks at the lanes first.
    assert!(worst.as_ref().is_ok_and(|worst| *worst <= 64), "a call waited for {worst:?} polls");
}

/// Each pass over the tasks ends with a panic. The lanes are looked at behind the second one.
#[test]
fn a_turn_polls_few_tasks_also_where_they_panic_in_a_row() {
    let (_alone, node) = local("row");
    let polls = Rc::new(Cell::new(0));
    for at in 1..=2000 {
        let polls = Rc::clone(&polls);
        drop(node.spawn(async move {
            polls.set(polls.get() + 1);
            if at % 32 == 0 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }));
    }
    while polls.get() < 2000 {
        let before = polls.get();
        node.turn();
        let polled = polls.get() - before;
        assert!((1..=64).contains(&polled), "{polled} polls in one turn");
    }
}

/// A task is on the list once, although replies poll it while it is there and it yields in each poll.
#[test]
fn one_that_yields_and_is_answered_is_polled_no_more_often_for_that() {
    let (_alone, server) = local("often/server");
    let client = Node::builder("often/client").program("tasks").local_only().build().unwrap();
    server.serve(NullServer::new(Here)).unwrap();
    let polls = Rc::new(Cell::new(0_u32));
    let calls = client.spawn({
        let (client, polls) = (client.clone(), Rc::clone(&polls));
        async move {
            let service: NullClient = client.connect("often/server").await.unwrap();
            for _ in 0..200 {
                let mut call = std::pin::pin!(service.null());
                let each = std::future::poll_fn(|context| {
                    polls.set(polls.get() + 1);
                    context.waker().wake_by_ref();
                    call.as_mut().poll(context)
                });
                each.await.unwrap();
            }
        }
    });
    let mut calls = std::pin::pin!(calls);
    let mut context = Context::from_waker(Waker::noop());
    let mut most = 0;
    while calls.as_mut().poll(&mut context).is_pending() {
        server.turn();
        let before = polls.get();
        client.turn();
        most = most.max(polls.get() - before);
    }
    // By its reply, and then anew for the next call; and from the list.
    assert!((2..=4).contains(&most), "{most} polls in one turn");
}

#[test]
fn a_sleep_beside_tasks_that_compute_and_yield_is_late_by_one_poll_of_each() {
    let (_alone, node) = local("late");
    let polls = Rc::new(Cell::new(0));
    for _ in 0..32 {
        let polls = Rc::clone(&polls);
        drop(node.spawn(async move {
            loop {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(1) {}
                polls.set(polls.get() + 1);
                yield_now().await;
            }
        }));
    }
    let passed = node.block_on(async {
        let before = polls.get();
        upbeat::sleep(Duration::from_millis(1)).await;
        polls.get() - before
    });
    // The time is over within two polls, and a tick comes within two. The future that sleeps has its turn behind one
    // poll of each task.
    assert!(passed <= 4 + 32, "{passed} polls passed");
}

#[test]
fn a_sleep_and_a_caller_beside_many_callers_are_late_by_a_few_calls_of_each() {
    const CALLERS: u32 = 64;
    let (_alone, _watchdog) = (alone(), Watchdog::new("late beside callers"));
    let directory = Directory::new();
    for execution in [Execution::Orpc, Execution::Trpc] {
        let make = |name: &str| {
            let builder = Node::builder(name).program(PROGRAM).directory(directory.path());
            builder.execution(execution).build().unwrap()
        };
        let (server, calls) = (make("slow"), Rc::new(Cell::new(0)));
        server.serve(SlowServer::new(Computes(Rc::clone(&calls)))).unwrap();
        let callers: Vec<Node> = (0..CALLERS).map(|at| make(&format!("caller{at}"))).collect();
        let turn_all = || {
            callers.iter().for_each(|caller| {
                caller.turn();
            });
            server.turn();
        };
        let called = Rc::new(Cell::new(0));
        for caller in &callers {
            let (node, called) = (caller.clone(), Rc::clone(&called));
            drop(caller.spawn(async move {
                let slow: SlowClient = node.connect("slow").await.unwrap();
                slow.compute().await.unwrap();
                called.set(called.get() + 1);
                while slow.compute().await.is_ok() {}
            }));
        }
        while called.get() < CALLERS {
            turn_all();
        }
        let begun = calls.get();
        let over = Rc::new(Cell::new(false));
        let wakes = Rc::clone(&over);
        drop(server.spawn(async move {
            upbeat::sleep(Duration::from_millis(1)).await;
            wakes.set(true);
        }));
        // The sleep begins in one turn, its time is over in the next, and it ends in the one behind that.
        while !over.get() {
            turn_all();
            let passed = calls.get() - begun;
            assert!(passed <= 4 * CALLERS, "{passed} calls passed");
        }
        // Another caller is accepted and answered.
        let (late, connected) = (make("late"), Rc::new(Cell::new(false)));
        let (node, connects) = (late.clone(), Rc::clone(&connected));
        drop(late.spawn(async move {
            let slow: SlowClient = node.connect("slow").await.unwrap();
            slow.compute().await.unwrap();
            connects.set(true);
        }));
        let begun = calls.get();
        while !connected.get() {
            late.turn();
            turn_all();
            let passed = calls.get() - begun;
            assert!(passed <= 10 * CALLERS, "{passed} calls passed");
        }
    }
}

/// Loops that turn their nodes sixty times a second, as a game's or a window's does, and never wait for them.
#[test]
fn nodes_of_slow_loops_look_at_their_sockets_in_each_turn() {
    let _watchdog = Watchdog::new("slow loops");
    let directory = Directory::new();
    let make = |name: &str| {
        Node::builder(name).program(PROGRAM).directory(directory.path()).build().unwrap()
    };
    let (server, client) = (make("server"), make("client"));
    server.serve(NullServer::new(Here)).unwrap();
    let (node, answered) = (client.clone(), Rc::new(Cell::new(false)));
    let answers = Rc::clone(&answered);
    drop(client.spawn(async move {
        let null: NullClient = node.connect("server").await.unwrap();
        upbeat::sleep(Duration::from_millis(20)).await;
        null.null().await.unwrap();
        answers.set(true);
    }));
    let mut turns = 0;
    while !answered.get() {
        server.turn();
        client.turn();
        turns += 1;
        assert!(turns <= 20, "{turns} turns of each");
        std::thread::sleep(Duration::from_millis(16));
    }
}

#[test]
fn a_sleep_counts_from_its_first_poll_and_a_deadline_from_where_it_is_set() {
    let (_alone, node) = local("counts");
    node.serve(NullServer::new(Here)).unwrap();
    let ms = Duration::from_millis;
    node.block_on(async {
        let sleep = upbeat::sleep(ms(20));
        std::thread::sleep(ms(20));
        let polled = Instant::now();
        sleep.await;
        assert!(polled.elapsed() >= ms(20));
        let null: NullClient = node.connect("counts").await.unwrap();
        let call = null.null().deadline(ms(1));
        std::thread::sleep(ms(2));
        assert!(matches!(call.await, Err(CallError::Deadline { .. })));
    });
}
