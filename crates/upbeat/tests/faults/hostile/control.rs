//! Control of channels, sent to handles, which have nothing that it could be about.

use super::{TargetHandle, watchdog};
use crate::common::{Directory, Signal, alone, block_on, shares_memory};
use crate::hostile::server::serve_control;
use std::path::Path;
use upbeat::{CallError, Why};
use upbeat_core::fault::Rule;

/// The codes of control of streams, which end nothing at a handle.
const KNOWN: [u16; 2] = [259, 260];
/// Codes of no channel, of an operation, of a channel beyond those that there are.
const UNKNOWN: [u16; 5] = [0, 3, 257, 261, 0xffff];

/// Ends the server with any outcome of the test.
struct Over(Signal);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.give();
    }
}

fn connected(place: &Path) -> TargetHandle {
    let handle = upbeat::handle::builder().program(crate::common::PROGRAM).directory(place);
    handle.connect("imp").expect("a handle")
}

/// Calls, by a thread that blocks or as a future, for control of this code.
fn ask(target: &TargetHandle, blocks: bool, code: u16, about: u32) -> Result<u64, CallError> {
    let (code, about) = (u64::from(code), u64::from(about));
    match blocks {
        true => target.blocking().add(code, about),
        false => block_on(target.add(code, about)),
    }
}

/// Control about a stream that a handle does not have is passed, and the reply behind it is read. Control that does
/// not exist ends the session alone in which it came: the next call opens another.
#[test]
fn handles_pass_control_of_streams_and_refuse_control_that_does_not_exist() {
    if !shares_memory("the peer of this test writes into shared lanes") {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("control of handles"));
    let directory = Directory::new();
    let place = directory.path();
    let (serving, over) = (Signal::default(), Signal::default());
    std::thread::scope(|scope| {
        scope.spawn(|| serve_control("imp", &place, || serving.give(), || over.given()));
        let _over = Over(over.clone());
        block_on(serving.clone());
        let target = connected(&place);
        for blocks in [true, false] {
            for (code, about) in KNOWN.into_iter().flat_map(|code| [(code, 0), (code, u32::MAX)]) {
                let sum = u64::from(code) + u64::from(about);
                assert_eq!(ask(&target, blocks, code, about), Ok(sum));
            }
            for code in UNKNOWN {
                let Err(CallError::Unknown(lost)) = ask(&target, blocks, code, 0) else {
                    panic!("control of code {code} was accepted, blocking: {blocks}");
                };
                assert_eq!(lost.why, Why::Misbehaved(Rule::UnknownControl { code }));
                assert_eq!(ask(&target, blocks, KNOWN[0], 1), Ok(260));
            }
        }
    });
}
