//! Handlers of one-way messages whose senders are gone: they go on, and end in time.

use crate::common::process::Other;
use crate::common::server::KINDS;
use crate::common::{Watchdog, at_once};
use crate::orphans::chain::Stand;
use std::time::{Duration, Instant};
use upbeat::Counter;

/// The bound that the method declares.
const OUTLIVES: Duration = Duration::from_millis(500);
/// A busy machine takes its time.
const LATE: Duration = Duration::from_secs(7);
const LONG: u64 = 60_000;

impl Stand {
    /// Another process sends this one-way message, whose handler stands then.
    fn sent(&self, method: &str, ms: u64) -> Other {
        // The observer connects before the handler begins, which may end soon.
        drop(self.node.block_on(self.client(0)));
        let part = format!("chain send {method} {ms} {}", self.names[0]);
        let mut sender = Other::start(&part, &self.place);
        sender.expect("sent");
        self.node.block_on(self.standing([0], 1));
        sender
    }
}

#[test]
fn a_handler_of_a_dead_sender_goes_on_until_its_bound() {
    let _watchdog = Watchdog::new("bound of a one-way message");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let mut sender = stand.sent("begin", LONG);
        sender.kill();
        let died = Instant::now();
        stand.node.block_on(async {
            stand.standing([0], 0).await;
            let took = died.elapsed();
            assert!((OUTLIVES / 2..OUTLIVES + LATE).contains(&took), "{took:?}");
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 1);
            assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 0);
            assert_eq!(stand.client(0).await.finished().await, Ok(0));
        });
    });
}

#[test]
fn a_handler_is_done_in_time_though_its_sender_is_dead() {
    let _watchdog = Watchdog::new("one-way message of the dead");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let mut sender = stand.sent("begin_unbounded", 3_000);
        sender.kill();
        stand.node.block_on(async {
            stand.standing([0], 0).await;
            assert_eq!(stand.client(0).await.finished().await, Ok(1));
            for counter in [Counter::OrphansEnded, Counter::OrphansExpired, Counter::OrphanTime] {
                assert_eq!(stand.counted(0, counter).await, 0, "{counter}");
            }
        });
    });
}
