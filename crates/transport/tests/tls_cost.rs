//! The processor time that a stranger costs a listener under TLS before it is refused, whatever it sends.

#[path = "tls/liar.rs"]
mod liar;
mod secure;

use liar::Liar;
use rustix::io::{read, write};
use secure::{Authority, Issued, Scratch, pair};
use std::os::fd::OwnedFd;
use upbeat_memory::thread_clock::thread_time_ns;
use upbeat_transport::identity::Identity;
use upbeat_transport::tls::{HandshakeState, TlsStream};

/// The strangers of a kind. The median is reported.
const STRANGERS: usize = 201;
/// The most that one may cost, in nanoseconds.
const NS_MAX: u64 = 1_000_000;

/// The bytes of the shortest records of rustls: with a head and a tag, some ten bytes of the handshake.
const TINY: Option<usize> = Some(32);

const PROTOCOLS: &[&[u8]] = &[b"upbeat/1"];

/// The content of a stranger's connection.
enum Content<'c> {
    /// The stranger sends these bytes, in pieces of this length, and then nothing.
    Bytes(&'c [u8], usize),
    /// A whole handshake, with these certificates, in records of up to so many bytes.
    Certificates(&'c Issued, Option<usize>),
}

/// Returns the processor time that a stranger costs its listener.
fn cost(ours: &Identity, content: &Content<'_>) -> u64 {
    let (near, far): (OwnedFd, OwnedFd) = pair();
    let mut took = 0;
    let server = timed(&mut took, || TlsStream::server(near, ours).unwrap());
    match content {
        Content::Bytes(bytes, at_once) => {
            let mut left = *bytes;
            while !left.is_empty() {
                left = &left[write(&far, &left[..left.len().min(*at_once)]).unwrap()..];
                // The listener closes the connection of a stranger that it refuses.
                if timed(&mut took, || server.handshake()).is_err() {
                    break;
                }
            }
        }
        Content::Certificates(issued, record) => {
            let mut liar = Liar::client_in_records(far, Some(issued), PROTOCOLS, *record);
            let mut shaken = Ok(HandshakeState::WantsRead);
            while shaken.is_ok() {
                assert_eq!(shaken, Ok(HandshakeState::WantsRead));
                liar.step();
                shaken = timed(&mut took, || server.handshake());
            }
        }
    }
    timed(&mut took, || drop(server));
    took
}

/// Does a part of the listener's work, and adds the processor time that it takes.
fn timed<T>(took: &mut u64, work: impl FnOnce() -> T) -> T {
    let before = thread_time_ns();
    let done = work();
    *took += thread_time_ns() - before;
    done
}

/// Returns a client's first message.
fn greeting() -> Vec<u8> {
    let (near, far) = pair();
    Liar::client(far, None, PROTOCOLS).step();
    let mut bytes = vec![0; 4096];
    let len = read(&near, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Returns a message of a handshake in records of one byte.
fn in_tiny_records(message: &[u8]) -> Vec<u8> {
    message.iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect()
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
    // The longest message of a handshake.
    let mut long = issue(0);
    long.others = vec![vec![7; 60 << 10]];
    let (greeting, endless) = (greeting(), [&[1, 0, 255, 251][..], &[0; 65_530]].concat());
    let [tiny, endless] = [&greeting[5..], &endless].map(in_tiny_records);
    let kinds = [
        ("nothing", Content::Bytes(b"", 1)),
        ("garbage", Content::Bytes(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n", 64)),
        ("part", Content::Bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 64)),
        ("greeting", Content::Bytes(&greeting, 4096)),
        ("greeting, byte by byte", Content::Bytes(&greeting, 1)),
        ("greeting in tiny records", Content::Bytes(&tiny, 4096)),
        ("greeting in tiny records, byte by byte", Content::Bytes(&tiny, 1)),
        ("endless greeting in tiny records", Content::Bytes(&endless, 1 << 20)),
        ("endless greeting, record by record", Content::Bytes(&endless, 6)),
        ("certificate", Content::Certificates(&one, None)),
        ("certificate in tiny records", Content::Certificates(&one, TINY)),
        ("long certificate in tiny records", Content::Certificates(&long, TINY)),
        ("two certificates", Content::Certificates(&two, None)),
        ("eleven certificates", Content::Certificates(&many, None)),
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
