//! The examples that run by themselves and check their own results.

use crate::common::{Directory, secure, shares_memory};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The time after which a program counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// The examples, and whether the name of the program holds the number of the process.
const PROGRAMS: [(&str, bool); 5] = [
    ("blobs", true),
    ("pool", true),
    ("several_cores", false),
    ("store", true),
    ("tokio_tasks", false),
];

/// Returns the path of an example, which cargo builds with the tests of the workspace.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: build it with `cargo build --workspace --examples`",
        path.display()
    );
    path
}

/// Waits for a program, and kills it if it takes too long.
fn output(mut child: Child) -> Output {
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A program that has ended is not killed: this changes nothing for it.
    child.kill().unwrap();
    child.wait_with_output().unwrap()
}

/// A program that runs, in a directory of its own for the sockets.
struct Running {
    child: Child,
    _runtime: Rc<Runtime>,
}

/// The directory that stands for the user's runtime directory.
struct Runtime(Directory);

impl Runtime {
    fn new() -> Rc<Runtime> {
        let runtime = Runtime(Directory::new());
        std::fs::DirBuilder::new().mode(0o700).create(runtime.0.path()).unwrap();
        Rc::new(runtime)
    }

    /// Writes the identity with which a run under TLS has this program's nodes meet.
    fn identify(&self, program: &str) {
        let text = secure::Authority::new().lasting(&[&format!("upbeat://{program}/*")]);
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(self.0.path().join("upbeat.pem")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Starts an example. The name of its program may hold the number of its process, which has begun when
    /// `begun` is called and goes on afterwards.
    fn start(self: &Rc<Self>, name: &str, arguments: &[&str], begun: impl FnOnce(u32)) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exec \"$0\" \"$@\""]).arg(example(name)).args(arguments);
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        begun(child.id());
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        Running { child, _runtime: Rc::clone(self) }
    }
}

/// The programs run side by side, since most of their time is spent waiting.
#[test]
fn every_program_finds_its_results_right() {
    let running = PROGRAMS.map(|(name, has_number)| {
        let runtime = Runtime::new();
        let identify = |process: u32| match has_number {
            true => runtime.identify(&format!("{name}-{process}")),
            false => runtime.identify("default"),
        };
        (name, runtime.start(name, &[], identify))
    });
    for (name, Running { child, _runtime }) in running {
        let Output { status, stdout, stderr } = output(child);
        let (said, warned) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "`{name}` failed ({status}):\n{said}{warned}");
        assert!(!said.is_empty(), "`{name}` does not say what it did");
    }
}

/// A writer and two readers, each in a process of its own. A reader without shared memory reads each row by a call,
/// and has not read the whole table when its time is over.
#[test]
fn readers_of_the_price_table_find_whole_rows() {
    let runtime = Runtime::new();
    runtime.identify("default");
    let start = |arguments: &[&str]| runtime.start("price_table", arguments, |_| ()).child;
    let mut writer = start(&["writer"]);
    let mut ready = String::new();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready: "), "{ready}");
    let readers = [0; 2].map(|_| start(&["reader", "--seconds", "1", "--rows", "5"]));
    let read = readers.map(output);
    writer.kill().unwrap();
    writer.wait().unwrap();
    for Output { status, stdout, stderr } in read {
        let (said, warned) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "a reader failed ({status}):\n{said}{warned}");
        let last = said.trim_end().lines().last().unwrap();
        let rows = last.strip_suffix(" rows were read, and each was whole").expect(last);
        assert!(rows.parse::<u64>().unwrap() > 0, "{said}");
        if !shares_memory("the frames of a whole table") {
            continue;
        }
        let frame: Vec<&str> = said.lines().take(7).collect();
        assert_eq!(
            frame[0].split_whitespace().collect::<Vec<_>>(),
            ["row", "bid", "ask", "updates"]
        );
        assert!(frame[5].trim_start().starts_with("8000 "), "{said}");
        assert!(frame[6].contains(" updates; 10000 rows read in "), "{said}");
    }
}
