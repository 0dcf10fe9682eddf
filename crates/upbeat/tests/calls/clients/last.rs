//! Messages that were written before a loss, and messages to a node that was shut down.

use super::reconnect::{LedgerClient, LedgerHandle, LedgerServer, entries, started};
use crate::common::process::{Other, linger, say};
use crate::common::{Directory, PROGRAM, SOON, Watchdog, alone, node, soon, until, yield_now};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::{CallError, Waiting};

/// The messages that a sender writes: so few that they have room without a word of the receiver.
const MESSAGES: u64 = 20;

/// Connects, waits for a line of its input, and writes its messages.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    if part != "tell" {
        return false;
    }
    let sender = node("sender", place, Waiting::Adaptive);
    let ledger: LedgerClient = sender.block_on(sender.connect("clients/server")).unwrap();
    say("connected");
    std::io::stdin().lock().lines().next();
    sender.block_on(async {
        for entry in 1..=MESSAGES {
            ledger.tell(entry).await.unwrap();
        }
        // The next turn begins after the messages of this one are out.
        yield_now().await;
    });
    say("told");
    linger();
    true
}

#[test]
fn a_reply_that_was_written_before_its_callee_died_is_read() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a last reply"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let mut server = started("first", &place);
    let ledger: LedgerClient = client.block_on(client.connect("clients/server")).unwrap();
    let mut call = Box::pin(ledger.enter(1));
    // The call is sent, and its node is not driven until the callee is dead.
    client.block_on(std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    }));
    let begun = Instant::now();
    while entries(&place) != [1] {
        assert!(begun.elapsed() < SOON, "the call never runs");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The turn that has run the call is over when the server answers another caller.
    let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let other: LedgerHandle = handle.connect("clients/server").unwrap();
    assert_eq!(other.blocking().enter(2), Ok(2));
    server.kill();
    server.child.wait().unwrap();
    assert_eq!(client.block_on(soon(call)), Ok(1));
    assert_eq!(entries(&place), [1, 2]);
}

#[test]
fn messages_that_were_written_before_their_sender_died_run() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("last messages"));
    let directory = Directory::new();
    let place = directory.path();
    let server = node("clients/server", &place, Waiting::Adaptive);
    server.serve(LedgerServer::new(super::reconnect::book(&place))).unwrap();
    let mut sender = Other::start("tell", &place);
    let connects = std::thread::spawn(move || {
        sender.expect("connected");
        sender
    });
    server.block_on(until(|| connects.is_finished()));
    let mut sender = connects.join().unwrap();
    // Nobody reads the messages until their sender is dead.
    writeln!(sender.child.stdin.as_mut().unwrap()).unwrap();
    sender.expect("told");
    sender.kill();
    sender.child.wait().unwrap();
    server.block_on(until(|| entries(&place).len() as u64 == MESSAGES));
    assert_eq!(entries(&place), (1..=MESSAGES).collect::<Vec<_>>());
}

#[test]
fn a_message_to_a_node_that_was_shut_down_is_not_sent() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("messages to nobody"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let mut server = started("first", &place);
    client.block_on(async {
        let ledger: LedgerClient = client.connect("clients/server").await.unwrap();
        ledger.tell(1).await.unwrap();
        // The message has arrived when a later call returns.
        assert_eq!(soon(ledger.enter(2)).await, Ok(2));
        server.end();
        until(|| client.sessions() == 0).await;
        let error = soon(ledger.tell(3)).await.unwrap_err();
        let CallError::NotConnected { text, .. } = &error else { panic!("{error}") };
        assert!(text.contains("was shut down") && !error.may_have_run(), "{text}");
    });
    assert_eq!(entries(&place), [1, 2]);
}
