//! Executions: one service run as active messages, optimistically, as tasks, and adaptively.
//!
//! A null call goes to a server that waits on a condition and to one whose task polls and yields,
//! as in the paper; a call whose bet is lost is compared with one that is a task at once; and many calls
//! go to servers of which a fraction loses its bets. The second process has a node for each execution, of
//! which a round drives one. The paper's figures stand in `papers/figures`.

pub(super) mod nodes;
mod tell;

use nodes::{Caller, Client, ServingNode, calls};
use std::path::Path;
use std::rc::Rc;
use upbeat::Execution;
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::each;
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::rounds::{Floor, Rate, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

pub(crate) use tell::{paper_lines, tell};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "execution";

/// The fractions of calls that lose their bets, in percent.
const PARTS: [u32; 5] = [0, 1, 10, 50, 100];

/// Calls in a burst.
const BURST: u32 = 2048;

/// The work of the server during the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// The server waits on a condition.
    Idle,
    /// A task polls and yields.
    Busy,
}

/// The called method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    /// Nothing.
    Null(Meanwhile),
    /// A null call, while a handler of another session works and yields.
    Beside,
    /// A method whose needs are not met, if true.
    Lost(bool),
    /// A method that yields once.
    Yields,
    /// A method whose first attempt is sent back, which the caller repeats.
    SentBack,
    /// Many calls at a time, of which this percentage loses its bets.
    Losing(u32),
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    called: Called,
    execution: Execution,
}

impl Case {
    /// Returns all cases. A case stands behind its baseline.
    fn all() -> Vec<Case> {
        use Execution::{Adaptive, Am, Orpc, Trpc, TrpcBack};
        let mut all = Vec::new();
        for meanwhile in [Meanwhile::Idle, Meanwhile::Busy] {
            let null = |execution| Case { called: Called::Null(meanwhile), execution };
            all.extend([Am, Orpc, Trpc, TrpcBack, Adaptive].map(null));
        }
        all.push(Case { called: Called::Beside, execution: Orpc });
        all.push(Case { called: Called::Lost(false), execution: Trpc });
        all.push(Case { called: Called::Lost(true), execution: Orpc });
        all.push(Case { called: Called::Yields, execution: Orpc });
        all.push(Case { called: Called::SentBack, execution: Orpc });
        for part in PARTS {
            let losing = |execution| Case { called: Called::Losing(part), execution };
            all.extend([Orpc, Trpc, Adaptive].map(losing));
        }
        all
    }

    fn path(self) -> String {
        let execution = self.execution;
        match self.called {
            Called::Null(Meanwhile::Idle) => format!("{execution}/idle"),
            Called::Null(Meanwhile::Busy) => format!("{execution}/busy"),
            Called::Beside => "beside/makes-way".into(),
            Called::Lost(false) => "lost/task-at-once".into(),
            Called::Lost(true) => "lost/rerun".into(),
            Called::Yields => "lost/continuation".into(),
            Called::SentBack => "lost/nack".into(),
            Called::Losing(part) => format!("losing/{part}/{execution}"),
        }
    }

    fn about(self) -> String {
        match self.called {
            Called::Null(Meanwhile::Idle) => "a call of nothing to a server that waits".into(),
            Called::Null(Meanwhile::Busy) => "the same to one whose task polls and yields".into(),
            Called::Beside => "the same while another's handler works and makes way".into(),
            Called::Lost(false) => "a call that is run as a task at once".into(),
            Called::Lost(true) => "one whose needs are not met, and that is run again so".into(),
            Called::Yields => "one that has to wait, and goes on so".into(),
            Called::SentBack => "one that is sent back, and sent again after a pause".into(),
            Called::Losing(part) => format!("64 calls at a time; {part} in 100 lose their bets"),
        }
    }

    /// Returns the case that this one is compared with.
    fn baseline(self) -> Option<Case> {
        let of = |execution| Some(Case { execution, ..self });
        match (self.called, self.execution) {
            (Called::Null(_), Execution::Am) | (Called::Lost(false), _) => None,
            (Called::Null(_), _) => of(Execution::Am),
            (Called::Beside, _) => Some(Case { called: Called::Null(Meanwhile::Idle), ..self }),
            (Called::Lost(true) | Called::Yields | Called::SentBack, _) => {
                Some(Case { called: Called::Lost(false), execution: Execution::Trpc })
            }
            (Called::Losing(_), Execution::Orpc) => None,
            (Called::Losing(_), _) => of(Execution::Orpc),
        }
    }
}

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    Case::all().into_iter().map(|case| (case.path(), case.about())).collect()
}

/// Returns the wanted cases.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let Done = pair.control().receive()?;
    let caller = Rc::new(Caller::new(pair.scratch())?);
    let cases = Case::all().into_iter().filter(|case| wanted(&case.path()));
    let subject = |case: Case| {
        let (path, baseline) = (case.path(), case.baseline().map(Case::path));
        Box::new(CaseSubject { case, path, baseline, caller: Rc::clone(&caller) })
            as Box<dyn Subject>
    };
    Ok(cases.map(subject).collect())
}

/// A case as a subject.
struct CaseSubject {
    case: Case,
    path: String,
    baseline: Option<String>,
    caller: Rc<Caller>,
}

impl Subject for CaseSubject {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        match self.case.called {
            Called::Losing(_) => Shape::Bursts(BURST),
            _ => Shape::Each,
        }
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn rate(&self) -> Rate {
        match self.case.called {
            Called::Losing(_) => Rate::Operations,
            _ => Rate::Nothing,
        }
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (caller, case) = (&self.caller, self.case);
        pair.round(Job::Case(self.path.clone()), work, |_| {
            if case.called == Called::Beside {
                let calls = async |_: &_, client: &Client| each(work, || client.null()).await;
                return caller.round_beside(case.execution, calls);
            }
            caller.round(case.execution, async |node, client| match case.called {
                Called::Null(_) | Called::Beside => each(work, || client.null()).await,
                Called::Lost(lacks) => each(work, || client.work(lacks)).await,
                Called::Yields => each(work, || client.yields()).await,
                Called::SentBack => each(work, || client.sent_back()).await,
                Called::Losing(part) => calls(node, client, work, part).await,
            })
        })
    }
}

/// The second process's nodes.
pub(crate) struct ExecutionServer {
    nodes: Vec<ServingNode>,
}

/// The second process's side.
pub(crate) fn server(control: &Control, scratch: &Path) -> Result<ExecutionServer, BenchError> {
    let nodes = ServingNode::all(scratch)?;
    control.send(&Done)?;
    Ok(ExecutionServer { nodes })
}

impl Server for ExecutionServer {
    fn round(&mut self, path: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        let case = Case::all().into_iter().find(|case| case.path() == path);
        let case = case.ok_or_else(|| BenchError::protocol(format!("nobody serves `{path}`")))?;
        let node = ServingNode::of(&self.nodes, case.execution)?;
        match case.called {
            Called::Null(Meanwhile::Busy) => node.busy_round(),
            _ => node.idle_round(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn a_baseline_is_an_earlier_case() {
        let all = Case::all();
        for (at, case) in all.iter().enumerate() {
            if let Some(baseline) = case.baseline() {
                assert!(all[..at].contains(&baseline), "{}", case.path());
            }
            assert!(all[..at].iter().all(|other| other.path() != case.path()));
        }
    }
}
