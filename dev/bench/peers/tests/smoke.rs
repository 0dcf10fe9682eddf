//! Every peer that was built does a round or two of everything that it has.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A peer that hangs must not hold up the tests for ever.
const PATIENCE: Duration = Duration::from_secs(240);

fn bench(arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_upbeat-peers"))
        .args(arguments)
        .env("UPBEAT_BENCH_PEERS_SECONDS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    // The output of a run fits the pipes, so nobody waits for us to read it.
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("`{}` still runs after {PATIENCE:?}", arguments.join(" "));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_peer_is_measured() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return;
    }
    let listed = text(&bench(&["--list"]).stdout);
    let listed: BTreeSet<&str> = listed
        .lines()
        .filter(|line| !line.starts_with("left out: "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for peer in ["upbeat", "tarpc", "iceoryx2", "ipc-channel"] {
        let first = format!("{peer}/");
        assert!(listed.iter().any(|case| case.starts_with(&first)), "{peer} needs nothing");
    }
    let output = bench(&["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = text(&output.stdout);
    let rows: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let measured: BTreeSet<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(measured, listed);
    for peer in ["upbeat/shared", "load/shared", "iceoryx2/shared"] {
        for read in ["read", "read1KiB"] {
            assert!(
                measured.contains(format!("{peer}/{read}/polling").as_str()),
                "{peer} has reads"
            );
        }
    }
    for row in &rows {
        let case = row["case"].as_str().unwrap();
        assert!(row["p50_ns"].as_f64().unwrap() > 0.0 && row["n"].as_u64().unwrap() > 0, "{row}");
        if case.contains("/oneway/") {
            assert!(row["per_second"].as_f64().unwrap() > 0.0, "{row}");
        }
        if !case.starts_with("upbeat/") {
            let base = row["baseline"].as_str().unwrap();
            let waits = case.rsplit('/').next().unwrap();
            let carrier = if case.contains("/tcp/") { "tcp" } else { "shared" };
            assert_eq!(base.split('/').nth(2), case.split('/').nth(2), "{row}");
            assert!(
                base.starts_with(&format!("upbeat/{carrier}/")) && base.ends_with(waits),
                "{row}"
            );
        }
    }
}

#[test]
fn a_name_that_means_nothing_is_refused() {
    let output = bench(&["tonic/carrier-pigeon"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("`tonic/carrier-pigeon`"), "{said}");
}

#[test]
fn what_is_not_there_is_said() {
    let listed = text(&bench(&["tarpc", "--list"]).stdout);
    let cases = "tarpc/unix/oneway/sleeping, tarpc/tcp/oneway/sleeping";
    assert!(listed.contains(&format!("left out: {cases}: ")), "{listed}");
    assert!(
        listed.contains("left out: tarpc/unix/read/sleeping, tarpc/unix/read1KiB/"),
        "{listed}"
    );
    assert!(!listed.contains("iceoryx2"), "only what is asked for: {listed}");
}
