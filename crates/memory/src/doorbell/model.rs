//! Models of a sender against a receiver that falls asleep, in every order that the memory model
//! allows.

use super::*;
use crate::board::{Board, Note};
use crate::lane::HEAD_LINES;
use crate::page::{NodePage, PAGE_WORDS};
use crate::region::{Region, WORD};
use crate::ring::SLOT;
use crate::sync::{Ordering, fence_full};
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// The words of a lane: a header and a ring of two slots.
const LANE_WORDS: usize = HEAD_LINES * 8 + 2 * (SLOT / WORD);
/// The words of a board: the line with the flag, and the bytes of one word.
const BOARD_WORDS: usize = 9;

/// The fences that are executed.
#[derive(Clone, Copy)]
struct Fences {
    sender: bool,
    sleeper: bool,
}

const BOTH: Fences = Fences { sender: true, sleeper: true };

/// Models a sender that writes one message and announces it to a receiver that falls asleep. An
/// attentive receiver polls the lane before it sleeps; another receiver looks only at its board.
/// Panics if the receiver sleeps and the sender has not rung.
fn message_against_sleep(fences: Fences, attentive: bool) {
    loom::model(move || {
        let lane = || Region::heap(LANE_WORDS);
        let (one, other, notes) = (lane(), lane(), Region::heap(BOARD_WORDS));
        let page = Region::heap(PAGE_WORDS);
        let receiver = Lanes::new(one.clone(), 0, other.clone(), 0);
        let sender = Lanes::new(other, 0, one, 0);
        let (board, note) = (Board::new(notes.clone()), Note::new(notes, 0));
        let (node, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        receiver.set_attention(attentive);
        let bell = Arc::new(AtomicBool::new(false));
        let rung = Arc::clone(&bell);
        let sending = thread::spawn(move || {
            sender.claim(1, 0).unwrap().commit([0x100, 0, 0], 0);
            let fenced = if fences.sender { fence_full() } else { FenceProof::left_out() };
            if announce(&sender, &peer, fenced, || note.mark()).is_some() {
                rung.store(true, Ordering::Relaxed);
            }
        });
        if fences.sleeper {
            node.clear_polling();
        } else {
            node.clear_unfenced();
        }
        let came = board.is_marked() || (attentive && receiver.has_frame());
        sending.join().unwrap();
        assert!(came || bell.load(Ordering::Relaxed), "the sleeper missed a message");
    });
}

#[test]
fn a_sleeper_misses_no_message() {
    message_against_sleep(BOTH, true);
}

#[test]
#[should_panic(expected = "the sleeper missed a message")]
fn without_the_senders_fence_a_sleeper_misses_a_message() {
    message_against_sleep(Fences { sender: false, ..BOTH }, true);
}

#[test]
#[should_panic(expected = "the sleeper missed a message")]
fn without_the_sleepers_fence_it_misses_a_message() {
    message_against_sleep(Fences { sleeper: false, ..BOTH }, true);
}

#[test]
fn a_sleeper_misses_no_note() {
    message_against_sleep(BOTH, false);
}

/// The note executes the fence between the note and the read of the polling flag.
#[test]
fn a_note_has_its_own_fence() {
    message_against_sleep(Fences { sender: false, ..BOTH }, false);
}

#[test]
#[should_panic(expected = "the sleeper missed a message")]
fn without_the_sleepers_fence_it_misses_a_note() {
    message_against_sleep(Fences { sleeper: false, ..BOTH }, false);
}

/// Models a future that polls for the reply of its call and then leaves the session to a thread that sleeps until the
/// doorbell rings, while the peer replies to so many calls. `awaits` says, by the number of open calls, what the future
/// takes the session to await. Panics if a call is open, its reply is here or comes, and the peer has not rung since.
fn replies_against_leaving(calls: u32, awaits: fn(u32) -> bool) {
    loom::model(move || {
        let lane = || Region::heap(LANE_WORDS);
        let (one, other, page) = (lane(), lane(), Region::heap(PAGE_WORDS));
        let receiver = Lanes::new(one.clone(), 0, other.clone(), 0);
        let sender = Lanes::new(other, 0, one, 0);
        let (node, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        node.set_polling();
        let replying = thread::spawn(move || {
            let mut rings = 0;
            for _ in 0..calls {
                sender.claim(1, 0).unwrap().commit([0x100, 0, 0], 0);
                rings += u32::from(announce(&sender, &peer, fence_full(), || ()).is_some());
            }
            rings
        });
        let mut open = calls;
        let drain = |open: &mut u32| {
            while receiver.look().unwrap().is_some() {
                receiver.reader().advance();
                *open -= 1;
            }
        };
        drain(&mut open);
        if open == calls {
            // Its reply is not here, so the future goes on to poll.
            replying.join().unwrap();
            return;
        }
        while !may_leave(&node, awaits(open)) && !receiver.may_sleep(&node, || ()) {
            drain(&mut open);
        }
        let rings = replying.join().unwrap();
        assert!(open == 0 || rings > 0, "the sleeper missed a reply");
        drain(&mut open);
        assert_eq!(open, 0, "a reply was lost");
    });
}

#[test]
fn a_future_leaves_no_open_call_behind_a_sleeper() {
    replies_against_leaving(1, |open| open > 0);
    replies_against_leaving(2, |open| open > 0);
}

#[test]
#[should_panic(expected = "the sleeper missed a reply")]
fn a_future_that_rests_although_a_call_is_open_leaves_it_behind_a_sleeper() {
    replies_against_leaving(2, |_| false);
}
