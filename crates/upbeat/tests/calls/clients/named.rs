//! Errors of calls say which node, service and method they are about.

use crate::common::process::Other;
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, alone, block_on, soon, until};
use std::fmt::Display;
use std::time::Duration;
use upbeat::error::FailCode;
use upbeat::{CallError, Node, Waiting};

/// The longest message that the callers take.
const MOST: usize = 1 << 20;
const SHORT: Duration = Duration::from_millis(20);

/// Checks that an error names the method, and the service and the node of these tests.
fn check<E: Display>(error: CallError<E>, method: &str) -> CallError<E> {
    let callee = error.callee().unwrap_or_else(|| panic!("it names nothing: {error}"));
    assert_eq!((callee.service, callee.method), ("Work", method), "{error}");
    assert!(callee.node.starts_with("clients/server"), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("`{method}` of service `Work`")), "{text}");
    assert!(text.contains("clients/server"), "{text}");
    error
}

fn killed(server: &mut Server) {
    let other: &mut Other = server.other();
    other.kill();
    other.child.wait().unwrap();
}

#[test]
fn every_error_of_a_client_names_its_callee() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("names in errors"));
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Server::start(Kind::Shared, "clients/server", &place, Waiting::Adaptive);
    let builder = Node::builder("clients/client").program(PROGRAM).directory(&place);
    let client = builder.max_message_bytes(MOST).build().unwrap();
    client.block_on(async {
        let work: WorkClient = client.connect("clients/server").await.unwrap();
        let panicked =
            check(soon(work.panics("at once".into(), false)).await.unwrap_err(), "panics");
        assert!(matches!(panicked, CallError::Failed { code: FailCode::Panicked, .. }));
        let long = check(soon(work.blob(2 * MOST as u64)).await.unwrap_err(), "blob");
        assert!(matches!(long, CallError::ResultTooLarge { .. }), "{long}");
        let late = check(work.forever().deadline(SHORT).await.unwrap_err(), "forever");
        assert!(matches!(late, CallError::Deadline(_)), "{late}");
        let other = work.clone();
        let call = client.spawn(async move { other.forever().await });
        // The call that goes on is sent before this one.
        soon(work.null()).await.unwrap();
        killed(&mut server);
        let lost = check(soon(call).await.unwrap().unwrap_err(), "forever");
        assert!(matches!(lost, CallError::Unknown(_)), "{lost}");
        until(|| client.sessions() == 0).await;
        check(soon(work.null()).await.unwrap_err(), "null");
        check(soon(work.note(1)).await.unwrap_err(), "note");
        check(work.null().try_send().map(drop).unwrap_err(), "null");
        check(work.note(1).try_send().unwrap_err(), "note");
    });
}

#[test]
fn every_error_of_a_handle_names_its_callee() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("names in errors of handles"));
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Server::start(Kind::Shared, "clients/server", &place, Waiting::Adaptive);
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let work: WorkHandle = builder.max_message_bytes(MOST).connect("clients/server").unwrap();
    let blocking = work.blocking();
    for panicked in
        [block_on(work.panics("at once".into(), false)), blocking.panics("at once".into(), false)]
    {
        let panicked = check(panicked.unwrap_err(), "panics");
        assert!(matches!(panicked, CallError::Failed { code: FailCode::Panicked, .. }));
    }
    for long in [block_on(work.blob(2 * MOST as u64)), blocking.blob(2 * MOST as u64)] {
        let long = check(long.unwrap_err(), "blob");
        assert!(matches!(long, CallError::ResultTooLarge { .. }), "{long}");
    }
    let late = blocking.deadline(SHORT);
    for late in [block_on(work.forever().deadline(SHORT)), late.forever()] {
        check(late.unwrap_err(), "forever");
    }
    killed(&mut server);
    let blocking = work.blocking().deadline(SHORT);
    check(block_on(work.null()).unwrap_err(), "null");
    check(blocking.null().unwrap_err(), "null");
    check(block_on(work.note(1)).unwrap_err(), "note");
    check(blocking.note(1).unwrap_err(), "note");
}

/// A context that is longer than contexts may be.
#[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]
struct Long(Vec<u8>);

impl upbeat::Context for Long {
    const KEY: &'static str = "long";
}

#[test]
fn a_context_that_cannot_travel_names_the_callee() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("names in errors of contexts"));
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "clients/server", &place, Waiting::Adaptive);
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let work: WorkHandle = builder.connect("clients/server").unwrap();
    let long = Long(vec![1; 5_000]);
    let blocking = work.blocking().with(&long);
    for error in [block_on(work.null().with(&long)), blocking.null()] {
        let error = check(error.unwrap_err(), "null");
        assert!(matches!(error, CallError::Context { .. }), "{error}");
    }
    for error in [block_on(work.note(1).with(&long)), blocking.note(1)] {
        check(error.unwrap_err(), "note");
    }
}
