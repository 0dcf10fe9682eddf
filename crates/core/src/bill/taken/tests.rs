use super::*;
use crate::bill::Item;
use crate::bill::clock::tests::{Counter, counter};
use crate::bill::clock::{Clock, DRIFT_PPM, Timestamps};
use crate::bill::way::{CALL, CALL_TCP, CALL_TLS, ONEWAY, ONEWAY_TCP, ONEWAY_TLS, WAYS};
use proptest::prelude::*;

fn of(points: &[(Point, u64)]) -> MessageStamps {
    let mut taken = MessageStamps::new();
    points.iter().for_each(|(point, ticks)| taken.set(*point, *ticks));
    taken
}

fn encoded(taken: &MessageStamps, lock: &str) -> Vec<u8> {
    let mut bytes = [0; STAMPS_BYTES_MAX];
    let len = taken.encode(lock, &mut bytes);
    bytes[..len].to_vec()
}

#[test]
fn a_whole_call_combines_the_stamps_of_both_sides() {
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
    there.happened = MessageEvents::PROMOTED;
    here.join(&there, BillingSide::Here);
    let stamps = here.finish(CALL, StampMode::Whole, BillingSide::Here).unwrap();
    let at = |point: Point| stamps[point.index()];
    assert_eq!((at(Point::Begun), at(Point::Roomed), at(Point::Opened)), (100, 100, 110));
    assert_eq!((at(Point::WokeThere), at(Point::NoticedThere)), (150, 170));
    assert_eq!((at(Point::SeenThere), at(Point::SeenHere)), (170, 300));
    // The caller did not sleep, so its last waking was long ago.
    assert_eq!((at(Point::Replied), at(Point::WokeHere)), (210, 210));
    assert_eq!((at(Point::NoticedHere), at(Point::Done)), (300, 330));
    assert!(here.happened.has(MessageEvents::PROMOTED));
}

#[test]
fn a_peer_cannot_lengthen_a_message() {
    let mut here = of(&[(Point::Begun, 100), (Point::NoticedHere, 200), (Point::Done, 210)]);
    here.join(
        &of(&[(Point::NoticedThere, u64::MAX), (Point::Replied, 0), (Point::Begun, 7)]),
        BillingSide::Here,
    );
    let stamps = here.finish(CALL, StampMode::Whole, BillingSide::Here).unwrap();
    let stamps = &stamps[..CALL.points()];
    assert!(stamps.is_sorted() && stamps[0] == 100 && stamps[CALL.points() - 1] == 210);
    let mut there = of(&[(Point::NoticedThere, 200), (Point::Finished, 210)]);
    there.join(&of(&[(Point::Begun, 500), (Point::Published, 400)]), BillingSide::There);
    let stamps = there.finish(ONEWAY, StampMode::Whole, BillingSide::There).unwrap();
    assert_eq!((stamps[0], stamps[Point::Finished.index()]), (200, 210));
}

#[test]
fn a_pair_needs_both_stamps_and_a_waking_needs_three() {
    let mut here = of(&[(Point::Begun, 100)]);
    assert_eq!(here.finish(CALL, StampMode::Pair(12), BillingSide::Here), None);
    here.join(&of(&[(Point::Ran, 160)]), BillingSide::Here);
    let stamps = here.finish(CALL, StampMode::Pair(12), BillingSide::Here).unwrap();
    assert_eq!((stamps[0], stamps[12]), (100, 160));
    let mut woken = of(&[(Point::Begun, 100), (Point::WokeThere, 20)]);
    assert_eq!(woken.finish(CALL, StampMode::Pair(6), BillingSide::Here), None);
    woken.set(Point::Published, 120);
    let stamps = woken.finish(CALL, StampMode::Pair(6), BillingSide::Here).unwrap();
    assert_eq!(stamps[6], 120, "the node was awake before");
    woken.set(Point::WokeThere, 150);
    assert_eq!(woken.finish(CALL, StampMode::Pair(6), BillingSide::Here).unwrap()[6], 150);
    assert_eq!(here.finish(ONEWAY, StampMode::Pair(25), BillingSide::There).map(|_| ()), None);
}

#[test]
fn stamps_of_another_host_are_moved_together_between_ours() {
    let here = [(Point::Begun, 100), (Point::Published, 1_000), (Point::NoticedHere, 3_000)];
    // The stamps were translated and are all 600 too early; the doubt is 700.
    let there = [(Point::WokeThere, 7), (Point::NoticedThere, 900), (Point::Replied, 1_500)];
    let joined = |doubt: u64| {
        let (mut ours, mut theirs) = (of(&here), of(&there));
        theirs.doubt = doubt;
        ours.join(&theirs, BillingSide::Here);
        ours.fit(BillingSide::Here);
        (ours.at(Point::NoticedThere).unwrap(), ours.at(Point::Replied).unwrap(), ours.doubt)
    };
    // The stamps move by at least 100, to after our sending, and by at most 700, and that range is the doubt.
    assert_eq!(joined(700), (1_300, 1_900, 301));
    // The stamps move by at least 100, and by at most 1,500, to our reception.
    assert_eq!(joined(1 << 40), (1_700, 2_300, 701));
    // The stamps are impossible, so each is bounded by itself, as on one host.
    assert_eq!(joined(50), (900, 1_500, 50));
    assert_eq!(joined(0), (900, 1_500, 0));
    let mut message = of(&[(Point::Begun, 500), (Point::Published, 800)]);
    message.doubt = 100;
    message.set(Point::NoticedThere, 750);
    message.fit(BillingSide::There);
    let at = |point| message.at(point).unwrap();
    assert_eq!((at(Point::Begun), at(Point::Published), message.doubt), (425, 725, 26));
}

/// Returns a call between hosts with the stamps of both sides. Each phase has its own number of ticks.
fn between_hosts() -> (MessageStamps, MessageStamps) {
    let mut here = of(&[
        (Point::Begun, 1_000),
        (Point::Published, 1_001),
        (Point::WokeHere, 1),
        (Point::NoticedHere, 2_000),
        (Point::Done, 2_003),
    ]);
    here.request_written(Writing { began: 1_010, encrypting: 20, ended: 1_060 });
    here.reply_read(Reading { began: 1_950, ended: 1_990 });
    let mut there = of(&[(Point::WokeThere, 1_160), (Point::NoticedThere, 1_260)]);
    there.request_read(Reading { began: 1_180, ended: 1_250 });
    there.set(Point::Replied, 1_500);
    there.reply_written(Writing { began: 1_520, encrypting: 30, ended: 1_580 });
    (here, there)
}

/// Returns the durations of the phases of a finished call that its way charges to `item`, in order.
fn took(call: &MessageStamps, way: &Way, item: Item) -> Vec<u64> {
    let stamps = call.finish(way, StampMode::Whole, BillingSide::Here).unwrap();
    let phases = way.phases.iter().zip(stamps.windows(2));
    let phases = phases.filter(|(phase, _)| phase.item == item);
    phases.map(|(_, pair)| pair[1] - pair[0]).collect()
}

#[test]
fn encrypting_writing_and_reading_are_separated_from_the_wire() {
    let (mut call, there) = between_hosts();
    call.join(&there, BillingSide::Here);
    let tls = |item| took(&call, CALL_TLS, item);
    assert_eq!(
        (tls(Item::Publish), tls(Item::Encrypt), tls(Item::Write)),
        (vec![10], vec![20, 30], vec![30, 30])
    );
    assert_eq!(
        (tls(Item::Wake), tls(Item::Wire), tls(Item::Read)),
        (vec![100, 0], vec![20, 370], vec![70, 40])
    );
    assert_eq!((tls(Item::Notice), tls(Item::Reply)), (vec![10, 10], vec![260]));
    let whole = |way: &Way| {
        let stamps = call.finish(way, StampMode::Whole, BillingSide::Here).unwrap();
        (stamps[0], stamps[way.points() - 1])
    };
    assert_eq!(
        (whole(CALL_TLS), whole(CALL_TCP), whole(CALL)),
        ((1_000, 2_003), (1_000, 2_003), (1_000, 2_003))
    );
    assert_eq!(took(&call, CALL_TCP, Item::Write), [50, 60]);
}

#[test]
fn time_after_the_arrival_is_charged_to_the_reader() {
    let (mut call, mut there) = between_hosts();
    there.set(Point::WokeThere, 3);
    there.request_read(Reading { began: 1_040, ended: 1_055 });
    there.set(Point::NoticedThere, 1_058);
    call.join(&there, BillingSide::Here);
    assert_eq!(took(&call, CALL_TLS, Item::Write)[0], 10);
    assert_eq!(
        (took(&call, CALL_TLS, Item::Wire)[0], took(&call, CALL_TLS, Item::Read)[0]),
        (0, 15)
    );
    // A read that began before the message was sent only shows that the read waited for it.
    call.request_read(Reading { began: 1_020, ended: 1_055 });
    assert_eq!(
        (took(&call, CALL_TLS, Item::Write)[0], took(&call, CALL_TLS, Item::Read)[0]),
        (25, 0)
    );
}

#[test]
fn a_message_with_an_unstamped_socket_gives_no_sample() {
    let (call, there) = between_hosts();
    let finish = |call: &MessageStamps, there: &MessageStamps, way| {
        let mut joined = call.clone();
        joined.join(there, BillingSide::Here);
        joined.finish(way, StampMode::Whole, BillingSide::Here).is_some()
    };
    assert!(finish(&call, &there, CALL_TLS));
    for point in [Point::ReadThere, Point::WrittenThere] {
        let mut there = there.clone();
        there.points &= !point.bit();
        assert!(!finish(&call, &there, CALL_TLS) && !finish(&call, &there, CALL_TCP), "{point:?}");
        assert!(finish(&call, &there, CALL), "there are no sockets");
    }
    for point in [Point::ReadHere, Point::WrittenHere] {
        let mut call = call.clone();
        call.points &= !point.bit();
        assert!(!finish(&call, &there, CALL_TLS), "{point:?}");
        // The peer's stamp for this side's socket does not replace the missing one.
        let mut there = there.clone();
        there.set(point, 1_500);
        assert!(!finish(&call, &there, CALL_TLS), "{point:?}");
    }
}

#[test]
fn a_peers_stamps_of_sockets_cannot_lengthen_a_message() {
    for lie in [0, 1, 1_500, u64::MAX] {
        let (mut call, mut there) = between_hosts();
        there.request_read(Reading { began: lie, ended: lie ^ 1 });
        there.reply_written(Writing { began: lie, encrypting: lie, ended: lie.wrapping_mul(3) });
        // The peer also sends stamps for this side's socket.
        for point in [Point::EncryptedHere, Point::WrittenHere, Point::SeenHere, Point::ReadHere] {
            there.set(point, lie);
        }
        there.doubt = lie;
        call.join(&there, BillingSide::Here);
        call.fit(BillingSide::Here);
        for way in [CALL_TLS, CALL_TCP] {
            let stamps = call.finish(way, StampMode::Whole, BillingSide::Here).unwrap();
            let stamps = &stamps[..way.points()];
            assert!(stamps.is_sorted(), "{lie} {stamps:?}");
            assert_eq!((stamps[0], stamps.last()), (1_000, Some(&2_003)), "{lie}");
        }
    }
}

#[test]
fn stamps_of_another_host_are_moved_between_encryption_and_reading() {
    let (mut call, mut there) = between_hosts();
    // All stamps are 1,100 too early; a read may have begun before the message was there.
    for point in 0..POINTS_MAX {
        there.stamps[point] = there.stamps[point].saturating_sub(1_100);
    }
    there.doubt = 1 << 40;
    call.join(&there, BillingSide::Here);
    call.fit(BillingSide::Here);
    // The peer's read ends after our encryption at 1,030, and its 1,550 is before our read at 1,990.
    let (least, most) = (1_030 - 150, 1_990 - 450);
    assert_eq!(call.at(Point::ReadThere), Some(150 + (least + most) / 2));
    assert_eq!(call.doubt, (most - least) / 2 + 1);
    let mut message = of(&[(Point::Begun, 500), (Point::Published, 800)]);
    message.doubt = 100;
    message.request_written(Writing { began: 800, encrypting: 0, ended: 830 });
    message.request_read(Reading { began: 700, ended: 740 });
    message.set(Point::NoticedThere, 750);
    message.fit(BillingSide::There);
    assert_eq!((message.at(Point::Published), message.doubt), (Some(720), 21));
    let stamps = message.finish(ONEWAY_TCP, StampMode::Whole, BillingSide::There).unwrap();
    assert!(stamps[..ONEWAY_TCP.points()].is_sorted());
}

#[test]
fn stamps_of_a_wrong_length_break_a_rule() {
    let taken = of(&[(Point::Ran, 5)]);
    let bytes = encoded(&taken, "accounts");
    assert_eq!(MessageStamps::decode(&bytes), Ok((taken.clone(), "accounts")));
    for end in [0, 3, 7, 15] {
        assert!(
            matches!(MessageStamps::decode(&bytes[..end]), Err(Rule::StampsLength { .. })),
            "{end}"
        );
    }
    assert!(MessageStamps::decode(&[0xff; 400]).is_err());
    let long = encoded(&taken, &"ä".repeat(100));
    assert_eq!(MessageStamps::decode(&long).unwrap().1, "ä".repeat(32));
}

proptest! {
    #[test]
    fn any_payload_gives_stamps_or_a_rule(bytes in proptest::collection::vec(any::<u8>(), 0..320)) {
        if let Ok((taken, lock)) = MessageStamps::decode(&bytes) {
            prop_assert_eq!(encoded(&taken, lock), bytes);
        }
    }

    #[test]
    fn no_sample_goes_backwards(
        ours in proptest::collection::vec((0..POINTS_MAX, any::<u64>()), 0..40),
        sockets in any::<[[u64; 3]; 2]>(),
        peers in proptest::collection::vec(any::<u64>(), POINTS_MAX),
        which: u32,
        manner in prop_oneof![Just(StampMode::Whole.byte()), any::<u8>()],
        offset in any::<[u64; 4]>(),
    ) {
        let mut taken = MessageStamps::new();
        for (point, ticks) in ours {
            taken.set_index(point, ticks);
        }
        if which & 1 != 0 {
            let [[began, encrypting, ended], [from, to, _]] = sockets;
            taken.request_written(Writing { began, encrypting, ended });
            taken.reply_read(Reading { began: from, ended: to });
        }
        let mut peer = MessageStamps { points: which, ..MessageStamps::new() };
        peer.stamps.copy_from_slice(&peers);
        let mut clock = Clock::new(1_000_000_000, 3_000_000_000).unwrap();
        let [sent, echo, heard, now] = offset;
        clock.heard(Timestamps { sent, echo, heard }, now);
        clock.offset().iter().for_each(|offset| peer.translate(offset));
        let Some(manner) = StampMode::from_byte(manner) else { return Ok(()) };
        for way in WAYS {
            let billed = if way.is_answered() { BillingSide::Here } else { BillingSide::There };
            let mut taken = taken.clone();
            taken.join(&peer, billed);
            taken.fit(billed);
            let Some(stamps) = taken.finish(way, manner, billed) else { continue };
            match manner {
                StampMode::Whole => prop_assert!(stamps[..way.points()].is_sorted()),
                StampMode::Pair(rung) => {
                    let rung = way.place(usize::from(rung)).unwrap();
                    prop_assert!(stamps[rung] >= stamps[0]);
                }
                StampMode::Waiting => prop_assert!(stamps[1] >= stamps[0]),
                StampMode::Marked | StampMode::Thrice => {
                    prop_assert!(stamps[way.points() - 1] >= stamps[0]);
                }
            }
        }
    }
}

/// Returns the stamps that one side takes by its counter: the message passes the points of `way` at `times`, and
/// this side stamps those in `points`.
fn stamped(way: &Way, times: &[u64], counter: Counter, points: u32) -> MessageStamps {
    let mut taken = MessageStamps::new();
    for (point, ns) in way.order().zip(times).filter(|(point, _)| points & point.bit() != 0) {
        taken.set(point, counter.at(*ns));
    }
    taken
}

proptest! {
    /// For any message between hosts, the items add up to its time as far as the clocks are known: no item has
    /// time of another, except for the doubt at the ends of the wire.
    #[test]
    fn items_between_hosts_are_true_and_add_up(
        (us, them) in (counter(), counter()),
        [there, back] in any::<[u32; 2]>().prop_map(|delays| delays.map(u64::from)),
        lasts in proptest::collection::vec(prop_oneof![0..100_u64, 0..1_000_000_u64], 31),
    ) {
        let mut clock = Clock::new(us.pace, them.pace).unwrap();
        // The exchange was some seconds before the message, with any delays.
        clock.heard(
            Timestamps { sent: them.at(there), echo: us.at(0), heard: them.at(there) },
            us.at(there + back),
        );
        let offset = clock.offset().unwrap();
        for way in [CALL_TCP, CALL_TLS, ONEWAY_TCP, ONEWAY_TLS] {
            let mut now = there + back + 1_000_000;
            let mut times = vec![now];
            times.extend(lasts[..way.phases.len()].iter().map(|lasts| {
                now += lasts;
                now
            }));
            let billed = if way.is_answered() { BillingSide::Here } else { BillingSide::There };
            let mut message = stamped(way, &times, us, !billed.peers());
            let mut peers = stamped(way, &times, them, billed.peers());
            peers.translate(&offset);
            message.join(&peers, billed);
            message.fit(billed);
            let stamps = message.finish(way, StampMode::Whole, billed).unwrap();

            let took = |from: usize, to: usize| (us.at(times[to]) - us.at(times[from])) as i128;
            let told = |from: usize, to: usize| i128::from(stamps[to]) - i128::from(stamps[from]);
            let grain = 2 * i128::from(us.pace.div_ceil(them.pace)) + 4;
            let (doubt, last, mut items) = (i128::from(message.doubt), way.phases.len(), 0);
            let drift = took(0, last) * i128::from(DRIFT_PPM) / 1_000_000;
            for (at, phase) in way.phases.iter().enumerate() {
                let (took, told) = (took(at, at + 1), told(at, at + 1));
                items += told;
                let at_the_wire = [Item::Write, Item::Wake, Item::Wire, Item::Read, Item::Notice];
                let wrong = if at_the_wire.contains(&phase.item) { 2 * doubt } else { drift };
                let is_near = (told - took).abs() <= wrong + grain;
                prop_assert!(is_near, "{} {phase:?}: {told} of {took}", way.name);
            }
            prop_assert_eq!(items, told(0, last), "the items add up");
            let doubt = if way.is_answered() { 0 } else { doubt + grain };
            prop_assert!((items - took(0, last)).abs() <= doubt, "{}: {items}", way.name);
        }
    }
}

#[test]
fn a_frame_of_stamps_names_a_lock_of_so_many_bytes_and_no_more() {
    let payload = |bytes: usize| [&[0; 8][..], &vec![b'x'; bytes]].concat();
    let longest = payload(LOCK_NAME_BYTES_MAX);
    let (stamps, lock) = MessageStamps::decode(&longest).unwrap();
    assert_eq!(lock.len(), LOCK_NAME_BYTES_MAX);
    let mut again = [0; STAMPS_BYTES_MAX];
    let len = stamps.encode(lock, &mut again);
    assert_eq!(again[..len], longest);
    assert!(MessageStamps::decode(&payload(LOCK_NAME_BYTES_MAX + 1)).is_err());
}
