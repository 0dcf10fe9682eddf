//! Time that callers grant, callers that leave, locks that handlers need, layers, limits, and types that differ.

use crate::common::ms;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use upbeat::sync::Mutex;
use upbeat::{CallInfo, Layer, Next, Node, Refusal, Stream};
use upbeat_environment::time::Instant;
use upbeat_sim::{Sim, check};

/// Work that takes its time.
#[upbeat::service]
trait Work {
    /// Asks for so much time, and takes so much.
    async fn more(&self, wants: u64, takes: u64) -> bool;
    /// Calls `more` of the next node with this deadline, which it extends.
    async fn more_there(&self, has: u64, wants: u64, takes: u64) -> bool;
    /// Notes a number after a time.
    async fn finish(&self, number: u64, ms: u64);
    /// Notes a number after a time, though its caller may have left.
    async fn finish_alone(&self, number: u64, ms: u64);
    /// Returns the numbers that were noted, and how many handlers wait.
    async fn finished(&self) -> (Vec<u64>, u64);
    /// Holds the lock.
    async fn hold(&self, ms: u64);
    /// Needs the lock, and is sent back until it is free.
    #[method(nack)]
    async fn guarded(&self, number: u64) -> u64;
    /// Returns numbers without end.
    async fn numbers(&self) -> Stream<u64>;
}

struct Worker {
    node: Node,
    lock: Mutex<()>,
    finished: RefCell<Vec<u64>>,
    waits: Rc<Cell<u64>>,
}

/// A handler that waits.
struct Waits(Rc<Cell<u64>>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Worker {
    fn of(node: &Node) -> Worker {
        let (lock, finished) = (Mutex::new(()), RefCell::default());
        Worker { node: node.clone(), lock, finished, waits: Rc::default() }
    }

    async fn waits(&self, time: u64) {
        self.waits.set(self.waits.get() + 1);
        let _waits = Waits(Rc::clone(&self.waits));
        upbeat::sleep(ms(time)).await;
    }
}

#[upbeat::service]
impl Work for Worker {
    async fn more(&self, wants: u64, takes: u64) -> bool {
        let is_granted = upbeat::extend(ms(wants)).await.is_ok();
        self.waits(takes).await;
        is_granted
    }
    async fn more_there(&self, has: u64, wants: u64, takes: u64) -> bool {
        let next: WorkClient = self.node.connect("back").await.unwrap();
        next.more(wants, takes).deadline(ms(has)).extendable(ms(60_000)).await.unwrap_or(false)
    }
    async fn finish(&self, number: u64, ms: u64) {
        self.waits(ms).await;
        self.finished.borrow_mut().push(number);
    }
    #[method(outlives = "60s")]
    async fn finish_alone(&self, number: u64, ms: u64) {
        self.finish(number, ms).await;
    }
    async fn finished(&self) -> (Vec<u64>, u64) {
        (self.finished.borrow().clone(), self.waits.get())
    }
    async fn hold(&self, time: u64) {
        let _held = self.lock.lock().await;
        upbeat::sleep(ms(time)).await;
    }
    #[method(needs(self.lock))]
    async fn guarded(&self, number: u64) -> u64 {
        number
    }
    async fn numbers(&self) -> Stream<u64> {
        upbeat::stream(async move |sink| {
            for number in 0.. {
                upbeat::sleep(ms(1)).await;
                sink.send(number).await;
            }
        })
    }
}

/// Starts a worker. Returns the number of its open streams.
fn worker(sim: &Sim, name: &'static str) -> Arc<AtomicU64> {
    let streams = Arc::<AtomicU64>::default();
    let of = Arc::clone(&streams);
    sim.start(name, move |sim| {
        let node = sim.node(name).build().unwrap();
        node.serve(WorkServer::new(Worker::of(&node))).unwrap();
        node.block_on(async {
            loop {
                upbeat::sleep(ms(100)).await;
                of.store(node.streams() as u64, Relaxed);
            }
        });
        Ok::<_, Infallible>(())
    });
    streams
}

const SOON: Duration = Duration::from_secs(10);

async fn connected(node: &Node, name: &str) -> WorkClient {
    node.connect::<WorkClient>(name).wait_for(SOON).await.unwrap()
}

/// A callee gets the time that its caller grants, also through a node in the middle, and uses it.
pub(crate) fn extended(sim: &Sim) {
    worker(sim, "front");
    worker(sim, "back");
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let (front, back) = (connected(&node, "front").await, connected(&node, "back").await);
        for _ in 0..6 {
            let (has, wants) = (50 + sim.below(100), 400 + sim.below(1_000));
            let takes = sim.below(wants - 100);
            let call = back.more(wants, takes).deadline(ms(has)).extendable(ms(60_000));
            assert_eq!(call.await, Ok(true));
            let call = front.more_there(has, wants, takes).deadline(ms(has + 50));
            assert_eq!(call.extendable(ms(60_000)).await, Ok(true));
            let call = back.more(wants, takes).deadline(ms(2_000)).extendable(ms(1));
            assert_eq!(call.await, Ok(true), "it has the time already");
            let refused = back.more(wants, 0).deadline(ms(has)).extendable(ms(1)).await;
            assert_eq!(refused, Ok(false));
            let refused = front.more_there(has + 50, wants, 0).deadline(ms(has)).extendable(ms(1));
            assert_eq!(refused.await, Ok(false), "its caller has no more time");
        }
    });
    let back: WorkHandle = sim.handles().connect("back").unwrap();
    for _ in 0..6 {
        let (has, wants) = (50 + sim.below(100), 400 + sim.below(1_000));
        let takes = sim.below(wants - 100);
        let blocking = back.blocking().deadline(ms(has)).extendable(ms(60_000));
        assert_eq!(blocking.more(wants, takes), Ok(true));
    }
}

/// A handler ends with its caller, unless it may outlive it, and an open stream ends with its reader.
pub(crate) fn left(sim: &Sim) {
    let streams = worker(sim, "front");
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let front = connected(&node, "front").await;
        let mut alone = Vec::new();
        for number in 0..30 {
            let short = ms(1 + sim.below(40));
            match sim.below(3) {
                0 => assert!(upbeat::within(short, front.finish(number, 500)).await.is_err()),
                1 => {
                    assert!(upbeat::within(short, front.finish_alone(number, 500)).await.is_err());
                    alone.push(number);
                }
                _ => {
                    let short = Duration::from_micros(sim.below(30));
                    drop(upbeat::within(short, front.numbers()).await.map(drop));
                }
            }
        }
        // A number serves many calls, one after another.
        for number in 100..110 {
            assert_eq!(front.guarded(number).await, Ok(number));
        }
        upbeat::sleep(ms(3_000)).await;
        let (mut finished, waits) = front.finished().await.unwrap();
        finished.sort_unstable();
        assert_eq!((finished, waits), (alone, 0));
        assert_eq!(streams.load(Relaxed), 0, "all readers have gone");
    });
}

/// A handler that outlives its caller ends at its deadline, and when its method says so.
pub(crate) fn outlived(sim: &Sim) {
    worker(sim, "front");
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let front = connected(&node, "front").await;
        let has = 200 + sim.below(300);
        let (long, short) = (front.finish_alone(1, 100_000), front.finish_alone(2, 30_000));
        drop(upbeat::within(ms(20), long).await);
        drop(upbeat::within(ms(20), short.deadline(ms(has))).await);
        assert_eq!(front.finished().await, Ok((vec![], 2)));
        upbeat::sleep(ms(has + 100)).await;
        assert_eq!(front.finished().await, Ok((vec![], 1)), "the deadline of one is past");
        upbeat::sleep(ms(58_000)).await;
        assert_eq!(front.finished().await, Ok((vec![], 1)));
        upbeat::sleep(ms(4_000)).await;
        assert_eq!(front.finished().await, Ok((vec![], 0)), "a minute is over");
    });
}

/// Callers die, and are shut down: handlers that may outlive them do, others do not.
pub(crate) fn orphaned(sim: &Sim) {
    worker(sim, "front");
    sim.start("caller", |sim| {
        let node = sim.node("caller").build().unwrap();
        node.block_on(async {
            let front = connected(&node, "front").await;
            for number in 0..3 {
                let (some, others) = (front.clone(), front.clone());
                drop(node.spawn(async move { some.finish(number, 600).await }));
                drop(node.spawn(async move { others.finish_alone(100 + number, 600).await }));
            }
            upbeat::sleep(ms(400)).await;
        });
        if sim.below(2) == 0 {
            sim.kill("caller");
        }
        Ok::<_, Infallible>(())
    });
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let front = connected(&node, "front").await;
        upbeat::sleep(ms(300)).await;
        assert_eq!(front.finished().await.unwrap().1, 6, "all wait");
        upbeat::sleep(ms(200)).await;
        assert_eq!(front.finished().await.unwrap().1, 3, "some have ended with their caller");
        upbeat::sleep(ms(2_000)).await;
        assert_eq!(front.finished().await, Ok((vec![100, 101, 102], 0)));
    });
}

/// A call that is sent back is sent again until the lock is free.
pub(crate) fn sent_back(sim: &Sim) {
    worker(sim, "front");
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let front = connected(&node, "front").await;
        for number in 0..10 {
            let holds = front.clone();
            let time = sim.below(20);
            let held = node.spawn(async move { holds.hold(time).await });
            upbeat::sleep(Duration::from_micros(sim.below(200))).await;
            assert_eq!(front.guarded(number).await, Ok(number));
            held.await.unwrap().unwrap();
        }
    });
}

/// A door that takes a while to be passed.
struct Door;

impl Layer for Door {
    async fn around(&self, _: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
        upbeat::sleep(ms(100)).await;
        next.run().await
    }
}

/// Calls pass the layers beside each other, and the limit behind them one after another.
pub(crate) fn limited(sim: &Sim) {
    sim.start("limited", |sim| {
        let node = sim.node("limited").build().unwrap();
        node.serve(WorkServer::new(Worker::of(&node)).layer(Door).max_concurrent(2)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let work = connected(&node, "limited").await;
        let began = Instant::now();
        let calls: Vec<_> = (0..6)
            .map(|number| {
                let work = work.clone();
                node.spawn(async move { work.finish(number, 10).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), Ok(()));
        }
        let took = began.elapsed();
        assert!(took >= ms(130) && took < ms(180), "three pairs behind one door: {took:?}");
    });
}

/// Starts a node that closes after a while, until its handlers are done.
fn closes(sim: &Sim, takes: Range<Duration>) {
    sim.start("closes", move |sim| {
        let node = sim.node("closes").build().unwrap();
        node.serve(WorkServer::new(Worker::of(&node))).unwrap();
        node.block_on(upbeat::sleep(ms(200)));
        let began = Instant::now();
        node.shut_down(ms(1_000));
        assert!(takes.contains(&began.elapsed()), "it closes for {:?}", began.elapsed());
        Ok::<_, Infallible>(())
    });
}

/// A node that closes says so to who calls it, and finishes what it has begun.
pub(crate) fn closing(sim: &Sim) {
    closes(sim, ms(400)..ms(600));
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let work = connected(&node, "closes").await;
        let begun = work.clone();
        let begun = node.spawn(async move { begun.finish(1, 600).await });
        upbeat::sleep(ms(300)).await;
        for number in 0..5 {
            let told = upbeat::within(ms(20), work.finish(number, 0)).await;
            let Ok(Err(error)) = told else { panic!("it is told at once") };
            assert!(!error.may_have_run(), "{error}");
            upbeat::sleep(ms(sim.below(20))).await;
        }
        assert_eq!(begun.await.unwrap(), Ok(()));
    });
}

/// The caller of a handler that may outlive it dies while the node closes: the handler goes on for the grace.
fn closing_behind_a_caller(sim: &Sim) {
    closes(sim, ms(700)..ms(900));
    sim.start("caller", |sim| {
        let node = sim.node("caller").build().unwrap();
        node.block_on(async {
            let work = connected(&node, "closes").await;
            drop(node.spawn(async move { work.finish_alone(1, 1_000).await }));
            upbeat::sleep(ms(300)).await;
        });
        sim.kill("caller");
        Ok::<_, Infallible>(())
    });
    sim.node("client").build().unwrap().block_on(upbeat::sleep(ms(3_000)));
}

#[test]
fn callees_get_the_time_that_their_callers_grant() {
    check(10, extended);
}

#[test]
fn handlers_end_with_their_callers_unless_they_may_outlive_them() {
    check(10, left);
    check(10, orphaned);
    check(10, outlived);
}

#[test]
fn calls_are_sent_again_until_a_lock_is_free() {
    check(10, sent_back);
}

#[test]
fn the_limit_lies_behind_the_layers() {
    check(10, limited);
}

#[test]
fn a_node_that_closes_says_so() {
    check(10, closing);
    check(10, closing_behind_a_caller);
}
