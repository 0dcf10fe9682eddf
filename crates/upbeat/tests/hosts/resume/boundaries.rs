//! A connection that is cut, that stalls, or in which a bit is another, at the boundaries of its records.

use super::framing::{Fault, Framing};
use super::proxy::Proxy;
use super::{FlowClient, all_at_once, cuts, reached};
use crate::common::work::{WorkClient, works};
use crate::common::{Directory, PROGRAM, Watchdog, alone, soon};
use crate::trust::Authority;
use crate::{Server, client, client_that, connected, identity_of, unprotected};
use std::time::Duration;
use upbeat::{CallError, Counter, Node, Waiting, Why};

/// Attempts to go on may break many times, one after the other.
const LONG: Duration = Duration::from_secs(60);

const PLAIN: Framing = Framing::Plain { greetings: 2 };

/// Does everything at once through a proxy that does this. Gives how many connections broke, of which the session
/// has outlived each.
fn outlives(server: &Server, node: &Node, framing: Framing, fault: Fault, times: u64) -> u64 {
    let proxy = Proxy::framed(&server.at, framing);
    let (to, back) = (format!("server@{}", proxy.at), reached(node));
    node.block_on(async {
        let work = connected(node, &to).await;
        let flow = node.connect::<FlowClient>(&to).await.unwrap();
        proxy.do_often(fault, times, times);
        all_at_once(node, &work, &flow, &back, &proxy).await;
    });
    let broke = node.counted(Counter::SessionsSuspended);
    assert_eq!(node.counted(Counter::SessionsLost), 0);
    assert_eq!(node.counted(Counter::SessionsResumed), broke);
    broke
}

/// A client and a server that trust each other.
fn secured(directory: &Directory) -> (Server, Node) {
    let authority = Authority::new();
    let counter = authority.issue("server.pem", "test/*");
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &counter);
    let own = authority.issue("client.pem", "test/client/*");
    let builder = unprotected(directory).identity(identity_of(&own)).resume_within(LONG);
    let builder = builder.listen("127.0.0.1:0");
    (server, builder.build().unwrap())
}

fn plain(directory: &Directory, waiting: Waiting) -> (Server, Node) {
    let node = client_that(directory, |builder| {
        builder.waiting(waiting).resume_within(LONG).listen("127.0.0.1:0")
    });
    (Server::start("server"), node)
}

#[test]
fn a_connection_may_be_cut_at_any_boundary() {
    let _alone = alone();
    let _watchdog = Watchdog::new("cuts at boundaries");
    let directory = Directory::new();
    let (server, node) = plain(&directory, Waiting::Adaptive);
    let times = cuts();
    let broke = outlives(&server, &node, PLAIN, Fault::Cut, times);
    // An attempt to go on may be cut, too.
    assert!(broke > times / 4 && broke <= times, "{broke} of {times}");
    let (server, node) = secured(&directory);
    let times = cuts() / 3;
    let broke = outlives(&server, &node, Framing::Tls, Fault::Cut, times);
    assert!(broke > 0 && broke <= times, "{broke} of {times}");
}

/// A stalled connection is waited for: nothing breaks, and everything goes on.
#[test]
fn a_connection_may_stall_at_any_boundary() {
    let _alone = alone();
    let _watchdog = Watchdog::new("stalls at boundaries");
    let directory = Directory::new();
    for waiting in [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping] {
        let (server, node) = plain(&directory, waiting);
        assert_eq!(outlives(&server, &node, PLAIN, Fault::Stall, cuts()), 0);
    }
    let (server, node) = secured(&directory);
    assert_eq!(outlives(&server, &node, Framing::Tls, Fault::Stall, cuts()), 0);
}

/// Under TLS a bit that is another breaks the connection and nothing more: no wrong byte is ever taken for good.
#[test]
fn what_is_damaged_under_tls_is_sent_again() {
    let _alone = alone();
    let _watchdog = Watchdog::new("damage under TLS");
    let directory = Directory::new();
    let (server, node) = secured(&directory);
    let times = cuts() / 3;
    let broke = outlives(&server, &node, Framing::Tls, Fault::Flip, times);
    assert!(broke > times / 4 && broke <= times, "{broke} of {times}");
}

/// Plain messages have TCP's checksum alone. What is damaged behind that is other data, or breaks a rule, or has a
/// side wait for the rest of a longer message: it costs its own session at most.
#[test]
fn damage_of_plain_messages_costs_their_session_at_most() {
    let _alone = alone();
    let _watchdog = Watchdog::new("damage of plain messages");
    let directory = Directory::new();
    let server = Server::start("server");
    let honest = client(&directory, Waiting::Adaptive);
    let direct: WorkClient = honest.block_on(honest.connect(&server.named("server"))).unwrap();
    let (mut good, mut other, mut late, mut lost, mut silent) = (0, 0, 0, 0, 0);
    for seed in 1..=cuts() {
        let proxy = Proxy::framed(&server.at, PLAIN);
        let node = client(&directory, Waiting::Adaptive);
        node.block_on(async {
            let work = connected(&node, &format!("server@{}", proxy.at)).await;
            proxy.do_often(Fault::Flip, 1, seed);
            for bytes in [8, 200, 5_000, 100_000, 8, 200, 5_000, 100_000] {
                let sent = vec![seed as u8; bytes];
                let call = work.bytes(sent.clone()).deadline(Duration::from_millis(100));
                match soon(call).await {
                    Ok(came) if came == sent => good += 1,
                    Ok(_) => other += 1,
                    Err(CallError::Deadline(_)) => late += 1,
                    // Bytes of the frame's head may be those of another method, of other arguments, of a refusal.
                    Err(CallError::Unknown(ended) | CallError::NotSent(ended)) => {
                        println!("{ended}");
                        lost += 1;
                        silent += u64::from(matches!(ended.why, Why::Died));
                        break;
                    }
                    Err(error) => {
                        println!("{error}");
                        other += 1;
                    }
                }
                if late > 0
                    && proxy.has_broken()
                    && work.null().deadline(Duration::from_millis(100)).await.is_err()
                {
                    break;
                }
            }
        });
        honest.block_on(async { assert_eq!(soon(direct.add(seed, 1)).await, Ok(seed + 1)) });
    }
    println!("{good} calls as they should be, {other} others, {late} late, {lost} sessions lost");
    assert!(lost > 0 && other > 0 && good > 0);
    // The side that finds a rule broken says so, unless the damage made an end of a record or came within a buffer.
    assert!(silent * 4 < lost, "{silent} of {lost} sessions ended without a word");
    honest.block_on(works(&direct));
    assert_eq!(honest.counted(Counter::SessionsLost), 0);
}
