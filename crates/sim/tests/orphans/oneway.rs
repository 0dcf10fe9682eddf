//! Handlers of one-way messages whose senders are gone: they go on, and end in time.

use crate::chain::{Stand, in_worlds, ms, took};
use std::time::Duration;
use upbeat::Counter;
use upbeat_environment::time::Instant;

/// The bound that the method declares, in milliseconds.
const OUTLIVES: u64 = 500;
/// The bound of a method that declares none.
const USUAL: u64 = 10_000;
const LONG: u64 = 60_000;

impl Stand {
    /// Another process sends a one-way message, whose handler stands then.
    fn sent(&self, has_bound: bool, ms: u64) {
        self.caller("sender", move |chain| async move {
            match has_bound {
                true => chain.begin(ms).await.unwrap(),
                false => chain.begin_unbounded(ms).await.unwrap(),
            }
            std::future::pending().await
        });
        self.node.block_on(self.standing([0], 1));
    }

    /// Waits until that has ended as an orphan, in this time.
    fn expires(&self, bound: Duration) {
        let gone = Instant::now();
        self.node.block_on(async {
            self.standing([0], 0).await;
            took(gone, bound);
            assert_eq!(self.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(self.counted(0, Counter::OrphansExpired).await, 1);
            assert_eq!(self.counted(0, Counter::OrphansEnded).await, 0);
            assert_eq!(self.client(0).await.finished().await, Ok(0));
        });
    }
}

#[test]
fn a_handler_of_a_dead_sender_goes_on_until_its_bound() {
    for (has_bound, bound) in [(true, OUTLIVES), (false, USUAL)] {
        in_worlds(|sim, kind| {
            let stand = Stand::new(sim, kind, 1);
            stand.sent(has_bound, LONG);
            sim.kill("sender");
            stand.expires(kind.death_is_known_after() + ms(bound));
        });
    }
}

#[test]
fn a_handler_is_done_in_time_though_its_sender_is_dead() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.sent(false, 200);
        sim.kill("sender");
        stand.node.block_on(async {
            stand.standing([0], 0).await;
            assert_eq!(stand.client(0).await.finished().await, Ok(1));
            for counter in [Counter::OrphansEnded, Counter::OrphansExpired] {
                assert_eq!(stand.counted(0, counter).await, 0, "{counter}");
            }
        });
    });
}

#[test]
fn a_handler_has_all_the_time_while_its_sender_lives() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.sent(true, 2 * OUTLIVES);
        stand.node.block_on(async {
            stand.standing([0], 0).await;
            assert_eq!(stand.client(0).await.finished().await, Ok(1));
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 0);
        });
    });
}

#[test]
fn a_sender_that_ends_in_order_leaves_the_same_bound() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.caller("sender", |chain| async move {
            chain.begin(LONG).await.unwrap();
            // The message has arrived when a later call returns.
            assert_eq!(chain.standing().await, Ok((1, 1)));
        });
        while sim.is_running("sender") {
            sim.pause(ms(1));
        }
        stand.expires(ms(OUTLIVES));
    });
}
