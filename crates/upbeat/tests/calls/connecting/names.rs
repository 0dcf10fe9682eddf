//! A name stands for the node that listens under it, and for no peer that claims it. A directory where no node can listen
//! is an error.

use crate::common::process::{Other, end_with_input, input_ends, say};
use crate::common::{Directory, PROGRAM, Watchdog, in_plaintext, node, on_one_host, soon};
use std::path::Path;
use upbeat::error::BindError;
use upbeat::{BuildError, Node, Waiting};

#[upbeat::service]
trait Teller {
    /// Returns the name of the server.
    async fn who(&self) -> String;
}

struct Clerk(&'static str);

impl Teller for Clerk {
    async fn who(&self) -> String {
        self.0.to_owned()
    }
}

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "real bank" => real(place),
        "false bank" => pretend(place),
        _ => return false,
    }
    true
}

fn real(place: &Path) {
    let node = node("bank", place, Waiting::Adaptive);
    node.serve(TellerServer::new(Clerk("the real bank"))).unwrap();
    say("serving");
    node.block_on(input_ends());
}

/// A node that calls itself so in another directory, with a way to the victim's socket.
fn pretend(place: &Path) {
    end_with_input();
    let own = place.with_file_name("own");
    std::fs::create_dir_all(own.join(PROGRAM)).unwrap();
    std::os::unix::fs::symlink(
        place.join(PROGRAM).join("victim.sock"),
        own.join(PROGRAM).join("victim.sock"),
    )
    .unwrap();
    let node = node("bank", &own, Waiting::Adaptive);
    node.serve(TellerServer::new(Clerk("an impostor"))).unwrap();
    node.block_on(async {
        let _victim = node.connect::<TellerClient>("victim").await;
        std::future::pending::<()>().await;
    });
}

fn victim(place: &Path) -> Node {
    let node = node("victim", place, Waiting::Adaptive);
    node.serve(TellerServer::new(Clerk("the victim"))).unwrap();
    node
}

/// Starts the impostor, and waits until the victim has a session with it.
fn start_impostor(node: &Node, place: &Path) -> Other {
    let impostor = Other::start("false bank", place);
    node.block_on(crate::common::until(|| node.sessions() == 1));
    impostor
}

#[test]
fn a_peer_that_takes_a_name_in_its_hello_does_not_get_its_calls() {
    if !on_one_host("the impostor reaches the socket of the victim") {
        return;
    }
    let _watchdog = Watchdog::new("an impostor");
    let directory = Directory::new();
    let place = directory.path();
    let node = victim(&place);
    let _impostor = start_impostor(&node, &place);

    // There is no bank yet.
    let error = node.block_on(soon(node.connect::<TellerClient>("bank"))).err();
    let error = error.expect("an impostor is no bank").to_string();
    assert!(error.contains("there is no node `bank`"), "{error}");

    let mut bank = Other::start("real bank", &place);
    bank.expect("serving");
    node.block_on(async {
        for _ in 0..2 {
            let teller: TellerClient = soon(node.connect("bank")).await.unwrap();
            assert_eq!(soon(teller.who()).await.unwrap(), "the real bank");
        }
    });
    assert_eq!(node.sessions(), 2);
    bank.end();
}

#[test]
fn a_directory_in_which_no_node_can_listen_is_an_error_that_says_what_to_do() {
    if !in_plaintext("an identity lies beside the directory") {
        return;
    }
    let own = Directory::new();
    let absent = own.path().join("absent").join("below");
    let file = own.path().with_extension("file");
    std::fs::write(&file, "").unwrap();
    // In the last one no directory of the program can be made.
    for place in [file.as_path(), absent.as_path(), Path::new("/proc")] {
        let build = || Node::builder("nowhere").program(PROGRAM).directory(place).build();
        let error = build().err().expect("no node listens there");
        let is_of_place =
            matches!(error, BuildError::Place(_) | BuildError::Bind(BindError::Place(_)));
        assert!(is_of_place, "{error:?}");
        let text = error.to_string();
        assert!(text.contains(place.to_str().unwrap()) && text.contains("`directory`"), "{text}");
    }
}
