//! Tests that a slow reader holds back its own writer, and no other.

use crate::common::server::KINDS;
use crate::common::{Watchdog, first, node};
use crate::streams::shelf::{ShelfClient, Stand, all_gone, held_back};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Stream, Waiting};

const BYTES: u64 = 1000;
/// The most items of a KB that may be on their way: three batches and the buffer of a sink.
const AHEAD: u64 = 4 * (32 << 10) / BYTES + 8;

#[test]
fn a_slow_reader_holds_its_writer_back_and_nobody_else() {
    let _watchdog = Watchdog::new("slow reader");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let other = node(&format!("other/{}", stand.name), &stand.place, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let mut blobs = shelf.endless(BYTES).await.unwrap();
            for read in [1, 10, 300] {
                for _ in 0..read {
                    blobs.next().await.unwrap().unwrap();
                }
                let read = match read {
                    1 => 1,
                    10 => 11,
                    _ => 311,
                };
                let sent = held_back(&shelf).await;
                assert!((read..=read + AHEAD).contains(&sent), "{sent} sent and {read} read");
            }
        });
        // The stream is open still.
        other.block_on(async {
            let shelf: ShelfClient = other.connect(&stand.name).await.unwrap();
            for number in 0..1000 {
                assert_eq!(shelf.add(number, 1).await, Ok(number + 1));
            }
        });
        stand.node.block_on(async { all_gone(&stand.shelf().await).await });
    }
}

#[test]
fn a_handler_that_reads_nothing_holds_its_caller_back() {
    let _watchdog = Watchdog::new("held caller");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let sent = Rc::new(Cell::new(0));
            let counted = Rc::clone(&sent);
            let blobs = (0..2000).map(move |_| {
                counted.set(counted.get() + 1);
                vec![0; BYTES as usize]
            });
            let mut call = pin!(shelf.hold(Stream::of(blobs)));
            let mut before = u64::MAX;
            while sent.get() != before {
                before = sent.get();
                assert!(first(&mut call, upbeat::sleep(Duration::from_millis(50))).await.is_err());
                assert_eq!(shelf.add(1, 2).await, Ok(3));
            }
            assert!((1..=AHEAD).contains(&before), "{before} sent");
            shelf.go().await.unwrap();
            assert_eq!(call.await, Ok(2000));
            all_gone(&shelf).await;
        });
    }
}

#[test]
fn so_many_streams_and_no_more() {
    let _watchdog = Watchdog::new("many");
    let stand = Stand::new(KINDS[0], Waiting::Adaptive);
    let handle = stand.handle();
    stand.node.block_on(async {
        let shelf = stand.shelf().await;
        let mut open = Vec::new();
        let error = loop {
            match shelf.silent().await {
                Ok(stream) => open.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(open.len(), 256);
        assert!(error.to_string().contains("256 of this session are open"), "{error}");
        let error = shelf.in_order(Stream::of([0])).await.unwrap_err();
        assert!(error.to_string().contains("256 of this session are open"), "{error}");
        // One less, one more.
        drop(open.pop());
        assert_eq!(shelf.in_order(Stream::of(0..1000)).await, Ok(1000));
        // Others have their own.
        assert!(handle.count(3).await.is_ok());
        drop(open);
        all_gone(&shelf).await;
        assert!(shelf.silent().await.is_ok());
        assert!(!matches!(error, CallError::Method(_)));
    });
}

/// Items that are there already hold up nobody.
#[test]
fn who_reads_what_is_there_makes_way() {
    let _watchdog = Watchdog::new("a reader that makes way");
    let node = upbeat::Node::builder("streams/way").local_only().build().unwrap();
    let other = Rc::new(Cell::new(false));
    let ran = Rc::clone(&other);
    let read = node.spawn(async move {
        let mut endless = Stream::of(0_u64..);
        let begun = Instant::now();
        while !ran.get() && begun.elapsed() < Duration::from_secs(5) {
            assert!(matches!(endless.next().await, Some(Ok(_))));
        }
        ran.get()
    });
    drop(node.spawn(async move { other.set(true) }));
    assert_eq!(node.block_on(read), Ok(true), "the other task ran meanwhile");
}
