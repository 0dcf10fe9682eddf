//! Peers that connect as they should and then break every rule they can.
//!
//! `UPBEAT_HOSTILE_SECONDS` says for how long, `UPBEAT_SEED` how.

#[path = "../api/types/any.rs"]
mod any;
mod attack;
mod context;
mod control;
mod lending;
mod memory;
mod notes;
mod raw;
mod refusal;
mod room;
mod server;
mod time;
mod tolerant;

use crate::common::process::{Other, say};
use crate::common::{Directory, Watchdog, alone, node, seed, setting};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{Counter, InPlace, Lost, Node, Stream, Waiting, Why};
use upbeat_core::limits::{BUDGET_BYTES, CALLS_PER_SESSION_MAX};

/// The service under attack: no call of its methods does harm.
#[upbeat::service]
pub(crate) trait Target {
    async fn add(&self, a: u64, b: u64) -> u64;
    async fn blob(&self, bytes: u64) -> Vec<u8>;
    async fn forever(&self);
    async fn nap(&self, us: u64);
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    async fn pages(&self, pages: Vec<[u8; 4096]>) -> u64;
    async fn nothing(&self, many: Vec<()>) -> u64;
    async fn record(&self, record: Twig) -> Result<String, String>;
    #[oneway]
    async fn note(&self, number: u64);
    #[oneway]
    async fn note_late(&self, us: u64);
    async fn lend(&self, bytes: u64) -> InPlace<u8>;
    async fn mirror(&self, bytes: InPlace<u8>) -> InPlace<u8>;
    async fn tell(&self, from: u64) -> Stream<u64>;
    async fn hear(&self, numbers: Stream<u64>);
    /// Asks for more time, and says how many microseconds there are then, or 0.
    async fn stretch(&self) -> u64;
    /// So many bytes, when the gate is open.
    async fn late(&self, bytes: u64) -> Vec<u8>;
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Twig {
    name: String,
    twigs: Vec<Twig>,
    next: Option<Box<Twig>>,
}

#[derive(Default)]
struct Victim {
    noted: Cell<u64>,
    /// Handlers of `blob` and `late` that have begun, and that are done.
    begun: Cell<u64>,
    done: Cell<u64>,
    gate: crate::common::Signal,
}

impl Target for Victim {
    async fn add(&self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    async fn blob(&self, bytes: u64) -> Vec<u8> {
        self.begun.set(self.begun.get() + 1);
        self.done.set(self.done.get() + 1);
        vec![7; bytes.min(1 << 20) as usize]
    }

    async fn forever(&self) {
        std::future::pending::<()>().await;
    }

    async fn nap(&self, us: u64) {
        upbeat::sleep(Duration::from_micros(us)).await;
    }

    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn pages(&self, pages: Vec<[u8; 4096]>) -> u64 {
        pages.len() as u64
    }

    async fn nothing(&self, many: Vec<()>) -> u64 {
        many.len() as u64
    }

    async fn record(&self, record: Twig) -> Result<String, String> {
        Ok(record.name)
    }

    async fn note(&self, number: u64) {
        self.noted.set(self.noted.get().wrapping_add(number));
    }

    async fn note_late(&self, us: u64) {
        upbeat::sleep(Duration::from_micros(us.min(5000))).await;
    }

    async fn lend(&self, bytes: u64) -> InPlace<u8> {
        InPlace::from(vec![7; bytes.min(1 << 20) as usize])
    }

    async fn tell(&self, from: u64) -> Stream<u64> {
        Stream::of((0..).map(move |number: u64| from.wrapping_add(number)))
    }

    async fn hear(&self, mut numbers: Stream<u64>) {
        while let Some(Ok(_)) = numbers.next().await {}
    }

    async fn mirror(&self, bytes: InPlace<u8>) -> InPlace<u8> {
        bytes
    }

    async fn stretch(&self) -> u64 {
        let left = upbeat::extend(Duration::from_secs(3600)).await;
        left.map_or(0, |left| left.as_micros() as u64)
    }

    async fn late(&self, bytes: u64) -> Vec<u8> {
        self.begun.set(self.begun.get() + 1);
        self.gate.clone().await;
        self.done.set(self.done.get() + 1);
        vec![7; bytes.min(1 << 20) as usize]
    }
}

fn seconds() -> u64 {
    setting("UPBEAT_HOSTILE_SECONDS", 2)
}

fn watchdog(what: &'static str) -> Watchdog {
    Watchdog::within(what, 60 + 3 * seconds())
}

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split_once(' ') {
        Some(("attack", seed)) => attack::attack("victim", place, seed.parse().unwrap()),
        Some(("greed", words)) => {
            let (sessions, method) = words.split_once(' ').unwrap();
            attack::greed(sessions.parse().unwrap(), method.parse().unwrap(), place);
        }
        Some(("garbage", seed)) => server::serve_garbage("imp", place, seed.parse().unwrap()),
        Some(("third", name)) => third(name, place),
        _ => return false,
    }
    true
}

/// Calls the victim until the input ends, and says how long that took at most.
fn third(name: &str, place: &Path) {
    let node = node(name, place, Waiting::Adaptive);
    let stop = crate::common::process::input_ends();
    let mut took = Vec::new();
    node.block_on(async {
        let target: TargetClient = node.connect("victim").await.unwrap();
        let mut number = 0;
        while !stop.given() {
            let began = Instant::now();
            assert_eq!(target.add(number, 1).await, Ok(number + 1));
            let size = (number % 2000) as usize;
            assert_eq!(target.bytes(vec![1; size]).await, Ok(vec![1; size]));
            took.push(began.elapsed());
            number += 1;
        }
    });
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_micros();
    say(&format!("took {} {} {} {}", took.len(), at(0.5), at(0.99), at(1.0)));
}

/// The resources of the process, without the page of samples. The first sample makes that page, it stays, and a
/// peer's stamps may be part of the first sample.
#[derive(Clone, Copy, Debug)]
struct Size {
    descriptors: usize,
    mappings: usize,
    resident_kib: usize,
}

impl Size {
    fn now() -> Size {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_counted = |name: &str| !name.contains("memfd:upbeat-samples");
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
            let name = std::fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
            is_counted(&name.to_string_lossy())
        });
        let mapped = maps.lines().filter(|line| line.contains("memfd:") && is_counted(line));
        Size {
            descriptors: descriptors.count(),
            mappings: mapped.count(),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

/// A victim, and how its sessions have ended.
struct Attacked {
    node: Node,
    ends: Rc<RefCell<BTreeMap<String, u64>>>,
}

impl Attacked {
    fn new(name: &str, place: &Path, waiting: Waiting) -> Attacked {
        let ends = Rc::new(RefCell::new(BTreeMap::new()));
        let counted = Rc::clone(&ends);
        let builder = Node::builder(name).program(crate::common::PROGRAM).directory(place);
        let on_lost = move |lost: &Lost| {
            let why = match &lost.why {
                Why::Misbehaved(rule) => format!("{rule:?}"),
                Why::Broken(text) => text.clone(),
                other => format!("{other:?}"),
            };
            // Without its numbers.
            let why = why.split(|c: char| c == '{' || c.is_ascii_digit()).next().unwrap();
            *counted.borrow_mut().entry(why.trim().to_owned()).or_insert(0) += 1;
        };
        let node = builder.waiting(waiting).on_lost(on_lost).build().unwrap();
        Attacked { node, ends }
    }

    fn run(&self, duration: Duration) {
        self.node.block_on(upbeat_sleep(duration));
    }

    /// Waits until there are as many sessions again, and nothing is left of the others.
    fn settle(&self, sessions: usize, before: Option<Size>) {
        let is_left = || {
            let (now, before) = (Size::now(), before.unwrap_or(Size::now()));
            now.descriptors > before.descriptors || now.mappings > before.mappings
        };
        let is_over = || self.node.sessions() == sessions && !is_left();
        self.node.block_on(crate::common::until(is_over));
    }
}

async fn upbeat_sleep(duration: Duration) {
    upbeat::sleep(duration).await;
}

#[test]
fn clients_that_break_every_rule() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("hostile clients"));
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let directory = Directory::new();
        let place = directory.path();
        let victim = Attacked::new("victim", &place, waiting);
        victim.node.serve(TargetServer::new(Victim::default())).unwrap();
        let base = Size::now();
        let mut third = Other::start("third third", &place);
        let called = || victim.node.counted(Counter::HandlersInline) > 100;
        victim.node.block_on(crate::common::until(called));
        let seed = seed(1);
        let mut attackers =
            [seed, seed + 1].map(|seed| Other::start(&format!("attack {seed}"), &place));
        let unseen = || attack::unseen(&place);
        let began = Instant::now();
        let mut largest = base;
        while began.elapsed() < Duration::from_secs(seconds()) || !unseen().is_empty() {
            victim.run(Duration::from_millis(50));
            let now = Size::now();
            largest.descriptors = largest.descriptors.max(now.descriptors);
            largest.resident_kib = largest.resident_kib.max(now.resident_kib);
            for attacker in &mut attackers {
                assert_eq!(attacker.child.try_wait().unwrap(), None, "an attacker gave up");
            }
        }
        drop(attackers);
        victim.settle(1, None);
        drop(third.child.stdin.take());
        victim.settle(0, None);
        let took = third.expect("took");
        drop(third);
        victim.settle(0, Some(base));
        let after = Size::now();
        println!("{:#?}\n{base:?}\n{largest:?}\n{after:?}\nthird: {took}", victim.ends.borrow());
        assert_eq!(victim.node.counted(Counter::Panics), 0);
        assert_eq!(victim.node.streams(), 0);
        // The memory for debts to one peer is bounded, and comes back.
        assert!(largest.resident_kib < base.resident_kib + (600 << 10), "{largest:?}");
        // The allocator gives back what lies on top; a leak grows with each of thousands of sessions.
        assert!(after.resident_kib < base.resident_kib + (300 << 10), "{after:?}");
        let ends: u64 = victim.ends.borrow().values().sum();
        assert!(ends > 20 && victim.ends.borrow().len() > 6, "{:?}", victim.ends.borrow());
        // Calls, and microseconds: the middle one, the slowest of a hundred, the slowest.
        let took: Vec<u64> = took.split(' ').map(|word| word.parse().unwrap()).collect();
        assert!(took[0] > 100 && took[3] < 10_000_000, "a call of a third node hangs: {took:?}");
    }
}

/// Has eight sessions call for results of 60 kB that they never read, while a third node calls. Gives how
/// much memory the victim had at most beyond what it had before, in KiB, and how many handlers began.
fn greed(method: u16) -> (usize, u64) {
    let directory = Directory::new();
    let place = directory.path();
    let victim = Attacked::new("victim", &place, Waiting::Adaptive);
    let served = Rc::new(Victim::default());
    victim.node.serve(TargetServer::shared(Rc::clone(&served))).unwrap();
    let base = Size::now();
    let mut third = Other::start("third third", &place);
    let called = || victim.node.counted(Counter::HandlersInline) > 100;
    victim.node.block_on(crate::common::until(called));
    let mut greedy = Other::start(&format!("greed {GREEDY} {method}"), &place);
    let all = GREEDY * CALLS_PER_SESSION_MAX as u64;
    let mut largest = 0;
    let mut run_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            victim.run(Duration::from_millis(10));
            largest = largest.max(Size::now().resident_kib.saturating_sub(base.resident_kib));
        }
    };
    // Each call is run or kept, and what began ends.
    let kept = || victim.node.counted(Counter::RefusedHere);
    run_until(&|| served.begun.get() + kept() >= all);
    served.gate.give();
    run_until(&|| served.done.get() == served.begun.get());
    drop(third.child.stdin.take());
    // The session ends when its last call is answered.
    victim.settle(GREEDY as usize, None);
    let took = third.expect("took");
    greedy.kill();
    drop((greedy, third));
    victim.settle(0, Some(base));
    println!("method {method}: {} began, {} MiB, third: {took}", served.begun.get(), largest >> 10);
    (largest, served.begun.get())
}

/// Sessions that are greedy at once.
const GREEDY: u64 = 8;

#[test]
fn results_that_are_never_read_are_bounded() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("greed"));
    // Handlers that are done at once are run no more while their replies wait.
    let (largest, begun) = greed(lending::BLOB);
    assert!(largest < 150 << 10, "{largest} KiB");
    assert!(begun < 8 * 200, "{begun} of {} calls were run", GREEDY * 4096);
    // Requests that were accepted before are bounded by the node's budget, and by the room in lanes and buffers.
    let (largest, _) = greed(attack::LATE);
    assert!(largest < (BUDGET_BYTES >> 10) as usize + (200 << 10), "{largest} KiB");
}

#[test]
fn servers_that_answer_garbage() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("hostile servers"));
    let directory = Directory::new();
    let place = directory.path();
    let client = Attacked::new("client", &place, Waiting::Adaptive);
    // The first sample makes a page that stays, and what is left behind is counted here.
    client.node.set_sampling(0);
    let seed = seed(1);
    let mut imp = Other::start(&format!("garbage {seed}"), &place);
    imp.expect("serving");
    let began = Instant::now();
    let (mut rounds, mut connected) = (0, 0);
    let mut before = None;
    while began.elapsed() < Duration::from_secs(seconds()) || before.is_none() || connected == 0 {
        connected += u64::from(client.node.block_on(server::call_all(&client.node)));
        server::call_by_handle(&place);
        rounds += 1;
        // A session that has broken no rule so far stands.
        if rounds >= 5 && before.is_none() && client.node.sessions() == 0 {
            before = Some(Size::now());
        }
    }
    drop(imp);
    client.settle(0, before);
    let (before, after) = (before.expect("some rounds"), Size::now());
    println!("{rounds} rounds, {connected} bound; {:#?}", client.ends.borrow());
    println!("{before:?}\n{after:?}");
    assert_eq!(client.node.counted(Counter::Panics), 0);
    assert!(after.resident_kib < before.resident_kib + (64 << 10), "{after:?}");
}
