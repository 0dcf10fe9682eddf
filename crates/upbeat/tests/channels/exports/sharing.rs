//! Imports of a process that share a handle.

use crate::common::process::{Other, say};
use crate::common::{PROGRAM, SOON, block_on, node, over_streams, until};
use crate::exports::memory::{Large, Log, StoreClient, played};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use upbeat::export::ReadError;
use upbeat::{Import, Waiting};

/// The handles of all imports of a process from one node are one: with one thread, one session and one mapping of a segment.
#[test]
fn imports_from_one_node_share_a_session_and_a_mapping() {
    played("shared");
}

/// Returns the threads and mappings that imports have here, and the descriptors of this process and of the owner's.
fn costs(owner: u32) -> [usize; 4] {
    let listed = |path: &str| std::fs::read_dir(path).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let threads = listed("/proc/self/task").filter_map(name);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    [
        threads.filter(|name| name.trim() == "upbeat-handle").count(),
        maps.lines().filter(|line| line.contains("memfd:upbeat-exports")).count(),
        listed("/proc/self/fd").count(),
        listed(&format!("/proc/{owner}/fd")).count(),
    ]
}

pub(crate) fn shared(place: &Path) {
    let reader = node("reader", place, Waiting::Adaptive);
    let mut owner = Other::start("memory store", place);
    owner.expect("serving");
    let store: StoreClient = reader.block_on(reader.connect("store")).unwrap();
    reader.block_on(store.large(Some(7))).unwrap();
    reader.block_on(store.log(1, 1)).unwrap();
    let builder = || upbeat::handle::builder().program(PROGRAM).directory(place);
    let large = || builder().import::<Large>("store/large");
    let log = || builder().connect_within(SOON).import::<Log>("store/log1");
    let pid = owner.child.id();

    // Many that connect at once have one session in the end, and all of them read in memory.
    let imports = block_on(all((0..200).map(|_| Box::pin(large()))));
    let imports: Vec<_> = imports.into_iter().map(Result::unwrap).collect();
    let is_mapped = !over_streams();
    assert!(imports.iter().all(|import| import.index(3).try_read().is_ok() == is_mapped));
    let logs = block_on(log()).unwrap();
    let by_node: Import<Large> = reader.block_on(reader.import("store/large")).unwrap();
    // Behind the node's thread, its import asks by the handle of the others.
    assert_eq!(block_on(by_node.whole().watch().changed()).unwrap()[3], 7);
    reader.block_on(until(|| costs(pid)[0] == 1));
    reader.block_on(until(|| costs(pid)[1] == usize::from(is_mapped)));
    let once = costs(pid);
    let more: Vec<_> =
        (0..50).map(|_| (block_on(large()).unwrap(), block_on(log()).unwrap())).collect();
    // An import that has a deadline opens a session of its own first, and gives it up for the one that stands.
    // The owner may have met the end of the first ones after it was counted.
    reader.block_on(until(|| costs(pid).iter().zip(once).all(|(now, most)| *now <= most)));
    assert_eq!(costs(pid)[0], 1);
    let other = block_on(builder().sampling(3).import::<Large>("store/large")).unwrap();
    assert_eq!(costs(pid)[0], 2, "other settings have a session of their own");
    assert_eq!(costs(pid)[1], once[1]);
    drop(other);

    // Another session takes the place of one that has ended, for all of them.
    owner.kill();
    owner.ended();
    let mut owner = Other::start("memory store", place);
    owner.expect("serving");
    let other = node("reader/2", place, Waiting::Adaptive);
    other.block_on(async {
        let store: StoreClient = other.connect("store").await.unwrap();
        store.large(Some(8)).await.unwrap();
    });
    assert!(block_on(logs.lines().index(0).watch().changed()).is_err());
    for (large, log) in &more {
        assert!(matches!(block_on(log.number().watch().changed()), Err(ReadError::OwnerReplaced)));
        assert!(matches!(block_on(large.whole().watch().changed()), Err(ReadError::OwnerReplaced)));
    }
    let new = block_on(large()).unwrap();
    assert_eq!(block_on(new.index(3).read()), Ok(8));
    reader.block_on(until(|| costs(owner.child.id())[0] == 1));
    drop((imports, logs, by_node, more, new));
    reader.block_on(until(|| costs(owner.child.id())[..2] == [0, 0]));
    owner.end();
    say("done");
}

/// Returns the results of futures that are awaited at once.
async fn all<F: Future + Unpin>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut under_way: Vec<_> = futures.map(|future| (future, None)).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, result) in under_way.iter_mut().filter(|(_, result)| result.is_none()) {
            match Pin::new(future).poll(context) {
                Poll::Ready(ready) => *result = Some(ready),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    under_way.into_iter().filter_map(|(_, result)| result).collect()
}
