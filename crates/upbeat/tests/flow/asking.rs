//! Requests of handles that ask for room after they have stood in line.

use crate::common::server::KINDS;
use crate::common::{Watchdog, block_on};
use crate::depot::{DepotHandle, Make, Stand, bytes_of};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use upbeat::{CallError, Counter, Waiting, Wire};
use upbeat_core::limits::{OPTIMISM, PLACES_MAX};

/// As many messages are accepted and wait, or are on their way, as a session may have without asking.
const FIRST: u64 = PLACES_MAX as u64;

/// A message that stands in line because no place is free finds fewer free places than messages may take without
/// asking, and asks. It goes, and so do those behind it.
#[test]
fn a_message_that_has_stood_in_line_asks_for_room() {
    let _watchdog = Watchdog::new("asking");
    for kind in KINDS {
        for is_awaited in [false, true] {
            let make = Make::new(Waiting::Adaptive);
            let stand = Stand::new(kind, make.share(1), make);
            let name = stand.name();
            let handle: DepotHandle = upbeat::handle::builder()
                .program(crate::common::PROGRAM)
                .directory(&stand.place)
                .connect(&name)
                .unwrap();
            let sends = thread::spawn(move || {
                let long = || bytes_of(FIRST + 2, 200);
                if is_awaited {
                    return block_on(async {
                        for number in 1..=FIRST + 1 {
                            handle.put(number, vec![]).await?;
                        }
                        handle.put(FIRST + 2, long()).await?;
                        handle.put(FIRST + 3, vec![]).await
                    });
                }
                let blocking = handle.blocking().deadline(Duration::from_secs(20));
                for number in 1..=FIRST + 1 {
                    blocking.put(number, vec![])?;
                }
                blocking.put(FIRST + 2, long())?;
                blocking.put(FIRST + 3, vec![])
            });
            // One message stands at the gate; the others fill all places.
            stand.node.block_on(async { stand.settled().await });
            assert!(OPTIMISM < FIRST as usize);
            stand.ask(|depot| depot.blocking().pass(20).unwrap());
            stand.node.block_on(async { stand.settled().await });
            stand.open(true);
            sends.join().unwrap().unwrap();
            let begun = || stand.state().0;
            stand.node.block_on(crate::common::until(|| begun() == FIRST + 3));
            assert_eq!(stand.state().3, 0, "out of order");
        }
    }
}

/// A context that makes a message longer.
#[derive(Serialize, Deserialize, Wire)]
struct Luggage(Vec<u8>);

impl upbeat::Context for Luggage {
    const KEY: &'static str = "luggage";
}

/// Sends what was begun elsewhere, with the context of its own call.
#[upbeat::service]
trait Carrier {
    async fn carry(&self);
}

type Begun = Pin<Box<dyn Future<Output = Result<(u64, u64), CallError>>>>;

#[derive(Default)]
struct Carriers(RefCell<Option<Begun>>);

impl Carrier for Carriers {
    async fn carry(&self) {
        let begun = self.0.take().unwrap();
        assert_eq!(begun.await, Ok((1, 5000)));
    }
}

/// A call has asked for room, and is longer when it has got it: it asks again, and its session goes on.
#[test]
fn a_message_that_has_grown_since_it_asked_asks_again() {
    let _watchdog = Watchdog::new("grown");
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make, make.conservative());
        stand.open(true);
        let carriers = Rc::<Carriers>::default();
        stand.node.serve(CarrierServer::shared(Rc::clone(&carriers))).unwrap();
        stand.node.block_on(async {
            let depot = stand.client().await;
            let mut call: Begun = Box::pin(async move { depot.keep(1, vec![1; 5000]).await });
            let before = stand.node.counted(Counter::RoomAsked);
            assert!(upbeat::within(Duration::ZERO, call.as_mut()).await.is_err());
            assert_eq!(stand.node.counted(Counter::RoomAsked) - before, 1);
            carriers.0.replace(Some(call));
            let name = stand.node.name();
            let own: CarrierClient = stand.node.connect(&name).await.unwrap();
            own.carry().with(&Luggage(vec![1; 2000])).await.unwrap();
            // So does the call with the luggage.
            assert_eq!(stand.node.counted(Counter::RoomAsked) - before, 3);
        });
        assert_eq!(stand.state().0, 1);
    }
}
