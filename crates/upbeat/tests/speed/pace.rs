//! Waiting where processors are few: adaptive nodes against sleeping ones, in rounds that alternate,
//! and how evenly the clients of one server get their calls.
//!
//! `UPBEAT_PACE_ROUNDS` says how many rounds a ratio is the median of, `UPBEAT_PACE_MS` how long each lasts.
//! Ratios of calls are reported, since other programs of the machine change them.

use crate::common::left_out::leave_out;
use crate::common::process::{Other, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, Watchdog, alone, node, setting};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Clients: a node's task, and a thread with a handle.
const MANNERS: [&str; 2] = ["node", "handle"];
/// The processor time of a call between adaptive nodes, over that between sleeping ones.
const PROCESSOR_MAX: f64 = 2.0;

/// Plays a client. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let ["calls", server, waiting, manner] = words[..] else { return false };
    call(server, waiting, manner, place);
    true
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
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM).directory(place);
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

    /// Has all clients make calls at once.
    fn run(&mut self, ms: u64) -> Round {
        let before = self.processor_ns();
        for client in &mut self.clients {
            writeln!(client.child.stdin.as_mut().unwrap(), "{ms}").unwrap();
        }
        let made = |client: &mut Other| client.expect("made").parse().unwrap();
        let calls = self.clients.iter_mut().map(made).collect();
        Round { calls, used_ns: self.processor_ns() - before }
    }

    /// Returns the processor time that all of them have used so far.
    fn processor_ns(&mut self) -> u64 {
        let servers: u64 = self.servers.iter_mut().map(|it| processor_ns(it.other())).sum();
        servers + self.clients.iter().map(processor_ns).sum::<u64>()
    }
}

/// Returns the processor time that a process has used so far.
fn processor_ns(process: &Other) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.child.id())).unwrap();
    let used = tasks.map(|task| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    used.sum()
}

/// A round: the calls of each client, and the processor time that clients and servers have used.
struct Round {
    calls: Vec<f64>,
    used_ns: u64,
}

impl Round {
    fn all(&self) -> f64 {
        self.calls.iter().sum()
    }

    /// Returns the processor time of a call.
    fn processor_ns(&self) -> f64 {
        self.used_ns as f64 / self.all()
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
    fn round(&mut self, ms: u64) -> [Round; 2] {
        [&mut self.adaptive, &mut self.sleeping].map(|group| group.run(ms))
    }

    /// Returns two ratios of adaptive to sleeping nodes, each the median of rounds that alternate: that of all calls,
    /// and that of the processor time of a call.
    fn ratios(&mut self) -> [f64; 2] {
        let (rounds, ms) = (setting("UPBEAT_PACE_ROUNDS", 3), setting("UPBEAT_PACE_MS", 100));
        let (mut calls, mut processor) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let [adaptive, sleeping] = self.round(ms);
            calls.push(adaptive.all() / sleeping.all());
            processor.push(adaptive.processor_ns() / sleeping.processor_ns());
        }
        [calls, processor].map(|mut ratios| {
            ratios.sort_by(f64::total_cmp);
            ratios[ratios.len() / 2]
        })
    }
}

/// On one CPU an adaptive node that polls takes the time of its peer: many times that of a call. Other programs take no
/// part in a ratio of processor times.
#[test]
fn both_sides_on_one_cpu_take_little_more_of_it_than_sleeping_ones() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a pair on one CPU"));
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 1, 1);
        // The nodes were built on other CPUs, and have polled there.
        arena.round(20);
        arena.keep_on(&allowed()[..1]);
        let [calls, processor] = arena.ratios();
        println!(
            "{manner}, one CPU: {calls:.2} of the calls, {processor:.2} of the processor time"
        );
        assert!(
            processor <= PROCESSOR_MAX,
            "{manner}: a call takes {processor:.2} of the processor time"
        );
    }
}

/// Returns two CPUs that this process may use, where it may.
fn two_cpus() -> Option<[usize; 2]> {
    let cpus = allowed();
    if cpus.len() < 2 {
        leave_out("two CPUs are needed");
    }
    cpus.first_chunk().copied()
}

/// Reports the ratio of calls: who polls takes more of the processor by design.
#[test]
fn two_pairs_on_two_cpus_are_held_against_sleeping_ones() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("two pairs on two CPUs"));
    let Some(cpus) = two_cpus() else { return };
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 2, 1);
        arena.keep_on(&cpus);
        let [calls, processor] = arena.ratios();
        println!(
            "{manner}, two pairs: {calls:.2} of the calls, {processor:.2} of the processor time"
        );
    }
}

/// Each makes calls in each round; how evenly is reported.
#[test]
fn eight_clients_of_a_server_all_get_calls() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("eight clients"));
    let Some(cpus) = two_cpus() else { return };
    for manner in MANNERS {
        let mut arena = Arena::new(manner, 1, 8);
        arena.keep_on(&cpus);
        for round in arena.round(5 * setting("UPBEAT_PACE_MS", 100)) {
            println!("{manner}, eight clients: {:.0?}", round.calls);
            assert!(round.calls.iter().all(|calls| *calls > 0.0), "{manner}: {:?}", round.calls);
        }
    }
}
