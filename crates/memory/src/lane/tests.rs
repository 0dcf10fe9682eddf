//! Tests of both lanes of a session, on the heap.

use super::*;
use crate::region::WORD;

fn lanes() -> (Lanes, Lanes) {
    let [one, other] = [LANE_BYTES / WORD; 2].map(Region::heap);
    (
        Lanes::new(one.clone(), 3, other.read_only(), 8),
        Lanes::new(other.clone(), 8, one.read_only(), 3),
    )
}

fn send(lanes: &Lanes, number: u64) -> Result<(), Refused> {
    let mut claim = lanes.claim(1, 0)?;
    claim.write(0, &number.to_le_bytes());
    claim.commit([0x100, number, 0], WORD);
    Ok(())
}

fn receive(lanes: &Lanes) -> Option<u64> {
    let head = lanes.look().unwrap()?;
    assert_eq!(lanes.reader().read_value::<u64>(0), head[1]);
    lanes.reader().advance();
    Some(head[1])
}

#[test]
fn each_side_writes_its_own_lane() {
    let (one, other) = lanes();
    for number in 0..if cfg!(miri) { 130 } else { 1000 } {
        send(&one, number).unwrap();
        send(&other, !number).unwrap();
        assert_eq!((receive(&one), receive(&other)), (Some(!number), Some(number)));
        one.publish_progress();
        other.publish_progress();
    }
    one.publish_accepted(9);
    assert_eq!((other.peer_accepted(), one.peer_accepted()), (9, 0));
    assert!(one.peer_is_attentive(fence_full()));
    other.set_attention(false);
    assert!(!one.peer_is_attentive(fence_full()) && other.peer_is_attentive(fence_full()));
}

#[test]
fn a_lane_is_full_until_the_peer_publishes_its_progress() {
    let (one, other) = lanes();
    let slots = u64::from(one.writer().slots());
    for number in 0..slots {
        send(&one, number).unwrap();
    }
    assert_eq!(send(&one, slots), Err(Refused::Full));
    assert_eq!(receive(&other), Some(0));
    assert_eq!(send(&one, slots), Err(Refused::Full));
    other.publish_progress();
    send(&one, slots).unwrap();
    assert!((1..=slots).eq(std::iter::from_fn(|| receive(&other))));
}

#[test]
fn a_lane_continues_in_larger_segments() {
    let (one, other) = lanes();
    let mut number = 0;
    for (round, bytes) in GROWN_BYTES.into_iter().enumerate() {
        if cfg!(miri) && round > 0 {
            return;
        }
        send(&one, number).unwrap();
        assert_eq!(one.next_growth(), Some((round as u8 + 1, bytes)));
        let region = Region::heap(bytes / WORD);
        one.grow_writer(region.clone());
        send(&one, number + 1).unwrap();
        assert_eq!(receive(&other), Some(number));
        assert_eq!(receive(&other), None);
        assert_eq!(other.next_peer_growth(), Some((round as u8 + 1, bytes)));
        other.grow_reader(region.read_only());
        assert_eq!(receive(&other), Some(number + 1));
        number += 2;
        // The larger ring is used whole: progress in the old ring frees nothing here.
        let slots = u64::from(one.writer().slots());
        assert_eq!(one.writer().slots() as usize, bytes / SLOT);
        for more in 1..if cfg!(miri) { 10 } else { slots } {
            send(&one, number + more).unwrap();
            assert_eq!(receive(&other), Some(number + more));
        }
        other.publish_progress();
        send(&one, number).unwrap();
        assert_eq!(receive(&other), Some(number));
    }
    assert_eq!((one.next_growth(), other.next_peer_growth()), (None, None));
}

#[test]
#[should_panic(expected = "a writer cannot change its ring while a claim is open")]
fn a_lane_does_not_grow_while_a_claim_is_open() {
    let (one, _other) = lanes();
    let _claim = one.claim(1, 0).unwrap();
    one.grow_writer(Region::heap(GROWN_BYTES[0] / WORD));
}

#[test]
fn the_published_state_changes_with_everything_that_makes_room() {
    let [ours, theirs] = [LANE_BYTES / WORD; 2].map(Region::heap);
    let lanes = Lanes::new(ours.clone(), 1, theirs, 2);
    let mut seen = vec![lanes.shown()];
    let mut is_new = |what: &str| {
        let now = lanes.shown();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
        assert_eq!(lanes.shown(), now, "nothing has changed since");
    };
    lanes.publish_accepted(1);
    is_new("a request was accepted");
    ours.store(IN, 1);
    is_new("slots were read");
    for slab in 0..SLABS_MAX {
        lanes.returns_for(slab).toggle(0, 1);
        is_new("a buffer was returned");
    }
    lanes.returns_for(3).toggle(0, 1 << 63);
    is_new("another buffer was returned");
}

#[test]
fn impossible_progress_is_refused() {
    let [ours, theirs] = [LANE_BYTES / WORD; 2].map(Region::heap);
    let lanes = Lanes::new(ours, 1, theirs.clone(), 2);
    theirs.store(IN, 1);
    let slots = u64::from(lanes.writer().slots());
    for number in 0..slots {
        send(&lanes, number).unwrap();
    }
    send(&lanes, slots).unwrap();
    theirs.store(IN, slots + 2);
    let fault = Refused::Progress { now: slots + 2, known: 1, out: slots + 1 };
    assert_eq!(send(&lanes, 0), Err(fault));
}

#[test]
fn each_slab_has_a_word_for_its_returns() {
    let (one, other) = lanes();
    for slab in 0..SLABS_MAX {
        assert_eq!(other.peer_returned(slab), 0);
        one.returns_for(slab).toggle(0, 1 << slab | 1 << 63);
    }
    for slab in 0..SLABS_MAX {
        assert_eq!(other.peer_returned(slab), 1 << slab | 1 << 63);
        assert_eq!((one.peer_returned(slab), one.returns_for(slab).words()), (0, 1));
    }
    // The words of returns do not overlap other words of a lane.
    assert!(other.peer_is_attentive(fence_full()) && !other.peer_wants_room());
    assert_eq!(other.peer_accepted(), 0);
    send(&one, 1).unwrap();
    assert_eq!(receive(&other), Some(1));
}

#[test]
fn the_words_for_returns_are_bounded() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let (one, _other) = lanes();
    let refused = |act: &dyn Fn()| catch_unwind(AssertUnwindSafe(act)).is_err();
    assert!(refused(&|| _ = one.peer_returned(SLABS_MAX)));
    assert!(refused(&|| _ = one.returns_for(SLABS_MAX)));
    assert!(refused(&|| _ = one.returns_for(usize::MAX)));
}

#[test]
fn buffers_are_lent_to_another_thread_and_returned() {
    use crate::slab::{Borrowed, Loan, Slab};
    use std::sync::{Arc, mpsc};
    use std::thread;
    const EACH: usize = 512;
    const COUNT: u32 = 3;
    const SLAB: usize = 5;
    let messages: u64 = if cfg!(miri) { 12 } else { 20_000 };
    let (one, other) = lanes();
    let region = Region::heap(EACH / WORD * COUNT as usize);
    let slab = Slab::new(region.clone(), EACH, COUNT, one.peer_returned(SLAB));
    let borrowed = Borrowed::new(region.read_only(), EACH, COUNT, other.returns_for(SLAB));
    let content = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let reader = move |loans: mpsc::Receiver<(Loan, u64)>| {
        for (loan, number) in loans {
            let mut bytes = vec![0; loan.len()];
            loan.read(0, &mut bytes);
            assert!(bytes.chunks(WORD).all(|word| word == &content(number)[..word.len()]));
        }
    };
    thread::scope(|scope| {
        let (to_first, at_first) = mpsc::channel();
        let (to_second, at_second) = mpsc::channel();
        let first = scope.spawn(move || reader(at_first));
        let second = scope.spawn(move || reader(at_second));
        let peer = scope.spawn(move || {
            let borrowed = Arc::new(borrowed);
            for number in 0..messages {
                let head = loop {
                    match other.look().unwrap() {
                        Some(head) => break head,
                        None => thread::yield_now(),
                    }
                };
                let loan = borrowed.take(head[1] as u32, head[2] as usize).unwrap();
                other.reader().advance();
                other.publish_progress();
                [&to_first, &to_second][number as usize % 2].send((loan, number)).unwrap();
            }
            borrowed
        });
        let wait = |peer: &thread::ScopedJoinHandle<'_, _>| {
            assert!(!peer.is_finished(), "the peer ended early");
            thread::yield_now();
        };
        for number in 0..messages {
            let mut buffer = loop {
                match slab.claim(|| one.peer_returned(SLAB)) {
                    Some(buffer) => break buffer,
                    None => wait(&peer),
                }
            };
            let len = EACH - number as usize % 99;
            buffer.write(0, &content(number).repeat(EACH / WORD)[..len]);
            let head = [0x100, u64::from(buffer.lend()), len as u64];
            while let Err(refused) = one.claim(1, 0).map(|claim| claim.commit(head, 0)) {
                assert_eq!(refused, Refused::Full);
                wait(&peer);
            }
        }
        let borrowed = peer.join().unwrap();
        first.join().unwrap();
        second.join().unwrap();
        assert!(borrowed.held() == 0 && slab.is_idle(one.peer_returned(SLAB)));
    });
}
