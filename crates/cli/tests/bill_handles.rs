//! Tests `upbeat bill` with a process that has a handle and no node.

#[allow(dead_code, reason = "the made-up program is for other tests")]
mod program;

use program::{Scratch, bill, printed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The variable with the directory of the sockets in the process of the handle.
const PLACE: &str = "UPBEAT_TEST_BILL_HANDLES";

#[upbeat::service]
trait Adder {
    async fn add(&self, n: u64) -> u64;
}

struct Adds;

impl Adder for Adds {
    async fn add(&self, n: u64) -> u64 {
        n + 1
    }
}

/// Serves in a thread of its own, which ends with the process.
fn serve(place: PathBuf) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let node = upbeat::Node::builder("adder").program("bill").directory(place).build().unwrap();
        node.serve(AdderServer::new(Adds)).unwrap();
        ready.send(()).unwrap();
        node.block_on(std::future::pending::<()>());
    });
    is_ready.recv().unwrap();
}

/// Calls once for each line of the input. In the test's own process this function does nothing.
#[test]
fn the_program() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let builder = upbeat::handle::builder().program("bill").directory(place).sampling(1);
    let adder: AdderHandle = builder.connect("adder").unwrap();
    println!("@ready");
    for _ in std::io::stdin().lock().lines() {
        assert_eq!(adder.blocking().add(1), Ok(2));
        println!("@called");
    }
}

/// The process with the handle.
struct Caller(Child, BufReader<ChildStdout>);

impl Caller {
    fn start(place: &str) -> Caller {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program", "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut caller = Caller(child, output);
        caller.expect("@ready");
        caller
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert_ne!(self.1.read_line(&mut line).unwrap(), 0, "it never said {word}");
        }
    }

    fn call(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"call\n").unwrap();
        self.expect("@called");
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The samples of a handle are found by its process, from the first one on.
#[test]
fn a_process_of_a_handle_is_observed_from_its_first_sample_on() {
    let scratch = Scratch::new("bill-handles");
    let place = scratch.path("sockets");
    std::fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
    serve(PathBuf::from(&place));
    let mut caller = Caller::start(&place);
    let pid = caller.0.id().to_string();
    let early = bill(&[&pid, "--seconds", "0", "--all"]);
    let text = String::from_utf8(early.stderr).unwrap();
    assert!(!early.status.success() && text.contains("it has no node, and its handles"), "{text}");
    caller.call();
    // The server's times may follow its reply. Then the next call reads them.
    caller.call();
    let text = printed(&bill(&[&pid, "--seconds", "0", "--all", "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let subject = ["from", "to", "service", "method"].map(|key| &json["subjects"][0][key]);
    assert_eq!(subject, ["a handle of adder", "adder", "Adder", "add"], "{text}");
}
