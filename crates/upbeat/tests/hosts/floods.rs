//! Tests that strangers in any number keep no honest caller out, and that whatever a node pauses for them goes on.

use crate::callbacks::issue;
use crate::common::work::{WorkClient, works};
use crate::common::{Directory, PROGRAM, Watchdog, alone, more_descriptors, setting, soon};
use crate::strangers::greeting;
use crate::{Server, beside, identity_of, protected, unprotected};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use upbeat::Node;
use upbeat_core::limits::REMOTE_PENDING_MAX;

/// The strangers that connect at once.
const STRANGERS: usize = 3_000;

/// The time in which an honest caller is served, which is less on a quiet machine.
fn honest() -> Duration {
    Duration::from_millis(setting("UPBEAT_HONEST_MS", 10_000))
}

/// A client over the network.
fn client(directory: &Directory, identity: &str) -> Node {
    protected(unprotected(directory).shared_memory(false), identity).build().unwrap()
}

/// Returns how long an honest caller takes to connect and to call.
fn served(directory: &Directory, identity: &str, to: &str) -> Duration {
    let node = client(directory, identity);
    let began = Instant::now();
    node.block_on(async {
        let work: WorkClient = node.connect(to).await.unwrap();
        works(&work).await;
    });
    began.elapsed()
}

/// More callers than the node can have under way connect at once, and say nothing, or a part of a first message. The
/// node then sleeps until it may accept the next ones, with nothing else that wakes it.
#[test]
fn a_burst_of_strangers_deafens_no_listener() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a burst of strangers");
    more_descriptors();
    let directory = Directory::new();
    for (identity, part) in
        [(String::new(), &b""[..]), (issue(&directory), b""), (issue(&directory), b"\x16\x03\x01")]
    {
        let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &identity);
        let to = server.named("server");
        let friend = client(&directory, &identity);
        let work: WorkClient = friend.block_on(friend.connect(&to)).unwrap();
        let strangers: Vec<TcpStream> = (0..STRANGERS)
            .map(|_| {
                let mut stranger = TcpStream::connect(&server.at).unwrap();
                let _ = stranger.write_all(part);
                stranger
            })
            .collect();
        let took = [(); 2].map(|()| served(&directory, &identity, &to));
        assert!(
            took.iter().all(|took| *took < honest()),
            "honest callers have waited for {took:?}"
        );
        // A session that stands goes on.
        assert_eq!(friend.block_on(async { soon(work.add(1, 2)).await }), Ok(3));
        drop(strangers);
        let took = served(&directory, &identity, &to);
        assert!(took < honest(), "after the strangers an honest caller has waited for {took:?}");
    }
}

/// As many callers as the node can have under way at a time have sent a first message, and nothing behind it. The next
/// caller waits until one of them gives way, and nothing else wakes the node meanwhile.
#[test]
fn a_full_table_makes_the_next_caller_wait_for_a_moment() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a full table");
    more_descriptors();
    let directory = Directory::new();
    let greeting = greeting(&directory, "server");
    let server = Server::start("server");
    let begun: Vec<TcpStream> = (0..2 * REMOTE_PENDING_MAX)
        .map(|_| {
            let mut caller = TcpStream::connect(&server.at).unwrap();
            caller.write_all(&greeting[..greeting.len() - 1]).unwrap();
            caller
        })
        .collect();
    let took = served(&directory, "", &server.named("server"));
    // Without that, a handshake would end by itself after five seconds.
    assert!(took < Duration::from_secs(4), "an honest caller has waited for {took:?}");
    drop(begun);
}

/// Returns the processor time that the threads of a process have had.
fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(threads.map(|thread| of_thread(thread.unwrap().path())).sum())
}

/// Strangers whose first message comes byte by byte cost the node a look at each byte, up to a bound.
#[test]
fn a_stranger_in_small_pieces_costs_less_than_a_millisecond() {
    const STRANGERS: u32 = 50;
    let _alone = alone();
    let _watchdog = Watchdog::new("strangers in small pieces");
    let directory = Directory::new();
    for identity in [String::new(), issue(&directory)] {
        let greeting = match &*identity {
            "" => greeting(&directory, "server"),
            path => beside::greeting(&identity_of(path)),
        };
        let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &identity);
        let mut strangers: Vec<TcpStream> =
            (0..STRANGERS).map(|_| TcpStream::connect(&server.at).unwrap()).collect();
        strangers.iter().for_each(|stranger| stranger.set_nodelay(true).unwrap());
        let pid = server.process.child.id();
        let before = processor_time(pid);
        for byte in &greeting[..greeting.len() - 1] {
            for stranger in &mut strangers {
                // The node closes the connection of a stranger that it refuses.
                let _ = stranger.write_all(std::slice::from_ref(byte));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let cost = (processor_time(pid) - before) / STRANGERS;
        println!("a stranger that sends {} bytes, each alone: {cost:?}", greeting.len() - 1);
        assert!(cfg!(debug_assertions) || cost < Duration::from_millis(1), "{cost:?}");
        let took = served(&directory, &identity, &server.named("server"));
        assert!(took < honest(), "an honest caller has waited for {took:?}");
    }
}

/// A process that has no descriptor left, not even to turn a caller away, leaves callers in the queue, sleeps, and accepts
/// them once it has descriptors again.
#[test]
fn a_listener_without_descriptors_looks_again() {
    let _alone = alone();
    let _watchdog = Watchdog::new("no descriptors");
    let directory = Directory::new();
    let server = Server::start("server");
    let to = server.named("server");
    let pid = Pid::from_child(&server.process.child);
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), ..limit };
    prlimit(Some(pid), Resource::Nofile, none).unwrap();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| served(&directory, "", &to));
        let (before, a_while) =
            (processor_time(pid.as_raw_pid() as u32), Duration::from_millis(500));
        std::thread::sleep(a_while);
        let used = processor_time(pid.as_raw_pid() as u32) - before;
        assert!(used < a_while / 2, "the node has used {used:?} of {a_while:?} to look");
        assert!(!caller.is_finished());
        prlimit(Some(pid), Resource::Nofile, limit).unwrap();
        let took = caller.join().unwrap();
        assert!(took < honest() + a_while, "the caller has waited for {took:?}");
    });
}
