//! Forked children: what they do with a node of their parent's is refused or does nothing, and the
//! parent goes on.

use crate::common::process::{Other, linger, say};
use crate::common::server::{Kind, Stand};
use crate::common::work::WorkClient;
use crate::common::{Watchdog, node};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use upbeat::{Node, Waiting};
use upbeat_memory::fork::in_child;

/// The message of a panic.
fn refused(act: impl FnOnce()) -> bool {
    let panic = catch_unwind(AssertUnwindSafe(act)).err();
    let text = panic.and_then(|panic| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.is_some_and(|text| text.contains("forked child"))
}

/// Plays the part `fork SERVER`, in one thread. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(server) = part.strip_prefix("fork ") else { return false };
    let own = node(&format!("{server}/parent"), place, Waiting::Adaptive);
    let work: WorkClient = own.block_on(own.connect(server)).unwrap();
    let asked = work.clone();
    let mut open = Some(Box::pin(asked.nap(1, 5)));
    own.block_on(async {
        // It is sent, and not answered.
        let _ = upbeat::within(std::time::Duration::ZERO, open.as_mut().unwrap().as_mut()).await;
    });
    let (mut held, mut client) = (Some(own), Some(work));
    for drops in [false, true] {
        let code = in_child(|| {
            let (node, work) = (held.take().unwrap(), client.take().unwrap());
            if drops {
                drop((open.take(), work, node));
            } else {
                assert!(refused(|| node.block_on(async {})));
                assert!(refused(|| assert!(!node.turn())));
                assert!(refused(|| assert_eq!(node.block_on(work.add(1, 1)), Ok(2))));
                assert!(refused(|| node.shut_down(std::time::Duration::ZERO)));
                assert!(node.may_wait());
            }
            // It may have nodes of its own.
            let name = format!("{server}/child-{drops}");
            let node: Node = crate::common::node(&name, place, Waiting::Adaptive);
            let work: WorkClient = node.block_on(node.connect(server)).unwrap();
            assert_eq!(node.block_on(work.add(2, 3)), Ok(5));
            7
        });
        assert_eq!(code, Some(7), "drops: {drops}");
    }
    // The parent has lost nothing.
    let (own, work) = (held.unwrap(), client.unwrap());
    assert_eq!(own.block_on(open.unwrap()), Ok(5));
    assert_eq!(own.block_on(work.add(3, 4)), Ok(7));
    drop(own);
    say("done");
    linger();
    true
}

#[test]
fn a_child_that_uses_or_drops_its_parents_node() {
    let _watchdog = Watchdog::new("forks", 60);
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let mut other = Other::start(&format!("fork {}", stand.name()), &stand.place);
    other.expect("done");
    other.end();
}
