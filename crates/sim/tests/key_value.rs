//! A key-value service whose client calls again when it does not know whether a call has run.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::CallError;
use upbeat_sim::{Faults, Sim};

/// Numbers by their keys.
#[upbeat::service]
trait Numbers {
    /// Adds to a number, and returns the sum.
    async fn add(&self, key: String, by: u64) -> u64;
}

/// The numbers on a disk.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<BTreeMap<String, u64>>>);

impl Numbers for Disk {
    async fn add(&self, key: String, by: u64) -> u64 {
        let sum = {
            let mut numbers = self.0.lock().unwrap();
            let number = numbers.entry(key).or_default();
            *number += by;
            *number
        };
        // The disk takes its time.
        upbeat::sleep(Duration::from_millis(2)).await;
        sum
    }
}

/// Adds, and calls again after each error. After `Unknown` that is wrong: the call may have run.
async fn add(numbers: &impl NumbersCaller, key: &str) -> u64 {
    loop {
        match numbers.add(key.to_owned(), 1).await {
            Ok(sum) => return sum,
            Err(CallError::Unknown(_)) => {}
            Err(_) => upbeat::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[upbeat_sim::test(seeds = 200)]
#[ignore = "it shows a fault, and another test runs it"]
async fn nothing_is_added_twice(sim: Sim) {
    let disk = Disk::default();
    let on_disk = disk.clone();
    sim.start("numbers", move |sim| {
        let node = sim.node("numbers").build()?;
        node.serve(NumbersServer::new(on_disk.clone()))?;
        node.block_on(std::future::pending::<()>());
        Ok::<_, Box<dyn Error>>(())
    });
    sim.faults(Faults::all());
    let handles = sim.handles().wait_for(Duration::from_secs(10));
    let numbers: NumbersHandle = handles.connect_async("numbers").await.unwrap();
    for _ in 0..30 {
        add(&numbers, "a").await;
    }
    assert_eq!(disk.0.lock().unwrap()["a"], 30, "each number was added once");
}

/// Runs the test that fails, with settings of the simulator. Returns what it prints of its failure.
fn failure(settings: &[(&str, &str)]) -> String {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--exact", "nothing_is_added_twice"]).env("RUST_BACKTRACE", "0");
    let output = test.envs(settings.iter().copied()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let end = printed.split_once("\nseed ").unwrap_or_else(|| panic!("{printed}")).1;
    end.split_once("\n\n").map_or(end, |(end, _)| end).trim().to_owned()
}

/// The simulator shows which fault the client does not survive, and its command shows it again.
#[test]
fn a_call_that_is_repeated_after_unknown_runs_twice() {
    let told = failure(&[]);
    assert!(told.contains("each number was added once"), "{told}");
    assert!(told.contains("\nit needs 1 of its "), "{told}");
    assert!(told.contains("process `numbers` is killed, and started again"), "{told}");
    let command = told.split_once("to repeat it: ").unwrap().1;
    assert!(command.ends_with("nothing_is_added_twice"), "{told}");
    let settings: Vec<_> = command.split(' ').filter_map(|word| word.split_once('=')).collect();
    assert_eq!(settings.len(), 2, "{told}");
    let again = failure(&settings);
    assert_eq!(again.lines().next(), told.lines().next(), "the same run");
    assert!(again.contains("\nit needs 1 of its 1 faults:"), "{again}");
}
