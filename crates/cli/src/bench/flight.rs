//! Rounds of many concurrent calls, and of messages in bursts, from one node.

use crate::bench::echo::EchoClient;
use crate::bench::error::BenchError;
use crate::bench::hosts::Caller;
use crate::bench::timing::{Laps, Round, Work};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat::error::Called;
use upbeat::{CallError, Node};

/// The number of calls that are open at any time.
pub const CALLS: usize = 64;
/// The number of calls in a batch.
pub const BURST: u32 = 2048;

/// The state of a round, which the calling tasks share.
struct Flight {
    laps: RefCell<Laps>,
    /// The number of calls of this lap that have not ended.
    left: Cell<u32>,
    over: Cell<bool>,
}

impl Flight {
    /// Counts a call that has ended.
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

/// Keeps [`CALLS`] of these calls open until the round is over.
pub async fn fly(
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
            Err(ended) => {
                return Err(CallError::NotConnected {
                    text: ended.to_string().into(),
                    called: Called::default(),
                });
            }
        }
    }
    Ok(match Rc::try_unwrap(flight) {
        Ok(flight) => flight.laps.into_inner().round(),
        Err(_) => unreachable!("all tasks have ended"),
    })
}

/// Sends bursts of messages, each followed by a call that checks whether all messages have arrived.
pub fn burst(
    sender: &Caller,
    work: Work,
    send: impl AsyncFn(&EchoClient, u64) -> Result<(), CallError>,
) -> Result<Round, BenchError> {
    let (round, lost) = sender.round(async |client| {
        let mut expected = client.hits().await?;
        let mut lost = 0;
        let mut laps = work.laps();
        for messages in laps.by_ref() {
            for n in 0..u64::from(messages) {
                send(client, n).await?;
            }
            expected += u64::from(messages);
            lost += expected.abs_diff(client.hits().await?);
        }
        Ok((laps.round(), lost))
    })?;
    match lost {
        0 => Ok(round),
        lost => Err(BenchError::Runtime {
            act: "sending one-way messages",
            text: format!("{lost} of them were not there when the next call was answered"),
        }),
    }
}

/// Does bursts, each of which is a stream whose items must all arrive.
pub fn streams(
    caller: &Caller,
    work: Work,
    count: impl AsyncFn(&EchoClient, u64) -> Result<u64, CallError>,
) -> Result<Round, BenchError> {
    let (round, lost) = caller.round(async |client| {
        let (mut laps, mut lost) = (work.laps(), 0);
        for items in laps.by_ref() {
            lost += u64::from(items).abs_diff(count(client, u64::from(items)).await?);
        }
        Ok((laps.round(), lost))
    })?;
    match lost {
        0 => Ok(round),
        lost => Err(BenchError::protocol(format!("{lost} items of streams have not come"))),
    }
}
