//! Costs of messages over byte streams: system calls of both sides, one by one as strace lists them, and passes over
//! payloads, which the lanes count in user space and the kernel makes in each write and read.
//!
//! A write or a read counts if it moves bytes. Attempts that move none are counted apart: a polling node looks at its
//! sockets again and again, and how often depends on time alone.

use crate::common::node;
use crate::common::process::say;
use crate::common::server::Kind;
use crate::quote::kernel::{returned, word};
use crate::quote::service::{Elsewhere, FormsClient, ServerClient, Sleeper};
use crate::quote::steady::tell_node;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use upbeat::quote::{Carrier, Operation, Payload, Quote, Reader, quote_over};
use upbeat::{Node, Waiting};
use upbeat_memory::probe::Count;

/// A phase: what it does, with how many bytes of a `Vec` each way, and how often.
struct Phase {
    name: &'static str,
    operation: Operation,
    bytes: usize,
    count: u64,
}

const fn call(name: &'static str, reader: Reader, bytes: usize, count: u64) -> Phase {
    Phase { name, operation: Operation::Call { callee: reader, caller: reader }, bytes, count }
}

const AWAKE: [Phase; 4] = [
    call("null", Reader::Polls, 0, 1000),
    call("short", Reader::Polls, 20, 500),
    call("longer", Reader::Polls, 300, 500),
    call("page", Reader::Polls, 4096, 500),
];
const ASLEEP: [Phase; 1] = [call("asleep", Reader::Sleeps, 0, 50)];

/// Calls before those that are counted.
const WARMING: u64 = 50;

pub(crate) fn run(place: &Path) {
    for (waiting, phases) in [(Waiting::Polling, &AWAKE[..]), (Waiting::Sleeping, &ASLEEP[..])] {
        let server = Elsewhere::start(Kind::Shared, place, waiting);
        let client = node(&format!("client/{waiting:?}"), place, waiting);
        client.block_on(phases_of(&client, &server, phases));
        drop(client);
        server.end();
    }
    say("done");
}

async fn phases_of(client: &Node, server: &Elsewhere, phases: &[Phase]) {
    let forms: FormsClient = client.connect(&server.name).await.unwrap();
    let asking: ServerClient = client.connect(&server.name).await.unwrap();
    asking.meet(std::process::id(), client.name().to_string()).await.unwrap();
    let sleeper = Sleeper::find(server.pid, &server.name);
    let passes = async || {
        let theirs = asking.tell().await.unwrap()[Count::Copies as usize];
        theirs + tell_node(client)[Count::Copies as usize]
    };
    for phase in phases {
        let value = Cell::new(vec![1; phase.bytes]);
        let act = async || match phase.operation {
            Operation::Call { callee: Reader::Sleeps, .. } => {
                forms.null_asleep().await.unwrap();
                sleeper.wait();
            }
            _ if phase.bytes == 0 => forms.null().await.unwrap(),
            _ => value.set(forms.echo(value.take()).await.unwrap()),
        };
        // Each side finds out when the other one sleeps, and what grows has grown.
        for _ in 0..WARMING {
            act().await;
        }
        let (mut before, mut asked) = (0, 0);
        if phase.bytes != 0 {
            // The costs of asking are not counted as the calls' own.
            let first = passes().await;
            before = passes().await;
            asked = before - first;
        }
        say(&format!("begin {}", phase.name));
        for _ in 0..phase.count {
            act().await;
        }
        say(&format!("end {}", phase.name));
        let moved = if phase.bytes == 0 { 0 } else { passes().await - before - asked };
        say(&format!("passes {moved} {}", phase.name));
    }
}

/// The system calls that both sides made in a phase.
#[derive(Default)]
struct Calls {
    /// System calls that moved bytes, and waits that ended, by name.
    counted: BTreeMap<String, u64>,
    /// System calls that moved no bytes.
    attempts: u64,
}

impl Calls {
    fn add(&mut self, call: &str) {
        let name = call.split('(').next().unwrap();
        let in_vain = match name {
            // Looks are due by time, and so is a wait that nothing has ended.
            "getsockopt" => true,
            "epoll_pwait" => call.contains(", 0, NULL, ") || call.ends_with(" = 0"),
            _ => call.contains("EAGAIN"),
        };
        if in_vain {
            self.attempts += 1;
        } else {
            *self.counted.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Writes and reads that moved bytes: in each of them the kernel passes over the payload.
    fn moves(&self) -> u64 {
        let moves = ["sendto", "sendmsg", "recvfrom", "recvmsg"];
        moves.iter().filter_map(|name| self.counted.get(*name)).sum()
    }
}

/// Holds every phase of a list against its quote.
pub(crate) fn judge(list: &str, carrier: &str) {
    let phases = || AWAKE.iter().chain(&ASLEEP);
    let (mut calls, mut is_open, mut judged) = (Calls::default(), false, Vec::new());
    for (_, call) in returned(list) {
        if call.contains("\"@begin ") {
            (calls, is_open) = (Calls::default(), true);
        } else if call.contains("\"@end ") {
            is_open = false;
        } else if let Some((_, said)) = call.split_once("\"@passes ") {
            let (passes, name) = said.split_once(' ').unwrap();
            let (passes, name): (u64, _) = (passes.parse().unwrap(), word(name));
            let phase = phases().find(|phase| phase.name == name).unwrap();
            judge_phase(phase, &calls, passes, carrier);
            judged.push(phase.name);
        } else if is_open && call.contains('(') {
            calls.add(&call);
        }
    }
    let names: Vec<&str> = phases().map(|phase| phase.name).collect();
    assert_eq!(judged, names, "phases that were found");
}

/// The most reports of slow handlers in a phase.
const REPORTS: u64 = 8;

fn judge_phase(phase: &Phase, calls: &Calls, passes: u64, carrier: &str) {
    let Phase { name, operation, bytes, count } = phase;
    let payload = if *bytes == 0 { Payload::NONE } else { Payload::sequence(*bytes) };
    let each: Quote = quote_over(Carrier::Stream, *operation, payload, payload).unwrap();
    let total = each.times(*count);
    let Calls { counted, attempts } = calls;
    println!(
        "{carrier}, {name}: {count} calls made {counted:?}, {attempts} empty attempts, {passes} copies"
    );
    let waits = counted.get("epoll_pwait").copied().unwrap_or(0);
    // A message that comes when its reader is about to sleep saves the wait.
    let saved = total.wakes.saturating_sub(waits);
    assert!(saved <= total.wakes / 10, "{carrier}, {name}: {waits} waits of {}", total.wakes);
    let all = counted.values().sum::<u64>() + saved;
    assert_eq!(all, total.system_calls, "{carrier}, {name}: {counted:?} in {count}");
    let kernel = if *bytes == 0 { 0 } else { calls.moves() };
    // Reports of handlers that are slow beneath the tracer are counted among the passes, or delay one.
    assert!(
        (passes + kernel).abs_diff(total.copies) <= REPORTS,
        "{carrier}, {name}: {passes} passes, {kernel} the kernel's, for {}",
        total.copies
    );
}
