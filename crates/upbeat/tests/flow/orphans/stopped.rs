//! Callees that are stopped: what they find when they go on is run only if there is time left for it.

use crate::common::server::Kind;
use crate::common::{SOON, Watchdog, over_network};
use crate::orphans::chain::Stand;
use rustix::process::Signal;
use std::time::Duration;
use upbeat::CallError;

/// So many calls are made while their callee is stopped.
const CALLS: usize = 40;

#[test]
fn a_call_whose_deadline_passed_while_its_callee_was_stopped_never_runs() {
    let _watchdog = Watchdog::new("stopped");
    let mut stand = Stand::new(Kind::Shared, 1);
    let chain = stand.node.block_on(stand.client(0));
    let begun = stand.node.block_on(chain.standing()).unwrap().1;
    stand.servers[0].other().signal(Signal::STOP);
    let honest = stand.node.block_on(async {
        let call = |deadline| {
            let chain = chain.clone();
            stand.node.spawn(async move { chain.reach(vec![], false).deadline(deadline).await })
        };
        let calls: Vec<_> = (0..CALLS).map(|_| call(Duration::from_millis(20))).collect();
        // The short calls lie among calls that have time enough.
        let honest: Vec<_> = (0..CALLS)
            .map(|number| {
                let chain = chain.clone();
                stand.node.spawn(async move { chain.nap(0, number as u64).deadline(SOON).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), Err(CallError::deadline(true)));
        }
        honest
    });
    // A callee at another host knows its caller's clock to half of a round trip, and gives a call the benefit of that.
    if over_network() {
        std::thread::sleep(Duration::from_secs(1));
    }
    stand.servers[0].other().signal(Signal::CONT);
    stand.node.block_on(async {
        for (number, call) in honest.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), Ok(number as u64), "there was time for it");
        }
        // The handlers that have napped stood as well.
        let (stands, ran) = chain.standing().await.unwrap();
        assert_eq!((stands, ran - begun), (0, CALLS as u64), "a call ran that was over");
    });
}
