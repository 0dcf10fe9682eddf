//! Streams of both directions, whose ends lag behind, leave early, and die.

use crate::common::{besiege, ms, remote};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use upbeat::{CallError, Node, Stream};
use upbeat_sim::{Resource, Sim, check};

/// A session outlives what happens to the network.
const LONG: Duration = Duration::from_secs(60);
/// The items that a writer is ahead of its reader: three batches, and those on their way between two counts.
const AHEAD: u64 = 4 * 256;

/// A belt of numbers.
#[upbeat::service]
trait Belt {
    /// Returns so many numbers, with pauses.
    async fn numbers(&self, count: u64, pause: u64) -> Stream<u64>;
    /// Reads so many numbers with pauses, drops their stream, and stays for a time. Returns how many have come.
    async fn count(&self, wanted: u64, pause: u64, stays: u64, numbers: Stream<u64>) -> u64;
    /// Does the same, though the caller may have left.
    async fn count_alone(&self, wanted: u64, pause: u64, stays: u64, numbers: Stream<u64>) -> u64;
    /// Returns at once, and reads on.
    async fn keep(&self, numbers: Stream<u64>);
}

/// The work of all ends of streams.
#[derive(Default)]
struct Counts {
    /// The ends at the node that serves.
    served: AtomicU64,
    /// The writers of arguments.
    written: AtomicU64,
    /// The most items that a writer was ahead.
    ahead: AtomicU64,
    /// The items that a writer and its reader have counted. One stream at a time is open.
    items: [AtomicU64; 2],
    /// The readers that a call has left behind, and that were told so.
    told: AtomicU64,
}

/// An end of a stream, which counts as long as it lives.
struct End(Arc<Counts>, fn(&Counts) -> &AtomicU64);

impl End {
    fn new(counts: &Arc<Counts>, of: fn(&Counts) -> &AtomicU64) -> End {
        of(counts).fetch_add(1, Relaxed);
        End(Arc::clone(counts), of)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Relaxed);
    }
}

/// Returns a stream of so many numbers, with pauses.
fn writes(end: End, count: u64, pause: u64) -> Stream<u64> {
    upbeat::stream(async move |sink| {
        let [written, read] = &end.0.items;
        for number in 0..count {
            if number % 97 == 0 {
                upbeat::sleep(ms(pause)).await;
            }
            sink.send(number).await;
            written.fetch_add(1, Relaxed);
            let ahead = written.load(Relaxed).saturating_sub(read.load(Relaxed));
            end.0.ahead.fetch_max(ahead, Relaxed);
        }
    })
}

/// Reads so many numbers, with pauses. Returns how many have come.
async fn reads(
    counts: &Counts,
    mut numbers: Stream<u64>,
    wanted: u64,
    pause: u64,
) -> Result<u64, CallError> {
    for number in 0..wanted {
        if number % 80 == 0 {
            upbeat::sleep(ms(pause)).await;
        }
        match numbers.next().await.transpose()? {
            Some(next) => assert_eq!(next, number),
            None => return Ok(number),
        }
        counts.items[1].fetch_add(1, Relaxed);
    }
    Ok(wanted)
}

struct Numbers {
    node: Node,
    counts: Arc<Counts>,
}

#[upbeat::service]
impl Belt for Numbers {
    async fn numbers(&self, count: u64, pause: u64) -> Stream<u64> {
        writes(End::new(&self.counts, |counts| &counts.served), count, pause)
    }
    async fn count(&self, wanted: u64, pause: u64, stays: u64, numbers: Stream<u64>) -> u64 {
        let _end = End::new(&self.counts, |counts| &counts.served);
        let read = reads(&self.counts, numbers, wanted, pause).await;
        upbeat::sleep(ms(stays)).await;
        read.unwrap_or(u64::MAX)
    }
    #[method(outlives = "60s")]
    async fn count_alone(&self, wanted: u64, pause: u64, stays: u64, numbers: Stream<u64>) -> u64 {
        self.count(wanted, pause, stays, numbers).await
    }
    async fn keep(&self, numbers: Stream<u64>) {
        let counts = Arc::clone(&self.counts);
        let end = End::new(&counts, |counts| &counts.served);
        drop(self.node.spawn(async move {
            let read = reads(&counts, numbers, u64::MAX, 0).await;
            counts.told.fetch_add(u64::from(read.is_err()), Relaxed);
            drop(end);
        }));
    }
}

/// Starts the belt. Returns the number of its open streams.
fn start(sim: &Sim, counts: &Arc<Counts>) -> Arc<AtomicU64> {
    let (counts, open) = (Arc::clone(counts), Arc::<AtomicU64>::default());
    let of = Arc::clone(&open);
    sim.host("vienna").start("belt", move |sim| {
        let node = remote(sim, "belt", LONG).listen("vienna:7000").build().unwrap();
        let numbers = Numbers { node: node.clone(), counts: Arc::clone(&counts) };
        node.serve(BeltServer::new(numbers)).unwrap();
        node.block_on(async {
            loop {
                upbeat::sleep(ms(100)).await;
                of.store(node.streams() as u64, Relaxed);
            }
        });
        Ok::<_, Infallible>(())
    });
    open
}

/// Runs a client of the belt at this address.
fn run(sim: &Sim, address: &str, counts: &Arc<Counts>, rounds: u64) {
    let node = remote(sim, "client", LONG).build().unwrap();
    node.block_on(async {
        let belt = node.connect::<BeltClient>(address).wait_for(ms(10_000)).await.unwrap();
        for _ in 0..rounds {
            counts.items.iter().for_each(|items| items.store(0, Relaxed));
            work(sim, &belt, counts).await;
        }
        upbeat::sleep(ms(100)).await;
    });
}

/// Opens one stream, and leaves nothing of it behind.
async fn work(sim: &Sim, belt: &BeltClient, counts: &Arc<Counts>) {
    let count = [0, 5, 300, 1_500, 4_000][sim.below(5) as usize];
    let [writing, reading] = [(); 2].map(|()| [0, 0, 1, 9][sim.below(4) as usize]);
    let (short, stays) = (ms(sim.below(20)), sim.below(2) * 30);
    let leaves = sim.below(count + 1);
    let writes = |count| writes(End::new(counts, |counts| &counts.written), count, writing);
    match sim.below(8) {
        0 => {
            let numbers = belt.numbers(count, writing).await.unwrap();
            assert_eq!(reads(counts, numbers, u64::MAX, reading).await, Ok(count));
        }
        1 => {
            let numbers = belt.numbers(count, writing).await.unwrap();
            assert_eq!(reads(counts, numbers, leaves, reading).await, Ok(leaves));
        }
        2 => drop(upbeat::within(short, belt.numbers(count, writing)).await.map(drop)),
        3 => {
            let counted = belt.count(u64::MAX, reading, stays, writes(count));
            assert_eq!(counted.await, Ok(count));
        }
        4 => {
            let counted = belt.count(leaves, reading, stays, writes(count));
            assert_eq!(counted.await, Ok(leaves));
        }
        5 => drop(upbeat::within(short, belt.count(u64::MAX, reading, stays, writes(count))).await),
        6 => {
            let counted = belt.count_alone(u64::MAX, reading, stays, writes(count));
            drop(upbeat::within(short, counted).await);
        }
        _ => {
            let told = counts.told.load(Relaxed);
            assert_eq!(belt.keep(writes(u64::MAX)).await, Ok(()));
            upbeat::sleep(ms(10_000)).await;
            assert_eq!(
                counts.told.load(Relaxed),
                told + 1,
                "a reader is told that its writer ended"
            );
        }
    }
    upbeat::sleep(ms(10_000)).await;
    let ends = [&counts.served, &counts.written].map(|ends| ends.load(Relaxed));
    assert_eq!(ends, [0, 0], "no end of a stream is left");
    let ahead = counts.ahead.load(Relaxed);
    assert!(ahead <= AHEAD, "a writer is ahead by {ahead} items");
}

/// Streams between two nodes of a host.
pub(crate) fn on_a_host(sim: &Sim) {
    let counts = Arc::default();
    let open = start(sim, &counts);
    let of = Arc::clone(&counts);
    sim.host("vienna").start("client", move |sim| {
        run(sim, "belt", &of, 24);
        Ok::<_, Infallible>(())
    });
    while sim.is_running("client") {
        sim.pause(ms(100));
    }
    assert_eq!(open.load(Relaxed), 0, "all streams have ended");
}

/// Streams over a network to which something happens.
pub(crate) fn beyond_a_network(sim: &Sim) {
    let counts = Arc::default();
    let open = start(sim, &counts);
    let siege = besiege(sim);
    run(sim, "belt@vienna:7000", &counts, 12);
    siege.end();
    sim.pause(ms(200));
    assert_eq!(open.load(Relaxed), 0, "all streams have ended");
}

/// Clients die while their streams are open.
pub(crate) fn of_the_dead(sim: &Sim) {
    let counts = Arc::<Counts>::default();
    let open = start(sim, &counts);
    let of = Arc::clone(&counts);
    sim.host("vienna").start("client", move |sim| {
        let node = remote(sim, "client", LONG).build().unwrap();
        node.block_on(async {
            let belt = node.connect::<BeltClient>("belt").wait_for(ms(10_000)).await.unwrap();
            let writes = || writes(End::new(&of, |counts| &counts.written), u64::MAX, 5);
            let numbers = belt.numbers(u64::MAX, 5).await.unwrap();
            let (some, others) = (belt.clone(), belt.clone());
            let (one, other) = (writes(), writes());
            drop(node.spawn(async move { some.count(u64::MAX, 1, 0, one).await }));
            drop(node.spawn(async move { others.count_alone(u64::MAX, 1, 0, other).await }));
            drop(reads(&of, numbers, u64::MAX, 1).await);
        });
        Ok::<_, Infallible>(())
    });
    for _ in 0..4 {
        sim.pause(ms(20 + sim.below(60)));
        sim.kill("client");
        sim.pause(ms(1_000));
        assert_eq!(counts.served.load(Relaxed), 0, "no end of a stream outlives its session");
        assert_eq!(open.load(Relaxed), 0, "all streams have ended");
        sim.restart("client");
    }
}

/// A press that reads heavy items.
#[upbeat::service]
trait Press {
    /// Stays for a time, and reads all items. Returns how many have come, and whether their stream was whole.
    async fn press(&self, weight: Vec<u8>, stays: u64, items: Stream<Vec<u8>>) -> (u64, bool);
}

struct Presses;

impl Press for Presses {
    async fn press(&self, _: Vec<u8>, stays: u64, mut items: Stream<Vec<u8>>) -> (u64, bool) {
        upbeat::sleep(ms(stays)).await;
        let mut read = 0;
        while let Some(item) = items.next().await {
            match item {
                Ok(_) => read += 1,
                Err(_) => return (read, false),
            }
        }
        (read, true)
    }
}

/// A writer that has no memory for its items tells its reader so, whose call has not been accepted yet.
fn without_memory(sim: &Sim) {
    sim.start("press", |sim| {
        let node = sim.node("press").budget(1_000).session_budget(1_000).build().unwrap();
        node.serve(PressServer::new(Presses)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    sim.start("writer", |sim| {
        let node = sim.node("writer").build().unwrap();
        node.block_on(async {
            let press = node.connect::<PressClient>("press").wait_for(ms(10_000)).await.unwrap();
            let items = |count| {
                upbeat::stream(async move |sink| {
                    for _ in 0..count {
                        sink.send(vec![7; 60_000]).await;
                    }
                })
            };
            let (other, none) = (press.clone(), items(0));
            let first = node.spawn(async move { other.press(vec![0; 900], 100, none).await });
            upbeat::sleep(ms(sim.below(5))).await;
            sim.starve("writer", Resource::Room);
            let second = upbeat::within(ms(60_000), press.press(vec![0; 300], 0, items(9))).await;
            assert!(matches!(second, Ok(Ok((_, false)) | Err(_))), "{second:?}");
            assert_eq!(first.await.unwrap(), Ok((0, true)));
        });
        Ok::<_, Infallible>(())
    });
    while sim.is_running("writer") {
        sim.pause(ms(100));
    }
}

#[test]
fn a_reader_learns_that_its_writer_has_no_memory() {
    check(10, without_memory);
}

#[test]
fn streams_leave_nothing_behind() {
    check(6, on_a_host);
    check(6, of_the_dead);
}

#[test]
fn streams_go_on_over_other_connections() {
    check(6, beyond_a_network);
}
