//! Programs that mix calls, deadlines, locks, streams and dropped futures, under many seeds.

use crate::common::{PATIENCE, besiege, remote};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use upbeat::handle::HandleBuilder;
use upbeat::sync::Mutex;
use upbeat::{Builder, CallError, Stream};
use upbeat_sim::{Siege, Sim, check, spawn};

/// An account.
#[upbeat::service]
trait Account {
    /// Adds under a lock, after a time.
    async fn add(&self, number: u64, ms: u64) -> u64;
    /// Notes a number.
    #[oneway]
    async fn note(&self, number: u64);
    /// Returns the numbers that were added, and those that were noted.
    async fn all(&self) -> (Vec<u64>, Vec<u64>);
    /// Returns this many numbers, with pauses.
    async fn numbers(&self, count: u64) -> Stream<u64>;
}

struct Kept {
    lock: Mutex<()>,
    sum: Cell<u64>,
    added: RefCell<Vec<u64>>,
    noted: RefCell<Vec<u64>>,
}

impl Account for Kept {
    async fn add(&self, number: u64, ms: u64) -> u64 {
        let _held = self.lock.lock().await;
        let before = self.sum.get();
        upbeat::sleep(Duration::from_millis(ms)).await;
        assert_eq!(self.sum.get(), before, "the lock is held by one task at a time");
        self.sum.set(before + 1);
        self.added.borrow_mut().push(number);
        before + 1
    }
    async fn note(&self, number: u64) {
        self.noted.borrow_mut().push(number);
    }
    async fn all(&self) -> (Vec<u64>, Vec<u64>) {
        (self.added.borrow().clone(), self.noted.borrow().clone())
    }
    async fn numbers(&self, count: u64) -> Stream<u64> {
        upbeat::stream(async move |sink| {
            for number in 0..count {
                if number % 7 == 3 {
                    upbeat::sleep(Duration::from_millis(number)).await;
                }
                sink.send(number).await;
            }
        })
    }
}

/// Numbers that a client draws.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The outcome of a client's operations.
#[derive(Default)]
struct Did {
    /// The numbers of calls that have returned.
    added: Vec<u64>,
    /// The numbers of calls that say that they have not run.
    not_run: Vec<u64>,
    noted: Vec<u64>,
}

/// Does so many operations by any kind of caller.
async fn operate(account: &impl AccountCaller, seed: u64, first: u64) -> Did {
    let (mut draws, mut did) = (Draws(seed ^ first), Did::default());
    for number in first..first + 30 {
        let ms = draws.below(20);
        match draws.below(6) {
            0 | 1 => {
                account.add(number, ms).await.unwrap();
                did.added.push(number);
            }
            2 => {
                let short = account.deadline(Duration::from_millis(1 + draws.below(30)));
                match short.add(number, ms).await {
                    Ok(_) => did.added.push(number),
                    Err(error) if !error.may_have_run() => did.not_run.push(number),
                    Err(error) => assert!(matches!(error, CallError::Deadline { .. }), "{error}"),
                }
            }
            3 => {
                let time = Duration::from_millis(draws.below(25));
                if upbeat::within(time, account.add(number, ms))
                    .await
                    .is_ok_and(|done| done.is_ok())
                {
                    did.added.push(number);
                }
            }
            4 => {
                account.note(number).await.unwrap();
                did.noted.push(number);
            }
            _ => {
                let (count, wanted) = (1 + draws.below(40), draws.below(40));
                let mut numbers = account.numbers(count).await.unwrap();
                for expected in 0..count.min(wanted) {
                    assert_eq!(numbers.next().await, Some(Ok(expected)));
                }
                if wanted >= count {
                    assert_eq!(numbers.next().await, None);
                }
            }
        }
    }
    // The answer comes behind the messages.
    account.all().await.unwrap();
    did
}

/// The places of the server and of its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Threads of one process.
    Process,
    /// Processes of one host.
    Host,
    /// Two hosts, whose network is besieged.
    Network,
}

/// A session outlives what happens to the network.
const LONG: Duration = Duration::from_secs(60);

impl Place {
    fn node(self, sim: &Sim, name: &str) -> Builder {
        match self {
            Place::Process => sim.node(name).local_only(),
            Place::Host => sim.node(name),
            Place::Network => remote(sim, name, LONG),
        }
    }

    fn handles(self, sim: &Sim) -> HandleBuilder {
        match self {
            Place::Network => {
                let handles = sim.handles().insecure_plaintext().resume_within(LONG);
                handles.peer_timeout(PATIENCE)
            }
            _ => sim.handles(),
        }
    }

    fn server(self) -> &'static str {
        if self == Place::Network { "account@vienna:7000" } else { "account" }
    }

    /// Starts the server.
    fn start(self, sim: &Sim) {
        let serve = move |sim: &Sim| {
            let builder = self.node(sim, "account");
            let listens =
                if self == Place::Network { builder.listen("vienna:7000") } else { builder };
            let node = listens.build().unwrap();
            let kept = Kept {
                lock: Mutex::new(()),
                sum: Cell::new(0),
                added: RefCell::default(),
                noted: RefCell::default(),
            };
            node.serve(AccountServer::new(kept)).unwrap();
            node.block_on(upbeat::sleep(Duration::from_secs(3600)));
            Ok::<_, Infallible>(())
        };
        match self {
            Place::Process => {
                let sim = sim.clone();
                // The world ends with this thread's process.
                drop(spawn("account", move || serve(&sim).unwrap()).unwrap());
            }
            Place::Host => sim.start("account", serve),
            Place::Network => sim.host("vienna").start("account", serve),
        }
    }
}

/// Two nodes and a handle operate beside each other, and then compare what they did with what the server has.
fn program(sim: &Sim, place: Place) {
    let seed = sim.below(u64::MAX);
    place.start(sim);
    let siege = (place == Place::Network).then(|| besiege(sim));
    let all_did = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut clients = Vec::new();
    for client in 1..=3 {
        let (sim, all_did) = (sim.clone(), Arc::clone(&all_did));
        let part = move || {
            let node = place.node(&sim, &format!("client-{client}")).build().unwrap();
            let did = if client == 3 {
                let handles = place.handles(&sim).wait_for(LONG);
                let account: AccountHandle = handles.connect(place.server()).unwrap();
                node.block_on(operate(&account, seed, client * 100))
            } else {
                node.block_on(async {
                    let account = node.connect::<AccountClient>(place.server()).wait_for(LONG);
                    operate(&account.await.unwrap(), seed, client * 100).await
                })
            };
            all_did.lock().unwrap().push(did);
        };
        clients.push(spawn(&format!("client {client}"), part).unwrap());
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    siege.into_iter().for_each(Siege::end);
    let node = place.node(sim, "reader").build().unwrap();
    let (added, noted) = node.block_on(async {
        let account = node.connect::<AccountClient>(place.server()).wait_for(LONG);
        account.await.unwrap().all().await.unwrap()
    });
    for did in all_did.lock().unwrap().iter() {
        let times = |number: &u64| added.iter().filter(|one| *one == number).count();
        for number in &did.added {
            assert_eq!(times(number), 1, "{number} was added once");
        }
        for number in &did.not_run {
            assert_eq!(times(number), 0, "{number} was not added");
        }
        let first = did.noted.first().copied().unwrap_or(0) / 100;
        let in_order: Vec<u64> = noted.iter().copied().filter(|one| one / 100 == first).collect();
        assert_eq!(in_order, did.noted, "messages arrive once and in their order");
    }
    let mut once = added.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), added.len(), "no call ran twice: {added:?}");
}

pub(crate) fn in_a_process(sim: &Sim) {
    program(sim, Place::Process);
}

pub(crate) fn on_a_host(sim: &Sim) {
    program(sim, Place::Host);
}

pub(crate) fn beyond_a_network(sim: &Sim) {
    program(sim, Place::Network);
}

#[test]
fn what_callers_in_a_process_are_told_is_what_the_server_did() {
    check(30, in_a_process);
}

#[test]
fn what_callers_on_a_host_are_told_is_what_the_server_did() {
    check(30, on_a_host);
}

#[test]
fn what_callers_beyond_a_network_are_told_is_what_the_server_did() {
    check(30, beyond_a_network);
}
