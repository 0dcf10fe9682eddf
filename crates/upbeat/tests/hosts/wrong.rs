//! Tests of the errors of a caller that does not reach its node: each case by its name, with the address.

use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, on_one_host};
use crate::{Server, client, client_that, handle};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{BuildError, ConnectError, Node, Waiting};

/// Returns the errors that a node and a handle get when they connect to `to`.
fn told(directory: &Directory, to: &str) -> [String; 2] {
    let node = client(directory, Waiting::Adaptive);
    let error = node.block_on(async { node.connect::<WorkClient>(to).await.err().unwrap() });
    let handle = handle(directory).connect::<WorkHandle>(to).err().unwrap();
    [error.to_string(), handle.to_string()]
}

/// Starts a listener that does this with each connection.
fn stranger(act: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|caller| act(caller.unwrap())));
    at.to_string()
}

#[test]
fn each_failure_is_told_by_its_name() {
    let _watchdog = Watchdog::new("failures");
    let directory = Directory::new();
    let check = |to: &str, words: &[&str]| {
        for text in told(&directory, to) {
            for word in words {
                assert!(text.contains(word), "{to}: {text}");
            }
        }
    };
    check("counter@no-such-host.invalid:7411", &["no-such-host.invalid:7411", "not resolved"]);
    // A port that was free a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    check(&format!("counter@{nobody}"), &[&nobody, "refused", "listens at this port"]);
    let http = stranger(|mut caller| {
        let _ = caller.read(&mut [0; 4096]);
        let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    check(&format!("counter@{http}"), &[&http, "no node of Upbeat"]);
    let closing = stranger(|mut caller| {
        let _ = caller.read(&mut [0; 4096]);
    });
    check(&format!("counter@{closing}"), &[&closing, "closed the connection"]);

    let server = Server::start("server");
    check(&server.named("counter"), &[&server.at, "it is not the wanted node", "`server`"]);
    let other = Server::of("another", "server", "127.0.0.1:0");
    check(&other.named("server"), &[&other.at, "another program"]);
    for (to, words) in [
        ("counter@", "there is no port"),
        ("counter@host", "there is no port"),
        ("counter@host:0", "the port is not a number from 1"),
        ("counter@::1:7411", "in brackets"),
        ("a b@host:1", "no name of a node"),
    ] {
        check(to, &[words]);
    }
}

/// Something that takes connections and says nothing is given up.
#[test]
fn a_silent_stranger_is_given_up() {
    let _watchdog = Watchdog::new("silence");
    let directory = Directory::new();
    let kept = std::sync::Mutex::new(Vec::new());
    let silent = stranger(move |caller| kept.lock().unwrap().push(caller));
    let node = client(&directory, Waiting::Adaptive);
    let began = Instant::now();
    let to = format!("counter@{silent}");
    let error = node.block_on(async { node.connect::<WorkClient>(&to).await.err().unwrap() });
    assert!(error.to_string().contains("has not answered for 5"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

/// Nothing goes over a network as it is that was not said to be safe there, on either side.
#[test]
fn plain_messages_are_asked_for_on_both_sides() {
    if !on_one_host("every node of this run says how its messages are protected") {
        return;
    }
    let directory = Directory::new();
    let builder = || Node::builder("plain").program(PROGRAM).directory(directory.path());
    let error = builder().listen("127.0.0.1:0").build().err().unwrap();
    assert!(matches!(error, BuildError::Unprotected { .. }), "{error}");
    let node = builder().build().unwrap();
    let to = "counter@127.0.0.1:1";
    let error = node.block_on(async { node.connect::<WorkClient>(to).await.err().unwrap() });
    assert!(matches!(error, ConnectError::Unprotected { .. }), "{error}");
    let handle = upbeat::handle::builder().program(PROGRAM).directory(directory.path());
    let error = handle.connect::<WorkHandle>(to).err().unwrap();
    assert!(error.to_string().contains("insecure_plaintext()"), "{error}");
}

/// An address at which the node cannot listen is an error of the builder.
#[test]
fn a_node_that_cannot_listen_is_not_built() {
    let directory = Directory::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _keeps = TcpListener::bind(&taken).unwrap();
    for (at, words) in [
        (&*taken, "is taken"),
        ("192.0.2.1:7411", "192.0.2.1:7411"),
        ("no-such-host.invalid:1", "not resolved"),
        ("7411", "there is no port"),
    ] {
        let builder = Node::builder("cannot").program(PROGRAM).directory(directory.path());
        let error = builder.listen(at).insecure_plaintext().build().err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
    // The name is free again.
    drop(client_that(&directory, |builder| builder.listen("127.0.0.1:0")));
}
