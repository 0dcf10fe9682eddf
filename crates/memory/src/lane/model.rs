//! Models of attention and notes, of a sender's request for room, and of a lane that grows, in every order that the memory
//! model allows.

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

/// The room that a receiver makes after it has cleared its polling flag.
#[derive(Clone, Copy)]
enum Made {
    Accepted,
    Returned,
}

/// Returns the two sides of a session, the sender first, and the page of the sender.
fn sides() -> (Lanes, Lanes, Region) {
    let (one, other) = (Region::heap(LANE_WORDS), Region::heap(LANE_WORDS));
    let sender = Lanes::new(one.clone(), 0, other.clone(), 0);
    (sender, Lanes::new(other, 0, one, 0), Region::heap(PAGE_WORDS))
}

/// Has a sender request room, and returns whether it sleeps. `has_room` looks for room of this kind.
fn sleeps_without_room(sender: &Lanes, page: Region, made: Made) -> bool {
    let has_room = || match made {
        Made::Accepted => sender.peer_accepted() == 1,
        Made::Returned => sender.peer_returned(0) == 1,
    };
    sender.set_wants_room(true);
    sender.may_sleep(&NodePage::new(page, 1), || {
        if has_room() {
            sender.set_wants_room(false);
        }
    })
}

/// Models a receiver that comes to rest: it clears its polling flag, publishes that it has accepted a request or returned a
/// buffer, and looks whether the sender waits. The fence behind the polling flag comes too early for that look. Panics if
/// the sender sleeps and is not woken.
fn rest_against_sleep(made: Made, fences: bool) {
    loom::model(move || {
        let (sender, receiver, page) = sides();
        let (peer, rests) = (PeerPage::new(page.clone()), Region::heap(PAGE_WORDS));
        let resting = thread::spawn(move || {
            NodePage::new(rests, 2).clear_polling();
            match made {
                Made::Accepted => receiver.publish_accepted(1),
                Made::Returned => receiver.returns_for(0).toggle(0, 1),
            }
            let fenced = if fences { fence_full() } else { FenceProof::left_out() };
            receiver.peer_wants_room() && peer.asleep(fenced).is_some()
        });
        let sleeps = sleeps_without_room(&sender, page, made);
        let rung = resting.join().unwrap();
        assert!(!sleeps || rung, "the sleeper missed room");
    });
}

#[test]
fn a_sender_misses_no_room_that_a_resting_receiver_has_made() {
    rest_against_sleep(Made::Accepted, true);
    rest_against_sleep(Made::Returned, true);
}

#[test]
#[should_panic(expected = "the sleeper missed room")]
fn without_a_fence_behind_what_it_accepts_a_resting_receiver_misses_a_sender() {
    rest_against_sleep(Made::Accepted, false);
}

#[test]
#[should_panic(expected = "the sleeper missed room")]
fn without_a_fence_behind_what_it_returns_a_resting_receiver_misses_a_sender() {
    rest_against_sleep(Made::Returned, false);
}

/// Models a thread that returns a buffer beside the receiver, and wakes a sender that waits and sleeps. Panics if the
/// sender sleeps and is not woken.
fn relief_against_sleep(fences: bool) {
    loom::model(move || {
        let (sender, receiver, page) = sides();
        let (returns, request) = (receiver.returns_for(0), receiver.peer_room_request());
        let peer = PeerPage::new(page.clone());
        let returning = thread::spawn(move || {
            returns.toggle(0, 1);
            let fenced = if fences { fence_full() } else { FenceProof::left_out() };
            request.is_set(fenced) && peer.asleep(fenced).is_some()
        });
        let sleeps = sleeps_without_room(&sender, page, Made::Returned);
        let rung = returning.join().unwrap();
        assert!(!sleeps || rung, "the sleeper missed room");
    });
}

#[test]
fn a_sender_misses_no_buffer_that_a_thread_returns() {
    relief_against_sleep(true);
}

#[test]
#[should_panic(expected = "the sleeper missed room")]
fn without_the_fence_of_the_thread_a_sender_misses_a_buffer() {
    relief_against_sleep(false);
}

/// Models a thread that returns a buffer over a byte stream: it wakes its own node, which sends the news, if the peer
/// waits. The node has read the peer's request from the stream, shows it, and looks for returned buffers before it sleeps.
/// Panics if the node sleeps, was not woken, and has not seen the buffer.
fn relief_over_a_stream(thread_fences: bool, node_fences: bool) {
    loom::model(move || {
        let (replica, lanes, page) = sides();
        let node = NodePage::new(page, 1);
        let (returns, request) = (lanes.returns_for(0), lanes.peer_room_request());
        let (ours, theirs) = (returns.clone(), replica.ours.clone());
        let returning = thread::spawn(move || {
            returns.toggle(0, 1);
            request.is_set(if thread_fences { fence_full() } else { FenceProof::left_out() })
        });
        theirs.publish(WANTS_ROOM, 1);
        if node_fences {
            node.clear_polling();
        } else {
            node.clear_unfenced();
        }
        let seen = ours.load(0) == 1;
        let woken = returning.join().unwrap();
        assert!(seen || woken, "the node missed a buffer");
    });
}

#[test]
fn a_node_misses_no_buffer_that_a_thread_returns() {
    relief_over_a_stream(true, true);
}

#[test]
#[should_panic(expected = "the node missed a buffer")]
fn without_the_fence_of_the_thread_a_node_misses_a_buffer() {
    relief_over_a_stream(false, true);
}

#[test]
#[should_panic(expected = "the node missed a buffer")]
fn without_the_fence_of_the_node_it_misses_a_buffer() {
    relief_over_a_stream(true, false);
}

/// Models a lane that continues in another ring behind its second frame, of two slots again, and goes round once there.
/// Panics if a frame is not received as it was sent. A receiver may show its progress before it has read a frame.
fn growth(shows_early: bool) {
    const SWITCH: u64 = 2;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (sender, receiver, _) = sides();
        let ring = Region::heap(2 * (SLOT / WORD));
        let grown = ring.clone();
        let sending = thread::spawn(move || {
            for number in 1..=5u64 {
                let Ok(claim) = sender.claim(1, 0) else { return number - 1 };
                claim.commit([0x100, number, !number], 0);
                if number == SWITCH {
                    sender.grow_writer(grown.clone());
                }
            }
            5
        });
        let next = std::cell::Cell::new(1);
        let receive = || {
            if shows_early {
                receiver.ours.publish(IN, next.get());
            }
            let Some(head) = receiver.look().unwrap() else { return };
            let number = next.get();
            assert_eq!(head[1..], [number, !number], "a stale or torn frame");
            receiver.reader().advance();
            if number == SWITCH {
                receiver.grow_reader(ring.clone());
            }
            receiver.publish_progress();
            next.set(number + 1);
        };
        (0..4).for_each(|_| receive());
        let sent = sending.join().unwrap();
        (next.get()..=sent).for_each(|_| receive());
        assert_eq!(next.get(), sent + 1, "a lost frame");
    });
}

#[test]
fn a_lane_that_grows_loses_and_tears_no_frame() {
    growth(false);
}

#[test]
#[should_panic(expected = "frame")]
fn a_receiver_that_shows_its_progress_early_loses_a_frame_of_the_next_ring() {
    growth(true);
}
