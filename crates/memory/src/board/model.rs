//! Models of notes and sweeps, in every order that the memory model allows.

use super::*;
use loom::thread;

/// The board has the bytes of one word, and the lane is one word of another region.
const BOARD_WORDS: usize = FIRST / WORD + 1;
const SESSION: usize = 1;
/// The session of a second peer.
const OTHER: usize = 2;

/// How a sweep clears a note.
#[derive(Clone, Copy)]
enum Sweep {
    /// The sweep uses an exchange, as [`Board::sweep`] does.
    Takes,
    /// The sweep uses a plain store, which may still be under way when the lane is polled.
    Stores,
}

/// Models a reader that sweeps an old note away while a peer writes to the lane and notes it again.
/// Panics if, in the end, the message was neither seen nor is noted.
fn sweep_against_note(sweep: Sweep) {
    loom::model(move || {
        let (region, lane) = (Region::heap(BOARD_WORDS), Region::heap(1));
        let (board, note) = (Board::new(region.clone()), Note::new(region.clone(), SESSION));
        note.mark();
        let written = lane.clone();
        let sender = thread::spawn(move || {
            written.store(0, 1);
            note.mark();
        });
        let mut seen = false;
        match sweep {
            Sweep::Takes => board.sweep(8, |session| {
                assert_eq!(session, SESSION);
                seen |= lane.load(0) == 1;
            }),
            Sweep::Stores => {
                region.store(SUMMARY, 0);
                fence_full();
                if region.load_bytes(FIRST / WORD)[SESSION] != 0 {
                    region.store(FIRST / WORD, 0);
                    seen |= lane.load(0) == 1;
                }
            }
        }
        sender.join().unwrap();
        if !seen && board.is_marked() {
            board.sweep(8, |_| seen |= lane.load(0) == 1);
        }
        assert!(seen, "a note was lost");
    });
}

#[test]
fn a_note_that_comes_while_the_board_is_swept_is_not_lost() {
    sweep_against_note(Sweep::Takes);
}

#[test]
#[should_panic(expected = "a note was lost")]
fn a_sweep_by_plain_stores_loses_a_note() {
    sweep_against_note(Sweep::Stores);
}

/// Models a peer that writes, notes and reads the polling flag while the reader clears its polling
/// flag, looks only at its board, and sleeps. Panics if the reader sleeps and misses the message.
fn note_against_sleep(noter_fences: bool, sleeper_fences: bool) {
    loom::model(move || {
        let (region, words) = (Region::heap(BOARD_WORDS), Region::heap(2));
        let (board, note) = (Board::new(region.clone()), Note::new(region, SESSION));
        let shared = words.clone();
        let sender = thread::spawn(move || {
            shared.store(0, 1);
            note.set();
            if noter_fences {
                fence_full();
            }
            shared.load(1) == 1
        });
        words.publish(1, 1);
        if sleeper_fences {
            fence_full();
        }
        let mut seen = false;
        if board.is_marked() {
            board.sweep(8, |_| seen |= words.load(0) == 1);
        }
        let rung = sender.join().unwrap();
        assert!(seen || rung || board.is_marked(), "a note was lost");
        assert!(seen || rung, "the sleeper missed a note");
    });
}

#[test]
fn a_sleeper_misses_no_note() {
    note_against_sleep(true, true);
}

#[test]
#[should_panic(expected = "the sleeper missed a note")]
fn without_the_noters_fence_a_sleeper_misses_a_note() {
    note_against_sleep(false, true);
}

#[test]
#[should_panic(expected = "the sleeper missed a note")]
fn without_the_sleepers_fence_it_misses_a_note() {
    note_against_sleep(true, false);
}

/// Models two peers that write to their lanes and note them, and a reader that sweeps the board once meanwhile. Panics
/// if, in the end, a message was neither seen nor is noted. The second peer may set the flag by a plain store, which
/// ends the order that the first peer's flag gave.
fn two_notes_against_sweep(stores: bool) {
    loom::model(move || {
        let (region, lanes) = (Region::heap(BOARD_WORDS), Region::heap(2));
        let board = Board::new(region.clone());
        let peers = [(SESSION, false), (OTHER, stores)].map(|(session, stores)| {
            let (note, lane, region) =
                (Note::new(region.clone(), session), lanes.part(session - 1, 1), region.clone());
            thread::spawn(move || {
                lane.store(0, 1);
                if stores {
                    fence(Ordering::Release);
                    region.store_byte(FIRST + session, 1);
                    region.publish(SUMMARY, 1);
                } else {
                    note.set();
                }
            })
        });
        let mut seen = [false; 2];
        let mut sweep = || {
            if board.is_marked() {
                board.sweep(8, |session| seen[session - 1] |= lanes.load(session - 1) == 1);
            }
        };
        sweep();
        peers.into_iter().for_each(|peer| peer.join().unwrap());
        sweep();
        assert_eq!(seen, [true; 2], "a note was lost");
    });
}

#[test]
fn notes_of_two_peers_are_not_lost() {
    two_notes_against_sweep(false);
}

#[test]
#[should_panic(expected = "a note was lost")]
fn a_flag_that_is_stored_loses_the_note_of_another_peer() {
    two_notes_against_sweep(true);
}
