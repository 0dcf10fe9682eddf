//! Streams whose one side dies.

use crate::common::process::Other;
use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, first};
use crate::streams::shelf::{Alive, Stand, all_gone};
use std::pin::pin;
use std::time::Duration;
use upbeat::{CallError, Stream, Waiting};

#[test]
fn a_reader_learns_that_its_writer_has_died() {
    let _watchdog = Watchdog::new("writer dies");
    let mut stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let node = stand.node.clone();
    let (mut blobs, mut silent) = node.block_on(async {
        let shelf = stand.shelf().await;
        let mut blobs = shelf.endless(1000).await.unwrap();
        blobs.next().await.unwrap().unwrap();
        (blobs, shelf.silent().await.unwrap())
    });
    let handle = stand.handle();
    let mut of_handle = node.block_on(async { handle.silent().await.unwrap() });
    assert!(node.block_on(first(silent.next(), upbeat::yield_now())).is_err());
    assert!(node.block_on(first(of_handle.next(), upbeat::yield_now())).is_err());
    let shelf = node.block_on(stand.shelf());
    let alive = Alive::default();
    let guard = alive.guard();
    node.block_on(async {
        let endless = Stream::of((0..).inspect(move |_| _ = &guard).map(|_: u64| vec![0; 100]));
        let mut held = pin!(shelf.hold(endless));
        assert!(first(&mut held, upbeat::sleep(Duration::from_millis(20))).await.is_err());
        stand.kill();
        let error = held.await.unwrap_err();
        assert!(matches!(error, CallError::Unknown(_)), "{error}");
    });
    assert_eq!(alive.count(), 0);
    node.block_on(async {
        for stream in [&mut silent, &mut of_handle] {
            let error = stream.next().await.unwrap().unwrap_err();
            assert!(matches!(error, CallError::Unknown(_) | CallError::NotSent(_)), "{error}");
            assert!(stream.next().await.is_none());
        }
        let mut read = 0;
        let error = loop {
            match blobs.next().await.unwrap() {
                Ok(_) => read += 1,
                Err(error) => break error,
            }
        };
        assert!(read < 1000);
        assert!(matches!(error, CallError::Unknown(_) | CallError::NotSent(_)), "{error}");
    });
}

#[test]
fn a_writer_goes_when_its_reader_dies() {
    let _watchdog = Watchdog::new("reader dies");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let name = format!("read reader/{} {}", stand.name, stand.name);
        let mut reader = Other::start(&name, &stand.place);
        reader.expect("reading");
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            while shelf.state().await.unwrap().1 != 3 {
                upbeat::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(shelf.state().await.unwrap().2, 3);
            reader.kill();
            let (_, _, _, orphans) = all_gone(&shelf).await;
            // The handler, both writers, and what brought its argument, if that waited.
            assert!((3..=4).contains(&orphans), "{orphans} orphans");
        });
    }
}
