//! Models of attention and notes, and of a sender's request for room, in every order that the memory model allows.

use super::*;
use crate::board::{Board, Note};
use crate::page::{PAGE_WORDS, PeerPage};
use crate::region::{Region, WORD};
use crate::sync::Ordering;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// A header and a ring of two slots.
const LANE_WORDS: usize = HEAD_LINES * LINE_WORDS + 2 * (SLOT / WORD);

/// Models a peer that writes and reads the attention flag, while this side clears its attention flag and polls
/// once more. Panics if the message is neither seen nor noted.
fn message_against_attention(sender_fences: bool, reader_fences: bool) {
    loom::model(move || {
        let (one, other, page) =
            (Region::heap(LANE_WORDS), Region::heap(LANE_WORDS), Region::heap(9));
        let ours = Lanes::new(one.clone(), 0, other.clone(), 0);
        let theirs = Lanes::new(other, 0, one, 0);
        let (board, note) = (Board::new(page.clone()), Note::new(page, 0));
        let sender = thread::spawn(move || {
            theirs.claim(1, 0).unwrap().commit([0x100, 0, 0], 0);
            let fenced = if sender_fences { fence_full() } else { FenceProof::left_out() };
            if !theirs.peer_is_attentive(fenced) {
                note.mark();
            }
        });
        if reader_fences {
            ours.set_attention(false);
        } else {
            ours.ours.publish(ATTENTION, 0);
        }
        let mut seen = ours.look().unwrap().is_some();
        sender.join().unwrap();
        if board.is_marked() {
            board.sweep(1, |_| seen |= ours.look().unwrap().is_some());
        }
        assert!(seen, "a message was neither seen nor noted");
    });
}

#[test]
fn a_message_is_seen_or_noted() {
    message_against_attention(true, true);
}

#[test]
#[should_panic(expected = "neither seen nor noted")]
fn without_the_senders_fence_a_message_may_be_missed() {
    message_against_attention(false, true);
}

#[test]
#[should_panic(expected = "neither seen nor noted")]
fn without_the_readers_fence_a_message_may_be_missed() {
    message_against_attention(true, false);
}

/// Models a sender with a full lane that requests room, checks again and sleeps, while the receiver reads
/// everything and wakes a sleeper whose request it sees. Panics if the sender sleeps and is not woken.
fn room_against_sleep(sleeper_checks: bool, receiver_fences: bool) {
    loom::model(move || {
        let (one, other, page) =
            (Region::heap(LANE_WORDS), Region::heap(LANE_WORDS), Region::heap(PAGE_WORDS));
        let sender = Lanes::new(one.clone(), 0, other.clone(), 0);
        let receiver = Lanes::new(other, 0, one, 0);
        let (own, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        let bell = Arc::new(AtomicBool::new(false));
        let rung = Arc::clone(&bell);
        while let Ok(claim) = sender.claim(1, 0) {
            claim.commit([0x100, 0, 0], 0);
        }
        let reader = thread::spawn(move || {
            while receiver.look().unwrap().is_some() {
                receiver.reader().advance();
            }
            receiver.publish_progress();
            let fenced = if receiver_fences { fence_full() } else { FenceProof::left_out() };
            if receiver.peer_wants_room() && peer.asleep(fenced).is_some() {
                rung.store(true, Ordering::Relaxed);
            }
        });
        sender.set_wants_room(true);
        let settle = || {
            if sender.wants_room() && sender.claim(1, 0).is_ok() {
                sender.set_wants_room(false);
            }
        };
        settle();
        let mut sleeps = sender.wants_room();
        if sleeps && sleeper_checks {
            sleeps = sender.may_sleep(&own, settle);
        } else if sleeps {
            own.clear_polling();
            settle();
            sleeps = !sender.has_frame();
        }
        reader.join().unwrap();
        assert!(!sleeps || bell.load(Ordering::Relaxed), "the sleeper missed room");
    });
}

#[test]
fn a_sleeper_misses_no_room() {
    room_against_sleep(true, true);
}

#[test]
#[should_panic(expected = "the sleeper missed room")]
fn a_sender_that_sleeps_without_a_request_may_miss_room() {
    room_against_sleep(false, true);
}

#[test]
#[should_panic(expected = "the sleeper missed room")]
fn without_the_receivers_fence_a_sleeper_may_miss_room() {
    room_against_sleep(true, false);
}
