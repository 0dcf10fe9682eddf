//! Tests that strange bytes at a node's port cost their own connection, and nothing else.

use crate::common::work::{WorkClient, works};
use crate::common::{Directory, PROGRAM, Watchdog, setting, soon, until};
use crate::{Server, client, client_that, connected};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use upbeat::{CallError, Waiting};

/// The time in which an honest caller is served, which is less on a quiet machine.
fn honest() -> Duration {
    Duration::from_millis(setting("UPBEAT_HONEST_MS", 10_000))
}

/// Descriptors of a process.
fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.process.child.id())).unwrap().count()
}

/// A thousand connections that say nothing, or a part of a greeting, do not keep an honest caller out.
#[test]
fn silent_connections_give_way_to_those_that_speak() {
    let _watchdog = Watchdog::new("silent connections");
    let directory = Directory::new();
    let server = Server::start("server");
    let silent: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = TcpStream::connect(&server.at).unwrap();
            stream.write_all(&b"upbeat\0\0"[..number % 9]).unwrap();
            stream
        })
        .collect();
    let node = client(&directory, Waiting::Adaptive);
    let began = Instant::now();
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        works(&work).await;
    });
    let took = began.elapsed();
    assert!(took < honest(), "an honest caller has waited for {took:?}");
    drop(silent);
    // Their descriptors go with them.
    while descriptors(&server) > 40 {
        std::thread::yield_now();
    }
}

/// Connections that send what is no greeting, half of one, or nothing and close, end alone.
#[test]
fn nonsense_ends_its_own_connection() {
    let _watchdog = Watchdog::new("nonsense");
    let directory = Directory::new();
    let server = Server::start("server");
    let node = client(&directory, Waiting::Adaptive);
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        let before = descriptors(&server);
        let http = b"GET / HTTP/1.1\r\nHost: upbeat\r\n\r\n".as_slice();
        let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice();
        let long = vec![b'u'; 100_000];
        for bytes in [http, hello, &long, b"", &[0; 64], &[0xff; 64]] {
            let mut stream = TcpStream::connect(&server.at).unwrap();
            // The listener may have closed meanwhile.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // The connection is closed after any bytes.
            let mut said = Vec::new();
            match stream.read_to_end(&mut said) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
            }
            assert_eq!(soon(work.add(1, 2)).await, Ok(3));
        }
        works(&work).await;
        while descriptors(&server) > before {
            soon(work.null()).await.unwrap();
        }
    });
}

/// Callers that are slow, half gone or gone in the middle of their greeting, and a reader that does not read, cost
/// their own sessions. Callers that are honest are served meanwhile.
#[test]
fn each_peer_costs_its_own_session() {
    let _watchdog = Watchdog::new("hostile peers");
    let directory = Directory::new();
    let server = Server::start("server");
    let before = descriptors(&server);
    let greeting = greeting(&directory, "server");
    let served = || {
        let node = client(&directory, Waiting::Adaptive);
        let began = Instant::now();
        node.block_on(async {
            let work = connected(&node, &server.named("server")).await;
            works(&work).await;
        });
        began.elapsed()
    };
    // A byte now and then: those of one address that have not come to an end give way to others.
    let slow: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(&server.at).unwrap()).collect();
    let took = std::thread::scope(|scope| {
        let trickle = scope.spawn(|| {
            for byte in &greeting[..greeting.len() - 1] {
                for mut stream in &slow {
                    // A connection that takes no more bytes has given way.
                    let _ = stream.write_all(std::slice::from_ref(byte));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let took = [served(), served()];
        trickle.join().unwrap();
        took
    });
    let most = honest();
    assert!(took.iter().all(|took| *took < most), "honest callers have waited for {took:?}");
    drop(slow);
    // Reset, or closed to one side, behind each byte of a greeting.
    for (at, reset) in (0..greeting.len()).flat_map(|at| [(at, true), (at, false)]) {
        let mut stream = TcpStream::connect(&server.at).unwrap();
        let _ = stream.write_all(&greeting[..at]);
        match reset {
            true => rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
            false => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }
    assert!(served() < most);
    // A session whose peer never reads what it is sent.
    let mut deaf = TcpStream::connect(&server.at).unwrap();
    deaf.write_all(&greeting).unwrap();
    assert!(served() < most);
    drop(deaf);
    while descriptors(&server) > before {
        std::thread::yield_now();
    }
}

/// The bytes with which an honest caller of the node of this name greets it.
pub(crate) fn greeting(directory: &Directory, name: &str) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("{name}@{}", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 4096];
        let len = stream.read(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    });
    let node = client(directory, Waiting::Adaptive);
    let refused = node.block_on(async { node.connect::<WorkClient>(&to).await.is_err() });
    assert!(refused, "nobody has answered");
    heard.join().unwrap()
}

/// A call that comes while an attempt to reconnect is under way does not fail with it: the server may have come since.
#[test]
fn a_call_does_not_fail_by_an_attempt_that_began_before_it() {
    const BRIEFLY: Duration = Duration::from_millis(40);
    let _watchdog = Watchdog::new("an old attempt");
    let directory = Directory::new();
    let Server { mut process, at, .. } = Server::start("server");
    let to = format!("server@{at}");
    let node = client_that(&directory, |builder| builder.resume_within(BRIEFLY));
    node.block_on(async {
        let work = connected(&node, &to).await;
        assert_eq!(soon(work.add(1, 1)).await, Ok(2));
        process.kill();
        process.child.wait().unwrap();
        until(|| node.sessions() == 0).await;

        let listener = TcpListener::bind(&at).unwrap();
        let given_up = work.add(1, 2).deadline(BRIEFLY).await;
        assert_eq!(given_up, Err(CallError::deadline(false)));
        let (mut stranger, _) = listener.accept().unwrap();
        drop(listener);
        let _server = Server::of(PROGRAM, "server", &at);
        let mut late = Box::pin(work.add(1, 3));
        assert!(upbeat::within(BRIEFLY, &mut late).await.is_err());
        stranger.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        assert_eq!(soon(late).await, Ok(4));
    });
}
