//! What a history is made of: how many nodes, over which carriers, within which bounds, and what is
//! asked of whom. All of it follows from the seed.

use upbeat_core::backoff::REFUSALS_MAX;
use upbeat_core::channel::stream::Operation;
use upbeat_core::limits::{CONTROL_SLOTS, MEDIUM_BYTES_MAX, SHORT_BYTES};
use upbeat_core::session::Bounds;

use crate::random::Random;

/// The bounds and the weather of one history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// For each pair, whether ordered bytes carry it.
    pub(crate) streams: u64,
    pub(crate) ring_slots: usize,
    pub(crate) buffers: usize,
    /// The bounds of one direction of a session.
    pub(crate) bounds: Bounds,
    /// How many requests a receiver accepts before it says so unasked.
    pub(crate) unshown: u64,
    pub(crate) budget: u64,
    pub(crate) share: u64,
    /// Bytes of replies that wait, beyond which no requests are taken.
    pub(crate) ahead: u64,
    /// Bytes of unread replies, from which on a reply is dropped.
    pub(crate) unread: usize,
    pub(crate) programs: Programs,
    pub(crate) weather: Weather,
    /// The node that says again what it has said, if there is one.
    pub(crate) liar: Option<usize>,
    /// Steps before all heals.
    pub(crate) steps: u64,
    /// Of a thousand steps so many are a turn of a node.
    pub(crate) turns: u64,
}

/// What programs and their handlers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Programs {
    /// Whether handlers read in place until they are done.
    pub(crate) in_place: bool,
    /// Of a thousand calls of programs so many carry a stream.
    pub(crate) carrying: u64,
}

/// What happens to nodes and to what is on its way between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Nanoseconds between two looks of a node at everything.
    pub(crate) sweep_ns: u64,
    /// Whether words in memory are seen late.
    pub(crate) late: bool,
    /// Of a thousand polls of a program's futures so many are the last.
    pub(crate) forgotten: u64,
    /// Of a thousand hints so many are lost, and so many doubled.
    pub(crate) hints_lost: u64,
    pub(crate) hints_doubled: u64,
    /// Whether nodes crash.
    pub(crate) crashes: bool,
    /// Whether clocks jump.
    pub(crate) jumps: bool,
    /// Of a thousand looks at a connection so many find that it has not taken what it was given.
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
        // What is drawn first stands first: a history follows from its seed.
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

    /// A node, but not this one.
    fn other(&self, random: &mut Random, not: usize) -> usize {
        (not + 1 + random.index(self.nodes - 1)) % self.nodes
    }
}

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It is done when it is first polled.
    Now,
    /// It is done after so many microseconds.
    Wait(u64),
    /// It calls this node and waits for the answer; that handler does the same, so many times.
    Back { to: usize, depth: u32 },
    /// It is never done, until somebody cancels it.
    Never,
    /// It waits for the other end of a stream.
    Streams,
}

/// What a message has to do with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Nothing,
    /// Its reply carries a stream.
    Result,
    /// A stream stands in its arguments.
    Argument,
    /// It asks for the next batch of a stream.
    Pull,
    /// It brings the next batch of a stream.
    Push,
}

impl Carries {
    /// The operation of a stream that it is.
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Carries::Pull => Some(Operation::Pull),
            Carries::Push => Some(Operation::Push),
            _ => None,
        }
    }
}

/// Whether a handler needs something that one has at a time, and what is done where it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// It begins as a task, when it is there.
    Later,
    /// Its call is sent back, and comes again.
    Again,
    /// Its caller gets an error.
    Never,
}

/// What is asked of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) to: usize,
    pub(crate) oneway: bool,
    /// The stream that it has to do with, if it has.
    pub(crate) carries: Carries,
    pub(crate) flow: usize,
    /// Bytes of arguments.
    pub(crate) bytes: u32,
    /// Bytes of the result.
    pub(crate) answer: u32,
    pub(crate) behaviour: Behaviour,
    pub(crate) need: Need,
    /// How often it was refused before.
    pub(crate) refusals: u64,
    /// Microseconds for which its handler goes on without its caller.
    pub(crate) outlives: Option<u64>,
    /// Microseconds until nobody wants the answer.
    pub(crate) deadline: Option<u64>,
    /// Microseconds until which that may be extended.
    pub(crate) total: Option<u64>,
    /// Microseconds until the caller drops the call.
    pub(crate) dropped: Option<u64>,
}

impl Ask {
    /// What the program at `from` asks next.
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

    /// What the handler at `from` asks of `to`.
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
            // Handlers do not come again.
            Ask { need: Need::Again, .. } => ask,
            ask => ask,
        }
    }

    /// The same with a stream in its result or in its arguments.
    fn carrying(self, random: &mut Random) -> Ask {
        match random.permille(500) {
            true => {
                let behaviour = random.pick(&[Behaviour::Now, Behaviour::Now, Behaviour::Wait(20)]);
                Ask { carries: Carries::Result, behaviour, ..self }
            }
            false => Ask { carries: Carries::Argument, behaviour: Behaviour::Streams, ..self },
        }
    }

    /// An operation of a stream.
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

    /// The same, whose handler may need something. One that waits for another node does not: it
    /// might wait for itself.
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
        // Short ones fit the smallest ring with all that stands before them.
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
