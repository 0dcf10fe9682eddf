//! The world: nodes with sessions over wires, the state machines of `upbeat-core` driven as the
//! dispatcher drives them, a program that asks and drops, and everything that can go wrong. Then a
//! phase in which all heals and everything must finish.
//!
//! It leaves to others what is right: [`Check`] is told what happens. The invariant: a history
//! follows from its seed alone.

mod lend;
mod words;
mod send;
mod senders;
mod run;
mod need;
mod hear;
mod life;
mod flows;
mod operations;
mod conserved;
mod schedule;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use upbeat_core::channel::call::Deadline;
use upbeat_core::channel::stream::Streams;
use upbeat_core::fault::Rule;
use upbeat_core::flow::{Purse, ReplyBudget};
use upbeat_core::frame::CallNumber;
use upbeat_core::lease::Lease;
use upbeat_core::session::{Bounds, Charge, Expiries, Session, Side, Terms};
use upbeat_core::sweep::Sweeps;

use crate::check::{Check, Id, Violation};
use crate::count::Counts;
use crate::plan::{Ask, Plan};
use crate::random::Random;
use crate::wire::{Frame, Use, Wire};
use flows::Flows;
use lend::{Loan, Whose};
use senders::Senders;

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
    flows: Flows,
    sessions: u64,
    healing: bool,
    /// What was found wrong where nobody could be told.
    wrong: Option<String>,
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
    purse: Purse,
    /// The budget of replies that wait.
    replies: ReplyBudget,
    tasks: Vec<Option<Task>>,
    /// Those of them that may ask for more time, with what is asked in their names.
    leases: BTreeMap<usize, Lease<Whose>>,
    /// Those of them that end at a time.
    expiries: Expiries<(usize, Id)>,
    ends: Vec<Option<End>>,
    hints: Hints,
    calls: Calls,
    lock: Lock,
    /// Requests that wait may be accepted, though nothing of the budget was given back.
    pressed: bool,
    /// Senders that are to be polled, and of which peer's sessions.
    woken: VecDeque<(usize, Id)>,
    /// Rules that senders found broken: by whom, and in which session.
    found: Vec<(usize, u64, Rule)>,
}

/// Where a node looks.
struct Hints {
    /// Which sessions a hint has told of.
    noted: Vec<bool>,
    /// Looks at all of them.
    sweeps: Sweeps,
    /// When each was looked at last.
    looked: Vec<u64>,
}

/// The calls that a node has made.
#[derive(Default)]
struct Calls {
    /// Before this time none of them ends by its time, and no handler goes on by itself.
    due: u64,
    /// Those that are open, for their timers.
    open: Vec<Open>,
    /// Those that were refused and come again.
    pauses: Vec<Pause>,
    /// Those that are answered, and whose futures have not been polled since, with the bytes of the copies
    /// that are kept for them.
    answered: Vec<(usize, CallNumber, usize)>,
}

/// What one handler of a node has at a time.
#[derive(Default)]
struct Lock {
    holder: Option<usize>,
    /// How many handlers have waited for it, and how many do.
    lacked: u64,
    lacking: usize,
}

/// The side of a session that is a node of the world.
struct Simulated;

impl Side for Simulated {
    type Sender = Id;
    type Request = Held;
    type Frame = Frame;
    type Caller = Waiter;
    type Task = usize;

    fn copied(held: &Held) -> usize {
        held.copied
    }
}

/// One side of a session.
struct End {
    session: u64,
    core: Rc<Session<Simulated>>,
    /// Requests that have not gone.
    senders: Senders,
    /// Which buffers they lack.
    lacked: [bool; 2],
    /// How often this side had nothing else to do.
    rounds: u64,
    /// What this side was asked to grant: bytes, and whether it has.
    away: BTreeMap<u64, (u64, bool)>,
    /// Streams that the peer has opened in its calls.
    streams: Streams<usize, usize>,
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
    /// Its place in the line, or the number under which it has asked for room.
    ticket: Option<u64>,
    number: Option<u64>,
    /// In which round it was woken, if it was not polled since.
    woken: Option<u64>,
    /// Whether its future may be kept and not polled any more, and is.
    is_free: bool,
    forgotten: bool,
}

/// A request at its receiver, or a hold on one.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// What it is, or the buffer of its sender's that says so.
    what: Payload,
    /// Bytes of it that lay in the ring.
    copied: usize,
    /// The number under which room was granted for it.
    granted: Option<u64>,
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
    Buffer(Use, usize),
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone)]
struct Task {
    id: Id,
    peer: usize,
    session: Rc<Session<Simulated>>,
    call: Option<CallNumber>,
    /// Bytes that its request is charged with, and what is held of them.
    bytes: u64,
    charge: Charge,
    /// When its time is over.
    end: Deadline,
    gone: Gone,
    /// Questions for more time that it waits for.
    asking: u32,
    buffer: Option<(Use, usize)>,
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
    /// It waits for the other end of a stream, and is not counted meanwhile.
    Streams,
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
        let nodes = (0..plan.nodes).map(|_| Node::new(&plan, 0)).collect();
        let wires = (0..plan.nodes * plan.nodes).map(|_| None).collect();
        let check = Check::new(plan.weather.jumps);
        World {
            plan,
            counts: Counts::default(),
            random,
            time: 1,
            nodes,
            wires,
            check,
            asks: Vec::new(),
            flows: Flows::default(),
            sessions: 0,
            healing: false,
            wrong: None,
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

    /// This side of a session.
    fn end(&mut self, node: usize, peer: usize) -> Option<&mut End> {
        self.nodes[node].ends[peer].as_mut()
    }

    /// The decisions of this side of a session.
    fn core(&self, node: usize, peer: usize) -> Option<Rc<Session<Simulated>>> {
        self.nodes[node].ends[peer].as_ref().map(|end| Rc::clone(&end.core))
    }

    /// Who waits for the answer of an open call.
    fn waiter(&self, node: usize, peer: usize, call: CallNumber) -> Option<Waiter> {
        self.nodes[node].ends[peer].as_ref()?.core.calls().waiter(call)
    }

    fn lies(&self, node: usize, peer: usize) -> bool {
        self.plan.liar.is_some_and(|liar| liar == node || liar == peer)
    }

    fn peers(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.plan.nodes).filter(move |&peer| peer != node)
    }
}

impl Node {
    fn new(plan: &Plan, now: u64) -> Node {
        Node {
            up: true,
            incarnation: 1,
            ahead: 0,
            purse: Purse::new(plan.budget),
            replies: ReplyBudget::with_ahead(plan.budget, plan.ahead),
            tasks: Vec::new(),
            leases: BTreeMap::new(),
            expiries: Expiries::new(),
            ends: (0..plan.nodes).map(|_| None).collect(),
            hints: Hints {
                noted: vec![false; plan.nodes],
                sweeps: Sweeps::new(plan.weather.sweep_ns, now),
                looked: vec![now; plan.nodes],
            },
            calls: Calls::default(),
            lock: Lock::default(),
            pressed: false,
            woken: VecDeque::new(),
            found: Vec::new(),
        }
    }
}

impl End {
    fn new(plan: &Plan, session: u64, is_liar: bool, replies: ReplyBudget) -> End {
        // The liar lets its peer copy whatever it refuses.
        let copied = if is_liar { usize::MAX } else { plan.bounds.copied };
        let terms = Terms {
            outbound: Bounds { copied, ..plan.bounds },
            inbound: plan.bounds,
            share: plan.share,
            unshown: plan.unshown,
            ahead: plan.ahead,
            unread: plan.unread,
        };
        End {
            session,
            core: Rc::new(Session::new(&terms, replies)),
            senders: Senders::default(),
            lacked: [false; 2],
            rounds: 0,
            away: BTreeMap::new(),
            streams: Streams::default(),
        }
    }
}
