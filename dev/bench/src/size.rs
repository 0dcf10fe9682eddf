//! Round trips by the size of the message: figure 2 of the paper on Express Messages, measured again.
//!
//! A message goes there and comes back, between two polling nodes that send optimistically, two
//! that send conservatively, and, for sizes of the figure, two that sleep: the paper's
//! upcall corresponds to a wake here.

mod tell;

pub(crate) use tell::{lines, plot, tell};

use crate::sizes::{KIB, MIB, possible, size_word};
use std::path::Path;
use std::rc::Rc;
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Caller, Flow, Host, Policy, watched};
use upbeat_cli::bench::message::Message;
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::report::Row;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_cli::bench::waits::Condition;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "size";

/// Sizes around every limit: of a head's line (40), of a short message in the paper (100) and here (104),
/// of a page, of the lanes; and between them.
const SIZES: &[usize] = &[
    0,
    8,
    40,
    100,
    104,
    105,
    200,
    500,
    1000,
    2000,
    4 * KIB,
    8 * KIB,
    16 * KIB,
    64 * KIB,
    65 * KIB,
    256 * KIB,
    MIB,
    4 * MIB,
    16 * MIB,
    64 * MIB,
];

/// The longest message in the paper's figure: those of about a page are not in it.
const FIGURE_MAX: usize = 2000;
/// Longer messages are sent one by one: batches would gain nothing, and the first round is short.
const BATCHED_MAX: usize = 256 * KIB;

/// The nodes between which messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// Two nodes that poll.
    Polling(Flow),
    /// Two nodes that sleep, and send optimistically.
    Asleep,
}

impl Nodes {
    const ALL: [Nodes; 3] =
        [Nodes::Polling(Flow::Optimistic), Nodes::Polling(Flow::Conservative), Nodes::Asleep];

    fn word(self) -> &'static str {
        match self {
            Nodes::Polling(flow) => flow.word(),
            Nodes::Asleep => "asleep",
        }
    }

    fn policy(self) -> Policy {
        if self == Nodes::Asleep { Policy::Sleeping } else { Policy::Polling }
    }

    fn flow(self) -> Flow {
        match self {
            Nodes::Polling(flow) => flow,
            Nodes::Asleep => Flow::Optimistic,
        }
    }

    fn host(self) -> String {
        format!("bench-size/{}", self.word())
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    bytes: usize,
    nodes: Nodes,
}

impl Case {
    fn path(self) -> String {
        format!("{}/{}", size_word(self.bytes), self.nodes.word())
    }

    fn about(self) -> String {
        let (bytes, word) = (self.bytes, self.nodes.word());
        match self.nodes {
            Nodes::Polling(_) => format!("{bytes} bytes there and back, both polling, {word}"),
            Nodes::Asleep => format!("{bytes} bytes there and back, both sleeping"),
        }
    }
}

/// Returns all cases: a baseline stands before the cases that are compared with it.
fn cases() -> Vec<Case> {
    let all = possible(SIZES).into_iter();
    let all = all.flat_map(|bytes| Nodes::ALL.map(|nodes| Case { bytes, nodes }));
    all.filter(|case| case.nodes != Nodes::Asleep || case.bytes <= FIGURE_MAX).collect()
}

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path(), case.about())).collect()
}

/// Returns the wanted cases.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let Done = pair.control().receive()?;
    let mut callers: Vec<(Nodes, Rc<Caller>)> = Vec::new();
    for nodes in Nodes::ALL {
        let name = format!("bench-size-caller/{}", nodes.word());
        let (policy, flow) = (nodes.policy(), nodes.flow());
        let caller = Caller::flowing(&name, &nodes.host(), pair.scratch(), policy, flow)?;
        callers.push((nodes, Rc::new(caller)));
    }
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in cases().into_iter().filter(|case| wanted(&case.path())) {
        let baseline = Case { nodes: Nodes::Polling(Flow::Optimistic), ..case };
        let baseline = Some(baseline).filter(|base| *base != case).map(Case::path);
        if let Some((_, caller)) = callers.iter().find(|(nodes, _)| *nodes == case.nodes) {
            let (path, caller) = (case.path(), Rc::clone(caller));
            let message = Message::of(case.bytes);
            subjects.push(Box::new(Bounces { case, path, baseline, caller, message }));
        }
    }
    Ok(subjects)
}

/// A case as a subject.
struct Bounces {
    case: Case,
    path: String,
    baseline: Option<String>,
    caller: Rc<Caller>,
    message: Message,
}

impl Subject for Bounces {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        if self.case.bytes > BATCHED_MAX { Shape::Bursts(1) } else { Shape::Each }
    }

    fn floor(&self) -> Floor {
        if self.case.nodes == Nodes::Asleep { Floor::Nothing } else { Floor::Lines }
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn condition(&self) -> Condition {
        self.case.nodes.policy().condition()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let sent = self.message.clone();
        let job = Job::Case(self.path.clone());
        let caller = &self.caller;
        let mut back = None;
        let round = watched(pair, job, work, Some(caller.node()), |_| {
            caller.round(async |client| {
                let mut message = sent;
                let mut laps = work.laps();
                for messages in laps.by_ref() {
                    for _ in 0..messages {
                        // The message that came back goes out next.
                        message = client.bounce(message).await?;
                    }
                }
                back = Some(message);
                Ok(laps.round())
            })
        })?;
        if back.is_none_or(|back| back.bytes() != self.message.bytes()) {
            return Err(BenchError::protocol(format!("`{}` came back changed", self.path)));
        }
        Ok(round)
    }

    fn finish(&mut self, row: &mut Row) {
        row.sizes.bytes = Some(self.case.bytes as u64);
    }
}

/// The second process's nodes.
pub(crate) struct SizeServer {
    hosts: Vec<(Nodes, Host)>,
}

/// The second process's side.
pub(crate) fn server(
    control: &Control,
    _: &Ground,
    scratch: &Path,
) -> Result<SizeServer, BenchError> {
    let mut hosts = Vec::new();
    for nodes in Nodes::ALL {
        let host = Host::flowing(&nodes.host(), scratch, nodes.policy(), nodes.flow())?;
        hosts.push((nodes, host));
    }
    control.send(&Done)?;
    Ok(SizeServer { hosts })
}

impl Server for SizeServer {
    fn round(&mut self, case: &str, _: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let nodes = cases().into_iter().find(|one| one.path() == case).map(|one| one.nodes);
        match self.hosts.iter().find(|(one, _)| Some(*one) == nodes) {
            Some((_, host)) => host.watched_round(ground),
            None => return Err(BenchError::protocol(format!("nobody sends `{case}` back"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{SIZES, cases};
    use crate::sizes::possible;

    #[test]
    fn every_size_is_sent_in_every_way() {
        let paths: Vec<String> = cases().into_iter().map(|case| case.path()).collect();
        for bytes in possible(SIZES) {
            let ways = cases().into_iter().filter(|case| case.bytes == bytes).count();
            assert_eq!(ways, if bytes <= 2000 { 3 } else { 2 }, "{bytes}");
        }
        for promised in ["0B/optimistic", "104B/conservative", "105B/optimistic", "100B/asleep"] {
            assert!(paths.iter().any(|path| path == promised), "{promised}");
        }
        let mut once = paths.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), paths.len(), "no path twice");
    }
}
