//! A test in which one process writes counters and samples and another one observes them.

#![cfg(not(loom))]

use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use upbeat_memory::counters::{self, Counters};
use upbeat_memory::observe::ObserveError;
use upbeat_memory::samples::{self, RECORDS, Record, STAMPS_MAX, Samples};

/// A timeout that is longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const CHILD: &str = "UPBEAT_TEST_CHILD";

fn record(number: u64) -> Record {
    Record {
        subject: 1,
        kind: 2,
        rung: number as u8,
        flags: number as u32,
        doubt: 0,
        note: 0,
        peer: !number,
        stamps: std::array::from_fn(|i| number << 8 | i as u64),
    }
}

/// A process that ends when its standard input is closed.
struct Process {
    child: Child,
    _input: ChildStdin,
}

impl Process {
    /// Runs one of the tests below in a process of its own.
    fn start(test: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let _input = child.stdin.take().unwrap();
        Process { child, _input }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "runs as the child of the next test"]
fn writer() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    static OVER: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        OVER.store(true, Ordering::Relaxed);
    });
    let counters = Counters::create(1, "child/1", 5).unwrap();
    let samples = Samples::create("child/1", 5).unwrap();
    assert_eq!(samples.subject("Shop::buy"), Some(1));
    let start = Instant::now();
    while !OVER.load(Ordering::Relaxed) && start.elapsed() < 2 * PATIENCE {
        samples.write(&record(samples.written()));
        counters.add(0, 1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn a_process_is_observed_while_it_writes() {
    let mut process = Process::start("writer");
    let pid = process.child.id();
    let start = Instant::now();
    let view = loop {
        // Before the child has created its pages, errors are expected too.
        match samples::observe(pid).unwrap_or_default().pop() {
            Some(view) if view.written() > 0 => break view,
            _ => assert!(start.elapsed() < PATIENCE, "no samples came"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!((view.node().as_str(), view.incarnation()), ("child/1", 5));
    assert_eq!((view.pid(), view.subject(1).as_deref()), (u64::from(pid), Some("Shop::buy")));
    let (mut whole, mut next) = (0, 0);
    while whole < 20_000 || next < 10 * RECORDS as u64 {
        assert!(start.elapsed() < PATIENCE, "{whole} records read, {next} written");
        for number in next.max(view.oldest())..view.written() {
            if let Some(found) = view.read(number) {
                assert_eq!(found, record(number));
                whole += 1;
            }
            next = number + 1;
        }
    }
    let counted = counters::observe(pid).unwrap().pop().unwrap();
    assert_eq!((counted.node().as_str(), counted.count()), ("child/1", 1));
    assert!(counted.get(0).is_some_and(|count| count > 0));

    process.child.kill().unwrap();
    process.child.wait().unwrap();
    assert_eq!(samples::observe(pid).err(), Some(ObserveError::Gone { pid }));
    // The last records can still be read; only the record that the child wrote when it was killed may be missing.
    let (oldest, written) = (view.oldest(), view.written());
    let left = (oldest..written).filter(|&number| match view.read(number) {
        Some(found) => {
            found == record(number) && found.stamps[STAMPS_MAX - 1] & 0xff == STAMPS_MAX as u64 - 1
        }
        None => false,
    });
    assert!(left.count() + 1 >= RECORDS);
}
