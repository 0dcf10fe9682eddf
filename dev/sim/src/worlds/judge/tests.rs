//! Tests that each judgement speaks where its promise is broken, and keeps silent where it is kept.

mod sights;

use super::*;
use crate::worlds::history::{Loss, Record};
use crate::worlds::plan::{Client, Items, Kind, Server};
use upbeat::Why;

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

/// The client is told that the server has died.
fn is_told(world: &mut History, at: u64) {
    let peer = "server-0 (process 1)".to_owned();
    world.losses.push(Loss { process: 1, peer, why: Why::Died, at: at * MS });
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
        // The time before a server serves for the first time excuses no loss.
        ("0 fails without a cause", |world| {
            world.operations[0].told = Some((4 * MS, failed(Failure::Unknown, true)));
            disturbs(world, Disturbance::Unborn(0), 0, 1);
        }),
        ("0 ends too late", |world| {
            world.operations[0].runs.clear();
            world.operations[0].told = Some((90 * MS, failed(Failure::Refused, false)));
        }),
        // The server has died and serves again, and the caller is told long after.
        ("0 ends too late", |world| {
            world.operations[0].told = Some((12_000 * MS, failed(Failure::Unknown, true)));
            disturbs(world, Disturbance::Down(0), 3, 5);
        }),
        ("0 ends too late", |world| {
            world.operations[0].runs.clear();
            world.operations[0].told = Some((30_000 * MS, failed(Failure::Unreached, false)));
            disturbs(world, Disturbance::Down(0), 3, 5);
        }),
        ("1 was sent and has not run", |world| {
            world.operations[NOTE].runs.clear();
            disturbs(world, Disturbance::Down(0), 5_000, 5_001);
        }),
        ("the handler of 0 is dropped without a cause", |world| {
            world.operations[0].runs[0].end = Some(RunEnd::Dropped);
            world.operations[0].told = None;
            disturbs(world, Disturbance::Down(1), 4, 90);
        }),
        ("0 has lost a session without a cause", |world| {
            has_lost(world, 4, Why::Broken(String::new()));
            disturbs(world, Disturbance::Down(1), 3, 4);
        }),
        ("0 has lost a session without a cause", |world| {
            has_lost(world, 4, Why::HandleClosed);
        }),
        ("0 has lost a session without a cause", |world| {
            has_lost(world, 4, Why::GivenUp { text: String::new() });
            disturbs(world, Disturbance::Down(1), 3, 4);
        }),
        ("0 has lost a session without a cause", |world| {
            has_lost(world, 4, unreachable());
            disturbs(world, Disturbance::Down(1), 3, 4);
        }),
        ("1 is not told that 0 has died", |world| disturbs(world, Disturbance::Down(0), 90, 92)),
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

/// A handler whose message was on its way for long does not know how much time its caller has left, nor do its calls.
#[test]
fn a_handlers_call_has_the_time_that_its_handler_knows() {
    let mut plan = plan();
    plan.operations[0].parent = Some(2);
    let told_at = |at: u64| {
        violations_of(&plan, |world| {
            // The message is on its way for 100 ms.
            let run = &mut world.operations[2].runs[0];
            (run.from, run.last) = (121 * MS, 124 * MS);
            world.operations[2].told = Some((26 * MS, failed(Failure::Deadline, true)));
            world.operations[0].asked = Some(122 * MS);
            world.operations[0].told = Some((at, failed(Failure::Deadline, true)));
        })
    };
    let is_late = |found: &String| found.starts_with("0 ends behind its deadline");
    assert!(!told_at(126 * MS).iter().any(is_late));
    finds("0 ends behind its deadline", &told_at(127 * MS + SOON));
}

/// A handler that goes on without its caller, and one of a server that shuts down, are not dropped at once.
#[test]
fn handlers_have_the_time_that_they_are_promised() {
    let mut plan = plan();
    plan.operations[0].act = Act::Outlives;
    let dropped = |what, down| {
        move |world: &mut History| {
            let run = &mut world.operations[0].runs[0];
            (run.last, run.end) = (30 * MS, Some(RunEnd::Dropped));
            world.operations[0].told = None;
            world.operations[1..].fill(Did::default());
            disturbs(world, what, down, 900);
        }
    };
    let left = dropped(Disturbance::Down(1), 20);
    finds("the handler of 0 is dropped", &violations_of(&plan, left));
    plan.operations[0].act = Act::Call;
    plan.servers[0].leaves = Some((20, 50));
    let closed = |world: &mut History| {
        dropped(Disturbance::Down(0), 20)(world);
        world.operations[0].told = Some((31 * MS, failed(Failure::Unknown, true)));
        disturbs(world, Disturbance::Closes(0), 20, 70);
    };
    finds("the handler of 0 is dropped", &violations_of(&plan, closed));
    plan.servers[0].leaves = Some((20, 10));
    assert_eq!(violations_of(&plan, closed), [""; 0]);
}

/// A message of a client that leaves while nothing passes may be lost.
#[test]
fn a_message_of_a_client_that_leaves_in_an_outage_may_be_lost() {
    let mut plan = plan();
    plan.clients[0].host = 1;
    plan.resume_ms = 60_000;
    let leaves = |cut: u64| {
        move |world: &mut History| {
            world.operations[NOTE].runs.clear();
            disturbs(world, Disturbance::Cut([0, 1]), 0, cut);
            disturbs(world, Disturbance::Left(1), 50, u64::MAX / MS);
        }
    };
    let lost = |found: Vec<String>| found.iter().any(|found| found.starts_with("1 was sent"));
    assert!(!lost(violations_of(&plan, leaves(90))));
    assert!(lost(violations_of(&plan, |world| {
        leaves(1)(world);
        world.spans.retain(|span| !matches!(span.what, Disturbance::Cut(_)));
    })));
}

#[test]
fn panics_that_were_not_planned_are_wrong() {
    let record = Record::new(0);
    record.panics(0);
    record.has_contained(0, 1);
    assert_eq!(record.lock().wrong, [""; 0]);
    record.begins_life(0);
    record.has_contained(0, 1);
    finds("0 has contained 1 panics", &record.lock().wrong);
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

/// A server keeps a session of which its caller does not know, because the connection broke before, and is told of its
/// end by itself. It also learns that a caller has given up while it was stopped.
#[test]
fn a_server_alone_may_lose_a_session_that_was_just_opened() {
    let mut plan = plan();
    plan.clients[0].host = 1;
    plan.resume_ms = 400;
    let broken = |world: &mut History| {
        disturbs(world, Disturbance::Broken([1, 0]), 3, 3);
        has_lost(world, 404, unreachable());
    };
    assert_eq!(violations_of(&plan, broken), [""; 0]);
    let both = violations_of(&plan, |world| {
        broken(world);
        let peer = "server-0 (10.0.0.1:7000)".to_owned();
        world.losses.push(Loss { process: 1, peer, why: unreachable(), at: 404 * MS });
    });
    finds("0 has lost a session without a cause", &both);
    let given_up = |world: &mut History| {
        has_lost(world, 2_300, Why::GivenUp { text: String::new() });
    };
    finds("0 has lost a session without a cause", &violations_of(&plan, given_up));
    let stopped = |world: &mut History| {
        disturbs(world, Disturbance::Stopped(0), 20, 2_290);
        given_up(world);
    };
    assert_eq!(violations_of(&plan, stopped), [""; 0]);
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
