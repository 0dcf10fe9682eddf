//! Handlers of one-way messages whose senders are gone: they go on, and end in time.

use crate::chain::Stand;
use crate::common::process::Other;
use crate::common::server::KINDS;
use crate::common::{Watchdog, at_once, node, soon};
use std::time::{Duration, Instant};
use upbeat::{Counter, Waiting};

/// The bound that the method declares.
const OUTLIVES: Duration = Duration::from_millis(500);
/// The bound of a method that declares none.
const USUAL: Duration = Duration::from_secs(10);
const LONG: u64 = 60_000;

impl Stand {
    /// Another process sends this one-way message, whose handler stands then.
    fn sent(&self, method: &str, ms: u64) -> Other {
        let part = format!("send {method} {ms} {}", self.names[0]);
        let mut sender = Other::start(&part, &self.place);
        sender.expect("sent");
        self.node.block_on(self.standing([0], 1));
        sender
    }

    /// Waits until that has ended as an orphan, and returns how long that took since `gone`.
    fn expired(&self, gone: Instant) -> Duration {
        self.node.block_on(async {
            self.standing([0], 0).await;
            let took = gone.elapsed();
            assert_eq!(self.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(self.counted(0, Counter::OrphansExpired).await, 1);
            assert_eq!(self.counted(0, Counter::OrphansEnded).await, 0);
            assert_eq!(self.client(0).await.finished().await, Ok(0));
            took
        })
    }
}

#[test]
fn a_handler_of_a_dead_sender_goes_on_until_its_bound() {
    let _watchdog = Watchdog::new("bound of a one-way message");
    let methods = [("begin", OUTLIVES), ("begin_unbounded", USUAL)];
    let cases = KINDS.into_iter().flat_map(|kind| methods.map(|method| (kind, method)));
    at_once(cases, |(kind, (method, bound))| {
        let stand = Stand::new(kind, 1);
        let mut sender = stand.sent(method, LONG);
        sender.kill();
        let died = Instant::now();
        let took = stand.expired(died);
        assert!((bound / 2..2 * bound).contains(&took), "{took:?}");
    });
}

#[test]
fn a_handler_is_done_in_time_though_its_sender_is_dead() {
    let _watchdog = Watchdog::new("one-way message of the dead");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let mut sender = stand.sent("begin_unbounded", 200);
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

#[test]
fn a_handler_has_all_the_time_while_its_sender_lives() {
    let _watchdog = Watchdog::new("one-way message of the living");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let _sender = stand.sent("begin", 2 * OUTLIVES.as_millis() as u64);
        stand.node.block_on(async {
            stand.standing([0], 0).await;
            assert_eq!(stand.client(0).await.finished().await, Ok(1));
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 0);
        });
    });
}

#[test]
fn a_sender_that_ends_in_order_leaves_the_same_bound() {
    let _watchdog = Watchdog::new("one-way message of one that left");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let name = format!("leaves/{}", stand.names[0].replace('/', "-"));
        let sender = node(&name, &stand.place, Waiting::Adaptive);
        sender.block_on(async {
            let chain: crate::chain::ChainClient = sender.connect(&stand.names[0]).await.unwrap();
            chain.begin(LONG).await.unwrap();
            // The message has arrived when a later call returns.
            assert_eq!(soon(chain.standing()).await, Ok((1, 1)));
        });
        sender.shut_down(Duration::from_millis(1));
        let took = stand.expired(Instant::now());
        assert!(took < 2 * OUTLIVES, "{took:?}");
    });
}
