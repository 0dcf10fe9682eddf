//! System calls, of all threads of all sides, one by one as strace tells them.
//!
//! A run says aloud where a phase begins and ends, and those words are system calls themselves: what
//! stands between them in the list is the phase's. Looks at the sockets while a side is awake are told by their timeout
//! of nothing, or by finding nothing while nobody sleeps.

use crate::common::process::say;
use crate::common::server::Kind;
use crate::common::{PROGRAM, node};
use crate::quote::service::{Elsewhere, FormsClient, FormsHandle, ServerHandle, Sleeper};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;
use upbeat::quote::{Operation, Payload, Reader, quote};
use upbeat::{Counter, Waiting};

const LOOKS: Reader = Reader::Polls;
const SLEEPS: Reader = Reader::Sleeps;

/// The phases, each with its operation and the number of repetitions.
const PHASES: [(&str, Operation, u64); 7] = [
    ("call", Operation::Call { callee: LOOKS, caller: LOOKS }, 5000),
    ("page", Operation::Call { callee: LOOKS, caller: LOOKS }, 1000),
    ("oneway", Operation::Oneway { receiver: LOOKS }, 2000),
    ("handle", Operation::Call { callee: LOOKS, caller: LOOKS }, 5000),
    ("asleep", Operation::Call { callee: SLEEPS, caller: LOOKS }, 50),
    ("oneway-asleep", Operation::Oneway { receiver: SLEEPS }, 50),
    ("both-asleep", Operation::Call { callee: SLEEPS, caller: SLEEPS }, 50),
];

fn count(name: &str) -> u64 {
    PHASES.iter().find(|phase| phase.0 == name).unwrap().2
}

pub(crate) fn run(kind: Kind, place: &Path) {
    let server = Elsewhere::start(kind, place, Waiting::Polling);
    awake(&server);
    server.end();
    let server = Elsewhere::start(kind, place, Waiting::Sleeping);
    asleep(&server, Waiting::Polling, &["asleep", "oneway-asleep"], 1);
    // The first client and both who asked.
    asleep(&server, Waiting::Sleeping, &["both-asleep"], 3);
    server.end();
    say("done");
}

fn awake(server: &Elsewhere) {
    let client = node("client/awake", &server.place, Waiting::Polling);
    client.block_on(async {
        let forms: FormsClient = client.connect(&server.name).await.unwrap();
        let mut page = vec![1; 4096];
        for _ in 0..100 {
            page = forms.echo(page).await.unwrap();
        }
        phase("call", async |_| forms.null().await.unwrap()).await;
        let page = std::cell::Cell::new(page);
        phase("page", async |_| page.set(forms.echo(page.take()).await.unwrap())).await;
        // As many as have room, then a call, which comes behind them: so nobody waits for room.
        phase("oneway", async |number| {
            forms.note_null().await.unwrap();
            if number % 16 == 0 {
                forms.null().await.unwrap();
            }
        })
        .await;
    });
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&server.place);
    let forms: FormsHandle = builder.waiting(Waiting::Polling).connect(&server.name).unwrap();
    let forms = forms.blocking();
    (0..100).for_each(|_| forms.null().unwrap());
    say("begin handle");
    (0..count("handle")).for_each(|_| forms.null().unwrap());
    say("end handle");
}

/// Does it so often, between two words.
async fn phase(name: &str, act: impl AsyncFn(u64)) {
    let count = PHASES.iter().find(|phase| phase.0 == name).map_or(0, |phase| phase.2);
    say(&format!("begin {name}"));
    for number in 0..count {
        act(number).await;
    }
    say(&format!("end {name}"));
}

/// Calls a server that sleeps each time, and that sleeps again before the phase ends. So many sessions
/// of it have ended before.
fn asleep(server: &Elsewhere, waiting: Waiting, names: &[&str], ended: u64) {
    let name = format!("client/{waiting:?}");
    let client = node(&name, &server.place, waiting);
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&server.place);
    let asker: ServerHandle = builder.connect(&server.name).unwrap();
    asker.blocking().meet(std::process::id(), name).unwrap();
    drop(asker);
    let sleeper = Sleeper::find(server.pid, &server.name);
    client.block_on(async {
        let forms: FormsClient = client.connect(&server.name).await.unwrap();
        // Their last words are none of a phase's.
        while sleeper.counted(Counter::SessionsLost) < ended {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        sleeper.seen(sleeper.counted(Counter::Sleeps));
        for name in names {
            let act = async |_| {
                match *name {
                    "asleep" => forms.null().await.unwrap(),
                    "oneway-asleep" => forms.note_null().await.unwrap(),
                    _ => forms.null_asleep().await.unwrap(),
                }
                sleeper.wait();
            };
            // The first ones find out when the other one sleeps.
            for _ in 0..5 {
                act(0).await;
            }
            phase(name, act).await;
        }
    });
}

/// Holds every phase of a list against its quote.
pub(crate) fn judge(list: &str) {
    let mut phase: Option<(&str, BTreeMap<String, u64>)> = None;
    let (mut before, mut read_first) = (HashMap::new(), 0);
    let mut judged = Vec::new();
    for (process, call) in returned(list) {
        if let Some((_, name)) = call.split_once("\"@end ") {
            let name = word(name);
            if phase.as_ref().is_some_and(|phase| phase.0 == name) {
                let (_, calls) = phase.take().unwrap();
                judge_phase(name, &calls);
                // A node that wakes up answers, or asks on, before it reads the doorbell: the peer waits.
                if name == "both-asleep" {
                    let most = count(name) / 10;
                    assert!(read_first <= most, "{read_first} times the socket was read first");
                }
                judged.push(name.to_owned());
            }
        }
        if let Some((_, name)) = call.split_once("\"@begin ") {
            let known = PHASES.iter().find(|phase| phase.0 == word(name));
            phase = known.map(|known| (known.0, BTreeMap::new()));
            (before, read_first) = (HashMap::new(), 0);
        } else if let Some((name, calls)) = &mut phase
            && !is_look(&call, name)
            && call.contains('(')
        {
            let name = call.split('(').next().unwrap().to_owned();
            let woke = before.insert(process, name.clone()).as_deref() == Some("epoll_pwait");
            read_first += u64::from(woke && name == "recvmsg");
            *calls.entry(name).or_default() += 1;
        }
    }
    assert_eq!(judged, PHASES.map(|phase| phase.0), "phases that were found");
}

/// The calls of a list, each with its thread, where they return: by what they were given and what they gave. Calls with
/// which a node reports slow handlers are left out: beneath a tracer many handlers are slow.
pub(crate) fn returned(list: &str) -> impl Iterator<Item = (&str, String)> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let calls = list.lines().filter_map(move |line| {
        let (process, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        if rest.ends_with("<unfinished ...>") {
            begun.insert(process, rest);
            return None;
        }
        if rest.starts_with("<... ") {
            return Some((process, format!("{} {rest}", begun.remove(process).unwrap_or(rest))));
        }
        Some((process, rest.to_owned()))
    });
    calls.filter(|(_, call)| !is_report(call))
}

/// Returns whether a node makes this call to judge or report a slow handler: it reads the kernel's account of its thread, or
/// writes a line on standard error. No message needs a call of these kinds.
fn is_report(call: &str) -> bool {
    const KINDS: [&str; 5] = ["open", "openat", "close", "fcntl", "clock_gettime"];
    let account = |read: &str| read.split('"').nth(1).is_some_and(|text| text.ends_with("\\n"));
    match call.split_once('(') {
        Some(("write", rest)) => rest.starts_with("2, "),
        Some(("read", rest)) => account(rest),
        Some((name, _)) => KINDS.contains(&name),
        None => false,
    }
}

/// The first word of what was said.
pub(crate) fn word(text: &str) -> &str {
    text.split(['\\', '"', ' ']).next().unwrap_or(text)
}

/// Whether this is a look at sockets: it is due by time.
fn is_look(call: &str, phase: &str) -> bool {
    let nothing = call.starts_with("epoll_pwait") && call.contains(", 0, NULL, ");
    let heard = call.starts_with("recv") && call.contains("EAGAIN");
    nothing || heard && phase == "handle"
}

fn judge_phase(name: &str, calls: &BTreeMap<String, u64>) {
    let (_, operation, count) = PHASES.into_iter().find(|phase| phase.0 == name).unwrap();
    let quote = quote(operation, Payload::NONE, Payload::NONE).unwrap();
    println!("{name}: {calls:?} in {count}");
    let all: u64 = calls.values().sum();
    assert_eq!(all, count * quote.system_calls, "{name}: {calls:?} in {count}");
}
