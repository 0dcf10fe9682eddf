//! Compares an operation outside benchmarks with the floor, in the same run.
//!
//! The second process only does the floor's other side; the operation may be between any
//! processes that run on the same two CPUs.

use crate::bench::error::BenchError;
use crate::bench::ground::Ground;
use crate::bench::pair::{self, Pair, Server};
use crate::bench::pin::{self, Cpus};
use crate::bench::progress::Progress;
use crate::bench::report::Row;
use crate::bench::rounds::{self, Floor, Schedule, Subject};
use crate::bench::timing::{Round, Shape, Work};
use std::time::Duration;

/// The name under which the second process is started.
pub(crate) const BENCH: &str = "yardstick";

/// The duration of a round of an operation.
const ROUND: Duration = Duration::from_millis(4);

/// The floor between two CPUs. While it exists, this thread runs on the first of them.
pub(crate) struct Yardstick {
    pair: Pair,
}

/// Returns the first two CPUs that this process may use.
pub(crate) fn cpus() -> Result<Cpus, BenchError> {
    Ok(Cpus::choose(None, &pin::allowed()?)?)
}

impl Yardstick {
    /// Creates the floor between two CPUs.
    pub(crate) fn between(cpus: Cpus) -> Result<Yardstick, BenchError> {
        Ok(Yardstick { pair: Pair::start(BENCH, cpus)? })
    }

    /// Measures an operation and the floor alternately. The first row is that of the most frequent
    /// placement.
    pub(crate) fn measure(
        &mut self,
        case: &'static str,
        total: Duration,
        operation: impl FnMut(Work) -> Result<Round, BenchError>,
    ) -> Result<Vec<Row>, BenchError> {
        let subjects: Vec<Box<dyn Subject + '_>> = vec![Box::new(Other { case, operation })];
        let schedule = Schedule { round: ROUND, total };
        let measured =
            rounds::alternate(case, &mut self.pair, subjects, schedule, &mut Progress::new())?;
        Ok(measured.rows)
    }

    /// Ends the second process.
    pub(crate) fn end(self) -> Result<(), BenchError> {
        self.pair.end()
    }
}

/// An operation outside benchmarks as a subject.
struct Other<F> {
    case: &'static str,
    operation: F,
}

impl<F: FnMut(Work) -> Result<Round, BenchError>> Subject for Other<F> {
    fn case(&self) -> &str {
        self.case
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Lines
    }

    fn round(&mut self, _: &mut Pair, work: Work) -> Result<Round, BenchError> {
        (self.operation)(work)
    }
}

/// Runs the second process. The process has its own group, so that only the first process receives ctrl-c
/// from the terminal.
pub(crate) fn serve(cpus: Cpus) -> Result<(), BenchError> {
    rustix::process::setpgid(None, None).map_err(BenchError::system("setpgid"))?;
    pair::serve(cpus, |_, _| Ok(Floors))
}

/// The second process's side, which has no cases of its own.
struct Floors;

impl Server for Floors {
    fn round(&mut self, case: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        Err(BenchError::protocol(format!("a yardstick has no case `{case}`")))
    }
}
