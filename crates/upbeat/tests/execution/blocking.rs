//! Handlers and tasks that block the thread of their node are found and named, however they block it.

use crate::common::left_out::leave_out;
use crate::common::process::one_test;
use crate::common::{Directory, Signal, Watchdog, block_on, node};
use crate::warning;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use upbeat::{Counter, Node, OverRun, Waiting};

/// The time of a blocking call: much longer than a node notices.
const NAP: Duration = Duration::from_millis(20);
/// The calls that may be blamed although they do not block: the kernel does not say when the host of a virtual machine
/// has stopped a processor.
const STOLEN: u64 = 1;

#[upbeat::service]
trait Files {
    async fn quick(&self);
    /// Blocks its thread where its message lies.
    async fn reads(&self);
    /// Blocks its thread for so many microseconds if the number is a multiple of another.
    async fn sometimes(&self, number: u64, of: u64, us: u64);
    /// Computes for so many microseconds, within its budget.
    async fn computes(&self, us: u64);
    /// The over-runs of methods and tasks: service, method, count, and how many of them blocked.
    async fn over_runs(&self) -> Vec<(String, String, u64, u64)>;
    async fn counted(&self, counter: u64) -> u64;
}

struct Disk(Node);

impl Files for Disk {
    async fn quick(&self) {}

    async fn reads(&self) {
        std::thread::sleep(NAP);
    }

    async fn sometimes(&self, number: u64, of: u64, us: u64) {
        if number.is_multiple_of(of) {
            std::thread::sleep(Duration::from_micros(us));
        }
    }

    async fn computes(&self, us: u64) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    }

    async fn over_runs(&self) -> Vec<(String, String, u64, u64)> {
        let told = |one: OverRun| (one.service.into(), one.method.into(), one.count, one.blocked);
        self.0.over_runs().into_iter().map(told).collect()
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.0.counted(Counter::ALL[counter as usize])
    }
}

/// Gives a signal when it is dropped, also by a panic.
struct Gives(Signal);

impl Drop for Gives {
    fn drop(&mut self) {
        self.0.give();
    }
}

/// Ends a thread's work at its end, also if that is a panic.
struct Sets<'d>(&'d AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves in a thread of its own, beside `main`, while `calls` runs with a client.
fn served<F: Future<Output = ()>>(
    waiting: Waiting,
    main: impl FnOnce(&Node) + Send,
    calls: impl FnOnce(Node, FilesClient) -> F,
) {
    let directory = Directory::new();
    let (place, stop) = (directory.path(), Signal::default());
    let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let [name, reader] = ["files", "reader"].map(|name| format!("{id}/{name}"));
    std::thread::scope(|scope| {
        let (ready, stopped) = (Signal::default(), stop.clone());
        let (serves, name, there) = (ready.clone(), &name, &place);
        scope.spawn(move || {
            let node = node(name, there, waiting);
            node.serve(FilesServer::new(Disk(node.clone()))).unwrap();
            main(&node);
            serves.give();
            node.block_on(stopped);
        });
        let _stops = Gives(stop);
        block_on(ready);
        let client = node(&reader, &place, Waiting::Adaptive);
        client.block_on(async {
            let files: FilesClient = client.connect(name).await.unwrap();
            calls(client.clone(), files).await;
        });
    });
}

/// Returns the count of a method's over-runs, and of those that blocked.
async fn of(files: &FilesClient, method: &str) -> (u64, u64) {
    let all = files.over_runs().await.unwrap();
    all.iter().find(|one| one.1 == method).map_or((0, 0), |one| (one.2, one.3))
}

#[test]
fn a_handler_that_blocks_where_its_message_lies_is_named() {
    let _watchdog = Watchdog::new("blocking handlers");
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        served(
            waiting,
            |_| {},
            async |_, files| {
                let (mut count, mut blocked) = (0, 0);
                // On a busy machine a call is excused whose thread waited for a processor just before.
                for calls in 1.. {
                    files.reads().await.unwrap();
                    files.quick().await.unwrap();
                    (count, blocked) = of(&files, "reads").await;
                    assert!(count <= calls && calls < 2_000, "{:?}", files.over_runs().await);
                    if blocked >= 5 {
                        break;
                    }
                }
                assert!(count >= blocked);
                assert!(of(&files, "quick").await.1 <= STOLEN, "{:?}", files.over_runs().await);
                let counted = files.counted(Counter::Blocked.index() as u64).await.unwrap();
                assert!(counted >= blocked, "{counted} {blocked}");
            },
        );
    }
}

#[test]
fn a_handler_that_blocks_among_many_others_is_named() {
    let _watchdog = Watchdog::new("rare blocking handlers");
    served(
        Waiting::Adaptive,
        |_| {},
        async |client, files| {
            let files = Rc::new(files);
            // All callers but one call what is quick; in every turn of the server there are several of their calls.
            let done = Rc::new(Cell::new(false));
            for _ in 0..16 {
                let (files, done) = (Rc::clone(&files), Rc::clone(&done));
                drop(client.spawn(async move {
                    while !done.get() {
                        files.quick().await.unwrap();
                    }
                }));
            }
            let mut number = 0;
            while of(&files, "sometimes").await.1 < 3 {
                assert!(number < 40_000, "{:?}", files.over_runs().await);
                for _ in 0..500 {
                    number += 1;
                    files.sometimes(number, 100, 3_000).await.unwrap();
                }
            }
            assert!(of(&files, "quick").await.1 <= STOLEN, "{:?}", files.over_runs().await);
            done.set(true);
        },
    );
}

#[test]
fn a_task_that_blocks_its_node_is_named() {
    let _watchdog = Watchdog::new("blocking tasks");
    let blocks = |node: &Node| {
        let (node, directory) = (node.clone(), node.clone());
        drop(node.spawn(async move {
            // The first polls are those of a woken task, and the others those of a task whose call is answered.
            for _ in 0..3 {
                upbeat::sleep(Duration::from_millis(1)).await;
                std::thread::sleep(NAP);
            }
            let files: FilesClient = directory.connect(&directory.name()).await.unwrap();
            loop {
                files.quick().await.unwrap();
                std::thread::sleep(NAP / 4);
                upbeat::sleep(Duration::from_millis(2)).await;
            }
        }));
    };
    served(Waiting::Adaptive, blocks, async |_, files| {
        let mut calls = 0;
        while of(&files, "task").await.1 < 6 {
            calls += 1;
            assert!(calls < 20_000, "{:?}", files.over_runs().await);
            files.quick().await.unwrap();
        }
        assert!(of(&files, "quick").await.1 <= STOLEN, "{:?}", files.over_runs().await);
    });
}

/// Says that it was asked to: in other processes this is a test of nothing.
const BLOCKS: &str = "UPBEAT_TEST_BLOCKS";

#[test]
fn blocks() {
    if std::env::var_os(BLOCKS).is_some() {
        served(
            Waiting::Adaptive,
            |_| {},
            async |_, files| {
                // On a busy machine a call also waits for a processor, and is then not blamed.
                for _ in 0..100 {
                    files.reads().await.unwrap();
                }
            },
        );
    }
}

#[test]
fn a_blocking_method_is_reported_once_with_the_remedies() {
    let _watchdog = Watchdog::new("reports of blocking");
    let mut command = one_test(concat!(module_path!(), "::blocks"));
    let output = command.env(BLOCKS, "1").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let told = warning(&text, "`Files.reads` blocked its thread");
    for part in [
        "upbeat: a handler of `Files.reads` blocked its thread",
        "`upbeat::sleep(…).await` for `std::thread::sleep`",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

/// Has this thread run on the first processor that it may run on, and on no other.
fn pinned() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

#[test]
fn a_handler_that_lost_its_processor_is_not_blamed() {
    let _watchdog = Watchdog::new("preempted handlers");
    if !std::fs::exists("/proc/thread-self/schedstat").unwrap() {
        leave_out("this kernel keeps no account of threads");
        return;
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Sets(&done);
        // A thread that computes wants the processor of the server.
        scope.spawn(|| {
            pinned();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let crowd = |node: &Node| {
            node.set_sampling(1);
            pinned();
        };
        served(Waiting::Polling, crowd, async |client, files| {
            client.set_sampling(1);
            for _ in 0..2_000 {
                files.computes(60).await.unwrap();
            }
            // Between 50 and 130 lose the processor on the way. The kernel does not say when the host of a virtual machine
            // stopped a processor, so a few are blamed.
            let (count, _) = of(&files, "computes").await;
            assert!(count <= 30, "{:?}", files.over_runs().await);
        });
    });
}

#[cfg(feature = "tokio")]
#[test]
fn a_handler_that_blocks_a_runtime_is_named() {
    let _watchdog = Watchdog::new("blocking a runtime");
    let directory = Directory::new();
    let place = directory.path();
    let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let [name, reader] = ["files", "reader"].map(|name| format!("{id}/{name}"));
    let (ready, stop) = (Signal::default(), Signal::default());
    std::thread::scope(|scope| {
        let (serves, stopped, name, there) = (ready.clone(), stop.clone(), &name, &place);
        scope.spawn(move || {
            let node = node(name, there, Waiting::Adaptive);
            node.serve(FilesServer::new(Disk(node.clone()))).unwrap();
            serves.give();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(upbeat::tokio_runtime::drive(&node, stopped)).unwrap();
        });
        let _stops = Gives(stop);
        block_on(ready);
        let client = node(&reader, &place, Waiting::Adaptive);
        client.block_on(async {
            let files: FilesClient = client.connect(name).await.unwrap();
            for calls in 1.. {
                assert!(calls < 2_000, "{:?}", files.over_runs().await);
                files.reads().await.unwrap();
                if of(&files, "reads").await.1 >= 3 {
                    break;
                }
            }
        });
    });
}
