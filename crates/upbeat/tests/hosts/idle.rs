//! Ten thousand sessions with other hosts that were used once: what they cost a node while nothing happens, and
//! what the calls of another session take beside them.

use crate::common::process::{Other, say};
use crate::common::work::{WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, alone, more_descriptors, setting};
use crate::{client, connected};
use std::io::BufRead;
use std::time::{Duration, Instant};
use upbeat::{Node, Waiting};

/// Bytes of a process for each idle session, beside the kernel's.
const SESSION_BYTES_MAX: usize = 16 << 10;
/// Calls of a round, of which the median is taken.
const CALLS: u64 = 200;

/// Plays the part of the node at which all are, or of those who are there.
pub(crate) fn play(words: &str) {
    more_descriptors();
    match words.split_once(' ') {
        None => serve(),
        Some((at, count)) => be_there(at, count.parse().unwrap()),
    }
}

fn serve() {
    let directory = Directory::new();
    let builder = Node::builder("busy").program(PROGRAM).directory(directory.path());
    let builder = builder.sessions_per_address(100_000).accepts_per_second(1_000_000);
    let builder = builder.waiting(Waiting::Polling).sampling(0);
    let node = builder.listen("0.0.0.0:0").insecure_plaintext().build().unwrap();
    let quit = crate::input_ends();
    node.serve(WorkServer::new(Worker::new(quit.clone()))).unwrap();
    say(&format!("serving {}", node.listens_at().unwrap()));
    node.block_on(quit);
}

fn be_there(at: &str, count: usize) {
    let directory = Directory::new();
    let to = format!("busy@{at}");
    let handles: Vec<WorkHandle> = (0..count)
        .map(|number| {
            let builder = crate::handle(&directory).waiting(Waiting::Sleeping).sampling(0);
            let work: WorkHandle = builder.connect(&to).unwrap();
            assert_eq!(work.blocking().add(number as u64, 1), Ok(number as u64 + 1));
            work
        })
        .collect();
    say("there");
    std::io::stdin().lock().lines().for_each(drop);
    drop(handles);
}

/// Returns the port of an address.
pub(crate) fn port_of(at: &str) -> u16 {
    at.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Bytes of a process's own memory that are there.
fn resident(process: &Other) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Has this many sessions stand for nothing, and calls made beside them in another: their time is reported. There are so
/// many that the buffers of those which come at the same time, a megabyte that the allocator keeps, count for little.
#[test]
fn idle_sessions_cost_little() {
    let _alone = alone();
    let _watchdog = Watchdog::new("idle sessions");
    let count = setting("UPBEAT_IDLE_SESSIONS", 1_500) as usize;
    let directory = Directory::new();
    let mut server = Other::start("idle", &directory.path());
    let at = format!("127.0.0.1:{}", port_of(&server.expect("serving")));
    let node = client(&directory, Waiting::Polling);
    let work = node.block_on(connected(&node, &format!("busy@{at}")));
    let took = || -> Duration {
        let mut took: Vec<Duration> = node.block_on(async {
            let mut took = Vec::new();
            for number in 0..CALLS {
                let began = Instant::now();
                assert_eq!(work.add(number, 1).await, Ok(number + 1));
                took.push(began.elapsed());
            }
            took
        });
        took.sort();
        took[took.len() / 2]
    };
    let round = || (0..5).map(|_| took()).min().unwrap();
    let (alone, before) = (round(), resident(&server));
    let mut others = Other::start(&format!("idle {at} {count}"), &directory.path());
    others.expect("there");
    let each = (resident(&server) - before) / count;
    let beside = round();
    eprintln!("{count} idle sessions: {each} bytes each; a call takes {beside:?}, alone {alone:?}");
    assert!(each <= SESSION_BYTES_MAX, "an idle session has {each} bytes");
    others.end();
    server.end();
}
