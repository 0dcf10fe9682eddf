//! Processes of a world that are killed and started again.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::{BuildError, CallError, Node};
use upbeat_sim::{Outcome, Process, run};

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

/// A directory of its own for each world.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("upbeat-sim-{}-{number}", std::process::id());
        Place(std::env::temp_dir().join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn node(name: &str, place: &Path) -> Result<Node, BuildError> {
    Node::builder(name).program("sim").directory(place).build()
}

/// Starts the process of a store.
fn store(place: &Path, disk: &Disk) -> Process {
    let (place, disk) = (place.to_owned(), Arc::clone(disk));
    Process::start("store", move || {
        let node = node("store", &place).unwrap();
        node.serve(StoreServer::new(Kept(disk))).unwrap();
        node.block_on(std::future::pending::<()>());
    })
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_killed_process_is_gone_and_another_takes_its_name() {
    for seed in 0..20 {
        let place = Place::new();
        let outcome = run(seed, || {
            let disk = Disk::default();
            let first = store(&place.0, &disk);
            let client = node("client", &place.0).unwrap();
            client.block_on(async {
                let store_of: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
                assert_eq!(store_of.note(1, 0).await, Ok(1));
                let pending = client.spawn({
                    let store = store_of.clone();
                    async move { store.note(2, 1_000).await }
                });
                upbeat::sleep(SOON / 100).await;
                first.kill();
                assert!(!first.is_running());
                let told = pending.await.unwrap();
                assert!(matches!(told, Err(CallError::Unknown { .. })), "{told:?}");
                let second = store(&place.0, &disk);
                let again: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
                assert_eq!(again.note(3, 0).await, Ok(2));
                second.kill();
            });
            assert_eq!(*disk.lock().unwrap(), [1, 3]);
        });
        assert!(outcome.ended.is_ok(), "seed {seed}: {:?}", outcome.ended);
    }
}

#[test]
fn a_name_belongs_to_one_process() {
    let place = Place::new();
    let outcome = run(1, || {
        let disk = Disk::default();
        let first = store(&place.0, &disk);
        let client = node("client", &place.0).unwrap();
        client.block_on(async {
            let _: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
        });
        let taken = node("store", &place.0).map(drop);
        assert!(matches!(taken, Err(BuildError::Bind(_))), "{taken:?}");
        first.kill();
        node("store", &place.0).unwrap();
    });
    assert!(outcome.ended.is_ok(), "{:?}", outcome.ended);
}

#[test]
fn a_process_ends_with_its_first_thread() {
    let outcome = run(2, || {
        let ended = Process::start("short", || {
            upbeat_sim::spawn("goes on", || {
                loop {
                    upbeat_environment::waiting::sleep(Duration::from_secs(1));
                }
            })
            .unwrap();
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
    let seeds = std::env::var("UPBEAT_SIM_SEEDS").map_or(30, |seeds| seeds.parse().unwrap());
    let program = |place: &Path| {
        let disk = Disk::default();
        let mut told = [Vec::new(), Vec::new()];
        let killer = {
            let (place, disk) = (place.to_owned(), Arc::clone(&disk));
            upbeat_sim::spawn("killer", move || {
                for round in 0..6_u64 {
                    let process = store(&place, &disk);
                    let ms = 1 + (draw() % 400) * (round % 3);
                    upbeat_environment::waiting::sleep(Duration::from_millis(ms));
                    process.kill();
                    upbeat_environment::waiting::sleep(Duration::from_millis(draw() % 300));
                }
                let last = store(&place, &disk);
                upbeat_environment::waiting::sleep(Duration::from_secs(60));
                last.kill();
            })
            .unwrap()
        };
        let client = node("client", place).unwrap();
        client.block_on(async {
            let store: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
            for number in 0..100 {
                match store.note(number, number % 20).await {
                    Ok(_) => told[0].push(number),
                    Err(error) if error.may_have_run() => told[1].push(number),
                    Err(error) => {
                        assert!(matches!(error, CallError::NotConnected { .. }), "{error}")
                    }
                }
            }
        });
        drop(client);
        killer.join().unwrap();
        let noted = disk.lock().unwrap().clone();
        let [done, unknown] = told;
        for number in 0..100 {
            let times = noted.iter().filter(|noted| **noted == number).count();
            let expected = match number {
                number if done.contains(&number) => 1..=1,
                number if unknown.contains(&number) => 0..=1,
                _ => 0..=0,
            };
            assert!(expected.contains(&times), "{number} was noted {times} times");
        }
        (done.len(), unknown.len())
    };
    let mut sums = (0, 0);
    for seed in 0..seeds {
        let both = [(); 2].map(|()| {
            let place = Place::new();
            let Outcome { ended, history, steps, .. } = run(seed, || program(&place.0));
            (ended.unwrap_or_else(|ended| panic!("seed {seed}: {ended:?}")), history, steps)
        });
        assert_eq!(both[0], both[1], "the history of seed {seed}");
        let (done, unknown) = both[0].0;
        sums = (sums.0 + done, sums.1 + unknown);
    }
    println!("calls that have run, and that may have run: {sums:?}");
    assert!(sums.0 > 0 && sums.1 > 0, "{sums:?}");
}

/// Returns a number that follows from the seed.
fn draw() -> u64 {
    u64::from_le_bytes(upbeat_environment::chance::random().unwrap())
}

/// A client that calls again when it does not know whether a call has run: the world shows that a call runs twice.
#[test]
fn a_call_that_is_repeated_after_unknown_runs_twice() {
    let doubles = |seed| {
        let place = Place::new();
        let outcome = run(seed, || {
            let disk = Disk::default();
            let first = store(&place.0, &disk);
            let (at, of) = (place.0.clone(), Arc::clone(&disk));
            let killer = upbeat_sim::spawn("killer", move || {
                upbeat_environment::waiting::sleep(Duration::from_millis(1 + draw() % 20));
                first.kill();
                let second = store(&at, &of);
                upbeat_environment::waiting::sleep(SOON);
                second.kill();
            });
            let client = node("client", &place.0).unwrap();
            client.block_on(async {
                let store: StoreClient = client.connect("store").wait_for(SOON).await.unwrap();
                for number in 0..20 {
                    while store.note(number, 1).await.is_err() {}
                }
            });
            killer.unwrap().join().unwrap();
            let mut noted = disk.lock().unwrap().clone();
            noted.sort_unstable();
            noted.windows(2).any(|pair| pair[0] == pair[1])
        });
        outcome.ended.unwrap_or_else(|ended| panic!("seed {seed}: {ended:?}"))
    };
    assert!((0..1000).any(doubles));
}
