//! Streams that travel in a message, also in one that is sent at once, and their end if the
//! message is not delivered.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::streams::shelf::{Stand, all, all_gone};
use upbeat::{CallError, Stream, Waiting};

/// The shelf as a caller of another version knows it.
mod other {
    use upbeat::Stream;

    #[upbeat::service]
    pub(crate) trait Shelf {
        async fn weigh(&self, blobs: Stream<Vec<u8>>) -> u64;
    }
}

#[test]
fn a_call_that_is_sent_at_once_brings_its_streams() {
    let _watchdog = Watchdog::new("sent at once");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let sent = shelf.in_order(Stream::of(0..3000)).try_send().unwrap();
            assert_eq!(sent.await, Ok(3000));
            let doubled = shelf.double(Stream::of(0..3000)).try_send().unwrap().await.unwrap();
            assert_eq!(all(doubled).await, Ok((0..3000).map(|number| 2 * number).collect()));
            // The stream of a result that nobody takes ends as well.
            let silent = shelf.silent().try_send().unwrap();
            assert_eq!(shelf.state().await.unwrap().1, 1, "its writer is there");
            drop(silent);
            all_gone(&shelf).await;
        });
    }
}

#[test]
fn a_stream_in_a_call_that_is_not_sent_ends_at_its_writer() {
    let _watchdog = Watchdog::new("not sent");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle: other::ShelfHandle = stand.node.handle(&stand.name).unwrap();
        stand.node.block_on(async {
            let shelf = stand.shelf().await;
            let client: other::ShelfClient = stand.node.connect(&stand.name).await.unwrap();
            for through_handle in [false, true] {
                let mut blobs = shelf.endless(100).await.unwrap();
                blobs.next().await.unwrap().unwrap();
                assert_eq!(shelf.state().await.unwrap().1, 1, "its writer is there");
                let weighed = match through_handle {
                    false => client.weigh(blobs).await,
                    true => handle.weigh(blobs).await,
                };
                assert!(matches!(weighed, Err(CallError::NoSuchMethod { .. })), "{weighed:?}");
                all_gone(&shelf).await;
            }
        });
    }
}
