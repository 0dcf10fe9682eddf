//! Waiting where processors are few: adaptive nodes against sleeping ones, in rounds that alternate,
//! and how evenly the clients of one server get their calls.
//!
//! `UPBEAT_PACE_ROUNDS` says how many rounds a ratio is the median of, `UPBEAT_PACE_MS` how long each lasts.
//! Other programs of the machine disturb a few rounds or all of them, so each test has several tries.

mod common;

use common::process::{Other, part, say};
use common::server::{Kind, Server};
use common::work::{WorkClient, WorkHandle};
use common::{Directory, Watchdog, alone, node, setting};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Clients: a node's task, and a thread with a handle.
const MANNERS: [&str; 2] = ["node", "handle"];
/// Tries that a test has against the noise of the machine.
const TRIES: usize = 6;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    let Some((part, place)) = part() else { return };
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["calls", server, waiting, manner] => call(server, waiting, manner, &place),
        _ => assert!(common::server::play(&part, &place), "there is no part {part}"),
    }
}

/// Makes calls for so many milliseconds at each order, and says how many it made.
fn call(server: &str, waiting: &str, manner: &str, place: &Path) {
    let waiting = match waiting {
        "Adaptive" => Waiting::Adaptive,
        "Sleeping" => Waiting::Sleeping,
        other => panic!("there is no policy {other}"),
    };
    let orders = std::io::stdin().lines().map(|ms| {
        let end = Instant::now() + Duration::from_millis(ms.unwrap().parse().unwrap());
        move || Instant::now() < end
    });
    if manner == "handle" {
        let builder = upbeat::handle::builder().program(common::PROGRAM).directory(place);
        let handle: WorkHandle = builder.waiting(waiting).connect(server).unwrap();
        let work = handle.blocking();
        say("calling");
        for goes_on in orders {
            let calls = std::iter::from_fn(|| goes_on().then(|| work.null().unwrap())).count();
            say(&format!("made {calls}"));
        }
        return;
    }
    let node = node(&format!("client/{}", std::process::id()), place, waiting);
    let work: WorkClient = node.block_on(node.connect(server)).unwrap();
    say("calling");
    for goes_on in orders {
        let mut calls = 0;
        node.block_on(async {
            while goes_on() {
                work.null().await.unwrap();
                calls += 1;
            }
        });
        say(&format!("made {calls}"));
    }
}

/// The CPUs that this process may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Keeps all threads of a process on these CPUs.
fn keep_on(process: &Other, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    for thread in std::fs::read_dir(format!("/proc/{}/task", process.child.id())).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap();
        sched_setaffinity(Pid::from_raw(thread.parse().unwrap()), &set).unwrap();
    }
}

/// Servers and their clients, of one policy.
struct Group {
    servers: Vec<Server>,
    clients: Vec<Other>,
}

impl Group {
    /// So many servers, each with so many clients.
    fn start(
        place: &Path,
        waiting: Waiting,
        manner: &str,
        servers: usize,
        clients: usize,
    ) -> Group {
        let mut group = Group { servers: Vec::new(), clients: Vec::new() };
        for number in 0..servers {
            let name = format!("{waiting:?}/{number}");
            group.servers.push(Server::start(Kind::Shared, &name, place, waiting));
            for _ in 0..clients {
                let part = format!("calls {name} {waiting:?} {manner}");
                let mut client = Other::start(&part, place);
                client.expect("calling");
                group.clients.push(client);
            }
        }
        group
    }

    /// Keeps all of them on these CPUs.
    fn keep_on(&mut self, cpus: &[usize]) {
        self.servers.iter_mut().for_each(|server| keep_on(server.other(), cpus));
        self.clients.iter().for_each(|client| keep_on(client, cpus));
    }

    /// Has all clients make calls at once, and gives how many each of them made.
    fn run(&mut self, ms: u64) -> Vec<f64> {
        for client in &mut self.clients {
            writeln!(client.child.stdin.as_mut().unwrap(), "{ms}").unwrap();
        }
        self.clients.iter_mut().map(|client| client.expect("made").parse().unwrap()).collect()
    }
}

/// Adaptive nodes and sleeping ones, alike but for that.
struct Arena {
    adaptive: Group,
    sleeping: Group,
    _directory: Directory,
}

impl Arena {
    fn new(manner: &str, servers: usize, clients: usize) -> Arena {
        let directory = Directory::new();
        let start = |waiting| Group::start(&directory.path(), waiting, manner, servers, clients);
        let [adaptive, sleeping] = [Waiting::Adaptive, Waiting::Sleeping].map(start);
        Arena { adaptive, sleeping, _directory: directory }
    }

    fn keep_on(&mut self, cpus: &[usize]) {
        self.adaptive.keep_on(cpus);
        self.sleeping.keep_on(cpus);
    }

    /// A round of each.
    fn round(&mut self, ms: u64) -> [Vec<f64>; 2] {
        [&mut self.adaptive, &mut self.sleeping].map(|group| group.run(ms))
    }

    /// Returns the ratio of adaptive to sleeping nodes: the median of rounds that alternate.
    fn ratio(&mut self) -> f64 {
        let (rounds, ms) = (setting("UPBEAT_PACE_ROUNDS", 3), setting("UPBEAT_PACE_MS", 100));
        let mut ratios: Vec<f64> = (0..rounds)
            .map(|_| {
                let [adaptive, sleeping] = self.round(ms).map(|made| made.iter().sum::<f64>());
                adaptive / sleeping
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    /// Has the ratio reach this in one of several tries.
    fn reaches(&mut self, least: f64, what: &str) {
        let mut ratios = Vec::new();
        while ratios.len() < TRIES {
            ratios.push(self.ratio());
            if ratios.last() >= Some(&least) {
                return println!("{what}: {ratios:.2?}");
            }
        }
        panic!("{what}: adaptive nodes make {ratios:.2?} of the calls of sleeping ones");
    }
}

#[test]
fn both_sides_on_one_cpu_keep_up_with_sleeping_ones() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a pair on one CPU", 120));
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 1, 1);
        // The nodes were built on other CPUs, and have polled there.
        arena.round(20);
        arena.keep_on(&allowed()[..1]);
        arena.reaches(0.6, &format!("{manner}, one CPU"));
    }
}

#[test]
fn two_pairs_on_two_cpus_keep_up_with_sleeping_ones() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("two pairs on two CPUs", 120));
    let cpus = allowed();
    let Some(cpus) = cpus.get(..2) else { return };
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 2, 1);
        arena.keep_on(cpus);
        arena.reaches(0.75, &format!("{manner}, two pairs"));
    }
}

/// Returns the most calls of a client over the fewest of another.
fn spread(made: &[f64]) -> f64 {
    let most = made.iter().copied().fold(0.0, f64::max);
    let fewest = made.iter().copied().fold(f64::INFINITY, f64::min);
    most / fewest.max(1.0)
}

/// Within a factor of 2, or as evenly as sleeping clients get theirs where the machine is disturbed; and
/// not because all of them are slow.
#[test]
fn eight_clients_of_a_server_get_their_calls_evenly() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("eight clients", 120));
    let cpus = allowed();
    let Some(cpus) = cpus.get(..2) else { return };
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 1, 8);
        arena.keep_on(cpus);
        let mut rounds = Vec::new();
        loop {
            let made = arena.round(5 * setting("UPBEAT_PACE_MS", 100));
            let [adaptive, sleeping] = made.each_ref().map(|made| spread(made));
            let [all, of_sleeping] = made.each_ref().map(|made| made.iter().sum::<f64>());
            rounds.push([adaptive, sleeping, all / of_sleeping]);
            if adaptive <= sleeping.max(2.0) && all >= of_sleeping / 2.0 {
                break println!("{manner}, eight clients: {rounds:.1?}");
            }
            assert!(
                rounds.len() < 2 * TRIES,
                "{manner}: the most calls of a client by the fewest, adaptive and sleeping, and all calls \
                 by those of sleeping clients: {rounds:.1?}"
            );
        }
    }
}
