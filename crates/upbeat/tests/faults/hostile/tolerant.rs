//! Calls in the tolerant form, which a peer may write only where the method was bound so.

use super::room::{against, connect};
use upbeat_core::bill::way::StampMode;
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_core::method::TOLERANT;

#[test]
fn a_peer_does_not_choose_the_form_of_a_call() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    against("a form that was not bound", |place| {
        let raw = connect(place);
        let add = [2_u64, 3].map(u64::to_le_bytes).concat();
        let stamped = Some(StampMode::Whole);
        let calls = [
            (1, None, Kind::Reply),
            (1 | TOLERANT, None, Kind::Failed),
            (1 | TOLERANT, stamped, Kind::Failed),
            (99 | TOLERANT, None, Kind::Failed),
        ];
        for (at, (method, manner, kind)) in calls.into_iter().enumerate() {
            let call = CallNumber::new(at as u32, 1);
            assert!(raw.put(Head::call(method, call, 16).with_manner(manner).words(), &add));
            let head = raw.next().expect("an answer");
            assert_eq!((head.call, head.kind), (call, kind), "method {method:#x}, {manner:?}");
        }
        assert!(!raw.is_over());
    });
}
