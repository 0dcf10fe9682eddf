//! Everything comes, once and in order.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::streams::shelf::{Stand, all};
use upbeat::{CallError, Stream, Waiting};

const MANY: u64 = 100_000;

#[test]
fn results_come_in_order() {
    let _watchdog = Watchdog::new("results");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let shelf = stand.shelf().await;
                let numbers = all(shelf.count(MANY).await.unwrap()).await.unwrap();
                assert!(numbers.into_iter().eq(0..MANY));
                let words = all(shelf.words(10_000).await.unwrap()).await.unwrap();
                assert!(words.into_iter().eq((0..10_000).map(|number| format!("word {number}"))));
                let error = shelf.words(13).await.map(drop);
                assert_eq!(error, Err(CallError::Method("not so many".into())));
                assert_eq!(all(shelf.count(0).await.unwrap()).await, Ok(vec![]));
                assert_eq!(all(shelf.words(1).await.unwrap()).await.unwrap(), ["word 0"]);
            });
        }
    }
}

#[test]
fn arguments_go_in_order() {
    let _watchdog = Watchdog::new("arguments");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let shelf = stand.shelf().await;
                assert_eq!(shelf.in_order(Stream::of(0..MANY)).await, Ok(MANY));
                let slow = upbeat::stream(async |sink| {
                    for number in 0..3000 {
                        sink.send(number).await;
                        if number % 100 == 0 {
                            upbeat::yield_now().await;
                        }
                    }
                });
                assert_eq!(shelf.in_order(slow).await, Ok(3000));
                assert_eq!(shelf.in_order(Stream::of([])).await, Ok(0));
                let wrong = shelf.in_order(Stream::of([0, 1, 5])).await;
                assert_eq!(wrong, Err(CallError::Method("5 instead of 2".into())));
                let texts = (0..2000).map(|number| "x".repeat(number % 7));
                let bytes = (0..2000).map(|number| number % 7).sum();
                assert_eq!(shelf.lengths(Stream::of(texts)).await, Ok(bytes));
            });
        }
    }
}

#[test]
fn long_items_go_both_ways() {
    let _watchdog = Watchdog::new("long");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let mut blobs = shelf.endless(200_000).await.unwrap();
            for number in 0_u64..100 {
                let blob = blobs.next().await.unwrap().unwrap();
                assert_eq!((blob.len(), &blob[..8]), (200_000, &number.to_le_bytes()[..]));
            }
            drop(blobs);
            let texts = (0..100).map(|_| "y".repeat(150_000));
            assert_eq!(shelf.lengths(Stream::of(texts)).await, Ok(15_000_000));
        });
    }
}

#[test]
fn streams_go_both_ways_at_once() {
    let _watchdog = Watchdog::new("both ways");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let doubled = all(shelf.double(Stream::of(0..20_000)).await.unwrap()).await.unwrap();
            assert!(doubled.into_iter().eq((0..20_000).map(|number| 2 * number)));
            // A stream that was an argument is passed on as a result, two at a time.
            let texts = Stream::of((0..1000).map(|number: u64| number.to_string()));
            let (texts, numbers) = shelf.swap(Stream::of(0..1000), texts).await.unwrap();
            // Each stream continues by itself, without a reader of the other.
            let reading = stand.node.spawn(all(texts));
            assert!(all(numbers).await.unwrap().into_iter().eq(0..1000));
            let texts = reading.await.unwrap().unwrap();
            assert!(texts.into_iter().eq((0..1000).map(|number| number.to_string())));
        });
    }
}

#[test]
fn handles_read_and_write_streams() {
    let _watchdog = Watchdog::new("handles");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        let other = handle.clone();
        let thread = std::thread::spawn(move || {
            let shelf = other.blocking();
            let numbers: Result<Vec<u64>, _> = shelf.count(MANY).unwrap().blocking().collect();
            assert!(numbers.unwrap().into_iter().eq(0..MANY));
            assert_eq!(shelf.in_order(Stream::of(0..MANY)), Ok(MANY));
            let doubled = shelf.double(Stream::of(0..5000)).unwrap();
            let doubled: Result<Vec<u64>, _> = doubled.blocking().collect();
            assert!(doubled.unwrap().into_iter().eq((0..5000).map(|number| 2 * number)));
            assert_eq!(shelf.count(0).unwrap().blocking().count(), 0);
            // Left in the middle, and before the first.
            let _ = shelf.endless(1000).unwrap().blocking().take(5).count();
            drop(shelf.silent().unwrap());
        });
        // Meanwhile its futures run on a node, which is as good as any other runtime.
        stand.node.block_on(async {
            let words = all(handle.words(5000).await.unwrap()).await.unwrap();
            assert!(words.into_iter().eq((0..5000).map(|number| format!("word {number}"))));
            assert_eq!(handle.in_order(Stream::of(0..10_000)).await, Ok(10_000));
            crate::common::until(|| thread.is_finished()).await;
            crate::streams::shelf::all_gone(&stand.shelf().await).await;
        });
        thread.join().unwrap();
    }
}
