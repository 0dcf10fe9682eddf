//! The contract of Express Messages: the cost of an upcall, and its benefit for a program that computes.
//!
//! A null call goes to a node that polls, to one that computes on another thread, and
//! to nodes that compute in a task, with poll points and without. Two programs of two nodes run by
//! turns under the contract and without. The node and its computation share one CPU, as in the
//! paper: each process is pinned. The paper's figures stand in `papers/figures`.

mod latency;
mod programs;
mod tell;

use latency::{Callee, Calls};
use programs::{Program, Side};
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use upbeat::{Compute, Node};
use upbeat_cli::bench::control::{Control, Done};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::rounds::Subject;
use upbeat_cli::bench::timing::Work;

pub(crate) use tell::{lines, tell};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "contract";

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    let calls = Calls::ALL.iter().map(|case| (case.path().to_owned(), case.about().to_owned()));
    let programs = Program::ALL.iter().map(|program| (program.path(), program.about()));
    calls.chain(programs).collect()
}

/// Returns the wanted cases.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let Done = pair.control().receive()?;
    let mut subjects = latency::subjects(pair.scratch(), wanted)?;
    let side = Rc::new(Side::first(pair.scratch())?);
    subjects.extend(programs::subjects(&side, wanted));
    Ok(subjects)
}

/// The second process's nodes.
pub(crate) struct ContractServer {
    callee: Callee,
    side: Side,
}

/// The second process's side.
pub(crate) fn server(control: &Control, scratch: &Path) -> Result<ContractServer, BenchError> {
    let (callee, side) = (Callee::new(scratch)?, Side::second(scratch)?);
    control.send(&Done)?;
    Ok(ContractServer { callee, side })
}

impl Server for ContractServer {
    fn round(&mut self, case: &str, work: Work, _: &mut Ground) -> Result<(), BenchError> {
        if let Some(calls) = Calls::ALL.into_iter().find(|calls| calls.path() == case) {
            self.callee.round(calls);
            return Ok(());
        }
        match Program::ALL.into_iter().find(|program| program.path() == case) {
            Some(program) => self.side.round(program, work).map(|_| ()),
            None => Err(BenchError::protocol(format!("nobody computes `{case}`"))),
        }
    }
}

/// Computes so many pieces, each of about a microsecond.
fn grind(pieces: u32) -> u64 {
    let mut lanes: [u64; 8] = black_box([1, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..pieces * 400 {
        for lane in &mut lanes {
            *lane ^= lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
    }
    black_box(lanes).iter().fold(0, |sum, lane| sum ^ lane)
}

/// A computation beside a node that ends when it is told to.
struct Busy {
    stop: Arc<AtomicBool>,
    compute: Compute<()>,
}

impl Busy {
    fn begin(node: &Node) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let compute = node.compute(move || {
            while !told.load(Ordering::Relaxed) {
                grind(1);
            }
        });
        Busy { stop, compute }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.compute.await;
    }
}
