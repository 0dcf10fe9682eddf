//! A peer that makes this side hold memory: by rings and slabs that it asks for, and by others.

use super::common::{self, Fixture};
use super::{Attack, framed, progress, segment, slab};
use rustix::net::RecvFlags;
use upbeat_core::fault::Rule;
use upbeat_core::frame::Head as Frame;
use upbeat_core::hello::Parsed;
use upbeat_core::limits::SLAB_GENERATION;
use upbeat_core::quota::Quota;
use upbeat_core::stream::{Head, Permission, Progress, SegmentRequest, parse};
use upbeat_transport::carrier::Kind;

const KIB: u32 = 1 << 10;
/// The quota. One session takes at most as much as it leaves free, which is half if it is alone.
const MOST: u64 = 200 << 10;

impl Attack {
    fn charged(name: &str) -> (Attack, Quota) {
        let (attack, quota) = (Attack::new(name), Quota::new(MOST));
        attack.carrier.charge_to(&quota);
        (attack, quota)
    }

    /// Returns the answer to the peer's last wish.
    fn answer(&self) -> Option<bool> {
        self.look().unwrap();
        self.carrier.rest();
        let mut bytes = [0; 4096];
        let (came, _) = rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT).unwrap();
        let mut rest = &bytes[..came];
        let mut answer = None;
        while let Ok(Parsed::Complete(Head::Progress(Progress { answer: said, .. }), len)) =
            parse(rest)
        {
            answer = said.or(answer);
            rest = &rest[len..];
        }
        answer
    }

    fn wish(&self, wish: SegmentRequest) {
        self.write(&progress(|progress| progress.wish = Some(wish)));
    }
}

fn ring(bytes: u32) -> Vec<u8> {
    [segment(1, bytes), framed(Frame::switch(1))].concat()
}

/// Slabs that were not asked for take what a session may have, and no more. A slab that is given up frees its bytes.
#[test]
fn slabs_that_were_not_asked_for_stay_within_the_limit() {
    let _alone = common::alone();
    let (attack, quota) = Attack::charged("slabs");
    for number in 0..60 {
        let bytes = [4, 16, 80, 2048][number as usize % 4] * KIB;
        attack.write(&slab(SLAB_GENERATION + number, bytes, number % 32, bytes / 2, 2));
        assert!(attack.look().is_ok());
        assert!(quota.held() <= MOST / 2, "{} bytes after {number} slabs", quota.held());
        if number % 5 != 0 {
            attack.write(&framed(Frame::retire(number % 32)));
            assert!(attack.look().is_ok());
        }
        if number == 31 {
            // The other numbers are free again.
            (0..32).step_by(5).for_each(|number| attack.write(&framed(Frame::retire(number))));
            assert!(attack.look().is_ok());
            assert_eq!(quota.held(), 0);
        }
    }
    assert!(quota.take_declined() > 10);
    drop(attack);
    assert_eq!(quota.held(), 0);
}

/// A ring for which there is no room ends the session of a peer that was not granted it.
#[test]
fn a_ring_without_room_ends_the_session_that_takes_it() {
    let _alone = common::alone();
    let (attack, quota) = Attack::charged("rings");
    let others = quota.share().take(100 << 10).unwrap();
    assert_eq!(attack.rule(&ring(64 * KIB)), Rule::UngrantedRing { bytes: 64 * KIB });
    drop(attack);
    assert_eq!(quota.held(), 100 << 10);
    drop(others);
    let (attack, quota) = Attack::charged("rings");
    attack.write(&ring(64 * KIB));
    assert_eq!((attack.look(), quota.held()), (Ok(0), 64 << 10));
}

/// Wishes are answered. Each replaces the one before it, whatever its size, and none is charged twice.
#[test]
fn repeated_wishes_charge_only_the_last() {
    let _alone = common::alone();
    let (attack, quota) = Attack::charged("wishes");
    let eight = SegmentRequest { each: 8 * KIB, count: 1 };
    for (wish, answer, held) in [
        (eight, true, 8),
        (eight, true, 8),
        (SegmentRequest { each: 100 * KIB, count: 1 }, true, 100),
        (SegmentRequest { each: 101 * KIB, count: 1 }, false, 0),
        (SegmentRequest { each: u32::MAX, count: u32::MAX }, false, 0),
        (SegmentRequest { each: 0, count: 3 }, true, 0),
        (SegmentRequest::ring(64 * KIB), true, 64),
        (SegmentRequest::ring(u32::MAX), true, 64),
        (eight, true, 8),
    ] {
        attack.wish(wish);
        assert_eq!((attack.answer(), quota.held()), (Some(answer), held << 10), "{wish:?}");
    }
    attack.wish(SegmentRequest::NONE);
    assert!(attack.look().is_ok());
    assert_eq!(quota.held(), 0);
    // A granted segment is not charged again when it comes.
    attack.wish(SegmentRequest { each: 80 * KIB, count: 1 });
    assert!(attack.look().is_ok());
    attack.write(&slab(SLAB_GENERATION, 80 * KIB, 0, 80 * KIB, 1));
    assert!(attack.look().is_ok());
    assert_eq!(quota.held(), 80 << 10);
    attack.wish(SegmentRequest { each: 80 * KIB, count: 1 });
    assert_eq!((attack.answer(), quota.held()), (Some(false), 80 << 10));
}

/// A frame about the lane is short, so a long one breaks a rule before any of it is buffered.
#[test]
fn a_long_frame_about_slabs_breaks_a_rule() {
    let _alone = common::alone();
    let (attack, quota) = Attack::charged("long");
    let mut words = Frame::slab(0).words();
    words[0] = words[0] & 0xffff | 6000 << 32;
    let mut frame = Vec::new();
    upbeat_core::stream::write_frame([words[0] | 48 << 16, words[1], words[2]], &mut frame);
    assert!(matches!(attack.rule(&frame), Rule::LengthBeyondMax { len: 6000, .. }));
    assert_eq!(quota.held(), 0);
}

/// Between hosts, the peer's quota decides about a wish. Processes of one host need no permission.
#[test]
fn a_peer_on_another_host_is_asked() {
    let _alone = common::alone();
    let pair = Fixture::new(Kind::Stream, "unasked").pair(1, 2);
    assert_eq!(pair.near.permission(SegmentRequest::ring(1)), Permission::Granted);
    let pair = Fixture::new(Kind::Tcp, "asked").pair(1, 2);
    pair.far.charge_to(&Quota::new(MOST));
    for (kib, expected) in [(64, Permission::Granted), (200, Permission::Declined)] {
        let wish = SegmentRequest { each: kib * KIB, count: 1 };
        assert_eq!(pair.near.permission(wish), Permission::Awaited);
        while !pair.near.has_news() {
            pair.near.pump();
            pair.far.pump();
        }
        pair.near.was_heard();
        assert_eq!(pair.near.permission(wish), expected);
        let generation = SLAB_GENERATION;
        if expected == Permission::Granted {
            let segment = pair.near.make_segment("slab", kib as usize * 1024).unwrap();
            pair.near.send_segment(generation, &segment).unwrap();
            let mut claim = pair.near.writer().claim(1, 0).unwrap();
            claim.write_word(0, u64::from(kib * KIB) | 1 << 32);
            claim.commit(Frame::slab(0).words(), 8);
        }
    }
}
