//! Groups of nodes, in this process and in another one.

use crate::common::process::{Other, end_with_input, say};
use crate::common::{Directory, PROGRAM, Signal, Watchdog, shares_memory, wait_until};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use upbeat::error::BindError;
use upbeat::{BuildError, Node};

/// Says which node of the group a client has.
#[upbeat::service]
pub(crate) trait Site {
    async fn which(&self) -> u64;
    /// How many sessions this node has.
    async fn sessions(&self) -> u64;
    async fn hold(&self, ms: u64);
    /// Makes a file, and computes until it is gone.
    async fn compute(&self, file: String);
    /// Ends this node.
    #[oneway]
    async fn leave(&self);
}

struct Place {
    number: u64,
    node: RefCell<Option<Node>>,
    quit: Signal,
}

impl Site for Place {
    async fn which(&self) -> u64 {
        self.number
    }

    async fn sessions(&self) -> u64 {
        self.node.borrow().as_ref().map_or(0, |node| node.sessions() as u64)
    }

    async fn hold(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    async fn compute(&self, file: String) {
        std::fs::write(&file, "").unwrap();
        wait_until(|| !Path::new(&file).exists());
    }

    async fn leave(&self) {
        self.quit.give();
    }
}

/// Nodes of one name, each on a thread of this process.
struct Group {
    threads: Vec<JoinHandle<()>>,
    quit: Vec<Signal>,
    /// Where they listen for other hosts.
    at: Option<String>,
}

impl Group {
    /// Starts the nodes one after the other. As many of the first as `undriven` says are built and driven by nobody.
    fn start(name: &str, directory: &Path, nodes: u64, undriven: u64) -> Group {
        let mut group = Group { threads: Vec::new(), quit: Vec::new(), at: None };
        for number in 0..nodes {
            let (name, directory) = (name.to_owned(), directory.to_owned());
            let (built, is_built) = channel();
            let quit = Signal::default();
            group.quit.push(quit.clone());
            let act = move || serve(&name, directory, (number, number < undriven), quit, &built);
            group.threads.push(std::thread::spawn(act));
            group.at = Some(is_built.recv().unwrap());
        }
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.quit.iter().for_each(Signal::give);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn serve(
    name: &str,
    directory: PathBuf,
    (number, undriven): (u64, bool),
    quit: Signal,
    built: &Sender<String>,
) {
    let builder = Node::builder(name).program(PROGRAM).directory(directory);
    let node = builder.listen("127.0.0.1:0").insecure_plaintext().build().unwrap();
    let place = Rc::new(Place { number, node: RefCell::default(), quit: quit.clone() });
    *place.node.borrow_mut() = Some(node.clone());
    node.serve(SiteServer::shared(Rc::clone(&place))).unwrap();
    built.send(node.listens_at().unwrap().to_string()).unwrap();
    match undriven {
        true => crate::common::block_on(quit),
        false => node.block_on(quit),
    }
    node.shut_down(Duration::from_secs(1));
    *place.node.borrow_mut() = None;
}

/// Plays the part `group NAME NODES UNDRIVEN`.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    let ["group", name, nodes, undriven] = words[..] else { return false };
    end_with_input();
    let group = Group::start(name, place, nodes.parse().unwrap(), undriven.parse().unwrap());
    say(&format!("serving {}", group.at.as_ref().unwrap()));
    for thread in std::mem::take(&mut { group }.threads) {
        thread.join().unwrap();
    }
    say("ended");
    crate::common::process::linger();
    true
}

/// How clients come to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Local,
    Shared,
    Tcp,
}

/// A group, and clients of it.
struct Stand {
    directory: Directory,
    /// Where clients meet nobody by a name, so that they go over the network.
    elsewhere: Directory,
    name: String,
    way: Way,
    here: Option<Group>,
    other: Option<Other>,
    at: String,
}

impl Stand {
    fn new(way: Way, nodes: u64, undriven: u64) -> Stand {
        let (directory, elsewhere) = (Directory::new(), Directory::new());
        let place = directory.path();
        // The names of this process are for all tests: they differ.
        let unique = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let name = format!("group/{unique}");
        let (mut here, mut other) = (None, None);
        let at = match way {
            Way::Local => {
                let group = here.insert(Group::start(&name, &place, nodes, undriven));
                group.at.clone().unwrap()
            }
            Way::Shared | Way::Tcp => {
                let process = Other::start(&format!("group {name} {nodes} {undriven}"), &place);
                other.insert(process).expect("serving")
            }
        };
        Stand { directory, elsewhere, name, way, here, other, at }
    }

    /// A client with one session.
    fn try_client(&self) -> Result<SiteHandle, upbeat::handle::HandleError> {
        let (directory, to) = match self.way {
            Way::Local | Way::Shared => (&self.directory, self.name.clone()),
            Way::Tcp => (&self.elsewhere, format!("{}@{}", self.name, self.at)),
        };
        let builder = upbeat::handle::builder().program(PROGRAM).directory(directory.path());
        // A session ends with its client, and not some seconds later.
        builder.insecure_plaintext().resume_within(Duration::ZERO).connect(&to)
    }

    fn client(&self) -> SiteHandle {
        self.try_client().unwrap()
    }
}

fn which(client: &SiteHandle) -> u64 {
    client.blocking().which().unwrap()
}

/// How many clients each node has.
fn counts(clients: &[SiteHandle]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for client in clients {
        *counts.entry(which(client)).or_default() += 1;
    }
    counts
}

const WAYS: [Way; 3] = [Way::Local, Way::Shared, Way::Tcp];

#[test]
fn a_new_session_goes_to_the_node_with_the_fewest() {
    let _watchdog = Watchdog::new("spread");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    for way in WAYS {
        let stand = Stand::new(way, 3, 0);
        let mut clients: Vec<SiteHandle> = (0..12).map(|_| stand.client()).collect();
        assert_eq!(counts(&clients), BTreeMap::from([(0, 4), (1, 4), (2, 4)]), "{way:?}");
        // One node loses three of its clients, and gets the next three.
        let mut kept = 0;
        clients.retain(|client| which(client) != 1 || std::mem::replace(&mut kept, 1) == 0);
        let left = clients.iter().find(|client| which(client) == 1).unwrap().clone();
        wait_until(|| left.blocking().sessions() == Ok(1));
        let more: Vec<SiteHandle> = (0..3).map(|_| stand.client()).collect();
        assert_eq!(counts(&more), BTreeMap::from([(1, 3)]), "{way:?}");
        // A thread that calls meanwhile has a session of its own, which may be another node's.
        let busy = stand.client();
        std::thread::scope(|scope| {
            let other = busy.clone();
            let held = scope.spawn(move || other.blocking().hold(50));
            let nodes: Vec<u64> = (0..2).map(|_| which(&busy)).collect();
            held.join().unwrap().unwrap();
            assert_eq!(nodes[0], nodes[1], "{way:?}");
        });
    }
}

#[test]
fn a_name_stays_while_one_of_its_nodes_does() {
    let _watchdog = Watchdog::new("owner");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    for way in WAYS {
        let mut stand = Stand::new(way, 2, 0);
        let first = [stand.client(), stand.client()];
        let [leaves, stays] = match which(&first[0]) {
            0 => first,
            _ => [&first[1], &first[0]].map(SiteHandle::clone),
        };
        assert_eq!((which(&leaves), which(&stays)), (0, 1), "{way:?}");
        std::thread::scope(|scope| {
            // Clients come all the time.
            let comes = scope.spawn(|| {
                let mut found = Vec::new();
                while found.iter().rev().take_while(|node| **node == 1).count() < 30 {
                    let client = stand.client();
                    // The session of a node that leaves may end.
                    found.extend(client.blocking().which());
                }
            });
            leaves.blocking().leave().unwrap();
            wait_until(|| leaves.blocking().which() != Ok(0));
            while !comes.is_finished() {
                assert_eq!(stays.blocking().which(), Ok(1));
            }
            comes.join().unwrap();
        });
        stays.blocking().leave().unwrap();
        match &mut stand.other {
            Some(other) => drop(other.expect("ended")),
            None => drop(stand.here.take()),
        }
        let error = stand.try_client().err().expect("nobody is there").to_string();
        assert!(error.contains("no node") || error.contains("refused"), "{way:?}: {error}");
        // The name is free, for this process too.
        drop(Group::start(&stand.name, &stand.directory.path(), 1, 0));
    }
}

#[test]
fn a_node_that_nobody_drives_keeps_no_client() {
    let _watchdog = Watchdog::new("undriven");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    for way in WAYS {
        let stand = Stand::new(way, 2, 1);
        let clients: Vec<SiteHandle> = (0..6).map(|_| stand.client()).collect();
        assert_eq!(counts(&clients), BTreeMap::from([(1, 6)]), "{way:?}");
    }
}

#[test]
fn a_node_that_computes_leaves_new_clients_to_the_others() {
    let _watchdog = Watchdog::new("busy");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    let stand = Stand::new(Way::Shared, 2, 0);
    let busy = stand.client();
    let number = which(&busy);
    let file = stand.directory.path().with_extension("computes");
    let computes = std::thread::spawn({
        let (busy, file) = (busy.clone(), file.to_str().unwrap().to_owned());
        move || busy.blocking().compute(file)
    });
    wait_until(|| file.exists());
    // Each is answered while the other node computes.
    let clients: Vec<SiteHandle> = (0..4).map(|_| stand.client()).collect();
    assert_eq!(counts(&clients), BTreeMap::from([(1 - number, 4)]));
    std::fs::remove_file(&file).unwrap();
    computes.join().unwrap().unwrap();
}

#[test]
fn a_thousand_connect_at_once() {
    let _watchdog = Watchdog::new("thousand");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    let stand = Stand::new(Way::Shared, 2, 0);
    let clients: Vec<SiteHandle> = std::thread::scope(|scope| {
        let act = || (0..25).map(|_| stand.client()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(act)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let counts = counts(&clients);
    assert_eq!(counts.values().sum::<usize>(), 1_000);
    assert!(counts[&0].abs_diff(counts[&1]) <= 20, "{counts:?}");
}

#[test]
fn a_name_is_shared_by_nodes_of_a_kind_alone() {
    let _watchdog = Watchdog::new("refused");
    if !shares_memory("nodes that share a name listen in several ways of their own") {
        return;
    }
    let mut stand = Stand::new(Way::Shared, 2, 0);
    let directory = stand.directory.path();
    let pid_of = |error: Option<BuildError>| match error {
        Some(BuildError::Bind(error @ BindError::NameTaken { pid, .. })) => {
            (pid, error.to_string())
        }
        other => panic!("{other:?}"),
    };
    let of = |directory: PathBuf| Node::builder(&stand.name).program(PROGRAM).directory(directory);
    // Another process has it.
    let process = stand.other.as_ref().unwrap().child.id();
    let (pid, text) = pid_of(of(directory.clone()).build().err());
    assert_eq!(pid, Some(process), "{text}");
    stand.other.as_mut().unwrap().end();
    // Now this one has it, in one directory.
    let node = of(directory.clone()).build().unwrap();
    let second = of(directory.clone()).build().unwrap();
    for other in [of(stand.elsewhere.path()), of(directory.clone()).local_only()] {
        let (pid, text) = pid_of(other.build().err());
        assert_eq!(pid, Some(std::process::id()));
        assert!(text.contains("the same directory"), "{text}");
    }
    // Each is itself, and either may go first.
    assert_eq!(node.name(), second.name());
    drop(node);
    let third = of(directory.clone()).build().unwrap();
    drop((second, third));
    of(stand.elsewhere.path()).build().unwrap();
}
