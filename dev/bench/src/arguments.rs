//! Null calls by the size of their arguments: as active messages, optimistically, as tasks,
//! and read in place.
//!
//! Two papers have such figures: figures 4-5 and 4-6 of the paper on StarMod, the second with a copy less, and
//! section 4.1.2 of the paper on Optimistic Active Messages. The called method reads every byte of its
//! arguments, so that no way of taking them leaves out what another does.

mod tell;

pub(crate) use tell::{lines, plot, tell};

use crate::execution::nodes::{Caller, ServingNode};
use crate::sizes::{KIB, MIB, possible, size_word};
use std::path::Path;
use std::rc::Rc;
use upbeat::Execution;
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::each;
use upbeat_cli::bench::message::{Lying, Message};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::report::Row;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "arguments";

/// The sizes of the paper's figures, and larger ones up to those that the lanes do not hold.
const SIZES: &[usize] =
    &[0, 2, 4, 8, 16, 32, 64, 128, 256, 512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB];

/// Bytes that are read in place begin with their count, which takes eight bytes of a frame.
const IN_PLACE_LEAST: usize = 8;

/// How the callee takes the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Copied, by a method with this execution.
    Copied(Execution),
    /// Read in place, optimistically.
    InPlace,
}

impl Way {
    const AM: Way = Way::Copied(Execution::Am);
    const ORPC: Way = Way::Copied(Execution::Orpc);
    const TRPC: Way = Way::Copied(Execution::Trpc);

    /// All ways. A way stands behind the one that it is compared with.
    const ALL: [Way; 4] = [Way::AM, Way::ORPC, Way::TRPC, Way::InPlace];

    fn execution(self) -> Execution {
        match self {
            Way::Copied(execution) => execution,
            Way::InPlace => Execution::Orpc,
        }
    }

    /// Returns the last word of a case.
    fn word(self) -> String {
        match self {
            Way::Copied(execution) => execution.to_string(),
            Way::InPlace => "in-place".into(),
        }
    }

    fn baseline(self) -> Option<Way> {
        match self {
            Way::AM => None,
            Way::Copied(_) => Some(Way::AM),
            Way::InPlace => Some(Way::ORPC),
        }
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    bytes: usize,
    way: Way,
}

impl Case {
    fn path(self) -> String {
        format!("{}/{}", size_word(self.bytes), self.way.word())
    }

    fn about(self) -> String {
        match (self.bytes, self.way) {
            (bytes, Way::Copied(execution)) => {
                format!("a call with {bytes} bytes, executed as {execution}")
            }
            (bytes, Way::InPlace) => format!("a call with {bytes} bytes that stay where they lie"),
        }
    }
}

fn cases() -> Vec<Case> {
    let all = possible(SIZES).into_iter();
    let all = all.flat_map(|bytes| Way::ALL.map(|way| Case { bytes, way }));
    all.filter(|case| case.way != Way::InPlace || case.bytes >= IN_PLACE_LEAST).collect()
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
    let caller = Rc::new(Caller::new(pair.scratch())?);
    let cases = cases().into_iter().filter(|case| wanted(&case.path()));
    let subject = |case: Case| {
        let baseline = case.way.baseline().map(|way| Case { way, ..case }.path());
        let (path, message) = (case.path(), Message::of(case.bytes));
        Box::new(Calls { case, path, baseline, message, caller: Rc::clone(&caller) })
            as Box<dyn Subject>
    };
    Ok(cases.map(subject).collect())
}

/// A case as a subject.
struct Calls {
    case: Case,
    path: String,
    baseline: Option<String>,
    message: Message,
    caller: Rc<Caller>,
}

impl Subject for Calls {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Lines
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (caller, way, message) = (&self.caller, self.case.way, &self.message);
        pair.round(Job::Case(self.path.clone()), work, |_| {
            caller.round(way.execution(), async |_, client| match way {
                Way::Copied(_) => each(work, || client.take(message.clone())).await,
                Way::InPlace => {
                    let lying = Lying::of(message);
                    each(work, || client.take_there(lying.clone())).await
                }
            })
        })
    }

    fn finish(&mut self, row: &mut Row) {
        row.sizes.bytes = Some(self.case.bytes as u64);
    }
}

/// The second process's nodes.
pub(crate) struct ArgumentsServer {
    nodes: Vec<ServingNode>,
}

/// The second process's side.
pub(crate) fn server(control: &Control, scratch: &Path) -> Result<ArgumentsServer, BenchError> {
    let nodes = ServingNode::all(scratch)?;
    control.send(&Done)?;
    Ok(ArgumentsServer { nodes })
}

impl Server for ArgumentsServer {
    fn round(&mut self, path: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        let case = cases().into_iter().find(|case| case.path() == path);
        let case = case.ok_or_else(|| BenchError::protocol(format!("nobody serves `{path}`")))?;
        ServingNode::of(&self.nodes, case.way.execution())?.idle_round();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, Way, cases};

    #[test]
    fn every_size_is_taken_in_every_way_behind_what_it_is_compared_with() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            if let Some(way) = case.way.baseline() {
                assert!(all[..at].contains(&Case { way, ..*case }), "{}", case.path());
            }
        }
        let ways = |bytes: usize| all.iter().filter(|case| case.bytes == bytes).count();
        assert_eq!([0, 2, 8, 1024, 1 << 20].map(ways), [3, 3, 4, 4, 4]);
        assert!(all.iter().any(|case| case.path() == "1024B/in-place"));
        assert_eq!(Way::ALL.map(Way::word), ["am", "orpc", "trpc", "in-place"]);
    }
}
