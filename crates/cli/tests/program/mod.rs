//! An invented program for tests: pages of samples and counters as nodes keep them for observers, in the
//! process of the test itself. The program has every problem that a bill can name.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat_core::bill::way::{CALL, MessageEvents, ONEWAY, Place, StampMode, Way};
use upbeat_core::bill::{Counter, Item};
use upbeat_memory::counters::Counters;
use upbeat_memory::samples::{Record, STAMPS_MAX, Samples};
use upbeat_memory::ticks::ticks_per_second;

/// The time after which a command that hangs is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The items that take no time when nothing is waited for.
const WAITING: [Item; 6] =
    [Item::Room, Item::Wake, Item::Promote, Item::Lock, Item::Wait, Item::Queue];

/// The pages of one node.
pub(crate) struct Pages {
    /// The node's name.
    pub(crate) name: String,
    pub(crate) samples: Samples,
    /// The counters, kept alive for observers.
    pub(crate) counters: Counters,
}

impl Pages {
    /// Creates the pages of a node without messages, under a name of its own.
    pub(crate) fn new(name: &str) -> Pages {
        Pages::of(name, "invented")
    }

    /// Creates the pages of a node of a program.
    pub(crate) fn of(name: &str, program: &str) -> Pages {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed) << 32;
        let (incarnation, names) =
            (nth | u64::from(std::process::id()), format!("{name}\n{program}"));
        let samples = Samples::create(&names, incarnation).unwrap();
        let counters = Counters::create(Counter::COUNT, &names, incarnation).unwrap();
        Pages { name: name.into(), samples, counters: counters.named(Counter::NAMES) }
    }

    /// Writes a message. `long` returns the nanoseconds of phases that do not take 20 ns. The second run of a
    /// handler takes no time.
    pub(crate) fn message(
        &self,
        subject: u16,
        way: &'static Way,
        (began, lock): (u64, u16),
        long: impl Fn(Item, Place) -> Option<u64>,
    ) {
        let mut stamps = [0; STAMPS_MAX];
        let mut at = began as f64;
        stamps[0] = ticks(at);
        let mut last = None;
        for (nth, phase) in way.phases.iter().enumerate() {
            let waiting = WAITING.contains(&phase.item);
            let again = phase.item == Item::Execute && last.replace(()).is_some();
            let usual = if waiting || again { 0 } else { 20 };
            at += long(phase.item, phase.place).filter(|_| !again).unwrap_or(usual) as f64;
            stamps[nth + 1] = ticks(at);
        }
        let (kind, rung) = (way.number(), StampMode::Whole.byte());
        let flags = if lock == 0 { MessageEvents::default() } else { MessageEvents::PROMOTED };
        // A run beyond the usual budget is told by the callee.
        let ran = long(Item::Execute, Place::There).filter(|ns| *ns > 100_000).unwrap_or(0);
        let flags = flags.with_run_us(ran / 1_000).0;
        let (note, doubt, peer) = (lock, 0, 1);
        self.samples.write(&Record { subject, kind, rung, flags, note, doubt, peer, stamps });
    }
}

fn ticks(ns: f64) -> u64 {
    (ns * ticks_per_second() as f64 / 1e9) as u64
}

/// Creates nodes named `desk` and `sink` after `prefix`, which have made calls and sent messages.
pub(crate) fn program(prefix: &str) -> [Pages; 2] {
    // The nodes are created in reverse order of their names, and the bill must sort them.
    let [sink, desk] = ["sink", "desk"].map(|name| Pages::new(&format!("{prefix}/{name}")));
    let subject = |text: &str| desk.samples.subject(text).unwrap();
    let (transfer, audit) = (subject("bank\nBank\ntransfer"), subject("bank\nBank\naudit"));
    let (price, lock) = (subject("quotes\nPrices\nprice"), subject("accounts"));
    let note = sink.samples.subject(&format!("{}\nSink\nnote", desk.name)).unwrap();
    for n in 0..600 {
        let began = 1_000_000 + 700_000 * n;
        let held = n % 50 == 7;
        desk.message(transfer, CALL, (began, if held { lock } else { 0 }), |item, _| match item {
            Item::Lock if held => Some(50_000 + 3 * n),
            Item::Promote if held => Some(60),
            Item::Wire => Some(55 + n % 30),
            Item::Execute => Some(250 + n % 90),
            _ => None,
        });
        if n % 2 == 0 {
            let took = if n % 100 == 0 { 310_000 } else { 2_000 + 7 * n };
            desk.message(audit, CALL, (began + 90_000, 0), |item, _| {
                (item == Item::Execute).then_some(took)
            });
        }
        if n % 3 == 0 {
            // The callee sleeps when the request comes; the caller does not sleep when the reply comes.
            let asleep = std::cell::Cell::new(n % 9 == 0);
            desk.message(price, CALL, (began + 450_000, 0), |item, _| {
                (item == Item::Wake && asleep.replace(false)).then_some(48_000)
            });
        }
        sink.message(note, ONEWAY, (began + 600_000, 0), |item, _| match item {
            Item::Room if n % 10 == 0 => Some(240_000),
            Item::Execute => Some(90 + n % 40),
            _ => None,
        });
    }
    let counters = [(Counter::HandlersInline, 8_800), (Counter::PromotedByLock, 1_200)];
    counters.iter().for_each(|(counter, count)| sink.counters.add(counter.index(), *count));
    desk.counters.add(Counter::CallsSent.index(), 90_000);
    [desk, sink]
}

/// Runs `upbeat bill`.
pub(crate) fn bill(arguments: &[&str]) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_upbeat"))
        .arg("bill")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The output is read during the run, because a full pipe would block the command.
    let pid = rustix::process::Pid::from_child(&child);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = done.clone();
    let guard = std::thread::spawn(move || {
        let start = Instant::now();
        while !seen.load(std::sync::atomic::Ordering::Relaxed) {
            if start.elapsed() > PATIENCE {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let output = child.wait_with_output().unwrap();
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    guard.join().unwrap();
    output
}

/// Returns the output of a command that succeeds.
pub(crate) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A directory for one test, which is removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("upbeat-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
