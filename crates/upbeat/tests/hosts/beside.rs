//! Calls in memory beside strangers that come over the network to the same node.

use crate::common::more_descriptors;
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, alone};
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
use upbeat_memory::thread_clock::thread_time_ns;
use upbeat_transport::tls::TlsStream;

/// Strangers come as fast as a node answers by default.
const PER_SECOND: f64 = 1_000.0;
/// A round with strangers or without, and the pairs of rounds.
const ROUND: Duration = Duration::from_millis(150);
const ROUNDS: usize = 5;

/// Returns the first message of a client under TLS.
pub(crate) fn greeting(identity: &Identity) -> Vec<u8> {
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
    more_descriptors();
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

/// Strangers whose first messages have come at once are answered a few at a time, while a session of the node has calls.
#[test]
fn one_turn_answers_few_of_many_strangers() {
    const STRANGERS: usize = 64;
    let (_alone, _watchdog) = (alone(), Watchdog::new("strangers at once"));
    let (authority, directory) = (Authority::new(), Directory::new());
    let identity = identity_of(&authority.issue("server.pem", "test/server"));
    let builder = || Node::builder("server").program(PROGRAM).directory(directory.path());
    let node = builder().identity(identity.clone()).listen("127.0.0.1:0").build().unwrap();
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let near =
        Node::builder("near/few").program(PROGRAM).directory(directory.path()).build().unwrap();
    let to = near.clone();
    drop(near.spawn(async move {
        let work: WorkClient = to.connect("server").await.unwrap();
        while work.null().await.is_ok() {}
    }));
    let greeting = greeting(&identity);
    let mut strangers: Vec<TcpStream> = (0..STRANGERS)
        .map(|_| {
            let mut stranger = TcpStream::connect(node.listens_at().unwrap()).unwrap();
            stranger.write_all(&greeting).unwrap();
            stranger.set_nonblocking(true).unwrap();
            stranger
        })
        .collect();
    let (mut longest_ns, mut sum_ns) = (0, 0);
    while !strangers.is_empty() {
        near.turn();
        let began_ns = thread_time_ns();
        node.turn();
        let took_ns = thread_time_ns() - began_ns;
        (longest_ns, sum_ns) = (longest_ns.max(took_ns), sum_ns + took_ns);
        strangers.retain(|stranger| stranger.peek(&mut [0]).is_err());
    }
    assert!(longest_ns < sum_ns / 8, "{longest_ns} ns of {sum_ns} were one turn");
}
