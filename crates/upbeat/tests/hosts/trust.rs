//! Sessions under TLS: everything works as without, and an untrusted peer gets the reason before anything else.

use crate::common::work::{WorkClient, WorkHandle, handle_works, works};
use crate::common::{Directory, PROGRAM, Watchdog};
use crate::{Server, connected, identity_of as identity, secure, unprotected};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use upbeat::{BuildError, Node, Waiting};

/// An authority, and where it writes identities.
pub(crate) struct Authority {
    issuer: secure::Authority,
    directory: Directory,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let directory = Directory::new();
        std::fs::create_dir_all(directory.path()).unwrap();
        Authority { issuer: secure::Authority::new(), directory }
    }

    /// Writes an identity for a name, such as `test/counter`, into a file of its own.
    pub(crate) fn issue(&self, file: &str, name: &str) -> String {
        let path = self.directory.path().join(file).to_str().unwrap().to_owned();
        self.replace(&path, name);
        path
    }

    /// Puts an identity for a name in the place of a file.
    fn replace(&self, path: &str, name: &str) {
        write(path, &self.issuer.text(&[&format!("upbeat://{name}")]));
    }
}

/// Puts a file of this text in the place of another.
fn write(path: &str, text: &str) {
    let next = format!("{path}.next");
    std::fs::write(&next, text).unwrap();
    std::fs::set_permissions(&next, Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(next, path).unwrap();
}

#[test]
fn everything_works_under_tls() {
    let _watchdog = Watchdog::new("under TLS");
    let (directory, authority) = (Directory::new(), Authority::new());
    let counter = authority.issue("server.pem", "test/server");
    let own = authority.issue("client.pem", "test/client/*");
    let handles = authority.issue("handle.pem", "test");
    let mut server = Server::with(PROGRAM, "server", "127.0.0.1:0", &counter);
    let to = server.named("server");
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        let node = unprotected(&directory).waiting(waiting).identity(identity(&own));
        let node = node.build().unwrap();
        node.block_on(async {
            let work = connected(&node, &to).await;
            works(&work).await;
            for number in 0..300 {
                assert_eq!(work.add(number, 1).await, Ok(number + 1));
                work.note(number + 1).await.unwrap();
            }
        });
        let handle = upbeat::handle::builder().program(PROGRAM).directory(directory.path());
        let handle = handle.waiting(waiting).identity(identity(&handles));
        let work: WorkHandle = handle.connect(&to).unwrap();
        handle_works(&work);
    }
    server.process.end();
}

/// Each case is told by its name and address. The other cases are those of the transport's own tests.
#[test]
fn who_is_not_trusted_is_told_why() {
    let _watchdog = Watchdog::new("distrust");
    let (directory, authority, others) = (Directory::new(), Authority::new(), Authority::new());
    let own = authority.issue("client.pem", "test/client/*");
    let check = |to: &str, own: Option<&str>, words: &str| {
        let builder = unprotected(&directory);
        let node = match own {
            Some(path) => builder.identity(identity(path)).build().unwrap(),
            None => builder.insecure_plaintext().build().unwrap(),
        };
        let error = node.block_on(async { node.connect::<WorkClient>(to).await.err().unwrap() });
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(error.to_string().contains(to.split_once('@').unwrap().1), "{error}");
    };
    let good = authority.issue("server.pem", "test/server");
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &good);
    let to = server.named("server");
    let stranger = others.issue("stranger.pem", "test/client/*");
    check(&to, Some(&stranger), "authority");
    // The stranger trusts the node's authority as well, and is not trusted itself.
    let text = std::fs::read_to_string(&stranger).unwrap();
    write(&stranger, &[authority.issuer.0.pem(), text].concat());
    check(&to, Some(&stranger), "does not trust this node's certificate");
    check(&to, None, "the peer speaks TLS");
    let plain = Server::start("server");
    check(&plain.named("server"), Some(&own), "the peer speaks plaintext");
    // The certificate is for the reached node, and not for the wanted one.
    let other = server.named("other");
    check(&other, Some(&own), "other");
    // Nobody is built with another's identity.
    let node = Node::builder("other").program(PROGRAM).directory(directory.path());
    let refused = node.identity(identity(&good)).build().err().unwrap();
    assert!(matches!(refused, BuildError::OtherIdentity { .. }), "{refused}");
    // The server still serves whom it trusts.
    let node = unprotected(&directory).identity(identity(&own)).build().unwrap();
    node.block_on(async { works(&connected(&node, &to).await).await });
}

/// An identity whose file is replaced is used by the connections that come after it.
#[test]
fn an_identity_is_replaced_while_the_node_runs() {
    let _watchdog = Watchdog::new("replacement");
    let (directory, authority, next) = (Directory::new(), Authority::new(), Authority::new());
    let file = authority.issue("server.pem", "test/server");
    let old = authority.issue("client.pem", "test/client/*");
    let new = next.issue("client.pem", "test/client/*");
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &file);
    let to = server.named("server");
    let node = unprotected(&directory).identity(identity(&old)).build().unwrap();
    node.block_on(async {
        let work = connected(&node, &to).await;
        next.replace(&file, "test/server");
        // The existing session goes on.
        works(&work).await;
    });
    // The node looks at the file once a second.
    let begun = Instant::now();
    loop {
        let node = unprotected(&directory).identity(identity(&new)).build().unwrap();
        let connected = node.block_on(async { node.connect::<WorkClient>(&to).await.map(drop) });
        match connected {
            Ok(()) => break,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
    }
}

#[test]
fn an_identity_and_plain_messages_are_not_asked_for_together() {
    let (directory, authority) = (Directory::new(), Authority::new());
    let own = authority.issue("client.pem", "test/client/*");
    let builder = unprotected(&directory).identity(identity(&own)).insecure_plaintext();
    let error = builder.build().err().unwrap();
    assert!(matches!(error, BuildError::Protection), "{error}");
}
