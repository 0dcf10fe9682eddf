//! The costs of this machine without a library: the floors below all other figures.
//!
//! Only the shared memory of lanes, and their ring, are Upbeat's code.

mod tools;
mod lines;
mod systems;
mod copies;

use crate::bench::control::{Control, Job};
use crate::bench::error::BenchError;
use crate::bench::ground::Ground;
use crate::bench::pair::{Pair, Server};
use crate::bench::rounds::{Floor, Rate, Subject};
use crate::bench::timing::{Round, Shape, Work};
use std::cell::RefCell;
use std::rc::Rc;
use tools::{Limit, Tools};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "limits";

/// Returns all limits in the order in which they are measured.
fn limits() -> impl Iterator<Item = &'static Limit> {
    lines::LIMITS.iter().chain(systems::LIMITS).chain(copies::LIMITS)
}

/// Returns the cases and their descriptions.
pub(crate) fn list() -> Vec<(String, String)> {
    limits().map(|limit| (limit.case.to_owned(), limit.about.to_owned())).collect()
}

/// Returns the chosen cases as subjects of this pair.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let tools = Rc::new(RefCell::new(Tools::make(pair.control(), pair.cpus)?));
    let subject = |limit| Box::new(LimitSubject { limit, tools: Rc::clone(&tools) });
    Ok(limits().filter(|one| wanted(one.case)).map(|one| subject(one) as Box<_>).collect())
}

/// Creates the second process's side.
pub(crate) fn server(control: &Control, _: &Ground) -> Result<impl Server + use<>, BenchError> {
    Ok(LimitServer { tools: Tools::join(control)? })
}

/// A limit as a subject.
struct LimitSubject {
    limit: &'static Limit,
    tools: Rc<RefCell<Tools>>,
}

impl Subject for LimitSubject {
    fn case(&self) -> &str {
        self.limit.case
    }

    fn shape(&self) -> Shape {
        self.limit.shape
    }

    fn floor(&self) -> Floor {
        self.limit.floor
    }

    fn rate(&self) -> Rate {
        self.limit.rate
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let mut tools = self.tools.borrow_mut();
        if self.limit.server.is_none() {
            return (self.limit.client)(&mut tools, &mut pair.ground, work);
        }
        let job = Job::Case(self.limit.case.to_owned());
        pair.round(job, work, |ground| (self.limit.client)(&mut tools, ground, work))
    }
}

/// The second process's tools.
struct LimitServer {
    tools: Tools,
}

impl Server for LimitServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let server = limits().find(|limit| limit.case == case).and_then(|limit| limit.server);
        let Some(server) = server else {
            return Err(BenchError::protocol(format!("no limit `{case}` needs a second process")));
        };
        server(&mut self.tools, ground, work)
    }
}

#[cfg(test)]
mod tests {
    use super::{limits, list};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_paths_and_unique() {
        let names: BTreeSet<String> = list().into_iter().map(|(case, _)| case).collect();
        assert_eq!(names.len(), limits().count());
        for name in &names {
            assert!(name.split('/').all(|part| !part.is_empty()), "{name}");
        }
        for floor in ["line/tight", "line/paced", "eventfd/sleeping"] {
            assert!(names.contains(floor));
        }
    }
}
