//! Calls and messages over TCP and TLS on this host, each beside a bare connection that moves as many
//! bytes: two sockets, or two connections of rustls.
//!
//! Bare connections wait as the nodes do: they poll if the nodes poll, and block if the nodes sleep.
//! A case directly follows the case that it is compared with, so that both are measured within a
//! few milliseconds.

mod bare;

use crate::bench::control::{Control, Job, Offer};
use crate::bench::error::BenchError;
use crate::bench::flight::burst;
use crate::bench::ground::{self, Ground};
use crate::bench::hosts::{Caller, Host, PROGRAM, Policy, each, identity, refused, watched};
use crate::bench::message::{Lying, Message};
use crate::bench::pair::{Pair, Server};
use crate::bench::report::Row;
use crate::bench::rounds::{Floor, Rate, Subject};
use crate::bench::socket::tcp_pair;
use crate::bench::timing::{Round, Shape, Work};
use crate::bench::waits::Condition;
use bare::{Connection, Traffic};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use upbeat::Identity;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "tcp";

/// The number of 8-byte messages in a burst. A call behind the burst returns whether all of them have arrived.
const SMALL_BURST: u32 = 50_000;
/// The number of 1 MiB messages in a burst, which ends with such a call too.
const LONG_BURST: u32 = 16;

/// The carrier of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Carrier {
    Tcp,
    Tls,
}

impl Carrier {
    const ALL: [Carrier; 2] = [Carrier::Tcp, Carrier::Tls];

    fn word(self) -> &'static str {
        match self {
            Carrier::Tcp => "tcp",
            Carrier::Tls => "tls",
        }
    }
}

/// The messages of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Calls without arguments; 8 bytes in each direction.
    Null,
    /// 1 KiB in each direction.
    KiB1,
    /// 64 KiB in each direction.
    KiB64,
    /// Messages of 1 MiB in one direction, which the receiver adds up.
    MiB1,
    /// Messages of 1 MiB in one direction, which the receiver reads in the runtime's buffers.
    MiB1InPlace,
    /// Messages of 8 bytes in one direction, as many as possible.
    Small,
}

impl What {
    /// The cases that are measured if both sides poll. If both sleep, only the round trips are measured.
    const ALL: [What; 6] =
        [What::Null, What::KiB1, What::KiB64, What::MiB1, What::MiB1InPlace, What::Small];

    fn word(self) -> &'static str {
        match self {
            What::Null => "null",
            What::KiB1 => "1KiB",
            What::KiB64 => "64KiB",
            What::MiB1 => "1MiB",
            What::MiB1InPlace => "1MiB-in-place",
            What::Small => "oneway-8B",
        }
    }

    fn about(self) -> &'static str {
        match self {
            What::Null => "null call",
            What::KiB1 => "call with 1 KiB each way, as an array by value",
            What::KiB64 => "call with 64 KiB each way, as a vector",
            What::MiB1 => "messages of 1 MiB, added up as a vector",
            What::MiB1InPlace => "messages of 1 MiB, added up where they were received",
            What::Small => "messages of 8 bytes",
        }
    }

    /// The bytes that a bare connection moves at a time.
    fn bytes(self) -> usize {
        match self {
            What::Null | What::Small => 8,
            What::KiB1 => 1 << 10,
            What::KiB64 => 64 << 10,
            What::MiB1 | What::MiB1InPlace => 1 << 20,
        }
    }

    fn shape(self) -> Shape {
        match self {
            What::Null | What::KiB1 | What::KiB64 => Shape::Each,
            What::MiB1 | What::MiB1InPlace => Shape::Bursts(LONG_BURST),
            What::Small => Shape::Bursts(SMALL_BURST),
        }
    }

    fn is_round_trip(self) -> bool {
        self.shape() == Shape::Each
    }

    /// Returns the traffic of the bare connection that the case is compared with, its name and its description.
    fn traffic(self) -> (Traffic, &'static str, &'static str) {
        match self {
            What::Null => (Traffic::RoundTrip, "8B", "round trip of 8 bytes"),
            What::KiB1 => (Traffic::RoundTrip, "1KiB", "round trip of 1 KiB"),
            What::KiB64 => (Traffic::RoundTrip, "64KiB", "round trip of 64 KiB"),
            What::MiB1 | What::MiB1InPlace => {
                (Traffic::OneWay, "1MiB", "messages of 1 MiB, added up")
            }
            What::Small => {
                (Traffic::Packed, "oneway-8B", "messages of 8 bytes, 64 KiB in a write, added up")
            }
        }
    }
}

/// A case.
struct Case {
    path: String,
    about: String,
    carrier: Carrier,
    policy: Policy,
    what: What,
    /// The path of the bare connection that the case is compared with; a bare connection has none.
    baseline: Option<String>,
}

/// Returns all cases, in the order in which they are measured.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for carrier in Carrier::ALL {
        for policy in [Policy::Polling, Policy::Sleeping] {
            for what in What::ALL {
                if policy == Policy::Sleeping && !what.is_round_trip() {
                    continue;
                }
                let (link, waits) = (carrier.word(), policy.word());
                let (_, size, moved) = what.traffic();
                let bare = format!("{size}/bare-{link}/{waits}");
                let how = match policy {
                    Policy::Sleeping => "blocking",
                    _ => "polling",
                };
                let about = format!("{moved} over a bare {link} connection, both sides {how}");
                if cases.iter().all(|case| case.path != bare) {
                    let path = bare.clone();
                    cases.push(Case { path, about, carrier, policy, what, baseline: None });
                }
                let path = format!("{}/{link}/{waits}", what.word());
                let about = format!("{} over {link} on this host, both {waits}", what.about());
                let baseline = Some(bare);
                cases.push(Case { path, about, carrier, policy, what, baseline });
            }
        }
    }
    cases
}

/// Returns the cases and their descriptions.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path, case.about)).collect()
}

/// Returns the name of the second process's node that serves a case. No two cases share a node.
fn host_name(case: &str) -> String {
    format!("bench/{case}")
}

/// The message with which the second process tells the first how to connect.
#[derive(Serialize, Deserialize)]
struct Meeting {
    /// The addresses of the nodes, by the cases that they serve.
    nodes: Vec<(String, String)>,
    /// The file of the identity of all nodes.
    identity: PathBuf,
    /// The certificate of the second process's side of the bare TLS connection.
    certificate: Vec<u8>,
}

/// Returns the chosen cases, and the cases that they are compared with.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let meeting: Meeting = pair.control().receive()?;
    let [tcp, tls] = ground::receive(pair.control())?;
    let all = cases();
    let baselines: Vec<String> = all
        .iter()
        .filter(|case| wanted(&case.path))
        .filter_map(|case| case.baseline.clone())
        .collect();
    let stage = Rc::new(Stage {
        directory: pair.scratch().join("callers"),
        identity: Identity::load(&meeting.identity).map_err(refused("loading an identity"))?,
        nodes: meeting.nodes.into_iter().collect(),
        tcp: RefCell::new(Connection::plain(tcp)),
        tls: RefCell::new(Connection::client(tls, meeting.certificate)?),
    });
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in all {
        if wanted(&case.path) || baselines.contains(&case.path) {
            let message = Message::of(case.what.bytes());
            let lying = Lying::of(&message);
            let stage = Rc::clone(&stage);
            subjects.push(Box::new(TcpSubject { case, stage, message, lying, caller: None }));
        }
    }
    Ok(subjects)
}

/// The connections of this process, which its cases share, and the addresses of the nodes that they call.
struct Stage {
    directory: PathBuf,
    identity: Identity,
    nodes: HashMap<String, String>,
    tcp: RefCell<Connection>,
    tls: RefCell<Connection>,
}

impl Stage {
    fn bare(&self, carrier: Carrier) -> &RefCell<Connection> {
        match carrier {
            Carrier::Tcp => &self.tcp,
            Carrier::Tls => &self.tls,
        }
    }

    /// Creates the node that calls in a case.
    fn caller(&self, case: &Case) -> Result<Caller, BenchError> {
        let peer = host_name(&case.path);
        let at = self.nodes.get(&case.path);
        let at = at.ok_or_else(|| BenchError::protocol(format!("nobody serves as `{peer}`")))?;
        let name = format!("bench-caller/{}", case.path);
        let identity = Some(&self.identity).filter(|_| case.carrier == Carrier::Tls);
        Caller::far(&name, &format!("{peer}@{at}"), &self.directory, case.policy, identity)
    }
}

/// A case as a subject.
struct TcpSubject {
    case: Case,
    stage: Rc<Stage>,
    message: Message,
    lying: Lying,
    /// The node that calls, after the first round has begun.
    caller: Option<Caller>,
}

impl Subject for TcpSubject {
    fn case(&self) -> &str {
        &self.case.path
    }

    fn shape(&self) -> Shape {
        self.case.what.shape()
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn rate(&self) -> Rate {
        match self.case.what {
            What::Null | What::KiB1 | What::KiB64 => Rate::Nothing,
            What::MiB1 | What::MiB1InPlace => Rate::Bytes(self.case.what.bytes() as u64),
            What::Small => Rate::Operations,
        }
    }

    fn baseline(&self) -> Option<&str> {
        self.case.baseline.as_deref()
    }

    fn condition(&self) -> Condition {
        let is_bare = self.case.baseline.is_none();
        if is_bare { Condition::Any } else { self.case.policy.condition() }
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let Case { carrier, policy, what, .. } = self.case;
        let job = Job::Case(self.case.path.clone());
        if self.case.baseline.is_none() {
            let mut bare = self.stage.bare(carrier).borrow_mut();
            let (traffic, ..) = what.traffic();
            return pair
                .round(job, work, |_| bare.ask(traffic, self.message.bytes(), policy, work));
        }
        let caller = match self.caller.take() {
            Some(caller) => caller,
            None => self.stage.caller(&self.case)?,
        };
        let caller = &*self.caller.insert(caller);
        let (message, lying) = (&self.message, &self.lying);
        let round = watched(pair, job, work, Some(caller.node()), |_| match what {
            What::Null => caller.round(async |client| each(work, || client.null()).await),
            What::KiB1 => {
                caller.round(async |client| each(work, || client.bytes1024([7; 1 << 10])).await)
            }
            What::KiB64 => {
                caller.round(async |client| each(work, || client.bounce(message.clone())).await)
            }
            What::MiB1 => burst(caller, work, async |client, _| client.sum(message.clone()).await),
            What::MiB1InPlace => {
                burst(caller, work, async |client, _| client.lie(lying.clone()).await)
            }
            What::Small => burst(caller, work, async |client, n| client.hit(n).await),
        })?;
        caller.check_far()?;
        Ok(round)
    }

    fn finish(&mut self, row: &mut Row) {
        row.sizes.bytes = Some(self.case.what.bytes() as u64);
    }
}

/// The second process's nodes and bare connections.
pub(crate) struct TcpServer {
    hosts: HashMap<String, Host>,
    tcp: Connection,
    tls: Connection,
}

/// Creates the second process's side.
pub(crate) fn server(control: &Control, scratch: &Path) -> Result<TcpServer, BenchError> {
    let identity = identity(PROGRAM, scratch)?;
    let (mut hosts, mut nodes) = (HashMap::new(), Vec::new());
    for Case { path, carrier, policy, .. } in
        cases().into_iter().filter(|case| case.baseline.is_some())
    {
        let shown = Some(&identity).filter(|_| carrier == Carrier::Tls);
        let host = Host::listening(&host_name(&path), scratch, policy, shown)?;
        nodes.extend(host.node.listens_at().map(|at| (path.clone(), at.to_string())));
        hosts.insert(path, host);
    }
    let [(tcp, their_tcp), (tls, their_tls)] = [tcp_pair()?, tcp_pair()?];
    let (tls, certificate) = Connection::server(tls)?;
    control.send(&Meeting { nodes, identity: identity.path().to_owned(), certificate })?;
    let sockets = [their_tcp.as_fd(), their_tls.as_fd()];
    control.send_with(&Offer { segments: Vec::new() }, &sockets)?;
    Ok(TcpServer { hosts, tcp: Connection::plain(tcp), tls })
}

impl Server for TcpServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        if let Some(host) = self.hosts.get(case) {
            host.watched_round(ground);
            return Ok(());
        }
        let unknown = || BenchError::protocol(format!("nobody serves `{case}`"));
        let case = cases().into_iter().find(|one| one.path == case).ok_or_else(unknown)?;
        let Case { carrier, policy, what, .. } = case;
        let bare = match carrier {
            Carrier::Tcp => &mut self.tcp,
            Carrier::Tls => &mut self.tls,
        };
        bare.answer(what.traffic().0, what.bytes(), policy, work)
    }
}

#[cfg(test)]
mod tests {
    use super::cases;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_follows_the_bare_connection_that_it_is_compared_with() {
        let all = cases();
        let paths: BTreeSet<&str> = all.iter().map(|case| case.path.as_str()).collect();
        assert_eq!(paths.len(), all.len(), "no path twice");
        for carrier in ["tcp", "tls"] {
            for case in ["null", "1KiB", "64KiB"] {
                for policy in ["polling", "sleeping"] {
                    assert!(paths.contains(&*format!("{case}/{carrier}/{policy}")));
                }
            }
            for case in ["1MiB", "1MiB-in-place", "oneway-8B"] {
                assert!(paths.contains(&*format!("{case}/{carrier}/polling")));
            }
        }
        for (at, case) in all.iter().enumerate() {
            let Some(base) = &case.baseline else { continue };
            let bare = all[..at].iter().rposition(|one| one.baseline.is_none());
            let bare = &all[bare.expect("a bare connection")];
            assert_eq!((&bare.path, bare.policy), (base, case.policy));
            assert_eq!((bare.carrier, bare.what.bytes()), (case.carrier, case.what.bytes()));
        }
    }
}
