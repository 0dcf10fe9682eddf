//! Processes of one host that share no memory: everything works over a byte stream, and costs nobody else
//! anything when it goes wrong.

use crate::common::left_out::leave_out;
use crate::common::process::{Other, apart, input_ends, say};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker, handle_works, works};
use crate::common::{Directory, PROGRAM, Watchdog, alone, resident, setting, soon};
use rustix::process::Signal as Deadly;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat::{CallError, Node, Waiting};

const MIB: usize = 1 << 20;

/// Plays a server. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split(' ').collect::<Vec<_>>()[..] {
        ["beside", "apart", name] => serve(Node::builder(name).shared_memory(false), place),
        ["beside", "usual", name] => serve(Node::builder(name), place),
        _ => return false,
    }
    true
}

fn serve(builder: upbeat::Builder, place: &Path) {
    let node = builder.program(PROGRAM).directory(place).build().unwrap();
    let quit = input_ends();
    node.serve(WorkServer::new(Worker::new(quit.clone()))).unwrap();
    say("serving");
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
}

fn start(part: &str, place: &Path) -> Other {
    let mut other = Other::start(part, place);
    other.expect("serving");
    other
}

fn client(place: &Path, waiting: Waiting) -> Node {
    // The registry of this process is one for all tests.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("carriers/{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let builder = Node::builder(&name).program(PROGRAM).directory(place).waiting(waiting);
    builder.build().unwrap()
}

async fn connected(node: &Node, name: &str) -> WorkClient {
    node.connect(name).await.unwrap()
}

/// Whether a process maps memory of lanes.
fn maps_lanes(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.contains("upbeat-lane")
}

#[test]
fn sides_that_may_not_share_memory_do_without() {
    let _alone = alone();
    let _watchdog = Watchdog::new("without memory");
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        let directory = Directory::new();
        let place = directory.path();
        let mut server = start("beside apart server", &place);
        let node = client(&place, waiting);
        node.block_on(async {
            let work = connected(&node, "server").await;
            works(&work).await;
        });
        // A handle, which is of another mind, and one of the same.
        for shared in [true, false] {
            let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
            let builder = builder.waiting(waiting).shared_memory(shared);
            let work: WorkHandle = builder.connect("server").unwrap();
            handle_works(&work);
        }
        assert!(!maps_lanes(server.child.id()) && !maps_lanes(std::process::id()));
        server.end();
    }
}

/// Sessions use the carrier that `UPBEAT_TEST_CARRIER` names, and errors about a peer at an address name the address.
#[test]
fn sessions_go_over_what_the_environment_asks_for() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a carrier of the environment");
    let directory = Directory::new();
    let place = directory.path();
    let mut server = start("beside usual server", &place);
    let node = client(&place, Waiting::Adaptive);
    let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let handle: WorkHandle = handle.connect("server").unwrap();
    node.block_on(async {
        let work = connected(&node, "server").await;
        let of_node = node.spawn({
            let work = work.clone();
            async move { work.forever().await }
        });
        let of_handle = node.spawn(async move { handle.forever().await });
        while soon(work.waiting()).await.unwrap().0 < 2 {}
        assert_eq!(maps_lanes(server.child.id()), !crate::common::over_streams());
        server.kill();
        for ended in [soon(of_node).await, soon(of_handle).await] {
            let text = ended.unwrap().unwrap_err().to_string();
            assert_eq!(text.contains("(127."), crate::common::over_network(), "{text}");
        }
    });
}

/// Only builds with debug assertions read `UPBEAT_TEST_CARRIER`, which permits plaintext.
#[test]
fn a_release_build_obeys_no_variable_of_the_tests() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a variable of the tests");
    if !crate::common::on_one_host("the carrier of the other process is set here") {
        return;
    }
    let directory = Directory::new();
    let place = directory.path();
    let mut command = Command::new("env");
    command.arg("UPBEAT_TEST_CARRIER=tcp");
    let mut server = Other::start_under(command, "beside usual server", &place);
    server.expect("serving");
    let node = client(&place, Waiting::Adaptive);
    node.block_on(async { works(&connected(&node, "server").await).await });
    assert_eq!(maps_lanes(server.child.id()), !cfg!(debug_assertions));
    server.end();
}

/// A million calls go over one stream, where so many are asked for.
#[test]
fn calls_go_on_and_on() {
    let _alone = alone();
    let _watchdog = Watchdog::new("many calls");
    let directory = Directory::new();
    let place = directory.path();
    let _server = start("beside apart server", &place);
    let node = client(&place, Waiting::Adaptive);
    let calls = setting("UPBEAT_STREAM_CALLS", 20_000);
    node.block_on(async {
        let work = connected(&node, "server").await;
        for number in 0..calls {
            assert_eq!(work.add(number, 1).await, Ok(number + 1));
        }
        // And many at a time, one-way messages among them.
        for _ in 0..calls / 1000 {
            let open: Vec<_> = (0..100)
                .map(|number| {
                    let work = work.clone();
                    node.spawn(async move { work.add(number, number).await })
                })
                .collect();
            for (number, call) in (0..).zip(open) {
                assert_eq!(call.await.unwrap(), Ok(2 * number));
            }
        }
    });
}

/// A peer that is killed while a long message is on its way ends its session and nothing else.
#[test]
fn a_peer_that_dies_amid_a_long_message_ends_its_session_alone() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a death amid a message");
    let directory = Directory::new();
    let place = directory.path();
    let mut victim = start("beside apart victim", &place);
    let _server = start("beside apart server", &place);
    let node = client(&place, Waiting::Adaptive);
    node.block_on(async {
        let (dying, work) = (connected(&node, "victim").await, connected(&node, "server").await);
        assert_eq!(dying.add(1, 1).await, Ok(2));
        // Stopped, it takes a part of the message; then it is killed.
        victim.signal(Deadly::STOP);
        let long = node.spawn({
            let dying = dying.clone();
            async move { dying.bytes(vec![1; 30 * MIB]).await }
        });
        let few = node.spawn(async move { dying.add(1, 2).await });
        works(&work).await;
        let began = Instant::now();
        victim.kill();
        let (long, few) = (soon(long).await.unwrap(), soon(few).await.unwrap());
        for ended in [long.map(drop), few.map(drop)] {
            let Err(CallError::Unknown(lost) | CallError::NotSent(lost)) = ended else {
                panic!("{ended:?}");
            };
            assert!(lost.to_string().contains("has died"), "{lost}");
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        works(&work).await;
    });
}

/// A peer that does not read delays its senders, within bounds, and no other session.
#[test]
fn a_peer_that_does_not_read_holds_up_its_own_session() {
    apart(concat!(module_path!(), "::a_peer_that_does_not_read_holds_up_its_own_session"), || {
        let _watchdog = Watchdog::new("a slow reader");
        let directory = Directory::new();
        let place = directory.path();
        let slow = start("beside apart slow", &place);
        let _server = start("beside apart server", &place);
        let node = client(&place, Waiting::Adaptive);
        node.block_on(async {
            let (late, work) = (connected(&node, "slow").await, connected(&node, "server").await);
            assert_eq!(late.noted().await, Ok((0, 0, 0)));
            slow.signal(Deadly::STOP);
            let before = resident();
            let mut sent = 0;
            loop {
                match late.note(sent + 1).try_send() {
                    Ok(()) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, CallError::Full);
                        break;
                    }
                }
                assert!(sent < 1_000_000, "it takes everything");
            }
            assert!(sent >= 50, "{sent}");
            works(&work).await;
            assert!(resident() < before + (64 << 10), "{before} to {} KiB", resident());
            slow.signal(Deadly::CONT);
            late.note(sent + 1).await.unwrap();
            let (noted, ..) = soon(late.noted()).await.unwrap();
            assert_eq!(noted, sent + 1, "each of them has come");
        });
    });
}

/// Two containers with nothing in common but the directory of the sockets.
#[test]
fn containers_that_share_a_socket_alone_communicate() {
    if !crate::common::on_one_host("the containers share a socket") {
        return;
    }
    let flags = ["-m", "-i", "-p", "-u", "-f", "--kill-child=SIGKILL"];
    let mut tried = Command::new("unshare");
    let tried = tried.args(flags).arg("true").stderr(Stdio::null()).status();
    if !tried.as_ref().is_ok_and(std::process::ExitStatus::success) {
        leave_out(&format!("only root can make namespaces: {tried:?}"));
        return;
    }
    let _alone = alone();
    let _watchdog = Watchdog::new("containers");
    let directory = Directory::new();
    let place = directory.path();
    let mut unshare = Command::new("unshare");
    unshare.args(flags);
    let mut server = Other::start_under(unshare, "beside apart server", &place);
    server.expect("serving");
    let node = client(&place, Waiting::Adaptive);
    node.block_on(async {
        let work = connected(&node, "server").await;
        works(&work).await;
        let forever = work.forever();
        server.kill();
        let error = soon(forever).await.unwrap_err();
        assert!(error.to_string().contains("has died"), "{error}");
    });
}

/// Where the system makes no memory that can be shared, streams take its place, and that is said once.
#[test]
fn a_system_that_refuses_memory_is_done_without_and_told_of_once() {
    if !crate::common::shares_memory("nobody asks the system for memory") {
        return;
    }
    if !crate::common::has_strace() {
        return;
    }
    let _alone = alone();
    let _watchdog = Watchdog::new("no memory to share");
    let directory = Directory::new();
    let place = directory.path();
    let told = place.with_extension("told");
    // The standard error of the program goes into a file, and that of strace goes nowhere.
    let mut shell = Command::new("sh");
    let inject = "exec strace -f -qq -o /dev/null -e trace=memfd_create \
                  -e inject=memfd_create:error=EPERM \"$@\" 2> \"$0\"";
    shell.args(["-c", inject]).arg(&told);
    let mut server = Other::start_under(shell, "beside usual server", &place);
    server.expect("serving");
    let node = client(&place, Waiting::Adaptive);
    node.block_on(async {
        let work = connected(&node, "server").await;
        works(&work).await;
    });
    let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let handle: WorkHandle = handle.connect("server").unwrap();
    assert_eq!(handle.blocking().add(1, 1), Ok(2));
    drop((handle, node));
    server.end();
    let told = std::fs::read_to_string(&told).unwrap();
    let lines: Vec<_> = told.lines().filter(|line| line.contains("cannot be shared")).collect();
    let [line] = lines[..] else { panic!("{told}") };
    assert!(
        line.contains("memfd_create failed") && line.contains("shared_memory(false)"),
        "{line}"
    );
}
