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
        is_anew: false,
        referred_by: None,
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
        exports: None,
    };
    let client =
        Client { host: 0, kind: Kind::Node, tasks: vec![(0..4).collect()], readers: Vec::new() };
    Plan {
        servers: vec![server],
        clients: vec![client],
        operations,
        faults: Vec::new(),
        resume_ms: 0,
        wait_ms: 0,
        accesses_max: None,
    }
}

/// Returns the violations in a record in which each operation ends well after another, once it was changed.
fn violations(change: impl FnOnce(&mut History)) -> Vec<String> {
    violations_of(&plan(), change)
}

fn violations_of(plan: &Plan, change: impl FnOnce(&mut History)) -> Vec<String> {
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
        writer: Some((33 * MS, RunEnd::Returned)),
        ahead: 2,
        is_over: true,
        broken: None,
    };
    change(&mut history);
    judge(plan, &history)
}

fn finds(expected: &str, found: &[String]) {
    assert!(found.iter().any(|found| found.starts_with(expected)), "{expected}: {found:?}");
}

fn disturbs(world: &mut History, what: Disturbance, from: u64, to: u64) {
    world.spans.push(Span { what, from: from * MS, to: to * MS });
}

fn has_lost(world: &mut History, at: u64, why: Why) {
    world.losses.push(Loss {
        process: 0,
        peer: "client-0 (10.0.0.2:20000)".to_owned(),
        why,
        at: at * MS,
    });
}

fn unreachable() -> Why {
    Why::Unreachable { text: String::new() }
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
        ("the handler of 0 goes on behind the end of its call", |world| {
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
        ("0 runs where it may not", |world| world.operations[0].runs[0].server = 1),
        ("the end of 0 is not true", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Unreached, true)));
        }),
        ("the end of 0 is not true", |world| {
            world.operations[0].runs.clear();
            world.operations[0].told = Some((4 * MS, failed(Failure::Unknown, false)));
        }),
        ("0 ends too late", |world| world.operations[0].told = Some((90 * MS, Told::Done))),
        // The server dies, and the caller is told of it late.
        ("0 ends too late", |world| {
            world.operations[0].runs[0].end = None;
            world.operations[0].told = Some((90 * MS, failed(Failure::Unknown, true)));
            disturbs(world, Disturbance::Down(0), 3, 90);
        }),
        ("the handler of 0 goes on behind the death of its caller", |world| {
            world.operations[0].runs[0].last = 60 * MS;
            world.operations[0].told = None;
            disturbs(world, Disturbance::Down(1), 3, 90);
        }),
        // The caller drops a call whose handler was dropped before.
        ("the handler of 0 is dropped without a cause", |world| {
            world.operations[0].runs[0].end = Some(RunEnd::Dropped);
            world.operations[0].told = Some((5 * MS, Told::Dropped));
        }),
        ("the handler of 0 goes on behind the end of its call", |world| {
            let run = &mut world.operations[0].runs[0];
            (run.last, run.end) = (60 * MS, Some(RunEnd::Dropped));
            world.operations[0].told = Some((5 * MS, Told::Dropped));
        }),
        ("the handler of 2 is dropped without a cause", |world| {
            let run = &mut world.operations[2].runs[0];
            (run.last, run.end) = (25 * MS, Some(RunEnd::Dropped));
            world.operations[2].told = Some((26 * MS, failed(Failure::Deadline, true)));
        }),
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Closing, true)));
            disturbs(world, Disturbance::Down(0), 2, 8);
        }),
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Closing, true)));
            disturbs(world, Disturbance::Closes(0), 40, 50);
        }),
        ("the reader of 3 misses items", |world| {
            let stream = &mut world.operations[STREAM].stream;
            (stream.read, stream.is_over) = (1, false);
        }),
        ("the items of 3 are not those", |world| {
            let stream = &mut world.operations[STREAM].stream;
            (stream.read, stream.written, stream.is_over) = (1, 1, false);
        }),
        ("the writer of 3 is too far ahead", |world| world.operations[STREAM].stream.ahead = 770),
        ("the writer of 3 is dropped without a cause", |world| {
            let stream = &mut world.operations[STREAM].stream;
            (stream.writer, stream.is_over) = (Some((2 * MS, RunEnd::Dropped)), false);
        }),
        ("the writer of 3 goes on", |world| {
            let stream = &mut world.operations[STREAM].stream;
            (stream.writer, stream.is_over) = (Some((80 * MS, RunEnd::Dropped)), false);
        }),
        ("0 has lost a session without a cause", |world| has_lost(world, 4, unreachable())),
        ("0 has lost a session without a cause", |world| has_lost(world, 4, Why::Died)),
        ("0 has lost a session without a cause", |world| has_lost(world, 4, Why::Closed)),
        ("1 could not connect with 0", |world| {
            let text = String::new();
            world.unconnected.push(Unconnected { process: 1, server: 0, at: 5 * MS, text });
        }),
    ];
    for (expected, change) in changes {
        finds(expected, &violations(change));
    }
}

/// A call of unknown end, and a message that was lost, are explained by the death of the server alone.
#[test]
fn a_death_explains_what_it_may_cause_alone() {
    let unknown = |world: &mut History| {
        world.operations[0].told = Some((4 * MS, failed(Failure::Unknown, true)));
        world.operations[NOTE].runs.clear();
    };
    let found = violations(|world| {
        unknown(world);
        disturbs(world, Disturbance::Down(0), 3, 4);
    });
    assert_eq!(found, [""; 0]);
    let found = violations(|world| {
        unknown(world);
        disturbs(world, Disturbance::Down(0), 40, 41);
    });
    finds("0 fails without a cause", &found);
}

/// An outage explains the loss of a session that it outlasts: one that waits for so many milliseconds.
#[test]
fn an_outage_explains_the_end_of_sessions_that_it_outlasts_alone() {
    const CUT: Disturbance = Disturbance::Cut([0, 1]);
    const BROKEN: Disturbance = Disturbance::Broken([1, 0]);
    let cases = [
        (0, BROKEN, 0, true),
        (400, BROKEN, 0, false),
        (60_000, BROKEN, 0, false),
        (0, CUT, 300, false),
        (0, CUT, 2_500, true),
        (60_000, CUT, 6_000, false),
        (400, Disturbance::Stopped(0), 3_000, false),
        (0, Disturbance::Cut([0, 2]), 6_000, false),
    ];
    for (resume_ms, what, time, is_explained) in cases {
        let mut plan = plan();
        plan.clients[0].host = 1;
        plan.resume_ms = resume_ms;
        let lost = 3 + time;
        let found = violations_of(&plan, |world| {
            disturbs(world, what, 3, lost);
            has_lost(world, lost, unreachable());
            let run = &mut world.operations[0].runs[0];
            (run.last, run.end) = ((lost + 1) * MS, Some(RunEnd::Dropped));
            world.operations[0].told = Some((lost * MS, failed(Failure::Unknown, true)));
        });
        if is_explained {
            assert_eq!(found, [""; 0], "{what:?} for {time} ms");
        } else {
            finds("0 fails without a cause", &found);
            finds("0 has lost a session without a cause", &found);
        }
    }
}

/// The messages that a handler sends are judged as those of a client.
#[test]
fn messages_of_handlers_run_in_their_order() {
    let mut plan = plan();
    plan.operations[0].body = vec![Step::Call(NOTE), Step::Call(2)];
    plan.clients[0].tasks = vec![vec![0], vec![STREAM]];
    assert_eq!(violations_of(&plan, |_| {}), [""; 0]);
    finds("1 was sent", &violations_of(&plan, |world| world.operations[NOTE].runs.clear()));
    let found = violations_of(&plan, |world| world.operations[NOTE].runs[0].from = 30 * MS);
    finds("2 runs before 1", &found);
}

/// Two values of an export: the second is set later.
fn is_exported(world: &mut History) {
    let owned = Owned { begun: OF_EXPORT + 1, set: vec![2 * MS, 50 * MS], withdrawn: None };
    world.exports.insert((0, OF_EXPORT), owned);
}

fn sees(world: &mut History, (from, at): (u64, u64), sight: Sight) {
    is_exported(world);
    world.seen.push(Seen { process: 1, server: 0, from: from * MS, at: at * MS, sight });
}

fn sight(why: Failure) -> Sight {
    Sight::Failed(why, String::new())
}

#[test]
fn readers_are_told_of_changes_and_of_ends_alone() {
    const EXPECTED: &str = "a reader sees what it may not";
    let refused: &[fn(&mut History)] = &[
        // The watch waits behind the change.
        |world| sees(world, (3, 300), Sight::Unchanged(OF_EXPORT)),
        |world| sees(world, (3, 9), sight(Failure::Ended)),
        |world| sees(world, (3, 9), sight(Failure::Absent)),
        |world| sees(world, (3, 9), sight(Failure::Replaced)),
        |world| sees(world, (3, 9), sight(Failure::Unknown)),
        |world| sees(world, (3, 9), sight(Failure::Unreached)),
        |world| sees(world, (3, 9), sight(Failure::Closing)),
        |world| {
            sees(world, (3, 9), sight(Failure::Ended));
            world.exports.get_mut(&(0, OF_EXPORT)).unwrap().withdrawn = Some(10 * MS);
        },
    ];
    for change in refused {
        finds(EXPECTED, &violations(change));
    }
    let allowed: &[fn(&mut History)] = &[
        |world| sees(world, (3, 300), Sight::Unchanged(OF_EXPORT + 1)),
        |world| sees(world, (3, 45), Sight::Unchanged(OF_EXPORT)),
        |world| sees(world, (0, 9), sight(Failure::Absent)),
        |world| {
            sees(world, (3, 9), sight(Failure::Ended));
            world.exports.get_mut(&(0, OF_EXPORT)).unwrap().withdrawn = Some(8 * MS);
        },
        |world| {
            sees(world, (55, 70), sight(Failure::Unknown));
            disturbs(world, Disturbance::Down(0), 60, 70);
        },
    ];
    for change in allowed {
        assert_eq!(violations(change), [""; 0]);
    }
}

#[test]
fn a_reader_finds_no_value_that_is_older_than_one_before() {
    let record = Record::new(0);
    for number in [OF_EXPORT, OF_EXPORT + 1] {
        record.updates(0, number);
        record.updated(0, number);
    }
    record.updates(0, OF_EXPORT + 2);
    let reads = |last, number, is_new| {
        let look = record.looks(1, 0, last);
        record.sees(look, Sight::Number(number), is_new);
        record.lock().wrong.drain(..).count()
    };
    assert_eq!([OF_EXPORT + 1, OF_EXPORT + 2].map(|number| reads(None, number, true)), [0, 0]);
    assert_eq!(reads(None, OF_EXPORT, false), 1, "a later value was set before");
    assert_eq!(reads(Some(OF_EXPORT + 2), OF_EXPORT + 1, false), 1, "a later value was read");
    assert_eq!(reads(None, OF_EXPORT + 3, false), 1, "nobody has set the value");
    assert_eq!(reads(None, 7, true), 1, "the export is another one");
}
