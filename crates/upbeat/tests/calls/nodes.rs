//! A node and who drives it: a foreign loop, tasks, its end.

use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{BEGINS, Directory, Signal, Watchdog, node, yield_now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use upbeat::{ConnectError, Node, TaskEnded, Waiting};

/// How often a foreign loop has turned and has waited.
#[derive(Debug, Default)]
struct Driven {
    turns: u64,
    waits: u64,
}

/// Drives nodes as a program with a poll loop of its own would, until `done`.
fn drive(nodes: &[&Node], done: impl Fn() -> bool) -> Driven {
    let mut driven = Driven::default();
    while !done() {
        driven.turns += 1;
        let busy = nodes.iter().fold(false, |busy, node| node.turn() | busy);
        if busy || !nodes.iter().all(|node| node.may_wait()) {
            continue;
        }
        let fds: Vec<_> = nodes.iter().map(|node| node.as_fd()).collect();
        let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // No time limit is needed: what must happen at a time is the descriptor's business. The
        // watchdog's word is better than a loop without an end.
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert!(poll(&mut polled, Some(&limit)).unwrap() > 0, "nothing came");
        driven.waits += 1;
    }
    driven
}

#[test]
fn a_foreign_loop_serves() {
    let _watchdog = Watchdog::new("foreign server");
    let directory = Directory::new();
    let place = directory.path();
    let name = format!("foreign/{}", place.parent().unwrap().file_name().unwrap().display());
    let node = node(&name, &place, Waiting::Adaptive);
    let worker = Worker::default();
    let quit = worker.quit.clone();
    node.serve(WorkServer::new(worker)).unwrap();
    let client = std::thread::spawn(move || {
        let node = crate::common::node(&format!("{name}/client"), &place, Waiting::Sleeping);
        node.block_on(async {
            let work: WorkClient = node.connect(&name).await.unwrap();
            for n in 0..300 {
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
                assert_eq!(work.nap(1, n).await, Ok(n));
                if n % 50 == 0 {
                    assert_eq!(work.bytes(vec![1; 200_000]).await, Ok(vec![1; 200_000]));
                    upbeat::sleep(Duration::from_millis(5)).await;
                }
            }
            work.quit().await.unwrap();
        });
    });
    let driven = drive(&[&node], || quit.given());
    client.join().unwrap();
    // The node sleeps between calls, and does not spin.
    assert!(driven.waits > 300 && driven.turns < 30_000, "{driven:?}");
}

#[test]
fn a_foreign_loop_calls() {
    let _watchdog = Watchdog::new("foreign client");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            let done = Rc::new(Cell::new(false));
            let (node, name, ended) = (stand.node.clone(), stand.name(), Rc::clone(&done));
            let task = stand.node.spawn(async move {
                let work: WorkClient = node.connect(&name).await.unwrap();
                for n in 0..300 {
                    assert_eq!(work.add(n, 1).await, Ok(n + 1));
                }
                upbeat::sleep(Duration::from_millis(30)).await;
                assert_eq!(work.nap(20, 4).await, Ok(4));
                ended.set(true);
            });
            let driven = drive(&[&stand.node], || done.get());
            assert!(driven.turns < 30_000, "{driven:?}");
            assert_eq!(stand.node.block_on(task), Ok(()));
        }
    }
}

#[test]
fn a_foreign_loop_hears_other_threads_and_its_clock() {
    let _watchdog = Watchdog::new("foreign wakes");
    let node = Node::builder("foreign/wakes").local_only().build().unwrap();
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let (ask, asked) = std::sync::mpsc::channel::<Signal>();
    let other = std::thread::spawn(move || asked.iter().for_each(|signal| signal.give()));
    let task = node.spawn(async move {
        for _ in 0..100 {
            let signal = Signal::default();
            ask.send(signal.clone()).unwrap();
            signal.await;
            upbeat::sleep(Duration::from_millis(1)).await;
            counted.set(counted.get() + 1);
        }
    });
    let driven = drive(&[&node], || count.get() == 100);
    assert!(driven.turns < 3000, "{driven:?}");
    drive(&[&node], || true);
    node.block_on(task).unwrap();
    other.join().unwrap();
}

#[test]
fn two_nodes_in_one_loop() {
    let _watchdog = Watchdog::new("one loop");
    let server = Node::builder("one/server").program("loop").local_only().build().unwrap();
    server.serve(WorkServer::new(Worker::default())).unwrap();
    let client = Node::builder("one/client").program("loop").local_only().build().unwrap();
    let done = Rc::new(Cell::new(false));
    let (node, ended) = (client.clone(), Rc::clone(&done));
    let task = client.spawn(async move {
        let work: WorkClient = node.connect("one/server").await.unwrap();
        for n in 0..1000 {
            assert_eq!(work.add(n, 1).await, Ok(n + 1));
        }
        ended.set(true);
    });
    drive(&[&client, &server], || done.get());
    client.block_on(task).unwrap();
}

/// A server and a client's node in one thread, whose loops are the test's own, and what they share.
struct Pair {
    server: Node,
    client: Node,
    work: WorkClient,
    worker: Rc<Worker>,
    lost: Rc<Cell<bool>>,
}

impl Pair {
    fn new(name: &str) -> Pair {
        let lost = Rc::new(Cell::new(false));
        let losing = Rc::clone(&lost);
        let server = Node::builder(&format!("{name}/server")).program("loop").local_only();
        let server = server.on_lost(move |_| losing.set(true)).build().unwrap();
        let worker = Rc::<Worker>::default();
        server.serve(WorkServer::shared(Rc::clone(&worker))).unwrap();
        let client = Node::builder(&format!("{name}/client")).program("loop").local_only();
        let client = client.build().unwrap();
        let (node, to, given) = (client.clone(), server.name(), Rc::new(Cell::new(None)));
        let taken = Rc::clone(&given);
        drop(client.spawn(async move { given.set(node.connect(&to).await.ok()) }));
        let mut work: Option<WorkClient> = None;
        while work.is_none() {
            let _ = (server.turn(), client.turn());
            work = taken.take();
        }
        Pair { server, client, work: work.unwrap(), worker, lost }
    }

    /// Drives the server until something is so, with waits in between or without any, and gives
    /// what the last turn said of itself.
    fn drive_until(&self, waits: bool, is_so: impl Fn() -> bool) -> bool {
        let mut busy = false;
        while !is_so() {
            if waits && !busy && self.server.may_wait() {
                let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
                let mut polled = [PollFd::new(&self.server, PollFlags::IN)];
                assert!(poll(&mut polled, Some(&limit)).unwrap() > 0, "nothing came");
            }
            busy = self.server.turn();
        }
        busy
    }
}

#[test]
fn a_turn_in_which_the_application_ran_says_so() {
    let _watchdog = Watchdog::new("busy turns");
    for waits in [true, false] {
        // The last word of a peer, which is read together with its end.
        let pair = Pair::new("last-word");
        let work = pair.work.clone();
        drop(pair.client.spawn(async move { work.quit().await.unwrap() }));
        while pair.client.turn() {}
        pair.client.shut_down(Duration::ZERO);
        assert!(
            pair.drive_until(waits, || pair.worker.quit.given()),
            "a last word; waits: {waits}"
        );

        // The end of a peer.
        let pair = Pair::new("end");
        pair.client.shut_down(Duration::ZERO);
        assert!(pair.drive_until(waits, || pair.lost.get()), "an end; waits: {waits}");

        // A deadline, by which a handler is dropped.
        let pair = Pair::new("deadline");
        let work = pair.work.clone();
        drop(pair.client.spawn(async move {
            let _ = work.nap(60_000, 1).deadline(BEGINS).await;
        }));
        while pair.client.turn() {}
        // The handler may be over before the test has seen it wait.
        let over = || pair.worker.begun.get() == 1 && pair.worker.waiting.get() == 0;
        assert!(pair.drive_until(waits, over), "a deadline; waits: {waits}");
    }
}

#[test]
fn tasks_are_joined_in_any_order_and_may_be_let_go() {
    let _watchdog = Watchdog::new("join");
    let node = Node::builder("joins").local_only().build().unwrap();
    let ran = Rc::new(Cell::new(0));
    node.block_on(async {
        let tasks: Vec<_> = (0..1000_u64)
            .map(|n| {
                node.spawn(async move {
                    for _ in 0..n % 5 {
                        yield_now().await;
                    }
                    n
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate().rev() {
            assert_eq!(task.await, Ok(n as u64));
        }
        let counted = Rc::clone(&ran);
        drop(node.spawn(async move {
            yield_now().await;
            counted.set(1);
        }));
        while ran.get() == 0 {
            yield_now().await;
        }
    });
}

#[test]
fn a_node_that_is_shut_down_ends_its_tasks() {
    let _watchdog = Watchdog::new("tasks at the end");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let (node, name) = (stand.node.clone(), stand.name());
    let dropped = Rc::new(Cell::new(false));
    let alive = Rc::new(());
    let (held, on_drop) = (Rc::clone(&alive), OnDrop(Rc::clone(&dropped)));
    let task = stand.node.spawn(async move {
        let _kept = (held, on_drop);
        let work: WorkClient = node.connect(&name).await.unwrap();
        let _ = work.forever().await;
    });
    stand.node.block_on(upbeat_sleep(20));
    stand.node.shut_down(Duration::from_millis(50));
    assert!(dropped.get() && Rc::strong_count(&alive) == 1);
    assert_eq!(stand.node.block_on(task), Err(TaskEnded::ShutDown));
    let error = stand.node.block_on(stand.node.connect::<WorkClient>(&stand.name())).err();
    assert!(error.is_some(), "a node that was shut down opens no session");
}

#[test]
fn a_node_that_is_dropped_ends_too() {
    let _watchdog = Watchdog::new("dropped");
    for kind in KINDS {
        let Stand { mut node, server: _server, place, _directory } =
            Stand::new(kind, Waiting::Adaptive);
        let (own, name) = (node.name(), node.name().replace("client", "server"));
        for round in 0..3 {
            let dropped = Rc::new(Cell::new(false));
            let on_drop = OnDrop(Rc::clone(&dropped));
            let work: WorkClient = node.block_on(node.connect(&name)).unwrap();
            // The task keeps a client, and through that the node's inside.
            let endless = work.clone();
            let task = node.spawn(async move {
                let _kept = on_drop;
                let _ = endless.forever().await;
            });
            while node.block_on(work.waiting()).unwrap().0 == 0 {}
            drop(node);
            assert!(dropped.get(), "round {round}");
            // The name is free again at once, and the server has noticed.
            node = crate::common::node(&own, &place, Waiting::Adaptive);
            let work: WorkClient = node.block_on(node.connect(&name)).unwrap();
            while node.block_on(work.waiting()).unwrap().0 != 0 {}
            assert_eq!(node.block_on(task), Err(TaskEnded::ShutDown));
        }
    }
}

#[upbeat::service]
pub(crate) trait Opener {
    /// Returns whether the node serves more now.
    async fn open(&self) -> bool;
}

struct Shop(Node);

impl Opener for Shop {
    async fn open(&self) -> bool {
        self.0.serve(WorkServer::new(Worker::default())).is_ok()
    }
}

#[test]
fn a_handler_may_serve_more() {
    let _watchdog = Watchdog::new("more services");
    let node = Node::builder("shop").local_only().build().unwrap();
    node.serve(OpenerServer::new(Shop(node.clone()))).unwrap();
    node.block_on(async {
        let opener: OpenerClient = node.connect("shop").await.unwrap();
        let error = node.connect::<WorkClient>("shop").await.err();
        assert!(matches!(error, Some(ConnectError::NotServed { .. })), "{error:?}");
        assert_eq!(opener.open().await, Ok(true));
        let work: WorkClient = node.connect("shop").await.unwrap();
        assert_eq!(work.add(1, 2).await, Ok(3));
        assert_eq!(opener.open().await, Ok(false));
    });
    node.shut_down(Duration::from_secs(1));
}

#[test]
fn a_handle_is_not_made_inside_a_task() {
    let _watchdog = Watchdog::new("handle in a task");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    stand.node.block_on(async {
        let error = stand.node.handle::<crate::common::work::WorkHandle>(&stand.name()).err();
        assert!(matches!(error, Some(ConnectError::Call(upbeat::CallError::WouldBlockNode))));
    });
}

/// A sleep that may be made outside of a node.
async fn upbeat_sleep(ms: u64) {
    upbeat::sleep(Duration::from_millis(ms)).await;
}

struct OnDrop(Rc<Cell<bool>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}
