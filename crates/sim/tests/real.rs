//! The same tests in simulated worlds and, by `UPBEAT_SIM=real`, with real processes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use upbeat::{CallError, Node};
use upbeat_sim::{Faults, Sim};

const SOON: Duration = Duration::from_secs(20);

/// Numbers by their keys.
#[upbeat::service]
trait Numbers {
    /// Sets a number, and returns how many there are.
    async fn set(&self, key: u64, to: u64) -> u64;
    /// Returns a number.
    async fn get(&self, key: u64) -> Option<u64>;
}

/// The numbers in a file, with a line for each that was set.
struct Disk(PathBuf);

impl Disk {
    fn lines(&self) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let number = |line: &str| {
            let (key, to) = line.split_once(' ')?;
            Some((key.parse().ok()?, to.parse().ok()?))
        };
        text.lines().filter_map(number).collect()
    }
}

impl Numbers for Disk {
    async fn set(&self, key: u64, to: u64) -> u64 {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&self.0).unwrap();
        file.write_all(format!("{key} {to}\n").as_bytes()).unwrap();
        upbeat::sleep(ms(5)).await;
        self.lines().iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len() as u64
    }
    async fn get(&self, key: u64) -> Option<u64> {
        self.lines().into_iter().rev().find_map(|(known, to)| (known == key).then_some(to))
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn serve(sim: &Sim, node: &Node) -> Result<(), Box<dyn Error>> {
    node.serve(NumbersServer::new(Disk(sim.place().join("numbers"))))?;
    node.block_on(std::future::pending::<()>());
    Ok(())
}

fn start_store(sim: &Sim) {
    sim.start("store", |sim| serve(sim, &sim.node("store").build()?));
}

/// Sets a number, again and again until the store has answered. Returns how often it was sent.
async fn set(store: &NumbersHandle, key: u64, to: u64) -> u64 {
    for sent in 1.. {
        match store.set(key, to).await {
            Ok(_) => return sent,
            Err(_) => upbeat::sleep(ms(10)).await,
        }
    }
    unreachable!("a store comes back")
}

#[upbeat_sim::test(seeds = 20)]
async fn a_store_has_all_that_it_has_answered(sim: Sim) {
    start_store(&sim);
    let siege = sim.faults(Faults::all().every(ms(100)..ms(500)).lasts(ms(0)..ms(100)));
    let store: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    let mut sent = 0;
    for key in 0..80 {
        sent += set(&store, key, key * key).await;
        upbeat::sleep(ms(10)).await;
    }
    siege.end();
    assert!(sim.is_running("store"));
    for key in 0..80 {
        assert_eq!(store.get(key).await, Ok(Some(key * key)));
    }
    sim.sometimes("a number was sent again", sent > 80);
    sim.sometimes("the moon is blue", sent > 0);
}

#[upbeat_sim::test(seeds = 20)]
async fn a_store_is_killed_and_stopped_and_comes_back(sim: Sim) {
    start_store(&sim);
    let store: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    assert_eq!(store.set(1, 10).await, Ok(1));
    sim.kill("store");
    assert!(!sim.is_running("store"));
    assert!(store.get(1).deadline(ms(300)).await.is_err());
    sim.restart("store");
    let store: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    assert_eq!(store.get(1).await, Ok(Some(10)));
    sim.stop("store");
    assert!(sim.is_running("store"));
    let late = store.set(1, 11).deadline(ms(300)).await;
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    sim.go_on("store");
    assert_eq!(store.get(1).await, Ok(Some(10)), "a call behind its deadline does not run");
    println!("it took {:?}", sim.time());
}

#[upbeat_sim::test(seeds = 20)]
async fn a_store_of_another_host_is_reached_by_its_name(sim: Sim) {
    sim.interleave(std::num::NonZero::<usize>::MIN);
    sim.host("vienna").start("far", |sim| {
        let node = sim.node("store").insecure_plaintext().listen("vienna:7000").build()?;
        println!("the store listens");
        serve(sim, &node)
    });
    start_store(&sim);
    sim.delay("main", "vienna", ms(1)..ms(2));
    let near: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    let far: NumbersHandle = sim
        .handles()
        .insecure_plaintext()
        .wait_for(SOON)
        .connect_async("store@vienna:7000")
        .await
        .unwrap();
    assert_eq!(near.set(1, 10).await, Ok(1));
    sim.kill("store");
    assert_eq!(far.get(1).await, Ok(Some(10)));
    assert!(near.get(1).deadline(ms(300)).await.is_err());
}

#[upbeat_sim::test(seeds = 1)]
#[ignore = "it fails, and another test runs it"]
async fn a_process_fails(sim: Sim) {
    sim.start("fails", |sim| {
        sim.pause(ms(20));
        Err("its disk is full")
    });
    upbeat::sleep(ms(3_000)).await;
}

#[upbeat_sim::test(seeds = 1)]
#[ignore = "it fails, and another test runs it"]
async fn a_process_is_started_late(sim: Sim) {
    start_store(&sim);
    let _: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    sim.start("late", |_| Ok::<_, String>(()));
    panic!("it was late");
}

#[upbeat_sim::test(seeds = 1)]
#[ignore = "it fails, and another test runs it"]
async fn an_invariant_is_violated(sim: Sim) {
    start_store(&sim);
    let numbers = sim.place().join("numbers");
    sim.always(move || assert!(!numbers.exists(), "there are no numbers"));
    let store: NumbersHandle = sim.handles().wait_for(SOON).connect_async("store").await.unwrap();
    let _ = store.set(1, 2).await;
    sim.at(sim.time() + ms(50), |sim| sim.stop("store"));
    upbeat::sleep(ms(3_000)).await;
}

#[upbeat_sim::test(seeds = 1)]
#[ignore = "it waits, and another test kills it"]
async fn a_test_waits_for_ever(sim: Sim) {
    start_store(&sim);
    sim.start("stopped", |sim| {
        eprintln!("process {} began", std::process::id());
        sim.pause(Duration::from_secs(3_600));
        Ok::<_, String>(())
    });
    sim.pause(ms(1_000));
    sim.stop("stopped");
    println!("it is stopped");
    sim.pause(Duration::from_secs(3_600));
}

/// Returns the command that runs a test of this file with real processes.
fn real(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--include-ignored", "--exact", test]).env("UPBEAT_SIM", "real");
    command
}

fn output(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout), text(stderr))
}

#[test]
fn tests_pass_with_real_processes_and_say_what_was_left_out() {
    let (passed, stdout, stderr) = output(&mut real("a_store_has_all_that_it_has_answered"));
    assert!(passed, "{stdout}{stderr}");
    let left_out = "a_store_has_all_that_it_has_answered, with real processes: left out are broken connections, \
                    delays of the network, hosts that are parted, processes that lack resources\n";
    assert_eq!(stderr.matches(left_out).count(), 1, "{stderr}");
    let (passed, stdout, stderr) = output(
        real("a_store_of_another_host_is_reached_by_its_name")
            .args(["--nocapture", "--test-threads=1"]),
    );
    assert!(passed, "{stdout}{stderr}");
    assert!(stdout.contains("far: the store listens\n"), "{stdout}");
    let left_out = "delays of the network, turns that end between accesses to shared memory";
    assert!(stderr.contains(left_out), "{stderr}");
    let (passed, stdout, stderr) =
        output(&mut real("a_store_is_killed_and_stopped_and_comes_back"));
    assert!(passed && !stderr.contains("left out"), "{stdout}{stderr}");
}

#[test]
fn failures_of_real_processes_are_those_of_the_test() {
    let (passed, stdout, _) = output(&mut real("a_process_fails"));
    assert!(!passed);
    assert!(stdout.contains("with real processes, after "), "{stdout}");
    assert!(stdout.contains("process `fails` has ended with exit status: 101"), "{stdout}");
    assert!(stdout.contains("process `fails` has ended: its disk is full"), "{stdout}");
    assert!(stdout.contains("UPBEAT_SIM=real UPBEAT_SIM_SEED="), "{stdout}");
    let (passed, stdout, _) = output(&mut real("a_process_is_started_late"));
    let told = "process `late` is to be started before the test does anything else";
    assert!(!passed && stdout.contains(told), "{stdout}");
    let (passed, stdout, _) = output(&mut real("an_invariant_is_violated"));
    assert!(!passed && stdout.contains(": there are no numbers"), "{stdout}");
}

/// A stopped process does not outlive a test that is killed.
#[test]
fn no_process_outlives_its_test() {
    use std::io::{BufRead, BufReader};
    let mut command = real("a_test_waits_for_ever");
    command.arg("--nocapture").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut test = command.spawn().unwrap();
    let line_of = |from: &mut dyn BufRead, part: &str| {
        from.lines().map(Result::unwrap).find(|line| line.contains(part)).unwrap()
    };
    let began = line_of(&mut BufReader::new(test.stderr.take().unwrap()), " began");
    let process = began.split(' ').rev().nth(1).unwrap();
    line_of(&mut BufReader::new(test.stdout.take().unwrap()), "it is stopped");
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        text.rsplit(") ").next()?.chars().next()
    };
    assert_eq!(state(), Some('T'));
    test.kill().unwrap();
    test.wait().unwrap();
    let killed = Instant::now();
    // The process may wait for somebody who takes note of its end.
    while state().is_some_and(|state| state != 'Z') {
        assert!(killed.elapsed() < SOON, "it is {:?}", state());
        std::thread::sleep(ms(10));
    }
}
