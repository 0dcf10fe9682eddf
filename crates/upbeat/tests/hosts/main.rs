//! Nodes that meet over TCP: what works between two processes of a host works between hosts. Both sides are
//! on this host here, with nothing in common but the network.

#[path = "../common/mod.rs"]
mod common;

mod beside;

mod bounds;

mod callbacks;

mod carriers;

mod distant;

mod floods;

mod held;

mod idle;

mod leaving;

mod networks;

mod oneways;

mod own;

mod resume;

mod strangers;

mod too_large;
mod trust;

mod wrong;

use common::left_out::leave_out;
use common::process::{self, Other, input_ends, say};
use common::work::{WorkClient, WorkHandle, WorkServer, Worker, handle_works, works};
use common::{Directory, PROGRAM, Watchdog, alone, secure, setting, soon};
use rustix::process::Signal as Deadly;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Identity, Lost, Node, Waiting};

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    process::play(&[carriers::play, networks::ledger::play, play]);
}

/// Plays a server: `idle [WORDS]`, or `[apart] PROGRAM NAME ADDRESS IDENTITY`.
fn play(part: &str, place: &Path) -> bool {
    if let Some(words) = part.strip_prefix("idle") {
        idle::play(words.trim_start());
        return true;
    }
    let (part, shares) = match part.strip_prefix("apart ") {
        Some(part) => (part, false),
        None => (part, true),
    };
    let Ok([program, name, at, identity]) = <[_; 4]>::try_from(part.split(' ').collect::<Vec<_>>())
    else {
        return false;
    };
    let builder = Node::builder(name).program(program).directory(place).listen(at);
    // The client's time counts.
    let builder = builder.resume_within(Duration::from_secs(60));
    let builder = if shares { builder } else { builder.shared_memory(false) };
    let node = protected(builder, identity).build().unwrap();
    let quit = input_ends();
    let worker = Rc::new(Worker::new(quit.clone()));
    *worker.node.borrow_mut() = Some(node.clone());
    node.serve(WorkServer::shared(Rc::clone(&worker))).unwrap();
    node.serve(resume::FlowServer::new(resume::Flows)).unwrap();
    say(&format!("serving {}", node.listens_at().unwrap()));
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
    *worker.node.borrow_mut() = None;
    true
}

/// A builder whose messages go under TLS by the identity in this file, or as they are without one.
fn protected(builder: upbeat::Builder, identity: &str) -> upbeat::Builder {
    match identity {
        "" => builder.insecure_plaintext(),
        path => builder.identity(identity_of(path)),
    }
}

fn identity_of(path: &str) -> Identity {
    Identity::load(path).unwrap()
}

/// A server in another process, with sockets of its own.
struct Server {
    process: Other,
    /// Where it listens: a host and a port.
    at: String,
    _directory: Directory,
}

impl Server {
    fn start(name: &str) -> Server {
        Server::of(PROGRAM, name, "127.0.0.1:0")
    }

    fn of(program: &str, name: &str, at: &str) -> Server {
        Server::with(program, name, at, "")
    }

    /// One with the identity in this file, if there is one.
    fn with(program: &str, name: &str, at: &str, identity: &str) -> Server {
        let directory = Directory::new();
        let part = format!("{program} {name} {at} {identity}");
        let mut process = Other::start(&part, &directory.path());
        let at = process.expect("serving");
        Server { process, at, _directory: directory }
    }

    /// Returns the name and the address to which a client connects.
    fn named(&self, name: &str) -> String {
        format!("{name}@{}", self.at)
    }
}

fn client(directory: &Directory, waiting: Waiting) -> Node {
    client_that(directory, |builder| builder.waiting(waiting))
}

fn client_that(
    directory: &Directory,
    with: impl FnOnce(upbeat::Builder) -> upbeat::Builder,
) -> Node {
    with(unprotected(directory).insecure_plaintext()).build().unwrap()
}

/// A client's builder that does not say yet how messages are protected.
fn unprotected(directory: &Directory) -> upbeat::Builder {
    // The registry of this process is one for all tests.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("client/{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Node::builder(&name).program(PROGRAM).directory(directory.path())
}

fn handle(directory: &Directory) -> upbeat::handle::HandleBuilder {
    upbeat::handle::builder().program(PROGRAM).directory(directory.path()).insecure_plaintext()
}

async fn connected(node: &Node, to: &str) -> WorkClient {
    node.connect(to).await.unwrap()
}

#[test]
fn everything_works_however_a_side_waits() {
    let _watchdog = Watchdog::new("over TCP");
    let directory = Directory::new();
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let mut server = Server::of(PROGRAM, "server", at);
        let to = server.named("server");
        for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
            let node = client(&directory, waiting);
            node.block_on(async {
                let work = connected(&node, &to).await;
                works(&work).await;
                // A client that connects again uses the existing session.
                let again = connected(&node, &to).await;
                assert_eq!(soon(again.add(1, 1)).await, Ok(2));
            });
            assert_eq!(node.counted(Counter::SessionsOpened), 1);

            let work: WorkHandle = handle(&directory).waiting(waiting).connect(&to).unwrap();
            handle_works(&work);
        }
        server.process.end();
    }
}

/// A name has several addresses, of which one leads to the node.
#[test]
fn the_addresses_of_a_host_are_tried_in_turn() {
    let _watchdog = Watchdog::new("several addresses");
    let directory = Directory::new();
    let node = client(&directory, Waiting::Adaptive);
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let server = Server::of(PROGRAM, "server", at);
        let port = server.at.rsplit_once(':').unwrap().1;
        let to = format!("server@localhost:{port}");
        let known = std::net::ToSocketAddrs::to_socket_addrs(&format!("localhost:{port}")).unwrap();
        if !known.map(|known| known.to_string()).any(|known| known == server.at) {
            leave_out(&format!("localhost does not stand for {at} here"));
            continue;
        }
        node.block_on(async { works(&connected(&node, &to).await).await });
        let work: WorkHandle = handle(&directory).connect(&to).unwrap();
        assert_eq!(work.blocking().add(3, 4), Ok(7));
    }
}

/// A million calls go over one connection, where so many are asked for.
#[test]
fn calls_go_on_and_on() {
    let _watchdog = Watchdog::new("many calls");
    let directory = Directory::new();
    let server = Server::start("server");
    let node = client(&directory, Waiting::Adaptive);
    let calls = setting("UPBEAT_STREAM_CALLS", 10_000);
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        for number in 0..calls {
            assert_eq!(work.add(number, 1).await, Ok(number + 1));
        }
        for number in 0..calls {
            work.note(number + 1).await.unwrap();
        }
        assert_eq!(soon(work.noted()).await, Ok((calls, calls, 0)));
        for _ in 0..calls / 1000 {
            let open: Vec<_> = (0..100)
                .map(|number| {
                    let work = work.clone();
                    node.spawn(async move { work.add(number, number).await })
                })
                .collect();
            for (number, call) in (0..).zip(open) {
                assert_eq!(call.await.unwrap(), Ok(2 * number));
            }
        }
    });
}

#[test]
fn deadlines_cancels_and_deaths_are_as_on_one_host() {
    let _watchdog = Watchdog::new("ends of calls");
    let directory = Directory::new();
    let mut server = Server::start("server");
    let lost = Rc::new(RefCell::new(Vec::<Lost>::new()));
    let told = Rc::clone(&lost);
    let node = client_that(&directory, |builder| {
        let builder = builder.resume_within(Duration::from_millis(300));
        builder.on_lost(move |lost| told.borrow_mut().push(lost.clone()))
    });
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        let late = work.forever().deadline(Duration::from_millis(50)).await;
        assert_eq!(late, Err(CallError::deadline(true)));
        assert_eq!(soon(work.nap(20, 7).deadline(Duration::from_secs(20))).await, Ok(7));
        let cancelled = node.spawn({
            let work = work.clone();
            async move { work.forever().await }
        });
        while soon(work.waiting()).await.unwrap().0 == 0 {}
        cancelled.cancel();
        while soon(work.waiting()).await.unwrap().0 != 0 {}

        let open = node.spawn({
            let work = work.clone();
            async move { work.forever().await }
        });
        while soon(work.waiting()).await.unwrap().0 == 0 {}
        let began = Instant::now();
        server.process.kill();
        let Err(CallError::Unknown(ended)) = soon(open).await.unwrap() else {
            panic!("it has run")
        };
        assert!(began.elapsed() < Duration::from_secs(5));
        let text = ended.to_string();
        assert!(text.contains(&format!("server ({})", server.at)), "{text}");
        let Err(CallError::NotConnected { text, .. }) = soon(work.add(1, 1)).await else {
            panic!("nobody is there")
        };
        assert!(text.contains(&server.at.to_string()), "{text}");
    });
    assert_eq!(lost.borrow().len(), 1);
}

/// A peer that is stopped holds up its own session, and is not lost: its host answers.
#[test]
fn a_slow_peer_holds_up_its_own_session() {
    let _watchdog = Watchdog::new("a slow peer");
    let directory = Directory::new();
    let (slow, server) = (Server::start("slow"), Server::start("server"));
    let node = client(&directory, Waiting::Adaptive);
    node.block_on(async {
        let late = connected(&node, &slow.named("slow")).await;
        let work = connected(&node, &server.named("server")).await;
        assert_eq!(late.noted().await, Ok((0, 0, 0)));
        slow.process.signal(Deadly::STOP);
        let mut sent = 0;
        while late.note(sent + 1).try_send().is_ok() {
            sent += 1;
            assert!(sent < 10_000_000, "it takes everything");
        }
        assert!(sent >= 50, "{sent}");
        works(&work).await;
        slow.process.signal(Deadly::CONT);
        late.note(sent + 1).await.unwrap();
        let (noted, ..) = soon(late.noted()).await.unwrap();
        assert_eq!(noted, sent + 1, "each of them has come");
    });
}

/// A node is found by its name on this host alone, whatever sessions there are with others of that name.
#[test]
fn a_name_without_an_address_is_one_of_this_host() {
    // A node of another test may have the name.
    let _alone = alone();
    let _watchdog = Watchdog::new("names");
    let directory = Directory::new();
    let server = Server::start("server");
    let node = client(&directory, Waiting::Adaptive);
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        assert_eq!(soon(work.add(1, 2)).await, Ok(3));
        let error = node.connect::<WorkClient>("server").await.err().unwrap();
        assert!(error.to_string().contains("there is no node `server`"), "{error}");
    });
}
