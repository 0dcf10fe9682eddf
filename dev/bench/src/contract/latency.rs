//! A null call to a node that polls, and to nodes that compute.

use super::{Busy, grind};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use upbeat::poll_point;
use upbeat_cli::bench::control::Job;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{Caller, Host, Policy, each};
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// Pieces, of a microsecond each, that a task computes without a poll point.
const PIECES: u32 = 1000;

/// The node that is called.
const CALLEE: &str = "bench-contract/callee";

/// The work of the callee during the call; both nodes are set to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    Polling,
    Compute,
    BothCompute,
    Points,
    Task,
}

impl Calls {
    pub(super) const ALL: [Calls; 5] =
        [Calls::Polling, Calls::Compute, Calls::BothCompute, Calls::Points, Calls::Task];

    pub(super) fn path(self) -> &'static str {
        match self {
            Calls::Polling => "null/polling",
            Calls::Compute => "null/compute",
            Calls::BothCompute => "null/both-compute",
            Calls::Points => "null/poll-points",
            Calls::Task => "null/task",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Calls::Polling => "a call of nothing to a node that has nothing to do, and polls",
            Calls::Compute => "the same to a node that computes on another thread: an upcall",
            Calls::BothCompute => "the same where both nodes compute: two upcalls",
            Calls::Points => "the same to a task that computes with a poll point each microsecond",
            Calls::Task => "the same to a task that computes for a millisecond at a time",
        }
    }
}

/// The wanted cases.
pub(super) fn subjects(
    scratch: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let caller = Caller::new("bench-contract/caller", CALLEE, Some(scratch), Policy::Polling)?;
    let caller = Rc::new(caller);
    let cases = Calls::ALL.into_iter().filter(|case| wanted(case.path()));
    Ok(cases
        .map(|case| Box::new(CallSubject { case, caller: Rc::clone(&caller) }) as Box<dyn Subject>)
        .collect())
}

/// A case as a subject.
struct CallSubject {
    case: Calls,
    caller: Rc<Caller>,
}

impl Subject for CallSubject {
    fn case(&self) -> &str {
        self.case.path()
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn baseline(&self) -> Option<&str> {
        (self.case != Calls::Polling).then(|| Calls::Polling.path())
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let caller = &self.caller;
        pair.round(Job::Case(self.case.path().to_owned()), work, |_| {
            caller.round(async |client| {
                let both = self.case == Calls::BothCompute;
                let busy = both.then(|| Busy::begin(caller.node()));
                let round = each(work, || client.null()).await;
                if let Some(busy) = busy {
                    busy.end().await;
                }
                round
            })
        })
    }
}

/// The node that is called.
pub(super) struct Callee {
    host: Host,
}

impl Callee {
    pub(super) fn new(scratch: &Path) -> Result<Callee, BenchError> {
        let host = Host::new(CALLEE, Some(scratch), Policy::Polling, None)?;
        Ok(Callee { host })
    }

    /// Computes as the case says until the caller no longer needs it.
    pub(super) fn round(&self, case: Calls) {
        let Host { node, rest } = &self.host;
        match case {
            Calls::Polling => {
                self.host.round();
            }
            Calls::Compute | Calls::BothCompute => node.block_on(async {
                let busy = Busy::begin(node);
                rest.begun().await;
                busy.end().await;
            }),
            Calls::Points => node.block_on(async {
                while !rest.has_begun() {
                    grind(1);
                    poll_point().await;
                }
            }),
            Calls::Task => node.block_on(async {
                let stop = Rc::new(Cell::new(false));
                let stopped = Rc::clone(&stop);
                let task = node.spawn(async move {
                    while !stopped.get() {
                        grind(PIECES);
                        // Messages that have come are handled between two computations.
                        poll_point().await;
                    }
                });
                rest.begun().await;
                stop.set(true);
                // The task ends with its current computation.
                let _ = task.await;
            }),
        }
    }
}
