//! Replies that are longer than their caller takes.

use crate::common::work::WorkHandle;
use crate::common::{SOON, Watchdog, alone, block_on};
use crate::oneways::Stand;
use std::time::Duration;
use upbeat::{CallError, Waiting};

/// The last bytes of a reply may have left the socket, and lie decrypted or not in the handle's memory, when its thread
/// goes to sleep.
#[test]
fn a_reply_that_is_not_kept_is_noticed_whatever_its_length() {
    const MOST: usize = 1 << 20;
    let _alone = alone();
    let _watchdog = Watchdog::new("long replies");
    for is_secure in [false, true] {
        let stand = Stand::new(is_secure);
        let builder = stand.handles().waiting(Waiting::Sleeping).max_message_bytes(MOST);
        // Nothing else wakes the thread.
        let builder = builder.peer_timeout(Duration::from_secs(600));
        let work: WorkHandle = builder.connect(&stand.server.named("server")).unwrap();
        for tail in 0..64 {
            let bytes = 2 * MOST as u64 + tail * 1_021;
            let error = block_on(work.blob(bytes).deadline(SOON)).unwrap_err();
            assert!(matches!(error, CallError::ResultTooLarge { .. }), "{bytes}: {error}");
        }
    }
}
