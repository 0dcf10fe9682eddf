use super::*;

#[test]
fn any_byte_gives_a_manner_or_none() {
    assert_eq!(StampMode::from_byte(0), None);
    assert_eq!(StampMode::from_byte(255), Some(StampMode::Whole));
    for byte in 1..=254 {
        if let Some(manner) = StampMode::from_byte(byte) {
            assert_eq!(manner.byte(), byte);
        } else {
            assert!(byte as usize > PAIR_POINTS_MAX);
        }
    }
}

#[test]
fn a_pair_is_two_points_and_three_where_a_node_wakes() {
    for way in WAYS {
        for rung in way.rungs() {
            let points = StampMode::Pair(rung).points();
            assert_eq!(points & 1, 1);
            assert_ne!(points & 1 << rung, 0);
            let wakes =
                [Point::WokeThere, Point::WokeHere].iter().any(|at| at.index() as u8 == rung);
            let count = if rung == 0 { 1 } else { 2 + u32::from(wakes) };
            assert_eq!(points.count_ones(), count, "{rung}");
        }
    }
}

#[test]
fn points_of_the_callers_future_need_no_mark() {
    for rung in CALL.rungs() {
        let own = rung <= Point::Published as u8 || rung >= Point::Reached as u8;
        assert_eq!(StampMode::Pair(rung).marks(), !own, "{rung}");
    }
    assert!(StampMode::Whole.marks() && StampMode::Marked.marks());
    assert_eq!(StampMode::Marked.points(), StampMode::Pair(Point::Done as u8).points());
    let manners: Vec<StampMode> = CALL.pairs().collect();
    assert_eq!((manners.len(), manners.last()), (23, Some(&StampMode::Marked)));
    assert!(
        StampMode::Waiting.waits() && !StampMode::Waiting.marks() && !StampMode::Pair(25).waits()
    );
    assert!(!ONEWAY.pairs().any(|manner| manner == StampMode::Marked));
}

#[test]
fn the_manner_tells_which_points_the_receiver_stamps() {
    let there = |manner: StampMode| manner.points() & StampMode::POINTS_THERE != 0;
    assert!(!there(StampMode::Pair(5)) && !there(StampMode::Pair(20)));
    assert!(there(StampMode::Pair(6)), "the node there wakes");
    assert!(there(StampMode::Pair(18)) && there(StampMode::Pair(19)) && there(StampMode::Whole));
}

#[test]
fn a_cut_stamp_is_completed_and_never_after_now() {
    let span = 1_u64 << 48;
    for now in [span * 5 + 3, span * 5 - 3, span - 1, span / 2 + 9, span / 2, 7] {
        for ago in [0, 1, 5, span / 4, span / 2 + 1, span - (1 << 31)] {
            let Some(stamp) = now.checked_sub(ago) else { continue };
            assert_eq!(whole_stamp(stamp % span, now), stamp, "{ago} before {now}");
        }
        assert_eq!(whole_stamp((now + 1000) % span, now), now, "a moment ahead of {now}");
        // Any value that a peer may write gives a stamp that is not after `now`.
        for low in [0, 1, span / 4, span / 2, span - 1, now.wrapping_add(span / 2), u64::MAX] {
            assert!(whole_stamp(low, now) <= now, "{low} at {now}");
        }
    }
    assert_eq!(whole_stamp(0, span / 2 + 9), 0, "never, however long ago");
    assert_eq!(whole_stamp(9, 7 << 20), 9);
}

/// The numbers of points are part of frames, and ways may have another order.
#[test]
fn a_way_between_hosts_has_more_points_in_its_own_order() {
    assert_eq!(
        (Point::Done as u8, Point::EncryptedHere as u8, Point::ReadHere as u8),
        (25, 26, 31)
    );
    assert_eq!(Point::ReadHere.bit(), 1 << 31);
    let order: Vec<Point> = CALL.order().collect();
    assert!(order.iter().map(|point| point.index()).eq(0..CALL.points()));
    for (way, more) in [(CALL_TCP, 4), (CALL_TLS, 6)] {
        assert_eq!(way.points(), CALL.points() + more);
        assert_eq!(
            (way.place(0), way.place(Point::Done.index())),
            (Some(0), Some(way.points() - 1))
        );
        assert!(way.rungs().eq(CALL.rungs()), "pairs end where they do in memory");
    }
    let behind = |way: &Way, point: Point, next: Point| {
        way.place(next.index()).unwrap() == way.place(point.index()).unwrap() + 1
    };
    for [published, encrypted, written, woke, seen, read, noticed] in [
        [
            Point::Published,
            Point::EncryptedHere,
            Point::WrittenHere,
            Point::WokeThere,
            Point::SeenThere,
            Point::ReadThere,
            Point::NoticedThere,
        ],
        [
            Point::Replied,
            Point::EncryptedThere,
            Point::WrittenThere,
            Point::WokeHere,
            Point::SeenHere,
            Point::ReadHere,
            Point::NoticedHere,
        ],
    ] {
        assert!(behind(CALL_TLS, published, encrypted) && behind(CALL_TLS, encrypted, written));
        assert!(
            behind(CALL_TCP, published, written) && CALL_TCP.place(encrypted.index()).is_none()
        );
        for way in [CALL_TLS, CALL_TCP] {
            assert!(behind(way, written, woke) && behind(way, woke, seen));
            assert!(behind(way, seen, read) && behind(way, read, noticed));
        }
    }
    for (oneway, call) in [(ONEWAY_TCP, CALL_TCP), (ONEWAY_TLS, CALL_TLS)] {
        assert!(oneway.phases.iter().zip(call.phases).all(|(one, other)| one == other));
        assert_eq!(oneway.order().last(), Some(Point::Finished));
    }
    assert!(WAYS.iter().all(|way| way.is_answered() == way.name.starts_with("call")));
    let numbers: Vec<u8> = WAYS.iter().map(|way| way.number()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_way_begins_at_the_sender_and_a_call_ends_there() {
    assert_eq!(ONEWAY.points(), Point::Finished.index() + 1);
    assert!(ONEWAY.phases.iter().zip(CALL.phases).all(|(one, other)| one == other));
    assert_eq!(CALL.phases[CALL.phases.len() - 1].place, Place::Here);
    assert_eq!((CALL.number(), ONEWAY.number()), (0, 1));
    assert_eq!(CALL.rungs().count(), 20);
}

#[test]
fn the_longest_run_beyond_a_budget_travels_with_the_events() {
    let none = MessageEvents::PROMOTED.with(MessageEvents::CALL);
    assert_eq!(none.run_us(), None);
    let ran = none.with_run_us(300).with_run_us(120);
    assert_eq!((ran.run_us(), ran.has(none)), (Some(300), true));
    let ran = ran.with_run_us(u64::MAX);
    assert_eq!((ran.run_us(), ran.has(none)), (Some(u32::MAX >> 8), true));
}

#[test]
fn a_served_call_is_the_part_of_a_call_at_its_callee() {
    let items: Vec<Item> = SERVED.phases.iter().map(|phase| phase.item).collect();
    assert_eq!((items[0], items[items.len() - 1]), (Item::Check, Item::Reply));
    assert!(SERVED.phases.iter().all(|phase| phase.place == Place::There));
    assert!(!SERVED.is_answered() && WAYS[usize::from(SERVED.number())] == SERVED);
}
