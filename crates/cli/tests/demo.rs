//! Tests the `upbeat demo` command from a user's view.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The time after which a demo that hangs is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory in which the demo must leave no file.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("upbeat-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn demo(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_upbeat"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", &self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits until the node `stock` has a file, which is made after the demo has begun to wait for signals.
    fn await_stock(&self) {
        fn holds_stock(directory: &Path) -> bool {
            // A file may go between two looks.
            std::fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
                entry.file_name().to_string_lossy().contains("stock") || holds_stock(&entry.path())
            })
        }
        let start = Instant::now();
        while !holds_stock(&self.0) {
            assert!(start.elapsed() < PATIENCE, "the demo has no node `stock`");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wait(mut child: Child) -> Output {
    let start = Instant::now();
    // The output fits into the pipes, so the demo ends without a reader.
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the demo still runs after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_demo_reports_every_kind_of_call_and_leaves_no_files() {
    let scratch = Scratch::new("demo");
    let output = wait(scratch.demo(&["--json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = lines.iter().filter(|line| line["call"].is_string()).collect();
    assert_eq!(calls.len(), 8);
    for call in &calls {
        let number = |name: &str| call[name].as_f64().unwrap();
        assert!(number("n") > 0.0 && number("p50_ns") <= number("p99_ns"), "{call}");
        assert_eq!(number("inline") + number("promoted"), number("n"), "{call}");
        assert_eq!(call["transport"], "shared");
    }
    let of = |name: &str| calls.iter().find(|call| call["call"] == name).unwrap();
    assert_eq!(of("nothing()")["promoted"], 0);
    assert_eq!(of("order(tea, 1)")["inline"], 0, "it waits for the stock");
    assert_eq!(of("take(tea, 1)")["from"], "shop");
    assert_eq!(of("take(tea, 1)")["n"], of("order(tea, 1)")["n"]);
    assert!(of("price(unicorn)")["ended"].as_str().unwrap().contains("unicorn"));
    let two_cpus = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    assert_eq!(lines.len() == 9 && lines[8]["ratio_to_line"].is_number(), two_cpus);
    assert_eq!(scratch.left(), [] as [PathBuf; 0]);
}

#[test]
fn an_interrupted_demo_leaves_no_files() {
    let mut interrupted = 0;
    for milliseconds in [0, 150, 600, 1_400] {
        let scratch = Scratch::new(&format!("demo-{milliseconds}"));
        let child = scratch.demo(&[]);
        scratch.await_stock();
        std::thread::sleep(Duration::from_millis(milliseconds));
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        // A demo that has ended is not waited for yet, so the number is still its own.
        kill_process(pid, Signal::INT).unwrap();
        let output = wait(child);
        assert_eq!(scratch.left(), [] as [PathBuf; 0]);
        // On a fast machine the demo may have ended before the signal.
        if !output.status.success() {
            let said = text(&output.stderr);
            assert!(said.contains("interrupted") && output.stdout.is_empty(), "{said}");
            interrupted += 1;
        }
    }
    assert!(interrupted > 0, "each demo has ended before its signal");
}
