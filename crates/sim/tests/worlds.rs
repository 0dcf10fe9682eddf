//! Programs of nodes and handles in simulated worlds.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;
use upbeat::Node;
use upbeat_sim::{Ended, Outcome, run, spawn};

/// A counter.
#[upbeat::service]
trait Counter {
    /// Adds, and returns the sum.
    async fn add(&self, by: u64) -> u64;
    /// Adds after a time.
    async fn add_later(&self, by: u64, ms: u64) -> u64;
}

#[derive(Default)]
struct Sum {
    sum: Cell<u64>,
}

impl Counter for Sum {
    async fn add(&self, by: u64) -> u64 {
        self.sum.set(self.sum.get() + by);
        self.sum.get()
    }
    async fn add_later(&self, by: u64, ms: u64) -> u64 {
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.add(by).await
    }
}

fn serve() {
    let node = Node::builder("sim/counter").local_only().build().unwrap();
    node.serve(CounterServer::new(Sum::default())).unwrap();
    node.block_on(upbeat::sleep(Duration::from_secs(5 * 3600)));
}

/// Three clients call a server: in their turns, and some beside each other.
fn program() -> u64 {
    let server = spawn("server", serve).unwrap();
    let clients: Vec<_> = (0..3)
        .map(|client| {
            spawn(&format!("client {client}"), move || {
                let node =
                    Node::builder(&format!("sim/client-{client}")).local_only().build().unwrap();
                node.block_on(async {
                    let counter: CounterClient =
                        node.connect("sim/counter").wait_for(Duration::from_secs(5)).await.unwrap();
                    for round in 0..20 {
                        counter.add(1).await.unwrap();
                        counter.add_later(1, 60_000 * round).await.unwrap();
                    }
                });
            })
            .unwrap()
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let node = Node::builder("sim/reader").local_only().build().unwrap();
    let sum = node.block_on(async {
        let counter: CounterClient = node.connect("sim/counter").await.unwrap();
        counter.add(0).await.unwrap()
    });
    drop(node);
    server.join().unwrap();
    sum
}

#[test]
fn hours_pass_in_no_time_and_a_seed_gives_its_history_again() {
    let run_of = |seed| {
        let Outcome { ended, passed, history, steps } = run(seed, program);
        assert_eq!(ended.unwrap(), 120);
        assert!(passed >= Duration::from_secs(190 * 60), "{passed:?}");
        (passed, history, steps)
    };
    let first: Vec<_> = (0..20).map(run_of).collect();
    for (seed, before) in first.iter().enumerate() {
        assert_eq!(run_of(seed as u64), *before, "the history of seed {seed}");
    }
    assert_ne!(first[0].1, first[1].1);
}

/// A handle's thread, its awaited and blocking calls, computations and several cores take their turns like all others.
#[test]
fn handles_computations_and_cores_run_in_a_world() {
    fn several() -> u64 {
        let cores = upbeat::nodes_on(2, || {
            let node = Node::builder("sim/cores").local_only().build()?;
            node.serve(CounterServer::new(Sum::default()))?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(node)
        });
        let cores = cores.unwrap();
        let handle: CounterHandle = upbeat::handle::connect("sim/cores").unwrap();
        let sum = {
            let blocking = handle.blocking();
            (1..=10).map(|by| blocking.add(by).unwrap()).last().unwrap()
        };
        let node = Node::builder("sim/computes").local_only().build().unwrap();
        let (computed, awaited) = node.block_on(async {
            let computed = node.compute(|| (1..=10_u64).sum::<u64>()).await;
            (computed, handle.add_later(0, 3_600_000).await.unwrap())
        });
        assert_eq!(computed, sum);
        drop(node);
        drop(handle);
        cores.shut_down(Duration::from_secs(1)).unwrap();
        sum + awaited
    }
    for seed in 0..10 {
        let runs = [run(seed, several), run(seed, several)];
        assert_eq!(runs[0].history, runs[1].history, "the history of seed {seed}");
        for Outcome { ended, passed, .. } in runs {
            assert!(ended.unwrap() >= 55);
            assert!(passed >= Duration::from_secs(3600));
        }
    }
}

#[test]
fn a_world_in_which_nothing_can_happen_says_who_waits() {
    let outcome = run(1, || {
        spawn("waits", || {
            let node = Node::builder("sim/waits").local_only().build().unwrap();
            node.block_on(std::future::pending::<()>());
        })
        .unwrap()
        .join()
        .unwrap();
    });
    let Err(Ended::Stuck(text)) = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(text.contains("thread `waits`: waits for messages"), "{text}");
    assert!(text.contains("thread `main`: waits for another thread"), "{text}");
}

#[test]
fn a_panic_of_one_thread_ends_the_world() {
    let outcome = run(2, || {
        spawn("panics", || panic!("this thread panics")).unwrap();
        upbeat_environment::waiting::sleep(Duration::from_secs(60));
    });
    let Err(Ended::Panicked(payload)) = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"this thread panics"));
}

#[test]
fn a_panic_that_unwinds_over_other_threads_ends_the_world_at_the_same_step() {
    let run_of = || {
        run(3, || {
            let _cores = upbeat::nodes_on(2, || Node::builder("sim/over").local_only().build());
            upbeat_environment::waiting::sleep(Duration::from_secs(1));
            panic!("cores are running");
        })
    };
    let [one, other]: [Outcome<()>; 2] = [run_of(), run_of()];
    assert!(matches!((one.ended, other.ended), (Err(Ended::Panicked(_)), Err(Ended::Panicked(_)))));
    assert_eq!((one.history, one.steps, one.passed), (other.history, other.steps, other.passed));
}

/// A world leaves nothing to the next one: neither free threads that compute nor names.
#[test]
fn worlds_beside_and_after_each_other_share_nothing() {
    let computes = || {
        let node = Node::builder("sim/own").local_only().build().unwrap();
        node.block_on(async {
            let stuck: bool = node.compute(|| true).await;
            assert!(stuck);
        });
    };
    let lost = run(4, || {
        computes();
        spawn("panics", || panic!("while a thread that computes is free")).unwrap();
        upbeat_environment::waiting::sleep(Duration::from_secs(1));
    });
    assert!(matches!(lost.ended, Err(Ended::Panicked(_))));
    let threads = [(); 4].map(|()| std::thread::spawn(move || run(5, computes).ended.is_ok()));
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

#[test]
fn the_panic_of_the_last_thread_ends_the_world() {
    let outcome = run(6, || {
        spawn("last", || {
            upbeat_environment::waiting::sleep(Duration::from_secs(1));
            panic!("behind the end of the program");
        })
        .unwrap();
    });
    assert!(matches!(outcome.ended, Err(Ended::Panicked(_))));
}

/// A node sleeps for a day at most, because the system's older waits end after 25 days.
#[test]
fn a_sleep_of_months_ends_in_its_time() {
    const LONG: Duration = Duration::from_secs(60 * 86_400);
    let world = run(11, || {
        let node = Node::builder("sim/months").local_only().build().unwrap();
        let began = upbeat_environment::time::Instant::now();
        node.block_on(upbeat::sleep(LONG));
        began.elapsed()
    });
    let passed = world.ended.unwrap();
    assert!(passed >= LONG && passed < LONG + Duration::from_millis(2), "{passed:?}");
}
