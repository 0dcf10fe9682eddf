//! Tasks of one node: the cost of beginning one, of yielding to another, and of waiting for each other.
//!
//! All tasks are those of the first process's node, which uses one CPU; the second process does
//! nothing. An operation is awaited by the node's main future, a partner is a task beside it. The
//! paper's figures stand in `papers/figures`.

mod tell;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::hint::black_box;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::sync::{Monitor, Mutex, Signal};
use upbeat::{Node, yield_now};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{self, Policy};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

pub(crate) use tell::{lines, tell};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "tasks";

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Procedure,
    Spawn,
    SpawnMany,
    Scope,
    Wake,
    WakeOfMillion,
    Switch,
    Monitor,
    Mutex,
    Handed,
    Signal,
}

const CASES: [Case; 11] = [
    Case::Procedure,
    Case::Spawn,
    Case::SpawnMany,
    Case::Scope,
    Case::Wake,
    Case::WakeOfMillion,
    Case::Switch,
    Case::Monitor,
    Case::Mutex,
    Case::Handed,
    Case::Signal,
];

impl Case {
    const fn path(self) -> &'static str {
        match self {
            Case::Procedure => "procedure",
            Case::Spawn => "spawn",
            Case::SpawnMany => "spawn/4096",
            Case::Scope => "scope/100",
            Case::Wake => "wake",
            Case::WakeOfMillion => "wake/million",
            Case::Switch => "switch",
            Case::Monitor => "monitor",
            Case::Mutex => "mutex",
            Case::Handed => "mutex/handed",
            Case::Signal => "signal",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Case::Procedure => "a procedure is called that does nothing",
            Case::Spawn => "a task is begun in the slot of one that has ended, ends, and is joined",
            Case::SpawnMany => "4,096 tasks are begun, most in new slots, end, and are joined",
            Case::Scope => "a scope of 100 children, which are done at once",
            Case::Wake => "a task that waits is woken and polled, and waits on",
            Case::WakeOfMillion => "the same of one of a million that wait",
            Case::Switch => "a task makes way for another, and that for it: two switches",
            Case::Monitor => "a monitor is entered and left in which nobody is",
            Case::Mutex => "a mutex is locked and unlocked that nobody has",
            Case::Handed => "a mutex goes to a task that waits for it, and comes back",
            Case::Signal => "a task signals another, waits, and is signalled by it",
        }
    }
}

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    CASES.iter().map(|case| (case.path().to_owned(), case.about().to_owned())).collect()
}

/// Returns the wanted cases.
pub(crate) fn subjects(
    _: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let node = hosts::node("bench-tasks", None, Policy::Polling)?;
    let cases = CASES.into_iter().filter(|case| wanted(case.path()));
    Ok(cases
        .map(|case| {
            let subject = TaskSubject { case, node: node.clone(), parked: None };
            Box::new(subject) as Box<dyn Subject>
        })
        .collect())
}

/// The second process's side.
pub(crate) struct Nobody;

impl Server for Nobody {
    fn round(&mut self, case: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        Err(BenchError::protocol(format!("tasks need nobody else for `{case}`")))
    }
}

/// A case as a subject.
struct TaskSubject {
    case: Case,
    node: Node,
    /// Tasks that wait, which the first round makes.
    parked: Option<Parked>,
}

/// Tasks that wait to be woken.
struct Parked {
    count: usize,
    wakers: Rc<RefCell<Vec<Waker>>>,
    polls: Rc<Cell<u64>>,
    next: Cell<usize>,
}

impl Parked {
    fn new(node: &Node, case: Case) -> Parked {
        let count = if case == Case::Wake { 1 } else { 1_000_000 };
        let wakers = Rc::new(RefCell::new(Vec::with_capacity(count)));
        let polls = Rc::new(Cell::new(0));
        for place in 0..count {
            let (wakers, polls) = (Rc::clone(&wakers), Rc::clone(&polls));
            drop(node.spawn(poll_fn(move |context| {
                polls.set(polls.get() + 1);
                let mut wakers = wakers.borrow_mut();
                if wakers.len() <= place {
                    wakers.push(context.waker().clone());
                }
                Poll::<()>::Pending
            })));
        }
        Parked { count, wakers, polls, next: Cell::new(0) }
    }

    /// Wakes one task, and waits until it was polled.
    async fn wake(&self) {
        let before = self.polls.get();
        // The next task is far from the last one, as a cache sees it.
        let next = (self.next.get() + 514_229) % self.wakers.borrow().len();
        self.next.set(next);
        self.wakers.borrow()[next].wake_by_ref();
        yield_now().await;
        assert_eq!(self.polls.get(), before + 1, "one task is polled and no other");
    }
}

impl Subject for TaskSubject {
    fn case(&self) -> &str {
        self.case.path()
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn round(&mut self, _: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let node = &self.node;
        Ok(node.block_on(async {
            match self.case {
                Case::Procedure => each(work, async || procedure()).await,
                Case::Spawn => each(work, async || _ = black_box(node.spawn(async {}).await)).await,
                Case::SpawnMany => each(work, async || spawn_many(node).await).await,
                Case::Scope => each(work, scope_of_100).await,
                Case::Wake | Case::WakeOfMillion => {
                    let parked = self.parked.get_or_insert_with(|| Parked::new(node, self.case));
                    // All tasks have to be polled once.
                    while parked.wakers.borrow().len() < parked.count {
                        yield_now().await;
                    }
                    each(work, async || parked.wake().await).await
                }
                Case::Switch => beside(node, yield_now, each(work, yield_now)).await,
                Case::Monitor => {
                    let monitor = Monitor::new(0_u64, ["never"]);
                    each(work, async || *monitor.enter().await += 1).await
                }
                Case::Mutex => {
                    let mutex = Mutex::new(0_u64);
                    each(work, async || *mutex.lock().await += 1).await
                }
                Case::Handed => handed(node, work).await,
                Case::Signal => signals(node, work).await,
            }
        }))
    }
}

/// Runs the operations of a round one after another.
async fn each(work: Work, mut operation: impl AsyncFnMut()) -> Round {
    let mut laps = work.laps();
    for operations in laps.by_ref() {
        for _ in 0..operations {
            operation().await;
        }
    }
    laps.round()
}

/// Runs a round while another task does the same operation again and again.
async fn beside(
    node: &Node,
    thing: impl AsyncFn() + 'static,
    round: impl Future<Output = Round>,
) -> Round {
    let over = Rc::new(Cell::new(false));
    let is_over = Rc::clone(&over);
    let partner = node.spawn(async move {
        while !is_over.get() {
            thing().await;
        }
    });
    let round = round.await;
    over.set(true);
    // The task ends at its next turn.
    let _ = partner.await;
    round
}

#[inline(never)]
fn procedure() {
    black_box(());
}

/// Two tasks hold the mutex while they yield, so the other one always waits for it.
async fn handed(node: &Node, work: Work) -> Round {
    let mutex = Rc::new(Mutex::new(0_u64));
    let other = Rc::clone(&mutex);
    let hold = async move || {
        let mut held = other.lock().await;
        yield_now().await;
        *held += 1;
    };
    let operation = async || {
        let mut held = mutex.lock().await;
        yield_now().await;
        *held += 1;
    };
    beside(node, hold, each(work, operation)).await
}

async fn spawn_many(node: &Node) {
    let tasks: Vec<_> = (0..4096).map(|_| node.spawn(async {})).collect();
    for task in tasks {
        _ = black_box(task.await);
    }
}

async fn scope_of_100() {
    let sum = Cell::new(0_u64);
    upbeat::scope(async |s| {
        for number in 0..100 {
            let sum = &sum;
            s.spawn(async move { sum.set(sum.get() + number) });
        }
    })
    .await;
    assert_eq!(black_box(sum.get()), 4950);
}

/// Two signals, each answered by the other.
async fn signals(node: &Node, work: Work) -> Round {
    let signals = Rc::new([Signal::new(), Signal::new()]);
    let over = Rc::new(Cell::new(false));
    let (there, is_over) = (Rc::clone(&signals), Rc::clone(&over));
    let partner = node.spawn(async move {
        let [asked, answer] = &*there;
        loop {
            asked.wait(0).await;
            if is_over.get() {
                return;
            }
            answer.signal();
        }
    });
    let [ask, answered] = &*signals;
    // A signal without a waiter is lost.
    while !ask.has_waiters() {
        yield_now().await;
    }
    let round = each(work, async || {
        ask.signal();
        answered.wait(0).await;
    });
    let round = round.await;
    // The partner answered, and waits again when it has its turn.
    while !ask.has_waiters() {
        yield_now().await;
    }
    over.set(true);
    ask.signal();
    let _ = partner.await;
    round
}
