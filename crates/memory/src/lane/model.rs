//! Attention and note, in every order that the memory model allows.

use super::*;
use crate::board::{Board, Note};
use crate::region::{Region, WORD};
use loom::thread;

/// A head and a ring of two slots.
const LANE_WORDS: usize = HEAD_LINES * LINE_WORDS + 2 * (SLOT / WORD);

/// A peer writes and asks whether we look at the lane, while we say that we look no longer and
/// look once more. Panics if the message is neither seen nor noted.
fn message_against_attention(sender_fences: bool, reader_fences: bool) {
    loom::model(move || {
        let (one, other, page) =
            (Region::heap(LANE_WORDS), Region::heap(LANE_WORDS), Region::heap(9));
        let ours = Lanes::new(one.clone(), 0, other.clone(), 0);
        let theirs = Lanes::new(other, 0, one, 0);
        let (board, note) = (Board::new(page.clone()), Note::new(page, 0));
        let sender = thread::spawn(move || {
            theirs.claim(1, 0).unwrap().commit([0x100, 0, 0], 0);
            if sender_fences {
                fence_full();
            }
            if !theirs.peer_is_attentive() {
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
fn without_the_senders_fence_it_may_be_neither() {
    message_against_attention(false, true);
}

#[test]
#[should_panic(expected = "neither seen nor noted")]
fn without_the_readers_fence_it_may_be_neither() {
    message_against_attention(true, false);
}
