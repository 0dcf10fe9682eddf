//! Many calls at once, from one node.

use crate::bench::echo::EchoClient;
use crate::bench::timing::{Laps, Round, Work};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat::{CallError, Node};

/// Calls that are open at any time.
pub(super) const CALLS: usize = 64;
/// Calls in a batch.
pub(super) const BURST: u32 = 2048;

/// The round, as the tasks that call share it.
struct Flight {
    laps: RefCell<Laps>,
    /// Calls that are still to end in this lap.
    left: Cell<u32>,
    over: Cell<bool>,
}

impl Flight {
    /// A call has ended.
    fn landed(&self) {
        match self.left.get() {
            0 | 1 => match self.laps.borrow_mut().next() {
                Some(calls) => self.left.set(calls),
                None => self.over.set(true),
            },
            left => self.left.set(left - 1),
        }
    }
}

/// Keeps so many calls open until the round is over.
pub(super) async fn calls(
    node: &Node,
    client: &EchoClient,
    work: Work,
) -> Result<Round, CallError> {
    let client = client.clone();
    fly(node, work, async move || client.null().await).await
}

/// Keeps so many of these calls open until the round is over.
pub(crate) async fn fly(
    node: &Node,
    work: Work,
    call: impl AsyncFn() -> Result<(), CallError> + Clone + 'static,
) -> Result<Round, CallError> {
    let mut laps = work.laps();
    let left = Cell::new(laps.next().unwrap_or(0));
    let flight = Rc::new(Flight { laps: RefCell::new(laps), left, over: Cell::new(false) });
    let caller = |_| {
        let (call, flight) = (call.clone(), Rc::clone(&flight));
        node.spawn(async move {
            while !flight.over.get() {
                call().await?;
                if !flight.over.get() {
                    flight.landed();
                }
            }
            Ok::<(), CallError>(())
        })
    };
    let callers: Vec<_> = (0..CALLS).map(caller).collect();
    for caller in callers {
        match caller.await {
            Ok(done) => done?,
            Err(ended) => return Err(CallError::NotConnected { text: ended.to_string().into() }),
        }
    }
    Ok(match Rc::try_unwrap(flight) {
        Ok(flight) => flight.laps.into_inner().round(),
        Err(_) => unreachable!("all tasks have ended"),
    })
}
