//! Many sessions of one node lose their connections at once, and all go on.

use crate::common::process::Other;
use crate::common::work::WorkClient;
use crate::common::{Directory, Watchdog, alone, more_descriptors, setting, soon, until};
use crate::{client_that, connected, idle};
use rustix::net::{Shutdown, getpeername, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use upbeat::{Counter, Node, Waiting};
use upbeat_memory::thread_clock::thread_time_ns;

/// The outages of each number of sessions. Other programs of the machine disturb single ones.
const ROUNDS: u64 = 5;

/// Cuts every connection of this process to a port. Returns how many there were.
fn cut_all(port: u16) -> usize {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers: Vec<i32> = open
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().unwrap())
        .collect();
    let cut = numbers.into_iter().filter_map(|number| {
        // The descriptor of the directory is closed by now.
        let socket = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()?;
        let peer = SocketAddr::try_from(getpeername(&socket).ok()??).ok()?;
        (peer.port() == port).then(|| shutdown(&socket, Shutdown::Both).unwrap())
    });
    cut.count()
}

/// A node, and its sessions with a node of another process.
struct Stand {
    server: Other,
    port: u16,
    node: Node,
    works: Vec<WorkClient>,
    _directory: Directory,
}

impl Stand {
    /// Opens so many sessions. Each has an address of its own, so that the node has as many.
    fn new(count: u64) -> Stand {
        let directory = Directory::new();
        let mut server = Other::start("idle", &directory.path());
        let port = idle::port_of(&server.expect("serving"));
        let node = client_that(&directory, |builder| {
            builder.waiting(Waiting::Sleeping).sampling(0).resume_within(Duration::from_secs(60))
        });
        let works = node.block_on(async {
            let mut works = Vec::new();
            for number in 0..count {
                let [a, b] = [number / 250, number % 250];
                let work: WorkClient =
                    connected(&node, &format!("busy@127.1.{a}.{}:{port}", b + 1)).await;
                assert_eq!(soon(work.add(number, 1)).await, Ok(number + 1));
                works.push(work);
            }
            works
        });
        Stand { server, port, node, works, _directory: directory }
    }

    /// Cuts all connections. Returns the processor time that the node takes for each until all sessions go on.
    fn outage(&self) -> Duration {
        let (count, before) = (self.works.len(), self.node.counted(Counter::SessionsResumed));
        self.node.block_on(async {
            let (began, before_ns) = (Instant::now(), thread_time_ns());
            assert_eq!(cut_all(self.port), count);
            let all = before + count as u64;
            until(|| self.node.counted(Counter::SessionsResumed) == all).await;
            let cost = Duration::from_nanos(thread_time_ns() - before_ns) / count as u32;
            eprintln!("{count} sessions went on after {:?}, {cost:?} for each", began.elapsed());
            for (number, work) in (0..).zip(&self.works) {
                assert_eq!(soon(work.add(number, 2)).await, Ok(number + 2));
            }
            cost
        })
    }

    fn end(mut self) {
        assert_eq!(self.node.counted(Counter::SessionsLost), 0);
        drop((self.works, self.node));
        self.server.end();
    }
}

/// The work of an outage grows with the number of sessions, and not with its square. What is said of the time of few
/// sessions, or of code without optimisation, is only printed.
#[test]
fn all_sessions_of_a_node_go_on_after_an_outage() {
    let _alone = alone();
    let _watchdog = Watchdog::new("an outage");
    let count = setting("UPBEAT_OUTAGE_SESSIONS", 100);
    more_descriptors();
    let stands = [count / 4, count].map(Stand::new);
    let growths = (0..ROUNDS).map(|_| {
        let [few, all] = stands.each_ref().map(Stand::outage);
        all.as_secs_f64() / few.as_secs_f64()
    });
    let least = growths.fold(f64::INFINITY, f64::min);
    eprintln!("a session costs {least:.2} times as much among {count} as among {}", count / 4);
    assert!(cfg!(debug_assertions) || count < 2_000 || least < 1.3, "{least}");
    stands.into_iter().for_each(Stand::end);
}
