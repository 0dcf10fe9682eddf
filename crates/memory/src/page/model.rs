//! The contract between a sender and a sleeper, in every order that the memory model allows.

use super::*;
use crate::region::WORD;
use crate::ring::{Reader, SLOT, Writer};
use crate::sync::Ordering;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// Sends one message to a node that is about to sleep, with or without either side's fence.
/// Panics if the node sleeps and nobody has rung.
fn contract(sender_fences: bool, sleeper_fences: bool) {
    loom::model(move || {
        let (lane, page) = (Region::heap(2 * SLOT / WORD), Region::heap(PAGE_WORDS));
        let (writer, reader) = (Writer::new(lane.clone(), 0), Reader::new(lane, 0));
        let (node, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        let bell = Arc::new(AtomicBool::new(false));
        let rung = Arc::clone(&bell);
        let sender = thread::spawn(move || {
            writer.claim(1, 0, || 0).unwrap().commit([0x100, 0, 0], 0);
            if sender_fences {
                fence_full();
            }
            if peer.asleep().is_some() {
                rung.store(true, Ordering::Relaxed);
            }
        });
        node.take_back();
        if sleeper_fences {
            fence_full();
        }
        let sleeps = reader.look().unwrap().is_none();
        sender.join().unwrap();
        assert!(!sleeps || bell.load(Ordering::Relaxed), "slept over a message");
    });
}

#[test]
fn no_message_is_slept_over() {
    contract(true, true);
}

#[test]
#[should_panic(expected = "slept over a message")]
fn without_the_senders_fence_one_is() {
    contract(false, true);
}

#[test]
#[should_panic(expected = "slept over a message")]
fn without_the_sleepers_fence_one_is() {
    contract(true, false);
}

#[test]
fn a_sender_that_has_rung_sees_the_next_sleep() {
    loom::model(|| {
        let page = Region::heap(PAGE_WORDS);
        let (node, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        let sleeper = thread::spawn(move || {
            for _ in 0..2 {
                node.withdraw();
                node.promise();
            }
        });
        let sleeps = [peer.asleep(), peer.asleep()];
        if let [Some(first), Some(second)] = sleeps {
            assert!(first <= second && [2, 4].contains(&first) && [2, 4].contains(&second));
        }
        sleeper.join().unwrap();
        assert_eq!(peer.asleep(), None);
    });
}
