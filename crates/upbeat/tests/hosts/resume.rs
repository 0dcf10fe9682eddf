//! A session between hosts outlives its connection: what both sides have sent comes, once and in order, over the
//! next one, or the session ends in time and says so.

mod boundaries;
mod cores;
mod ends;
mod framing;
mod handles;
mod outage;
pub(crate) mod proxy;
mod samples;
mod unanswered;

use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{
    Directory, PROGRAM, Signal, Watchdog, alone, counted_in_order, setting, soon, until,
};
use crate::trust::Authority;
use crate::{Server, client_that, connected, identity_of, unprotected};
use proxy::{How, Proxy};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{Counter, Node, Stream, Waiting};

/// Streams both ways.
#[upbeat::service]
pub(crate) trait Flow {
    async fn count(&self, to: u64) -> Stream<u64>;
    /// How many there were, if they were in order.
    async fn in_order(&self, numbers: Stream<u64>) -> Result<u64, String>;
}

pub(crate) struct Flows;

impl Flow for Flows {
    async fn count(&self, to: u64) -> Stream<u64> {
        Stream::of(0..to)
    }

    async fn in_order(&self, numbers: Stream<u64>) -> Result<u64, String> {
        counted_in_order(numbers).await
    }
}

/// How long sessions outlive their connections where a test waits for their end, which has to come in time.
const WITHIN: Duration = Duration::from_millis(300);
/// A busy machine takes its time.
const AT_MOST: Duration = Duration::from_secs(10);

/// Cuts of a test in all: so many, where nobody says.
fn cuts() -> u64 {
    setting("UPBEAT_CUTS", 90)
}

/// Does everything at once, again and again, while the connection is cut so often.
async fn all_at_once(node: &Node, work: &WorkClient, flow: &FlowClient, back: &str, proxy: &Proxy) {
    let over = Rc::new(Cell::new(false));
    let calls = node.spawn({
        let (work, over) = (work.clone(), Rc::clone(&over));
        async move {
            let mut number = 0;
            while !over.get() {
                assert_eq!(work.add(number, 1).await, Ok(number + 1));
                number += 1;
            }
        }
    });
    let notes = node.spawn({
        let (work, over) = (work.clone(), Rc::clone(&over));
        async move {
            let mut number = 0;
            while !over.get() {
                for _ in 0..50 {
                    number += 1;
                    work.note(number).await.unwrap();
                }
                assert_eq!(work.noted().await, Ok((number, number, 0)), "each once, in order");
            }
        }
    });
    let long = node.spawn({
        let (work, over) = (work.clone(), Rc::clone(&over));
        async move {
            let mut seed = 0;
            while !over.get() {
                seed += 1;
                let bytes = [300, 20_000, 70_000, 1 << 20][seed as usize % 4];
                let sent: Vec<u8> = (0..bytes).map(|at: u64| (at * 7 + seed) as u8).collect();
                assert_eq!(work.bytes(sent.clone()).await, Ok(sent));
            }
        }
    });
    let streams = node.spawn({
        let (flow, over) = (flow.clone(), Rc::clone(&over));
        async move {
            while !over.get() {
                let mut numbers = flow.count(2_000).await.unwrap();
                for expected in 0..2_000 {
                    assert_eq!(numbers.next().await, Some(Ok(expected)));
                }
                assert_eq!(flow.in_order(Stream::of(0..2_000)).await, Ok(2_000));
            }
        }
    });
    // The server calls this node to answer.
    let nested = node.spawn({
        let (work, over, back) = (work.clone(), Rc::clone(&over), back.to_owned());
        async move {
            while !over.get() {
                assert_eq!(work.relay(back.clone(), 20, 22).await, Ok(42));
            }
        }
    });
    let begun = Instant::now();
    while !proxy.has_broken() {
        assert!(begun.elapsed() < Duration::from_secs(100), "it does not go on");
        upbeat::sleep(Duration::from_millis(1)).await;
    }
    over.set(true);
    for task in [calls, notes, long, streams, nested] {
        soon(task).await.unwrap();
    }
}

/// A client that others reach, and the address of its node.
fn reached(node: &Node) -> String {
    node.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
    format!("{}@{}", node.name(), node.listens_at().unwrap())
}

/// Waits until the session of a node has come back after each break that it has met.
async fn resumed_after_each(node: &Node, proxy: &Proxy) {
    until(|| {
        let resumed = node.counted(Counter::SessionsResumed);
        resumed >= proxy.cut_late() && resumed == node.counted(Counter::SessionsSuspended)
    })
    .await;
    assert!(proxy.cut_late() > 0, "no session has met a break");
    assert_eq!(node.counted(Counter::SessionsLost), 0);
}

#[test]
fn nothing_is_lost_or_doubled_however_often_the_connection_breaks() {
    let _alone = alone();
    let _watchdog = Watchdog::new("many breaks");
    let directory = Directory::new();
    for (seed, waiting) in (1..).zip([Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping]) {
        let server = Server::start("server");
        let proxy = Proxy::to(&server.at);
        let node =
            client_that(&directory, |builder| builder.waiting(waiting).listen("127.0.0.1:0"));
        let (to, back) = (format!("server@{}", proxy.at), reached(&node));
        node.block_on(async {
            let work = connected(&node, &to).await;
            let flow = node.connect::<FlowClient>(&to).await.unwrap();
            proxy.break_often(cuts() / 3, seed);
            all_at_once(&node, &work, &flow, &back, &proxy).await;
            resumed_after_each(&node, &proxy).await;
        });
    }
}

#[test]
fn it_is_the_same_under_tls() {
    let _alone = alone();
    let _watchdog = Watchdog::new("many breaks under TLS");
    let (directory, authority) = (Directory::new(), Authority::new());
    let counter = authority.issue("server.pem", "test/*");
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &counter);
    let proxy = Proxy::to(&server.at);
    let own = authority.issue("client.pem", "test/client/*");
    let builder = unprotected(&directory).identity(identity_of(&own)).listen("127.0.0.1:0");
    let node = builder.build().unwrap();
    let (to, back) = (format!("server@{}", proxy.at), reached(&node));
    node.block_on(async {
        let work = connected(&node, &to).await;
        let flow = node.connect::<FlowClient>(&to).await.unwrap();
        proxy.break_often(cuts() / 3, 7);
        all_at_once(&node, &work, &flow, &back, &proxy).await;
        resumed_after_each(&node, &proxy).await;
    });
}

/// The listener does not notice that the old connection has gone: the caller still continues over another.
#[test]
fn a_caller_comes_back_before_its_listener_knows_that_it_was_gone() {
    let _alone = alone();
    let _watchdog = Watchdog::new("half open");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let node = client_that(&directory, |builder| builder);
    node.block_on(async {
        let work = connected(&node, &format!("server@{}", proxy.at)).await;
        for round in 1..=5 {
            let open = node.spawn({
                let work = work.clone();
                async move { work.nap(50, round).await }
            });
            while soon(work.waiting()).await.unwrap().0 == 0 {}
            proxy.cut(How::HalfOpen);
            assert_eq!(soon(open).await.unwrap(), Ok(round));
            assert_eq!(soon(work.add(round, 1)).await, Ok(round + 1));
        }
    });
    assert_eq!(node.counted(Counter::SessionsResumed), 5);
}

/// A break of some length costs time and nothing else. A client that connects meanwhile gets the suspended session.
#[test]
fn a_connection_that_is_away_for_a_while_is_waited_for() {
    let _alone = alone();
    let _watchdog = Watchdog::new("away for a while");
    let directory = Directory::new();
    let server = Server::start("server");
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        let proxy = Proxy::to(&server.at);
        let node = client_that(&directory, |builder| builder.waiting(waiting));
        let to = format!("server@{}", proxy.at);
        node.block_on(async {
            let work = connected(&node, &to).await;
            proxy.refuse(true);
            proxy.cut(How::Reset);
            let done = Rc::new(Cell::new(0));
            let call = node.spawn({
                let (work, done) = (work.clone(), Rc::clone(&done));
                async move {
                    let sum = work.add(3, 4).await;
                    done.set(done.get() + 1);
                    sum
                }
            });
            until(|| node.counted(Counter::SessionsSuspended) == 1).await;
            let again = node.spawn({
                let (node, to, done) = (node.clone(), to.clone(), Rc::clone(&done));
                async move {
                    let sum = node.connect::<WorkClient>(&to).await.unwrap().add(4, 5).await;
                    done.set(done.get() + 1);
                    sum
                }
            });
            upbeat::sleep(Duration::from_millis(100)).await;
            assert_eq!(done.get(), 0);
            proxy.refuse(false);
            assert_eq!(soon(call).await.unwrap(), Ok(7));
            assert_eq!(soon(again).await.unwrap(), Ok(9));
        });
        assert_eq!(node.counted(Counter::SessionsOpened), 1);
        assert_eq!(node.counted(Counter::SessionsResumed), 1);
    }
}
