//! Results that go into buffers of their callers'.

use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::{Division, Point, WorkClient};
use crate::common::{Watchdog, first, yield_now};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use upbeat::error::Called;
use upbeat::{CallError, Counter, Waiting};

/// The content of every buffer before a call.
const BEFORE: u8 = 0xa5;

/// Results in a slot, at its end, in the ring, in buffers of every size, and long ones.
fn sizes() -> impl Iterator<Item = usize> + Clone {
    let ends = [32, 96, 512, 4096, 8192, 65_528].into_iter();
    ends.flat_map(|end| [end - 8, end - 1, end, end + 1]).chain([0, 1, 7, 1 << 20, 3 << 20])
}

fn is_blob(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8)
}

/// Does something with every kind of server.
fn with_each(act: impl AsyncFn(&Stand, &WorkClient)) {
    for (kind, waiting) in KINDS.into_iter().zip([Waiting::Adaptive, Waiting::Sleeping]) {
        let stand = Stand::new(kind, waiting);
        stand.node.block_on(async {
            let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
            act(&stand, &work).await;
            assert_eq!(work.add(1, 2).await, Ok(3));
        });
    }
}

/// Asks for a blob into buffers that have more room than it needs, as much, and less.
async fn fill(work: &WorkClient, bytes: usize) {
    let mut buffer = vec![BEFORE; bytes + 9];
    for room in [bytes + 9, bytes, bytes.saturating_sub(1), bytes / 2, 0] {
        buffer.fill(BEFORE);
        let filled = work.blob(bytes as u64).into(&mut buffer[..room]).await;
        let written = match room >= bytes {
            true => {
                assert_eq!(filled, Ok(bytes));
                bytes
            }
            false => {
                let error = filled.unwrap_err();
                assert_eq!(
                    error,
                    CallError::NoRoom { items: bytes, room, called: Called::default() }
                );
                assert!(error.may_have_run());
                let text = error.to_string();
                assert!(text.contains(&format!("{bytes} items")), "{text}");
                assert!(text.contains(&format!("room for {room}")), "{text}");
                0
            }
        };
        assert!(is_blob(&buffer[..written]), "{bytes} bytes, room for {room}");
        assert!(buffer[written..].iter().all(|byte| *byte == BEFORE), "{bytes} bytes, {room}");
    }
}

#[test]
fn a_result_fills_its_buffer_and_nothing_beyond() {
    let _watchdog = Watchdog::new("filling");
    with_each(async |stand, work| {
        for bytes in sizes() {
            fill(work, bytes).await;
        }
        // Nothing of it was kept for later, and what was lent is given back.
        assert_eq!(stand.node.counted(Counter::RepliesStashed), 0);
        for _ in 0..100 {
            fill(work, 100_000).await;
        }
        // Sampled calls fill the buffers as well.
        stand.node.set_sampling(1);
        for bytes in sizes() {
            fill(work, bytes).await;
        }
    });
}

#[test]
fn items_of_every_kind_fill_buffers() {
    let _watchdog = Watchdog::new("items");
    with_each(async |_, work| {
        for count in [0, 1, 2, 30, 1000, 200_000] {
            let mut numbers = vec![u32::MAX; count + 1];
            assert_eq!(work.numbers(count as u64).into(&mut numbers).await, Ok(count));
            assert_eq!(numbers.pop(), Some(u32::MAX));
            assert!(numbers.into_iter().eq(0..count as u32));
            let mut points = vec![Point { x: 7.0, y: 7.0 }; count + 1];
            assert_eq!(work.points(2 * count as u64).into(&mut points).await, Ok(count));
            assert_eq!(points.pop(), Some(Point { x: 7.0, y: 7.0 }));
            assert!(points.iter().enumerate().all(|(at, point)| point.x == at as f64));
            let error = work.points(2 * count as u64 + 1).into(&mut points).await;
            assert_eq!(error, Err(CallError::Method(Division::NotWhole { rest: 1 })));
            let error = work.points(2 * count as u64 + 8).into(&mut points).await;
            let (items, room) = (count + 4, count);
            assert_eq!(error, Err(CallError::NoRoom { items, room, called: Called::default() }));
        }
    });
}

/// A waker that the node does not know, so that replies are kept for its task.
struct Foreign(Waker);

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

#[test]
fn answers_that_were_kept_fill_buffers() {
    let _watchdog = Watchdog::new("kept");
    with_each(async |stand, work| {
        for bytes in sizes() {
            let mut buffer = vec![BEFORE; bytes + 9];
            {
                let mut call = pin!(work.blob(bytes as u64).into(&mut buffer));
                let filled = std::future::poll_fn(|context| {
                    let waker = Waker::from(Arc::new(Foreign(context.waker().clone())));
                    call.as_mut().poll(&mut Context::from_waker(&waker))
                });
                assert_eq!(filled.await, Ok(bytes));
            }
            assert!(is_blob(&buffer[..bytes]) && buffer[bytes..] == [BEFORE; 9]);
        }
        // Of two in one task, the later one is awaited first.
        let stashed = stand.node.counted(Counter::RepliesStashed);
        let short = sizes().filter(|bytes| *bytes < 100_000);
        for bytes in short.clone() {
            let (mut one, mut two) = (vec![BEFORE; bytes + 1], vec![BEFORE; bytes]);
            {
                let mut one = pin!(work.blob(bytes as u64).into(&mut one));
                std::future::poll_fn(|context| {
                    assert!(one.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
                assert_eq!(work.blob(bytes as u64).into(&mut two).await, Ok(bytes));
                assert_eq!(one.await, Ok(bytes));
            }
            assert!(is_blob(&one[..bytes]) && one[bytes] == BEFORE && is_blob(&two));
        }
        let stashed = stand.node.counted(Counter::RepliesStashed) - stashed;
        assert_eq!(stashed, short.count() as u64);
        // Many tasks at once.
        let tasks: Vec<_> = (0..200)
            .map(|at| {
                let work = work.clone();
                stand.node.spawn(async move {
                    let bytes = at * 97;
                    let mut buffer = vec![BEFORE; bytes];
                    yield_now().await;
                    assert_eq!(work.blob(bytes as u64).into(&mut buffer).await, Ok(bytes));
                    assert!(is_blob(&buffer));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_call_that_is_dropped_leaves_its_buffer_as_it_was() {
    let _watchdog = Watchdog::new("dropped");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    stand.node.block_on(async {
        let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
        let mut buffer = vec![BEFORE; 100_000];
        let short = sizes().filter(|bytes| *bytes < 100_000);
        for bytes in short.cycle().take(500) {
            let filled = first(work.blob(bytes as u64).into(&mut buffer), yield_now()).await;
            match filled {
                Ok(filled) => {
                    assert_eq!(filled, Ok(bytes));
                    buffer.fill(BEFORE);
                }
                Err(()) => {
                    // A reply that comes late leaves the buffer as it was.
                    assert_eq!(work.add(1, 2).await, Ok(3));
                    assert!(buffer.iter().all(|byte| *byte == BEFORE));
                }
            }
        }
    });
}
