//! Whatever comes to a node's port costs its own connection, and nobody else anything.

use crate::common::work::works;
use crate::common::{Directory, Watchdog, alone, soon};
use crate::{Server, client, connected};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Descriptors of a process.
fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.process.child.id())).unwrap().count()
}

/// A thousand connections that say nothing, or a part of a greeting, do not keep an honest caller out.
#[test]
fn silent_connections_give_way_to_those_that_speak() {
    let _watchdog = Watchdog::new("silent connections", 120);
    let _alone = alone();
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
    assert!(took < Duration::from_secs(10), "an honest caller has waited for {took:?}");
    drop(silent);
    // Their descriptors go with them.
    while descriptors(&server) > 40 {
        std::thread::yield_now();
    }
}

/// Connections that send what is no greeting, half of one, or nothing and close, end alone.
#[test]
fn nonsense_ends_its_own_connection() {
    let _watchdog = Watchdog::new("nonsense", 120);
    let _alone = alone();
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
            // It is closed, whatever was said before.
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
