//! Names of hosts that nobody answers for.

use crate::common::left_out::leave_out;
use crate::common::{PROGRAM, Watchdog, block_on};
use crate::networks::ledger::LedgerHandle;
use crate::networks::namespaces::with_network;
use std::time::{Duration, Instant};
use upbeat::CallError;
use upbeat::error::ConnectError;
use upbeat::handle::HandleError;

/// The resolver of the system asks silent servers for longer than this.
const AT_MOST: Duration = Duration::from_secs(3);

#[test]
fn a_handle_waits_for_the_address_of_a_host_until_its_deadline() {
    let _watchdog = Watchdog::new("a silent resolver");
    let test = "lookups::a_handle_waits_for_the_address_of_a_host_until_its_deadline";
    with_network(test, |network| {
        network.part(true);
        network.near.enter();
        for awaits in [false, true] {
            let builder = upbeat::handle::builder().program(PROGRAM).insecure_plaintext();
            let builder = builder.connect_within(Duration::from_millis(500));
            let (to, begun) = ("server@nowhere.invalid:4242", Instant::now());
            let connected = match awaits {
                false => builder.connect::<LedgerHandle>(to),
                true => block_on(builder.connect_async::<LedgerHandle>(to)),
            };
            let (took, error) = (begun.elapsed(), connected.err().expect("there is no such host"));
            if let HandleError::Connect(ConnectError::Open(_)) = error {
                leave_out(&format!("the resolver of this machine is not silent: {error}"));
                continue;
            }
            let is_late =
                matches!(error, HandleError::Connect(ConnectError::Call(CallError::Deadline(_))));
            assert!(is_late && took < AT_MOST, "after {took:?}: {error:?}");
        }
    });
}
