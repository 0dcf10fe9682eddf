use super::*;
use crate::frame::{self, CallNumber};
use crate::limits::{LANE_BYTES_FIRST, SLAB_GENERATION};
use proptest::prelude::*;

fn framed(head: frame::Head) -> [u64; 3] {
    let words = head.words();
    let payload = payload_of(&words) as u32;
    let span = (HEAD_BYTES as u32 + payload).div_ceil(SLOT_BYTES as u32);
    [words[0] | u64::from(span) << SPAN_SHIFT | 0x77, words[1], words[2]]
}

/// Returns one record of every kind with its bytes.
fn samples() -> Vec<(Head, Vec<u8>)> {
    let number = CallNumber::new(3, 9);
    let mut progress = Progress { taken: Some(7), wants_room: true, ..Progress::default() };
    progress.give_back(0, 5);
    progress.give_back(31, u64::MAX);
    let accepted = Progress { accepted: Some(u64::MAX), asks: true, ..Progress::default() };
    let wish = Some(SegmentRequest { each: 512, count: 64 });
    let asking = Progress { wish, answer: Some(false), ..progress };
    let segment = Segment { generation: SLAB_GENERATION + 2, bytes: LANE_BYTES_FIRST as u32 };
    let (at, bytes) = (1 << 29, CHUNK_BYTES_MAX as u32);
    let chunk = Chunk { slab: 31, index: 63, at, bytes, whole: at + bytes };
    let frames = [
        frame::Head::call(4, number, 0),
        frame::Head::reply(number, 105),
        frame::Head::oneway(1, IN_RING_BYTES_MAX as u32),
        frame::Head::goodbye(),
    ];
    let mut samples: Vec<(Head, Vec<u8>)> = Vec::new();
    for head in frames {
        let (words, mut bytes) = (framed(head), Vec::new());
        write_frame(words, &mut bytes);
        let payload = payload_of(&words) as u32;
        let words = [words[0] & !0xff, words[1], words[2]];
        samples.push((Head::Frame { words, payload }, bytes));
    }
    let mut add = |head, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        samples.push((head, bytes));
    };
    add(Head::Padding { span: 59 }, &|out| write_padding(59, out));
    add(Head::Progress(progress), &|out| progress.write(out));
    add(Head::Progress(accepted), &|out| accepted.write(out));
    add(Head::Progress(asking), &|out| asking.write(out));
    add(Head::Segment(segment), &|out| write_segment(segment, out));
    add(Head::Buffer(chunk), &|out| write_chunk(chunk, out));
    add(Head::Refusal { bytes: 99 }, &|out| write_refusal_head(99, out));
    add(Head::End, &write_end);
    let stamps = Timestamps { sent: u64::MAX, echo: 1, heard: 1 << 60 };
    for asks in [false, true] {
        add(Head::Clock { asks, stamps }, &|out| write_clock(asks, stamps, out));
    }
    samples
}

#[test]
fn records_are_read_as_they_were_written() {
    for (head, bytes) in samples() {
        assert_eq!(parse(&bytes), Ok(Parsed::Complete(head, bytes.len())));
        let mut longer = bytes.clone();
        longer.extend_from_slice(&[0xff; 40]);
        assert_eq!(parse(&longer), Ok(Parsed::Complete(head, bytes.len())));
    }
}

#[test]
fn a_frame_of_one_slot_is_written_as_any_frame() {
    let payload: Vec<u8> = (1..=112).collect();
    for len in 0..=SLOT_BYTES - HEAD_BYTES {
        let words = framed(frame::Head::oneway(7, len as u32));
        let (mut whole, mut short) = (vec![0xee; 3], vec![0xee; 3]);
        write_frame(words, &mut whole);
        whole.extend_from_slice(&payload[..len]);
        write_short(words, |at| word(&payload, at), &mut short);
        assert_eq!(short, whole, "{len} bytes");
    }
}

#[test]
fn a_part_of_a_record_asks_for_more() {
    for (head, bytes) in samples() {
        for cut in 0..bytes.len() {
            let Ok(Parsed::NeedMore(more)) = parse(&bytes[..cut]) else {
                panic!("{cut} bytes of {head:?}");
            };
            assert!(more > 0 && cut + more <= bytes.len(), "{cut} bytes of {head:?}");
        }
    }
}

#[test]
fn a_field_out_of_its_bounds_breaks_a_rule() {
    let of = |words: &[u64]| {
        let mut bytes = Vec::new();
        words.iter().for_each(|word| push(&mut bytes, *word));
        parse(&bytes).unwrap_err()
    };
    let kind = |kind: u8| u64::from(kind) << KIND_SHIFT;
    assert_eq!(of(&[kind(0x7f)]), Rule::RecordKind { kind: 0x7f });
    assert_eq!(of(&[kind(0x86)]), Rule::RecordKind { kind: 0x86 });
    // The frame takes one slot, and claims none, two or too many.
    for span in [0, 2, 0xffff] {
        let words = [kind(1) | span << SPAN_SHIFT | 8 << LEN_SHIFT, 0, 0];
        assert_eq!(of(&words), Rule::LengthBeyondSpan { len: 8, span: span as u32 });
    }
    let long = IN_RING_BYTES_MAX as u64 + 1;
    let words = [kind(1) | 514 << SPAN_SHIFT | long << LEN_SHIFT, 0, 0];
    assert!(matches!(of(&words), Rule::LengthBeyondMax { .. }));
    assert!(matches!(of(&[kind(1) | 1 << SPAN_SHIFT | 1, 0, 0]), Rule::ReservedBits { .. }));
    assert!(matches!(of(&[kind(PROGRESS) | 1 << 24]), Rule::ReservedBits { .. }));
    // A wish is either granted or declined.
    assert!(matches!(of(&[kind(PROGRESS) | GRANTED | DECLINED]), Rule::ReservedBits { .. }));
    assert!(matches!(of(&[1 << 40]), Rule::ReservedBits { .. }));
    assert!(matches!(of(&[kind(END) | 1 << 32]), Rule::ReservedBits { .. }));
    let segment = [kind(SEGMENT) | 1 << LEN_SHIFT, 1 << 33];
    assert!(matches!(of(&segment), Rule::SegmentSize { .. }));
    let chunk = [kind(BUFFER) | (CHUNK_BYTES_MAX as u64 + 1) << LEN_SHIFT, 0, 1 << 29];
    assert!(matches!(of(&chunk), Rule::RecordTooLong { .. }));
    assert!(matches!(of(&[kind(BUFFER), 0, 8]), Rule::RecordTooLong { len: 0, .. }));
    let beyond = [kind(BUFFER) | 8 << LEN_SHIFT, 2 << LEN_SHIFT, 9];
    assert_eq!(of(&beyond), Rule::StrayBuffer { slab: 0, index: 0 });
    let endless = [kind(BUFFER) | 8 << LEN_SHIFT, 0, 1 << 40];
    assert_eq!(of(&endless), Rule::StrayBuffer { slab: 0, index: 0 });
    assert!(matches!(of(&[kind(REFUSAL) | 5000 << LEN_SHIFT]), Rule::RecordTooLong { .. }));
}

proptest! {
    /// No bytes make the parser panic, wait for more than a head, or read what has not come.
    #[test]
    fn any_bytes_give_a_record_or_a_rule(
        kind in any::<u8>(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut bytes = bytes;
        if let Some(byte) = bytes.get_mut(1) {
            *byte = kind;
        }
        match parse(&bytes) {
            Ok(Parsed::Complete(_, len)) => prop_assert!(len <= bytes.len() && len > 0),
            Ok(Parsed::NeedMore(more)) => {
                prop_assert!(more > 0 && bytes.len() + more <= PROGRESS_BYTES_MAX);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn progress_is_read_as_it_was_written(
        taken in prop::option::of(any::<u64>()),
        accepted in prop::option::of(any::<u64>()),
        wants_room: bool,
        wish in prop::option::of(any::<u64>()),
        answer in prop::option::of(any::<bool>()),
        returned in prop::collection::vec((0..SLABS_MAX, any::<u64>()), 0..40),
    ) {
        let wish = wish.map(SegmentRequest::from_u64);
        let mut progress =
            Progress { taken, accepted, wants_room, wish, answer, ..Progress::default() };
        returned.into_iter().for_each(|(slab, word)| progress.give_back(slab, word));
        let mut bytes = Vec::new();
        progress.write(&mut bytes);
        prop_assert!(bytes.len() <= PROGRESS_BYTES_MAX);
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Complete(Head::Progress(progress), bytes.len())));
    }
}
