//! Many sessions of one node lose their connections at once, and all go on.

use crate::common::process::Other;
use crate::common::work::WorkClient;
use crate::common::{Directory, Watchdog, alone, setting, soon, until};
use crate::{client_that, connected, idle};
use rustix::net::{Shutdown, getpeername, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use upbeat::{Counter, Waiting};

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

/// The work of an outage grows with the number of sessions, and not with its square: each has an address of its own, so
/// that the node has as many.
#[test]
fn all_sessions_of_a_node_go_on_after_an_outage() {
    let _alone = alone();
    let _watchdog = Watchdog::new("an outage");
    let count = setting("UPBEAT_OUTAGE_SESSIONS", 200) as usize;
    idle::more_descriptors();
    let directory = Directory::new();
    let mut server = Other::start("idle", &directory.path());
    let port = idle::port_of(&server.expect("serving"));
    let node = client_that(&directory, |builder| {
        builder.waiting(Waiting::Sleeping).sampling(0).resume_within(Duration::from_secs(60))
    });
    node.block_on(async {
        let mut works: Vec<WorkClient> = Vec::new();
        for number in 0..count {
            let [a, b] = [number / 250, number % 250];
            let work = connected(&node, &format!("busy@127.1.{a}.{}:{port}", b + 1)).await;
            assert_eq!(soon(work.add(number as u64, 1)).await, Ok(number as u64 + 1));
            works.push(work);
        }
        let began = Instant::now();
        assert_eq!(cut_all(port), count);
        until(|| node.counted(Counter::SessionsResumed) == count as u64).await;
        eprintln!("{count} sessions went on after {:?}", began.elapsed());
        for (number, work) in (0..).zip(&works) {
            assert_eq!(soon(work.add(number, 2)).await, Ok(number + 2));
        }
    });
    assert_eq!(node.counted(Counter::SessionsLost), 0);
    server.end();
}
