//! Processes of a world that are killed and started again.
#![forbid(unsafe_code)]

mod common;

use common::{failure, ms};
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::{BuildError, CallError};
use upbeat_sim::{Fault, Faults, Process, Sim, check, run, spawn};

/// A store that remembers on a disk.
#[upbeat::service]
trait Store {
    /// Notes a number between two pauses. Returns how many it has.
    async fn note(&self, number: u64, ms: u64) -> u64;
}

/// Numbers that outlive the processes of a store.
type Disk = Arc<Mutex<Vec<u64>>>;

struct Kept(Disk);

impl Store for Kept {
    async fn note(&self, number: u64, ms: u64) -> u64 {
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.0.lock().unwrap().push(number);
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.0.lock().unwrap().len() as u64
    }
}

/// Starts the process of a store, and returns its disk.
fn store(sim: &Sim) -> Disk {
    let disk = Disk::default();
    let of = Arc::clone(&disk);
    sim.start("store", move |sim| {
        let node = sim.node("store").build().unwrap();
        node.serve(StoreServer::new(Kept(Arc::clone(&of)))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    disk
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_killed_process_is_gone_and_another_takes_its_name() {
    check(20, |sim| {
        let disk = store(sim);
        let client = sim.node("client").build().unwrap();
        client.block_on(async {
            let store: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
            assert_eq!(store.note(1, 0).await, Ok(1));
            let pending = client.spawn(async move { store.note(2, 1_000).await });
            upbeat::sleep(ms(100)).await;
            sim.kill("store");
            assert!(!sim.is_running("store"));
            let told = pending.await.unwrap();
            assert!(matches!(told, Err(CallError::Unknown { .. })), "{told:?}");
            sim.restart("store");
            let again: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
            assert_eq!(again.note(3, 0).await, Ok(2));
        });
        assert_eq!(*disk.lock().unwrap(), [1, 3]);
    });
}

#[test]
fn a_name_belongs_to_one_process() {
    check(5, |sim| {
        store(sim);
        let client = sim.node("client").build().unwrap();
        client.block_on(async {
            let _: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
        });
        let taken = sim.node("store").build().map(drop);
        assert!(matches!(taken, Err(BuildError::Bind(_))), "{taken:?}");
        sim.kill("store");
        sim.node("store").build().unwrap();
    });
}

/// A call whose deadline passes while its callee is stopped never runs.
#[upbeat_sim::test(seeds = 20)]
async fn a_stopped_process_goes_on_where_it_was(sim: Sim) {
    let disk = store(&sim);
    let handles = sim.handles().wait_for(SOON);
    let store: StoreHandle = handles.connect_async("store").await.unwrap();
    assert_eq!(store.note(1, 0).await, Ok(1));
    sim.stop("store");
    let late = store.note(2, 0).deadline(ms(300)).await;
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    assert!(sim.is_running("store"));
    sim.go_on("store");
    assert_eq!(store.note(3, 0).await, Ok(2));
    assert_eq!(*disk.lock().unwrap(), [1, 3]);
}

#[test]
fn a_process_ends_with_its_first_thread() {
    let outcome = run(2, || {
        let ended = Process::start("short", || {
            let goes_on = || loop {
                upbeat_environment::waiting::sleep(Duration::from_secs(1));
            };
            spawn("goes on", goes_on).unwrap();
            upbeat_environment::waiting::sleep(Duration::from_secs(3));
        });
        assert!(ended.is_running());
        assert!(ended.join());
    });
    assert!(outcome.ended.is_ok(), "{:?}", outcome.ended);
    assert!(outcome.passed >= Duration::from_secs(3) && outcome.passed < Duration::from_secs(5));
}

/// A store is killed at any time and started again, while a client notes numbers: what it is told is true.
#[test]
fn callers_of_a_store_that_is_killed_are_told_the_truth() {
    check(30, |sim| {
        let disk = store(sim);
        sim.faults(Faults::of([Fault::Kill]).every(ms(1)..ms(400)).lasts(ms(0)..ms(300)));
        let client = sim.node("client").build().unwrap();
        let (mut done, mut unknown) = (Vec::new(), Vec::new());
        client.block_on(async {
            let store: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
            for number in 0..100 {
                match store.note(number, number % 20).await {
                    Ok(_) => done.push(number),
                    Err(error) if error.may_have_run() => unknown.push(number),
                    Err(error) => {
                        assert!(matches!(error, CallError::NotConnected { .. }), "{error}")
                    }
                }
            }
        });
        let noted = disk.lock().unwrap();
        for number in 0..100 {
            let times = noted.iter().filter(|noted| **noted == number).count();
            let expected = match number {
                number if done.contains(&number) => 1..=1,
                number if unknown.contains(&number) => 0..=1,
                _ => 0..=0,
            };
            assert!(expected.contains(&times), "{number} was noted {times} times");
        }
        sim.sometimes("a call was done", !done.is_empty());
        let has_run = |number| noted.contains(number);
        sim.sometimes("a call of unknown end has run", unknown.iter().any(has_run));
        sim.sometimes("a call of unknown end has not run", !unknown.iter().all(has_run));
    });
}

/// Something happens at its time, and what always has to be is checked after each step.
#[test]
fn a_world_ends_at_the_time_at_which_an_invariant_does_not_hold() {
    fn counts(sim: &Sim, most: u64) {
        let count = Arc::new(AtomicU64::new(0));
        let looked = Arc::clone(&count);
        sim.always(move || assert!(looked.load(Relaxed) <= most, "more than {most} came"));
        for second in 1..=3 {
            let adds = Arc::clone(&count);
            sim.at(Duration::from_secs(second), move |_| _ = adds.fetch_add(1, Relaxed));
        }
        // The program's threads end with it.
        sim.at(Duration::from_secs(4), |_| panic!("the program has ended"));
        sim.pause(ms(3_500));
        assert!(sim.time() < Duration::from_secs(4));
    }
    check(5, |sim| counts(sim, 3));
    let failure = failure(|sim| counts(sim, 1));
    assert!(failure.starts_with("seed 0, after 2.0s"), "{failure}");
    assert!(failure.contains("steps: more than 1 came"), "{failure}");
}

#[test]
fn an_invariant_that_waits_is_told() {
    let failure = failure(|sim| {
        let waits = sim.clone();
        sim.always(move || waits.pause(ms(1)));
        sim.pause(ms(1));
    });
    assert!(failure.contains("an invariant waits"), "{failure}");
}

/// A failure that needs two faults keeps these two, and a program that waits for a fault is given up without it.
#[test]
fn a_failure_keeps_the_faults_that_it_needs() {
    let failure = failure(|sim| {
        let starts = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&starts);
        sim.start("store", move |sim| {
            counts.fetch_add(1, Relaxed);
            sim.pause(Duration::from_secs(3600));
            Ok::<_, Infallible>(())
        });
        let _other = sim.host("vienna");
        sim.faults(Faults::all());
        while starts.load(Relaxed) < 3 {
            sim.pause(ms(20));
        }
        panic!("the store was killed twice");
    });
    assert!(failure.contains("the store was killed twice\nit needs 2 of its "), "{failure}");
    assert_eq!(failure.matches("process `store` is killed").count(), 2, "{failure}");
}

#[test]
fn failures_of_a_check_say_what_happened() {
    let stuck = failure(|sim| {
        sim.host("vienna").start("store", |sim| {
            let node = sim.node("store").build()?;
            node.block_on(std::future::pending::<()>());
            Ok::<_, BuildError>(())
        });
        sim.pause(ms(1));
        sim.stop("store");
        let node = sim.node("waits").build().unwrap();
        node.block_on(std::future::pending::<()>());
    });
    let waits = [
        "process `main` on `main`, thread `main`, node `waits`: waits for messages",
        "process `store` on `vienna`, thread `store`, node `store`: waits for its process, which is stopped",
    ];
    assert!(waits.iter().all(|waits| stuck.contains(waits)), "{stuck}");
    let spins = failure(|_| {
        loop {
            let _ = upbeat_environment::time::Instant::now();
        }
    });
    assert!(spins.contains("thread `main` looks at the clock again and again"), "{spins}");
    let woken = failure(|sim| {
        let wakes = std::thread::Builder::new().name("outside".to_owned());
        sim.block_on(async {
            let mut wakes = Some(wakes);
            std::future::poll_fn(|context| {
                let waker = context.waker().clone();
                let wakes = wakes.take().map(|thread| thread.spawn(move || waker.wake()).unwrap());
                wakes.into_iter().for_each(|thread| thread.join().unwrap());
                std::task::Poll::<()>::Pending
            })
            .await;
        });
    });
    assert!(woken.contains("thread `outside` is in no world, and has woken a node"), "{woken}");
    let ended = failure(|sim| {
        sim.start("fails", |_| Err("its disk is full"));
        sim.pause(SOON);
    });
    assert!(ended.contains("process `fails` has ended: its disk is full"), "{ended}");
    let never = failure(|sim| sim.sometimes("the moon is blue", false));
    assert!(never.contains("seeds: [\"the moon is blue\"]"), "{never}");
    let differs = failure(|sim| {
        static RUNS: Mutex<u64> = Mutex::new(0);
        *RUNS.lock().unwrap() += 1;
        let runs = *RUNS.lock().unwrap();
        (0..runs).for_each(|_| sim.pause(ms(1)));
    });
    assert!(differs.contains("two runs of seed 0 differ"), "{differs}");
}
