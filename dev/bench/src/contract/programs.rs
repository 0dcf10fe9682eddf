//! Two programs of two nodes, each in a process, and three ways to compute in them.
//!
//! In `heap`, and with longer work in `heap4`, both nodes take work from a heap, fetch data for it from each other
//! and compute: when a request comes, its receiver computes as often as not. In `grid` each node relaxes its half of a
//! grid, red points and black ones by turns, and the nodes exchange their edges: both compute, then both communicate.
//! The results are checked.

mod grid;

use super::grind;
use grid::Half;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::{CallError, Counter, Node, poll_point};
use upbeat_cli::bench::control::Job;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{Policy, node, refused};
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::report::{Row, rounded};
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_memory::ticks::ticks;

/// The number of data items for a piece of work.
const FETCHES: u64 = 4;
/// Relaxations of one colour.
const PHASES: u64 = 10;

const FIRST: &str = "bench-contract/first";
const SECOND: &str = "bench-contract/second";

/// How a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// On another thread: the contract.
    Compute,
    /// In its task, with poll points: the contract too.
    Points,
    /// In its task, without poll points: messages wait until the task polls.
    PollingOnly,
}

/// The computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// `items` pieces of work of less than `below_us` microseconds, half of that on average.
    Heap { items: u64, below_us: u64 },
    /// A grid.
    Grid,
}

const HEAP: What = What::Heap { items: 64, below_us: 1000 };
const HEAP4: What = What::Heap { items: 32, below_us: 4000 };

/// The program, and how it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program {
    what: What,
    way: Way,
}

impl Program {
    pub(super) const ALL: [Program; 9] = [
        Program { what: HEAP, way: Way::Compute },
        Program { what: HEAP, way: Way::Points },
        Program { what: HEAP, way: Way::PollingOnly },
        Program { what: HEAP4, way: Way::Compute },
        Program { what: HEAP4, way: Way::Points },
        Program { what: HEAP4, way: Way::PollingOnly },
        Program { what: What::Grid, way: Way::Compute },
        Program { what: What::Grid, way: Way::Points },
        Program { what: What::Grid, way: Way::PollingOnly },
    ];

    pub(super) fn path(self) -> String {
        let way = match self.way {
            Way::Compute => "compute",
            Way::Points => "poll-points",
            Way::PollingOnly => "polling-only",
        };
        let what = match self.what {
            HEAP => "heap",
            What::Heap { .. } => "heap4",
            What::Grid => "grid",
        };
        format!("{what}/{way}")
    }

    pub(super) fn about(self) -> String {
        let program = match self.what {
            HEAP => "a program with a work heap",
            What::Heap { .. } => "a program with a heap of longer work",
            What::Grid => "a lock-step program",
        };
        let way = match self.way {
            Way::Compute => "that computes on another thread",
            Way::Points => "that computes with a poll point each microsecond",
            Way::PollingOnly => "that only polls, and not while it computes",
        };
        format!("{program} of two nodes {way}")
    }

    /// Returns the same program under the contract.
    fn contract(self) -> Program {
        Program { way: Way::Compute, ..self }
    }
}

/// The requests between the nodes of a program.
#[upbeat::service]
trait Parts {
    /// Returns the number of a piece of work, or 0 if none is left.
    async fn take(&self) -> u64;
    /// Returns data for a piece of work.
    async fn fetch(&self, page: u64) -> [u8; 1024];
    /// Takes the edge of the other half after a phase.
    async fn edge(&self, phase: u64, row: Vec<f64>);
    /// Waits until the first node has come this far too.
    async fn meet(&self, number: u64);
    /// Returns the number of messages that were polled, and of those that had to wake the node.
    async fn found(&self) -> (u64, u64);
}

/// A node's part.
struct Part {
    node: Node,
    left: Cell<u64>,
    edges: [RefCell<Vec<f64>>; 2],
    /// How far each node has come, and the wakers of those that wait for that.
    come: [Cell<u64>; 2],
    waiting: RefCell<Vec<Waker>>,
}

impl Part {
    fn found(&self) -> (u64, u64) {
        let counted = |counter| self.node.counted(counter);
        (counted(Counter::MessagesPolled), counted(Counter::MessagesWoken))
    }

    fn take_item(&self) -> u64 {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left
    }

    fn come(&self, who: usize, number: u64) {
        self.come[who].set(number);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn wait_for(&self, who: usize, number: u64) {
        poll_fn(|context| {
            if self.come[who].get() >= number {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Parts for Part {
    async fn take(&self) -> u64 {
        self.take_item()
    }

    async fn fetch(&self, page: u64) -> [u8; 1024] {
        [page as u8; 1024]
    }

    async fn edge(&self, phase: u64, row: Vec<f64>) {
        *self.edges[phase as usize % 2].borrow_mut() = row;
    }

    async fn meet(&self, number: u64) {
        self.come(1, number);
        self.wait_for(0, number).await;
    }

    async fn found(&self) -> (u64, u64) {
        self.found()
    }
}

/// A node of the two. The first has the heap, and the nodes meet there.
pub(super) struct Side {
    node: Node,
    part: Rc<Part>,
    peer: OnceCell<PartsClient>,
    first: bool,
    met: Cell<u64>,
    /// The sum of the first half, computed by one node alone.
    expected: OnceCell<f64>,
}

impl Side {
    pub(super) fn first(scratch: &Path) -> Result<Side, BenchError> {
        Side::new(FIRST, scratch)
    }

    pub(super) fn second(scratch: &Path) -> Result<Side, BenchError> {
        Side::new(SECOND, scratch)
    }

    fn new(name: &str, scratch: &Path) -> Result<Side, BenchError> {
        let node = node(name, Some(scratch), Policy::Polling)?;
        let part = Rc::new(Part {
            node: node.clone(),
            left: Cell::new(0),
            edges: Default::default(),
            come: Default::default(),
            waiting: RefCell::default(),
        });
        node.serve(PartsServer::shared(Rc::clone(&part))).map_err(refused("serving"))?;
        let (peer, met, expected) = (OnceCell::new(), Cell::new(0), OnceCell::new());
        Ok(Side { node, part, peer, first: name == FIRST, met, expected })
    }

    /// Runs this node's side of a round, in which the program runs once for each batch of one.
    pub(super) fn round(&self, program: Program, work: Work) -> Result<Done, BenchError> {
        self.node.block_on(async {
            if self.peer.get().is_none() {
                let peer = self.node.connect(if self.first { SECOND } else { FIRST }).await;
                let _ = self.peer.set(peer.map_err(refused("connecting"))?);
            }
            let Some(peer) = self.peer.get() else {
                return Err(BenchError::protocol("a peer is lost"));
            };
            let mut done = Done::default();
            // The first round, whose time is not known yet, is a short one.
            for _ in 0..(work.batches / work.size).max(1) {
                let ran = self.run(program, peer, &mut done).await;
                ran.map_err(refused("a call"))?;
            }
            if self.first && done.wrong != 0 {
                let text = format!("{} runs computed something else", done.wrong);
                return Err(BenchError::Runtime { act: "computing", text });
            }
            Ok(done)
        })
    }

    /// Runs the program once, from the time at which both nodes are there until both are done.
    async fn run(
        &self,
        program: Program,
        peer: &PartsClient,
        done: &mut Done,
    ) -> Result<(), CallError> {
        let half = match program.what {
            What::Grid => Some(Half::new(self.first)),
            What::Heap { items, .. } => {
                self.part.left.set(items);
                None
            }
        };
        if self.first && half.is_some() {
            self.expected.get_or_init(|| grid::alone(PHASES));
        }
        let of_grid = half.is_some();
        self.meet(peer).await?;
        let before = self.found(peer).await?;
        self.meet(peer).await?;
        let began = ticks();
        let sum = match (half, program.what) {
            (Some(half), _) => self.relax(program.way, half, peer).await?,
            (None, What::Heap { below_us, .. }) => self.heap(program.way, below_us, peer).await?,
            (None, What::Grid) => 0.0,
        };
        self.meet(peer).await?;
        done.runs.push(ticks().saturating_sub(began));
        let after = self.found(peer).await?;
        self.meet(peer).await?;
        done.polled += after.0 - before.0;
        done.woken += after.1 - before.1;
        done.wrong += u32::from(of_grid && self.expected.get().is_some_and(|one| *one != sum));
        Ok(())
    }

    /// Returns the counts of both nodes, to the first.
    async fn found(&self, peer: &PartsClient) -> Result<(u64, u64), CallError> {
        if !self.first {
            return Ok((0, 0));
        }
        let (theirs, ours) = (peer.found().await?, self.part.found());
        Ok((ours.0 + theirs.0, ours.1 + theirs.1))
    }

    async fn meet(&self, peer: &PartsClient) -> Result<(), CallError> {
        let number = self.met.get() + 1;
        self.met.set(number);
        if !self.first {
            return peer.meet(number).await;
        }
        self.part.come(0, number);
        self.part.wait_for(1, number).await;
        Ok(())
    }

    async fn heap(&self, way: Way, below_us: u64, peer: &PartsClient) -> Result<f64, CallError> {
        let mut sum = 0;
        loop {
            let item = if self.first { self.part.take_item() } else { peer.take().await? };
            if item == 0 {
                return Ok(sum as f64);
            }
            for page in 0..FETCHES {
                sum += u64::from(peer.fetch(page).await?[0]);
            }
            let pieces = item.wrapping_mul(0x9e37_79b9_7f4a_7c15) % below_us;
            match way {
                Way::Compute => drop(self.node.compute(move || grind(pieces as u32)).await),
                Way::PollingOnly => drop(grind(pieces as u32)),
                Way::Points => {
                    for _ in 0..pieces {
                        grind(1);
                        poll_point().await;
                    }
                }
            }
        }
    }

    async fn relax(&self, way: Way, mut half: Half, peer: &PartsClient) -> Result<f64, CallError> {
        for phase in 0..PHASES {
            match way {
                Way::Compute => {
                    let relax = move || {
                        half.relax(phase);
                        half
                    };
                    half = self.node.compute(relax).await;
                }
                Way::PollingOnly => half.relax(phase),
                Way::Points => {
                    for row in 0..grid::ROWS {
                        half.relax_row(phase, row);
                        poll_point().await;
                    }
                }
            }
            peer.edge(phase, half.edge().to_vec()).await?;
            self.meet(peer).await?;
            half.border(&self.part.edges[phase as usize % 2].borrow());
        }
        Ok(half.sum())
    }
}

/// The results of the runs of a round.
#[derive(Default)]
pub(super) struct Done {
    runs: Vec<u64>,
    /// Messages that both nodes polled.
    polled: u64,
    /// Messages that had to wake one of them.
    woken: u64,
    wrong: u32,
}

/// The wanted programs.
pub(super) fn subjects<'a>(
    side: &'a Rc<Side>,
    wanted: &'a dyn Fn(&str) -> bool,
) -> impl Iterator<Item = Box<dyn Subject>> + 'a {
    Program::ALL.into_iter().filter(|program| wanted(&program.path())).map(|program| {
        let (side, found) = (Rc::clone(side), (0, 0));
        let (path, baseline) = (program.path(), program.contract().path());
        Box::new(ProgramSubject { program, path, baseline, side, found }) as Box<dyn Subject>
    })
}

/// A program as a subject.
struct ProgramSubject {
    program: Program,
    path: String,
    baseline: String,
    side: Rc<Side>,
    /// Messages polled, and woken for, in all rounds.
    found: (u64, u64),
}

impl Subject for ProgramSubject {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn baseline(&self) -> Option<&str> {
        (self.path != self.baseline).then_some(self.baseline.as_str())
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let done = pair
            .round(Job::Case(self.path.clone()), work, |_| self.side.round(self.program, work))?;
        self.found.0 += done.polled;
        self.found.1 += done.woken;
        Ok(Round::of_batches(1, done.runs))
    }

    fn finish(&mut self, row: &mut Row) {
        let (polled, woken) = self.found;
        row.traffic.polled_percent =
            Some(rounded(100.0 * polled as f64 / (polled + woken).max(1) as f64));
    }
}
