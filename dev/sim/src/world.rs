//! The world: nodes with sessions over wires, the state machines of `upbeat-core` driven as the
//! dispatcher drives them, a program that makes and drops requests, and all kinds of faults. In a last
//! phase, all faults end and everything must finish.
//!
//! The world does not know what is right: it reports events to the [`Check`]. Invariant: a history
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
mod exports;
mod conserved;
mod schedule;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use upbeat_core::channel::call::Deadline;
use upbeat_core::channel::stream::Streams;
use upbeat_core::fault::Rule;
use upbeat_core::flow::{ReplyBudget, SharedBudget};
use upbeat_core::frame::CallNumber;
use upbeat_core::lease::Lease;
use upbeat_core::session::{Bounds, Charge, Expiries, Session, Side, Terms};
use upbeat_core::sweep::Sweeps;

use crate::check::{Check, Id, Violation};
use crate::count::Counts;
use crate::plan::{Ask, Plan};
use crate::random::Random;
use crate::wire::{Frame, Use, Wire};
use exports::Exports;
use flows::Flows;
use lend::{Loan, Whose};
use senders::Senders;

/// The reason that ends a session or a history.
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
    /// The wires, from each node to each.
    wires: Vec<Option<Wire>>,
    check: Check,
    asks: Vec<Ask>,
    flows: Flows,
    exports: Exports,
    sessions: u64,
    healing: bool,
    /// Whether an event has happened since this flag was last cleared.
    moved: bool,
    /// Frames that the liar has sent, with receiver and session.
    said: VecDeque<(usize, u64, Frame)>,
    record: Record,
}

/// The events of a history.
#[derive(Default)]
struct Record {
    trace: Option<Vec<String>>,
    /// A violation that was found where no error can be returned.
    wrong: Option<String>,
}

/// A node, in one incarnation.
struct Node {
    up: bool,
    incarnation: u32,
    /// The nanoseconds by which its clock is ahead of the world's.
    ahead: u64,
    shared_budget: SharedBudget,
    /// The budget of waiting replies.
    replies: ReplyBudget,
    tasks: Vec<Option<Task>>,
    /// The tasks that may ask for more time, with the questions in their names.
    leases: BTreeMap<usize, Lease<Whose>>,
    /// The tasks that end at a time.
    expiries: Expiries<(usize, Id)>,
    ends: Vec<Option<End>>,
    hints: Hints,
    calls: Calls,
    lock: Lock,
    /// Whether waiting requests may be accepted although nothing was given back to the budget.
    pressed: bool,
    /// Senders that are to be polled, each with its peer.
    woken: VecDeque<(usize, Id)>,
    /// Rules that senders found broken, with the peer and the session.
    found: Vec<(usize, u64, Rule)>,
}

/// The sessions that a node looks at.
struct Hints {
    /// The sessions for which a hint has come.
    noted: Vec<bool>,
    /// The schedule of sweeps over all sessions.
    sweeps: Sweeps,
    /// When the node last looked at each session.
    looked: Vec<u64>,
}

/// The calls that a node has made.
#[derive(Default)]
struct Calls {
    /// The time before which no call times out and no handler continues by itself.
    due: u64,
    /// The open calls, for their timers.
    open: Vec<Open>,
    /// The calls that were refused and are sent again.
    pauses: Vec<Pause>,
    /// The calls that are answered and whose futures have not been polled since, with the bytes of the copied
    /// results.
    answered: Vec<(usize, CallNumber, usize)>,
}

/// The exclusive resource of a node, which one handler has at a time.
#[derive(Default)]
struct Lock {
    holder: Option<usize>,
    /// How many handlers have waited for the resource in all, and how many wait now.
    lacked: u64,
    lacking: usize,
}

/// The types of a session in the world.
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
    /// The kinds of buffers that they lack.
    lacked: [bool; 2],
    /// How often this side had no other work.
    rounds: u64,
    /// The grants that this side was asked for: bytes, and whether each was given.
    away: BTreeMap<u64, (u64, bool)>,
    /// Streams that the peer has opened in its calls.
    streams: Streams<usize, usize>,
}

/// A request at its sender.
#[derive(Clone, Copy, Debug)]
struct Out {
    id: Id,
    call: Option<CallNumber>,
    /// The deadline, on the sender's clock.
    deadline: Deadline,
    /// The latest time to which the deadline may be extended, on the same clock.
    most: Option<u64>,
    /// How often the request was refused, if it may be.
    refusals: Option<u64>,
    /// Its place in the queue, or the number under which it has asked for room.
    ticket: Option<u64>,
    number: Option<u64>,
    /// The round in which it was woken, if it was not polled since.
    woken: Option<u64>,
    /// Whether its future is kept and not polled any more.
    is_free: bool,
    forgotten: bool,
}

/// A request at its receiver, or a hold on one.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The request, or the buffer of its sender in which it lies.
    what: Payload,
    /// Bytes of the request that lay in the ring.
    copied: usize,
    /// The number under which room was granted for the request.
    granted: Option<u64>,
    call: Option<CallNumber>,
    deadline: Deadline,
    /// Whether its handler may ask for more time.
    extendable: bool,
    refusals: Option<u64>,
    /// How long the request was on its way.
    on_way: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Payload {
    Here(Id),
    Buffer(Use, usize),
}

/// The waiter for a reply.
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
    /// The latest time to which its deadline may be extended.
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
    /// Bytes that the request is charged with, and the bytes of them that are held.
    bytes: u64,
    charge: Charge,
    /// When the handler's time is over.
    end: Deadline,
    gone: Gone,
    /// Questions for more time that the handler waits for.
    asking: u32,
    buffer: Option<(Use, usize)>,
    /// A reply that the handler reads in place: its sender, the buffer, the session.
    answer: Option<(usize, usize, u64)>,
    state: State,
}

/// Whether a handler goes on without its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    No,
    /// The caller has said so.
    Told,
    /// The session is lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Until(u64),
    Never,
    /// The handler has not begun: its number among those that wait for the resource.
    Lacks(u64),
    /// The handler waits for the other end of a stream, and is not charged meanwhile.
    Streams,
    /// The handler waits for the reply of another node, and is not charged meanwhile.
    Calls {
        peer: usize,
        call: CallNumber,
    },
}

impl World {
    pub(crate) fn new(seed: u64, traced: bool) -> World {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let exports = Exports::new(seed, &plan);
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
            exports,
            sessions: 0,
            healing: false,
            moved: false,
            said: VecDeque::new(),
            record: Record { trace: traced.then(Vec::new), wrong: None },
        }
    }

    /// Returns the events, if they were traced.
    pub(crate) fn trace(&self) -> &[String] {
        self.record.trace.as_deref().unwrap_or_default()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.record.trace {
            trace.push(format!("{:>7}  {}", self.time, what()));
        }
    }

    /// Returns the time of a node's own clock.
    fn clock(&self, node: usize) -> u64 {
        self.time + self.nodes[node].ahead
    }

    fn wire(&mut self, from: usize, to: usize) -> &mut Wire {
        let at = from * self.plan.nodes + to;
        self.wires[at].as_mut().expect("a session has wires")
    }

    /// Returns this side of a session.
    fn end(&mut self, node: usize, peer: usize) -> Option<&mut End> {
        self.nodes[node].ends[peer].as_mut()
    }

    /// Returns the state machine of this side of a session.
    fn core(&self, node: usize, peer: usize) -> Option<Rc<Session<Simulated>>> {
        self.nodes[node].ends[peer].as_ref().map(|end| Rc::clone(&end.core))
    }

    /// Returns the waiter of an open call.
    fn waiter(&self, node: usize, peer: usize, call: CallNumber) -> Option<Waiter> {
        self.nodes[node].ends[peer].as_ref()?.core.calls().waiter(call)
    }

    /// Returns whether two nodes map memory of each other.
    fn shares_memory(&self, one: usize, other: usize) -> bool {
        let pair = one.min(other) * self.plan.nodes + one.max(other);
        self.plan.streams >> pair & 1 == 0
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
            shared_budget: SharedBudget::new(plan.budget),
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
        // The liar lets its peer copy every request that it refuses.
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
