//! Full nodes that call each other.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::depot::{Make, Stand, bytes_of, serve};
use upbeat::Waiting;

/// Handlers that wait for each other's node hold no room there: all calls come to an end.
#[test]
fn two_full_nodes_that_call_each_other_finish() {
    let _watchdog = Watchdog::new("mutual");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for conservative in [false, true] {
                let make = Make::new(waiting).budget(300).share(300);
                let make = if conservative { make.conservative() } else { make };
                let stand = Stand::new(kind, make, make);
                serve(&stand.node);
                stand.node.block_on(async {
                    let tasks: Vec<_> = (0..16_u64)
                        .map(|task| {
                            let (here, there) = (stand.node.name(), stand.name());
                            let node = stand.node.clone();
                            stand.node.spawn(async move {
                                let depot: crate::depot::DepotClient =
                                    node.connect(&there).await.unwrap();
                                for round in 0..20 {
                                    let len = [8, 300, 3000, 70_000][(task + round) as usize % 4];
                                    let bytes = bytes_of(task, len);
                                    let (from, to) = (here.clone(), there.clone());
                                    let depth = 1 + round % 4;
                                    let bounced = depot.bounce(from, to, depth, bytes).await;
                                    assert_eq!(bounced, Ok(len as u64 + depth));
                                }
                            })
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            }
        }
    }
}
