//! Streams of handles that are read in other threads than those in which they came.

use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, first, soon};
use crate::streams::shelf::{ShelfHandle, Stand, all_gone};
use std::pin::Pin;
use std::time::Duration;
use tokio::runtime::Runtime;
use upbeat::{CallError, HandleStream, NotSend, Stream, Waiting};

const MANY: u64 = 20_000;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap()
}

/// Reads so many numbers, which come in order.
async fn read(numbers: &mut HandleStream<u64>, range: std::ops::Range<u64>) {
    for number in range {
        assert_eq!(numbers.next().await, Some(Ok(number)));
    }
}

async fn numbers(shelf: &ShelfHandle, to: u64) -> HandleStream<u64> {
    shelf.count(to).await.unwrap().into_send().unwrap()
}

#[test]
fn a_stream_goes_where_its_items_go() {
    const fn anywhere<T: Send + Sync + Unpin + 'static>() {}
    const { anywhere::<HandleStream<Vec<u8>>>() }
    const { anywhere::<NotSend>() }
}

#[test]
fn spawned_tasks_read_streams_to_their_ends() {
    let _watchdog = Watchdog::new("spawned tasks");
    let runtime = runtime();
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let shelf = handle.clone();
                runtime.spawn(async move {
                    let mut count = numbers(&shelf, MANY).await;
                    let words = shelf.words(1000).await.unwrap();
                    let mut words = words.into_send().unwrap();
                    // The session is theirs.
                    drop(shelf);
                    read(&mut count, 0..MANY / 2).await;
                    for number in 0..1000 {
                        let word = words.next().await.unwrap().unwrap();
                        assert_eq!(word, format!("word {number}"));
                    }
                    assert_eq!(words.next().await, None);
                    // The rest is read by another task, and the last by a thread that waits.
                    let rest = tokio::spawn(async move {
                        read(&mut count, MANY / 2..MANY - 1000).await;
                        std::thread::spawn(move || {
                            let last: Result<Vec<u64>, _> = count.blocking().collect();
                            assert!(last.unwrap().into_iter().eq(MANY - 1000..MANY));
                        })
                    });
                    rest.await.unwrap()
                })
            })
            .collect();
        drop(handle);
        for task in tasks {
            runtime.block_on(task).unwrap().join().unwrap();
        }
        stand.node.block_on(async { all_gone(&stand.shelf().await).await });
    }
}

#[test]
fn one_that_is_dropped_elsewhere_takes_its_writer_with_it() {
    let _watchdog = Watchdog::new("dropped elsewhere");
    let runtime = runtime();
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        let orphans =
            || stand.node.block_on(async { soon(all_gone(&stand.shelf().await)).await.3 });
        for many in [0, 1, 40, 500] {
            let (before, shelf) = (orphans(), handle.clone());
            let left = runtime.spawn(async move {
                let blobs = shelf.endless(100).await.unwrap();
                let mut blobs = blobs.into_send().unwrap();
                for _ in 0..many {
                    blobs.next().await.unwrap().unwrap();
                }
                blobs
            });
            let left = runtime.block_on(left).unwrap();
            let alive = stand.node.block_on(async { stand.shelf().await.state().await }).unwrap().1;
            assert_eq!(alive, 1, "the writer is there");
            std::thread::spawn(|| drop(left)).join().unwrap();
            assert_eq!(orphans(), before + 1);
        }
        // With a task that is ended while it waits for the first.
        let (ask, asked) = std::sync::mpsc::channel();
        let waits = runtime.spawn(async move {
            let mut silent = handle.silent().await.unwrap().into_send().unwrap();
            let mut next = std::pin::pin!(silent.next());
            std::future::poll_fn(|context| {
                let polled = next.as_mut().poll(context);
                let _ = ask.send(polled.is_pending());
                polled
            })
            .await
        });
        assert!(asked.recv().unwrap());
        waits.abort();
        assert!(runtime.block_on(waits).unwrap_err().is_cancelled());
        orphans();
    }
}

#[test]
fn tasks_learn_that_their_writer_is_gone() {
    let _watchdog = Watchdog::new("writer gone");
    let runtime = runtime();
    for (kind, killed) in [(Kind::Shared, true), (Kind::Shared, false), (Kind::Local, false)] {
        let mut stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        let (say, said) = std::sync::mpsc::channel();
        let tasks = [0, 1, 300].map(|many| {
            let (shelf, say) = (handle.clone(), say.clone());
            runtime.spawn(async move {
                let mut silent = shelf.silent().await.unwrap().into_send().unwrap();
                let mut blobs = shelf.endless(1000).await.unwrap().into_send().unwrap();
                for _ in 0..many {
                    blobs.next().await.unwrap().unwrap();
                }
                say.send(()).unwrap();
                let lost = silent.next().await.unwrap().unwrap_err();
                assert!(silent.next().await.is_none());
                // The items that are here come before the error.
                let mut read = 0;
                while let Some(blob) = blobs.next().await {
                    read += 1;
                    if let Err(error) = blob {
                        assert!(blobs.next().await.is_none());
                        return (lost, error, read);
                    }
                }
                panic!("it has no end")
            })
        });
        for _ in 0..3 {
            said.recv().unwrap();
        }
        if killed {
            stand.kill();
        } else {
            drop(stand);
        }
        for task in tasks {
            let (lost, error, read) = runtime.block_on(task).unwrap();
            for error in [lost, error] {
                // A node that ends by itself says so, if it comes to that.
                let fits = matches!(error, CallError::Unknown(_) | CallError::NotSent(_))
                    || !killed && matches!(error, CallError::Failed { .. });
                assert!(fits, "{error:?}");
            }
            assert!(read < 1000);
        }
    }
}

#[test]
fn what_stays_in_its_thread_says_why() {
    let _watchdog = Watchdog::new("not send");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let handle = stand.handle();
    stand.node.block_on(async {
        let shelf = stand.shelf().await;
        assert_eq!(Stream::of([1]).into_send().unwrap_err(), NotSend::MadeHere);
        let error = shelf.count(10).await.unwrap().into_send().unwrap_err();
        assert_eq!(error, NotSend::OfNode);
        let doubled = handle.double(Stream::of(0..)).await.unwrap();
        assert_eq!(doubled.into_send().unwrap_err(), NotSend::WithArguments);
        // The refused streams are gone.
        all_gone(&shelf).await;
        // A stream that is over is dropped without an error.
        let mut empty = handle.count(0).await.unwrap();
        assert_eq!(empty.next().await, None);
        let mut empty = empty.into_send().unwrap();
        assert_eq!(empty.next().await, None);
        // The sent form becomes a stream again, which is passed on.
        let mut some = handle.count(1000).await.unwrap();
        assert_eq!(some.next().await, Some(Ok(0)));
        let some = Stream::from(some.into_send().unwrap());
        let some = Stream::from_stream(Shifted(some));
        assert_eq!(shelf.in_order(some).await, Ok(999));
        all_gone(&shelf).await;
        // On a node's thread it makes way as any other.
        let mut silent = handle.silent().await.unwrap().into_send().unwrap();
        let wait = upbeat::sleep(Duration::from_millis(20));
        assert!(first(silent.next(), wait).await.is_err());
    });
}

/// Numbers from zero instead of from one.
struct Shifted(Stream<u64>);

impl futures_core::Stream for Shifted {
    type Item = u64;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<u64>> {
        let next = Pin::new(&mut self.0).poll_next(context);
        next.map(|number| number?.ok().map(|number| number - 1))
    }
}
