//! Nodes and handles that have nothing else to do: nothing but the event itself wakes them in time.

use crate::common::{ms, remote};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use upbeat::export::ReadError;
use upbeat::{CallError, Counter, Node};
use upbeat_environment::time::Instant;
use upbeat_sim::{Sim, check};

const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// Waits.
#[upbeat::service]
trait Wait {
    /// Waits until its deadline.
    async fn wait(&self);
    /// Returns at once.
    async fn pass(&self, number: u64) -> u64;
    /// Returns after a time.
    async fn rest(&self, ms: u64);
}

/// The times at which handlers began and ended.
type Times = Arc<Mutex<Vec<[Instant; 2]>>>;

struct Waits(Times);

/// A handler that waits.
struct Waiting(Times, Instant);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().unwrap().push([self.1, Instant::now()]);
    }
}

impl Wait for Waits {
    async fn wait(&self) {
        let _waiting = Waiting(Arc::clone(&self.0), Instant::now());
        std::future::pending().await
    }
    async fn pass(&self, number: u64) -> u64 {
        number
    }
    async fn rest(&self, ms: u64) {
        upbeat::sleep(Duration::from_millis(ms)).await;
    }
}

/// Starts a node that does nothing by itself. Returns the times of its handlers.
fn waits(sim: &Sim) -> Times {
    let times = Times::default();
    let of = Arc::clone(&times);
    sim.host("vienna").start("waits", move |sim| {
        let node = remote(sim, "waits", LONG).listen("vienna:7000").build().unwrap();
        node.serve(WaitServer::new(Waits(Arc::clone(&of)))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    times
}

async fn connected(node: &Node) -> WaitClient {
    node.connect::<WaitClient>("waits@vienna:7000").wait_for(SOON).await.unwrap()
}

/// A handler ends at its deadline although its caller has stopped, and a deadline here although the callee has.
pub(crate) fn deadlines(sim: &Sim) {
    let times = waits(sim);
    sim.host("linz").start("caller", |sim| {
        let node = remote(sim, "caller", LONG).build().unwrap();
        node.block_on(async {
            let waits = connected(&node).await;
            waits.wait().deadline(ms(300)).await.unwrap_err();
            std::future::pending::<()>().await;
        });
        Ok::<_, Infallible>(())
    });
    sim.pause(ms(100));
    sim.stop("caller");
    sim.pause(ms(1_000));
    let [began, ended] = times.lock().unwrap()[0];
    let took = ended - began;
    assert!(took > ms(298) && took < ms(302), "the handler ends after {took:?}");
    sim.go_on("caller");
    let waits: WaitHandle = sim
        .handles()
        .insecure_plaintext()
        .resume_within(LONG)
        .connect("waits@vienna:7000")
        .unwrap();
    assert_eq!(sim.block_on(waits.pass(1)), Ok(1));
    sim.stop("waits");
    let began = Instant::now();
    let ends = |of: Result<(), CallError>, time: Duration| {
        assert!(matches!(of, Err(CallError::Deadline(_))), "{of:?}");
        let took = began.elapsed();
        assert!(took >= time && took < time + ms(2), "{took:?} for {time:?}");
    };
    // The later deadline is set first, and is still due behind the earlier one.
    sim.block_on(async {
        let mut late = pin!(waits.wait().deadline(ms(400)));
        let mut early = pin!(waits.wait().deadline(ms(150)));
        let polled = poll_fn(|context| {
            assert!(late.as_mut().poll(context).is_pending(), "it is the later one");
            early.as_mut().poll(context)
        });
        ends(polled.await, ms(150));
        ends(late.await, ms(400));
    });
    let began = Instant::now();
    let told = waits.blocking().deadline(ms(200)).wait();
    assert!(matches!(told, Err(CallError::Deadline(_))), "{told:?}");
    assert!(began.elapsed() < ms(202), "{:?}", began.elapsed());
    sim.go_on("waits");
    assert_eq!(waits.blocking().pass(2), Ok(2));
    // The session of the handle waits for another connection.
    sim.part("main", "vienna");
    sim.break_connections("main", "vienna");
    let began = Instant::now();
    let told = waits.blocking().deadline(ms(200)).pass(3);
    assert!(matches!(told, Err(CallError::Deadline(_))), "{told:?}");
    assert!(began.elapsed() < ms(202), "{:?}", began.elapsed());
    sim.heal("main", "vienna");
    assert_eq!(waits.blocking().pass(4), Ok(4));
}

/// A node answers a caller of another host although a caller of its own host has kept it so busy meanwhile that the other
/// one's socket is left to the epoll.
pub(crate) fn beside(sim: &Sim) {
    const CALLS: u64 = 6_000;
    waits(sim);
    let node = remote(sim, "client", LONG).build().unwrap();
    node.block_on(async {
        let far = connected(&node).await;
        let rests = node.spawn(async move { far.rest(2_000).deadline(SOON).await });
        upbeat::sleep(ms(100)).await;
        sim.host("vienna").start("beside", |sim| {
            let node = sim.node("beside").build().unwrap();
            node.block_on(async {
                let near: WaitClient = node.connect("waits").wait_for(SOON).await.unwrap();
                for number in 0..CALLS {
                    assert_eq!(near.pass(number).await, Ok(number));
                }
            });
            Ok::<_, Infallible>(())
        });
        assert_eq!(rests.await.unwrap(), Ok(()));
    });
    assert!(sim.time() < ms(3_000), "{:?}", sim.time());
}

#[test]
fn a_socket_that_is_left_to_the_epoll_gets_its_reply() {
    check(1, beside);
}

/// A reply that comes together with the end of its connection is taken at once, also from a socket that was left to the epoll.
pub(crate) fn last_words(sim: &Sim) {
    const CALLS: u64 = 6_000;
    waits(sim);
    sim.start("near", |sim| {
        let node = sim.node("near").build().unwrap();
        node.serve(WaitServer::new(Waits(Times::default()))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let told = Arc::new(Mutex::new(None));
    let tells = Arc::clone(&told);
    sim.start("client", move |sim| {
        let node = remote(sim, "client", LONG).build().unwrap();
        node.block_on(async {
            let far = connected(&node).await;
            let rests = node.spawn(async move { far.rest(2_000).await });
            let near: WaitClient = node.connect("near").wait_for(SOON).await.unwrap();
            for number in 0..CALLS {
                assert_eq!(near.pass(number).await, Ok(number));
            }
            let answered = rests.await.unwrap();
            *tells.lock().unwrap() = Some((answered, Instant::now()));
        });
        Ok::<_, Infallible>(())
    });
    sim.pause(ms(1_500));
    sim.stop("client");
    sim.pause(ms(1_000));
    sim.kill("waits");
    sim.pause(ms(100));
    let goes_on = Instant::now();
    sim.go_on("client");
    sim.pause(ms(100));
    let (answered, at) = told.lock().unwrap().take().expect("the reply has come");
    assert_eq!(answered, Ok(()));
    assert!(at - goes_on < ms(5), "{:?}", at - goes_on);
}

#[test]
fn a_reply_that_comes_with_the_end_of_its_connection_is_taken_at_once() {
    check(1, last_words);
}

/// Two clients of a node that is gone share the attempts to reach it, and each gives up in its own time.
pub(crate) fn gives_up(sim: &Sim) {
    waits(sim);
    let node = remote(sim, "client", ms(0)).build().unwrap();
    node.block_on(async {
        let [hasty, patient] = [ms(300), LONG].map(async |time| {
            node.connect::<WaitClient>("waits@vienna:7000").wait_for(time).await.unwrap()
        });
        let (hasty, patient) = (hasty.await, patient.await);
        for number in 0..3 {
            sim.kill("waits");
            upbeat::sleep(ms(50)).await;
            let waiting = node.spawn({
                let patient = patient.clone();
                async move { patient.pass(number).await }
            });
            upbeat::sleep(ms(sim.below(20))).await;
            let began = Instant::now();
            let told = hasty.pass(number).await;
            assert!(told.as_ref().is_err_and(|error| !error.may_have_run()), "{told:?}");
            let took = began.elapsed();
            assert!(took >= ms(300) && took < ms(1_500), "{took:?}");
            sim.restart("waits");
            assert_eq!(waiting.await.unwrap(), Ok(number));
            assert_eq!(hasty.pass(number).await, Ok(number));
        }
    });
}

/// A message that waits for room when its callee dies was not sent, and says so.
pub(crate) fn unsent(sim: &Sim) {
    sim.start("full", |sim| {
        let node = sim.node("full").budget(4_096).session_budget(4_096).build().unwrap();
        node.serve(RoomServer::new(Filled)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let node = sim.node("client").conservative(true).build().unwrap();
    node.block_on(async {
        let full = node.connect::<RoomClient>("full").wait_for(SOON).await.unwrap();
        let calls: Vec<_> = (0..4)
            .map(|_| {
                let full = full.clone();
                node.spawn(async move { full.fill(vec![7; 3_000]).await })
            })
            .collect();
        upbeat::sleep(ms(50)).await;
        sim.kill("full");
        let mut have_run = 0;
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            have_run += u64::from(error.may_have_run());
        }
        assert!(have_run < 4, "some have waited");
    });
}

/// Takes room.
#[upbeat::service]
trait Room {
    /// Takes the room of a page for ever.
    async fn fill(&self, page: Vec<u8>);
}

struct Filled;

impl Room for Filled {
    async fn fill(&self, _page: Vec<u8>) {
        upbeat::sleep(LONG).await;
    }
}

/// The sender of a long message gives up its memory at the receiver after a while, although nothing else happens there.
pub(crate) fn tidies(sim: &Sim) {
    let held = Arc::<Mutex<u64>>::default();
    let of = Arc::clone(&held);
    sim.host("vienna").start("full", move |sim| {
        let node = remote(sim, "full", LONG).listen("vienna:7000").build().unwrap();
        node.serve(PagesServer::new(Measures)).unwrap();
        node.block_on(async {
            loop {
                upbeat::sleep(ms(100)).await;
                *of.lock().unwrap() = node.remote_bytes();
            }
        });
        Ok::<_, Infallible>(())
    });
    let is_node = sim.below(2) == 0;
    sim.host("linz").start("sender", move |sim| {
        let name = "full@vienna:7000";
        if is_node {
            let node = remote(sim, "sender", LONG).build().unwrap();
            node.block_on(async {
                let pages = node.connect::<PagesClient>(name).wait_for(SOON).await.unwrap();
                assert_eq!(pages.measure(vec![7; 900_000]).await, Ok(900_000));
                std::future::pending::<()>().await;
            });
        } else {
            let handles = sim.handles().insecure_plaintext().wait_for(SOON);
            let pages: PagesHandle = handles.connect(name).unwrap();
            assert_eq!(sim.block_on(pages.measure(vec![7; 900_000])), Ok(900_000));
            sim.pause(LONG);
        }
        Ok::<_, Infallible>(())
    });
    sim.pause(ms(500));
    assert!(*held.lock().unwrap() >= 900_000, "the page has a buffer");
    sim.pause(Duration::from_secs(30));
    assert!(*held.lock().unwrap() < 100_000, "{:?} bytes are held", held.lock().unwrap());
}

/// Measures.
#[upbeat::service]
trait Pages {
    /// Returns the length of a page.
    async fn measure(&self, page: Vec<u8>) -> u64;
}

struct Measures;

impl Pages for Measures {
    async fn measure(&self, page: Vec<u8>) -> u64 {
        page.len() as u64
    }
}

/// A connection takes no longer than its messages.
pub(crate) fn connects(sim: &Sim) {
    waits(sim);
    sim.pause(ms(100));
    for nth in 0..4 {
        let node = remote(sim, &format!("client-{nth}"), LONG).build().unwrap();
        let began = Instant::now();
        node.block_on(async {
            let clients = upbeat::all([connected(&node), connected(&node)]).await;
            assert_eq!(clients[1].pass(nth).await, Ok(nth));
        });
        assert_eq!(node.counted(Counter::SessionsOpened), 1, "both have the same session");
        assert!(began.elapsed() < ms(60), "{:?}", began.elapsed());
    }
}

/// A sleep that another task goes on with wakes that one.
pub(crate) fn passed_on(sim: &Sim) {
    let node = sim.node("node").build().unwrap();
    let began = Instant::now();
    node.block_on(async {
        let mut sleep = Box::pin(upbeat::sleep(ms(500)));
        poll_fn(|context| {
            assert!(sleep.as_mut().poll(context).is_pending(), "it lasts");
            Poll::Ready(())
        })
        .await;
        let is_over = Rc::new(Cell::new(false));
        let over = Rc::clone(&is_over);
        drop(node.spawn(async move {
            sleep.await;
            over.set(true);
        }));
        upbeat::sleep(ms(600)).await;
        assert!(is_over.get());
    });
    assert!(began.elapsed() < ms(602), "{:?}", began.elapsed());
}

/// A blocking caller that was idle while its node started anew calls again.
pub(crate) fn idle(sim: &Sim) {
    waits(sim);
    sim.pause(ms(100));
    let handles = sim.handles().insecure_plaintext().resume_within(ms(0));
    let waits: WaitHandle = handles.connect("waits@vienna:7000").unwrap();
    let blocking = waits.blocking();
    for number in 0..5 {
        assert_eq!(blocking.pass(number), Ok(number));
        assert_eq!(sim.block_on(waits.pass(number)), Ok(number));
        sim.kill("waits");
        sim.pause(ms(50 + sim.below(300)));
        let told = sim.block_on(waits.pass(number));
        assert!(matches!(told, Err(CallError::NotConnected { .. })), "{told:?}");
        sim.restart("waits");
        sim.pause(ms(100));
    }
}

/// Readers of an export that changes seldom, moves, and ends, on its owner's host and beyond a network.
pub(crate) fn watched(sim: &Sim) {
    const CHANGES: u64 = 20;
    sim.start("prices", |sim| {
        let node = remote(sim, "prices", LONG).listen("main:7100").build().unwrap();
        let asks = node.export("asks", [0_u64; 4]).unwrap();
        let past = node.export("past", vec![0_u64]).unwrap();
        node.block_on(async {
            for number in 1..=CHANGES {
                upbeat::sleep(ms(100)).await;
                asks.index(2).set(number);
                (0..50).for_each(|_| past.whole().push(number).unwrap());
            }
            upbeat::sleep(ms(500)).await;
            drop(asks);
            std::future::pending::<()>().await;
        });
        Ok::<_, Infallible>(())
    });
    let read = |host: &'static str| {
        sim.host(host).start(&format!("reader of {host}"), move |sim| {
            let node = remote(sim, &format!("reader/{host}"), LONG).build().unwrap();
            let owner = if host == "main" { "prices" } else { "prices@main:7100" };
            node.block_on(async {
                let asks = loop {
                    match node.import::<[u64; 4]>(&format!("{owner}/asks")).await {
                        Ok(asks) => break asks,
                        Err(_) => upbeat::sleep(ms(5)).await,
                    }
                };
                let past = node.import::<Vec<u64>>(&format!("{owner}/past")).await.unwrap();
                let (mut watch, mut seen, mut last) = (asks.index(2).watch(), 0, 0);
                let ended = loop {
                    match watch.changed().await {
                        Ok(number) => (seen, last) = (seen + 1, number),
                        Err(error) => break error,
                    }
                    assert!(past.length().read().await.is_ok_and(|length| length > 50 * last));
                };
                assert!(matches!(ended, ReadError::Ended), "{ended:?}");
                assert!(last == CHANGES && seen <= CHANGES + 1, "{seen} changes up to {last}");
                // Where the owner has room anew, its readers find it again.
                let calls = past.lost_bets().calls;
                assert!(host != "main" || 2 * calls < CHANGES, "{calls} calls");
            });
            Ok::<_, Infallible>(())
        });
    };
    ["main", "vienna"].into_iter().for_each(read);
    sim.pause(ms(4_000));
    for reader in ["reader of main", "reader of vienna"] {
        assert!(!sim.is_running(reader), "{reader} waits for ever");
    }
}

#[test]
fn deadlines_end_what_nothing_else_wakes() {
    check(6, deadlines);
    check(2, passed_on);
}

#[test]
fn an_idle_node_and_an_idle_caller_are_reached_at_once() {
    check(6, connects);
    check(6, idle);
}

#[test]
fn callers_of_a_node_that_is_gone_are_told_in_time() {
    check(4, gives_up);
    check(4, unsent);
}

#[test]
fn an_idle_sender_gives_up_its_memory() {
    check(4, tidies);
}

#[test]
fn watches_of_an_idle_reader_hear_each_change_and_the_end() {
    check(6, watched);
}
