//! Streams that end before their ends.

use crate::common::server::KINDS;
use crate::common::{Watchdog, first, yield_now};
use crate::streams::shelf::{Alive, Stand, all, all_gone, none};
use std::time::Duration;
use upbeat::{CallError, Stream, Waiting, error::FailCode};

#[test]
fn a_reader_that_leaves_takes_the_writer_with_it() {
    let _watchdog = Watchdog::new("reader leaves");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            for read in [0, 1, 40, 1000] {
                let (_, _, _, before) = all_gone(&shelf).await;
                let mut blobs = shelf.endless(100).await.unwrap();
                for _ in 0..read {
                    blobs.next().await.unwrap().unwrap();
                }
                assert_eq!(shelf.state().await.unwrap().1, 1, "the writer is there");
                drop(blobs);
                let (_, _, _, orphans) = all_gone(&shelf).await;
                assert_eq!(orphans, before + 1);
            }
            // While it waits for the first.
            let mut silent = shelf.silent().await.unwrap();
            let wait = upbeat::sleep(Duration::from_millis(20));
            assert!(first(silent.next(), wait).await.is_err());
            drop(silent);
            all_gone(&shelf).await;
        });
    }
}

#[test]
fn an_answer_that_nobody_takes_leaves_no_stream() {
    let _watchdog = Watchdog::new("not taken");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let mut taken = 0;
            for round in 0..300 {
                // Dropped before it is answered, and with its answer here and not looked at.
                let later = async {
                    for _ in 0..round % 30 {
                        yield_now().await;
                    }
                    if round % 3 == 0 {
                        // Long, and nothing else is polled: the answer is kept.
                        std::thread::sleep(Duration::from_micros(200));
                        yield_now().await;
                    }
                };
                if round % 2 == 0 {
                    taken += u64::from(first(later, shelf.silent()).await.is_err());
                } else {
                    taken += u64::from(first(later, handle.silent()).await.is_err());
                }
            }
            all_gone(&shelf).await;
            assert!(taken < 300, "some were dropped");
        });
    }
}

#[test]
fn what_is_not_wanted_of_an_argument_is_not_written() {
    let _watchdog = Watchdog::new("not wanted");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            for many in [0, 1, 1000] {
                let alive = Alive::default();
                let guard = alive.guard();
                let endless = Stream::of((0..).inspect(move |_| _ = &guard));
                assert_eq!(shelf.some(many, endless).await, Ok(many));
                none(&alive).await;
                all_gone(&shelf).await;
            }
        });
    }
}

#[test]
fn a_call_that_is_given_up_ends_its_arguments() {
    let _watchdog = Watchdog::new("given up");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let alive = Alive::default();
            let endless = || {
                let guard = alive.guard();
                upbeat::stream(async move |sink| {
                    let _guard = guard;
                    loop {
                        sink.send(vec![0; 1000]).await;
                        upbeat::yield_now().await;
                    }
                })
            };
            let call = shelf.hold(endless()).deadline(Duration::from_millis(50));
            assert_eq!(call.await, Err(CallError::deadline(true)));
            assert_eq!(alive.count(), 0);
            all_gone(&shelf).await;
            // The first awaited call of a handle opens a session, for longer than that deadline perhaps.
            handle.state().await.unwrap();
            let call = handle.hold(endless()).deadline(Duration::from_millis(50));
            assert_eq!(call.await, Err(CallError::deadline(true)));
            assert_eq!(alive.count(), 0);
            all_gone(&shelf).await;
            let wait = || upbeat::sleep(Duration::from_millis(20));
            assert!(first(handle.hold(endless()), wait()).await.is_err());
            assert!(first(shelf.hold(endless()), wait()).await.is_err());
            assert_eq!(alive.count(), 0);
            all_gone(&shelf).await;
            // Of one that goes on behind its answer, too.
            let numbers = upbeat::stream(async |sink| {
                sink.send(1).await;
                std::future::pending::<()>().await;
            });
            let mut doubled = shelf.double(numbers).await.unwrap();
            assert_eq!(doubled.next().await, Some(Ok(2)));
            drop(doubled);
            all_gone(&shelf).await;
        });
        // Of a thread that waits, as well.
        let alive = Alive::default();
        let guard = alive.guard();
        let endless = upbeat::stream(async move |sink| {
            let _guard = guard;
            loop {
                sink.send(vec![0; 1000]).await;
            }
        });
        let blocking = handle.blocking().deadline(Duration::from_millis(50));
        assert_eq!(blocking.hold(endless), Err(CallError::deadline(true)));
        assert_eq!(alive.count(), 0);
        stand.node.block_on(async { all_gone(&stand.shelf().await).await });
    }
}

#[test]
fn a_writer_that_panics_says_so_to_its_reader() {
    let _watchdog = Watchdog::new("panics");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let mut numbers = shelf.panics(1000).await.unwrap();
            let mut read = 0;
            let error = loop {
                match numbers.next().await {
                    Some(Ok(number)) => {
                        assert_eq!(number, read);
                        read += 1;
                    }
                    Some(Err(error)) => break error,
                    None => panic!("it has no end"),
                }
            };
            let panicked = matches!(&error, CallError::Failed { code: FailCode::Panicked, .. });
            assert!(panicked, "{error}");
            assert_names(&error, "panics");
            assert!(read <= 1000);
            assert!(numbers.next().await.is_none());
            all_gone(&shelf).await;
            assert_eq!(all(shelf.count(10).await.unwrap()).await.unwrap().len(), 10);
        });
    }
}

#[test]
fn a_stream_that_is_passed_on_tells_of_its_break() {
    let _watchdog = Watchdog::new("passed on");
    let stand = Stand::new(KINDS[0], Waiting::Adaptive);
    stand.node.block_on(async {
        let shelf = stand.shelf().await;
        let broken = shelf.panics(300).await.unwrap();
        // An argument that breaks where it is written.
        let numbers = Stream::from_stream(Whole(broken));
        let error = shelf.in_order(numbers).await;
        assert_eq!(error, Ok(256), "a whole batch came before");
        let one = shelf.panics(0).await.unwrap();
        let (_, mut one) = shelf.swap(one, Stream::of([])).await.unwrap();
        let error = one.next().await.unwrap().unwrap_err();
        assert!(
            matches!(&error, CallError::Stream { text, .. } if text.contains("panic")),
            "{error}"
        );
        assert_names(&error, "swap");
        drop(one);
        all_gone(&shelf).await;
    });
}

/// Checks that the error of a stream names the method in whose result the stream came, and no call that its reader made.
#[track_caller]
fn assert_names(error: &CallError, method: &str) {
    let callee = error.callee().unwrap_or_else(|| panic!("it names nothing: {error}"));
    assert_eq!((callee.service, callee.method), ("Shelf", method), "{error}");
    assert!(error.to_string().contains(&format!("`{method}` of service `Shelf`")), "{error}");
}

/// The items before an error.
struct Whole(Stream<u64>);

impl futures_core::Stream for Whole {
    type Item = u64;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<u64>> {
        std::pin::Pin::new(&mut self.0).poll_next(context).map(|item| item?.ok())
    }
}

#[test]
fn a_node_that_shuts_down_ends_its_streams() {
    let _watchdog = Watchdog::new("shut down");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let node = stand.node.clone();
        let mut silent = node.block_on(async { stand.shelf().await.silent().await.unwrap() });
        let mut blobs = node.block_on(async { stand.shelf().await.endless(10).await.unwrap() });
        node.block_on(async { blobs.next().await.unwrap().unwrap() });
        assert!(node.block_on(first(silent.next(), yield_now())).is_err());
        drop(stand);
        node.block_on(async {
            // The reader asked before the server began to close, or too late.
            let error = silent.next().await.unwrap().unwrap_err();
            let closing = matches!(error, CallError::Failed { code: FailCode::Closing, .. });
            assert!(closing || matches!(error, CallError::Unknown(_)), "{error}");
            assert_names(&error, "silent");
            while let Some(Ok(_)) = blobs.next().await {}
        });
    }
}
