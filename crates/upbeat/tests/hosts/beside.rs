//! Calls in memory beside strangers that come over the network to the same node.

use crate::common::work::WorkClient;
use crate::common::{PROGRAM, Watchdog, alone};
use crate::floods::raise_descriptors;
use crate::trust::Authority;
use crate::{Server, connected, identity_of};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{Identity, Node};
use upbeat_transport::tls::TlsStream;

/// Strangers come as fast as a node answers by default.
const PER_SECOND: f64 = 1_000.0;
/// A round with strangers or without, and the pairs of rounds.
const ROUND: Duration = Duration::from_millis(150);
const ROUNDS: usize = 5;

/// Returns the first message of a client under TLS.
fn greeting(identity: &Identity) -> Vec<u8> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    TlsStream::client(near, identity).unwrap().handshake().unwrap();
    let mut bytes = vec![0; 16 << 10];
    let came = rustix::io::read(&far, &mut bytes).unwrap();
    bytes.truncate(came);
    bytes
}

/// Returns how many calls return in a round.
async fn calls(work: &WorkClient) -> u64 {
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < ROUND {
        assert_eq!(work.add(count, 1).await, Ok(count + 1));
        count += 1;
    }
    count
}

/// A node whose every answer to a stranger costs a key exchange and a signature has at least half of its time for calls in
/// memory. What is said of code without optimisation is only printed.
#[test]
fn strangers_leave_calls_in_memory_half_their_rate() {
    let _alone = alone();
    let _watchdog = Watchdog::new("calls beside strangers");
    raise_descriptors();
    let authority = Authority::new();
    let [of_node, own] = [("server.pem", "test/server"), ("handle.pem", "test")]
        .map(|(file, name)| authority.issue(file, name));
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &of_node);
    let greeting = greeting(&identity_of(&own));
    let near = Node::builder("near").program(PROGRAM).directory(server._directory.path());
    let near = near.build().unwrap();
    let work = near.block_on(connected(&near, "server"));
    let (comes, over, came) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let strangers = || {
        let mut there = VecDeque::new();
        let (mut began, mut due) = (Instant::now(), 0);
        while !over.load(Relaxed) {
            if !comes.load(Relaxed) {
                there.clear();
                (began, due) = (Instant::now(), 0);
            }
            while comes.load(Relaxed) && began.elapsed().as_secs_f64() * PER_SECOND > f64::from(due)
            {
                let mut stranger = TcpStream::connect(&server.at).unwrap();
                let _ = stranger.write_all(&greeting);
                there.push_back(stranger);
                if there.len() > 1_000 {
                    there.pop_front();
                }
                due += 1;
                came.fetch_add(1, Relaxed);
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    let parts: Vec<f64> = thread::scope(|scope| {
        scope.spawn(strangers);
        let parts = (0..ROUNDS).map(|_| {
            let quiet = near.block_on(calls(&work));
            comes.store(true, Relaxed);
            let beside = near.block_on(calls(&work));
            comes.store(false, Relaxed);
            beside as f64 / quiet as f64
        });
        let parts = parts.collect();
        over.store(true, Relaxed);
        parts
    });
    eprintln!("{} strangers: calls in memory at {parts:.2?} of their rate", came.load(Relaxed));
    // Other programs of the machine disturb single rounds.
    let best = parts.into_iter().fold(0.0, f64::max);
    assert!(cfg!(debug_assertions) || best >= 0.5, "{best}");
}
