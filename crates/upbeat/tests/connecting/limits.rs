//! Limits of the process (descriptors, sizes of files): an error names them, and nobody dies.

use crate::common::process::{Other, end_with_input, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, node};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use upbeat::{CallError, Lost, Node, Waiting};

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "few descriptors" => few_descriptors(place),
        "small files" => small_files(place),
        "full table" => full_table(place),
        _ => return false,
    }
    true
}

fn limit(resource: Resource, current: u64) {
    setrlimit(resource, Rlimit { current: Some(current), ..getrlimit(resource) }).unwrap();
}

/// Builds a node, and connects a handle to `server`, with ever more descriptors until both succeed.
fn few_descriptors(runtime: &Path) {
    end_with_input();
    let directory = runtime.join("upbeat").join(PROGRAM);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(20_000);
    let (mut built, mut connected, mut failures) = (false, false, 0);
    for descriptors in 3..most {
        if built && connected {
            break;
        }
        limit(Resource::Nofile, descriptors);
        let node = Node::builder("limited").program(PROGRAM).build();
        let handle = upbeat::handle::builder().program(PROGRAM).connect::<WorkHandle>("server");
        limit(Resource::Nofile, most);
        built = node.is_ok();
        connected = handle.is_ok();
        assert!(!built || directory.join("limited.sock").exists(), "it is in another directory");
        let node = node.err().map(|error| error.to_string());
        let handle = handle.err().map(|error| error.to_string());
        for error in [node, handle].into_iter().flatten() {
            let named = error.contains(&format!("limit is {descriptors}"));
            if !named || !error.contains("ulimit -n") {
                return say(&format!("ended with {descriptors} descriptors: {error}"));
            }
            failures += 1;
        }
    }
    say(&format!("ended well {}", failures > 10));
}

#[test]
fn a_limit_of_descriptors_is_named_with_its_number() {
    if !crate::common::in_plaintext("no identity lies beside the directory of this test") {
        return;
    }
    let _watchdog = Watchdog::new("a limit of descriptors", 60);
    let directory = Directory::new();
    // This is ours alone, as the runtime directory has to be.
    let runtime = directory.path();
    std::fs::create_dir(&runtime).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&runtime, private).unwrap();
    let place = runtime.join("upbeat");
    let _server = Server::start(Kind::Shared, "server", &place, Waiting::Sleeping);
    let mut environment = Command::new("env");
    environment.arg(format!("XDG_RUNTIME_DIR={}", runtime.display()));
    let mut limited = Other::start_under(environment, "few descriptors", &runtime);
    assert_eq!(limited.expect("ended"), "well true");
}

/// Builds nodes and sends messages in a process that may only make small files.
fn small_files(place: &Path) {
    end_with_input();
    for bytes in [0, 4095, 4096, 8191] {
        limit(Resource::Fsize, bytes);
        let built = Node::builder("limited").program(PROGRAM).directory(place).build();
        let connected = built.map_err(|error| error.to_string()).and_then(|node| {
            let work = node.block_on(node.connect::<WorkClient>("server"));
            work.map(drop).map_err(|error| error.to_string())
        });
        let error = connected.expect_err("the limit is below a page or a lane");
        if !error.contains("ulimit -f") || !error.contains(&format!("of {bytes} bytes at most")) {
            return say(&format!("ended with {bytes}: {error}"));
        }
    }
    limit(Resource::Fsize, 64 << 10);
    let node = node("limited", place, Waiting::Sleeping);
    node.set_sampling(0);
    let error = node.block_on(async {
        let work: WorkClient = node.connect("server").await.unwrap();
        assert_eq!(work.add(1, 2).await, Ok(3));
        let error = work.bytes(vec![1; 1 << 20]).await.unwrap_err();
        assert_eq!(work.add(1, 2).await, Ok(3));
        error
    });
    assert!(matches!(error, CallError::NoMemory { .. }), "{error}");
    say(&format!("ended well {}", error.to_string().contains("ulimit -f")));
}

#[test]
fn a_limit_of_files_is_an_error_and_no_death() {
    if !crate::common::shares_memory("a limit of files is one of segments") {
        return;
    }
    let _watchdog = Watchdog::new("a limit of files", 60);
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "server", &place, Waiting::Sleeping);
    let mut limited = Other::start("small files", &place);
    assert_eq!(limited.expect("ended"), "well true");
}

/// Serves, and has no descriptor left from each line of its input on.
fn full_table(place: &Path) {
    let on_lost = |lost: &Lost| say(&format!("lost {lost}"));
    let builder = Node::builder("server").program(PROGRAM).directory(place);
    let node = builder.on_lost(on_lost).build().unwrap();
    node.serve(WorkServer::new(Worker::default())).unwrap();
    say("serving");
    std::thread::spawn(|| {
        for _ in std::io::stdin().lock().lines() {
            let is_open = |number: &u64| Path::new(&format!("/proc/self/fd/{number}")).exists();
            let free = (0..).find(|number| !is_open(number)).unwrap();
            limit(Resource::Nofile, free);
            say(&format!("limited {free}"));
        }
        std::process::exit(0);
    });
    node.block_on(std::future::pending::<()>());
}

/// Leaves the server no descriptor. Returns their number.
fn fill_table(server: &mut Other) -> String {
    server.child.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
    server.expect("limited")
}

#[test]
fn a_session_for_which_there_is_no_descriptor_ends_with_the_reason_on_both_sides() {
    if !crate::common::shares_memory("no descriptor is handed over") {
        return;
    }
    const BYTES: usize = 1 << 20;
    let _watchdog = Watchdog::new("a full table of descriptors", 60);
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Other::start("full table", &place);
    server.expect("serving");
    let client = node("client/limits", &place, Waiting::Adaptive);
    let work: WorkClient = client.block_on(client.connect("server")).unwrap();
    assert_eq!(client.block_on(work.add(1, 2).into_future()), Ok(3));
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let handle: WorkHandle = builder.connect("server").unwrap();
    let blocking = handle.blocking();
    assert_eq!(blocking.add(1, 2), Ok(3));

    // The message needs a segment, which comes with a descriptor.
    let first = fill_table(&mut server);
    let error = client.block_on(work.bytes(vec![1; BYTES]).into_future()).unwrap_err();
    // The end of that session has freed a descriptor.
    let told = server.expect("lost");
    let second = fill_table(&mut server);
    let blocked = blocking.bytes(vec![1; BYTES]).unwrap_err();
    let blocked_told = server.expect("lost");
    for (error, told, most) in [(error, told, first), (blocked, blocked_told, second)] {
        let error = error.to_string();
        assert!(error.contains("gave the session up"), "{error}");
        assert!(error.contains("descriptors") && error.contains(&most), "{error}");
        assert!(told.contains("descriptors") && told.contains(&most), "{told}");
        assert!(!told.contains("broke a rule"), "{told}");
    }
}
