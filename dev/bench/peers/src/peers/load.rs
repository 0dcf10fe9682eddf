//! Bare loads and copies of memory that another process writes, without a library: the floor of a read. Nothing tells
//! whether a copy of several words is whole.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::KIB;
use crate::run::{LOAD, SHARED};
use crate::values::{NUMBERS, Values};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use upbeat_cli::bench::timing::{Round, Work};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, PAGE, Segment, Writers};

/// The note with the path of the segment.
const NOTE: &str = "load";
/// The first word of the large value.
const BYTES_AT: usize = NUMBERS;

const NO_CALLS: &str = "bare memory has no calls and no messages";

/// Returns the way of bare loads.
pub(super) fn ways() -> Vec<Way> {
    vec![Way {
        peer: LOAD,
        carrier: SHARED,
        mode: Mode::Polling,
        about: "loads of words that another process writes, without a library",
        absent: &[(Op::Null, NO_CALLS), (Op::KiB1, NO_CALLS), (Op::Stream, NO_CALLS)],
        burst: 1,
        open: Open::Pair { serve, call },
    }]
}

struct Owner {
    segment: Segment,
    values: Values,
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let segment = Segment::create("upbeat-bench-peers", PAGE, Writers::Owner)
        .and_then(Segment::reserve)
        .map_err(fault("making a segment"))?;
    let descriptor = segment.descriptor().as_raw_fd();
    place.tell(NOTE, &format!("/proc/{}/fd/{descriptor}", std::process::id()))?;
    Ok(Box::new(Owner { segment, values: Values::default() }))
}

impl Serve for Owner {
    fn round(&mut self, _: Op, _: Work) -> Result<(), Fault> {
        let (values, region) = (self.values.next(), self.segment.region());
        let bytes = values.bytes();
        // The number of the round is the first word of the large value, and is stored last.
        let (head, tail) = bytes.split_at(WORD);
        region.write((BYTES_AT + 1) * WORD, tail);
        let head = head.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        region.publish(BYTES_AT, head);
        for at in (0..NUMBERS).rev() {
            region.publish(at, values.number(at));
        }
        Ok(())
    }
}

struct Reader {
    region: Region,
    values: Values,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let file = File::open(place.told(NOTE)?).map_err(fault("opening the segment"))?;
    let region = segment::open(file.as_fd(), PAGE, Writers::Owner);
    let region = region.map_err(fault("mapping the segment"))?;
    Ok(Box::new(Reader { region, values: Values::default() }))
}

impl Call for Reader {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let (values, region) = (self.values.next(), &self.region);
        let mut found = [0; KIB];
        match op {
            Op::Read => values.read_numbers(work, |at| Ok(region.load(at))),
            Op::ReadKiB1 => values.read_bytes(work, |check| {
                region.read(BYTES_AT * WORD, &mut found);
                check.look(&found);
                Ok(())
            }),
            Op::Null | Op::KiB1 | Op::Stream => Err(unknown(op)),
        }
    }
}
