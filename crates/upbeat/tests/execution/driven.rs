//! Tests of a node that a future of a tokio runtime drives, beside other tasks of its thread.

use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, SOON, Watchdog, block_on, first, node, yield_now};
use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use upbeat::tokio_runtime::drive;
use upbeat::{CallError, Counter, Node, Waiting};

/// Less than the time after which a node that nobody wakes is looked at all the same.
const AT_ONCE: Duration = Duration::from_millis(700);

/// A node with a client of a server that sleeps, and a handle that watches the server.
struct Stand {
    node: Node,
    work: WorkClient,
    watcher: WorkHandle,
    _server: Server,
    _directory: Directory,
}

impl Stand {
    fn new(name: &str) -> Stand {
        let directory = Directory::new();
        let place: PathBuf = directory.path();
        let server = Server::start(Kind::Local, name, &place, Waiting::Sleeping);
        let node = node(&format!("{name}/client"), &place, Waiting::Sleeping);
        let work = node.block_on(node.connect(name)).unwrap();
        let watcher = upbeat::handle::builder().program(PROGRAM).directory(&place);
        let watcher = watcher.connect(name).unwrap();
        Stand { node, work, watcher, _server: server, _directory: directory }
    }

    /// Runs something beside a drive of the node in the same thread.
    fn beside<R>(&self, act: impl Future<Output = R>) -> R {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let node = self.node.clone();
        LocalSet::new().block_on(&runtime, async move {
            let drives = tokio::task::spawn_local(async move {
                drive(&node, pending::<()>()).await.unwrap();
            });
            let result = act.await;
            drives.abort();
            assert!(drives.await.unwrap_err().is_cancelled());
            result
        })
    }

    /// Waits until the node sleeps once more.
    async fn sleeps(&self) {
        let before = self.node.counted(Counter::Sleeps);
        let begun = Instant::now();
        while self.node.counted(Counter::Sleeps) == before {
            assert!(begun.elapsed() < SOON, "the node never sleeps");
            drop(self.node.spawn(async {}));
            yield_now().await;
        }
    }
}

/// Checks that something comes at once.
async fn at_once<F: Future>(what: &str, act: F) -> F::Output {
    let begun = Instant::now();
    let result = act.await;
    assert!(begun.elapsed() < AT_ONCE, "{what}: after {:?}", begun.elapsed());
    result
}

#[test]
fn other_tasks_of_the_thread_wake_the_node() {
    let _watchdog = Watchdog::new("a driven node that others wake");
    let stand = Stand::new("driven/woken");
    let (node, work) = (&stand.node, &stand.work);
    stand.beside(async {
        stand.sleeps().await;
        assert_eq!(at_once("a task", node.spawn(async { 7 })).await, Ok(7));
        stand.sleeps().await;
        let ran = Rc::new(Cell::new(false));
        let runs = Rc::clone(&ran);
        drop(node.spawn(async move { runs.set(true) }));
        let has_run = async {
            while !ran.get() {
                yield_now().await;
            }
        };
        at_once("a task of its own", has_run).await;
        stand.sleeps().await;
        assert_eq!(at_once("a call", work.add(1, 2)).await, Ok(3));
        stand.sleeps().await;
        let late = work.forever().deadline(Duration::from_millis(5));
        assert!(at_once("a deadline", late).await.is_err());
        stand.sleeps().await;
        work.note(1).await.unwrap();
        let noted = async { while stand.watcher.noted().await != Ok((1, 1, 0)) {} };
        at_once("a message", noted).await;
    });
}

/// Starts a task of the node when it is dropped.
struct Spawns(Rc<Cell<bool>>);

impl Drop for Spawns {
    fn drop(&mut self) {
        let ran = Rc::clone(&self.0);
        drop(upbeat::spawn(async move { ran.set(true) }));
    }
}

#[test]
fn a_drive_that_ends_leaves_the_node() {
    let _watchdog = Watchdog::new("drives that end");
    let stand = Stand::new("driven/left");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (work, watcher) = (&stand.work, &stand.watcher);
    let waiting = async |calls| {
        let begun = Instant::now();
        while watcher.waiting().await.unwrap().0 != calls {
            assert!(begun.elapsed() < SOON, "the server does not hear of {calls} calls");
        }
    };
    for midway in [false, true] {
        let ran = Rc::new(Cell::new(false));
        let spawns = Spawns(Rc::clone(&ran));
        let begins = async {
            let _spawns = spawns;
            let mut call = pin!(work.forever());
            poll_fn(|context| {
                assert!(call.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            waiting(1).await;
            if midway {
                pending::<()>().await;
            }
        };
        runtime.block_on(async {
            let driven = first(drive(&stand.node, begins), waiting(1)).await;
            assert_eq!(driven.is_err(), midway);
        });
        // The drive has ended, and so the server has been told; no code drives the client's node now.
        block_on(waiting(0));
        assert!(!ran.get());
        while stand.node.turn() {}
        assert!(ran.get());
    }
}

#[test]
fn a_blocking_call_beside_a_drive_is_refused() {
    let _watchdog = Watchdog::new("blocking calls beside a drive");
    let stand = Stand::new("driven/blocking");
    let blocking = stand.watcher.blocking();
    stand.beside(async {
        stand.sleeps().await;
        assert_eq!(blocking.add(1, 2), Err(CallError::WouldBlockNode));
        // Other nodes may be driven meanwhile.
        let other = Node::builder("driven/other").local_only().build().unwrap();
        assert_eq!(other.block_on(async { 7 }), 7);
        assert_eq!(blocking.add(1, 2), Err(CallError::WouldBlockNode));
    });
    assert_eq!(blocking.add(1, 2), Ok(3));
}
