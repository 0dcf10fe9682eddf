//! The processor time that a stranger costs a listener under TLS before it is refused, whatever it sends.

#[path = "tls/liar.rs"]
mod liar;
mod secure;

use liar::Liar;
use rustix::io::write;
use secure::{Authority, Issued, Scratch, pair};
use std::os::fd::OwnedFd;
use upbeat_memory::thread_clock::thread_time_ns;
use upbeat_transport::identity::Identity;
use upbeat_transport::tls::{HandshakeState, TlsStream};

/// The strangers of a kind. The median is reported.
const STRANGERS: usize = 201;
/// The most that one may cost, in nanoseconds.
const NS_MAX: u64 = 1_000_000;

const PROTOCOLS: &[&[u8]] = &[b"upbeat/1"];

/// The content of a stranger's connection.
enum Content<'c> {
    /// These bytes, and nothing behind them.
    Bytes(&'c [u8]),
    /// A client's first message, and nothing behind it.
    Greeting,
    /// A whole handshake, with these certificates.
    Certificates(&'c Issued),
}

/// Returns the processor time that a stranger costs its listener.
fn cost(ours: &Identity, content: &Content<'_>) -> u64 {
    let (near, far): (OwnedFd, OwnedFd) = pair();
    let mut liar = match content {
        Content::Bytes(bytes) => {
            write(&far, bytes).unwrap();
            None
        }
        Content::Greeting => Some(Liar::client(far.try_clone().unwrap(), None, PROTOCOLS)),
        Content::Certificates(issued) => {
            Some(Liar::client(far.try_clone().unwrap(), Some(issued), PROTOCOLS))
        }
    };
    if let Some(liar) = &mut liar {
        liar.step();
    }
    let mut before = thread_time_ns();
    let server = TlsStream::server(near, ours).unwrap();
    let mut shaken = server.handshake();
    let mut took = thread_time_ns() - before;
    if let (Content::Certificates(_), Some(liar)) = (content, &mut liar) {
        assert_eq!(shaken, Ok(HandshakeState::WantsRead));
        liar.step();
        before = thread_time_ns();
        shaken = server.handshake();
        took += thread_time_ns() - before;
        assert!(shaken.is_err(), "{shaken:?}");
    }
    before = thread_time_ns();
    drop(server);
    took + (thread_time_ns() - before)
}

#[test]
fn a_stranger_costs_less_than_a_millisecond() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let ours = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let foreign = Authority::new();
    let issue = |others: usize| {
        let mut issued = foreign.issue(&["upbeat://demo/desk"], -3_600, 3_600);
        // Each has the name of our authority, and another key.
        issued.others = (0..others).map(|_| Authority::new().der()).collect();
        issued
    };
    let [one, two, many] = [issue(0), issue(1), issue(10)];
    let kinds = [
        ("nothing", Content::Bytes(b"")),
        ("garbage", Content::Bytes(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")),
        ("part", Content::Bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")),
        ("greeting", Content::Greeting),
        ("certificate", Content::Certificates(&one)),
        ("two certificates", Content::Certificates(&two)),
        ("eleven certificates", Content::Certificates(&many)),
    ];
    for (name, content) in kinds {
        let mut took: Vec<u64> = (0..STRANGERS).map(|_| cost(&ours, &content)).collect();
        took.sort_unstable();
        let median = took[STRANGERS / 2];
        println!("{name}: {} us", median / 1_000);
        // Code without optimisation says nothing about it.
        assert!(cfg!(debug_assertions) || median <= NS_MAX, "{name}: {median} ns");
    }
}
