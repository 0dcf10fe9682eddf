//! Threads that each drive a node: how they start, and how they end.

use crate::common::process::{Other, say};
use crate::common::{Directory, PROGRAM, Watchdog, shares_memory};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use upbeat::{BuildError, Cores, CoresError, Node};

#[upbeat::service]
pub(crate) trait Tally {
    /// Adds to the count of all threads, and says by which thread.
    async fn add(&self, n: u64) -> (u64, String);
}

struct Count(Arc<AtomicU64>);

impl Tally for Count {
    async fn add(&self, n: u64) -> (u64, String) {
        let count = self.0.fetch_add(n, Ordering::Relaxed) + n;
        (count, format!("{:?}", std::thread::current().id()))
    }
}

fn tallies(name: &str, directory: &Path) -> Result<Cores, CoresError<BuildError>> {
    let (name, directory) = (name.to_owned(), directory.to_owned());
    let count = Arc::new(AtomicU64::new(0));
    upbeat::nodes_on(2, move || {
        let node = Node::builder(&name).program(PROGRAM).directory(&directory).build()?;
        node.serve(TallyServer::new(Count(Arc::clone(&count))))?;
        Ok(node)
    })
}

/// Plays the part `tallies NAME`.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let cores = match words[..] {
        ["tallies", name] => tallies(name, place),
        _ => return false,
    };
    let cores = cores.unwrap();
    say("serving");
    cores.until_ctrl_c().unwrap();
    cores.shut_down(Duration::from_secs(1)).unwrap();
    say("ended");
    true
}

#[test]
fn threads_share_what_the_closure_shares_and_end_on_a_signal() {
    let _watchdog = Watchdog::new("tallies");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    let directory = Directory::new();
    let mut other = Other::start("tallies tally", &directory.path());
    other.expect("serving");
    let builder = || upbeat::handle::builder().program(PROGRAM).directory(directory.path());
    let clients: Vec<TallyHandle> = (0..4).map(|_| builder().connect("tally").unwrap()).collect();
    let mut threads = BTreeSet::new();
    for (number, client) in (1..).zip(&clients) {
        let (count, thread) = client.blocking().add(1).unwrap();
        assert_eq!(count, number);
        threads.insert(thread);
    }
    assert_eq!(threads.len(), 2);
    other.signal(rustix::process::Signal::TERM);
    other.expect("ended");
    other.end();
}

#[test]
fn threads_of_which_one_fails_all_end() {
    let _watchdog = Watchdog::new("failing");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    let directory = Directory::new();
    let place = directory.path();
    let started = Arc::new(AtomicU64::new(0));
    let nodes = |fails: fn(u64) -> Result<(), String>| {
        let (started, place) = (Arc::clone(&started), place.clone());
        started.store(0, Ordering::Relaxed);
        upbeat::nodes_on(3, move || {
            let number = started.fetch_add(1, Ordering::Relaxed);
            let builder = Node::builder("failing").program(PROGRAM).directory(&place);
            let node = builder.build().map_err(|error| error.to_string())?;
            fails(number)?;
            Ok::<_, String>(node)
        })
    };
    let failed = nodes(|number| if number == 1 { Err("no luck".into()) } else { Ok(()) });
    assert!(matches!(failed, Err(CoresError::Build { error, .. }) if error == "no luck"));
    let panicked = nodes(|number| if number == 2 { panic!("out of luck") } else { Ok(()) });
    match panicked.err() {
        Some(CoresError::Panicked { message, .. }) => assert_eq!(message, "out of luck"),
        other => panic!("{other:?}"),
    }
    // Nothing is left of them: the name is free for another directory.
    let elsewhere = Directory::new();
    let builder = Node::builder("failing").program(PROGRAM).directory(elsewhere.path());
    drop(builder.build().unwrap());
}
