//! Replies that have come and that nobody reads: they block no other call of their session.

use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, block_on, soon, yield_now};
use crate::depot::{DepotClient, Make, Stand, is_blank};
use crate::long::begin;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use upbeat::{CallError, Counter, Stream, Waiting};
use upbeat_core::limits::UNREAD_BYTES_MAX;

const MIB: usize = 1 << 20;

/// So many replies of so many bytes, each: what fills the buffers of every size, and the ring.
const UNREAD: [(usize, usize); 4] = [(33, MIB), (200, 200_000), (300, 60_000), (500, 3000)];

/// Does something with a client of a depot, for every kind of server.
fn with_each(act: impl AsyncFn(&Stand)) {
    for (kind, waiting) in KINDS.into_iter().zip([Waiting::Adaptive, Waiting::Sleeping]) {
        let make = Make::new(waiting);
        let stand = Stand::new(kind, make, make);
        stand.node.block_on(act(&stand));
    }
}

/// A call for a blank.
trait Blank: Future<Output = Result<Vec<u8>, CallError>> {}

impl<F: Future<Output = Result<Vec<u8>, CallError>>> Blank for F {}

/// Calls for so many blanks of a length, all of them sent.
async fn sent(depot: &DepotClient, count: usize, len: usize) -> Vec<impl Blank + '_> {
    let mut calls = Vec::new();
    while calls.len() < count {
        match depot.blank(len as u64).try_send() {
            Ok(call) => calls.push(call),
            Err(error) => {
                assert_eq!(error, CallError::Full);
                yield_now().await;
            }
        }
    }
    calls
}

/// An 8-byte call of another task passes, and all that was not read is there in the end.
#[test]
fn unread_replies_block_no_other_call() {
    let _watchdog = Watchdog::new("unread");
    with_each(async |stand| {
        for (count, len) in UNREAD {
            pass_unread(stand, count, len).await;
        }
    });
}

/// Unread replies so long that a session's buffers hold two of them block no other call.
#[test]
fn unread_replies_of_100_mb_block_no_other_call() {
    let _watchdog = Watchdog::new("unread, 100 MB");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Local, make, make);
    stand.node.block_on(pass_unread(&stand, 3, 100_000_000));
}

async fn pass_unread(stand: &Stand, count: usize, len: usize) {
    let depot = stand.client().await;
    let calls = sent(&depot, count, len).await;
    let other = depot.clone();
    let other = stand.node.spawn(async move { other.echo(vec![1; 8]).await });
    assert_eq!(soon(other).await.unwrap(), Ok(vec![1; 8]));
    // One as long as those that nobody reads passes as well.
    assert!(is_blank(&soon(depot.blank(len as u64)).await.unwrap(), len));
    for call in calls {
        // Without optimisation and under TLS, 400 MB take longer than what comes soon.
        assert!(is_blank(&call.await.unwrap(), len), "{count} of {len} bytes");
    }
}

/// A task that first awaits the last of its calls gets that reply, and the others behind it.
#[test]
fn the_last_reply_is_read_first() {
    let _watchdog = Watchdog::new("last first");
    with_each(async |stand| {
        let depot = stand.client().await;
        for (count, len) in UNREAD {
            let calls = sent(&depot, count, len).await;
            for call in calls.into_iter().rev() {
                assert!(is_blank(&soon(call).await.unwrap(), len), "{count} of {len} bytes");
            }
        }
    });
}

/// Unread results that go into their callers' buffers block no other call.
#[test]
fn results_into_buffers_wait_unread() {
    let _watchdog = Watchdog::new("into");
    with_each(async |stand| {
        let depot = stand.client().await;
        let mut buffers = vec![vec![0; MIB]; 33];
        let calls = buffers.iter_mut().map(|buffer| depot.blank(MIB as u64).into(buffer));
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        for call in &mut calls {
            begin(call.as_mut()).await;
        }
        assert_eq!(soon(depot.echo(vec![1; 8])).await, Ok(vec![1; 8]));
        for call in calls.into_iter().rev() {
            assert_eq!(soon(call).await, Ok(MIB));
        }
        assert!(buffers.iter().all(|buffer| is_blank(buffer, MIB)));
    });
}

/// Streams of results whose items have come block no other call.
#[test]
fn streams_wait_unread() {
    let _watchdog = Watchdog::new("streams");
    with_each(async |stand| {
        let depot = stand.client().await;
        let mut streams: Vec<Stream<Vec<u8>>> = Vec::new();
        for _ in 0..40 {
            let mut stream = soon(depot.blanks(3, MIB as u64)).await.unwrap();
            // The first items are asked for, and never looked at.
            begin(pin!(stream.next()).as_mut()).await;
            streams.push(stream);
        }
        assert_eq!(soon(depot.echo(vec![1; 8])).await, Ok(vec![1; 8]));
        for mut stream in streams.into_iter().rev() {
            for _ in 0..3 {
                assert!(is_blank(&soon(stream.next()).await.unwrap().unwrap(), MIB));
            }
            assert!(soon(stream.next()).await.is_none());
        }
    });
}

/// Unread replies of a handle's awaited calls, which share one session, block no other. Blocking calls have a
/// session each.
#[test]
fn replies_of_a_handle_wait_unread() {
    let _watchdog = Watchdog::new("handle");
    with_each(async |stand| {
        stand.ask(|depot| {
            // Calls are sent at once where the session stands.
            assert_eq!(block_on(depot.echo(vec![1; 8])), Ok(vec![1; 8]));
            for (count, len) in UNREAD {
                let mut calls = Vec::new();
                let mut taken = 0;
                for _ in 0..count {
                    let mut call = Box::pin(depot.blank(len as u64));
                    match block_on(poll_fn(|context| Poll::Ready(call.as_mut().poll(context)))) {
                        Poll::Pending => calls.push(call),
                        Poll::Ready(bytes) => taken += usize::from(is_blank(&bytes.unwrap(), len)),
                    }
                }
                assert_eq!(block_on(depot.echo(vec![1; 8])), Ok(vec![1; 8]));
                assert_eq!(depot.blocking().echo(vec![1; 8]), Ok(vec![1; 8]));
                for call in calls.into_iter().rev() {
                    taken += usize::from(is_blank(&block_on(call).unwrap(), len));
                }
                assert_eq!(taken, count, "of {len} bytes");
            }
        });
    });
}

/// Results of all lengths that are kept in place, and replies of all lengths that nobody reads: the
/// longest reply finds a buffer beside them.
#[test]
fn a_long_reply_passes_what_is_kept_in_place() {
    let _watchdog = Watchdog::new("in place");
    with_each(async |stand| {
        let depot = stand.client().await;
        let mut kept = Vec::new();
        let mut unread = Vec::new();
        for len in [MIB / 4, 2 * MIB, MIB / 4, 2 * MIB, 8 * MIB, 70_000, 3000] {
            for _ in 0..3 {
                kept.push((len, soon(depot.blank_in_place(len as u64)).await.unwrap()));
                let mut call = Box::pin(depot.blank(len as u64));
                begin(call.as_mut()).await;
                unread.push((len, call));
            }
        }
        assert!(kept.iter().any(|(_, kept)| kept.is_lent()));
        let len = 20 * MIB;
        assert!(is_blank(&soon(depot.blank(len as u64)).await.unwrap(), len));
        for (len, call) in unread {
            assert!(is_blank(&soon(call).await.unwrap(), len));
        }
        for (len, kept) in kept {
            assert!(is_blank(&kept.to_vec(), len));
        }
    });
}

/// Copies of replies that nobody reads are bounded: those that come beyond fail for their callers alone.
#[test]
fn replies_beyond_the_bound_are_dropped() {
    let _watchdog = Watchdog::new("dropped");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Local, make, make);
    stand.node.block_on(async {
        let depot = stand.client().await;
        let len = 8 * MIB;
        let kept = UNREAD_BYTES_MAX / len;
        let calls = sent(&depot, kept + 10, len).await;
        // Behind all of them, which a busy machine takes long for.
        assert_eq!(depot.echo(vec![1; 8]).await, Ok(vec![1; 8]));
        let (mut read, mut dropped) = (0, 0);
        for call in calls {
            match soon(call).await {
                Ok(bytes) => read += usize::from(is_blank(&bytes, len)),
                Err(error) => {
                    assert!(error.may_have_run());
                    let CallError::ReplyDropped { bytes, .. } = error else { panic!("{error}") };
                    assert!(bytes >= len, "{bytes}");
                    dropped += 1;
                }
            }
        }
        assert!(read > kept && dropped > 0 && read + dropped == kept + 10, "{read} {dropped}");
        assert!(is_blank(&soon(depot.blank(len as u64)).await.unwrap(), len));
    });
}

/// A callee whose caller does not read keeps few replies and accepts no more requests of that session.
/// None of them is lost.
#[test]
fn requests_wait_while_replies_do() {
    let _watchdog = Watchdog::new("replies wait");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let make = Make::new(waiting);
        let stand = Stand::new(Kind::Shared, make, make);
        let resident = || stand.ask(|depot| depot.blocking().resident().unwrap());
        stand.node.block_on(async {
            let depot = stand.client().await;
            let (count, len) = (2000, 60_000);
            let before = resident();
            let calls = sent(&depot, count, len).await;
            // From the next turn on the callee knows of all, and this node does nothing until they are
            // either run or kept.
            yield_now().await;
            loop {
                let (run, ..) = stand.state();
                let kept = stand.counted(Counter::RefusedHere);
                if run + kept >= count as u64 {
                    assert!(kept > 0, "{run} were run");
                    break;
                }
            }
            let after = resident();
            assert!(after < before + (50 << 10), "{before} KiB, then {after}");
            for call in calls {
                assert!(is_blank(&soon(call).await.unwrap(), len));
            }
            assert_eq!(soon(depot.echo(vec![1; 8])).await, Ok(vec![1; 8]));
        });
    }
}
