//! Limits of moving bytes: copies, and messages through shared memory in one direction.

use super::tools::{BULK_BYTES, Limit, RingEnd, Tools};
use crate::bench::error::BenchError;
use crate::bench::ground::{Ground, PROGRESS_LINE};
use crate::bench::pipe::{self, Cut};
use crate::bench::rounds::{Floor, Rate};
use crate::bench::timing::{Round, Shape, Work};
use std::hint::{black_box, spin_loop};
use upbeat_memory::ring::{Refused, span_of};

/// A message kind that differs from the ring's kind of padding.
const KIND: u64 = 1 << 8;
/// The number of messages that the reader takes before it publishes its position.
const DRAIN: u32 = 32;

/// The limits of this module.
pub(super) const LIMITS: &[Limit] = &[
    own_copy::<{ 1 << 10 }>("copy/1KiB", "copy of 1 KiB in one process, in its cache"),
    own_copy::<{ 64 << 10 }>("copy/64KiB", "copy of 64 KiB in one process"),
    own_copy::<{ 1 << 20 }>("copy/1MiB", "copy of 1 MiB in one process"),
    bulk::<{ 64 << 10 }>(
        "ring/64KiB",
        "64 KiB copied into a shared ring and out of it, one way, in words as lanes do",
    ),
    bulk::<{ 1 << 20 }>("ring/1MiB", "the same of 1 MiB"),
    ring::<8>("ring/8B", "messages of 8 bytes through a lane's ring, one way, no library"),
    ring::<64>("ring/64B", "the same of 64 bytes"),
];

const fn own_copy<const BYTES: usize>(case: &'static str, about: &'static str) -> Limit {
    let limit = Limit::alone(case, about, |tools, _, work| {
        let (from, to) = (&tools.from[..BYTES], &mut tools.to[..BYTES]);
        Ok(work.run(|| {
            to.copy_from_slice(black_box(from));
            black_box(&mut *to);
        }))
    });
    Limit { rate: Rate::Bytes(BYTES as u64), ..limit }
}

/// Returns the limit of large messages in bursts of a few, through slots of their size.
const fn bulk<const BYTES: usize>(case: &'static str, about: &'static str) -> Limit {
    let fit = BULK_BYTES / BYTES;
    Limit {
        case,
        about,
        shape: Shape::Bursts(fit as u32),
        floor: Floor::Nothing,
        rate: Rate::Bytes(BYTES as u64),
        client: send_bulk::<BYTES>,
        server: Some(receive_bulk::<BYTES>),
    }
}

fn send_bulk<const BYTES: usize>(
    tools: &mut Tools,
    ground: &mut Ground,
    work: Work,
) -> Result<Round, BenchError> {
    pipe::send(&tools.bulk, Cut::of(BULK_BYTES, BYTES, 1), &tools.from, ground, work)
}

fn receive_bulk<const BYTES: usize>(
    tools: &mut Tools,
    ground: &mut Ground,
    work: Work,
) -> Result<(), BenchError> {
    pipe::copy_out(&tools.bulk, Cut::of(BULK_BYTES, BYTES, 1), &mut tools.to, ground, work);
    Ok(())
}

/// Returns the limit of small messages in long bursts, through the ring of lanes.
const fn ring<const BYTES: usize>(case: &'static str, about: &'static str) -> Limit {
    Limit {
        case,
        about,
        shape: Shape::Bursts(16_384),
        floor: Floor::Nothing,
        rate: Rate::Operations,
        client: send_small::<BYTES>,
        server: Some(receive_small::<BYTES>),
    }
}

fn send_small<const BYTES: usize>(
    tools: &mut Tools,
    ground: &mut Ground,
    work: Work,
) -> Result<Round, BenchError> {
    let RingEnd::Writer(writer) = &tools.ring else {
        return Err(BenchError::protocol("the second process does not write the ring"));
    };
    let theirs = &ground.theirs;
    let progress = || theirs.load(PROGRESS_LINE);
    let message = [7u8; BYTES];
    work.try_bursts(|messages| {
        for _ in 0..messages {
            let mut claim = loop {
                match writer.claim(span_of(BYTES), 0, progress) {
                    Ok(claim) => break claim,
                    Err(Refused::Full) => spin_loop(),
                    Err(other) => {
                        return Err(BenchError::protocol(format!("the ring refused: {other:?}")));
                    }
                }
            };
            claim.write(0, &message);
            claim.commit([KIND, 0, 0], BYTES);
        }
        while progress() != writer.out() {
            spin_loop();
        }
        Ok(())
    })
}

fn receive_small<const BYTES: usize>(
    tools: &mut Tools,
    ground: &mut Ground,
    work: Work,
) -> Result<(), BenchError> {
    let RingEnd::Reader(reader) = &tools.ring else {
        return Err(BenchError::protocol("the first process does not read the ring"));
    };
    let mut left = work.total();
    let mut message = [0u8; BYTES];
    while left > 0 {
        let mut drained = 0;
        while drained < DRAIN {
            match reader.look() {
                Ok(Some(_)) => {
                    reader.read(0, &mut message);
                    black_box(&message);
                    reader.advance();
                    drained += 1;
                }
                Ok(None) => break,
                Err(fault) => return Err(BenchError::protocol(fault.to_string())),
            }
        }
        if drained == 0 {
            spin_loop();
        } else {
            ground.ours.publish(PROGRESS_LINE, reader.consumed());
            left -= u64::from(drained);
        }
    }
    Ok(())
}
