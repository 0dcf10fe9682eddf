//! The frames that pass a long payload, and the number of its bytes that are sent before them.

use super::common::{self, Fixture, Pair};
use upbeat_core::bill::taken::Written;
use upbeat_core::frame::{CallNumber, Flags, Head, Kind as FrameKind, Placed};
use upbeat_core::limits::SLAB_GENERATION;
use upbeat_memory::region::Region;
use upbeat_transport::carrier::{Carrier, Kind};

const PAYLOAD_BYTES: usize = 32 << 20;

/// Writes a frame whose payload, if any, lies in a buffer.
fn write(carrier: &Carrier, head: Head, placed: Option<Placed>) {
    let mut claim = carrier.writer().claim(1, 0).unwrap();
    placed.into_iter().for_each(|placed| claim.write_word(0, placed.as_u64()));
    claim.commit(head.words(), if placed.is_some() { 8 } else { 0 });
}

/// Hands over the slab with this number, which has one buffer, filled with ones.
fn lend(carrier: &Carrier, number: u32) {
    let segment = carrier.make_segment("slab", PAYLOAD_BYTES).unwrap();
    carrier.send_segment(SLAB_GENERATION + number, &segment).unwrap();
    let mut claim = carrier.writer().claim(1, 0).unwrap();
    claim.write_word(0, PAYLOAD_BYTES as u64 | 1 << 32);
    claim.commit(Head::slab(number).words(), 8);
    segment.into_region().write(0, &vec![1; PAYLOAD_BYTES]);
}

/// Returns how many bytes of a buffer have come at least: those before the first pages that are 0.
fn came(region: &Region) -> usize {
    let mut byte = [0; 8];
    let is_there = |at: &usize| {
        region.read(*at, &mut byte);
        byte[0] == 1
    };
    (0..PAYLOAD_BYTES).step_by(4096).take_while(is_there).count() * 4096
}

/// Writes a call of this index, whose payload lies in the slab with this number.
fn write_long(carrier: &Carrier, index: u32, slab: u16) {
    let placed = Placed { slab, index: 0, len: PAYLOAD_BYTES as u32 };
    let head = Head::call(1, call(index), 8).with_flags(Flags::PLACED);
    write(carrier, head, Some(placed));
}

fn call(index: u32) -> CallNumber {
    CallNumber::new(index, 1)
}

/// Pumps both sides once, and calls `hear` with each frame that the far side receives.
fn hear_all(Pair { near, far }: &Pair, mut hear: impl FnMut(&Head)) {
    near.pump();
    far.pump();
    while let Some(words) = far.reader().look().unwrap() {
        hear(&Head::parse(words).unwrap());
        far.reader().advance();
        far.reader().publish_progress();
    }
}

/// Tests that a reply and the cancel of another call pass a long call that fills the connection, and that a one-way
/// message stays behind it. At most `most` bytes of the long call come before the reply: those that the sockets hold,
/// and a chunk.
fn passes(kind: Kind, most: usize) {
    let fixture = Fixture::new(kind, "priorities");
    let pair = fixture.pair(1, 2);
    let Pair { near, far } = &pair;
    lend(near, 0);
    write_long(near, 7, 0);
    // Between hosts a carrier can watch the writing of a sampled message.
    let watched = near.watch();
    assert_eq!(watched.is_some(), kind != Kind::Stream);
    // The far side does not read, so that both sockets fill.
    (0..50).for_each(|_| _ = near.pump());
    assert!(near.has_output(), "the payload fills the connection");
    write(near, Head::oneway(1, 0), None);
    write(near, Head::reply(call(3), 0), None);
    write(near, Head::cancel(call(5)), None);

    let (mut kinds, mut region, mut ahead) = (Vec::new(), None, 0..0);
    while kinds.len() < 5 {
        let before = region.as_ref().map_or(0, came);
        hear_all(&pair, |head| {
            match head.kind {
                FrameKind::Slab => {
                    region = Some(far.drain().unwrap().segments.remove(0).open().unwrap());
                }
                FrameKind::Reply => {
                    ahead = before..came(region.as_ref().unwrap());
                    let is_written = watched.map_or(Written::NotYet, |call| near.writing(call));
                    assert_eq!(is_written, Written::NotYet, "only padding was written");
                }
                FrameKind::Call => {
                    let mut bytes = vec![0; PAYLOAD_BYTES];
                    region.as_ref().unwrap().read(0, &mut bytes);
                    assert!(bytes.iter().all(|byte| *byte == 1), "all of its bytes come first");
                }
                _ => {}
            }
            kinds.push((head.kind, head.call.index()));
        });
    }
    let writing = watched.map(|call| near.writing(call));
    assert!(writing.is_none_or(|writing| matches!(writing, Written::All(_))), "{writing:?}");
    assert_eq!(kinds[0].0, FrameKind::Slab);
    assert_eq!(kinds[1..3], [(FrameKind::Reply, 3), (FrameKind::Cancel, 5)]);
    assert_eq!(kinds[3..], [(FrameKind::Call, 7), (FrameKind::Oneway, 0)]);
    // One pump may receive bytes behind the reply too, so the count lies between these two.
    println!("{kind:?}: {} to {} KiB ahead of the reply", ahead.start >> 10, ahead.end >> 10);
    assert!(ahead.end <= most, "{ahead:?} bytes came before the reply over {kind:?}");
}

#[test]
fn a_reply_and_a_cancel_pass_a_long_payload() {
    let _alone = common::alone();
    passes(Kind::Stream, 1 << 20);
}

#[test]
fn a_reply_and_a_cancel_pass_a_long_payload_over_tcp() {
    let _alone = common::alone();
    // The peer's system takes at most 3 MiB, and ours at most 128 KiB that it cannot send; without the limit both
    // take 7.5.
    passes(Kind::Tcp, 5 << 20);
}

/// Tests that the caller can cancel two long calls: the first fills the connection, and the second waits behind it.
/// Both frames come in their turn, with a deadline of 0. They name as many bytes as were sent before: none of the
/// second.
fn ends(kind: Kind, most: usize) {
    let fixture = Fixture::new(kind, "priorities");
    let pair = fixture.pair(1, 2);
    let Pair { near, far } = &pair;
    for number in [0, 1] {
        lend(near, number);
        write_long(near, 7 + number, number as u16);
    }
    (0..50).for_each(|_| _ = near.pump());
    assert!(near.has_output(), "the payload fills the connection");
    write(near, Head::cancel(call(8)), None);
    write(near, Head::cancel(call(7)), None);
    write(near, Head::oneway(1, 0), None);

    let (mut kinds, mut regions, mut named) = (Vec::new(), Vec::new(), Vec::new());
    while kinds.last() != Some(&FrameKind::Oneway) {
        hear_all(&pair, |head| {
            match head.kind {
                FrameKind::Slab => {
                    let segments = far.drain().unwrap().segments;
                    regions.extend(segments.into_iter().map(|each| each.open().unwrap()));
                }
                FrameKind::Call => {
                    let word = |flag| head.flags.offset_of(flag).map(|at| at as usize);
                    let payload = far.payload();
                    assert_eq!(word(Flags::DEADLINE).map(|at| payload.read_word(at)), Some(0));
                    let placed = Placed::from_u64(payload.read_word(word(Flags::PLACED).unwrap()));
                    named.push((head.call.index(), placed.len as usize));
                }
                _ => {}
            }
            kinds.push(head.kind);
        });
    }
    kinds.retain(|kind| *kind != FrameKind::Slab);
    let [call, cancel] = [FrameKind::Call, FrameKind::Cancel];
    assert_eq!(kinds, [call, call, cancel, cancel, FrameKind::Oneway]);
    let came = [came(&regions[0]), came(&regions[1])];
    println!("{kind:?}: {} KiB of the first", came[0] >> 10);
    assert_eq!(named, [(7, came[0]), (8, 0)]);
    assert!(came[0] <= most && came[1] == 0, "{came:?} bytes came over {kind:?}");
}

#[test]
fn a_cancelled_call_sends_no_more_of_its_payload() {
    let _alone = common::alone();
    ends(Kind::Stream, 1 << 20);
    ends(Kind::Tcp, 5 << 20);
}

#[test]
fn a_reply_and_a_cancel_pass_a_long_payload_under_tls() {
    let _alone = common::alone();
    passes(Kind::Tls, 5 << 20);
}
