//! The plan of a world: its processes, what they ask of each other, and what disturbs them. A plan follows from a seed.

use super::history::{Id, Process};
use crate::random::Random;
use std::num::NonZero;
use upbeat_environment::process::Resource;

/// The hosts of a world, by their numbers.
pub(crate) const HOSTS: [&str; 3] = ["main", "vienna", "oslo"];

/// The time for which a host waits for an acknowledgement.
pub(crate) const PATIENCE_MS: u64 = 2_000;

/// Lengths of payloads: about those at which a message takes another way.
const BYTES: [usize; 14] =
    [0, 8, 90, 104, 105, 300, 1_000, 3_000, 5_000, 16_000, 17_000, 65_536, 65_600, 200_000];
const LONG_BYTES: [usize; 2] = [1 << 20, 9 << 20];

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    pub(crate) operations: Vec<Operation>,
    /// The faults, each with the time at which it comes.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The time for which a session waits for another connection.
    pub(crate) resume_ms: u64,
    /// The time for which a caller waits for a server that is not there.
    pub(crate) wait_ms: u64,
    /// The most accesses to shared memory in a turn, if turns end there.
    pub(crate) accesses_max: Option<NonZero<usize>>,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) host: usize,
    /// The bytes that the node, and a session, accept.
    pub(crate) budget: Option<u64>,
    pub(crate) conservative: bool,
    pub(crate) shared_memory: bool,
    /// The number of handlers that run at a time.
    pub(crate) concurrent: Option<usize>,
    /// The first life shuts down after this time, with this grace.
    pub(crate) leaves: Option<(u64, u64)>,
    pub(crate) exports: Option<Exports>,
}

/// The exports of each life of a server, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exports {
    pub(crate) is_guarded: bool,
    pub(crate) exports: u64,
    /// The updates of each export, and the pause before each.
    pub(crate) updates: u64,
    pub(crate) pause_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) host: usize,
    pub(crate) kind: Kind,
    /// The operations of each of its tasks, in their order.
    pub(crate) tasks: Vec<Vec<Id>>,
    pub(crate) readers: Vec<Reader>,
}

/// A task that looks at the export of a server again and again.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) server: Process,
    pub(crate) way: Way,
    pub(crate) rounds: u64,
    pub(crate) pause_ms: u64,
}

/// The way in which a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Whole,
    Part,
    Snapshot,
    /// Without a call.
    Memory,
    Watch,
}

/// The kind of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Node,
    /// Calls of a handle that are awaited.
    Awaited,
    /// Calls of a handle that block.
    Blocking,
}

#[derive(Debug)]
pub(crate) struct Operation {
    /// The handler that asks for it, or none if a client does.
    pub(crate) parent: Option<Id>,
    pub(crate) from: Process,
    pub(crate) to: Process,
    pub(crate) act: Act,
    pub(crate) bytes: usize,
    pub(crate) reply_bytes: usize,
    pub(crate) body: Vec<Step>,
    pub(crate) end: End,
    pub(crate) items: Items,
    pub(crate) deadline_ms: Option<u64>,
    /// The caller drops it after this time.
    pub(crate) drop_after_ms: Option<u64>,
    /// The pause of the caller before it.
    pub(crate) pause_ms: u64,
    /// A client connects anew before it.
    pub(crate) is_anew: bool,
    /// The server that a node asks for a reference to the one of the operation.
    pub(crate) referred_by: Option<Process>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Call,
    /// A call whose handler goes on without its caller, for so long as [`OUTLIVES_MS`].
    Outlives,
    Note,
    /// A call whose result is a stream, which its caller reads.
    Read,
    /// A call whose argument is a stream, which its handler reads. The handler goes on without its caller for as long.
    Write,
}

/// The time for which a handler under `outlives` goes on.
pub(crate) const OUTLIVES_MS: u64 = 300;
/// The time for which the handler of a one-way message goes on.
pub(crate) const ONEWAY_OUTLIVES_MS: u64 = 10_000;

/// The items of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    /// The number that is written, and the number after which the reader leaves.
    pub(crate) written: u64,
    pub(crate) wanted: u64,
    pub(crate) bytes: usize,
    /// The pause of the writer and of the reader before every seventh item.
    pub(crate) pauses_ms: [u64; 2],
}

impl Items {
    fn new(random: &mut Random) -> Items {
        Items {
            written: random.pick(&[0, 1, 5, 40, 700]),
            wanted: random.pick(&[0, 3, 300, 1_000]),
            bytes: random.pick(&[0, 8, 8, 300, 5_000]),
            pauses_ms: [(); 2].map(|()| random.pick(&[0, 0, 1, 6])),
        }
    }
}

/// A step of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Sleep(u64),
    Call(Id),
    /// Sleeps while it has the lock of its server.
    Lock(u64),
    /// Computes on another thread.
    Compute,
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Return,
    Fail,
    Panic,
    /// A layer refuses the operation before.
    Refuse,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A process is killed. A server starts again after this time.
    Kill(Process, u64),
    /// A process stops for a time.
    Stop(Process, u64),
    Break([usize; 2]),
    Part([usize; 2], u64),
    /// Nothing passes from one host to another.
    Silence([usize; 2], u64),
    Delay([usize; 2], u64),
    /// A process lacks a resource for a time.
    Starve(Process, Resource, u64),
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let hosts = random.pick(&[1, 1, 2, 2, 3]);
        let servers = (0..random.within(1, 3)).map(|_| Server::new(hosts, &mut random)).collect();
        let mut plan = Plan {
            servers,
            clients: Vec::new(),
            operations: Vec::new(),
            faults: Vec::new(),
            resume_ms: random.pick(&[0, 400, 60_000, 60_000]),
            wait_ms: random.pick(&[0, 500, 10_000, 10_000]),
            accesses_max: None,
        };
        for client in 0..random.within(1, 3) as usize {
            plan.add_client(client, hosts, &mut random);
        }
        // One world in five has no faults.
        for _ in 0..random.pick(&[0, 1, 2, 4, 6]) {
            let at = random.below(400);
            let fault = plan.fault(hosts, &mut random);
            plan.faults.push((at, fault));
        }
        plan.accesses_max = NonZero::new(random.pick(&[0, 0, 30, 1_000]));
        plan
    }

    /// Returns the host of a process.
    pub(crate) fn host(&self, process: Process) -> usize {
        match process.checked_sub(self.servers.len()) {
            None => self.servers[process].host,
            Some(client) => self.clients[client].host,
        }
    }

    pub(crate) fn processes(&self) -> usize {
        self.servers.len() + self.clients.len()
    }

    fn add_client(&mut self, number: usize, hosts: usize, random: &mut Random) {
        let kind = random.pick(&[Kind::Node, Kind::Node, Kind::Awaited, Kind::Blocking]);
        let tasks = if kind == Kind::Blocking { 1 } else { random.within(1, 3) };
        let from = self.servers.len() + number;
        let tasks = (0..tasks).map(|_| {
            (0..random.within(3, 10))
                .map(|_| self.add_operation(None, from, kind, random))
                .collect()
        });
        let tasks = tasks.collect();
        // A reader waits for exports for as long as a client does for its server.
        let is_owner = |server: &Process| self.servers[*server].exports.is_some();
        let owners: Vec<_> = (0..self.servers.len()).filter(is_owner).collect();
        let is_reader = kind != Kind::Blocking && !owners.is_empty();
        let readers = if is_reader { random.below(4) } else { 0 };
        let readers = (0..readers).map(|_| Reader::new(&owners, random)).collect();
        self.clients.push(Client { host: random.index(hosts), kind, tasks, readers });
    }

    /// Adds an operation, and those that its handler asks for.
    fn add_operation(
        &mut self,
        parent: Option<Id>,
        from: Process,
        kind: Kind,
        random: &mut Random,
    ) -> Id {
        let to = random.index(self.servers.len());
        // A node does not call itself.
        let to = if to == from { (to + 1) % self.servers.len() } else { to };
        let bytes = |random: &mut Random| match random.permille(10) {
            true => random.pick(&LONG_BYTES),
            false => random.pick(&BYTES),
        };
        let is_own = parent.is_none();
        let id = self.operations.len();
        let act = match (random.below(16), kind) {
            (0..=6, _) | (12.., Kind::Blocking) => Act::Call,
            (7 | 8, _) => Act::Outlives,
            (9..=11, _) => Act::Note,
            (12 | 13, _) => Act::Read,
            // The handler has a place that others wait for, whose requests may take the room of its stream (flow.md).
            _ if self.servers[to].concurrent.is_some() => Act::Read,
            _ => Act::Write,
        };
        // Of one-way messages, those alone have a deadline that block.
        let may_expire = act != Act::Note || kind == Kind::Blocking;
        self.operations.push(Operation {
            parent,
            from,
            to,
            act,
            bytes: bytes(random),
            reply_bytes: bytes(random),
            body: Vec::new(),
            items: Items::new(random),
            end: match random.below(20) {
                // The writer of an argument is polled with its call.
                0 if act == Act::Write => End::Return,
                0 => End::Panic,
                1 => End::Refuse,
                2 | 3 if !matches!(act, Act::Read | Act::Write) => End::Fail,
                _ => End::Return,
            },
            deadline_ms: (may_expire && random.permille(250)).then(|| random.within(1, 60)),
            drop_after_ms: (kind != Kind::Blocking && random.permille(150))
                .then(|| random.below(30)),
            pause_ms: if is_own && random.permille(300) { random.below(60) } else { 0 },
            is_anew: is_own && random.permille(50),
            referred_by: (is_own && kind == Kind::Node && random.permille(100))
                .then(|| random.index(self.servers.len())),
        });
        let mut body = Vec::new();
        for _ in 0..random.pick(&[0, 0, 1, 1, 2]) {
            let depth = std::iter::successors(parent, |of| self.operations[*of].parent).count();
            // A handler that has a place among a few may not wait for others.
            let may_call =
                depth < 2 && self.servers.len() > 1 && self.servers[to].concurrent.is_none();
            body.push(match random.below(6) {
                0 => Step::Lock(random.below(15)),
                1 => Step::Compute,
                2 | 3 if may_call => {
                    Step::Call(self.add_operation(Some(id), to, Kind::Node, random))
                }
                _ => Step::Sleep(random.pick(&[0, 1, 5, 20, 80])),
            });
        }
        self.operations[id].body = body;
        id
    }

    fn fault(&self, hosts: usize, random: &mut Random) -> Fault {
        let longest = random.pick(&[30, 300, 6_000]);
        let time = random.within(0, longest);
        let process = random.index(self.processes());
        let of = random.index(hosts);
        let next = (of + 1) % hosts;
        let pair = random.pick(&[[of, next], [next, of]]);
        let resources = [Resource::Descriptors, Resource::Memory, Resource::Room];
        match random.below(if hosts > 1 { 9 } else { 4 }) {
            0 | 1 => Fault::Kill(process, random.below(300)),
            2 => Fault::Stop(process, time),
            3 => Fault::Starve(process, random.pick(&resources), time.min(1_000)),
            4 | 5 => Fault::Break(pair),
            6 => Fault::Part(pair, time),
            7 => Fault::Silence(pair, time),
            _ => Fault::Delay(pair, random.within(1, 50)),
        }
    }
}

impl Server {
    fn new(hosts: usize, random: &mut Random) -> Server {
        Server {
            host: random.index(hosts),
            budget: random.permille(250).then(|| random.pick(&[1, 1_000, 100_000])),
            conservative: random.permille(150),
            shared_memory: !random.permille(200),
            concurrent: random.permille(150).then(|| random.within(1, 2) as usize),
            leaves: random.permille(100).then(|| (random.within(20, 300), random.below(100))),
            exports: random.permille(500).then(|| Exports {
                is_guarded: random.permille(500),
                exports: random.within(1, 4),
                updates: random.pick(&[1, 10, 60]),
                pause_ms: random.pick(&[0, 1, 5]),
            }),
        }
    }
}

impl Reader {
    fn new(owners: &[Process], random: &mut Random) -> Reader {
        Reader {
            server: random.pick(owners),
            way: random.pick(&[Way::Whole, Way::Part, Way::Snapshot, Way::Memory, Way::Watch]),
            rounds: random.within(1, 20),
            pause_ms: random.below(20),
        }
    }
}

/// Returns the name of the node of a process. Handles have none.
pub(crate) fn process_name(plan: &Plan, process: Process) -> Option<String> {
    let Some(number) = process.checked_sub(plan.servers.len()) else {
        return Some(format!("server-{process}"));
    };
    match plan.clients.get(number) {
        Some(client) => (client.kind == Kind::Node).then(|| format!("client-{number}")),
        None => Some("auditor".to_owned()),
    }
}

/// The words after which a payload begins anew: no multiple of a page or of a buffer.
const PATTERN: usize = 37;

/// Returns the payload of an operation: of its request, or of its reply.
pub(crate) fn payload(id: Id, is_reply: bool, bytes: usize) -> Vec<u8> {
    let mut words = Random::new((id as u64) << 1 | u64::from(is_reply));
    let pattern: Vec<u8> = (0..PATTERN).flat_map(|_| words.next().to_le_bytes()).collect();
    let mut payload = pattern.repeat(bytes.div_ceil(pattern.len()));
    payload.truncate(bytes);
    payload
}
