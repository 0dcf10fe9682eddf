//! The steady state, and how the tests distinguish it from others.

use crate::common::server::Kind;
use crate::quote::service::{
    ALLOCATIONS, BELLS, Elsewhere, HANDLED, SLEEPS, ServerBlocking, ServerHandle, Sleeper, Told,
    find, handled_by, tell,
};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use upbeat::quote::{Lap, Operation, Payload, Quote, Reader, quote};
use upbeat::{Counter, Node, Waiting};
use upbeat_core::limits::{CONTROL_SLOTS, IN_RING_BYTES_MAX, RING_SLOTS_FIRST, SLOT_BYTES};
use upbeat_memory::counters::CountersView;
use upbeat_memory::lane::GROWN_BYTES;
use upbeat_memory::probe::Count;
use upbeat_memory::ring::span_of;

/// How often a case is begun anew after a disturbance: a lane was full because its reader
/// had not yet published its progress, or a polling flag was cleared while the last reply was flushed. Such
/// things happen once in a run; an error of one per message shows in every try.
const TRIES: u32 = 10;

/// The pause between two messages of which a few fill the ring or take all buffers, so that their reader can
/// publish its progress.
const PAUSE: Duration = Duration::from_micros(20);

/// The number of messages whose costs are counted.
const MESSAGES: u64 = 100;
/// The number of long messages whose costs are counted.
const LONG_MESSAGES: u64 = 10;
/// Messages before those: more than a lap of the lanes.
const WARMING: u64 = RING_SLOTS_FIRST as u64 + 3;

/// An operation to be measured.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    pub(crate) arguments: Payload,
    pub(crate) result: Payload,
}

impl Case {
    fn caller(&self) -> Reader {
        match self.operation {
            Operation::Call { caller, .. } => caller,
            _ => Reader::Polls,
        }
    }

    /// Returns the payloads of the request and of the reply.
    fn payloads(&self) -> [Payload; 2] {
        match self.operation {
            Operation::Pull { .. } => [Payload::plain(4), self.result],
            Operation::Push { .. } => [Payload::plain(4).and(self.arguments), Payload::plain(1)],
            _ => [self.arguments, self.result],
        }
    }

    /// How a node waits that calls so.
    pub(crate) fn waiting(&self) -> Waiting {
        match self.caller() {
            Reader::Sleeps => Waiting::Sleeping,
            _ => Waiting::Polling,
        }
    }

    pub(crate) fn quote(&self) -> Quote {
        quote(self.operation, self.arguments, self.result).unwrap()
    }

    /// The laps of both lanes.
    fn laps(&self) -> Vec<Lap> {
        let mut laps = Vec::from(self.payloads().map(lap));
        if matches!(self.operation, Operation::Oneway { .. }) {
            laps.pop();
        }
        laps
    }

    /// Messages after which both lanes have been padded as often as in any other so many.
    fn round(&self) -> u64 {
        let laps = self.laps();
        let padded = laps.iter().filter(|lap| lap.padding_lines != 0);
        padded.fold(1, |round, lap| round / common_divisor(round, lap.messages) * lap.messages)
    }

    fn is_long(&self) -> bool {
        self.arguments.bytes.max(self.result.bytes) > IN_RING_BYTES_MAX
    }

    /// Returns the number of messages whose costs are counted.
    fn messages(&self) -> u64 {
        let about = if self.is_long() { LONG_MESSAGES } else { MESSAGES };
        (about / self.round()).max(1) * self.round()
    }

    /// Whether messages lie in buffers, or few of them fill the ring.
    fn is_crowded(&self) -> bool {
        self.is_long() || self.laps().iter().any(|lap| lap.messages < 20)
    }

    /// How often the lines may be loaded that say what the readers have passed and returned: of
    /// slots once or twice in a lap, of buffers once a message at most.
    fn progress_most(&self, messages: u64) -> u64 {
        let laps: u64 = self.laps().iter().map(|lap| messages.div_ceil(lap.messages)).sum();
        let payloads = self.payloads().map(|payload| payload.bytes);
        let placed = payloads.iter().filter(|bytes| **bytes > IN_RING_BYTES_MAX).count();
        2 * laps + 2 + placed as u64 * messages
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// A lap of the smallest ring that such messages go through.
fn lap(payload: Payload) -> Lap {
    let in_slots = if payload.bytes > IN_RING_BYTES_MAX { 0 } else { payload.bytes };
    let slots = [RING_SLOTS_FIRST, GROWN_BYTES[0] / SLOT_BYTES, GROWN_BYTES[1] / SLOT_BYTES];
    let keep = CONTROL_SLOTS as u32;
    let fits = |slots: &u32| span_of(in_slots) <= (slots / 2).min((slots - keep).div_ceil(2));
    let slots = slots.map(|slots| slots as u32).into_iter().find(fits).unwrap();
    Lap::of(slots, in_slots as u32)
}

/// The setting of measurements: a server, and a way to ask it outside of the measured sessions.
pub(crate) struct Bench {
    pub(crate) server: Elsewhere,
    /// This way is kept for ever: its polling flag stays set, so the server rings nobody for it.
    asker: ServerBlocking<'static>,
    /// The counts that asking the server adds.
    asked: Told,
    pub(crate) sleeper: Option<Sleeper>,
    handled: CountersView,
    counters: CountersView,
    clients: Cell<u64>,
    ended: Cell<u64>,
    table: RefCell<Vec<String>>,
}

impl Bench {
    pub(crate) fn new(server: Elsewhere, sleeps: bool) -> Bench {
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM);
        let builder = builder.directory(&server.place).waiting(Waiting::Polling);
        let asker: ServerHandle = builder.connect(&server.name).unwrap();
        let asker = Box::leak(Box::new(asker)).blocking();
        let sleeper = sleeps.then(|| Sleeper::find(server.pid, &server.name));
        let bench = Bench {
            asker,
            asked: [0; HANDLED + 1],
            sleeper,
            handled: find(server.pid, &handled_by(&server.name)),
            counters: find(server.pid, &server.name),
            clients: Cell::new(0),
            ended: Cell::new(0),
            table: RefCell::default(),
            server,
        };
        // More than a lap of the lanes, so that nothing is new.
        for _ in 0..100 {
            bench.ask();
        }
        let (first, second) = (bench.ask(), bench.ask());
        Bench { asked: minus(second, first), ..bench }
    }

    /// Returns the counts of the server.
    pub(crate) fn ask(&self) -> Told {
        self.asker.tell().unwrap()
    }

    /// A client's node, with a session that nobody has used.
    pub(crate) fn client(&self, waiting: Waiting) -> Node {
        self.clients.set(self.clients.get() + 1);
        let name = format!("client/{}/{}", self.server.name, self.clients.get());
        let node = crate::common::node(&name, &self.server.place, waiting);
        self.asker.meet(std::process::id(), name).unwrap();
        node
    }

    /// Waits until the server sleeps, if it is a sleeping server.
    fn await_sleep(&self) {
        if let Some(sleeper) = &self.sleeper {
            sleeper.wait();
        }
    }

    /// Waits until a polling server has ended its turn, in which it flushes its replies:
    /// a client that cleared its polling flag before that would be rung.
    fn await_turn(&self) {
        let watches = || self.counters.get(Counter::Watches.index()).unwrap();
        let seen = watches();
        // The node watches between its turns. Its next watch may have begun before.
        while self.sleeper.is_none() && watches() < seen + 2 {
            std::hint::spin_loop();
        }
    }

    /// Does it so often in a session, and gives what that took on both sides.
    pub(crate) fn run(&self, case: &Case, client: &Client<'_>, count: u64) -> Told {
        (client.prepare)(count);
        let before = self.ask();
        if let Some(sleeper) = &self.sleeper {
            sleeper.seen(before[SLEEPS]);
        }
        self.await_sleep();
        let pause = self.pause(case);
        let (mut sent, all) = (before[HANDLED], before[HANDLED] + count);
        let ours = (client.run)(count, &mut || {
            sent += 1;
            while self.handled.get(0).unwrap() < sent {
                std::hint::spin_loop();
            }
            self.await_sleep();
            if sent == all {
                self.await_turn();
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        let theirs = minus(minus(self.ask(), before), self.asked);
        let mut both = ours;
        for (at, theirs) in theirs.into_iter().enumerate() {
            // Of a thread of this process the allocations are counted already.
            if at != ALLOCATIONS || self.server.kind == Kind::Shared {
                both[at] = both[at].wrapping_add(theirs);
            }
        }
        both
    }

    fn pause(&self, case: &Case) -> Duration {
        if case.is_crowded() { PAUSE } else { Duration::ZERO }
    }

    /// Holds the quote of a case and its count equal, in sessions that `open` makes.
    pub(crate) fn hold<'c>(&self, case: &Case, open: impl Fn() -> Client<'c>) {
        let messages = case.messages();
        let mut wrong = String::new();
        for _ in 0..TRIES {
            let client = open();
            self.run(case, &client, WARMING);
            let once = self.run(case, &client, messages);
            let thrice = self.run(case, &client, 3 * messages);
            let ends = client.ends;
            drop(client);
            if ends {
                self.await_end();
            }
            match judge(case, &minus(thrice, once), 2 * messages) {
                Ok(line) => return self.table.borrow_mut().push(line),
                Err(what) => wrong = what,
            }
        }
        panic!("{}: {wrong}", case.name);
    }

    /// Waits until the server has seen the end of a session: its last frame is none of the next.
    fn await_end(&self) {
        self.ended.set(self.ended.get() + 1);
        while self.counters.get(Counter::SessionsLost.index()).unwrap() < self.ended.get() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Returns the table of the results, a line for each case.
    pub(crate) fn table(&self) -> String {
        self.table.borrow().concat()
    }
}

/// So many messages, with something between.
type Run<'c> = dyn Fn(u64, &mut dyn FnMut()) -> Told + 'c;

/// One session of a caller.
pub(crate) struct Client<'c> {
    /// Makes what so many messages take, outside of what is counted.
    pub(crate) prepare: Box<dyn Fn(u64) + 'c>,
    /// Does it so often, with something between, and gives what this side has counted.
    pub(crate) run: Box<Run<'c>>,
    /// Whether the session ends with this.
    pub(crate) ends: bool,
}

/// Returns the counts of a caller without a node.
pub(crate) fn tell_alone() -> Told {
    let mut told = [0; HANDLED + 1];
    told[..Count::COUNT].copy_from_slice(&upbeat_memory::probe::tally());
    told[ALLOCATIONS] = crate::ALLOCATOR.allocations();
    told
}

/// Returns the counts of a node's side.
pub(crate) fn tell_node(node: &Node) -> Told {
    tell(node, 0)
}

pub(crate) fn minus(after: Told, before: Told) -> Told {
    std::array::from_fn(|at| after[at].wrapping_sub(before[at]))
}

/// Every item, without any tolerance. Gives a line for the table.
fn judge(case: &Case, count: &Told, messages: u64) -> Result<String, String> {
    let of = |item: Count| count[item as usize];
    let equal = |what: &str, counted: u64, quoted: u64| match counted == quoted {
        true => Ok(()),
        false => {
            Err(format!("{what}: {counted} counted, {quoted} quoted, of {messages}: {count:?}"))
        }
    };
    let total = case.quote().times(messages);
    // The line of a sleeper's polling flag is loaded besides the lines of the frames.
    let loaded = of(Count::LinesLoaded).wrapping_add(of(Count::PollingFlagLines));
    let stored = of(Count::LinesStored).wrapping_add(of(Count::PollingFlagLines));
    equal("cache lines loaded", loaded, total.cache_lines)?;
    equal("cache lines stored", stored, total.cache_lines)?;
    equal("bytes", of(Count::Bytes), total.bytes)?;
    equal("copies", of(Count::Copies), total.copies)?;
    equal("allocations", count[ALLOCATIONS], total.allocations)?;
    equal("wakes", count[BELLS], total.wakes)?;
    // A wake is of a sleep, and nobody sleeps otherwise.
    equal("sleeps", count[SLEEPS], total.wakes)?;
    // Once in a lap, or never.
    let laps = case.laps();
    let padding = laps.iter().map(|lap| messages / lap.messages * lap.padding_lines).sum();
    equal("padding", of(Count::PaddingLines), padding)?;
    equal("heads where payload was", of(Count::Wiped), 0)?;
    equal("claims without room", of(Count::Refused), 0)?;
    let (progress, most) = (of(Count::ProgressLines), case.progress_most(messages));
    if !(1..=most).contains(&progress) {
        return Err(format!("progress was loaded {progress} times, {most} at most"));
    }
    let quote = case.quote();
    let each: String = quote.items().map(|(_, each)| format!("{each:>9}")).collect();
    Ok(format!("{:<40}{each}  {padding} + {progress} of {messages}\n", case.name))
}
