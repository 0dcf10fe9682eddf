//! Peers that write and tell nobody.

use super::raw::Raw;
use super::room::{ADD, against, connect};
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_memory::sync::fence_full;

/// More sessions than a node looks at each turn whether or not anything comes.
const SESSIONS: usize = 6;

/// The sender neither rings nor notes its call: the look at all lanes finds it.
#[test]
fn a_message_that_its_sender_does_not_note_is_found() {
    if !crate::common::shares_memory("a board is shared memory") {
        return;
    }
    let (ends, _) = against("lost notes", |place| {
        let sessions: Vec<Raw> = (0..SESSIONS).map(|_| connect(place)).collect();
        sessions.iter().for_each(|raw| raw.add(0));
        // Sessions rest while another one is used.
        let used = connect(place);
        for raw in &sessions {
            while raw.lanes.peer_is_attentive(fence_full()) {
                used.add(0);
            }
        }
        for raw in &sessions {
            let call = CallNumber::new(1, 1);
            assert!(raw.put(Head::call(ADD, call, 16).words(), &[0; 16]));
            while !raw.lanes.has_frame() {
                assert!(!raw.is_over());
                std::thread::yield_now();
            }
            let head = Head::parse(raw.lanes.look().unwrap().unwrap()).unwrap();
            assert_eq!((head.kind, head.call), (Kind::Reply, call));
        }
    });
    assert_eq!(ends.get("Misbehaved"), None, "{ends:?}");
}
