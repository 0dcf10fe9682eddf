//! Tests of the board, from the side of the sweeping node and of the peers.

use super::*;
use std::collections::BTreeSet;

fn swept(board: &Board, sessions: usize) -> Vec<usize> {
    let mut noted = Vec::new();
    board.sweep(sessions, |session| noted.push(session));
    noted
}

#[test]
fn each_note_is_swept_once() {
    let region = Region::heap(FIRST / WORD + 4);
    let board = Board::new(region.clone());
    assert!(!board.is_marked());
    let noted = BTreeSet::from([0, 7, 8, 21, 31]);
    for session in &noted {
        Note::new(region.clone(), *session).mark();
        Note::new(region.clone(), *session).mark();
    }
    assert!(board.is_marked());
    assert!(swept(&board, usize::MAX).into_iter().eq(noted));
    assert!(!board.is_marked());
    assert!(swept(&board, usize::MAX).is_empty());
}

#[test]
fn a_sweep_skips_notes_of_sessions_beyond_its_limit() {
    let region = Region::heap(FIRST / WORD + 2);
    let board = Board::new(region.clone());
    for session in [8, 9, 10] {
        Note::new(region.clone(), session).mark();
    }
    assert_eq!(swept(&board, 9), [8]);
    // The notes of the other sessions stay until a sweep includes these.
    assert_eq!(swept(&board, 10), [9]);
    assert_eq!(swept(&board, 0), []);
    assert_eq!(swept(&board, 1000), [10]);
}

#[test]
fn a_board_may_hold_anything() {
    let region = Region::heap(FIRST / WORD + 2);
    (0..region.words()).for_each(|word| region.store(word, u64::MAX));
    let board = Board::new(region);
    assert!(board.is_marked());
    assert!(swept(&board, usize::MAX).into_iter().eq(0..16));
    assert!(!board.is_marked());
}

#[test]
#[should_panic(expected = "session 16")]
fn a_note_for_a_session_out_of_range_panics() {
    let _ = Note::new(Region::heap(FIRST / WORD + 2), 16);
}

#[test]
fn notes_of_many_threads_are_all_found() {
    let region = Region::heap(FIRST / WORD + 2);
    let board = Board::new(region.clone());
    let rounds = if cfg!(miri) { 10 } else { 10_000 };
    let written: [_; 4] = std::array::from_fn(|_| std::sync::atomic::AtomicU64::new(0));
    let mut read = [0; 4];
    std::thread::scope(|scope| {
        for (session, word) in written.iter().enumerate() {
            let note = Note::new(region.clone(), session * 5);
            scope.spawn(move || {
                for round in 1..=rounds {
                    word.store(round, std::sync::atomic::Ordering::Relaxed);
                    note.mark();
                    if round % 8 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        while read != [rounds; 4] {
            if board.is_marked() {
                board.sweep(16, |session| {
                    let word = written[session / 5].load(std::sync::atomic::Ordering::Relaxed);
                    assert!(word >= read[session / 5]);
                    read[session / 5] = word;
                });
            }
            std::thread::yield_now();
        }
    });
    assert!(!board.is_marked() || swept(&board, 16).len() <= 4);
}
