use super::*;
use alloc::vec::Vec;
use std::string::String;

const PAGE: usize = 512;
const THRIFT: Thrift = Thrift { least: 8 << 10, slack: 64 << 10 };

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// An owner's exports, each with its room, and all rooms that readers may look at.
struct Owner {
    rooms: Rooms<()>,
    exports: Vec<(Room, bool)>,
    lent: Vec<Room>,
    moves: usize,
}

impl Owner {
    fn new(thrift: Thrift) -> Owner {
        Owner { rooms: Rooms::new(thrift), exports: Vec::new(), lent: Vec::new(), moves: 0 }
    }

    fn add(&mut self, words: usize) {
        self.rooms.add(words.next_multiple_of(PAGE), ());
    }

    fn room(&mut self, words: usize) -> Room {
        let found = self.rooms.take(words).map(|(room, ())| room);
        let room = found.unwrap_or_else(|| {
            self.add(self.rooms.wanted(words));
            self.rooms.take(words).unwrap().0
        });
        assert!(room.words >= words && room.first >= SEGMENT_HEAD);
        assert!(self.rooms.segments[&room.segment].words >= room.first + room.words);
        let others = self.exports.iter().map(|(other, _)| other).chain(&self.lent);
        for other in others.filter(|other| other.segment == room.segment) {
            let apart =
                other.first + other.words <= room.first || room.first + room.words <= other.first;
            assert!(apart, "{room:?} has words of {other:?}");
        }
        room
    }

    fn give_back(&mut self, (room, is_lent): (Room, bool)) {
        if is_lent {
            self.lent.push(room);
        }
        let _ = self.rooms.give_back(room, is_lent);
        self.forget_given_up();
    }

    /// A number of a segment is not used again.
    fn forget_given_up(&mut self) {
        let Owner { rooms, lent, .. } = self;
        lent.retain(|room| rooms.segments.contains_key(&room.segment));
    }

    /// Brings the segments back to their bound.
    fn settle(&mut self) {
        while self.rooms.give_up_empty().is_some() {}
        if let Some(words) = self.rooms.begin_moves() {
            self.add(words);
            for at in 0..self.exports.len() {
                if self.rooms.moves(self.exports[at].0) {
                    let room = self.room(self.exports[at].0.words);
                    assert!(!self.rooms.moves(room));
                    let before = std::mem::replace(&mut self.exports[at], (room, false));
                    self.give_back(before);
                    self.moves += room.words;
                }
            }
        }
        self.forget_given_up();
        let taken: usize = self.exports.iter().map(|(room, _)| room.words).sum();
        assert_eq!(self.rooms.taken(), taken);
        let bound = 2 * taken + self.rooms.thrift.slack + PAGE;
        assert!(self.rooms.held() <= bound, "{} of {bound} words", self.rooms.held());
    }
}

#[test]
fn random_exports_share_no_words_and_stay_within_their_bound() {
    for seed in 1..30_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut owner = Owner::new(THRIFT);
        let (most, large) = (1 + random.below(200), 1 + random.below(40_000));
        let mut freed = 0;
        for _ in 0..3_000 {
            let grows = random.below(10) < 3;
            if owner.exports.len() < most && random.below(2) == 0 || owner.exports.is_empty() {
                let limit = if random.below(10) == 0 { large } else { 60 };
                let words = 1 + random.below(limit);
                let room = owner.room(words);
                owner.exports.push((room, false));
            } else {
                let at = random.below(owner.exports.len());
                let before = owner.exports.swap_remove(at);
                freed += before.0.words;
                if grows {
                    let room = owner.room(before.0.words * 3 / 2);
                    owner.exports.push((room, false));
                }
                owner.give_back(before);
            }
            if random.below(4) == 0 && !owner.exports.is_empty() {
                let at = random.below(owner.exports.len());
                owner.exports[at].1 = true;
            }
            owner.settle();
        }
        assert!(owner.moves <= 2 * freed, "{} words moved, {freed} freed", owner.moves);
        while let Some(export) = owner.exports.pop() {
            owner.give_back(export);
            owner.settle();
        }
        assert!(owner.rooms.held() <= THRIFT.slack, "{:?}", owner.rooms);
    }
}

#[test]
fn a_room_that_nobody_has_opened_is_used_again() {
    let mut owner = Owner::new(THRIFT);
    let kept = owner.room(10);
    owner.exports.push((kept, false));
    let room = owner.room(8);
    assert_eq!(room.used, 0, "nobody has had it");
    for _ in 0..1000 {
        owner.give_back((room, false));
        assert_eq!(owner.room(8), Room { used: 8, ..room });
    }
    owner.give_back((room, false));
    let longer = owner.room(24);
    assert_eq!((longer.first, longer.used), (room.first, 8), "{longer:?}");
}

#[test]
fn a_lent_room_is_used_by_nobody_else_until_its_segment_is_given_up() {
    let mut owner = Owner::new(THRIFT);
    let segments = |owner: &Owner| owner.rooms.segments().len();
    let mut seen = String::new();
    for _ in 0..10_000 {
        let room = owner.room(24);
        owner.give_back((room, true));
        owner.settle();
        assert!(segments(&owner) <= 1);
        seen.push(if segments(&owner) == 0 { 'x' } else { '.' });
    }
    let given_up = seen.matches('x').count();
    assert!((20..200).contains(&given_up), "{given_up}");
}

#[test]
fn an_export_for_ever_in_each_segment_keeps_no_segment() {
    let mut owner = Owner::new(THRIFT);
    for round in 0..20_000 {
        let room = owner.room(24);
        match round % 300 {
            0 => owner.exports.push((room, round % 600 == 0)),
            _ => owner.give_back((room, round % 7 == 0)),
        }
        owner.settle();
    }
    assert_eq!(owner.exports.len(), 67);
}

#[test]
fn no_segment_is_larger_than_the_limit() {
    let mut owner = Owner::new(THRIFT);
    // Each segment has a room of its own, and no memory is behind any.
    let largest = SEGMENT_WORDS_MAX / 9;
    for _ in 0..200 {
        owner.add(owner.rooms.wanted(largest));
        let room = owner.room(largest);
        owner.exports.push((room, false));
    }
    let most = |owner: &Owner| owner.rooms.segments.values().map(|held| held.words).max();
    assert_eq!(most(&owner), Some(SEGMENT_WORDS_MAX));
    for at in (0..200).rev().filter(|at| at % 4 > 0) {
        let ended = owner.exports.remove(at);
        owner.give_back(ended);
        owner.settle();
        assert!(
            most(&owner) <= Some(SEGMENT_WORDS_MAX),
            "{:?} of {SEGMENT_WORDS_MAX}",
            most(&owner)
        );
    }
    assert!(owner.moves > 0);
}

#[test]
fn without_memory_for_moves_the_rooms_stay_as_they_are() {
    let mut owner = Owner::new(THRIFT);
    let rooms: Vec<_> = (0..20_000).map(|_| owner.room(24)).collect();
    for (at, room) in rooms.into_iter().enumerate() {
        match at % 100 {
            0 => owner.exports.push((room, false)),
            _ => owner.give_back((room, false)),
        }
    }
    assert!(owner.rooms.begin_moves().is_some());
    assert!(owner.exports.iter().any(|(room, _)| owner.rooms.moves(*room)));
    owner.rooms.cancel_moves();
    let held = owner.rooms.held();
    let room = owner.room(24);
    assert_eq!(owner.rooms.held(), held, "{room:?}");
}
