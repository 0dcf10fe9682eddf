//! Clients: nodes that need no name of their own.

use crate::common::left_out::leave_out;
use crate::common::process::{Other, linger, say};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, SOON, Watchdog, alone, node, soon, until};
use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use upbeat::{BuildError, Node, ServiceRef, Waiting, Why};

fn client(place: &Path) -> Node {
    Node::client_builder().program(PROGRAM).directory(place).build().unwrap()
}

/// Calls the server, and lives until it is killed.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "anonymous" => {
            let client = client(place);
            client.block_on(async {
                let work: WorkClient = client.connect("clients/server").await.unwrap();
                assert_eq!(work.add(1, 2).await, Ok(3));
            });
            say(&format!("called {} {}", std::process::id(), client.name()));
            linger();
        }
        "listening" => {
            // The server has the address of the environment, and the client leaves it alone.
            let build = |builder: upbeat::Builder| builder.program(PROGRAM).directory(place);
            let server =
                build(Node::builder("clients/server")).insecure_plaintext().build().unwrap();
            let client = build(Node::client_builder()).insecure_plaintext().build().unwrap();
            assert!(server.listens_at().is_some() && client.listens_at().is_none());
            // Another node of the process is told which one is in its way.
            let at = server.listens_at().unwrap();
            let other = build(Node::builder("other")).insecure_plaintext().listen(&at.to_string());
            let text = other.build().err().expect("the address is taken").to_string();
            let told = format!("node `clients/server` of this process listens at {at} already");
            assert!(text.starts_with(&told) && text.contains("UPBEAT_LISTEN"), "{text}");
            say("stood");
        }
        _ => return false,
    }
    true
}

/// Two containers, in each of which the process has the number 1.
#[test]
fn clients_of_processes_with_one_number_have_different_names() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("clients without names"));
    let flags = ["-p", "-f", "--kill-child=SIGKILL"];
    let tried = Command::new("unshare").args(flags).arg("true").stderr(Stdio::null()).status();
    let apart = tried.is_ok_and(|status| status.success());
    if !apart {
        leave_out("only root can make namespaces; the clients have different numbers");
    }
    let directory = Directory::new();
    let place = directory.path();
    let lost = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&lost);
    let server = Node::builder("clients/server").program(PROGRAM).directory(&place);
    let server = server.on_lost(move |lost| told.borrow_mut().push(lost.clone())).build().unwrap();
    server.serve(WorkServer::new(Worker::default())).unwrap();
    let mut clients = [0; 2].map(|_| match apart {
        true => {
            let mut unshare = Command::new("unshare");
            unshare.args(flags);
            Other::start_under(unshare, "anonymous", &place)
        }
        false => Other::start("anonymous", &place),
    });
    let mut names = Vec::new();
    for client in &mut clients {
        server.block_on(until(|| server.sessions() > names.len()));
        let (sent, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sent.send(client.expect("called")).unwrap());
            let said = server.block_on(async {
                let mut heard = None;
                until(|| {
                    heard = said.try_recv().ok();
                    heard.is_some()
                })
                .await;
                heard.unwrap()
            });
            let (number, name) = said.split_once(' ').unwrap();
            assert!(!apart || number == "1", "{number}");
            assert!(name.starts_with("client/"), "{name}");
            names.push(name.to_owned());
        });
    }
    assert_ne!(names[0], names[1]);
    for client in &mut clients {
        client.kill();
    }
    server.block_on(until(|| lost.borrow().len() == 2));
    let lost = lost.take();
    for name in names {
        let named = |lost: &&upbeat::Lost| lost.peer.starts_with(&format!("{name} ("));
        let lost = lost.iter().find(named).unwrap_or_else(|| panic!("{name}: {lost:?}"));
        assert_eq!(lost.why, Why::Died, "{lost}");
    }
    server.shut_down(SOON);
}

#[test]
fn a_client_can_be_called_back() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a client that is called back"));
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Other::start("serve clients/server Adaptive", &place);
    server.expect("serving");
    let clients = [client(&place), client(&place)];
    assert_ne!(clients[0].name(), clients[1].name());
    for client in &clients {
        client.serve(WorkServer::new(Worker::default())).unwrap();
        client.block_on(async {
            let work: WorkClient = client.connect("clients/server").await.unwrap();
            let here = ServiceRef::here(client);
            assert_eq!(soon(work.call_back(here, Vec::new(), 3)).await, Ok(3));
        });
    }
    clients.into_iter().for_each(|client| client.shut_down(SOON));
    server.end();
}

#[test]
fn a_client_does_not_take_the_address_in_the_environment() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a client beside a listener"));
    let directory = Directory::new();
    let mut command = Command::new("env");
    command.args(["UPBEAT_LISTEN=127.0.0.1:0", "UPBEAT_TEST_CARRIER="]);
    Other::start_under(command, "listening", &directory.path()).expect("stood");
}

#[test]
fn the_identity_of_a_client_has_a_pattern() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("the identity of a client"));
    let directory = Directory::new();
    directory.identify();
    let identity = upbeat::Identity::load(directory.path().with_extension("pem")).unwrap();
    let build = |program: &str| {
        let builder = Node::client_builder().program(program).directory(directory.path());
        builder.identity(identity.clone()).build()
    };
    drop(build(PROGRAM).unwrap());
    match build("other") {
        Err(error @ BuildError::OtherIdentity { .. }) => {
            let text = error.to_string();
            assert!(text.contains("not for clients of program `other` (`client/*`)"), "{text}");
        }
        built => panic!("{:?}", built.err()),
    }
    // Another node that stands in the meantime shows that nothing of the client is left.
    let other = node("other", &directory.path(), Waiting::Sleeping);
    assert_eq!(std::fs::read_dir(directory.path().join(PROGRAM)).unwrap().count(), 2);
    drop(other);
}
