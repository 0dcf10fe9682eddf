//! Sessions whose connection does not come back, or must not.

use super::proxy::{How, Proxy};
use super::{AT_MOST, WITHIN};
use crate::common::process::own_sockets;
use crate::common::work::WorkClient;
use crate::common::{Directory, PROGRAM, Watchdog, alone, soon, until};
use crate::{Server, client_that, connected};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Lost, Node, Waiting, Why};
use upbeat_core::bill::clock::Timestamps;
use upbeat_core::hello::{
    Hello, Networked, Parsed, Record, RefusalCode, Ticket, VERSION_MAX, VERSION_MIN,
};
use upbeat_core::name::ProgramId;
use upbeat_core::stream::write_end;

/// The ends of sessions that the client's `on_lost` got.
type Told = Rc<RefCell<Vec<Lost>>>;

/// A client whose sessions outlive their connections for so long.
fn client(directory: &Directory, waiting: Waiting, within: Duration) -> (Node, Told) {
    let lost = Told::default();
    let told = Rc::clone(&lost);
    let node = client_that(directory, |builder| {
        let builder = builder.waiting(waiting).resume_within(within);
        builder.on_lost(move |lost| told.borrow_mut().push(lost.clone()))
    });
    (node, lost)
}

/// A call that is open at the server, and never ends by itself.
async fn open_call(node: &Node, work: &WorkClient) -> upbeat::JoinHandle<Result<(), CallError>> {
    let call = node.spawn({
        let work = work.clone();
        async move { work.forever().await }
    });
    while soon(work.waiting()).await.unwrap().0 == 0 {}
    call
}

#[test]
fn calls_end_in_time_where_the_connection_does_not_come_back() {
    let _alone = alone();
    let _watchdog = Watchdog::new("given up");
    let directory = Directory::new();
    let server = Server::start("server");
    let direct = server.named("server");
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        let proxy = Proxy::to(&server.at);
        let (node, lost) = client(&directory, waiting, WITHIN);
        node.block_on(async {
            let work = connected(&node, &format!("server@{}", proxy.at)).await;
            let open = open_call(&node, &work).await;
            proxy.refuse(true);
            proxy.cut(How::End);
            let began = Instant::now();
            let Err(CallError::Unknown(ended)) = soon(open).await.unwrap() else {
                panic!("it has run")
            };
            let took = began.elapsed();
            assert!(took >= WITHIN && took < AT_MOST, "{took:?}");
            assert!(matches!(ended.why, Why::Unreachable { .. }), "{ended}");
            let text = ended.to_string();
            assert!(text.contains("no other could be made within 300 ms"), "{text}");
            // The proxy refuses the connection of a new session as well.
            let refused = soon(work.add(1, 1)).await;
            assert!(matches!(refused, Err(CallError::NotConnected { .. })), "{refused:?}");
            // The listener has given the session up by the same clock, and its handler with it.
            let other = connected(&node, &direct).await;
            while soon(other.waiting()).await.unwrap().0 != 0 {}
        });
        assert_eq!(lost.borrow().len(), 1, "told once: {:?}", lost.borrow());
        assert_eq!(node.counted(Counter::SessionsResumed), 0);
    }
}

/// Another process holds a duplicate of the socket, as a forked child does: the node does not wake for the end of a
/// connection that it has given up.
#[test]
fn a_broken_connection_whose_socket_another_process_holds_wakes_nobody() {
    let _alone = alone();
    let _watchdog = Watchdog::new("held sockets");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let (node, _) = client(&directory, Waiting::Sleeping, Duration::from_secs(60));
    node.block_on(async {
        let work = connected(&node, &format!("server@{}", proxy.at)).await;
        let held = own_sockets();
        let sleeps = async || {
            let before = node.counted(Counter::Sleeps);
            upbeat::sleep(Duration::from_millis(200)).await;
            node.counted(Counter::Sleeps) - before
        };
        proxy.refuse(true);
        proxy.cut(How::End);
        until(|| node.counted(Counter::SessionsSuspended) == 1).await;
        let while_broken = sleeps().await;
        proxy.refuse(false);
        until(|| node.counted(Counter::SessionsResumed) == 1).await;
        assert_eq!(soon(work.add(1, 1)).await, Ok(2));
        let later = sleeps().await;
        assert!(while_broken < 100 && later < 100, "{while_broken} and {later} sleeps");
        drop(held);
    });
}

/// Without time a break is the end, of both sides at once.
#[test]
fn a_break_ends_a_session_that_is_to_outlive_none() {
    let _alone = alone();
    let _watchdog = Watchdog::new("no time");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let (node, lost) = client(&directory, Waiting::Adaptive, Duration::ZERO);
    node.block_on(async {
        let work = connected(&node, &format!("server@{}", proxy.at)).await;
        let open = open_call(&node, &work).await;
        proxy.cut(How::End);
        assert!(matches!(soon(open).await.unwrap(), Err(CallError::Unknown(_))));
        let other = connected(&node, &server.named("server")).await;
        while soon(other.waiting()).await.unwrap().0 != 0 {}
    });
    assert_eq!(lost.borrow().len(), 1);
    assert_eq!(node.counted(Counter::SessionsSuspended), 0);
}

/// A node that was started anew has nothing of the sessions before.
#[test]
fn another_life_of_the_listener_ends_the_session_at_once() {
    let _alone = alone();
    let _watchdog = Watchdog::new("another incarnation");
    let directory = Directory::new();
    let mut server = Server::start("server");
    let (node, lost) = client(&directory, Waiting::Sleeping, Duration::from_secs(60));
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        let open = open_call(&node, &work).await;
        server.process.kill();
        server.process.child.wait().unwrap();
        until(|| node.counted(Counter::SessionsSuspended) == 1).await;
        let _next = Server::of(PROGRAM, "server", &server.at);
        let Err(CallError::Unknown(ended)) = soon(open).await.unwrap() else {
            panic!("it has run")
        };
        assert!(ended.to_string().contains("has no such session any more"), "{ended}");
        let work = connected(&node, &server.named("server")).await;
        assert_eq!(soon(work.add(1, 2)).await, Ok(3));
    });
    assert_eq!(lost.borrow().len(), 1);
}

/// A node that ends while a session waits for its connection does not wait for that.
#[test]
fn a_node_ends_in_time_while_a_session_is_suspended() {
    let _alone = alone();
    let _watchdog = Watchdog::new("shut down");
    let directory = Directory::new();
    let server = Server::start("server");
    for drops in [false, true] {
        let proxy = Proxy::to(&server.at);
        let (node, lost) = client(&directory, Waiting::Adaptive, Duration::from_secs(60));
        let began = node.block_on(async {
            let work = connected(&node, &format!("server@{}", proxy.at)).await;
            drop(open_call(&node, &work).await);
            proxy.refuse(true);
            proxy.cut(How::Reset);
            until(|| node.counted(Counter::SessionsSuspended) == 1).await;
            Instant::now()
        });
        match drops {
            true => drop(node),
            false => node.shut_down(Duration::from_millis(100)),
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(lost.borrow().len(), 1);
    }
}

/// A connection over which a stranger says a few records.
pub(super) struct Stranger(TcpStream);

impl Stranger {
    /// Greets as a node of the program does, and asks for something.
    pub(super) fn greet(server: &Server, incarnation: u64, asks: Networked) -> Stranger {
        let mut stream = TcpStream::connect(&server.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let hello = Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            program: ProgramId::named(PROGRAM.parse().unwrap()),
            caller: Some("stranger".parse().unwrap()),
            wanted: "server".parse().unwrap(),
            incarnation,
            pid: 1,
            memory: false,
        };
        stream.write_all(&Record::Hello(hello).encode()).unwrap();
        stream.write_all(&Record::Network(asks).encode()).unwrap();
        Stranger(stream)
    }

    /// Sends what comes behind the greeting.
    pub(super) fn says(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// That the peer has read everything and has not closed the connection: it reads our end behind it.
    pub(super) fn stands(&mut self, server: &Server) {
        let mut end = Vec::new();
        write_end(&mut end);
        self.says(&end);
        let mut rest = Vec::new();
        // A peer that meets a broken rule says so before it closes.
        self.0.read_to_end(&mut rest).unwrap();
        let text = String::from_utf8_lossy(&rest);
        assert!(!text.contains("rule"), "{} refused: {text}", server.at);
    }

    pub(super) fn hears(&mut self) -> Record {
        let mut bytes = Vec::new();
        loop {
            match Record::parse(&bytes).unwrap() {
                Parsed::Complete(record, _) => return record,
                Parsed::NeedMore(missing) => {
                    let from = bytes.len();
                    bytes.resize(from + missing, 0);
                    self.0.read_exact(&mut bytes[from..]).unwrap();
                }
            }
        }
    }
}

/// A stranger without the key, or under another name, is refused, and the session does not notice.
#[test]
fn a_session_is_not_resumed_without_its_ticket() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a wrong key");
    let server = Server::start("server");
    let new = Networked {
        session: 9,
        position: 0,
        attempt: 1,
        resume_ms: 60_000,
        pace: 1_000_000_000,
        stamps: Timestamps::default(),
        ticket: None,
    };
    let mut first = Stranger::greet(&server, 77, new);
    let Record::Welcome(_) = first.hears() else { panic!("no welcome") };
    let Record::Network(answer) = first.hears() else { panic!("no session") };
    let ticket = answer.ticket.expect("a ticket");
    assert_eq!(answer.position, 0);
    let mut key = ticket.key;
    key[15] ^= 1;
    for (incarnation, session, ticket) in [
        (77, 9, Ticket { key, ..ticket }),
        (77, 9, Ticket { session: ticket.session + 1, ..ticket }),
        (77, 9, Ticket { incarnation: ticket.incarnation + 1, ..ticket }),
        (78, 9, ticket),
        (77, 8, ticket),
    ] {
        let asks = Networked { session, ticket: Some(ticket), ..new };
        let mut thief = Stranger::greet(&server, incarnation, asks);
        let Record::Welcome(_) = thief.hears() else { panic!("no welcome") };
        let Record::Refusal(refusal) = thief.hears() else { panic!("it is let in") };
        assert_eq!(refusal.code(), RefusalCode::NoSuchSession);
    }
    // The first connection stands.
    first.0.set_nonblocking(true).unwrap();
    let mut byte = [0];
    let nothing = first.0.read(&mut byte).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    // A stranger with the ticket takes the session over, and the first connection is closed.
    let asks = Networked { ticket: Some(ticket), ..new };
    let mut second = Stranger::greet(&server, 77, asks);
    let Record::Welcome(_) = second.hears() else { panic!("no welcome") };
    let Record::Network(answer) = second.hears() else { panic!("no session") };
    assert_eq!((answer.session, answer.ticket), (ticket.session, Some(ticket)));
    first.0.set_nonblocking(false).unwrap();
    while first.0.read(&mut byte).unwrap_or(0) != 0 {}
    // Attempts that began before that one and whose records come late are those of connections that the caller has
    // given up. They take nothing over.
    for attempt in [1, 0] {
        let mut late = Stranger::greet(&server, 77, Networked { attempt, ..asks });
        let Record::Welcome(_) = late.hears() else { panic!("no welcome") };
        let Record::Refusal(refusal) = late.hears() else { panic!("it takes the session over") };
        assert_eq!(refusal.code(), RefusalCode::NoSuchSession);
    }
    second.0.set_nonblocking(true).unwrap();
    let mut taken = [0; 4096];
    let ends = loop {
        match second.0.read(&mut taken) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(ends, Some(std::io::ErrorKind::WouldBlock), "the second connection stands");
    // The next attempt of the same caller does.
    let mut third = Stranger::greet(&server, 77, Networked { attempt: 2, ..asks });
    let Record::Welcome(_) = third.hears() else { panic!("no welcome") };
    let Record::Network(answer) = third.hears() else { panic!("no session") };
    assert_eq!((answer.attempt, answer.ticket), (2, Some(ticket)));
}
