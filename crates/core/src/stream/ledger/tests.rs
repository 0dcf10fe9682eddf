use super::*;
use proptest::prelude::*;

fn lane(generation: u32) -> Segment {
    Segment { generation, bytes: 65536 }
}

fn slab(number: u32) -> Segment {
    Segment { generation: SLAB_GENERATION + number, bytes: 4096 * (number + 1) }
}

#[test]
fn announcements_that_the_peer_has_not_got_are_repeated() {
    let mut ledger = Ledger::default();
    ledger.announced(3, slab(0), "first");
    ledger.announced(7, lane(1), "lane");
    ledger.announced(8, slab(1), "second");
    assert_eq!(ledger.next_slab(), SLAB_GENERATION + 2);
    // The frame at 8 has arrived, and nothing behind it.
    assert_eq!(ledger.again(9), []);
    assert_eq!(ledger.again(8), [(slab(1), "second")]);
    assert_eq!(ledger.next_slab(), SLAB_GENERATION + 1);
    assert_eq!(ledger.again(4), [(lane(1), "lane")]);
    assert_eq!(ledger.next_slab(), SLAB_GENERATION + 1);
    assert_eq!(ledger.again(0), [(slab(0), "first")]);
    assert_eq!((ledger.next_slab(), ledger.again(0)), (SLAB_GENERATION, vec![]));
}

#[test]
fn announcements_that_the_peer_has_read_are_removed() {
    let mut ledger = Ledger::default();
    ledger.announced(3, slab(0), 0);
    ledger.announced(4, slab(1), 1);
    // The peer is before the frame at 3, and then behind it.
    ledger.acknowledged(3);
    *ledger.kept(SLAB_GENERATION).unwrap() = 9;
    ledger.acknowledged(4);
    assert_eq!(ledger.kept(SLAB_GENERATION), None);
    assert_eq!(ledger.again(4), [(slab(1), 1)]);
    assert_eq!(ledger.next_slab(), SLAB_GENERATION + 1, "the first one stays announced");
}

proptest! {
    /// Every frame finds its segment at a peer that forgets, with each connection, the announcements without a
    /// frame.
    #[test]
    fn each_frame_finds_its_segment(
        frames in prop::collection::vec(any::<Option<bool>>(), 1..60),
        breaks in prop::collection::vec((1..20usize, 0..20usize, 0..20usize), 0..40),
    ) {
        let mut ledger = Ledger::default();
        // The numbers of frames that were shipped, received and read; a frame takes one slot.
        let (mut shipped, mut received, mut read) = (0, 0, 0);
        let mut announced: Vec<(usize, Segment)> = Vec::new();
        let mut expected = Vec::new();
        let mut slabs = 0;
        for (at, frame) in frames.iter().enumerate() {
            match frame {
                Some(true) => {
                    expected.push((at, slab(slabs)));
                    slabs += 1;
                }
                Some(false) => expected.push((at, lane(at as u32))),
                None => {}
            }
        }
        let mut waiting: VecDeque<Segment> = expected.iter().map(|(_, segment)| *segment).collect();
        for (ship, receive, take) in breaks.into_iter().chain([(60, 60, 60)]) {
            let end = frames.len().min(shipped + ship);
            for at in shipped..end {
                if let Some((_, segment)) = expected.iter().find(|(other, _)| *other == at) {
                    let next = waiting.pop_front().unwrap();
                    prop_assert_eq!(next, *segment);
                    if next.generation >= SLAB_GENERATION {
                        prop_assert_eq!(next.generation, ledger.next_slab());
                    }
                    ledger.announced(at as u64, next, ());
                    announced.push((at, next));
                }
            }
            shipped = shipped.max(end);
            received = shipped.min(received + receive);
            for (at, segment) in expected.iter().filter(|(at, _)| *at < received) {
                prop_assert!(announced.contains(&(*at, *segment)));
            }
            read = received.min(read + take);
            ledger.acknowledged(read as u64);
            // The connection breaks: the peer forgets the announcements for frames that did not arrive.
            announced.retain(|(at, _)| *at < received);
            shipped = received;
            for (segment, ()) in ledger.again(received as u64).into_iter().rev() {
                waiting.push_front(segment);
            }
        }
        prop_assert_eq!(ledger.again(read as u64), vec![]);
    }
}
