//! Sessions of nodes that share a name and a port: each goes on with the node that has it.

use super::proxy::{How, Proxy};
use crate::common::work::{WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, alone};
use crate::trust::Authority;
use crate::{identity_of, protected};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use upbeat::{BuildError, Counter, Node, Waiting};

const NODES: usize = 3;

#[test]
fn a_session_goes_on_with_its_own_node() {
    let _alone = alone();
    let _watchdog = Watchdog::new("cores resume");
    goes_on("", None);
    let authority = Authority::new();
    let [node, handles] = [("node.pem", "test/cores"), ("handles.pem", "test")]
        .map(|(file, name)| authority.issue(file, name));
    goes_on(&node, Some(&handles));
}

/// The nodes and the handles have the identities in these files, or none.
fn goes_on(identity: &str, handles: Option<&str>) {
    let (directory, elsewhere) = (Directory::new(), Directory::new());
    let (path, built) = (directory.path(), std::sync::mpsc::channel());
    let identity = identity.to_owned();
    let cores = upbeat::nodes_on(NODES, move || {
        let builder = Node::builder("cores").program(PROGRAM).directory(&path);
        let node = protected(builder.listen("127.0.0.1:0"), &identity).build()?;
        let worker = Rc::new(Worker::default());
        *worker.node.borrow_mut() = Some(node.clone());
        node.serve(WorkServer::shared(worker))?;
        let _ = built.0.send(node.listens_at());
        Ok::<_, BuildError>(node)
    });
    let cores = cores.unwrap();
    let at: BTreeSet<_> = built.1.iter().take(NODES).flatten().collect();
    assert_eq!(at.len(), 1, "they share a port");
    let proxy = Proxy::to(&at.first().unwrap().to_string());
    let clients: Vec<WorkHandle> = (0..2 * NODES)
        .map(|_| {
            let builder = upbeat::handle::builder().program(PROGRAM).directory(elsewhere.path());
            let builder = match handles {
                Some(path) => builder.identity(identity_of(path)),
                None => builder.insecure_plaintext(),
            };
            let builder = builder.waiting(Waiting::Sleeping);
            let builder = builder.resume_within(Duration::from_secs(30));
            builder.connect(&format!("cores@{}", proxy.at)).unwrap()
        })
        .collect();
    // Each node has noted what its own clients sent, and no more.
    let note = |number| {
        for client in &clients {
            let blocking = client.blocking();
            blocking.note(number).unwrap();
            // The note has come when this is answered.
            blocking.null().unwrap();
        }
    };
    let noted = || clients.iter().map(|it| it.blocking().noted().unwrap().0).sum::<u64>();
    note(1);
    let each = 2;
    assert_eq!(noted(), (clients.len() * each) as u64);
    for how in [How::End, How::Reset] {
        proxy.cut(how);
        clients.iter().for_each(|it| it.blocking().null().unwrap());
    }
    note(2);
    assert_eq!(noted(), (clients.len() * each * 2) as u64);
    let resumed = |it: &WorkHandle| it.blocking().counted(Counter::SessionsResumed as u64).unwrap();
    let each_resumed: Vec<u64> = clients.iter().map(resumed).collect();
    assert!(each_resumed.iter().all(|resumed| *resumed == 4), "{each_resumed:?}");
    cores.shut_down(Duration::from_secs(1)).unwrap();
}
