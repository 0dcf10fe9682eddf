//! The tables of the papers behind this runtime, with today's figures beside them.
//!
//! The measured cases are those of `bill`, and LYNX's nullop and bigop, for each of which a task is made.
//! The figures of the papers stand in `figures` and nowhere else; today's are of this run. A row
//! whose primitive is not here is absent.

pub(crate) mod figures;
pub(crate) mod report;
mod tables;
mod tell;

use crate::bill::{self, BillServer};
use report::Beside;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use tables::Table;
use upbeat::{CallError, Execution};
use upbeat_cli::bench::control::{Control, Job};
use upbeat_cli::bench::echo::EchoClient;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{self, Caller, Host, LocalHost, Policy, each, watched};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::report::Row;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_cli::bench::waits::Condition;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "papers";

/// The place of the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// In another process, on another CPU.
    Shared(Policy),
    /// In another process on the same CPU, where polling is useless.
    OneCpu,
}

/// The measurements that no other benchmark makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    big: bool,
    at: Where,
}

const CASES: &[Case] = &[
    Case { big: false, at: Where::Shared(Policy::Polling) },
    Case { big: false, at: Where::Shared(Policy::Sleeping) },
    Case { big: false, at: Where::OneCpu },
    Case { big: true, at: Where::Shared(Policy::Polling) },
    Case { big: true, at: Where::Shared(Policy::Sleeping) },
    Case { big: true, at: Where::OneCpu },
];

impl Case {
    fn path(self) -> String {
        let operation = if self.big { "bigop" } else { "nullop" };
        match self.at {
            Where::Shared(policy) => format!("{operation}/shared/{}", policy.word()),
            Where::OneCpu => format!("{operation}/shared/one-cpu"),
        }
    }

    /// Returns the name of the node that serves the case. No two cases share a node.
    fn callee(self) -> String {
        format!("bench-papers/{}", self.path())
    }

    fn policy(self) -> Policy {
        match self.at {
            Where::Shared(policy) => policy,
            Where::OneCpu => Policy::Sleeping,
        }
    }

    async fn calls(self, client: &EchoClient, work: Work) -> Result<Round, CallError> {
        match self.big {
            false => each(work, || client.null()).await,
            true => each(work, || client.bytes1000([7; 1000])).await,
        }
    }
}

/// Returns the cases that all tables need.
#[cfg(test)]
pub(crate) fn cases() -> Vec<String> {
    Table::ALL.into_iter().flat_map(Table::cases).map(str::to_owned).collect()
}

/// Returns the tables and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    Table::ALL.iter().map(|table| (table.path().to_owned(), table.about().to_owned())).collect()
}

/// Returns the cases that the wanted tables need.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let tables = Table::ALL.into_iter().filter(|table| wanted(table.path()));
    let cases: Vec<&str> = tables.flat_map(Table::cases).collect();
    let mut subjects = bill::subjects(pair, &|case| cases.contains(&case))?;
    for case in CASES.iter().filter(|case| cases.contains(&case.path().as_str())) {
        let name = format!("bench-papers-caller/{}", case.path());
        let caller = Caller::new(&name, &case.callee(), Some(pair.scratch()), case.policy())?;
        subjects.push(Box::new(CallSubject { case: *case, path: case.path(), caller }));
    }
    Ok(subjects)
}

/// Returns the lines for rows of one placement.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Beside> {
    let groups = Table::ALL.into_iter().flat_map(|table| table.groups(rows));
    groups.flatten().filter_map(|line| line.beside()).collect()
}

/// Prints the wanted tables as far as these rows make them.
pub(crate) fn tell(
    rows: &[Row],
    wanted: &dyn Fn(&str) -> bool,
    json: bool,
    to: &mut dyn Write,
) -> io::Result<()> {
    let tables: Vec<Table> = Table::ALL.into_iter().filter(|one| wanted(one.path())).collect();
    tell::tell(&tables, rows, json, to)
}

/// A case as a subject.
struct CallSubject {
    case: Case,
    path: String,
    caller: Caller,
}

impl Subject for CallSubject {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn condition(&self) -> Condition {
        match self.case.at {
            Where::Shared(policy) => policy.condition(),
            Where::OneCpu => Condition::OneCpu,
        }
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (case, caller) = (self.case, &self.caller);
        let job = Job::Case(self.path.clone());
        watched(pair, job, work, Some(caller.node()), |_| {
            caller.round(async |client| case.calls(client, work).await)
        })
    }
}

/// The second process's nodes: those of the bill, and those that make a task for each request.
pub(crate) struct PapersServer {
    bill: BillServer,
    hosts: HashMap<String, Host>,
    /// The nodes on the caller's CPU.
    neighbours: HashMap<String, LocalHost>,
}

/// The second process's side.
pub(crate) fn server(
    control: &Control,
    ground: &Ground,
    scratch: &Path,
    cpus: Cpus,
) -> Result<PapersServer, BenchError> {
    let (mut served, mut neighbours) = (HashMap::new(), HashMap::new());
    for case in CASES {
        let directory = scratch.to_owned();
        let make = move || {
            let builder = hosts::builder(&case.callee(), Some(&directory), case.policy());
            builder.execution(Execution::Trpc)
        };
        match case.at {
            Where::Shared(_) => {
                served.insert(case.path(), Host::of(make(), None)?);
            }
            Where::OneCpu => {
                neighbours.insert(case.path(), LocalHost::start_as(make, cpus.client)?);
            }
        }
    }
    // The other side is told last, when everything is ready.
    let bill = bill::server(control, ground, scratch)?;
    Ok(PapersServer { bill, hosts: served, neighbours })
}

impl Server for PapersServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        if let Some(host) = self.hosts.get(case) {
            host.watched_round(ground);
            return Ok(());
        }
        match self.neighbours.get(case) {
            Some(neighbour) => neighbour.watched_round(ground),
            None => self.bill.round(case, work, ground),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CASES, bill, list};
    use crate::papers::tables::Table;

    #[test]
    fn what_a_table_needs_is_measured() {
        let own = CASES.iter().map(|case| case.path());
        let billed = bill::list().into_iter().map(|(case, _)| case);
        let all: Vec<String> = own.chain(billed).collect();
        for table in Table::ALL {
            for case in table.cases() {
                assert!(all.iter().any(|one| one == case), "{case} of {}", table.path());
            }
        }
        let needed: Vec<&str> = Table::ALL.into_iter().flat_map(Table::cases).collect();
        assert!(CASES.iter().all(|case| needed.contains(&case.path().as_str())));
        let names: Vec<String> = list().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["lynx/times", "lynx/timeline", "nectar/breakdown"]);
    }
}
