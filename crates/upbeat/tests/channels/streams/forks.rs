//! Forked children that read or drop streams of their parent's.

use crate::common::process::{Other, linger, say};
use crate::common::server::Kind;
use crate::common::{PROGRAM, Watchdog, block_on, node};
use crate::streams::shelf::{ShelfClient, ShelfHandle, Stand};
use std::path::Path;
use upbeat::{CallError, Waiting, Why};
use upbeat_memory::fork::in_child;

const MANY: u64 = 20_000;

/// Plays the part `fork SERVER`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(server) = part.strip_prefix("fork ") else { return false };
    let own = node("forks/parent", place, Waiting::Adaptive);
    let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
    let handle: ShelfHandle = builder.connect(server).unwrap();
    let client: ShelfClient = own.block_on(own.connect(server)).unwrap();
    let mut of_handle = Some(block_on(handle.count(MANY)).unwrap());
    let mut of_node = Some(own.block_on(client.count(MANY)).unwrap());
    assert_eq!(block_on(of_handle.as_mut().unwrap().next()), Some(Ok(0)));
    assert_eq!(own.block_on(of_node.as_mut().unwrap().next()), Some(Ok(0)));
    // The stream is the last that holds the session.
    drop(handle);
    for drops in [false, true] {
        let code = in_child(|| {
            let mut of_handle = of_handle.take().unwrap();
            if !drops {
                // The items that are here come, and then the error.
                let is_end = |item: &Result<u64, CallError>| item.is_err();
                let mut items = std::iter::from_fn(|| block_on(of_handle.next()));
                let Some(Err(error)) = items.find(is_end) else {
                    return 1;
                };
                let (CallError::NotSent(lost) | CallError::Unknown(lost)) = error else { return 2 };
                assert_eq!(lost.why, Why::Forked);
            }
            drop((of_handle, of_node.take()));
            7
        });
        assert_eq!(code, Some(7), "drops: {drops}");
    }
    // The parent has lost nothing.
    let (mut of_handle, mut of_node) = (of_handle.unwrap(), of_node.unwrap());
    for number in 1..MANY {
        assert_eq!(block_on(of_handle.next()), Some(Ok(number)));
        assert_eq!(own.block_on(of_node.next()), Some(Ok(number)));
    }
    assert!(block_on(of_handle.next()).is_none() && own.block_on(of_node.next()).is_none());
    say("done");
    linger();
    true
}

#[test]
fn a_child_that_reads_or_drops_its_parents_streams() {
    let _watchdog = Watchdog::new("forks with streams");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let mut other = Other::start(&format!("fork {}", stand.name), &stand.place);
    other.expect("done");
    other.end();
}
