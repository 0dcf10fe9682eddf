//! A thousand sessions that were used once: what they cost while nothing happens.

use crate::common::process::{Other, apart, say};
use crate::common::work::{WorkHandle, WorkServer, Worker};
use crate::common::{Directory, Signal, Watchdog, alone, more_descriptors, node};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat::{Node, Waiting};

const PROCESSES: usize = 4;
/// The pages that a look at a session touches, about.
const PAGES: usize = 3;
const PAGE_WORDS: usize = 512;
const SESSIONS: usize = 1000;
const SESSION_KIB_MAX: f64 = 32.0;

/// Plays a process with sessions that it uses once, as many as it is told. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    if part != "idle" {
        return false;
    }
    more_descriptors();
    let mut handles: Vec<WorkHandle> = Vec::new();
    say("ready");
    for line in std::io::stdin().lock().lines() {
        if let Ok(count) = line.unwrap().parse::<usize>() {
            handles.extend((0..count).map(|_| use_once(place)));
            say("used");
            continue;
        }
        let work = handles[0].blocking();
        let mut took: Vec<_> = (0..3000)
            .map(|n| {
                let began = Instant::now();
                assert_eq!(work.add(n, 1), Ok(n + 1));
                began.elapsed()
            })
            .collect();
        took.sort();
        say(&format!("took {}", took[took.len() / 2].as_nanos()));
    }
    true
}

fn use_once(place: &Path) -> WorkHandle {
    let handle = upbeat::handle::builder().program(crate::common::PROGRAM).directory(place);
    let work: WorkHandle = handle.connect("server").unwrap();
    assert_eq!(work.blocking().add(1, 1), Ok(2));
    work
}

/// Returns the number of open descriptors. The first call that is sampled makes the memory for samples of its node: one of
/// many calls, at any time.
fn descriptors() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let leads = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    leads.filter(|path| !path.to_string_lossy().contains("upbeat-samples")).count()
}

/// Shared memory, slab and page tables of the whole machine, in KiB.
fn memory_kib() -> [usize; 3] {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    ["Shmem:", "Slab:", "PageTables:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    })
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Drives the node while something is done in another thread.
fn beside<T: Send>(node: &Node, act: impl FnOnce() -> T + Send) -> T {
    let done = Signal::default();
    std::thread::scope(|scope| {
        let ended = done.clone();
        let thread = scope.spawn(move || {
            let value = act();
            ended.give();
            value
        });
        node.block_on(done);
        thread.join().unwrap()
    })
}

/// Has another process do something, and waits for its word.
fn order(other: &mut Other, line: &str, answer: &str) -> String {
    writeln!(other.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    other.expect(answer)
}

fn call_ns(node: &Node, other: &mut Other) -> u64 {
    beside(node, || order(other, "call", "took").parse().unwrap())
}

/// Opens the sessions, and says how many KiB each of them has taken.
fn fill(node: &Node, place: &Path) -> (Vec<Other>, f64) {
    node.block_on(crate::common::until(|| node.sessions() == 1));
    let mut others: Vec<_> = (0..PROCESSES).map(|_| Other::start("idle", place)).collect();
    others.iter_mut().for_each(|other| drop(other.expect("ready")));
    let (base, before) = (descriptors(), memory_kib());
    let share = (SESSIONS / PROCESSES).to_string();
    beside(node, || others.iter_mut().for_each(|other| drop(order(other, &share, "used"))));
    let after = memory_kib();
    assert_eq!(node.sessions(), 1 + SESSIONS);
    // One for each of them, and one for each process that is watched, which those of other hosts are not.
    let watched = if crate::common::over_network() { 0 } else { PROCESSES };
    assert_eq!(descriptors() - base, SESSIONS + watched);
    let [shared, slab, tables] = [0, 1, 2].map(|at| after[at].saturating_sub(before[at]));
    println!("KiB in all: {shared} shared, {slab} slab, {tables} page tables");
    (others, (shared + slab + tables) as f64 / SESSIONS as f64)
}

#[test]
fn a_thousand_idle_sessions() {
    let _alone = alone();
    apart(concat!(module_path!(), "::a_thousand_idle_sessions"), measure);
}

fn measure() {
    let _watchdog = Watchdog::new("idle");
    more_descriptors();
    let directory = Directory::new();
    let place = directory.path();
    let node = node("server", &place, Waiting::Adaptive);
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let mut one = Other::start("idle", &place);
    one.expect("ready");
    beside(&node, || order(&mut one, "1", "used"));
    let alone_ns = call_ns(&node, &mut one);

    // The figures are the whole machine's, which may do something else meanwhile.
    let mut attempts = (0..6).map(|_| fill(&node, &place));
    let (others, each_kib) = attempts.find(|(_, kib)| *kib <= SESSION_KIB_MAX).expect("too much");
    println!("{each_kib:.1} KiB a session");

    // Where the host of a virtual machine takes back memory that was idle, a look at it is dear: the floor is the same
    // number of looks at plain pages.
    let pages: Vec<AtomicU64> =
        (0..SESSIONS * PAGES * PAGE_WORDS).map(|_| AtomicU64::new(1)).collect();
    let look =
        || pages.iter().step_by(PAGE_WORDS).map(|page| page.load(Ordering::Relaxed)).sum::<u64>();
    let second = |act: &dyn Fn()| {
        let began = processor_time();
        act();
        processor_time() - began
    };
    let floors = [0; 2].map(|_| {
        second(&|| {
            std::thread::sleep(Duration::from_secs(1));
            assert_eq!(look(), (SESSIONS * PAGES) as u64);
        })
    });
    let idles = [0; 2]
        .map(|_| second(&|| node.block_on(async { upbeat::sleep(Duration::from_secs(1)).await })));
    println!("{idles:?} of the processor in a second, the floor is {floors:?}");
    let (used, floor) = (idles.into_iter().min().unwrap(), floors.into_iter().max().unwrap());
    assert!(used < Duration::from_millis(20) + 2 * floor, "{used:?}, {floor:?}");
    // Half of the calls.
    let among_ns = call_ns(&node, &mut one);
    println!("a call takes {alone_ns} ns alone and {among_ns} ns among {SESSIONS}");
    drop(others);
    node.block_on(crate::common::until(|| node.sessions() == 1));
}
