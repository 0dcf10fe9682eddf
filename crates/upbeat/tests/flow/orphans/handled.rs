//! Deadlines of the calls of handles, blocking and awaited, and what their callees ask of them.

use crate::common::server::{KINDS, Kind};
use crate::common::{PROGRAM, Watchdog, at_once, block_on};
use crate::orphans::chain::{A_WHILE, Stand};
use crate::orphans::knot::ChainHandle;
use std::time::{Duration, Instant};
use upbeat::handle::HandleError;
use upbeat::{CallError, ConnectError};

/// The deadline of calls, in milliseconds: long enough for a busy machine.
const HAS: u64 = 2_000;
/// The time that handlers ask for.
const WANTS: u64 = 30_000;
/// The deadline of calls to silent servers.
const SHORT: u64 = 150;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn handle(stand: &Stand) -> ChainHandle {
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&stand.place);
    builder.connect(&stand.names[0]).unwrap()
}

/// Does something no sooner than when so much time is over, and not long after.
fn after<T>(time: Duration, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = act();
    assert!(time <= began.elapsed() && began.elapsed() < A_WHILE, "{:?}", began.elapsed());
    done
}

#[test]
fn handles_let_their_deadlines_be_extended() {
    let _watchdog = Watchdog::new("handles that extend");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let handle = handle(&stand);
        let blocking = handle.blocking().deadline(ms(HAS)).extendable(ms(10_000));
        let awaited = handle.more(vec![], None, WANTS, 0).deadline(ms(HAS));
        let awaited = block_on(awaited.extendable(ms(10_000)));
        for part in [awaited, blocking.more(vec![], None, WANTS, 0)] {
            let part = part.unwrap();
            assert!(HAS < part && part <= 10_000, "{part}");
        }
    });
}

#[test]
fn what_is_not_answered_in_time_ends_here_and_there() {
    let _watchdog = Watchdog::new("handles in time");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 2);
        let handle = handle(&stand);
        let blocking = handle.blocking().deadline(ms(SHORT));
        let blocked = || blocking.reach(stand.behind(), true);
        assert_eq!(after(ms(SHORT), blocked), Err(CallError::deadline(true)));
        stand.node.block_on(stand.standing(0..2, 0));
        // The first awaited call opens a session, for longer than that deadline perhaps.
        assert_eq!(block_on(handle.nap(0, 0)), Ok(0));
        let awaited = || block_on(handle.reach(stand.behind(), true).deadline(ms(SHORT)));
        assert_eq!(after(ms(SHORT), awaited), Err(CallError::deadline(true)));
        stand.node.block_on(stand.standing(0..2, 0));
        // The sessions stand.
        assert_eq!(blocking.deadline(A_WHILE).nap(0, 1), Ok(1));
        assert_eq!(block_on(handle.nap(0, 2).deadline(A_WHILE)), Ok(2));
    });
}

/// The server is stopped: it opens no session, and answers no call.
#[test]
fn a_silent_server_blocks_nobody_for_longer() {
    let _watchdog = Watchdog::new("a silent server");
    let mut stand = Stand::new(Kind::Shared, 1);
    let (handle, other) = (handle(&stand), handle(&stand));
    let (kept, second) = (handle.blocking(), handle.blocking());
    assert_eq!((kept.nap(0, 1), second.nap(0, 2)), (Ok(1), Ok(2)));
    let kept = kept.deadline(ms(SHORT));
    assert_eq!(block_on(handle.nap(0, 3)), Ok(3));
    stand.servers[0].other().signal(rustix::process::Signal::STOP);
    let awaited = |handle: &ChainHandle| block_on(handle.nap(0, 4).deadline(ms(SHORT)));
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&stand.place);
    let builder = builder.connect_within(ms(SHORT));
    match after(ms(SHORT), || builder.connect::<ChainHandle>(&stand.names[0])) {
        Err(HandleError::Connect(ConnectError::Call(error))) => {
            assert!(matches!(error, CallError::Deadline(_)), "{error}");
        }
        other => panic!("{:?}", other.err()),
    }
    // The first of its awaited calls: the session that it needs never opens, so it is not sent.
    assert_eq!(after(ms(SHORT), || awaited(&other)), Err(CallError::deadline(false)));
    for _ in 0..3 {
        let fresh = handle.blocking().deadline(ms(SHORT));
        for (blocking, has_session) in [(&kept, true), (&fresh, false)] {
            let late = after(ms(SHORT), || blocking.nap(0, 5));
            assert_eq!(late, Err(CallError::deadline(has_session)));
        }
        assert_eq!(after(ms(SHORT), || awaited(&handle)), Err(CallError::deadline(true)));
    }
    stand.servers[0].other().signal(rustix::process::Signal::CONT);
    // A reply that comes too late reaches no caller.
    let kept = kept.deadline(A_WHILE);
    for value in 0..100 {
        assert_eq!((kept.nap(0, value), second.nap(0, value)), (Ok(value), Ok(value)));
        assert_eq!(block_on(handle.nap(0, value)), Ok(value));
    }
}
