//! Deadlines of the calls of handles, blocking and awaited, and what their callees ask of them.

use crate::chain::{Kind, Stand, in_worlds, ms, took};
use crate::knot::ChainHandle;
use std::sync::{Arc, Mutex};
use upbeat::handle::HandleError;
use upbeat::{CallError, ConnectError};
use upbeat_environment::time::Instant;
use upbeat_sim::spawn;

/// The deadline of calls, in milliseconds.
const HAS: u64 = 2_000;
/// The time that handlers need.
const NEEDS: u64 = 2_500;
/// The time that handlers ask for.
const WANTS: u64 = 30_000;
/// The deadline of calls to silent servers.
const SHORT: u64 = 150;

/// Does something that takes this time.
fn after<T>(time: u64, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = act();
    took(began, ms(time));
    done
}

type Told = Result<u64, CallError<String>>;

/// A call that asks for more time, in both ways at once.
fn more(
    stand: &Stand,
    behind: &[String],
    (has, total): (u64, Option<u64>),
    (wants, naps): (u64, u64),
) -> [Told; 2] {
    let (handle, told) = (stand.handle(), Arc::<Mutex<Option<Told>>>::default());
    let blocking = spawn("blocks", {
        let (handle, told, behind) = (handle.clone(), Arc::clone(&told), behind.to_vec());
        move || {
            let blocking = handle.blocking().deadline(ms(has));
            let blocking = match total {
                Some(total) => blocking.extendable(ms(total)),
                None => blocking,
            };
            let answer = blocking.more(behind, None, wants, naps);
            *told.lock().unwrap() = Some(answer);
        }
    });
    let awaited = stand.node.block_on(async {
        let call = handle.more(behind.to_vec(), None, wants, naps).deadline(ms(has));
        match total {
            Some(total) => call.extendable(ms(total)).await,
            None => call.await,
        }
    });
    blocking.unwrap().join().unwrap();
    let blocked = told.lock().unwrap().take().unwrap();
    [awaited, blocked]
}

#[test]
fn what_is_not_answered_in_time_ends_here_and_there() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 2);
        let handle = stand.handle();
        let blocking = handle.blocking().deadline(ms(SHORT));
        let blocked = || blocking.reach(stand.behind(), true);
        assert_eq!(after(SHORT, blocked), Err(CallError::deadline(true)));
        stand.node.block_on(stand.standing(0..2, 0));
        let call = || handle.reach(stand.behind(), true).deadline(ms(SHORT));
        let awaited = || stand.node.block_on(call());
        assert_eq!(after(SHORT, awaited), Err(CallError::deadline(true)));
        stand.node.block_on(stand.standing(0..2, 0));
        // The sessions stand.
        assert_eq!(blocking.nap(0, 1), Ok(1));
        assert_eq!(stand.node.block_on(handle.nap(0, 2).deadline(ms(SHORT))), Ok(2));
    });
}

/// The server is stopped: it opens no session, and answers no call.
#[test]
fn a_silent_server_blocks_nobody_for_longer() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        let (handle, other) = (stand.handle(), stand.handle());
        let (kept, second) = (handle.blocking(), handle.blocking());
        assert_eq!((kept.nap(0, 1), second.nap(0, 2)), (Ok(1), Ok(2)));
        let kept = kept.deadline(ms(SHORT));
        let awaited = |handle: &ChainHandle| {
            let call = handle.nap(0, 4).deadline(ms(SHORT));
            stand.node.block_on(call)
        };
        assert_eq!(awaited(&handle), Ok(4));
        sim.stop("1");
        let builder = sim.handles().insecure_plaintext().connect_within(ms(SHORT));
        match after(SHORT, || builder.connect::<ChainHandle>(&stand.names[0])) {
            Err(HandleError::Connect(ConnectError::Call(error))) => {
                assert!(matches!(error, CallError::Deadline(_)), "{error}");
            }
            Err(_) if kind == Kind::Distant => {}
            other => panic!("{:?}", other.err()),
        }
        // The first of its awaited calls: the session that it needs never opens, so it is not sent.
        assert_eq!(after(SHORT, || awaited(&other)), Err(CallError::deadline(false)));
        let fresh = handle.blocking().deadline(ms(SHORT));
        for (blocking, has_session) in [(&kept, true), (&fresh, false)] {
            let late = after(SHORT, || blocking.nap(0, 5));
            assert_eq!(late, Err(CallError::deadline(has_session)));
        }
        assert_eq!(after(SHORT, || awaited(&handle)), Err(CallError::deadline(true)));
        sim.go_on("1");
        // A reply that comes too late reaches no caller.
        let kept = kept.deadline(ms(WANTS));
        for value in 0..20 {
            assert_eq!((kept.nap(0, value), second.nap(0, value)), (Ok(value), Ok(value)));
            assert_eq!(stand.node.block_on(handle.nap(0, value)), Ok(value));
        }
    });
}

#[test]
fn what_handles_let_be_extended_runs_on_and_answers() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 3);
        for behind in [vec![], stand.behind()] {
            let of = || more(&stand, &behind, (HAS, Some(60_000)), (WANTS, NEEDS));
            for left in after(NEEDS, of) {
                let left = left.unwrap();
                assert!(HAS < left && left <= WANTS, "{left}");
            }
        }
    });
}

#[test]
fn handles_extend_nothing_that_they_have_not_said() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        let fixed = "the deadline is fixed: its caller did not say `extendable`";
        for refused in more(&stand, &[], (HAS, None), (WANTS, 0)) {
            assert_eq!(refused, Err(CallError::Method(fixed.to_owned())));
        }
        for refused in more(&stand, &[], (HAS, Some(1)), (WANTS, 0)) {
            let no_more = "the caller grants no more time";
            assert_eq!(refused, Err(CallError::Method(no_more.to_owned())));
        }
        for part in more(&stand, &[], (HAS, Some(10_000)), (WANTS, 0)) {
            let part = part.unwrap();
            assert!(HAS < part && part <= 10_000, "{part}");
        }
        // The call ends when the last possible extension is over.
        let ends = || more(&stand, &[], (HAS, Some(2 * HAS)), (60_000, 60_000));
        for ended in after(2 * HAS, ends) {
            assert_eq!(ended, Err(CallError::deadline(true)));
        }
        stand.node.block_on(stand.standing([0], 0));
    });
}
