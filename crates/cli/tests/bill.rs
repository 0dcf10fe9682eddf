//! Tests the `upbeat bill` command from a user's view, with an invented program in this process.

mod program;

use program::{Pages, Scratch, bill, printed, program};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::CALL;

/// Returns the names of the nodes of a [`program`].
fn names(nodes: &[Pages; 2]) -> [&str; 2] {
    [&nodes[0].name, &nodes[1].name]
}

fn failed(arguments: &[&str]) -> String {
    let output = bill(arguments);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_report_names_the_causes_of_slow_calls() {
    let nodes = program("words");
    let [desk, sink] = names(&nodes);
    let text = printed(&bill(&[desk, sink, "--seconds", "0", "--all"]));
    for told in [
        "us waiting for the lock `accounts`",
        "us running the handler, up to 310 us without a pause and beyond its budget",
        "us waking `quotes`, which slept",
        "us waiting for room in a full lane to `words/sink`",
        "`words/sink` lost 12.0% of its bets on handlers: waited for a lock (1,200)",
        "Bank.transfer  call from `words/desk` to `bank`",
        "Sink.note  one-way from `words/desk` to `words/sink`",
    ] {
        // The test joins lines, because sentences are broken into lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&told), "{told}\n{text}");
    }
    let drawn =
        printed(&bill(&[desk, "--seconds", "0", "--all", "--timeline", "--method", "transfer"]));
    assert!(drawn.contains("typical of Bank.transfer") && !drawn.contains("audit"), "{drawn}");
}

#[test]
fn json_is_one_object_with_consistent_figures() {
    let nodes = program("json");
    let [desk, sink] = names(&nodes);
    let text = printed(&bill(&[desk, sink, "--seconds", "0", "--all", "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let subjects = json["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), 4);
    for subject in subjects {
        let lines = subject["lines"].as_array().unwrap();
        let sum: f64 = lines.iter().map(|line| line["mean"].as_f64().unwrap()).sum();
        let mean = subject["whole"]["mean"].as_f64().unwrap();
        assert!((sum - mean).abs() < 0.01 * mean, "{sum} {mean}");
        let whole = |name: &str| subject["whole"][name].as_f64().unwrap();
        assert!(whole("p50") <= whole("p99") && whole("p99") <= whole("max"));
        assert!(subject["whole"]["p999"].is_null(), "there are fewer than a thousand samples");
    }
    let names: Vec<&str> = json["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [desk, sink]);
    assert_eq!(json["nodes"][1]["counters"]["promoted by lock"], 1_200);
    assert!(json["findings"].as_array().unwrap().len() >= 5);
    assert_eq!(json["findings"][0]["level"], "late");
}

#[test]
fn a_recording_is_saved_loaded_and_compared() {
    let nodes = program("kept");
    let [desk, sink] = names(&nodes);
    let scratch = Scratch::new("bill-kept");
    let file = scratch.path("before.json");
    let live = printed(&bill(&[desk, sink, "--seconds", "0", "--all", "--save", &file]));
    assert_eq!(printed(&bill(&["--load", &file])), live);
    let both = printed(&bill(&["--load", &file, "--compare", &file]));
    assert!(both.starts_with(&live) && both.contains("+0.0%"), "{both}");
    let json = printed(&bill(&["--load", &file, "--compare", &file, "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["compared"].as_array().unwrap().len(), 4);

    std::fs::write(&file, "{\"format\":\"upbeat bill\",\"version\":99}").unwrap();
    let error = failed(&["--load", &file]);
    assert!(error.contains("version 99") && error.contains(&file), "{error}");
    let error = failed(&["--load", &scratch.path("none")]);
    assert!(error.contains("cannot be read"), "{error}");
    assert!(failed(&[desk, "--load", &file]).contains("cannot be used with"));
}

#[test]
fn a_trace_has_nested_spans() {
    let nodes = program("trace");
    let scratch = Scratch::new("bill-trace");
    let file = scratch.path("bill.trace");
    printed(&bill(&[&nodes[0].name, "--seconds", "0", "--all", "--trace", &file]));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(spans.iter().any(|span| span["name"] == "lock"));
    let mut open: Vec<(&Value, f64)> = Vec::new();
    let mut last = 0.0;
    for span in spans {
        let (from, dur) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
        assert!(from >= last, "in order: {span}");
        last = from;
        open.retain(|(_, end)| *end > from + 1e-6);
        let same = |one: &Value| one["pid"] == span["pid"] && one["tid"] == span["tid"];
        let mut around = open.iter().filter(|(one, _)| same(one));
        assert!(around.all(|(_, end)| from + dur <= end + 2e-3), "within: {span}");
        open.push((span, from + dur));
    }
}

#[test]
fn a_program_is_found_by_the_number_of_its_process() {
    let nodes = program("number");
    let pid = std::process::id().to_string();
    let text = printed(&bill(&[&pid, "--seconds", "0", "--all", "--method", "transfer", "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let subjects = json["subjects"].as_array().unwrap();
    assert!(subjects.iter().any(|one| one["from"] == nodes[0].name.as_str()), "{text}");
    assert!(subjects.iter().all(|one| one["method"] == "transfer"));
}

#[test]
fn samples_that_arrive_during_the_collection_are_included() {
    let node = Pages::new("meanwhile");
    let subject = node.samples.subject("bank\nBank\nlate").unwrap();
    let text = std::thread::scope(|scope| {
        let text = scope.spawn(|| printed(&bill(&["meanwhile", "--seconds", "1", "--json"])));
        for n in (0..).take_while(|_| !text.is_finished()) {
            node.message(subject, CALL, (1_000 * n, 0), |_, _| None);
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        text.join().unwrap()
    });
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(json["subjects"][0]["stories"].as_u64().unwrap() > 10, "{text}");
}

#[test]
fn errors_name_the_remedy() {
    let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let error = failed(&[&other.id().to_string()]);
    assert!(error.contains("has no node"), "{error}");
    other.kill().unwrap();
    other.wait().unwrap();
    let error = failed(&["4194305"]);
    assert!(error.contains("there is no process 4194305"), "{error}");
    let _silent = Pages::new("errors/silent");
    let error = failed(&["errors/silent", "--seconds", "0", "--all"]);
    assert!(error.contains("no message was sampled") && error.contains("--seconds"), "{error}");
    let error = failed(&["errors/unicorn"]);
    assert!(error.contains("`errors/unicorn`") && error.contains("`errors/silent`"), "{error}");
    let index = upbeat_memory::counters::Counters::create(1, "errors/counting", 7).unwrap();
    let error = failed(&["errors/counting", "--seconds", "0"]);
    assert!(error.contains("UPBEAT_SAMPLING=10") && error.contains(".sampling("), "{error}");
    assert!(error.contains("the nodes and handles that send"), "{error}");
    drop(index);
    assert!(failed(&["x", "--seconds=-1"]).contains("--seconds"));
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    let nodes = program("enough");
    let mut child = Command::new(env!("CARGO_BIN_EXE_upbeat"))
        .args(["bill", &nodes[0].name, "--seconds", "0", "--all"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

/// Another process that has neither nodes nor handles, as one that has made no calls by its handles yet.
#[test]
fn a_process_without_pages_learns_when_handles_have_one() {
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let message = failed(&[&other.id().to_string()]);
    other.kill().unwrap();
    other.wait().unwrap();
    let told = "it has no node, and its handles, if it has any, have sampled no message yet";
    assert!(message.contains(told) && message.contains("UPBEAT_SAMPLING"), "{message}");
}

#[test]
fn only_the_time_of_collecting_counts_unless_more_is_asked_for() {
    let nodes = program("window");
    let [desk, sink] = names(&nodes);
    let error = failed(&[desk, "--seconds", "0"]);
    assert!(error.contains("--all includes 1100 samples"), "{error}");
    let text = printed(&bill(&[desk, "--seconds", "0", "--all"]));
    assert!(text.contains("; 1,100 samples are older, the oldest by "), "{text}");
    // The counters of the window are what was added in it.
    let subject = nodes[1].samples.subject("them\nSink\nnow").unwrap();
    let text = std::thread::scope(|scope| {
        let text = scope.spawn(|| printed(&bill(&[sink, "--seconds", "1", "--json"])));
        while !text.is_finished() {
            nodes[1].message(subject, CALL, (5_000, 0), |_, _| None);
            nodes[1].counters.add(Counter::HandlersInline.index(), 1);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        text.join().unwrap()
    });
    let json: Value = serde_json::from_str(&text).unwrap();
    let counters = &json["nodes"][0]["counters"];
    assert_eq!(counters["promoted by lock"], 0, "{json:#}");
    let inline = counters["handlers inline"].as_u64().unwrap();
    assert!((1..8_800).contains(&inline), "{inline}");
    assert_eq!(json["subjects"].as_array().unwrap().len(), 1);
}

#[test]
fn a_program_selects_its_nodes() {
    let nodes = [Pages::of("select/a", "blue"), Pages::of("select/b", "green")];
    for node in &nodes {
        let subject = node.samples.subject("bank\nBank\nlate").unwrap();
        node.message(subject, CALL, (1_000, 0), |_, _| None);
    }
    let text = printed(&bill(&["--program", "green", "--seconds", "0", "--all", "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let named: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(named, ["select/b"]);
    let error = failed(&["--program", "red", "--seconds", "0"]);
    assert!(error.contains("`red`") && error.contains("`blue`"), "{error}");
}

#[test]
fn counters_of_another_version_are_left_out() {
    let nodes = program("versions");
    let other = Pages {
        counters: upbeat_memory::counters::Counters::create(99, "versions/old", 5).unwrap(),
        ..Pages::new("versions/old")
    };
    let names = [&nodes[0].name, &other.name];
    let text = printed(&bill(&[names[0], names[1], "--seconds", "0", "--all", "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| {
        let nodes = json["nodes"].as_array().unwrap().iter();
        nodes
            .filter(|one| one["name"] == name)
            .map(|one| one["counters"].is_null())
            .collect::<Vec<_>>()
    };
    assert_eq!((of(names[0]), of(names[1])), (vec![false], vec![true]), "{json:#}");
}

#[test]
fn ctrl_c_shows_what_was_collected() {
    let node = Pages::new("stopped");
    let subject = node.samples.subject("bank\nBank\nlate").unwrap();
    let child = observing(&["stopped", "--all"]);
    node.message(subject, CALL, (1_000, 0), |_, _| None);
    let text = printed(&interrupted(child));
    assert!(text.contains("Bank.late"), "{text}");
}

/// Starts `upbeat bill` for an hour, and waits until it looks at a node.
fn observing(arguments: &[&str]) -> std::process::Child {
    let child = Command::new(env!("CARGO_BIN_EXE_upbeat"))
        .args(["bill", "--seconds", "3600"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command maps the pages once it catches the signal.
    let maps = format!("/proc/{}/maps", child.id());
    let begun = std::time::Instant::now();
    while !std::fs::read_to_string(&maps).unwrap().contains("upbeat-samples") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child
}

/// Interrupts the command, after a while.
fn interrupted(child: std::process::Child) -> Output {
    std::thread::sleep(std::time::Duration::from_millis(100));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_end_of_a_node_while_it_is_observed_is_said() {
    let stays = Pages::new("end/stays");
    let subject = stays.samples.subject("bank\nBank\nlate").unwrap();
    // The command may find the nodes only after the end of one, on a busy machine.
    let mut outputs = [100, 1_000, 10_000].into_iter().map(|ms| {
        let ends = Pages::of("end/ends", "x");
        let child = observing(&["--all", "--json", "end/stays", "end/ends"]);
        stays.message(subject, CALL, (1_000, 0), |_, _| None);
        std::thread::sleep(std::time::Duration::from_millis(ms));
        drop(ends);
        interrupted(child)
    });
    let found = outputs.find(|output| output.status.success());
    let text = printed(&found.expect("the command finds both nodes"));
    let json: Value = serde_json::from_str(&text).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let ended =
        nodes.iter().map(|one| (one["name"].as_str().unwrap(), one["ended"].as_bool().unwrap()));
    let mut ended: Vec<_> = ended.collect();
    ended.sort_unstable();
    assert_eq!(ended, [("end/ends", true), ("end/stays", false)]);
}
