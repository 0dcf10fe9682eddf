//! Tests that each judgement speaks where its promise is broken, and keeps silent where it is kept.

use super::*;
use crate::worlds::history::{Record, Span};
use crate::worlds::plan::{Client, Items, Kind, Server};

const NOTE: Id = 1;
const STREAM: Id = 3;

/// A server, and a client with a call, a message, a call with a deadline, and a stream of two items.
fn plan() -> Plan {
    let operation = |act, deadline_ms| Operation {
        parent: None,
        from: 1,
        to: 0,
        act,
        bytes: 8,
        reply_bytes: 8,
        body: Vec::new(),
        end: End::Return,
        items: Items { written: 2, wanted: 10, bytes: 8, pauses_ms: [0, 0] },
        deadline_ms,
        drop_after_ms: None,
        pause_ms: 0,
    };
    let operations = vec![
        operation(Act::Call, None),
        operation(Act::Note, None),
        operation(Act::Call, Some(5)),
        operation(Act::Read, None),
    ];
    let server = Server {
        host: 0,
        budget: None,
        conservative: false,
        shared_memory: true,
        concurrent: None,
        leaves: None,
    };
    let client = Client { host: 0, kind: Kind::Node, tasks: vec![(0..4).collect()] };
    Plan {
        servers: vec![server],
        clients: vec![client],
        operations,
        faults: Vec::new(),
        resume_ms: 0,
        wait_ms: 0,
    }
}

/// Returns the violations in a record in which each operation ends well after another, once it was changed.
fn violations(change: impl FnOnce(&mut History)) -> Vec<String> {
    let record = Record::new(4);
    let mut history = record.lock();
    for (id, did) in history.operations.iter_mut().enumerate() {
        let start = (1 + 10 * id as u64) * MS;
        let (from, last) = (start + MS, start + 2 * MS);
        did.asked = Some(start);
        did.runs.push(Run { server: 0, from, last, end: Some(RunEnd::Returned) });
        did.told = Some((start + if id == NOTE { 0 } else { 3 * MS }, Told::Done));
    }
    history.operations[STREAM].stream = Streamed {
        written: 2,
        read: 2,
        is_made: true,
        writer: Some(RunEnd::Returned),
        is_over: true,
        broken: None,
    };
    change(&mut history);
    judge(&plan(), &history)
}

fn failed(why: Failure, may_have_run: bool) -> Told {
    Told::Failed { why, may_have_run, text: String::new() }
}

#[test]
fn a_world_without_a_fault_keeps_its_promises() {
    assert_eq!(violations(|_| {}), [""; 0]);
}

#[test]
fn each_judgement_finds_what_breaks_its_promise() {
    type Change = fn(&mut History);
    let changes: &[(&str, Change)] = &[
        ("0 has not ended", |world| world.operations[0].told = None),
        ("0 has run 2 times", |world| {
            let run = world.operations[0].runs[0].clone();
            world.operations[0].runs.push(run);
        }),
        ("the end of 0 is not true", |world| world.operations[0].runs.clear()),
        ("the end of 0 is not true", |world| world.operations[0].runs[0].last = 9 * MS),
        ("the end of 0 is not true", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Unreached, false)));
        }),
        ("0 runs, and nobody has asked", |world| world.operations[0].asked = None),
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Unknown, true)));
        }),
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Deadline, true)));
        }),
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Overloaded, true)));
        }),
        ("2 ends before its deadline", |world| {
            world.operations[2].told = Some((25 * MS, failed(Failure::Deadline, true)));
        }),
        ("2 ends behind its deadline", |world| {
            world.operations[2].told = Some((80 * MS, failed(Failure::Deadline, true)));
        }),
        ("the handler of 2 goes on behind its deadline", |world| {
            world.operations[2].runs[0].last = 80 * MS;
            world.operations[2].told = Some((26 * MS, failed(Failure::Deadline, true)));
        }),
        ("the handler of 0 goes on without its caller", |world| {
            world.operations[0].runs[0].last = 80 * MS;
            world.operations[0].told = Some((3 * MS, Told::Dropped));
        }),
        ("the handler of 0 has not ended", |world| {
            world.operations[0].runs[0].end = None;
            world.operations[0].told = Some((4 * MS, Told::Dropped));
        }),
        ("the handler of 1 is dropped without a cause", |world| {
            world.operations[NOTE].runs[0].end = Some(RunEnd::Dropped);
        }),
        ("1 was sent and has not run", |world| world.operations[NOTE].runs.clear()),
        ("2 runs before 1", |world| world.operations[NOTE].runs[0].from = 30 * MS),
        ("the items of 3 are not those", |world| world.operations[STREAM].stream.read = 1),
        ("the items of 3 are not those", |world| world.operations[STREAM].stream.read = 3),
        ("the writer of 3 goes on", |world| {
            world.operations[STREAM].stream.is_over = false;
            world.operations[STREAM].stream.writer = None;
        }),
        ("1 could not connect with 0", |world| {
            let text = String::new();
            world.unconnected.push(Unconnected { process: 1, server: 0, at: 5 * MS, text });
        }),
    ];
    for (expected, change) in changes {
        let found = violations(change);
        assert!(found.iter().any(|found| found.starts_with(expected)), "{expected}: {found:?}");
    }
}

/// A call of unknown end, and a message that was lost, are explained by the death of the server alone.
#[test]
fn a_death_explains_what_it_may_cause_alone() {
    let unknown = |world: &mut History| {
        world.operations[0].told = Some((4 * MS, failed(Failure::Unknown, true)));
        world.operations[NOTE].runs.clear();
    };
    let dies = |world: &mut History, at| {
        let what = Disturbance::Down(0);
        world.spans.push(Span { what, from: at, to: at + MS });
    };
    let found = violations(|world| {
        unknown(world);
        dies(world, 3 * MS);
    });
    assert_eq!(found, [""; 0]);
    let found = violations(|world| {
        unknown(world);
        dies(world, 40 * MS);
    });
    assert!(found.iter().any(|found| found.starts_with("0 fails without a cause")), "{found:?}");
}
