//! The examples that run by themselves and check their own results.

use std::path::PathBuf;
use std::process::{Command, Stdio};

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

/// The programs run side by side, since most of their time is spent waiting.
#[test]
fn every_program_finds_its_results_right() {
    let running = PROGRAMS.map(|name| {
        let mut command = Command::new(example(name));
        (
            name,
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    });
    for (name, child) in running {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "`{name}` failed:\n{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!said.is_empty(), "`{name}` does not say what it did");
    }
}
