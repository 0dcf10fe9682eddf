//! The plan of a history: the number of nodes, their carriers, their limits, and the requests of each
//! node. All of it follows from the seed.

use upbeat_core::backoff::REFUSALS_MAX;
use upbeat_core::channel::stream::Operation;
use upbeat_core::limits::{CONTROL_SLOTS, MEDIUM_BYTES_MAX, SHORT_BYTES};
use upbeat_core::session::Bounds;

use crate::random::Random;

/// The limits and the faults of one history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// For each pair of nodes, whether a byte stream carries their session.
    pub(crate) streams: u64,
    pub(crate) ring_slots: usize,
    pub(crate) buffers: usize,
    /// The limits of one direction of a session.
    pub(crate) bounds: Bounds,
    /// How many requests a receiver accepts before it shows its progress unasked.
    pub(crate) unshown: u64,
    pub(crate) budget: u64,
    pub(crate) share: u64,
    /// Bytes of waiting replies beyond which a session accepts no requests.
    pub(crate) ahead: u64,
    /// Bytes of unread replies beyond which a session drops the next reply.
    pub(crate) unread: usize,
    pub(crate) programs: Programs,
    pub(crate) weather: Weather,
    /// The liar: the node that repeats earlier messages, if there is one.
    pub(crate) liar: Option<usize>,
    /// Steps before all faults end.
    pub(crate) steps: u64,
    /// How many of a thousand steps are a turn of a node.
    pub(crate) turns: u64,
}

/// The behaviour of programs and their handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Programs {
    /// Whether handlers read in place until they are done.
    pub(crate) in_place: bool,
    /// How many of a thousand calls of programs carry a stream.
    pub(crate) carrying: u64,
}

/// The faults of nodes, and of messages on their way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Nanoseconds between two sweeps of a node over all its sessions.
    pub(crate) sweep_ns: u64,
    /// Whether words in memory are seen late.
    pub(crate) late: bool,
    /// How many of a thousand polls of a program's futures are the last one.
    pub(crate) forgotten: u64,
    /// How many of a thousand hints are lost, and how many are doubled.
    pub(crate) hints_lost: u64,
    pub(crate) hints_doubled: u64,
    /// Whether nodes crash.
    pub(crate) crashes: bool,
    /// Whether clocks jump.
    pub(crate) jumps: bool,
    /// How many of a thousand writes to a connection find it full.
    pub(crate) busy: u64,
    /// A node that rarely takes its turn.
    pub(crate) slow: Option<usize>,
}

/// Bytes of the longest result.
pub(crate) const ANSWER_BYTES_MAX: usize = 300;

impl Plan {
    pub(crate) fn new(random: &mut Random) -> Plan {
        let nodes = random.pick(&[2, 2, 2, 3, 3, 4]);
        let budget = random.pick(&[1, 400, 1_000, 3_000, 20_000, 200_000, 4_000_000]);
        let share = random.pick(&[budget, budget, budget / 2 + 1, budget / 4 + 1]);
        // The order of these lines is the order of the draws: a history follows from its seed.
        let streams = random.pick(&[0, u64::MAX, random.clone().next()]);
        let late = random.permille(500);
        let ring_slots = CONTROL_SLOTS + random.pick(&[1, 1, 2, 3, 6, 20]);
        let buffers = random.pick(&[1, 1, 2, 3, 8]);
        let bounds = Bounds {
            optimism: random.pick(&[0, 1, 2, 3, 5, 16]),
            reserved: random.pick(&[1, 1, 2, 4]),
            copied: random.pick(&[300, 1_000, 4_000, 100_000]),
            grant_kept: random.pick(&[20_000, 100_000, 400_000]),
        };
        let forgotten = random.pick(&[0, 0, 30, 200]);
        let unshown = random.pick(&[1, 1, 2, 8]);
        let ahead = random.pick(&[300, 1_000, 3_000, 100_000]);
        let unread = random.pick(&[1, 300, 100_000]);
        let in_place = random.permille(500);
        let carrying = random.pick(&[0, 0, 100, 500]);
        let hints_lost = random.pick(&[0, 0, 100, 700]);
        let hints_doubled = random.pick(&[0, 100, 500]);
        let sweep_ns = random.pick(&[20_000, 100_000, 400_000]);
        let crashes = random.permille(400);
        let jumps = random.permille(300);
        let liar = random.permille(150).then(|| random.index(nodes));
        let steps = random.pick(&[100, 100, 100, 200, 200, 300, 300, 500, 500, 1_500]);
        let turns = random.pick(&[300, 500, 700]);
        let slow = random.permille(250).then(|| random.index(nodes));
        let busy = random.pick(&[0, 300, 900]);
        let weather = Weather {
            sweep_ns,
            late,
            forgotten,
            hints_lost,
            hints_doubled,
            crashes,
            jumps,
            busy,
            slow,
        };
        Plan {
            nodes,
            streams,
            ring_slots,
            buffers,
            bounds,
            unshown,
            budget,
            share,
            ahead,
            unread,
            programs: Programs { in_place, carrying },
            weather,
            liar,
            steps,
            turns,
        }
    }

    /// Draws a node other than `not`.
    fn other(&self, random: &mut Random, not: usize) -> usize {
        (not + 1 + random.index(self.nodes - 1)) % self.nodes
    }
}

/// The behaviour of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// The handler is done at its first poll.
    Now,
    /// The handler is done after this many microseconds.
    Wait(u64),
    /// The handler calls this node and waits for the reply; the called handler does the same, `depth` times.
    Back { to: usize, depth: u32 },
    /// The handler is never done, until it is cancelled.
    Never,
    /// The handler waits for the other end of a stream.
    Streams,
}

/// How a message relates to a stream, or to an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Nothing,
    /// The reply carries a stream.
    Result,
    /// The arguments carry a stream.
    Argument,
    /// The message asks for the next batch of a stream.
    Pull,
    /// The message brings the next batch of a stream.
    Push,
    /// The message asks for parts of an export.
    Query,
}

impl Carries {
    /// Returns whether a stream or an export answers the message, and no handler of a program.
    pub(crate) fn is_answered_elsewhere(self) -> bool {
        self == Carries::Query || self.operation().is_some()
    }

    /// Returns the operation of a stream that the message is.
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Carries::Pull => Some(Operation::Pull),
            Carries::Push => Some(Operation::Push),
            _ => None,
        }
    }
}

/// Whether a handler needs an exclusive resource, and what happens while the resource is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// The handler begins as a task when the resource is free.
    Later,
    /// The call is sent back, and its caller sends it again.
    Again,
    /// The caller gets an error.
    Never,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) to: usize,
    pub(crate) oneway: bool,
    /// How the request relates to a stream, or to an export.
    pub(crate) carries: Carries,
    /// The stream, or the question.
    pub(crate) flow: usize,
    /// Bytes of arguments.
    pub(crate) bytes: u32,
    /// Bytes of the result.
    pub(crate) answer: u32,
    pub(crate) behaviour: Behaviour,
    pub(crate) need: Need,
    /// How often the request was refused before.
    pub(crate) refusals: u64,
    /// Microseconds for which the handler continues without its caller.
    pub(crate) outlives: Option<u64>,
    /// Microseconds until the deadline of the request.
    pub(crate) deadline: Option<u64>,
    /// Microseconds until which the deadline may be extended.
    pub(crate) total: Option<u64>,
    /// Microseconds until the caller drops the call.
    pub(crate) dropped: Option<u64>,
}

impl Ask {
    /// Draws the next request of the program at `from`.
    pub(crate) fn new(random: &mut Random, plan: &Plan, from: usize) -> Ask {
        let to = plan.other(random, from);
        let oneway = random.permille(250);
        let behaviour = match random.below(10) {
            0..=3 => Behaviour::Now,
            4..=5 => Behaviour::Wait(random.within(1, 300)),
            6 if !oneway => Behaviour::Never,
            _ => {
                let back = if random.permille(700) { from } else { plan.other(random, to) };
                Behaviour::Back { to: back, depth: random.below(4) as u32 }
            }
        };
        let mut ask = Ask {
            to,
            oneway,
            carries: Carries::Nothing,
            flow: 0,
            bytes: bytes(random),
            answer: random.pick(&[0, 8, 100, ANSWER_BYTES_MAX as u32]),
            behaviour,
            need: Need::Nothing,
            refusals: 0,
            outlives: (!oneway && random.permille(250)).then(|| random.within(1, 400)),
            deadline: (!oneway && random.permille(250)).then(|| random.within(0, 800)),
            total: random.permille(600).then(|| random.within(0, 2_000)),
            dropped: (!oneway && random.permille(200)).then(|| random.within(0, 600)),
        };
        if !oneway && random.permille(plan.programs.carrying) {
            return ask.carrying(random);
        }
        if behaviour == Behaviour::Never && ask.deadline.is_none() {
            ask.dropped = Some(ask.dropped.unwrap_or(400));
        }
        ask.needing(random)
    }

    /// Draws the request that the handler at `from` makes to `to`.
    pub(crate) fn nested(
        random: &mut Random,
        plan: &Plan,
        from: usize,
        to: usize,
        depth: u32,
    ) -> Ask {
        let behaviour = match depth.checked_sub(1) {
            Some(depth) => {
                let back = if random.permille(600) { from } else { plan.other(random, to) };
                Behaviour::Back { to: back, depth }
            }
            None if random.permille(200) => Behaviour::Never,
            None => random.pick(&[Behaviour::Now, Behaviour::Wait(20)]),
        };
        let never = behaviour == Behaviour::Never;
        let ask = Ask {
            to,
            oneway: false,
            carries: Carries::Nothing,
            flow: 0,
            bytes: bytes(random),
            answer: random.pick(&[8, 8, ANSWER_BYTES_MAX as u32]),
            behaviour,
            need: Need::Nothing,
            refusals: 0,
            outlives: random.permille(100).then(|| random.within(1, 200)),
            deadline: (never || random.permille(100)).then(|| random.within(1, 300)),
            total: random.permille(600).then(|| random.within(0, 1_000)),
            dropped: None,
        };
        match ask.needing(random) {
            // A request of a handler is never sent again.
            Ask { need: Need::Again, .. } => ask,
            ask => ask,
        }
    }

    /// Returns the request with a stream in its result or in its arguments.
    fn carrying(self, random: &mut Random) -> Ask {
        match random.permille(500) {
            true => {
                let behaviour = random.pick(&[Behaviour::Now, Behaviour::Now, Behaviour::Wait(20)]);
                Ask { carries: Carries::Result, behaviour, ..self }
            }
            false => Ask { carries: Carries::Argument, behaviour: Behaviour::Streams, ..self },
        }
    }

    /// Draws an operation of a stream.
    pub(crate) fn operation(random: &mut Random, to: usize, carries: Carries, flow: usize) -> Ask {
        Ask {
            to,
            oneway: false,
            carries,
            flow,
            bytes: if carries == Carries::Push { bytes(random) } else { 4 },
            answer: random.pick(&[8, 8, 100, ANSWER_BYTES_MAX as u32]),
            behaviour: Behaviour::Streams,
            need: Need::Nothing,
            refusals: 0,
            outlives: None,
            deadline: None,
            total: None,
            dropped: None,
        }
    }

    /// Draws a question about an export.
    pub(crate) fn query(random: &mut Random, to: usize, query: usize) -> Ask {
        Ask {
            to,
            oneway: false,
            carries: Carries::Query,
            flow: query,
            bytes: random.pick(&[8, 16, 200]),
            answer: random.pick(&[8, 100, ANSWER_BYTES_MAX as u32]),
            behaviour: Behaviour::Streams,
            need: Need::Nothing,
            refusals: 0,
            outlives: None,
            deadline: random.permille(50).then(|| random.within(1, 800)),
            total: None,
            dropped: random.permille(50).then(|| random.within(1, 800)),
        }
    }

    /// Returns the request with a handler that may need a resource. A handler that waits for another node needs none:
    /// it might wait for itself.
    fn needing(self, random: &mut Random) -> Ask {
        let waits = matches!(self.behaviour, Behaviour::Back { .. });
        let need = match random.below(10) {
            _ if waits => Need::Nothing,
            0..=1 => Need::Later,
            2 | 3 if !self.oneway => Need::Again,
            4 if !self.oneway => Need::Never,
            _ => Need::Nothing,
        };
        if need != Need::Again {
            return Ask { need, ..self };
        }
        // Short requests fit the smallest ring together with everything before them.
        let bytes = if self.bytes <= SHORT_BYTES as u32 { self.bytes % 64 } else { self.bytes };
        Ask { need, bytes, refusals: random.below(REFUSALS_MAX + 1), ..self }
    }
}

fn bytes(random: &mut Random) -> u32 {
    let (short, medium) = (SHORT_BYTES as u64, MEDIUM_BYTES_MAX as u64);
    let bytes = match random.below(10) {
        0..=4 => random.below(short),
        5..=6 => random.within(short + 1, 2_000),
        7 => random.within(short + 1, medium),
        8 => random.within(medium + 1, 4 * medium),
        _ => random.within(4 * medium + 1, 12 * medium),
    };
    bytes as u32
}
