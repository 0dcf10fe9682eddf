//! Tests of the leftovers of a dropped handle.

use crate::common::process::apart;
use crate::common::server::KINDS;
use crate::common::wait_until;
use crate::common::work::{WorkHandle, WorkServer, Worker};
use crate::common::{Directory, SOON, Signal, Watchdog, alone, block_on, node};
use crate::handles::{Stand, THREADS, connect};
use std::future::Future;
use std::path::PathBuf;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Returns where the descriptors of this process lead, and the number of threads of its handles. The test harness has
/// others, which come and go.
fn holdings() -> (Vec<PathBuf>, usize) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let threads = names.filter(|name| name.trim() == "upbeat-handle").count();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    // A descriptor that was closed meanwhile leads nowhere.
    let leads = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    // The first call that is sampled makes the memory for samples of its node: one of many calls, at any time.
    let samples = |path: &PathBuf| path.to_string_lossy().contains("upbeat-samples");
    (leads.filter(|path| !samples(path)).collect(), threads)
}

#[test]
fn a_dropped_handle_leaves_nothing() {
    apart(concat!(module_path!(), "::a_dropped_handle_leaves_nothing"), || {
        let _watchdog = Watchdog::new("a dropped handle");
        for kind in KINDS {
            let stand = Stand::new(kind);
            // The first handle makes everything that a process makes once.
            let once = stand.handle(Waiting::Adaptive).unwrap();
            block_on(once.null()).unwrap();
            drop(once);
            let mut before = holdings();
            // The first handle leaves its thread and its descriptors a little later.
            wait_until(|| {
                std::thread::sleep(Duration::from_millis(20));
                std::mem::replace(&mut before, holdings()) == before && before.1 == 0
            });
            for _ in 0..20 {
                let handle = stand.handle(Waiting::Adaptive).unwrap();
                block_on(handle.null()).unwrap();
                std::thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| handle.blocking().null().unwrap());
                    }
                });
                let mut open = Box::pin(handle.forever());
                assert!(open.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                // The thread takes its name when it first runs.
                wait_until(|| holdings().1 > 0);
                drop(open);
                drop(handle);
            }
            let begun = Instant::now();
            loop {
                let now = holdings();
                if now.0.len() <= before.0.len() && now.1 == 0 {
                    break;
                }
                assert!(begun.elapsed() < SOON, "{now:?} is left, and {before:?} was there before");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// A node's own thread may await a handle to it, which needs turns of the node to be connected.
#[test]
fn a_node_calls_itself_by_a_handle() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a node that calls itself"));
    let directory = Directory::new();
    let node = serving(&directory);
    let handle = connected(&node, &directory);
    assert_eq!(node.block_on(handle.add(1, 2)), Ok(3));
}

/// A handle that goes while its node is silent takes its thread along.
#[test]
fn a_handle_dropped_while_it_connects_leaves_nothing() {
    apart(concat!(module_path!(), "::a_handle_dropped_while_it_connects_leaves_nothing"), || {
        let _watchdog = Watchdog::new("a handle that is dropped early");
        let directory = Directory::new();
        let node = serving(&directory);
        let handle = connected(&node, &directory);
        let threads = || holdings().1;
        let mut before = threads();
        wait_until(|| {
            std::thread::sleep(Duration::from_millis(20));
            std::mem::replace(&mut before, threads()) == before
        });
        let sessions = node.sessions();
        let mut call = Box::pin(handle.null());
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The session stands, and nobody answers what its thread asks for then.
        while node.sessions() == sessions {
            node.turn();
        }
        drop(call);
        drop(handle);
        wait_until(|| threads() <= before);
    });
}

/// A node of this thread that serves.
fn serving(directory: &Directory) -> upbeat::Node {
    let node = node("itself", &directory.path(), Waiting::Adaptive);
    node.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
    node
}

/// A handle to a node that this thread drives meanwhile.
fn connected(node: &upbeat::Node, directory: &Directory) -> WorkHandle {
    let (place, done) = (directory.path(), Signal::default());
    let is_done = done.clone();
    let connecting = std::thread::spawn(move || {
        let handle = connect("itself", &place, Waiting::Adaptive);
        is_done.give();
        handle.unwrap()
    });
    node.block_on(done);
    connecting.join().unwrap()
}
