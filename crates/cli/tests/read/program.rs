//! The program that the tests of `upbeat read` read: the test itself, in another process.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use upbeat::export::{Export, Text};
use upbeat::{Node, Shared};

/// The variable that is set in the process of the program.
const PART: &str = "UPBEAT_TEST_READ";
const PROGRAM: &str = "read-test";

/// One of each type that an export may have.
#[derive(Shared)]
struct Quotes {
    count: u64,
    open: bool,
    grade: char,
    change: i8,
    name: Text<16>,
    rates: [f64; 3],
    book: [Row; 40],
    small: [u16; 3],
    levels: [[f32; 5]; 4],
    flags: [bool; 9],
    none: [u8; 0],
}

#[derive(Clone, Copy, Shared)]
struct Row {
    bid: f64,
    ask: f64,
}

/// An export whose field has the name that another export has behind its dot.
#[derive(Shared)]
struct Limits {
    v2: u32,
}

#[upbeat::service]
pub(crate) trait Desk {
    async fn set_small(&self, small: [u16; 3]);
    async fn withdraw(&self);
}

struct Prices(RefCell<Option<Export<Quotes>>>);

impl Desk for Prices {
    async fn set_small(&self, small: [u16; 3]) {
        self.0.borrow().as_ref().unwrap().small().set(small);
    }

    async fn withdraw(&self) {
        *self.0.borrow_mut() = None;
    }
}

fn quotes() -> Quotes {
    let row = |index: usize| Row { bid: index as f64 + 0.05, ask: index as f64 + 0.07 };
    Quotes {
        count: u64::MAX,
        open: true,
        grade: '😀',
        change: -3,
        name: Text::new("EUR\"USD\u{1b}").unwrap(),
        rates: [1.0, f64::NAN, f64::NEG_INFINITY],
        book: std::array::from_fn(row),
        small: [1, 2, 3],
        levels: std::array::from_fn(|one| std::array::from_fn(|two| (10 * one + two) as f32)),
        flags: std::array::from_fn(|index| index == 8),
        none: [],
    }
}

/// Runs the program if this process was started for it.
pub(crate) fn run_if_told() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    std::thread::spawn(|| {
        // The input is closed when the test ends, even if the test panics.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    // A value of 40 MiB lies on the stack before it is exported.
    let thread = std::thread::Builder::new().stack_size(512 << 20).spawn(serve).unwrap();
    thread.join().unwrap();
}

fn serve() {
    let node = |name: &str| Node::builder(name).program(PROGRAM).build().unwrap();
    let (prices, worker, idle) = (node("prices"), node("worker/3"), node("idle"));
    let quotes = prices.export("quotes", quotes()).unwrap();
    let _limits = prices.export("limits", Limits { v2: 5 }).unwrap();
    let _array = prices.export("limits.v2", [10_u32, 20]).unwrap();
    let _vast = prices.export("vast", [9_u64; 5 << 20]).unwrap();
    let _limited = prices.export_for(["risk"]).unwrap().export("for.risk", 3_u64).unwrap();
    let _count = worker.export("count", 7_u64).unwrap();
    prices.serve(DeskServer::new(Prices(RefCell::new(Some(quotes))))).unwrap();
    println!("ready: ");
    // The nodes take turns in this thread.
    loop {
        for node in [&prices, &worker, &idle] {
            node.block_on(upbeat::sleep(std::time::Duration::from_millis(1)));
        }
    }
}

/// The running program, and a directory for its sockets.
pub(crate) struct Running {
    child: Child,
    directory: PathBuf,
}

impl Running {
    /// Starts the program for the test of this name.
    pub(crate) fn start(name: &str) -> Running {
        let directory =
            std::env::temp_dir().join(format!("upbeat-read-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program", "--nocapture"])
            .env(PART, "1")
            .env("XDG_RUNTIME_DIR", &directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let running = Running { child, directory };
        assert!(
            lines.any(|line| line.unwrap().contains("ready: ")),
            "it ended before it was ready"
        );
        // The thread reads the further output of the test harness.
        std::thread::spawn(|| lines.for_each(drop));
        running
    }

    /// Returns the command `upbeat read` with these arguments behind the program.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_upbeat"));
        command.args(["read", PROGRAM]).args(arguments);
        command.env("XDG_RUNTIME_DIR", &self.directory).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `upbeat read` with these arguments behind the program.
    pub(crate) fn read(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Connects to the service that changes the exports.
    pub(crate) fn desk(&self) -> DeskHandle {
        let builder =
            upbeat::handle::builder().program(PROGRAM).directory(self.directory.join("upbeat"));
        builder.connect("prices").unwrap()
    }

    /// Stops the process of the program.
    pub(crate) fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
