//! Tests the costs of a null call in the steady state: no allocation, no system call, one copy each way.
//!
//! The calls run in a process of their own, where no other test allocates. Where `strace` is
//! installed it counts the system calls of that process and of the server's.

use crate::ALLOCATOR;
use crate::common::process::{Other, input_ends, say};
use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::WorkClient;
use crate::common::{Directory, PROGRAM, Signal, Watchdog, alone, assert_free, block_on, node};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;
use upbeat::{Counter, Node, Waiting};
use upbeat_core::limits::{EXTENSION_BYTES, IN_STREAMED_RING_BYTES_MAX};
use upbeat_memory::probe::{Count, tally};

const CALLS: u64 = 20_000;
const SERVER: &str = "server";
/// Turns of each node in which all calls through a relay are done.
const TURNS_MAX: u64 = 100 * CALLS;
/// Looks for a peer's death, a second and node: at most.
const WATCHES: u64 = 1_000;
/// The system call that looks.
const WATCH: &str = "epoll_pwait";
/// System calls that are nobody's, in a run.
const SOME: u64 = 100;

#[upbeat::service]
trait Costs {
    async fn null(&self);
    /// How often the server's process has allocated.
    async fn allocations(&self) -> u64;
    async fn take(&self, bytes: Vec<u8>);
    #[oneway]
    async fn hit(&self);
}

/// Calls on behalf of others.
#[upbeat::service]
trait Relay {
    /// A null call, made in the first poll of this method's handler.
    async fn null(&self);
    /// A message of which the caller hears when it has been handled.
    async fn counts(&self) -> (u64, u64);
}

struct Between(CostsClient, upbeat::Node);

impl Relay for Between {
    async fn null(&self) {
        self.0.null().await.unwrap();
    }

    async fn counts(&self) -> (u64, u64) {
        (self.1.counted(Counter::RepliesInPlace), self.1.counted(Counter::RepliesStashed))
    }
}

struct Here;

impl Costs for Here {
    async fn null(&self) {}

    async fn allocations(&self) -> u64 {
        ALLOCATOR.allocations()
    }

    async fn take(&self, _: Vec<u8>) {}

    async fn hit(&self) {}
}

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["serve"] => {
            serve(place, input_ends(), || say("serving"));
        }
        [what @ ("call" | "trace"), kind, calls] => {
            let kind = if kind == "Local" { Kind::Local } else { Kind::Shared };
            beside(kind, place, || call(place, calls.parse().unwrap(), what == "trace"));
        }
        ["await", kind, calls] => {
            let kind = if kind == "Local" { Kind::Local } else { Kind::Shared };
            beside(kind, place, || await_calls(place, calls.parse().unwrap()));
        }
        ["flood", messages] => {
            beside(Kind::Shared, place, || flood(place, messages.parse().unwrap()));
        }
        ["relay", calls] => relay(place, calls.parse().unwrap()),
        _ => return false,
    }
    true
}

fn serve(place: &Path, quit: Signal, ready: impl FnOnce()) {
    let node = node(SERVER, place, Waiting::Polling);
    node.serve(CostsServer::new(Here)).unwrap();
    ready();
    node.block_on(quit);
}

/// Ends the server though a test fails.
struct GiveOnDrop(Signal);

impl Drop for GiveOnDrop {
    fn drop(&mut self) {
        self.0.give();
    }
}

/// Does something while a server is there, in a thread of this process or in another process.
fn beside(kind: Kind, place: &Path, act: impl FnOnce()) {
    match kind {
        Kind::Shared => {
            let mut server = Other::start("serve", place);
            server.expect("serving");
            act();
            server.end();
        }
        Kind::Local => std::thread::scope(|scope| {
            let quit = Signal::default();
            let ended = quit.clone();
            let (ready, is_ready) = std::sync::mpsc::channel();
            scope.spawn(move || serve(place, ended, || ready.send(()).unwrap()));
            is_ready.recv().unwrap();
            let _quit = GiveOnDrop(quit);
            act();
        }),
    }
}

/// Calls so often, and says how long it took. Asserts that neither side allocates, unless a tracer counts system calls:
/// handlers run so long beneath it that the node reports them.
fn call(place: &Path, calls: u64, is_traced: bool) {
    let node = node("client", place, Waiting::Polling);
    // The bill is to cost neither, even if every call is sampled.
    node.set_sampling(1);
    node.block_on(async {
        let costs: CostsClient = node.connect(SERVER).await.unwrap();
        let run = async |calls| {
            let theirs = costs.allocations().await.unwrap();
            let ours = ALLOCATOR.allocations();
            for _ in 0..calls {
                costs.null().await.unwrap();
            }
            let ours = ALLOCATOR.allocations() - ours;
            (ours, costs.allocations().await.unwrap() - theirs)
        };
        // This runs until all tables have grown, those of samples in flight too.
        run(2_000).await;
        // The costs of asking are not counted as the calls' own.
        let none = run(0).await;
        let began = Instant::now();
        assert_eq!(none.0, 0);
        match is_traced {
            true => drop(run(calls).await),
            false => assert_free(calls, &none, run).await,
        }
        say(&format!("took {}", began.elapsed().as_millis()));
    });
}

#[test]
fn no_allocation() {
    if !crate::common::in_plaintext("every record takes memory") {
        return;
    }
    let (_alone, _watchdog) = (alone(), Watchdog::new("allocations"));
    for kind in KINDS {
        let directory = Directory::new();
        let mut caller = Other::start(&format!("call {kind:?} {CALLS}"), &directory.path());
        caller.expect("took");
        caller.end();
    }
}

/// Calls so often through a relay, and asserts that no part of this process allocates, and that the relay
/// reads its replies where they lie. The three nodes take turns in this thread.
fn relay(place: &Path, calls: u64) {
    let node = |name| node(name, place, Waiting::Polling);
    let (server, between, client) = (node(SERVER), node("relay"), node("client"));
    // The bill of a sampled handler that waits is kept beside the handler, so sampling is off.
    for node in [&server, &between, &client] {
        node.set_sampling(0);
    }
    server.serve(CostsServer::new(Here)).unwrap();
    let done = Rc::new(Cell::new(false));
    let turn_until = |done: &Cell<bool>| {
        for _ in 0..TURNS_MAX {
            for node in [&client, &between, &server] {
                node.turn();
            }
            if done.replace(false) {
                return;
            }
        }
        panic!("a task has ended before its end");
    };
    let (ended, callers) = (Rc::clone(&done), between.clone());
    drop(between.spawn(async move {
        let costs = callers.connect(SERVER).await.unwrap();
        callers.serve(RelayServer::new(Between(costs, callers.clone()))).unwrap();
        ended.set(true);
    }));
    turn_until(&done);
    let (ended, caller) = (Rc::clone(&done), client.clone());
    drop(client.spawn(async move {
        let relay: RelayClient = caller.connect("relay").await.unwrap();
        let run = async |calls| {
            let before = ALLOCATOR.allocations();
            for _ in 0..calls {
                relay.null().await.unwrap();
            }
            ALLOCATOR.allocations() - before
        };
        run(2_000).await;
        let before = relay.counts().await.unwrap();
        assert_free(calls, &0, run).await;
        let after = relay.counts().await.unwrap();
        let (in_place, stashed) = (after.0 - before.0, after.1 - before.1);
        assert!(in_place >= calls && stashed == 0, "{in_place} in place, {stashed} stashed");
        ended.set(true);
    }));
    turn_until(&done);
    say("took");
}

/// A handler that calls another node in its first poll, and so becomes a task: it costs no allocation
/// either, and its reply is read where it lies.
#[test]
fn no_allocation_of_a_handler_that_calls() {
    if !crate::common::in_plaintext("every record takes memory") {
        return;
    }
    let (_alone, _watchdog) = (alone(), Watchdog::new("allocations of a relay"));
    let directory = Directory::new();
    let mut caller = Other::start(&format!("relay {}", CALLS / 10), &directory.path());
    caller.expect("took");
    caller.end();
}

/// Awaits calls of a handle, and asserts that nothing allocates: neither where a call finds its reply by itself,
/// nor where the handle's thread is woken for each.
fn await_calls(place: &Path, calls: u64) {
    for (waiting, calls) in [(Waiting::Polling, calls), (Waiting::Sleeping, calls / 10)] {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
        // The bill is to cost nothing either, even if every call is sampled.
        let builder = builder.waiting(waiting).sampling(1);
        let costs: CostsHandle = builder.connect(SERVER).unwrap();
        block_on(async {
            let run = async |calls| {
                let theirs = costs.allocations().await.unwrap();
                let ours = ALLOCATOR.allocations();
                for _ in 0..calls {
                    // Its reply has bytes to keep.
                    costs.allocations().await.unwrap();
                }
                let ours = ALLOCATOR.allocations() - ours;
                (ours, costs.allocations().await.unwrap() - theirs)
            };
            // This runs until all tables have grown, those of samples in flight too.
            run(calls / 10).await;
            let none = run(0).await;
            assert_eq!(none.0, 0);
            assert_free(calls, &none, run).await;
        });
    }
    say("took");
}

#[test]
fn no_allocation_of_an_awaited_call() {
    if !crate::common::in_plaintext("every record takes memory") {
        return;
    }
    let (_alone, _watchdog) = (alone(), Watchdog::new("allocations of awaited calls"));
    for kind in KINDS {
        let directory = Directory::new();
        let mut caller = Other::start(&format!("await {kind:?} {CALLS}"), &directory.path());
        caller.expect("took");
        caller.end();
    }
}

#[test]
fn no_system_call() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("system calls"));
    if !crate::common::has_strace() {
        return;
    }
    for kind in KINDS {
        let (few, few_ms) = traced(&format!("trace {kind:?} {CALLS}"));
        let (many, many_ms) = traced(&format!("trace {kind:?} {}", 2 * CALLS));
        println!("{kind:?}: {few:?} in {few_ms} ms, {many:?} in {many_ms} ms");
        // Both nodes watch, as long as they run, and say so by this call alone.
        for (counts, ms) in [(&few, few_ms), (&many, many_ms)] {
            let watches = counts[WATCH];
            assert!(watches <= 2 * WATCHES * ms / 1000 + SOME, "{watches} in {ms} ms");
        }
        // The rest is the same in every run, but for threads that wait for each other at the start
        // and at the end.
        let more = |name: &String| {
            let count = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0);
            count(&many).saturating_sub(count(&few))
        };
        // Over streams a message is sent by one and received by one. Those that found nothing do not count.
        let exchange = |name: &str| {
            let each = if crate::common::over_streams() { 2 * CALLS } else { 0 };
            if matches!(name, "sendto" | "recvfrom") { each + each / 100 } else { 0 }
        };
        // Handlers are slow beneath a tracer, so nodes read the kernel's account of their threads, and report them.
        const REPORTS: [&str; 7] =
            ["open", "openat", "close", "fcntl", "clock_gettime", "read", "write"];
        // On a busy machine those are of one call in ten; what each call does is found.
        let reports = |name: &str| if REPORTS.contains(&name) { CALLS / 4 } else { 0 };
        let more = |(name, _): (&String, &u64)| match name == WATCH {
            true => 0,
            false => more(name).saturating_sub(exchange(name) + reports(name)),
        };
        let more: u64 = many.iter().map(more).sum();
        assert!(more <= SOME, "{more} system calls for {CALLS} calls more");
    }
}

/// Sends so many one-way messages over a byte stream, and a call behind them.
fn flood(place: &Path, messages: u64) {
    let builder = upbeat::Node::builder("client").program(PROGRAM).directory(place);
    let node = builder.waiting(Waiting::Polling).shared_memory(false).build().unwrap();
    node.block_on(async {
        let costs: CostsClient = node.connect(SERVER).await.unwrap();
        for _ in 0..messages {
            costs.hit().await.unwrap();
        }
        costs.null().await.unwrap();
    });
    say("took");
}

/// One-way messages that come in a burst go out together: both sides' sends, progress too, are few.
#[test]
fn a_send_carries_many_one_way_messages() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("sends of one-way messages"));
    if !crate::common::has_strace() {
        return;
    }
    let sends = |messages| {
        let (counts, _) = traced(&format!("flood {messages}"));
        ["sendto", "sendmsg"].iter().filter_map(|name| counts.get(*name)).sum::<u64>()
    };
    let (few, many) = (sends(CALLS), sends(11 * CALLS));
    println!("{few} sends, {many} sends for {} messages more", 10 * CALLS);
    assert!(many.saturating_sub(few) <= 10 * CALLS / 100, "{few} sends, then {many}");
}

/// The system calls of a part, by name, and how long its processes lived.
fn traced(part: &str) -> (BTreeMap<String, u64>, u64) {
    let directory = Directory::new();
    let list = directory.path().with_extension("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "name,calls,errors", "-o"]).arg(&list);
    let began = Instant::now();
    let mut caller = Other::start_under(strace, part, &directory.path());
    caller.expect("took");
    caller.end();
    let ms = began.elapsed().as_millis() as u64;
    let text = std::fs::read_to_string(&list).unwrap();
    let counts = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, count): (_, u64) = (words.next()?, words.next()?.parse().ok()?);
        let failed: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let count = if crate::common::over_streams() { count - failed } else { count };
        (name != "total").then(|| (name.to_owned(), count))
    });
    (counts.collect(), ms)
}

/// A message has a copy of its own making (into the slot) and one of its reading (out of it: the
/// value is decoded where the peer wrote it). A result that is put aside before its caller looks is
/// copied once more; the counters tell that none was.
#[test]
fn one_copy_each_way() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("copies"));
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Polling);
        stand.node.block_on(async {
            let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
            let count = |counter| stand.node.counted(counter);
            let before = (count(Counter::RepliesInPlace), count(Counter::RepliesStashed));
            for _ in 0..CALLS {
                work.null().await.unwrap();
            }
            let after = (count(Counter::RepliesInPlace), count(Counter::RepliesStashed));
            assert_eq!((after.0 - before.0, after.1 - before.1), (CALLS, 0));
        });
    }
}

/// Over a byte stream, a request of the limit lies in slots of the lane. A longer one lies in a buffer, and its frame has
/// a reference to that.
#[test]
fn a_request_over_a_byte_stream_lies_in_slots_up_to_a_limit() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("slots over a byte stream"));
    let directory = Directory::new();
    let place = directory.path();
    let builder = Node::builder("client").program(PROGRAM).directory(&place);
    let node = builder.shared_memory(false).sampling(0).build().unwrap();
    let calls = async || {
        let costs: CostsClient = node.connect(SERVER).await.unwrap();
        let published = async |bytes: usize| {
            let before = tally()[Count::Bytes as usize];
            // A count stands before the bytes.
            costs.take(vec![1; bytes - 8]).await.unwrap();
            tally()[Count::Bytes as usize] - before
        };
        // A message may also announce memory, once.
        let least = async |bytes: usize| {
            let mut least = u64::MAX;
            for _ in 0..3 {
                least = least.min(published(bytes).await);
            }
            least
        };
        let limit = least(IN_STREAMED_RING_BYTES_MAX).await;
        assert_eq!(limit, IN_STREAMED_RING_BYTES_MAX as u64);
        let beyond = least(IN_STREAMED_RING_BYTES_MAX + 1).await;
        assert_eq!(beyond, limit + 1 + EXTENSION_BYTES as u64);
    };
    beside(Kind::Shared, &place, || node.block_on(calls()));
}
