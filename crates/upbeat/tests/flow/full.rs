//! Senders towards a node that does not go on.

use crate::common::server::KINDS;
use crate::common::{Watchdog, at_once, first, over_network};
use crate::depot::{Make, Stand, bytes_of, sum};
use std::time::Duration;
use upbeat::{CallError, Waiting};
use upbeat_core::limits::{PLACES_MAX, SLOT_BYTES};

/// The bytes of such messages that are taken at most before the receiver goes on: no more than the
/// lane's longest ring has and the buffers of a size.
const BYTES_MAX: u64 = 4 << 20;

/// Nothing that was taken is lost, and no more is taken than there is memory for.
#[test]
fn what_does_not_wait_is_told_that_it_is_full() {
    let _watchdog = Watchdog::new("full");
    at_once(KINDS, |kind| {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for stalled in [false, true] {
                for len in [8, 500, 60_000] {
                    let make = Make::new(waiting);
                    let stand = Stand::new(kind, make.share(1), make);
                    stand.node.block_on(async {
                        let depot = stand.client().await;
                        // The receiver does not poll, or it polls and has no room.
                        let hold = match stalled {
                            true => {
                                let stall = depot.stall(300).try_send().unwrap();
                                Some(stall)
                            }
                            false => None,
                        };
                        let mut taken = 0;
                        let (mut refused, mut calls) = (0, Vec::new());
                        // Not in one breath: what was refused is heard of meanwhile.
                        while refused < 20 {
                            let number = taken + 1;
                            match depot.put(number, bytes_of(number, len)).try_send() {
                                Ok(()) => {
                                    taken += 1;
                                    refused = 0;
                                }
                                Err(error) => {
                                    assert_eq!(error, CallError::Full);
                                    let call = depot.keep(number, bytes_of(number, len));
                                    match call.try_send() {
                                        Err(error) => {
                                            assert_eq!(error, CallError::Full);
                                            refused += 1;
                                        }
                                        // Room came in between.
                                        Ok(call) => {
                                            calls.push((number, call));
                                            taken += 1;
                                        }
                                    }
                                    upbeat::sleep(Duration::from_millis(1)).await;
                                }
                            }
                            let bytes = taken * len.max(SLOT_BYTES) as u64;
                            assert!(bytes <= BYTES_MAX, "{taken} of {len} bytes");
                            assert!(taken <= PLACES_MAX as u64 + 1, "{taken} of {len} bytes");
                        }
                        // A receiver on another host that stands still grants no memory.
                        let grants = !stalled || !over_network();
                        assert!(!grants || taken >= 16, "{taken} of {len} bytes");
                        // The next message waits for room.
                        let wait = depot.put(taken + 1, bytes_of(taken + 1, len));
                        if !stalled {
                            let nap = upbeat::sleep(Duration::from_millis(50));
                            assert!(first(wait, nap).await.is_err());
                        }
                        stand.open(true);
                        for number in taken + 1..taken + 100 {
                            depot.put(number, bytes_of(number, len)).await.unwrap();
                        }
                        let bytes = bytes_of(3, len);
                        let summed = sum(&bytes);
                        assert_eq!(depot.keep(taken + 100, bytes).await, Ok((taken + 100, summed)));
                        let (began, standing, _, disorder) = depot.state().await.unwrap();
                        assert_eq!((began, standing, disorder), (taken + 100, 0, 0));
                        for (number, call) in calls {
                            let sum = sum(&bytes_of(number, len));
                            assert_eq!(call.await, Ok((number, sum)));
                        }
                        if let Some(stall) = hold {
                            stall.await.unwrap();
                        }
                    });
                }
            }
        }
    });
}
