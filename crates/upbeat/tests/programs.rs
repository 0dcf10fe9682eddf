//! The examples that run by themselves and check their own results.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
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

/// A writer and two readers, each in a process of its own.
#[test]
fn readers_of_the_price_table_find_whole_rows() {
    let directory = std::env::temp_dir().join(format!("upbeat-price-table-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(example("price_table"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut writer = start(&["writer"]);
    let mut ready = String::new();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready: "), "{ready}");
    let readers = [0; 2].map(|_| start(&["reader", "--seconds", "1", "--rows", "5"]));
    let read = readers.map(output);
    writer.kill().unwrap();
    writer.wait().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    for Output { status, stdout, stderr } in read {
        let (said, warned) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "a reader failed ({status}):\n{said}{warned}");
        assert!(said.trim_end().ends_with(" rows were read, and each was whole"), "{said}");
        let frame: Vec<&str> = said.lines().take(7).collect();
        assert_eq!(
            frame[0].split_whitespace().collect::<Vec<_>>(),
            ["row", "bid", "ask", "updates"]
        );
        assert!(frame[5].trim_start().starts_with("8000 "), "{said}");
        assert!(frame[6].contains(" updates; 10000 rows read in "), "{said}");
    }
}
