//! The reason that a peer gives for the end of its session.

use super::raw::send;
use super::room::connect;
use super::{Attacked, watchdog};
use crate::common::{Directory, alone, until};
use std::sync::mpsc::channel;
use upbeat::Waiting;
use upbeat_core::frame::Head;
use upbeat_core::hello::{Record, Refusal, RefusalCode};
use upbeat_core::limits::SLAB_GENERATION;
use upbeat_transport::socket_directory::SocketDirectory;

/// A frame names a segment, which lies in the socket before the refusal. The node looks at the lane first, takes the
/// refusal from the socket with the segment, and finds only the end of the socket later.
#[test]
fn a_refusal_behind_a_segment_that_a_frame_names_is_the_reason_of_the_end() {
    if !crate::common::shares_memory("the peer of this test writes into a shared lane") {
        return;
    }
    let (_alone, _watchdog) = (alone(), watchdog("a refusal behind a segment"));
    let directory = Directory::new();
    let place = directory.path();
    let victim = Attacked::new("victim", &place, Waiting::Adaptive);
    let ((connects, connected), (goes, go)) = (channel(), channel());
    let acts = std::thread::spawn(move || {
        let raw = connect(&SocketDirectory::at(&place).unwrap());
        connects.send(()).unwrap();
        go.recv().unwrap();
        let _slab = raw.hand_over(SLAB_GENERATION, 4096);
        let refusal = Refusal::new(RefusalCode::NoResources, "no more of it");
        send(&raw.socket, &Record::Refusal(refusal).encode(), &[]).unwrap();
        assert!(raw.put(Head::slab(0).words(), &(512_u64 | 8 << 32).to_le_bytes()));
    });
    victim.node.block_on(until(|| connected.try_recv().is_ok() && victim.node.sessions() == 1));
    // This thread drives the node, and waits here until the peer has acted.
    goes.send(()).unwrap();
    acts.join().unwrap();
    victim.settle(0, None);
    let ends = victim.ends.take();
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), [("GivenUp".to_owned(), 1)]);
}
