//! Tests of the bounds on callers of other hosts: connections at once, and sessions of one address.

use crate::callbacks::issue;
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Signal, Watchdog, alone, soon, until};
use crate::resume::proxy::{How, Proxy};
use crate::strangers::greeting;
use crate::{client_that, protected, unprotected};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{Builder, Counter, Node};
use upbeat_core::hello::{Parsed, Record};

/// Has a node with these bounds serve on another thread while a test runs, which gets its address. The node has the
/// identity in this file, if there is one. Returns what it has counted.
pub(crate) fn beside(
    name: &'static str,
    identity: &str,
    with: impl FnOnce(Builder) -> Builder + Send + 'static,
    test: impl FnOnce(&str),
) -> Counted {
    let (tell, told) = channel();
    let (quit, quits) = channel::<()>();
    let directory = Directory::new();
    let (place, identity) = (directory.path(), identity.to_owned());
    let server = thread::spawn(move || {
        let builder = Node::builder(name).program(PROGRAM).directory(place);
        let node = with(protected(builder.listen("127.0.0.1:0"), &identity)).build().unwrap();
        node.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
        tell.send(node.listens_at().unwrap().to_string()).unwrap();
        while quits.try_recv().is_err() {
            node.block_on(upbeat::sleep(Duration::from_millis(5)));
        }
        let turned_away = node.counted(Counter::CallersTurnedAway);
        Counted { turned_away, over_runs: node.counted(Counter::TaskOverRuns) }
    });
    test(&told.recv().unwrap());
    quit.send(()).unwrap();
    server.join().unwrap()
}

/// The counts of a node at its end.
pub(crate) struct Counted {
    pub(crate) turned_away: u64,
    over_runs: u64,
}

impl Counted {
    /// Returns the callers that were turned away. Handshakes are not blamed on the main future.
    fn turned_away(self) -> u64 {
        assert_eq!(self.over_runs, 0);
        self.turned_away
    }
}

/// Callers of one address have as many sessions as the node permits. The next caller is refused, and succeeds once a
/// session has ended.
#[test]
fn an_address_has_as_many_sessions_as_it_may() {
    let _alone = alone();
    let _watchdog = Watchdog::new("sessions of an address");
    for secure in [false, true] {
        let directory = Directory::new();
        let identity = if secure { issue(&directory) } else { String::new() };
        let counted = beside(
            "bounded",
            &identity,
            |builder| builder.sessions_per_address(2),
            |at| check_bound(at, &directory, &identity),
        );
        assert!(counted.turned_away() >= 1, "the owner sees it counted");
    }
}

/// Has three callers connect where two may.
fn check_bound(at: &str, directory: &Directory, identity: &str) {
    let to = format!("bounded@{at}");
    let client = || {
        let builder = unprotected(directory).shared_memory(false);
        protected(builder, identity).build().unwrap()
    };
    let nodes = [client(), client(), client()];
    let connect = |node: &Node| {
        node.block_on(async {
            let work: WorkClient = node.connect(&to).await?;
            assert_eq!(soon(work.add(1, 2)).await, Ok(3));
            Ok::<_, upbeat::ConnectError>(())
        })
    };
    let [first, second, third] = &nodes;
    connect(first).unwrap();
    connect(second).unwrap();
    let error = connect(third).unwrap_err().to_string();
    for words in ["too many sessions with callers of this address", "127.0.0.1", at] {
        assert!(error.contains(words), "{error}");
    }
    // A session that stands goes on.
    connect(first).unwrap();
    let [first, _second, third] = nodes;
    drop(first);
    let begun = Instant::now();
    while let Err(error) = connect(&third) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    }
}

/// Callers of one address that come at once have no more sessions than it may have: each was accepted before any session
/// was open.
#[test]
fn callers_that_come_at_once_have_no_more_sessions_than_they_may() {
    const CALLERS: usize = 12;
    let _alone = alone();
    let _watchdog = Watchdog::new("sessions of an address in a burst");
    for secure in [false, true] {
        let directory = Directory::new();
        let identity = if secure { issue(&directory) } else { String::new() };
        let counted = beside(
            "burst",
            &identity,
            |builder| builder.sessions_per_address(2),
            |at| {
                let to = format!("burst@{at}");
                let together = Barrier::new(CALLERS);
                let has_session = || {
                    let builder = unprotected(&directory).shared_memory(false);
                    let node = protected(builder, &identity).build().unwrap();
                    together.wait();
                    let session = node.block_on(node.connect::<WorkClient>(&to));
                    // All sessions are there until the last caller has its answer.
                    together.wait();
                    session.is_ok()
                };
                let sessions: usize = std::thread::scope(|scope| {
                    let all: Vec<_> = (0..CALLERS).map(|_| scope.spawn(has_session)).collect();
                    all.into_iter().map(|one| usize::from(one.join().unwrap())).sum()
                });
                assert_eq!(sessions, 2);
            },
        );
        assert_eq!(counted.turned_away(), CALLERS as u64 - 2);
    }
}

/// A caller whose address has as many sessions as it may goes on with its own, before the node has noticed that the
/// old connection has gone. New callers of the address are refused, before and after.
#[test]
fn an_address_with_all_its_sessions_goes_on_with_them() {
    let _alone = alone();
    let _watchdog = Watchdog::new("resuming at the bound of an address");
    let directory = Directory::new();
    let counted = beside(
        "frequented",
        "",
        |builder| builder.sessions_per_address(1),
        |at| {
            let proxy = Proxy::to(at);
            let to = format!("frequented@{}", proxy.at);
            let client = || client_that(&directory, |builder| builder);
            let [first, second] = [client(), client()];
            let connect = |node: &Node| node.block_on(node.connect::<WorkClient>(&to));
            let work = connect(&first).unwrap();
            let is_refused = || {
                let error = connect(&second).err().unwrap().to_string();
                assert!(
                    error.contains("too many sessions with callers of this address"),
                    "{error}"
                );
            };
            is_refused();
            proxy.cut(How::HalfOpen);
            assert_eq!(first.block_on(soon(work.add(3, 4))), Ok(7));
            assert_eq!(first.counted(Counter::SessionsResumed), 1);
            is_refused();
        },
    );
    assert_eq!(counted.turned_away(), 2, "each refused caller is counted, and no other");
}

/// Nodes that have as many sessions as they may, on either side, go on with those whose connection has gone. New ones
/// are refused, before and after.
#[test]
fn a_node_without_a_place_for_another_session_goes_on_with_its_own() {
    let _alone = alone();
    let _watchdog = Watchdog::new("resuming in a full table");
    let directory = Directory::new();
    beside(
        "filled",
        "",
        |builder| builder.remote_sessions(2),
        |at| {
            // At its own address the node would be reached in memory.
            let proxy = Proxy::to(at);
            let to = format!("filled@{}", proxy.at);
            let client = || client_that(&directory, |builder| builder.remote_sessions(1));
            let [first, second, third] = [client(), client(), client()];
            let connect = |node: &Node| node.block_on(node.connect::<WorkClient>(&to));
            let works = [&first, &second].map(|node| (node, connect(node).unwrap()));
            let is_refused = || {
                let error = connect(&third).err().unwrap().to_string();
                assert!(error.contains("2 sessions are the most of this node"), "{error}");
            };
            is_refused();
            proxy.cut(How::Reset);
            for (node, work) in &works {
                node.block_on(async {
                    until(|| node.counted(Counter::SessionsSuspended) == 1).await;
                    assert_eq!(soon(work.add(3, 4)).await, Ok(7));
                });
                assert_eq!(node.counted(Counter::SessionsResumed), 1);
            }
            is_refused();
        },
    );
}

/// First messages are answered at the rate that the node permits, and wait until then. Connections that send none take no
/// part of the rate.
#[test]
fn first_messages_are_answered_at_a_rate() {
    let _alone = alone();
    let _watchdog = Watchdog::new("rate");
    let directory = Directory::new();
    let greeting = greeting(&directory, "calm");
    beside(
        "calm",
        "",
        |builder| builder.accepts_per_second(20),
        |at| {
            let connect = |_| TcpStream::connect(at).unwrap();
            let _silent: Vec<TcpStream> = (0..100).map(connect).collect();
            let strange = (0..100).map(connect);
            strange.for_each(|mut caller| drop(caller.write_all(b"GET / HTTP/1.1\r\n\r\n")));
            let begun = Instant::now();
            let callers: Vec<TcpStream> = (0..30)
                .map(|number| {
                    let mut caller = connect(number);
                    caller.write_all(&greeting).unwrap();
                    caller
                })
                .collect();
            // One of those that wait has gone before it is answered.
            let mut gone = connect(0);
            gone.write_all(&greeting).unwrap();
            rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).unwrap();
            drop(gone);
            for mut caller in callers {
                caller.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut said = [0; 1024];
                let bytes = caller.read(&mut said).unwrap();
                let answer = Record::parse(&said[..bytes]);
                assert!(
                    matches!(answer, Ok(Parsed::Complete(Record::Welcome(_), _))),
                    "{answer:?}"
                );
            }
            // Twenty at once, and ten at twenty a second.
            let took = begun.elapsed();
            assert!(took >= Duration::from_millis(450), "{took:?}");
        },
    );
}
