//! Nodes of two PID namespaces that share the directory of the sockets, as two containers do.

use crate::common::left_out::leave_out;
use crate::common::process::{Other, end_with_input, input_ends, say};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, node, on_one_host, soon};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use upbeat::{Lost, Node, Waiting};

const ELSEWHERE: &str = "a process of another PID namespace";

/// Whether this process may make a PID namespace. Who is root may: then nothing is left out.
fn may_unshare() -> bool {
    let mut tried = Command::new("unshare");
    let tried = tried.args(["-pf", "true"]).stderr(Stdio::null()).status();
    let permitted = tried.as_ref().is_ok_and(std::process::ExitStatus::success);
    let root = rustix::process::geteuid().is_root();
    assert!(permitted || !root, "root cannot run `unshare -pf` of util-linux: {tried:?}");
    if !permitted {
        leave_out(&format!("only root can make PID namespaces (`unshare -pf`): {tried:?}"));
    }
    permitted
}

/// Starts a part in a PID namespace of its own, which dies with the program that made it.
fn start(part: &str, place: &Path) -> Other {
    let mut unshare = Command::new("unshare");
    unshare.args(["-pf", "--kill-child=SIGKILL"]);
    Other::start_under(unshare, part, place)
}

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "namespace server" => serve(place),
        "namespace client" => call(place),
        "namespace handle" => call_by_handle(place),
        "namespace rival" => take_name(place),
        _ => return false,
    }
    true
}

/// Serves, and says of every session how it ended.
fn serve(place: &Path) {
    let on_lost = |lost: &Lost| say(&format!("lost {lost}"));
    let builder = Node::builder("server").program(PROGRAM).directory(place);
    let node = builder.on_lost(on_lost).build().unwrap();
    let quit = input_ends();
    node.serve(WorkServer::new(Worker::new(quit.clone()))).unwrap();
    say("serving");
    node.block_on(quit);
}

fn call(place: &Path) {
    end_with_input();
    assert_eq!(std::process::id(), 1, "the only process of its namespace");
    let node = node("client", place, Waiting::Adaptive);
    node.block_on(async {
        let work: WorkClient = match node.connect("server").await {
            Ok(work) => work,
            Err(error) => return say(&format!("answered {error}")),
        };
        // In the lane, in a lane that has grown, and in a buffer of its own.
        for bytes in [10, 50_000, 1 << 20] {
            let sent = vec![7; bytes];
            assert_eq!(work.bytes(sent.clone()).await, Ok(sent));
        }
        say(&format!("answered {}", work.add(2, 3).await.unwrap()));
        say(&format!("lost {}", work.forever().await.unwrap_err()));
    });
}

fn call_by_handle(place: &Path) {
    end_with_input();
    let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
    let work: crate::common::work::WorkHandle = builder.connect("server").unwrap();
    let blocking = work.blocking();
    say(&format!("answered {}", blocking.add(2, 3).unwrap()));
    say(&format!("lost {}", blocking.forever().unwrap_err()));
}

fn take_name(place: &Path) {
    let taken = Node::builder("server").program(PROGRAM).directory(place).build();
    say(&format!("taken {}", taken.err().expect("another node has the name")));
}

/// Waits until both clients stand in a call that does not end.
fn both_wait(place: &Path) {
    let node = node("client/parent", place, Waiting::Adaptive);
    node.block_on(soon(async {
        let work: WorkClient = node.connect("server").await.unwrap();
        while work.waiting().await.unwrap().0 != 2 {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    }));
}

#[test]
fn two_pid_namespaces_communicate() {
    if !on_one_host("the namespaces have sockets in common") || !may_unshare() {
        return;
    }
    let _watchdog = Watchdog::new("PID namespaces");
    let directory = Directory::new();
    let place = directory.path();
    let mut server = start("namespace server", &place);
    server.expect("serving");

    for (client, peer) in [("client", "client"), ("handle", "a handle of")] {
        let mut victim = start(&format!("namespace {client}"), &place);
        assert_eq!(victim.expect("answered"), "5");
        victim.kill();
        let lost = server.expect("lost");
        assert!(lost.starts_with(peer) && lost.contains(ELSEWHERE), "{lost}");
        assert!(lost.contains("has died"), "{lost}");
    }

    let taken = start("namespace rival", &place).expect("taken");
    assert!(taken.contains(&format!("is taken by a node of {ELSEWHERE}")), "{taken}");

    let mut clients = ["client", "handle"].map(|client| {
        let mut client = start(&format!("namespace {client}"), &place);
        assert_eq!(client.expect("answered"), "5");
        client
    });
    both_wait(&place);
    server.kill();
    for client in &mut clients {
        let lost = client.expect("lost");
        assert!(lost.starts_with(&format!("server ({ELSEWHERE}) has died")), "{lost}");
    }
}

/// From a namespace its parent's processes have no number; the parent sees all.
#[test]
fn a_pid_namespace_and_its_parent_communicate() {
    if !on_one_host("the namespaces have sockets in common") || !may_unshare() {
        return;
    }
    let _watchdog = Watchdog::new("a PID namespace and its parent");
    let directory = Directory::new();
    let place = directory.path();
    let mut server = start("namespace server", &place);
    server.expect("serving");
    let node = node("client/parent", &place, Waiting::Adaptive);
    let work: WorkClient = node.block_on(node.connect("server")).unwrap();
    let error = node.block_on(async {
        assert_eq!(work.add(2, 3).await, Ok(5));
        let forever = work.forever();
        server.kill();
        forever.await.unwrap_err()
    });
    let text = error.to_string();
    assert!(text.starts_with("server (process ") && text.contains("has died"), "{text}");
}
