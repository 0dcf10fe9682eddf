//! The cases of all ways, as subjects and server of one pair of processes.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way};
use crate::names::is_wanted;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use upbeat_cli::bench::control::Job;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::rounds::{Floor, Rate, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "peers";

/// The name of Upbeat as a peer.
pub(crate) const OURS: &str = "upbeat";

/// The name of bare memory as a peer.
pub(crate) const LOAD: &str = "load";

/// The carrier for the comparison where Upbeat does not have the peer's: a user of one host would choose it.
pub(crate) const SHARED: &str = "shared";

/// The request to the second process before the first round of a way.
const OPEN: &str = "open";

/// Returns Upbeat's case that another is compared with: the same operation, with the same kind of waiting, over
/// the same carrier if Upbeat has it, else over shared memory.
pub(crate) fn baseline(ways: &[Way], way: &Way, op: Op) -> Option<String> {
    let over = |carrier| {
        let is_base =
            |one: &&Way| one.peer == OURS && one.mode == way.mode && one.carrier == carrier;
        ways.iter().find(is_base)
    };
    let ours = over(way.carrier).or_else(|| over(SHARED))?;
    (way.peer != OURS).then(|| ours.path(op))
}

/// Returns the chosen cases and Upbeat's that they are compared with: with the same kind of waiting, and polling.
pub(crate) fn chosen(ways: &[Way], names: &[String]) -> Vec<(usize, Op)> {
    let mut needed = Vec::new();
    for way in ways {
        for op in way.ops().filter(|&op| is_wanted(names, &way.path(op))) {
            needed.push(way.path(op));
            needed.extend(baseline(ways, way, op));
            let polling = ways.iter().find(|one| one.peer == OURS && one.mode == Mode::Polling);
            needed.extend(polling.map(|polling| polling.path(op)));
        }
    }
    let all = ways.iter().enumerate().flat_map(|(at, way)| way.ops().map(move |op| (at, op)));
    all.filter(|&(at, op)| needed.contains(&ways[at].path(op))).collect()
}

/// Returns the subjects of the chosen cases.
pub(crate) fn subjects<'a>(
    ways: &'a [Way],
    chosen: &[(usize, Op)],
    pair: &Pair,
) -> Vec<Box<dyn Subject + 'a>> {
    let stage = Rc::new(Stage {
        scratch: pair.scratch().to_owned(),
        cpus: pair.cpus,
        open: RefCell::default(),
    });
    let subject = |&(at, op): &(usize, Op)| {
        let way: &Way = &ways[at];
        let (path, baseline, stage) = (way.path(op), baseline(ways, way, op), Rc::clone(&stage));
        Box::new(Case { way, op, path, baseline, stage }) as Box<dyn Subject + 'a>
    };
    chosen.iter().map(subject).collect()
}

/// The calling sides that are open.
struct Stage {
    scratch: PathBuf,
    cpus: Cpus,
    open: RefCell<HashMap<String, Box<dyn Call>>>,
}

/// A case as a subject.
struct Case<'a> {
    way: &'a Way,
    op: Op,
    path: String,
    baseline: Option<String>,
    stage: Rc<Stage>,
}

impl Case<'_> {
    /// Opens the serving side, and then the calling side.
    fn open(&self, pair: &mut Pair) -> Result<Box<dyn Call>, BenchError> {
        let Way { carrier, mode, .. } = *self.way;
        let Stage { scratch, cpus, .. } = &*self.stage;
        let place = Place { scratch, cpus: *cpus, carrier, mode };
        let side = match self.way.open {
            Open::Own(call) | Open::Told(call) => call(&place),
            Open::Pair { call, .. } => {
                let job = Job::Case(format!("{OPEN} {}", self.way.id()));
                pair.round(job, Work::of(0, 0), |_| Ok(()))?;
                call(&place)
            }
        };
        side.map_err(|fault| named(&self.way.id(), fault))
    }
}

impl Subject for Case<'_> {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        match (self.op, self.way.open) {
            (Op::Stream, _) | (_, Open::Told(_)) => Shape::Bursts(self.way.burst),
            _ => Shape::Each,
        }
    }

    fn floor(&self) -> Floor {
        match (self.op, self.way.mode) {
            (Op::Stream | Op::Read | Op::ReadKiB1, _) => Floor::Nothing,
            (_, Mode::Polling) => Floor::Lines,
            (_, Mode::Sleeping | Mode::Adaptive) => Floor::Eventfds,
        }
    }

    fn rate(&self) -> Rate {
        if self.op == Op::Stream { Rate::Operations } else { Rate::Nothing }
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let id = self.way.id();
        if !self.stage.open.borrow().contains_key(&id) {
            let side = self.open(pair)?;
            self.stage.open.borrow_mut().insert(id.clone(), side);
        }
        let mut open = self.stage.open.borrow_mut();
        let Some(side) = open.get_mut(&id) else {
            return Err(BenchError::protocol(format!("{id} was not opened")));
        };
        let mut calls = || side.round(self.op, work).map_err(|fault| named(&self.path, fault));
        match self.way.open {
            Open::Own(_) | Open::Told(_) => calls(),
            Open::Pair { .. } => {
                let job = Job::Case(format!("{} {id}", self.op.word()));
                pair.round(job, work, |_| calls())
            }
        }
    }
}

/// Returns a peer's fault as an error of the benchmark.
fn named(case: &str, fault: Fault) -> BenchError {
    BenchError::Runtime { act: "a peer's benchmark", text: format!("{case}: {fault}") }
}

/// The sides that the second process serves.
pub(crate) struct Sides {
    ways: Vec<Way>,
    scratch: PathBuf,
    cpus: Cpus,
    open: HashMap<String, Box<dyn Serve>>,
}

impl Sides {
    /// Returns an empty set of sides.
    pub(crate) fn new(ways: Vec<Way>, scratch: &Path, cpus: Cpus) -> Sides {
        Sides { ways, scratch: scratch.to_owned(), cpus, open: HashMap::new() }
    }

    fn open(&mut self, id: &str) -> Result<(), BenchError> {
        let way = self.ways.iter().find(|way| way.id() == id);
        let Some(Way { carrier, mode, open: Open::Pair { serve, .. }, .. }) = way else {
            return Err(BenchError::protocol(format!("nothing serves `{id}`")));
        };
        let place = Place { scratch: &self.scratch, cpus: self.cpus, carrier, mode: *mode };
        let side = serve(&place).map_err(|fault| named(id, fault))?;
        self.open.insert(id.to_owned(), side);
        Ok(())
    }
}

impl Server for Sides {
    fn round(&mut self, case: &str, work: Work, _: &mut Ground) -> Result<(), BenchError> {
        let Some((word, id)) = case.split_once(' ') else {
            return Err(BenchError::protocol(format!("`{case}` is no case of a peer")));
        };
        if word == OPEN {
            return self.open(id);
        }
        let op = Op::ALL.into_iter().find(|op| op.word() == word);
        match (op, self.open.get_mut(id)) {
            (Some(op), Some(side)) => {
                side.round(op, work).map_err(|fault| named(&format!("{id}, {word}"), fault))
            }
            _ => Err(BenchError::protocol(format!("nothing serves `{case}`"))),
        }
    }
}
