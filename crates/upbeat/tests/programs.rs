//! The examples that run by themselves and check their own results.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The time after which a program counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

const PROGRAMS: [&str; 5] = ["blobs", "pool", "several_cores", "store", "tokio_tasks"];

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

/// The programs run side by side, since most of their time is spent waiting.
#[test]
fn every_program_finds_its_results_right() {
    let running = PROGRAMS.map(|name| {
        let mut command = Command::new(example(name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        (name, command.spawn().unwrap())
    });
    for (name, child) in running {
        let Output { status, stdout, stderr } = output(child);
        let (said, warned) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "`{name}` failed ({status}):\n{said}{warned}");
        assert!(!said.is_empty(), "`{name}` does not say what it did");
    }
}
