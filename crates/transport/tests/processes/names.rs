//! Names: which process has one, and when a name is free.

use super::{Other, connect, kill};
use crate::common::{self, Directory, alone, home, program};
use rustix::fs::FlockOperation;
use std::path::PathBuf;
use upbeat_transport::error::{BindError, OpenError};
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::shared::{self, Listener};
use upbeat_transport::socket_directory::SocketDirectory;

/// Returns the path of the lock file of a node's name.
fn lock_of(place: &SocketDirectory, home: &LocalNode) -> PathBuf {
    place.socket_path(home.program().name(), home.name().unwrap()).with_extension("lock")
}

#[test]
fn a_name_taken_by_another_process() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let mut other = Other::start("node", place.directory());
    other.expect("bound");
    for _ in 0..2 {
        let error = Listener::bind(&place, &home).err().unwrap();
        let BindError::NameTaken { pid: Some(pid), .. } = &error else { panic!("{error}") };
        assert_eq!(*pid, other.pid());
        assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
    }
    // Another name, and the same name in another program, are free.
    drop(Listener::bind(&place, &common::home("node/2")).unwrap());
    let others = LocalNode::new(program("other"), home.name().cloned()).unwrap();
    drop(Listener::bind(&place, &others).unwrap());
    // The process ends with its input, and then the name is free.
    drop(other.child.stdin.take());
    assert!(other.child.wait().unwrap().success());
    drop(Listener::bind(&place, &home).unwrap());
}

/// A service that removes old files has removed the lock file of a node that lives: its socket still answers, so no other
/// process takes the name.
#[test]
fn a_name_whose_socket_answers_is_taken() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let mut other = Other::start("node", place.directory());
    other.expect("bound");
    let lock = lock_of(&place, &home);
    std::fs::remove_file(&lock).unwrap();
    for is_there in [false, false, true, true] {
        if is_there {
            // Another process has made the file, and has not locked it yet, or was killed then.
            std::fs::write(&lock, "").unwrap();
        }
        let error = Listener::bind(&place, &home).err().expect("the name is taken");
        assert!(matches!(error, BindError::NameTaken { pid: Some(pid), .. } if pid == other.pid()));
        assert!(!lock.exists(), "a lock file that nobody holds would say that the node is dead");
    }
    // A node that removes what dead nodes have left leaves the socket of this one.
    std::fs::write(&lock, "").unwrap();
    let next = Listener::bind(&place, &common::home("node/2")).unwrap();
    assert!(!lock.exists() && lock.with_extension("sock").exists());
    drop(next);
    other.kill();
    other.child.wait().unwrap();
    drop(Listener::bind(&place, &home).unwrap());
}

/// The directory of a living node is removed, and another process takes the name there: the end of the first node leaves
/// the files of the second one.
#[test]
fn a_node_whose_files_were_removed_leaves_those_of_the_next() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let first = Listener::bind(&place, &home).unwrap();
    std::fs::remove_dir_all(place.directory()).unwrap();
    let mut other = Other::start("node", place.directory());
    other.expect("bound");
    drop(first);
    let lock = lock_of(&place, &home);
    assert!(lock.exists() && lock.with_extension("sock").exists());
    let error = Listener::bind(&place, &home).err().expect("the name is taken");
    assert!(matches!(error, BindError::NameTaken { pid: Some(pid), .. } if pid == other.pid()));
}

/// A process that ends gives its locks up before its sockets. Whoever takes its name, or removes what it has left, in
/// between waits for the end.
#[test]
fn a_name_of_a_process_that_is_ending_is_free() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let lock = lock_of(&place, &home);
    for sweeps in [false, true, false, true] {
        let mut other = Other::start("node", place.directory());
        other.expect("bound");
        // As after the end of the locks: the file is there, and nobody holds it.
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&lock, "").unwrap();
        std::thread::scope(|scope| {
            let (begins, begun) = std::sync::mpsc::channel();
            let ends = scope.spawn(move || {
                begun.recv().unwrap();
                other.kill();
                other.child.wait().unwrap();
            });
            begins.send(()).unwrap();
            let next = common::home(if sweeps { "node/2" } else { "node" });
            drop(Listener::bind(&place, &next).expect("the name is free"));
            ends.join().unwrap();
        });
        assert!(!lock.exists() && !lock.with_extension("sock").exists(), "{sweeps}");
    }
}

/// A directory under a lock is left alone by systemd-tmpfiles, which otherwise removes files that nobody has touched for
/// days.
#[test]
fn the_directory_of_a_node_is_locked() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let listeners =
        [home, common::home("node/2")].map(|home| Listener::bind(&place, &home).unwrap());
    let path = listeners[0].path().parent().unwrap().to_owned();
    let is_free = || {
        let opened = std::fs::File::open(&path).unwrap();
        rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    let [first, second] = listeners;
    assert!(!is_free());
    drop(first);
    assert!(!is_free());
    // The last node removes the directory.
    std::fs::write(path.join("file"), "").unwrap();
    drop(second);
    assert!(is_free());
}

#[test]
fn the_name_of_a_killed_node_is_free() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let caller = common::home("caller");
    for _ in 0..5 {
        let mut other = Other::start("node", place.directory());
        other.expect("bound");
        other.kill();
        other.child.wait().unwrap();
        let error = connect(&place, &caller, "node").err().unwrap();
        assert!(matches!(error, OpenError::NoSuchNode { died: true, .. }), "{error}");
        assert!(error.to_string().contains("was there but is dead"), "{error}");

        let listener = Listener::bind(&place, &home).unwrap();
        let mut near = shared::connect(&place, &caller, home.name().unwrap(), 1, 0).unwrap();
        let mut far = listener.accept(&home, 1, 0).unwrap().unwrap();
        common::finish(&mut near, &mut far).unwrap();
        drop(listener);
        let error = connect(&place, &caller, "node").err().unwrap();
        assert!(matches!(error, OpenError::NoSuchNode { died: false, .. }), "{error}");
        let sockets = place.socket_path(home.program().name(), home.name().unwrap());
        assert!(!sockets.parent().unwrap().exists());
    }
}

#[test]
fn an_heir_of_the_listener_does_not_keep_the_name() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let mut other = Other::start("node with heir", place.directory());
    let heir = other.expect("heir");
    other.kill();
    other.child.wait().unwrap();

    // The heir's socket would accept the call, and never answer it.
    let caller = common::home("caller");
    let error = shared::connect(&place, &caller, home.name().unwrap(), 1, 0).err().unwrap();
    assert!(matches!(error, OpenError::NoSuchNode { died: true, .. }), "{error}");

    let listener = Listener::bind(&place, &home).unwrap();
    let mut near = shared::connect(&place, &caller, home.name().unwrap(), 1, 0).unwrap();
    let mut far = listener.accept(&home, 1, 0).unwrap().unwrap();
    common::finish(&mut near, &mut far).unwrap();
    kill(&heir);
}
