//! References to services that are passed between hosts, and called back.

use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, alone, secure, soon};
use crate::{Server, connected};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use upbeat::{CallError, Counter, Identity, Node, ServiceRef};

/// Two servers, each with a directory of its own, and the file of the identity of all, if messages go under TLS.
struct Stand {
    servers: [Server; 2],
    identity: String,
    directory: Directory,
}

impl Stand {
    fn new(secure: bool) -> Stand {
        let directory = Directory::new();
        let identity = if secure { issue(&directory) } else { String::new() };
        let server = |name| Server::with(PROGRAM, name, "127.0.0.1:0", &identity);
        Stand { servers: ["server", "third"].map(server), identity, directory }
    }

    /// Returns a node that serves `Work` itself, and listens if `listen` has an address.
    fn client(&self, name: &str, listen: Option<&str>) -> (Node, Rc<Worker>) {
        let builder = Node::builder(name).program(PROGRAM).directory(self.directory.path());
        let builder = match &*self.identity {
            "" => builder.insecure_plaintext(),
            path => builder.identity(Identity::load(path).unwrap()),
        };
        let builder = listen.into_iter().fold(builder, |builder, at| builder.listen(at));
        let (node, worker) = (builder.build().unwrap(), Rc::new(Worker::default()));
        *worker.node.borrow_mut() = Some(node.clone());
        node.serve(WorkServer::shared(Rc::clone(&worker))).unwrap();
        (node, worker)
    }
}

/// Writes an identity for all nodes of the program into a file.
pub(crate) fn issue(directory: &Directory) -> String {
    let path = directory.path().with_extension("all.pem");
    let text = secure::Authority::new().lasting(&[&format!("upbeat://{PROGRAM}/*")]);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The client listens nowhere, so that there is no way to it but the session that it has opened.
#[test]
fn a_service_is_called_back_over_the_session_of_its_node() {
    let _alone = alone();
    let _watchdog = Watchdog::new("callbacks between hosts");
    for secure in [false, true] {
        let stand = Stand::new(secure);
        let (node, worker) = stand.client("caller", None);
        node.block_on(async {
            let work = connected(&node, &stand.servers[0].named("server")).await;
            let here = ServiceRef::here(&node);
            assert_eq!(soon(work.call_back(here.clone(), vec![], 100)).await, Ok(100));
            // Over the server's own reference to itself, which comes back to it.
            let back = ServiceRef::at(&stand.servers[0].named("server")).unwrap();
            assert_eq!(soon(work.call_back(back, vec![], 3)).await, Ok(3));
            let tasks: Vec<_> = (0..20)
                .map(|times| {
                    let (work, here) = (work.clone(), here.clone());
                    node.spawn(async move { work.call_back(here, vec![], times).await })
                })
                .collect();
            for (times, task) in (0..).zip(tasks) {
                assert_eq!(soon(task).await.unwrap(), Ok(times));
            }
        });
        assert_eq!(node.sessions(), 1, "the session that stands is taken in the other direction");
        *worker.node.borrow_mut() = None;
    }
}

#[test]
fn a_reference_that_is_passed_on_leads_to_where_its_node_listens() {
    let _alone = alone();
    let _watchdog = Watchdog::new("references passed on");
    for secure in [false, true] {
        let stand = Stand::new(secure);
        let to = stand.servers[0].named("server");
        let through = || vec![ServiceRef::at(&stand.servers[1].named("third")).unwrap()];
        // Other hosts do not find a node that does not listen, nor one of their own of that name. They know no address
        // of a node that listens at all addresses of its host.
        for listen in [None, Some("0.0.0.0:0"), Some("[::]:0")] {
            let (node, worker) = stand.client("third", listen);
            node.block_on(async {
                let work = connected(&node, &to).await;
                match soon(work.call_back(ServiceRef::here(&node), through(), 5)).await {
                    Err(CallError::Method(text)) => {
                        let words = [
                            "the reference to third comes from another host",
                            "`Builder::listen`, neither `0.0.0.0` nor `[::]`",
                            "`ServiceRef::at(\"third@host:7411\")`",
                        ];
                        words.iter().for_each(|words| assert!(text.contains(words), "{text}"));
                    }
                    other => panic!("{listen:?}: {other:?}"),
                }
            });
            *worker.node.borrow_mut() = None;
        }
        let (node, worker) = stand.client("third", Some("127.0.0.1:0"));
        node.block_on(async {
            let work = connected(&node, &to).await;
            let here = ServiceRef::here(&node);
            assert_eq!(soon(work.call_back(here, through(), 5)).await, Ok(5));
        });
        assert_eq!(node.sessions(), 2, "the third host has connected");
        *worker.node.borrow_mut() = None;
    }
}

/// A name without an address is that of a node of this host, also where a node of another host has proved it by its certificate.
#[test]
fn a_name_without_an_address_is_none_of_another_host() {
    let _alone = alone();
    let _watchdog = Watchdog::new("names of this host");
    for secure in [false, true] {
        let stand = Stand::new(secure);
        let (node, worker) = stand.client("caller", None);
        node.block_on(async {
            let far = connected(&node, &stand.servers[0].named("server")).await;
            assert!(node.connect::<WorkClient>("server").await.is_err(), "secure: {secure}");
            assert_eq!(soon(far.add(1, 2)).await, Ok(3));
        });
        *worker.node.borrow_mut() = None;
    }
}

/// A reference says where its node's name holds: a node of that name on another host is another node.
#[test]
fn a_namesake_of_the_node_is_not_called_in_its_place() {
    let _alone = alone();
    let _watchdog = Watchdog::new("namesakes");
    let stand = Stand::new(false);
    let (node, worker) = stand.client("server", None);
    node.block_on(async {
        let work = connected(&node, &stand.servers[0].named("server")).await;
        assert_eq!(soon(work.call_back(ServiceRef::here(&node), vec![], 7)).await, Ok(7));
    });
    assert!(node.counted(Counter::HandlersInline) >= 7, "the server has called itself");
    *worker.node.borrow_mut() = None;
}
