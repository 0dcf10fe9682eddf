//! The world: nodes with sessions over wires, the state machines of `upbeat-core` driven as the
//! dispatcher drives them, a program that asks and drops, and everything that can go wrong. Then a
//! phase in which all heals and everything must finish.
//!
//! It leaves to others what is right: [`Check`] is told what happens. The invariant: a history
//! follows from its seed alone.

mod lend;
mod words;
mod send;
mod run;
mod need;
mod hear;
mod life;
mod schedule;

use std::collections::{BTreeMap, VecDeque};

use upbeat_core::call::{CallTable, Deadline, Serving};
use upbeat_core::fault::Rule;
use upbeat_core::flow::{Budget, Receiver, Sender, Share};
use upbeat_core::frame::CallNumber;

use crate::check::{Check, Id, Violation};
use crate::count::Counts;
use crate::mutant::{Own, mutated};
use crate::plan::{Ask, Plan};
use crate::random::Random;
use crate::wire::{Frame, Wire};
use lend::{Loan, Question};

/// What ends a session or a history.
#[derive(Debug)]
pub(crate) enum Fault {
    Rule(Rule),
    Violation(Violation),
}

impl From<Rule> for Fault {
    fn from(rule: Rule) -> Fault {
        Fault::Rule(rule)
    }
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Fault {
        Fault::Violation(violation)
    }
}

/// One history.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) counts: Counts,
    random: Random,
    /// Microseconds since the beginning.
    time: u64,
    nodes: Vec<Node>,
    /// From each node to each.
    wires: Vec<Option<Wire>>,
    check: Check,
    asks: Vec<Ask>,
    sessions: u64,
    healing: bool,
    /// Something has happened since this was last taken.
    moved: bool,
    /// What the liar has said, to whom and in which session.
    said: VecDeque<(usize, u64, Frame)>,
    trace: Option<Vec<String>>,
}

/// A node, in one incarnation.
struct Node {
    up: bool,
    incarnation: u32,
    /// How far its clock is ahead of the world's.
    ahead: u64,
    budget: Budget,
    tasks: Vec<Option<Task>>,
    /// Those of them that may ask for more time, and what is asked in their names: the first is under way.
    leases: BTreeMap<usize, VecDeque<Question>>,
    ends: Vec<Option<End>>,
    /// Which sessions a hint has told of.
    noted: Vec<bool>,
    /// Calls of its own, for their timers.
    open: Vec<Open>,
    /// Who has what one handler has at a time; how many have waited for it.
    lock: Option<usize>,
    lacked: u64,
    /// Calls of its own that were refused and come again.
    pauses: Vec<Pause>,
    /// What those hold of the budget whose sessions are gone.
    left: Share,
    /// Calls that are answered, and whose futures have not been polled since.
    answered: Vec<(usize, CallNumber)>,
    /// Something of the budget was given back.
    room: bool,
}

/// One side of a session.
struct End {
    session: u64,
    sends: Sender,
    receives: Receiver<Held>,
    /// Requests go and come without a thought while there is room, and are only counted: so many more
    /// may go, of so many, and so many have come.
    ahead: u64,
    given: u64,
    came: u64,
    share: Share,
    calls: CallTable<Waiter>,
    serving: Serving<usize>,
    /// Requests that wait to be sent.
    queue: VecDeque<Out>,
    /// Those that have asked for room.
    kept: BTreeMap<u64, Out>,
    /// Granted requests that wait for room in the wire.
    ready: VecDeque<u64>,
    /// Replies and control frames that wait for it.
    owed: VecDeque<Frame>,
    /// What this side was asked to grant: bytes, and whether it has.
    away: BTreeMap<u64, (u64, bool)>,
}

/// A request at its sender.
#[derive(Clone, Copy, Debug)]
struct Out {
    id: Id,
    call: Option<CallNumber>,
    /// On the sender's clock.
    deadline: Deadline,
    /// Until when that may be extended, if it may, on the same clock.
    most: Option<u64>,
    /// How often it was refused, if it may be.
    refusals: Option<u64>,
}

/// A request at its receiver, or a hold on one.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// What it is, or the buffer of its sender's that says so.
    what: Payload,
    call: Option<CallNumber>,
    deadline: Deadline,
    /// Whether its handler may ask for more time.
    extendable: bool,
    refusals: Option<u64>,
    /// How long it was on its way.
    on_way: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Payload {
    Here(Id),
    Buffer(usize),
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    id: Id,
    task: Option<usize>,
}

/// A call and its timers, on its node's clock.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: usize,
    call: CallNumber,
    deadline: Deadline,
    dropped: Deadline,
    refusals: u64,
    /// Until when its deadline may be extended.
    most: Option<u64>,
    loan: Option<Loan>,
}

/// A call between two attempts.
#[derive(Clone, Copy, Debug)]
struct Pause {
    id: Id,
    peer: usize,
    session: u64,
    until: u64,
    refusals: u64,
    deadline: Deadline,
    dropped: Deadline,
    most: Option<u64>,
}

/// A handler that is not done.
#[derive(Clone, Copy, Debug)]
struct Task {
    id: Id,
    peer: usize,
    call: Option<CallNumber>,
    bytes: u64,
    /// When its time is over.
    end: Deadline,
    gone: Gone,
    buffer: Option<usize>,
    /// An answer that it looks at in place: its sender, the buffer, the session.
    answer: Option<(usize, usize, u64)>,
    state: State,
}

/// Whether a handler goes on without its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    No,
    /// Who has said so.
    Told,
    /// With its session.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Until(u64),
    Never,
    /// It has not begun, and is so many-th of those that wait for what they need.
    Lacks(u64),
    /// It waits for the answer of another node, and is not counted meanwhile.
    Calls {
        peer: usize,
        call: CallNumber,
    },
}

impl World {
    pub(crate) fn new(seed: u64, traced: bool) -> World {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let nodes = (0..plan.nodes).map(|_| Node::new(&plan)).collect();
        let wires = (0..plan.nodes * plan.nodes).map(|_| None).collect();
        let check = Check::new(plan.jumps);
        World {
            plan,
            counts: Counts::default(),
            random,
            time: 1,
            nodes,
            wires,
            check,
            asks: Vec::new(),
            sessions: 0,
            healing: false,
            moved: false,
            said: VecDeque::new(),
            trace: traced.then(Vec::new),
        }
    }

    /// What happened, if it was traced.
    pub(crate) fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7}  {}", self.time, what()));
        }
    }

    /// A node's own clock.
    fn clock(&self, node: usize) -> u64 {
        self.time + self.nodes[node].ahead
    }

    fn wire(&mut self, from: usize, to: usize) -> &mut Wire {
        let at = from * self.plan.nodes + to;
        self.wires[at].as_mut().expect("a session has wires")
    }

    /// This side of a session, and the node's budget.
    fn end(&mut self, node: usize, peer: usize) -> Option<(&mut End, &mut Budget)> {
        let Node { ends, budget, .. } = &mut self.nodes[node];
        Some((ends[peer].as_mut()?, budget))
    }

    fn lies(&self, node: usize, peer: usize) -> bool {
        self.plan.liar.is_some_and(|liar| liar == node || liar == peer)
    }

    fn peers(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.plan.nodes).filter(move |&peer| peer != node)
    }
}

impl Node {
    fn new(plan: &Plan) -> Node {
        Node {
            up: true,
            incarnation: 1,
            ahead: 0,
            budget: Budget::new(plan.budget),
            tasks: Vec::new(),
            leases: BTreeMap::new(),
            ends: (0..plan.nodes).map(|_| None).collect(),
            noted: vec![false; plan.nodes],
            open: Vec::new(),
            lock: None,
            lacked: 0,
            pauses: Vec::new(),
            left: Share::new(u64::MAX),
            answered: Vec::new(),
            room: false,
        }
    }
}

impl End {
    fn new(plan: &Plan, session: u64) -> End {
        End {
            session,
            sends: Sender::with_window(plan.optimism, plan.reserved),
            receives: Receiver::with_places(plan.places()),
            ahead: 0,
            given: 0,
            came: 0,
            share: Share::new(plan.share),
            calls: CallTable::new(),
            serving: Serving::new(),
            queue: VecDeque::new(),
            kept: BTreeMap::new(),
            ready: VecDeque::new(),
            owed: VecDeque::new(),
            away: BTreeMap::new(),
        }
    }

    /// The sending side, told what went without it.
    fn sender(&mut self) -> &mut Sender {
        let went = std::mem::take(&mut self.given) - std::mem::take(&mut self.ahead);
        if !mutated(Own::WentUntold) {
            self.sends.went(went);
        }
        &mut self.sends
    }

    /// The receiving side, told what came without it.
    fn receiver(&mut self) -> &mut Receiver<Held> {
        self.receives.accept(std::mem::take(&mut self.came));
        &mut self.receives
    }

    /// Lets requests go without a thought, as many as may.
    fn go_on(&mut self) {
        let left = self.sender().window_left();
        (self.ahead, self.given) = (left, left);
    }

    /// Requests of the peer's that were accepted.
    fn accepted(&self) -> u64 {
        self.receives.accepted() + self.came
    }

    /// Whether the program or the peer waits for something here.
    fn idle(&self) -> bool {
        self.queue.is_empty() && self.ready.is_empty() && self.owed.is_empty()
    }
}
