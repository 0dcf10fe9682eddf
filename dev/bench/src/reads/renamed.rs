//! Cases of `upbeat bench read` under the names and the baselines of this benchmark.

use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::report::{Placement, Row};
use upbeat_cli::bench::rounds::{Floor, Rate, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_cli::bench::waits::Condition;

/// A subject of another benchmark.
pub(super) struct Renamed {
    pub(super) subject: Box<dyn Subject>,
    pub(super) path: String,
    pub(super) baseline: Option<String>,
}

impl Subject for Renamed {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        self.subject.shape()
    }

    fn floor(&self) -> Floor {
        self.subject.floor()
    }

    fn rate(&self) -> Rate {
        self.subject.rate()
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn condition(&self) -> Condition {
        self.subject.condition()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        self.subject.round(pair, work)
    }

    fn settle(&mut self, placement: Option<Placement>) {
        self.subject.settle(placement);
    }

    fn finish(&mut self, row: &mut Row) {
        self.subject.finish(row);
    }
}
