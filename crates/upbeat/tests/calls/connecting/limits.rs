//! Limits of the process (descriptors, sizes of files): an error names them, and nobody dies.

use crate::common::process::{Other, end_with_input, linger, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, has_strace, node, over_streams, soon};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use upbeat::error::HomeError;
use upbeat::{BuildError, CallError, Lost, Node, Waiting};
use upbeat_core::limits::LANE_BYTES_MAX;

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "few descriptors" => few_descriptors(place),
        "small files" => small_files(place),
        "full table" => full_table(place),
        "small space" => small_space(place),
        "no events" => no_events(place),
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
    // Over byte streams a node makes no memory that takes a descriptor.
    let mut lacks_memory = over_streams();
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
        lacks_memory |= matches!(node, Err(BuildError::Home(HomeError::Descriptors { .. })));
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
    say(&format!("ended well {}", failures > 10 && lacks_memory));
}

#[test]
fn a_limit_of_descriptors_is_named_with_its_number() {
    if !crate::common::in_plaintext("no identity lies beside the directory of this test") {
        return;
    }
    let _watchdog = Watchdog::new("a limit of descriptors");
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

/// Builds a node to which the system refuses the descriptor that waits for events.
fn no_events(place: &Path) {
    let error = Node::builder("deaf").program(PROGRAM).directory(place).build().err().unwrap();
    say(&format!("ended {} {error}", matches!(error, BuildError::System(_))));
    linger();
}

#[test]
fn a_system_call_that_the_system_refuses_is_an_error_with_its_text() {
    if !has_strace() {
        return;
    }
    let _watchdog = Watchdog::new("a refused system call");
    let directory = Directory::new();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=epoll_create1"]);
    strace.args(["-e", "inject=epoll_create1:error=ENOMEM"]);
    let mut refused = Other::start_under(strace, "no events", &directory.path());
    let told = refused.expect("ended");
    assert!(told.starts_with("true the system refused: Cannot allocate memory"), "{told}");
    refused.end();
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
    let _watchdog = Watchdog::new("a limit of files");
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "server", &place, Waiting::Sleeping);
    let mut limited = Other::start("small files", &place);
    assert_eq!(limited.expect("ended"), "well true");
}

/// Serves, and limits the process at each line of its input. The limit is said, and so is a lost session.
fn serve_limited(place: &Path, limit: impl Fn() -> u64 + Send + 'static) {
    let on_lost = |lost: &Lost| say(&format!("lost {lost}"));
    let builder = Node::builder("server").program(PROGRAM).directory(place);
    let node = builder.on_lost(on_lost).build().unwrap();
    node.serve(WorkServer::new(Worker::default())).unwrap();
    say("serving");
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            say(&format!("limited {}", limit()));
        }
        std::process::exit(0);
    });
    node.block_on(std::future::pending::<()>());
}

/// Serves, and has no descriptor left from each line of its input on.
fn full_table(place: &Path) {
    serve_limited(place, || {
        let is_open = |number: &u64| Path::new(&format!("/proc/self/fd/{number}")).exists();
        let free = (0..).find(|number| !is_open(number)).unwrap();
        limit(Resource::Nofile, free);
        free
    });
}

/// Serves, and can map less than the longest ring takes from each line of its input on.
fn small_space(place: &Path) {
    serve_limited(place, || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
        let bytes = pages * rustix::param::page_size() as u64 + LANE_BYTES_MAX as u64 / 2;
        limit(Resource::As, bytes);
        bytes
    });
}

/// Has the server limit its process. Returns the limit.
fn limit_there(server: &mut Other) -> String {
    server.child.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
    server.expect("limited")
}

#[test]
fn a_session_for_which_there_is_no_descriptor_ends_with_the_reason_on_both_sides() {
    if !crate::common::shares_memory("no descriptor is handed over") {
        return;
    }
    const BYTES: usize = 1 << 20;
    let _watchdog = Watchdog::new("a full table of descriptors");
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
    let first = limit_there(&mut server);
    let error = client.block_on(work.bytes(vec![1; BYTES]).into_future()).unwrap_err();
    // The end of that session has freed a descriptor.
    let told = server.expect("lost");
    let second = limit_there(&mut server);
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

/// The lane of a node that stands grows in steps, and the last ring has no place in the node's memory.
#[test]
fn a_session_whose_ring_cannot_be_mapped_ends_with_the_reason_on_both_sides() {
    if !crate::common::shares_memory("a ring is mapped") {
        return;
    }
    let _watchdog = Watchdog::new("a small space of addresses");
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Other::start("small space", &place);
    server.expect("serving");
    let client = node("client/space", &place, Waiting::Adaptive);
    let error = client.block_on(async {
        let work: WorkClient = client.connect("server").await.unwrap();
        limit_there(&mut server);
        server.signal(Signal::STOP);
        let mut refused = 0;
        while refused < 20 {
            if work.note(1).try_send().is_err() {
                refused += 1;
                upbeat::sleep(Duration::from_millis(1)).await;
            }
        }
        server.signal(Signal::CONT);
        soon(work.add(1, 2)).await.unwrap_err().to_string()
    });
    let told = server.expect("lost");
    assert!(error.contains("gave the session up"), "{error}");
    assert!(told.contains("in this process"), "{told}");
    for text in [error, told] {
        assert!(text.contains(&format!("{LANE_BYTES_MAX} bytes")), "{text}");
    }
}
