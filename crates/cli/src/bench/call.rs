//! Calls: the cost of a typed call above the floors, for every way in which nodes wait.
//!
//! Every case exists on both sides. The second process finds the node of a case by the path of the case,
//! and drives the node until the caller ends the round.

mod plain;
mod threads;
mod crowd;
mod circle;

use crate::bench::control::{Control, Job, Offer};
use crate::bench::error::BenchError;
use crate::bench::flight;
use crate::bench::ground::{self, Ground};
use crate::bench::hosts::{self, Host, Policy, watched};
use crate::bench::pair::{Pair, Server};
use crate::bench::pin::Cpus;
use crate::bench::report::Row;
use crate::bench::rounds::{Floor, Rate, Subject};
use crate::bench::socket::{answer, ask};
use crate::bench::timing::{Round, Shape, Work};
use crate::bench::waits::Condition;
use circle::Circle;
use crowd::Crowd;
use plain::Payload;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use threads::{HandleCalls, Waits};
use upbeat::Node;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "call";

/// The calls of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Calls one after another, from a node of another process.
    Shared(Payload, Policy),
    /// Calls one after another, from a node of another thread.
    Local(Payload, Policy),
    /// Many concurrent calls.
    Flight(Policy),
    /// Messages one after another over a bare unix socket; both sides poll the socket.
    Socket,
    /// Calls one after another, from a node of another process that shares no memory.
    Stream(Payload, Policy),
    /// Calls one after another, from a thread that has no node.
    Handle(Waits),
    /// Calls one after another, to a node with many idle sessions.
    Crowd,
    /// Calls in a ring of so many nodes, each of which calls the next.
    Circle(usize, Policy),
}

/// A case: its calls, and its path.
struct Case {
    path: String,
    about: String,
    kind: Kind,
}

/// Returns all cases in the order in which they are measured. A baseline precedes the cases that are compared
/// with it.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |path: String, about: String, kind| cases.push(Case { path, about, kind });
    for policy in Policy::ALL {
        let word = policy.word();
        for payload in Payload::ALL {
            if policy != Policy::Polling && !matches!(payload, Payload::Null | Payload::KiB1) {
                continue;
            }
            let (size, what) = (payload.word(), payload.about());
            let path = format!("{size}/shared/{word}");
            let about = format!("{what} to another process, both {word}");
            add(path, about, Kind::Shared(payload, policy));
            if matches!(payload, Payload::Null | Payload::KiB1) {
                let path = format!("{size}/local/{word}");
                let about = format!("{what} to another thread, both {word}");
                add(path, about, Kind::Local(payload, policy));
            }
        }
        let path = format!("null/shared/{word}/{}", flight::CALLS);
        let about = format!("null call, {} of them at once, both {word}", flight::CALLS);
        add(path, about, Kind::Flight(policy));
    }
    let about = "round trip of 8 bytes over a unix stream socket, both sides polling";
    add("unix/polling".to_owned(), about.to_owned(), Kind::Socket);
    for (payload, policy) in [
        (Payload::Null, Policy::Polling),
        (Payload::KiB1, Policy::Polling),
        (Payload::Null, Policy::Sleeping),
        (Payload::Null, Policy::Adaptive),
    ] {
        let (size, what, word) = (payload.word(), payload.about(), policy.word());
        let about = format!("{what} to another process over a byte stream, both {word}");
        add(format!("{size}/stream/{word}"), about, Kind::Stream(payload, policy));
    }
    let about = "null call from a blocking handle, in a thread that has no node";
    add("null/shared/handle".to_owned(), about.to_owned(), Kind::Handle(Waits::Blocking));
    let about = "null call through a handle, awaited in a task of tokio";
    add("null/shared/awaited".to_owned(), about.to_owned(), Kind::Handle(Waits::InTokio));
    let about = format!("null call to a node with {} idle sessions", crowd::IDLE);
    add(format!("null/shared/idle{}", crowd::IDLE), about, Kind::Crowd);
    for policy in [Policy::Sleeping, Policy::Adaptive] {
        for nodes in [2, 8] {
            let path = format!("ring{nodes}/shared/{}", policy.word());
            let about = format!("{nodes} {} nodes on 2 CPUs, each calling the next", policy.word());
            add(path, about, Kind::Circle(nodes, policy));
        }
    }
    cases
}

/// Returns the cases and their descriptions.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path, case.about)).collect()
}

/// Returns the chosen cases, and the cases that they are compared with.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let [socket] = ground::receive(pair.control())?;
    let all = cases();
    let baselines: Vec<String> =
        all.iter().filter(|case| wanted(&case.path)).filter_map(baseline).collect();
    let stage = Rc::new(Stage { scratch: pair.scratch().to_owned(), cpus: pair.cpus, socket });
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in all {
        if wanted(&case.path) || baselines.contains(&case.path) {
            let baseline = baseline(&case);
            let (stage, doing) = (Rc::clone(&stage), None);
            subjects.push(Box::new(CallSubject { case, baseline, stage, doing }));
        }
    }
    Ok(subjects)
}

/// Returns the path of the case that this one is compared with.
fn baseline(case: &Case) -> Option<String> {
    let of_polling = || Some("null/shared/polling".to_owned());
    match case.kind {
        Kind::Handle(Waits::Blocking) | Kind::Crowd | Kind::Flight(Policy::Polling) => of_polling(),
        Kind::Handle(Waits::InTokio) => Some("null/shared/handle".to_owned()),
        Kind::Stream(_, Policy::Polling) => Some("unix/polling".to_owned()),
        Kind::Circle(8, policy) => Some(format!("ring2/shared/{}", policy.word())),
        _ => None,
    }
}

/// The things that the cases of this process share. No two cases share a node: a session of another case would change
/// the work that a node does before it sleeps.
struct Stage {
    scratch: PathBuf,
    cpus: Cpus,
    /// A bare stream to the second process.
    socket: OwnedFd,
}

/// The state of a subject after its first round has begun.
enum Doing {
    Shared(plain::Shared),
    Socket,
    Local(plain::Local),
    Handle(HandleCalls),
    Crowd(Crowd),
    Circle(Circle),
}

/// A case as a subject.
struct CallSubject {
    case: Case,
    baseline: Option<String>,
    stage: Rc<Stage>,
    doing: Option<Doing>,
}

impl CallSubject {
    fn begin(&self, pair: &Pair) -> Result<Doing, BenchError> {
        let (scratch, cpus): (&Path, Cpus) = (&self.stage.scratch, self.stage.cpus);
        let peer = host_name(&self.case.path);
        Ok(match self.case.kind {
            Kind::Shared(_, policy) | Kind::Flight(policy) => {
                Doing::Shared(plain::Shared::new(scratch, &peer, policy)?)
            }
            Kind::Stream(_, policy) => Doing::Shared(plain::Shared::apart(scratch, &peer, policy)?),
            Kind::Socket => Doing::Socket,
            Kind::Local(_, policy) => Doing::Local(plain::Local::new(&peer, policy, cpus.server)?),
            Kind::Handle(waits) => Doing::Handle(HandleCalls::new(scratch, peer, waits)),
            Kind::Crowd => Doing::Crowd(Crowd::new(scratch, peer, pair.peer_pid())?),
            Kind::Circle(nodes, policy) => {
                Doing::Circle(Circle::start(nodes, policy, scratch, cpus, 0)?)
            }
        })
    }
}

impl Doing {
    /// Returns the node that calls, if one node does.
    fn node(&self) -> Option<&Node> {
        match self {
            Doing::Shared(shared) => Some(shared.node()),
            Doing::Crowd(crowd) => Some(crowd.node()),
            Doing::Local(_) | Doing::Socket | Doing::Handle(_) | Doing::Circle(_) => None,
        }
    }
}

/// Returns the name of the node that serves a case.
fn host_name(case: &str) -> String {
    format!("bench/{case}")
}

impl Subject for CallSubject {
    fn case(&self) -> &str {
        &self.case.path
    }

    fn shape(&self) -> Shape {
        match self.case.kind {
            Kind::Flight(_) => Shape::Bursts(flight::BURST),
            Kind::Circle(..) => Shape::Bursts(circle::BURST),
            _ => Shape::Each,
        }
    }

    fn floor(&self) -> Floor {
        match self.case.kind {
            Kind::Circle(..) => Floor::Nothing,
            Kind::Shared(_, Policy::Sleeping | Policy::Adaptive)
            | Kind::Stream(_, Policy::Sleeping | Policy::Adaptive)
            | Kind::Local(_, Policy::Sleeping | Policy::Adaptive) => Floor::Eventfds,
            _ => Floor::Lines,
        }
    }

    fn rate(&self) -> Rate {
        match self.case.kind {
            Kind::Flight(_) | Kind::Circle(..) => Rate::Operations,
            _ => Rate::Nothing,
        }
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn condition(&self) -> Condition {
        match self.case.kind {
            Kind::Shared(_, policy) | Kind::Local(_, policy) | Kind::Stream(_, policy) => {
                policy.condition()
            }
            // Of many calls at once, most find both nodes awake whatever the nodes do in between.
            Kind::Flight(Policy::Polling) => Condition::Polling,
            Kind::Handle(Waits::Blocking) => Condition::Handle,
            Kind::Crowd => Condition::Crowded(crowd::IDLE as u64),
            Kind::Circle(_, Policy::Sleeping) => Condition::Ring,
            Kind::Flight(_) | Kind::Circle(..) | Kind::Socket | Kind::Handle(Waits::InTokio) => {
                Condition::Any
            }
        }
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let doing = match self.doing.take() {
            Some(doing) => doing,
            None => self.begin(pair)?,
        };
        let (kind, stage) = (self.case.kind, &self.stage);
        let doing = self.doing.insert(doing);
        if let (Doing::Local(local), Kind::Local(payload, _)) = (&*doing, kind) {
            return local.round(payload, work);
        }
        let job = Job::Case(self.case.path.clone());
        match doing {
            Doing::Socket => {
                return pair.round(job, work, |_| ask(&stage.socket, work, RecvFlags::DONTWAIT));
            }
            Doing::Circle(circle) => {
                let round = pair.round(job, work, |ground| circle.round(ground))?;
                return Ok(round.with_callee(hosts::published(&pair.ground)));
            }
            _ => {}
        }
        if let Doing::Crowd(crowd) = doing
            && !crowd.is_there()
        {
            pair.round(job.clone(), work, |_| crowd.gather())?;
        }
        let node = doing.node().cloned();
        watched(pair, job, work, node.as_ref(), |_| match (doing, kind) {
            (Doing::Shared(shared), Kind::Shared(payload, _) | Kind::Stream(payload, _)) => {
                shared.round(payload, work)
            }
            (Doing::Shared(shared), _) => shared.flight(work),
            (Doing::Handle(handle), _) => handle.round(work),
            (Doing::Crowd(crowd), _) => crowd.round(work),
            (Doing::Local(_) | Doing::Socket | Doing::Circle(_), _) => {
                Err(BenchError::protocol("a case of other nodes beside those of two processes"))
            }
        })
    }

    fn finish(&mut self, row: &mut Row) {
        if let Some(Doing::Crowd(crowd)) = &self.doing {
            row.sizes.bytes_per_session = crowd.bytes_per_session();
        }
    }
}

/// The second process's nodes, each of which serves one case and begins with its first round.
pub(crate) struct CallServer {
    hosts: HashMap<String, Host>,
    /// A bare stream to the first process.
    socket: OwnedFd,
    circles: HashMap<String, Circle>,
    scratch: PathBuf,
    cpus: Cpus,
}

/// Creates the second process's side.
pub(crate) fn server(
    control: &Control,
    scratch: &Path,
    cpus: Cpus,
) -> Result<CallServer, BenchError> {
    crowd::allow_descriptors()?;
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(BenchError::system("socketpair"))?;
    control.send_with(&Offer { segments: Vec::new() }, &[theirs.as_fd()])?;
    let (hosts, circles, scratch) = (HashMap::new(), HashMap::new(), scratch.to_owned());
    Ok(CallServer { hosts, socket, circles, scratch, cpus })
}

impl CallServer {
    /// Serves a round of a case by its own node.
    fn serve(&mut self, case: &str, policy: Policy, ground: &Ground) -> Result<(), BenchError> {
        if !self.hosts.contains_key(case) {
            let host = Host::new(&host_name(case), Some(&self.scratch), policy, None)?;
            self.hosts.insert(case.to_owned(), host);
        }
        if let Some(host) = self.hosts.get(case) {
            host.watched_round(ground);
        }
        Ok(())
    }
}

impl Server for CallServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let unknown = || BenchError::protocol(format!("no call `{case}` needs a second process"));
        let kind = cases().into_iter().find(|one| one.path == case).map(|one| one.kind);
        match kind.ok_or_else(unknown)? {
            Kind::Socket => answer(&self.socket, work, RecvFlags::DONTWAIT)?,
            Kind::Shared(_, policy) | Kind::Stream(_, policy) | Kind::Flight(policy) => {
                self.serve(case, policy, ground)?;
            }
            Kind::Handle(_) | Kind::Crowd => self.serve(case, Policy::Polling, ground)?,
            Kind::Circle(nodes, policy) => {
                if !self.circles.contains_key(case) {
                    let circle = Circle::start(nodes, policy, &self.scratch, self.cpus, 1)?;
                    self.circles.insert(case.to_owned(), circle);
                }
                self.circles.get(case).ok_or_else(unknown)?.answer(ground)?;
            }
            Kind::Local(..) => return Err(unknown()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{baseline, cases};
    use std::collections::BTreeSet;

    #[test]
    fn all_documented_cases_exist() {
        let all: BTreeSet<String> = cases().into_iter().map(|case| case.path).collect();
        assert_eq!(all.len(), cases().len(), "no path twice");
        for promised in [
            "null/local/polling",
            "null/shared/polling",
            "null/shared/sleeping",
            "null/shared/adaptive",
            "16B/shared/polling",
            "64B/shared/polling",
            "256B/shared/polling",
            "1KiB/shared/polling",
            "1KiB/shared/sleeping",
            "1KiB-reference/shared/polling",
            "1KiB-vec/shared/polling",
            "4KiB/shared/polling",
            "null/stream/polling",
            "null/shared/polling/64",
            "null/shared/handle",
            "null/shared/awaited",
            "null/shared/idle1000",
            "ring2/shared/sleeping",
            "ring8/shared/sleeping",
        ] {
            assert!(all.contains(promised), "{promised}");
        }
    }

    #[test]
    fn a_baseline_precedes_the_cases_that_are_compared_with_it() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            if let Some(base) = baseline(case) {
                assert!(all[..at].iter().any(|one| one.path == base), "{}", case.path);
            }
        }
    }
}
