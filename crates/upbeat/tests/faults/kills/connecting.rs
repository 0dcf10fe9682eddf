//! Processes that are killed while a session comes to be, as clients and as servers: in the handshake,
//! in the binding of a service, and between the two.
//!
//! A client that is killed connects in a loop and does nothing else, so that it dies in the midst of
//! that at most instants. A server that is killed is connected to in the same way, or once by a node
//! that lives on, at an instant below the time that connecting has taken lately.

use crate::common::process::{Other, end_with_input, say};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Random, alone, seed, soon, until};
use crate::kills::{Holdings, Killer, POLICIES, check_lost, kills, node, watchdog};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::handle::HandleError;
use upbeat::{CallError, ConnectError, Counter, Waiting};

/// How a client connects.
const KINDS: [&str; 2] = ["node", "handle"];

/// How much the memory of a process may grow in one test, for any number of kills, in KiB.
const GROWTH_KIB: u64 = 4096;

/// Plays `connect KIND`, which connects again and again until it is killed, or `connect once`, which
/// connects at each line of its input.
pub(crate) fn play(kind: &str, place: &Path) {
    if kind == "once" {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).unwrap() > 0 {
            served(connect("asker", "server", "node", place));
            say("served");
        }
        return;
    }
    end_with_input();
    say("connecting");
    loop {
        served(connect("victim", "server", kind, place));
    }
}

/// At which step a session broke, and the error that its caller got.
enum Broken {
    /// Nobody has the name, or the handshake ended before there was a session.
    Opening(String),
    /// The session ended before the service was bound.
    Binding(CallError),
    /// The session ended later.
    Call(CallError),
}

impl Broken {
    /// Checks that the error names the server that died, and returns the name of the step.
    fn checked(self) -> &'static str {
        match self {
            Broken::Opening(text) => {
                assert!(text.contains("`victim`"), "{text}");
                "opening"
            }
            Broken::Binding(error) => {
                check_lost(&error);
                "binding"
            }
            Broken::Call(error) => {
                check_lost(&error);
                "calling"
            }
        }
    }
}

impl From<ConnectError> for Broken {
    fn from(error: ConnectError) -> Broken {
        match error {
            ConnectError::Open(error) => Broken::Opening(error.to_string()),
            ConnectError::Call(error) => Broken::Binding(error),
            other => panic!("{other:?}"),
        }
    }
}

impl From<HandleError> for Broken {
    fn from(error: HandleError) -> Broken {
        match error {
            HandleError::Connect(error) => Broken::from(error),
            other => panic!("{other}"),
        }
    }
}

impl From<CallError> for Broken {
    fn from(error: CallError) -> Broken {
        match error {
            // A handle may open another session for a call.
            CallError::NotConnected { text, .. } => Broken::Opening(text.to_string()),
            other => Broken::Call(other),
        }
    }
}

/// Opens a session, asks something, and ends the session; as a node of this name, or as a handle.
fn connect(name: &str, peer: &str, kind: &str, place: &Path) -> Result<(), Broken> {
    let sum = if kind == "handle" {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(place).sampling(0);
        let work: WorkHandle = builder.connect(peer)?;
        work.blocking().add(2, 3)?
    } else {
        let node = node(name, place, Waiting::Adaptive);
        node.block_on(async {
            let work: WorkClient = node.connect(peer).await?;
            Ok::<u64, Broken>(work.add(2, 3).await?)
        })?
    };
    assert_eq!(sum, 5);
    Ok(())
}

/// The server lives: the session must not break.
fn served(done: Result<(), Broken>) {
    if let Err(broken) = done {
        panic!("not served: {}", broken.checked());
    }
}

/// Returns the resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The names of the files in the directory of the program.
fn files(place: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place.join(PROGRAM)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The holdings of this process without connections, after it has served or called for the first time.
struct Base {
    holdings: Holdings,
    resident_kib: u64,
}

impl Base {
    fn now() -> Base {
        Base { holdings: Holdings::now(), resident_kib: resident_kib() }
    }

    fn assert_no_more_memory(&self) {
        let now = resident_kib();
        assert!(now < self.resident_kib + GROWTH_KIB, "{} KiB, then {now}", self.resident_kib);
    }
}

#[test]
fn clients_that_are_killed_while_they_connect() {
    let (_alone, _watchdog) = (alone(), watchdog("clients killed while they connect"));
    let directory = Directory::new();
    let place = directory.path();
    let killer = Killer::new();
    let mut random = Random::new(seed(3));
    let mut asker = Other::start("connect once", &place);
    for waiting in POLICIES {
        let server = node("server", &place, waiting);
        server.serve(WorkServer::new(Worker::default())).unwrap();
        // Another client, each of whose sessions is new as well, is still served.
        let mut serve_asker = || {
            let before = server.counted(Counter::HandlersInline);
            asker.child.stdin.as_mut().unwrap().write_all(b"once\n").unwrap();
            server.block_on(until(|| {
                server.counted(Counter::HandlersInline) > before && server.sessions() == 0
            }));
            asker.expect("served");
        };
        serve_asker();
        let base = Base::now();
        for round in 0..kills() / 2 {
            let kind = KINDS[(round % 2) as usize];
            let mut victim = Other::start(&format!("connect {kind}"), &place);
            victim.expect("connecting");
            let opened = server.counted(Counter::HandlersInline) + random.below(3);
            server.block_on(until(|| server.counted(Counter::HandlersInline) >= opened));
            killer.kill(&victim, Duration::from_micros(random.below(2000)));
            while killer.done.try_recv().is_err() {
                server.block_on(upbeat::sleep(Duration::from_micros(100)));
            }
            drop(victim);
            server.block_on(until(|| server.sessions() == 0 && Holdings::now() == base.holdings));
            serve_asker();
        }
        assert_eq!(server.counted(Counter::Panics), 0);
        base.assert_no_more_memory();
    }
    asker.end();
    drop(node("sweeper", &place, Waiting::Sleeping));
    assert!(!place.join(PROGRAM).exists(), "{:?}", files(&place));
}

#[test]
fn servers_that_are_killed_while_callers_connect() {
    let (_alone, _watchdog) = (alone(), watchdog("servers killed while callers connect"));
    let directory = Directory::new();
    let place = directory.path();
    let killer = Killer::new();
    let mut random = Random::new(seed(4));
    let mut steps = BTreeMap::<_, u64>::new();
    for waiting in POLICIES {
        let steady = node("steady", &place, waiting);
        let mut connecting = Duration::from_micros(300);
        let mut base = None;
        for round in 0..kills() / 2 {
            // Each takes the name over from the one before, and serves.
            let mut victim = Other::start("serve victim Adaptive", &place);
            victim.expect("serving");
            served(connect("caller", "victim", KINDS[(round % 2) as usize], &place));
            let broken = if round % 3 == 0 {
                let within = connecting.as_micros() as u64 * 3 / 2;
                let began = Instant::now();
                killer.kill(&victim, Duration::from_micros(random.below(within)));
                match steady.block_on(soon(steady.connect::<WorkClient>("victim"))) {
                    Err(error) => Broken::from(error),
                    Ok(work) => {
                        connecting = (connecting + began.elapsed()) / 2;
                        Broken::from(steady.block_on(soon(work.forever())).unwrap_err())
                    }
                }
            } else {
                killer.kill(&victim, Duration::from_micros(random.below(3000)));
                let kind = KINDS[(round % 3 - 1) as usize];
                loop {
                    if let Err(broken) = connect("caller", "victim", kind, &place) {
                        break broken;
                    }
                }
            };
            *steps.entry(broken.checked()).or_default() += 1;
            killer.done.recv().unwrap();
            drop(victim);
            steady.block_on(until(|| steady.sessions() == 0));
            let base = base.get_or_insert_with(Base::now);
            steady.block_on(until(|| Holdings::now() == base.holdings));
            base.assert_no_more_memory();
        }
    }
    println!("where {} sessions broke: {steps:?}", kills());
}
