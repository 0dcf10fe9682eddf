//! Hosts of a world, whose network is slow, breaks, and is parted.

use crate::common::{ms, remote};
use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::{CallError, Counter, Node};
use upbeat_environment::time::Instant;
use upbeat_sim::{Fault, Faults, Siege, Sim, check, spawn};

/// A ledger.
#[upbeat::service]
trait Ledger {
    /// Enters a number.
    async fn enter(&self, number: u64) -> u64;
    /// Notes a number.
    #[oneway]
    async fn note(&self, number: u64);
    /// Returns the length of a page.
    async fn measure(&self, page: Vec<u8>) -> u64;
}

/// The numbers that were entered and noted, in their order.
type Pages = Arc<Mutex<[Vec<u64>; 2]>>;

struct Book(Pages);

impl Ledger for Book {
    async fn enter(&self, number: u64) -> u64 {
        self.0.lock().unwrap()[0].push(number);
        if number.is_multiple_of(5) {
            upbeat::sleep(ms(number % 40)).await;
        }
        number
    }
    async fn note(&self, number: u64) {
        self.0.lock().unwrap()[1].push(number);
    }
    async fn measure(&self, page: Vec<u8>) -> u64 {
        page.len() as u64
    }
}

/// Starts a ledger on the host `vienna`, and returns its pages.
fn ledger(sim: &Sim, resume_within: Duration) -> Pages {
    let pages = Pages::default();
    let of = Arc::clone(&pages);
    sim.host("vienna").start("ledger", move |sim| {
        let node = remote(sim, "ledger", resume_within).listen("vienna:7000").build()?;
        node.serve(LedgerServer::new(Book(Arc::clone(&of))))?;
        node.block_on(std::future::pending::<()>());
        Ok::<_, Box<dyn Error>>(())
    });
    pages
}

/// Connects a client on the host `main` with the ledger.
async fn connect(client: &Node) -> LedgerClient {
    let ledger = client.connect("ledger@vienna:7000").wait_for(Duration::from_secs(10));
    ledger.await.unwrap()
}

fn client(sim: &Sim, resume_within: Duration) -> Node {
    remote(sim, "client", resume_within).build().unwrap()
}

/// A call that is too long for the buffers that there are makes one, and is sent at once.
pub(crate) fn long_call(sim: &Sim) {
    ledger(sim, ms(5_000));
    let client = client(sim, ms(5_000));
    client.block_on(async {
        let ledger = connect(&client).await;
        for length in [100_000, 200_000, 262_144, 500_000] {
            let began = sim.time();
            assert_eq!(ledger.measure(vec![7; length]).await, Ok(length as u64));
            let took = sim.time() - began;
            assert!(took < ms(20), "{length} bytes took {took:?}");
        }
    });
}

#[test]
fn a_long_call_is_sent_without_delay() {
    check(5, long_call);
}

/// A task connects while another one's session is being opened, again and again, on a node that computes meanwhile: some
/// still look up the host when that session stands. They share it.
fn connections_at_once(sim: &Sim) {
    ledger(sim, ms(5_000));
    let client = client(sim, ms(5_000));
    client.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let node = client.clone();
            tasks.push(client.spawn(async move { connect(&node).await }));
            upbeat::yield_now().await;
            sim.pause(Duration::from_micros(sim.below(2_000)));
        }
        let mut ledgers = Vec::new();
        for task in tasks {
            ledgers.push(task.await.unwrap());
        }
        assert_eq!(client.sessions(), 1);
    });
}

#[test]
fn tasks_that_connect_at_once_share_a_session() {
    check(50, connections_at_once);
}

/// The answers to eight tasks about the numbers that they entered.
#[derive(Default)]
struct Told {
    done: Vec<u64>,
    unknown: Vec<u64>,
}

/// Has eight tasks enter so many numbers each.
async fn enter_all(node: &Node, ledger: &LedgerClient, count: u64) -> Told {
    let tasks: Vec<_> = (0..8)
        .map(|first| {
            let ledger = ledger.clone();
            node.spawn(async move {
                let mut told = Told::default();
                for number in (0..count).map(|at| 8 * at + first) {
                    match ledger.enter(number).await {
                        Ok(entered) => {
                            assert_eq!(entered, number);
                            told.done.push(number);
                        }
                        Err(error) if error.may_have_run() => told.unknown.push(number),
                        Err(_) => upbeat::sleep(ms(50)).await,
                    }
                }
                told
            })
        })
        .collect();
    let mut all = Told::default();
    for task in tasks {
        let told = task.await.unwrap();
        all.done.extend(told.done);
        all.unknown.extend(told.unknown);
    }
    all
}

/// The connection of a session breaks again and again, at any byte: each call and each message arrives once, in order.
pub(crate) fn breaks(sim: &Sim) {
    const COUNT: u64 = 40;
    const MESSAGES: u64 = 400;
    let long = Duration::from_secs(60);
    let pages = ledger(sim, long);
    sim.delay("main", "vienna", ms(1)..ms(20));
    let client = client(sim, long);
    client.block_on(async {
        let ledger = connect(&client).await;
        sim.faults(Faults::of([Fault::Break]).every(ms(0)..ms(150)));
        let notes = ledger.clone();
        let noted = client.spawn(async move {
            for number in 0..MESSAGES {
                notes.note(number).await.unwrap();
                upbeat::sleep(ms(number % 3)).await;
            }
        });
        let told = enter_all(&client, &ledger, COUNT).await;
        noted.await.unwrap();
        // An answer comes behind the messages.
        assert_eq!(ledger.enter(u64::MAX).await, Ok(u64::MAX));
        assert_eq!(told.done.len() as u64, 8 * COUNT);
    });
    let [mut entered, noted] = pages.lock().unwrap().clone();
    assert!((0..MESSAGES).eq(noted.iter().copied()), "{noted:?}");
    entered.pop();
    entered.sort_unstable();
    assert!((0..8 * COUNT).eq(entered.iter().copied()), "{entered:?}");
    let suspended = client.counted(Counter::SessionsSuspended);
    sim.sometimes("a session resumed several times", suspended > 3);
    assert_eq!(client.counted(Counter::SessionsOpened), 1);
}

#[test]
fn a_session_whose_connection_breaks_loses_and_doubles_nothing() {
    check(20, breaks);
}

/// The network is slow, parted, and silent in one direction, for up to eight seconds: a session outlives that, and what
/// its callers are told is true. Another one, which waits for half a second, does not, and the same holds.
fn parted(sim: &Sim, resume_within: Duration) -> Told {
    enter_under(sim, resume_within, |sim| {
        let faults = Faults::of([Fault::Part, Fault::Silence, Fault::Delay]);
        [sim.faults(faults.every(ms(0)..ms(300)).lasts(ms(0)..Duration::from_secs(8)))].into()
    })
}

pub(crate) fn outlived(sim: &Sim) {
    assert_eq!(parted(sim, Duration::from_secs(60)).done.len() as u64, 8 * COUNT);
}

pub(crate) fn not_outlived(sim: &Sim) {
    parted(sim, ms(500));
}

#[test]
fn callers_beyond_a_parted_network_are_told_the_truth() {
    check(15, outlived);
    check(15, not_outlived);
}

/// The ledger is killed, stopped and starved as well.
pub(crate) fn disturbed(sim: &Sim) {
    let told = enter_under(sim, Duration::from_secs(60), |sim| {
        let process = Faults::of([Fault::Kill, Fault::Stop]).every(ms(0)..ms(900));
        [process.lasts(ms(0)..ms(4_000)), Faults::all()].map(|faults| sim.faults(faults)).into()
    });
    sim.sometimes("a call was done", !told.done.is_empty());
}

#[test]
fn callers_under_every_fault_are_told_the_truth() {
    check(30, disturbed);
}

const COUNT: u64 = 25;

/// Has eight tasks enter numbers under faults, and compares what they are told with the pages.
fn enter_under(sim: &Sim, resume_within: Duration, begin: impl Fn(&Sim) -> Vec<Siege>) -> Told {
    let pages = ledger(sim, resume_within);
    let client = client(sim, resume_within);
    let told = client.block_on(async {
        let ledger = connect(&client).await;
        let sieges = begin(sim);
        let told = enter_all(&client, &ledger, COUNT).await;
        sieges.into_iter().for_each(Siege::end);
        assert!(sim.is_running("ledger"));
        let again = connect(&client).await;
        assert_eq!(again.enter(u64::MAX).await, Ok(u64::MAX));
        told
    });
    let entered = pages.lock().unwrap()[0].clone();
    for number in 0..8 * COUNT {
        let times = entered.iter().filter(|entered| **entered == number).count();
        let expected = match number {
            number if told.done.contains(&number) => 1..=1,
            number if told.unknown.contains(&number) => 0..=1,
            _ => 0..=0,
        };
        assert!(expected.contains(&times), "{number} was entered {times} times");
    }
    let suspended = client.counted(Counter::SessionsSuspended);
    sim.sometimes("a session was suspended", suspended > 0);
    if resume_within < Duration::from_secs(8) {
        let has_run = |number| entered.contains(number);
        sim.sometimes("a call of unknown end has run", told.unknown.iter().any(has_run));
        sim.sometimes("a call of unknown end has not run", !told.unknown.iter().all(has_run));
    }
    told
}

/// A deadline ends a call in time, whatever has become of the network, and a connection ends in its own.
pub(crate) fn silence(sim: &Sim) {
    ledger(sim, Duration::from_secs(5));
    let client = client(sim, Duration::from_secs(5));
    client.block_on(async {
        let ledger = connect(&client).await;
        match sim.below(3) {
            0 => sim.part("main", "vienna"),
            1 => sim.silence("main", "vienna"),
            _ => sim.silence("vienna", "main"),
        }
        let began = Instant::now();
        let told = ledger.enter(1).deadline(ms(300)).await;
        assert!(matches!(told, Err(CallError::Deadline(_))), "{told:?}");
        let took = began.elapsed();
        assert!(took >= ms(300) && took < ms(302), "{took:?}");
        let calls = Rc::new(Cell::new(0));
        let counts = Rc::clone(&calls);
        let counted = client.spawn(async move {
            while counts.get() < 10 {
                upbeat::sleep(ms(100)).await;
                counts.set(counts.get() + 1);
            }
        });
        let again = client.connect::<LedgerClient>("ledger@vienna:7000").wait_for(ms(700));
        drop(again.await);
        counted.await.unwrap();
        sim.heal("main", "vienna");
        let again = connect(&client).await;
        assert_eq!(again.enter(7).await, Ok(7));
    });
}

#[test]
fn a_deadline_ends_a_call_to_a_host_that_is_silent() {
    check(20, silence);
}

/// A caller that is parted from its listener, and whose connection breaks, reaches nobody when the network heals.
pub(crate) fn broken_before(sim: &Sim) {
    let opened = Arc::new(AtomicU64::new(u64::MAX));
    let of = Arc::clone(&opened);
    sim.host("vienna").start("listens", move |sim| {
        let node = remote(sim, "listens", ms(500)).listen("vienna:7000").build().unwrap();
        node.block_on(upbeat::sleep(Duration::from_secs(9)));
        of.store(node.counted(Counter::SessionsOpened), Relaxed);
        Ok::<_, Infallible>(())
    });
    let client = client(sim, ms(500));
    sim.part("main", "vienna");
    client.block_on(async {
        let connects = client.connect::<LedgerClient>("listens@vienna:7000");
        let connects = upbeat::within(ms(50), connects.wait_for(ms(500))).await;
        sim.break_connections("main", "vienna");
        sim.heal("main", "vienna");
        drop(connects);
    });
    sim.pause(Duration::from_secs(10));
    assert_eq!(opened.load(Relaxed), 0);
}

#[test]
fn a_connection_that_breaks_before_it_is_reached_is_gone() {
    check(4, broken_before);
}

/// A node whose long message waits for the network sleeps meanwhile: a node that polls without a pause keeps the other
/// threads of its world from running.
pub(crate) fn long_message(sim: &Sim) {
    const LONG: usize = 9 << 20;
    ledger(sim, Duration::from_secs(5));
    let client = client(sim, Duration::from_secs(5));
    let other = sim.clone();
    spawn("other", move || {
        loop {
            let began = Instant::now();
            other.pause(ms(1));
            assert!(began.elapsed() < ms(5), "a thread waits for {:?}", began.elapsed());
        }
    })
    .unwrap();
    client.block_on(async {
        let ledger = connect(&client).await;
        for _ in 0..2 {
            assert_eq!(ledger.measure(vec![0; LONG]).await, Ok(LONG as u64));
        }
    });
}

#[test]
fn a_node_sleeps_while_its_long_message_waits_for_the_network() {
    check(4, long_message);
}
