//! Calls with streams in their arguments whose results go into buffers.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::streams::shelf::{Stand, all_gone};
use upbeat::{CallError, Stream, Waiting};

const MANY: u64 = 3000;

#[test]
fn what_became_of_streams_goes_into_buffers() {
    let _watchdog = Watchdog::new("streams into buffers");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let handle = stand.handle();
        let thread = handle.clone();
        let thread = std::thread::spawn(move || {
            let (shelf, mut buffer) = (thread.blocking(), vec![0; MANY as usize + 1]);
            let numbers = || Stream::of(1..=MANY);
            assert_eq!(shelf.filling(&mut buffer).list(numbers()), Ok(MANY as usize));
            check(&mut buffer);
            assert_eq!(shelf.filling(&mut buffer).list_if(numbers()), Ok(MANY as usize));
            check(&mut buffer);
            let error = shelf.filling(&mut buffer).list_if(Stream::of([1, 0]));
            assert_eq!(error, Err(CallError::Method("one is zero".into())));
        });
        stand.node.block_on(async {
            let (shelf, mut buffer) = (stand.shelf().await, vec![0; MANY as usize + 1]);
            let numbers = || Stream::of(1..=MANY);
            assert_eq!(shelf.list(numbers()).into(&mut buffer).await, Ok(MANY as usize));
            check(&mut buffer);
            assert_eq!(handle.list(numbers()).into(&mut buffer).await, Ok(MANY as usize));
            check(&mut buffer);
            let error = shelf.list_if(Stream::of([0])).into(&mut buffer).await;
            assert_eq!(error, Err(CallError::Method("one is zero".into())));
            let error = handle.list_if(Stream::of([0])).into(&mut buffer).await;
            assert_eq!(error, Err(CallError::Method("one is zero".into())));
            crate::common::until(|| thread.is_finished()).await;
            all_gone(&shelf).await;
        });
        thread.join().unwrap();
    }
}

/// All of them, and nothing beyond.
fn check(buffer: &mut [u64]) {
    assert!(buffer.iter().copied().eq((1..=MANY).chain([0])));
    buffer.fill(0);
}
