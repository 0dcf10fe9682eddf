//! Whether the owner of an export is alive, for its readers.

use crate::common::left_out::leave_out;
use crate::common::{Watchdog, shares_memory, soon, until};
use crate::exports::{Quotes, Stand};
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};
use upbeat::export::{OwnerState, ReadError};
use upbeat::{Counter, Import};

/// Reads of a dead owner's memory go on; a reader that asks for a living owner is told.
#[test]
fn a_reader_in_memory_learns_that_its_owner_has_died() {
    if !shares_memory("owners of memory that is read without calls") {
        return;
    }
    let _watchdog = Watchdog::new("an owner that dies");
    let mut stand = Stand::new("shared");
    let quotes = stand.node.block_on(soon(stand.node.import::<Quotes>("prices/quotes"))).unwrap();
    let owner = quotes.owner();
    assert_eq!((&*owner.node, owner.state), ("prices", OwnerState::Alive), "{owner}");
    assert_eq!((owner.pid, owner.age), (Some(stand.owner.child.id()), Duration::ZERO));
    assert_eq!(quotes.require_owner(), Ok(()));
    let killed = Instant::now();
    stand.owner.kill();
    stand.owner.ended();
    // Nobody drives the reader's node, and any thread may ask.
    let clone: Import<Quotes> = quotes.clone();
    std::thread::spawn(move || assert_eq!(clone.owner().state, OwnerState::Died)).join().unwrap();
    assert_eq!(quotes.count().try_read(), Ok(Quotes::of(1).count), "its last value");
    let error = quotes.require_owner().unwrap_err();
    let ReadError::OwnerEnded(owner) = &error else { panic!("{error}") };
    assert_eq!(owner.state, OwnerState::Died);
    assert!(owner.age >= killed.elapsed().saturating_sub(Duration::from_secs(5)));
    assert!(owner.age > Duration::ZERO, "{owner}");
    assert!(error.to_string().contains("node `prices`"), "{error}");
    assert!(error.to_string().contains("has died"), "{error}");
}

#[test]
fn a_reader_in_memory_learns_that_its_owner_has_shut_down() {
    if !shares_memory("owners of memory that is read without calls") {
        return;
    }
    let _watchdog = Watchdog::new("an owner that shuts down");
    let mut stand = Stand::new("shared");
    let quotes = stand.node.block_on(soon(stand.node.import::<Quotes>("prices/quotes"))).unwrap();
    stand.node.block_on(async {
        drop(stand.owner.child.stdin.take());
        until(|| quotes.owner().state != OwnerState::Alive).await;
    });
    assert_eq!(quotes.owner().state, OwnerState::ShutDown, "{}", quotes.owner());
    assert!(matches!(quotes.require_owner(), Err(ReadError::OwnerEnded(_))));
}

#[test]
fn a_reader_by_calls_knows_its_owner_from_its_answers() {
    let _watchdog = Watchdog::new("an owner that is called");
    let mut stand = Stand::new("apart");
    let node = stand.node.clone();
    node.block_on(async {
        let quotes = soon(node.import::<Quotes>("prices/quotes")).await.unwrap();
        soon(quotes.count().read()).await.unwrap();
        if std::env::var("UPBEAT_TEST_CARRIER").as_deref() == Ok("shared") {
            return leave_out("over shared memory: reads by calls");
        }
        assert_eq!(quotes.owner().state, OwnerState::Unknown);
        assert_eq!(quotes.require_owner(), Ok(()));
        let first = quotes.owner().age;
        until(|| quotes.owner().age > first).await;
        stand.owner.kill();
        stand.owner.ended();
        let error = soon(quotes.count().read()).await.unwrap_err();
        assert!(matches!(error, ReadError::Call(_)), "{error}");
        assert_eq!(quotes.owner().state, OwnerState::Unknown);
    });
}

/// Imports that nobody waits for any more, and many at a time, leave their session as it is.
#[test]
fn imports_that_are_dropped_or_many_cost_no_session() {
    const IMPORTS: usize = 400;
    let _watchdog = Watchdog::new("many imports");
    let stand = Stand::new("shared");
    let node = stand.node.clone();
    let import = || node.import::<Quotes>("prices/quotes");
    node.block_on(soon(import())).unwrap();
    for polls in 0..IMPORTS {
        // At some of these polls the import has asked its owner, and does not read the answer.
        let (mut dropped, mut left) = (Box::pin(import()), polls % 8);
        node.block_on(poll_fn(|context| match dropped.as_mut().poll(context) {
            Poll::Pending if left > 0 => {
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }));
        // The answer comes, and nobody reads it.
        std::thread::sleep(Duration::from_millis(2));
        drop(dropped);
        // The owner answers in order.
        node.block_on(soon(import())).unwrap();
    }
    node.block_on(async {
        let imports: Vec<_> = (0..IMPORTS)
            .map(|_| {
                let again = node.clone();
                node.spawn(async move { again.import::<Quotes>("prices/quotes").await })
            })
            .collect();
        for import in imports {
            let quotes = soon(import).await.unwrap().unwrap();
            assert_eq!(soon(quotes.count().read()).await, Ok(Quotes::of(1).count));
        }
    });
    assert_eq!(node.counted(Counter::SessionsLost), 0);
}
