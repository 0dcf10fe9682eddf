//! A pool of worker processes, of which some die in the middle of a job. Each job ends exactly once, or is reported.
//!
//! The coordinator starts this program again for each worker, and calls the worker with one job after another. The
//! worker calls the coordinator back from the middle of each job. At two jobs the coordinator kills the worker then:
//! such a job may have had its effects, so it is reported instead of repeated, and another worker is started.
//!
//! Run it with `cargo run --release -p upbeat --example pool`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, Node, ServiceRef};

type Error = Box<dyn std::error::Error>;

const WORKERS: usize = 3;
const JOBS: u32 = 60;
const DEADLY_JOBS: [u32; 2] = [7, 31];

/// The service of each worker.
#[upbeat::service]
pub trait Worker {
    /// Does a job, and calls the coordinator back when half of the job is done.
    async fn run(&self, job: u32, caller: ServiceRef<CoordinatorClient>) -> Result<u64, String>;
}

/// The service of the coordinator, which workers call back.
#[upbeat::service]
pub trait Coordinator {
    /// Notes that a worker has done half of a job.
    async fn half_done(&self, worker: String, job: u32);
}

/// A worker, which calls its coordinator back by its node.
struct Squares(Node);

impl Worker for Squares {
    async fn run(&self, job: u32, caller: ServiceRef<CoordinatorClient>) -> Result<u64, String> {
        let caller = caller.connect(&self.0).await.map_err(|error| error.to_string())?;
        let first = sum_of_squares(0, job / 2);
        caller.half_done(self.0.name(), job).await.map_err(|error| error.to_string())?;
        Ok(first + sum_of_squares(job / 2, job))
    }
}

fn sum_of_squares(from: u32, below: u32) -> u64 {
    (from..below).map(|n| u64::from(n).pow(2)).sum()
}

/// The pool. The handlers and tasks of a node share one thread, so a `RefCell` is enough.
#[derive(Default)]
struct Pool {
    program: String,
    waiting: RefCell<VecDeque<u32>>,
    ended: RefCell<BTreeMap<u32, Result<u64, CallError<String>>>>,
    half_done: RefCell<BTreeSet<u32>>,
    processes: RefCell<HashMap<String, Child>>,
}

impl Coordinator for Rc<Pool> {
    async fn half_done(&self, worker: String, job: u32) {
        assert!(self.half_done.borrow_mut().insert(job), "job {job} is run twice");
        if DEADLY_JOBS.contains(&job) {
            let process = self.processes.borrow_mut().remove(&worker);
            // Waiting for the process would stop the node, so another thread waits.
            upbeat::compute(|| process.map(|mut it| it.kill().and_then(|()| it.wait()))).await;
        }
    }
}

impl Pool {
    /// Starts the process of a worker, and connects to the worker.
    async fn start(&self, node: &Node, name: &str) -> Result<WorkerClient, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        let process = command.arg(name).env("UPBEAT_PROGRAM", &self.program).spawn()?;
        self.processes.borrow_mut().insert(name.to_owned(), process);
        Ok(node.connect(name).wait_for(Duration::from_secs(10)).await?)
    }

    fn next_job(&self) -> Option<u32> {
        self.waiting.borrow_mut().pop_front()
    }

    /// Gives jobs to one worker after another, until no job is left.
    async fn run_jobs(&self, node: &Node, place: usize) -> Result<(), Error> {
        let mut workers = 1;
        let mut worker = self.start(node, &format!("worker/{place}/1")).await?;
        while let Some(job) = self.next_job() {
            let outcome = worker.run(job, ServiceRef::here(node)).await;
            let unsent =
                matches!(outcome, Err(CallError::NotSent(_) | CallError::NotConnected { .. }));
            let is_lost = unsent || matches!(outcome, Err(CallError::Unknown(_)));
            if unsent {
                // The job has certainly not run, so another worker gets it.
                self.waiting.borrow_mut().push_front(job);
            } else {
                let before = self.ended.borrow_mut().insert(job, outcome);
                assert_eq!(before, None, "job {job} ends twice");
            }
            if is_lost {
                workers += 1;
                worker = self.start(node, &format!("worker/{place}/{workers}")).await?;
            }
        }
        Ok(())
    }
}

fn coordinate() -> Result<(), Error> {
    let program = format!("pool-{}", std::process::id());
    let waiting = RefCell::new((0..JOBS).collect());
    let pool = Rc::new(Pool { program: program.clone(), waiting, ..Pool::default() });
    let node = Node::builder("coordinator").program(&program).build()?;
    node.serve(CoordinatorServer::new(pool.clone()))?;

    node.block_on(upbeat::try_all((0..WORKERS).map(|place| pool.run_jobs(&node, place))))?;
    node.shut_down(Duration::from_secs(1));
    for process in pool.processes.borrow_mut().values_mut() {
        assert!(process.wait()?.success(), "a worker ends when its coordinator does");
    }

    let ended = pool.ended.borrow();
    let (done, reported): (Vec<_>, Vec<_>) = ended.iter().partition(|(_, end)| end.is_ok());
    for (job, end) in &reported {
        println!("job {job} is reported: {end:?}");
    }
    println!("{} of {JOBS} jobs are done, {} are reported", done.len(), reported.len());
    assert!(done.iter().all(|&(job, end)| *end == Ok(sum_of_squares(0, *job))), "wrong: {done:?}");
    assert!(reported.iter().map(|(job, _)| **job).eq(DEADLY_JOBS), "reported: {reported:?}");
    assert!(ended.keys().copied().eq(0..JOBS), "a job is missing");
    Ok(())
}

fn work(name: &str) -> Result<(), Error> {
    // A worker has one session, that with its coordinator, and ends with it.
    let node = Node::builder(name).on_lost(|_| std::process::exit(0)).build()?;
    node.serve(WorkerServer::new(Squares(node.clone())))?;
    node.block_on(std::future::pending())
}

fn main() -> Result<(), Error> {
    match std::env::args().nth(1) {
        None => coordinate(),
        Some(name) => work(&name),
    }
}
