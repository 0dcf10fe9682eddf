//! The tables of the papers behind this runtime, with today's figures beside them.
//!
//! The measured cases are those of `call` and `bill`, and calls with the payload of LYNX's bigop.
//! The figures of the papers stand in `figures` and nowhere else; today's are of this run. A row
//! whose primitive is not here is absent.

pub(crate) mod figures;
mod tables;
mod tell;

use crate::bill::{self, BillServer};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tables::Table;
use upbeat::CallError;
use upbeat_cli::bench::control::{Control, Job};
use upbeat_cli::bench::echo::EchoClient;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Caller, LocalHost, Policy, each, host_name};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::report::Row;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "papers";

/// The node of the second process that shares the caller's CPU.
const NEIGHBOUR: &str = "bench-papers/neighbour";

/// The place of the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// In another process, on another CPU.
    Shared(Policy),
    /// In another process on the same CPU, where polling is useless.
    OneCpu,
    /// In another thread, on another CPU.
    Local(Policy),
}

/// The measurements that no other benchmark makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    big: bool,
    at: Where,
}

const CASES: &[Case] = &[
    Case { big: true, at: Where::Shared(Policy::Polling) },
    Case { big: true, at: Where::Shared(Policy::Sleeping) },
    Case { big: true, at: Where::Local(Policy::Polling) },
    Case { big: false, at: Where::OneCpu },
    Case { big: true, at: Where::OneCpu },
];

impl Case {
    fn path(self) -> String {
        let operation = if self.big { "bigop" } else { "nullop" };
        match self.at {
            Where::Shared(policy) => format!("{operation}/shared/{}", policy.word()),
            Where::OneCpu => format!("{operation}/shared/one-cpu"),
            Where::Local(policy) => format!("{operation}/local/{}", policy.word()),
        }
    }

    fn policy(self) -> Policy {
        match self.at {
            Where::Shared(policy) | Where::Local(policy) => policy,
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
        let (cpus, scratch) = (pair.cpus, pair.scratch().to_owned());
        let (path, doing) = (case.path(), None);
        subjects.push(Box::new(CallSubject { case: *case, path, cpus, scratch, doing }));
    }
    Ok(subjects)
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
    cpus: Cpus,
    scratch: PathBuf,
    /// The nodes of a subject that has begun.
    doing: Option<(Caller, Option<LocalHost>)>,
}

impl CallSubject {
    fn begin(&self) -> Result<(Caller, Option<LocalHost>), BenchError> {
        let policy = self.case.policy();
        let local = format!("bench-papers-callee/{}", self.path);
        let (peer, host, directory) = match self.case.at {
            Where::Shared(_) => (host_name(policy), None, Some(self.scratch.as_path())),
            Where::OneCpu => (NEIGHBOUR.to_owned(), None, Some(self.scratch.as_path())),
            Where::Local(_) => {
                let host = LocalHost::start(local.clone(), policy, self.cpus.server)?;
                (local, Some(host), None)
            }
        };
        let name = format!("bench-papers/{}", self.path);
        Ok((Caller::new(&name, &peer, directory, policy)?, host))
    }
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

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let doing = match self.doing.take() {
            Some(doing) => doing,
            None => self.begin()?,
        };
        let case = self.case;
        let (caller, host) = self.doing.insert(doing);
        let calls = || caller.round(async |client| case.calls(client, work).await);
        match host {
            Some(host) => host.round(calls),
            None => pair.round(Job::Case(self.path.clone()), work, |_| calls()),
        }
    }
}

/// The second process's nodes: those of the bill, and one on the caller's CPU.
pub(crate) struct PapersServer {
    bill: BillServer,
    neighbour: LocalHost,
}

/// The second process's side.
pub(crate) fn server(
    control: &Control,
    ground: &Ground,
    scratch: &Path,
    cpus: Cpus,
) -> Result<PapersServer, BenchError> {
    let (name, directory) = (NEIGHBOUR.to_owned(), Some(scratch.to_owned()));
    let neighbour = LocalHost::start_in(name, directory, Policy::Sleeping, cpus.client)?;
    // The other side is told last, when everything is ready.
    let bill = bill::server(control, ground, scratch)?;
    Ok(PapersServer { bill, neighbour })
}

impl Server for PapersServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        match CASES.iter().find(|one| one.path() == case).map(|one| one.at) {
            Some(Where::OneCpu) => self.neighbour.round(|| Ok(())),
            // The nodes that serve the bill's calls serve these as well.
            Some(Where::Shared(policy)) => {
                self.bill.round(&format!("null/shared/{}", policy.word()), work, ground)
            }
            Some(Where::Local(_)) => {
                Err(BenchError::protocol(format!("`{case}` needs no second process")))
            }
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
