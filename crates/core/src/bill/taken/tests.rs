use super::*;
use crate::bill::clock::{Clock, Timestamps};
use crate::bill::way::{CALL, ONEWAY};
use proptest::prelude::*;

fn of(points: &[(Point, u64)]) -> Taken {
    let mut taken = Taken::new();
    points.iter().for_each(|(point, ticks)| taken.set(*point, *ticks));
    taken
}

fn encoded(taken: &Taken, lock: &str) -> Vec<u8> {
    let mut bytes = [0; STAMPS_BYTES_MAX];
    let len = taken.encode(lock, &mut bytes);
    bytes[..len].to_vec()
}

#[test]
fn a_whole_call_is_put_together_from_both_sides() {
    let mut here = of(&[
        (Point::Begun, 100),
        (Point::Opened, 110),
        (Point::Published, 120),
        (Point::WokeHere, 3),
        (Point::NoticedHere, 300),
        (Point::Done, 330),
    ]);
    let mut there = of(&[(Point::WokeThere, 150), (Point::NoticedThere, 170), (Point::Ran, 200)]);
    there.set(Point::Replied, 210);
    there.happened = Happened::PROMOTED;
    here.join(&there);
    let stamps = here.finish(CALL, Manner::Whole, Billed::Here).unwrap();
    let at = |point: Point| stamps[point.index()];
    assert_eq!((at(Point::Begun), at(Point::Roomed), at(Point::Opened)), (100, 100, 110));
    assert_eq!((at(Point::WokeThere), at(Point::NoticedThere)), (150, 170));
    assert_eq!((at(Point::SeenThere), at(Point::SeenHere)), (170, 300));
    // The caller did not sleep, so its last waking was long ago.
    assert_eq!((at(Point::Replied), at(Point::WokeHere)), (210, 210));
    assert_eq!((at(Point::NoticedHere), at(Point::Done)), (300, 330));
    assert!(here.happened.has(Happened::PROMOTED));
}

#[test]
fn a_peer_cannot_make_time_that_has_not_passed() {
    let mut here = of(&[(Point::Begun, 100), (Point::NoticedHere, 200), (Point::Done, 210)]);
    here.join(&of(&[(Point::NoticedThere, u64::MAX), (Point::Replied, 0), (Point::Begun, 7)]));
    let stamps = here.finish(CALL, Manner::Whole, Billed::Here).unwrap();
    let stamps = &stamps[..CALL.points()];
    assert!(stamps.is_sorted() && stamps[0] == 100 && stamps[CALL.points() - 1] == 210);
    let mut there = of(&[(Point::NoticedThere, 200), (Point::Finished, 210)]);
    there.join(&of(&[(Point::Begun, 500), (Point::Published, 400)]));
    let stamps = there.finish(ONEWAY, Manner::Whole, Billed::There).unwrap();
    assert_eq!((stamps[0], stamps[Point::Finished.index()]), (200, 210));
}

#[test]
fn a_pair_needs_both_stamps_and_where_a_node_wakes_three() {
    let mut here = of(&[(Point::Begun, 100)]);
    assert_eq!(here.finish(CALL, Manner::Pair(12), Billed::Here), None);
    here.join(&of(&[(Point::Ran, 160)]));
    let stamps = here.finish(CALL, Manner::Pair(12), Billed::Here).unwrap();
    assert_eq!((stamps[0], stamps[12]), (100, 160));
    let mut woken = of(&[(Point::Begun, 100), (Point::WokeThere, 20)]);
    assert_eq!(woken.finish(CALL, Manner::Pair(6), Billed::Here), None);
    woken.set(Point::Published, 120);
    let stamps = woken.finish(CALL, Manner::Pair(6), Billed::Here).unwrap();
    assert_eq!(stamps[6], 120, "it was awake before");
    woken.set(Point::WokeThere, 150);
    assert_eq!(woken.finish(CALL, Manner::Pair(6), Billed::Here).unwrap()[6], 150);
    assert_eq!(here.finish(ONEWAY, Manner::Pair(25), Billed::There).map(|_| ()), None);
}

#[test]
fn stamps_of_another_host_are_moved_between_ours_and_keep_their_distances() {
    let here = [(Point::Begun, 100), (Point::Published, 1_000), (Point::NoticedHere, 3_000)];
    // They were translated, and are all too early by 600; 700 is what that is certain to.
    let there = [(Point::WokeThere, 7), (Point::NoticedThere, 900), (Point::Replied, 1_500)];
    let joined = |doubt: u64| {
        let (mut ours, mut theirs) = (of(&here), of(&there));
        theirs.doubt = doubt;
        ours.join(&theirs);
        ours.fit(Billed::Here);
        (ours.at(Point::NoticedThere).unwrap(), ours.at(Point::Replied).unwrap(), ours.doubt)
    };
    // Between 100 later, behind our sending, and 700 later, which is the doubt.
    assert_eq!(joined(700), (1_300, 1_900, 301));
    // Between 100 and 1,500 later, where our hearing is.
    assert_eq!(joined(1 << 40), (1_700, 2_300, 701));
    // They cannot be: each is held for itself, as on one host.
    assert_eq!(joined(50), (900, 1_500, 50));
    assert_eq!(joined(0), (900, 1_500, 0));
    let mut message = of(&[(Point::Begun, 500), (Point::Published, 800)]);
    message.doubt = 100;
    message.set(Point::NoticedThere, 750);
    message.fit(Billed::There);
    let at = |point| message.at(point).unwrap();
    assert_eq!((at(Point::Begun), at(Point::Published), message.doubt), (425, 725, 26));
}

#[test]
fn stamps_that_are_too_short_or_too_long_break_a_rule() {
    let taken = of(&[(Point::Ran, 5)]);
    let bytes = encoded(&taken, "accounts");
    assert_eq!(Taken::decode(&bytes), Ok((taken.clone(), "accounts")));
    for end in [0, 3, 7, 15] {
        assert!(matches!(Taken::decode(&bytes[..end]), Err(Rule::StampsLength { .. })), "{end}");
    }
    assert!(Taken::decode(&[0xff; 400]).is_err());
    let long = encoded(&taken, &"ä".repeat(100));
    assert_eq!(Taken::decode(&long).unwrap().1, "ä".repeat(32));
}

proptest! {
    #[test]
    fn any_payload_gives_stamps_or_a_rule(bytes in proptest::collection::vec(any::<u8>(), 0..320)) {
        if let Ok((taken, lock)) = Taken::decode(&bytes) {
            prop_assert_eq!(encoded(&taken, lock), bytes);
        }
    }

    #[test]
    fn no_sample_goes_backwards(
        ours in proptest::collection::vec((0..28_u8, any::<u64>()), 0..40),
        peers in proptest::collection::vec(any::<u64>(), 28),
        which: u32,
        manner: u8,
        offset in any::<[u64; 4]>(),
    ) {
        let mut taken = Taken::new();
        for (point, ticks) in ours {
            taken.points |= 1 << point;
            taken.stamps[usize::from(point)] = ticks;
        }
        let mut peer = Taken { points: which >> 4, ..Taken::new() };
        peer.stamps.copy_from_slice(&peers);
        let mut clock = Clock::new(1_000_000_000, 3_000_000_000).unwrap();
        let [sent, echo, heard, now] = offset;
        clock.heard(Timestamps { sent, echo, heard }, now);
        clock.offset().iter().for_each(|offset| peer.translate(offset));
        taken.join(&peer);
        let Some(manner) = Manner::from_byte(manner) else { return Ok(()) };
        for (way, billed) in [(CALL, Billed::Here), (ONEWAY, Billed::There)] {
            let mut taken = taken.clone();
            taken.fit(billed);
            let Some(stamps) = taken.finish(way, manner, billed) else { continue };
            match manner {
                Manner::Whole => prop_assert!(stamps[..way.points()].is_sorted()),
                Manner::Pair(rung) => prop_assert!(stamps[usize::from(rung)] >= stamps[0]),
                Manner::Waiting => prop_assert!(stamps[1] >= stamps[0]),
                Manner::Marked | Manner::Thrice => prop_assert!(stamps[Point::Done.index()] >= stamps[0]),
            }
        }
    }
}
