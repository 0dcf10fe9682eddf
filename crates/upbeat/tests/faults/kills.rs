//! Processes that are killed at any instant: what their peers learn, how soon, and what is left.
//!
//! `UPBEAT_KILLS` says how many are killed of each kind, `UPBEAT_SEED` when.

mod connecting;

use crate::common::process::{Other, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, Random, Watchdog, alone, seed, setting, until};
use rustix::process::{Pid, Signal};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use upbeat::{CallError, JoinHandle, Lost, Node, Waiting, Why};

const POLICIES: [Waiting; 2] = [Waiting::Adaptive, Waiting::Sleeping];
/// After this time an open call of a dead process, or a node that has taken its name over, counts as hung.
const HUNG: Duration = Duration::from_secs(10);
const CALLS: u64 = 16;

/// A node that takes no samples: the first makes a page, also at the callee, and descriptors are counted here.
fn node(name: &str, place: &Path, waiting: Waiting) -> Node {
    let node = crate::common::node(name, place, waiting);
    node.set_sampling(0);
    node
}

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split_once(' ') {
        Some(("call", name)) => call(name, place),
        Some(("heir", name)) => serve_with_heir(name, place),
        Some(("connect", kind)) => connecting::play(kind, place),
        _ => return false,
    }
    true
}

/// Has calls of every kind open until it is killed.
fn call(name: &str, place: &Path) {
    crate::common::process::end_with_input();
    let node = node(name, place, Waiting::Adaptive);
    node.block_on(async {
        let work: WorkClient = node.connect("server").await.unwrap();
        for _ in 0..CALLS {
            let work = work.clone();
            drop(node.spawn(async move { work.forever().await }));
        }
        say("calling");
        for number in 0.. {
            work.add(number, 1).await.unwrap();
            work.note_late(number, 5).await.unwrap();
            work.bytes(vec![0; (number % 100 * 50) as usize]).await.unwrap();
        }
    });
}

/// Serves, and on a word leaves its sockets to a process that it starts.
fn serve_with_heir(name: &str, place: &Path) {
    let quit = crate::common::Signal::default();
    let ended = quit.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        say(&format!("heir {}", crate::common::process::leave_sockets()));
        crate::common::process::linger();
        ended.give();
    });
    crate::common::server::serve(name, place, Waiting::Adaptive, quit, || say("serving"));
}

/// A thread that kills on request, so that this process may be at any instant of its work.
struct Killer {
    orders: Sender<(u32, Duration)>,
    done: Receiver<Instant>,
}

impl Killer {
    fn new() -> Killer {
        let (orders, ordered) = channel::<(u32, Duration)>();
        let (did, done) = channel();
        std::thread::spawn(move || {
            for (pid, delay) in ordered {
                let began = Instant::now();
                while began.elapsed() < delay {
                    std::thread::yield_now();
                }
                let at = Instant::now();
                let pid = Pid::from_raw(pid as i32).unwrap();
                rustix::process::kill_process(pid, Signal::KILL).unwrap();
                did.send(at).unwrap();
            }
        });
        Killer { orders, done }
    }

    fn kill(&self, other: &Other, delay: Duration) {
        self.orders.send((other.child.id(), delay)).unwrap();
    }
}

/// The holdings of the process: descriptors, threads, mappings of shared memory.
#[derive(Debug, PartialEq)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    mappings: usize,
}

impl Holdings {
    fn now() -> Holdings {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mappings = maps.lines().filter(|line| line.contains("memfd:")).count();
        Holdings {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            mappings,
        }
    }
}

/// Reports how long after each death the last open call has failed, and none of them hangs.
fn report(mut slowest: Vec<Duration>) {
    slowest.sort();
    let at = |percent| slowest[(slowest.len() - 1) * percent / 100];
    println!("{} kills: p50 {:?}, p99 {:?}", slowest.len(), at(50), at(99));
    assert!(at(100) < HUNG, "{slowest:?}");
}

fn kills() -> u64 {
    setting("UPBEAT_KILLS", 50)
}

/// A watchdog for so many kills.
fn watchdog(what: &'static str) -> Watchdog {
    Watchdog::within(what, 120 + kills() / 2)
}

/// A call that began after the loss was noticed has tried to connect again.
fn check_lost(error: &CallError) {
    if let CallError::NotConnected { text, .. } = error {
        assert!(text.contains("victim") && text.contains("has died"), "{text}");
        return;
    }
    let (CallError::Unknown(lost) | CallError::NotSent(lost)) = error else { panic!("{error:?}") };
    assert!(lost.peer.contains("victim"), "{lost}");
    assert_eq!(lost.why, Why::Died, "{lost}");
}

/// Calls of every kind to a victim; each says when it failed.
fn open_calls(node: &Node, work: &WorkClient) -> Vec<JoinHandle<Instant>> {
    let endless = (0..CALLS).map(|_| {
        let work = work.clone();
        node.spawn(async move {
            check_lost(&work.forever().await.unwrap_err());
            Instant::now()
        })
    });
    let busy = (0..CALLS).map(|task| {
        let work = work.clone();
        node.spawn(async move {
            for number in 0.. {
                let sent = vec![0; (number * task % 5000) as usize];
                let done = match (number + task) % 4 {
                    0 => work.add(number, 1).await.map(drop),
                    1 => work.bytes(sent).await.map(drop),
                    2 => work.note(number).await,
                    _ => work.nap(1, number).await.map(drop),
                };
                if let Err(error) = done {
                    check_lost(&error);
                    break;
                }
            }
            Instant::now()
        })
    });
    endless.chain(busy).collect()
}

#[test]
fn servers_that_are_killed() {
    let (_alone, _watchdog) = (alone(), watchdog("killed servers"));
    let directory = Directory::new();
    let place = directory.path();
    let killer = Killer::new();
    let mut random = Random::new(seed(1));
    let mut slowest = Vec::new();
    let _steady = Server::start(Kind::Shared, "steady", &place, Waiting::Adaptive);
    for waiting in POLICIES {
        let node = node("client", &place, waiting);
        let calls = Rc::new(Cell::new(0_u64));
        let steady: WorkClient = node.block_on(node.connect("steady")).unwrap();
        let counted = Rc::clone(&calls);
        drop(node.spawn(async move {
            loop {
                assert_eq!(steady.add(counted.get(), 1).await, Ok(counted.get() + 1));
                counted.set(counted.get() + 1);
            }
        }));
        let mut before = None;
        for round in 0..kills() / 2 {
            // The new victim takes the name over from the one before.
            let mut victim = Other::start("serve victim Adaptive", &place);
            victim.expect("serving");
            let delay = Duration::from_micros(random.below(3000));
            let soon = node.block_on(async {
                let work: WorkClient = node.connect("victim").await.unwrap();
                let open = open_calls(&node, &work);
                killer.kill(&victim, delay);
                let mut last = Instant::now();
                for call in open {
                    last = last.max(call.await.expect("no task panics"));
                }
                let so_far = calls.get();
                until(|| calls.get() > so_far).await;
                last.saturating_duration_since(killer.done.recv().unwrap())
            });
            slowest.push(soon);
            assert_eq!(node.sessions(), 1);
            drop(victim);
            let now = Holdings::now();
            if round >= 1 {
                assert_eq!(*before.get_or_insert(Holdings::now()), now, "round {round}");
            }
        }
    }
    report(slowest);
}

#[test]
fn clients_that_are_killed() {
    let (_alone, _watchdog) = (alone(), watchdog("killed clients"));
    let directory = Directory::new();
    let place = directory.path();
    let killer = Killer::new();
    let mut random = Random::new(seed(2));
    let mut slowest = Vec::new();
    for waiting in POLICIES {
        let losses = Rc::new(RefCell::new(Vec::<(Lost, Instant)>::new()));
        let noted = Rc::clone(&losses);
        let on_lost = move |lost: &Lost| noted.borrow_mut().push((lost.clone(), Instant::now()));
        let builder = Node::builder("server").program(crate::common::PROGRAM).directory(&place);
        let node = builder.waiting(waiting).on_lost(on_lost).build().unwrap();
        let worker = Worker::default();
        let standing = Rc::clone(&worker.waiting);
        node.serve(WorkServer::new(worker)).unwrap();
        let mut before = None;
        for round in 0..kills() / 2 {
            let mut victim = Other::start("call victim", &place);
            // Its first words come when it has connected, for which this node must run.
            let delay = Duration::from_micros(random.below(3000));
            node.block_on(until(|| standing.get() >= CALLS));
            victim.expect("calling");
            killer.kill(&victim, delay);
            node.block_on(until(|| !losses.borrow().is_empty()));
            let (lost, at) = losses.borrow_mut().pop().unwrap();
            assert!(lost.why == Why::Died && lost.peer.contains("victim"), "{lost}");
            slowest.push(at.saturating_duration_since(killer.done.recv().unwrap()));
            // One-way messages that had begun end by themselves, calls are gone already.
            node.block_on(until(|| standing.get() == 0));
            assert_eq!((node.sessions(), losses.borrow().len()), (0, 0));
            assert_eq!(node.counted(upbeat::Counter::Panics), 0);
            drop(victim);
            let now = Holdings::now();
            if round >= 1 {
                assert_eq!(*before.get_or_insert(Holdings::now()), now, "round {round}");
            }
        }
    }
    report(slowest);
}

#[test]
fn a_peer_that_stops_is_waited_for_until_it_dies() {
    let (_alone, _watchdog) = (alone(), watchdog("stopped"));
    let directory = Directory::new();
    let place = directory.path();
    let _steady = Server::start(Kind::Shared, "steady", &place, Waiting::Adaptive);
    for waiting in POLICIES {
        let node = node("client", &place, waiting);
        let mut victim = Other::start("serve victim Adaptive", &place);
        victim.expect("serving");
        node.block_on(async {
            let work: WorkClient = node.connect("victim").await.unwrap();
            let steady: WorkClient = node.connect("steady").await.unwrap();
            victim.signal(Signal::STOP);
            let open = open_calls(&node, &work);
            for number in 0..1000 {
                assert_eq!(steady.add(number, 1).await, Ok(number + 1));
            }
            // A deadline is kept without the callee.
            let late = work.forever().deadline(Duration::from_millis(10)).await;
            assert_eq!(late, Err(CallError::deadline(true)));
            assert_eq!(node.sessions(), 2);
            let at = Instant::now();
            victim.kill();
            for call in open {
                let soon = call.await.unwrap().saturating_duration_since(at);
                assert!(soon < HUNG, "{soon:?}");
            }
        });
    }
}

#[test]
fn a_peer_that_stops_for_a_while_goes_on() {
    let (_alone, _watchdog) = (alone(), watchdog("continued"));
    let directory = Directory::new();
    let place = directory.path();
    let node = node("client", &place, Waiting::Adaptive);
    let mut victim = Other::start("serve victim Adaptive", &place);
    victim.expect("serving");
    node.block_on(async {
        let work: WorkClient = node.connect("victim").await.unwrap();
        for round in 0..20 {
            victim.signal(Signal::STOP);
            let calls: Vec<_> = (0..CALLS)
                .map(|n| {
                    let work = work.clone();
                    node.spawn(async move {
                        assert_eq!(work.add(n, round).await, Ok(n + round));
                        let sent = vec![n as u8; 20_000];
                        assert_eq!(work.bytes(sent.clone()).await, Ok(sent));
                    })
                })
                .collect();
            upbeat::sleep(Duration::from_millis(3)).await;
            victim.signal(Signal::CONT);
            for call in calls {
                call.await.unwrap();
            }
        }
    });
}

#[test]
fn a_death_is_seen_although_an_heir_holds_the_socket() {
    if !crate::common::on_one_host(
        "a connection that a child holds stands behind the death of its parent",
    ) {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("heir"));
    let directory = Directory::new();
    let place = directory.path();
    for waiting in POLICIES {
        let node = node("client", &place, waiting);
        let mut victim = Other::start("heir victim", &place);
        victim.expect("serving");
        let work: WorkClient = node.block_on(node.connect("victim")).unwrap();
        victim.child.stdin.as_mut().unwrap().write_all(b"h").unwrap();
        let heir: i32 = victim.expect("heir").parse().unwrap();
        node.block_on(async {
            let open = open_calls(&node, &work);
            assert_eq!(work.add(1, 1).await, Ok(2));
            let at = Instant::now();
            victim.kill();
            for call in open {
                let soon = call.await.unwrap().saturating_duration_since(at);
                assert!(soon < HUNG, "{soon:?}");
            }
        });
        assert_eq!(node.sessions(), 0);
        // Its name is free, for it was the process that held it.
        drop(crate::common::node("victim", &place, waiting));
        rustix::process::kill_process(Pid::from_raw(heir).unwrap(), Signal::KILL).unwrap();
    }
}
